"""`walrow apply`: keeps a Delta or Iceberg table as a table of a log, with Spark."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, NoReturn, Self

import click

from walrow._lsn import Lsn
from walrow.cli.arguments import LSN_OR_TIME, TEXT, library_option, pairs
from walrow.cli.source import is_quiet, quiet
from walrow.cli.terminal import count, say
from walrow.errors import ApplyError, Error

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping
    from types import TracebackType

    from walrow._apply.items import Applied


class _Lsn(click.ParamType[Lsn]):
    """An LSN."""

    name = "lsn"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Lsn:
        """Refuses times, and other text."""
        found: Lsn | dt.datetime = LSN_OR_TIME.convert(value, param, ctx)
        if not isinstance(found, Lsn):
            self.fail(f"{value} is not an LSN, such as 0/1A2B3C", param, ctx)
        return found


_LSN = _Lsn()


@click.command()
@click.option(
    "--log",
    "directory",
    required=True,
    metavar="DIR",
    help="The log.",
)
@click.option(
    "--table", required=True, type=TEXT, metavar="T", help="The table: public.orders."
)
@click.option(
    "--target",
    required=True,
    type=TEXT,
    metavar="TARGET",
    help="delta:PATH, delta:NAME or iceberg:NAME. It is created if it is missing.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    type=TEXT,
    metavar="COLUMN",
    help="A column of the key. Default: the replica identity. Repeatable.",
)
@click.option(
    "--deletes",
    type=click.Choice(("apply", "soft", "ignore")),
    default="apply",
    show_default=True,
    help="What deletes do: remove rows, mark them, or nothing.",
)
@click.option(
    "--truncates",
    type=click.Choice(("apply", "error", "ignore")),
    default="apply",
    show_default=True,
    help="What truncates do.",
)
@click.option(
    "--never-sent",
    type=click.Choice(("error", "null")),
    default="error",
    show_default=True,
    help="What happens if a new row has a value that was never sent.",
)
@click.option(
    "--partition-by",
    multiple=True,
    type=TEXT,
    metavar="COLUMN",
    help="Of a new target. Repeatable.",
)
@click.option(
    "--cluster-by",
    multiple=True,
    type=TEXT,
    metavar="COLUMN",
    help="Of a new target. Repeatable.",
)
@click.option(
    "--end", type=_LSN, metavar="LSN", help="Apply up to here. Default: all of the log."
)
@click.option(
    "--resume-from",
    type=_LSN,
    metavar="LSN",
    help="The LSN up to which the target has all changes. Used only if the target is refused "
    "otherwise, and once with --every.",
)
@click.option(
    "--every",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Apply again and again, with this pause, until it is stopped. It goes on if other "
    "writers were first.",
)
@click.option(
    "--conf",
    "settings",
    multiple=True,
    type=TEXT,
    metavar="NAME=VALUE",
    help="A setting of Spark, such as spark.jars.packages. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="Print what was done as JSON.")
@library_option("columns", "Only this column. Repeatable.", metavar="COLUMN")
@library_option(
    "types",
    "The Arrow type for a column or a PostgreSQL type: total=float64. Repeatable.",
    metavar="COLUMN=TYPE",
)
@library_option(
    "unrepresentable",
    "The policy for values that the Arrow type cannot hold: error (the default) or null, "
    "for one column or all. Repeatable.",
    metavar="[COLUMN=]POLICY",
)
@quiet
def apply(
    *,
    directory: str,
    keys: tuple[str, ...],
    every: float | None,
    settings: tuple[str, ...],
    as_json: bool,
    table: str,
    **options: Any,
) -> None:
    """Applies the changes of a table to a Delta or Iceberg table, exactly once.

    The target records how far it is. Run the command again after a crash, or whenever you
    like. Spark's own settings apply, such as spark-defaults.conf and --conf.
    """
    from walrow.spark.applying import apply_changes
    from walrow.spark.schemas import require

    require("pyarrow", "pyspark")
    given = pairs("--conf", settings)

    def one(spark: Any) -> Applied:
        return apply_changes(
            spark,
            directory,
            table=int(table) if table.isdecimal() else table,
            keys=keys or None,
            **options,
        )

    from walrow.spark.apply_failures import spark_errors

    spark = None
    with _Interrupts() as interrupts:
        try:
            spark = _started(given)
            interrupts.started()
            while True:
                try:
                    done = one(spark)
                except ApplyError as error:
                    if every is None or error.code != "conflict":
                        raise
                    say(f"walrow: {error}: the next attempt is in {every:g} seconds")
                else:
                    _show(done, as_json=as_json)
                    if done.token is not None:
                        # From now on, a target without its record was set back.
                        options["resume_from"] = None
                interrupts.check()
                if every is None:
                    return
                time.sleep(every)
        except spark_errors() as error:
            interrupts.check()
            raise _failure(error, spark, options["target"]) from None
        finally:
            if spark is not None:
                # After an interruption, or without Java, it can fail.
                with contextlib.suppress(Exception):
                    spark.stop()


def _started(settings: Mapping[str, str]) -> Any:
    from pyspark.sql import SparkSession

    # Otherwise, executors on this machine take the first Python of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("walrow apply")
    for name, value in settings.items():
        builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except BaseException as error:
        _end_java(error)
        raise


def _show(done: Applied, *, as_json: bool) -> None:
    if as_json:
        found = done._asdict() | {"start": str(done.start), "end": str(done.end)}
        found["token"] = None if done.token is None else json.loads(done.token)
        click.echo(json.dumps(found))
    elif not is_quiet():
        what = count(done.net_rows, "row") if done.committed else "nothing new"
        say(f"walrow: {what}, {done.target} is at {done.end}")


class _Interrupts:
    """Makes Ctrl-C a KeyboardInterrupt in the end, whatever Spark makes of it.

    Py4J logs it and may raise another error instead, and errors may be suppressed.
    While Spark starts, its own handler may get it: then only the wakeup descriptor
    shows it.
    """

    def __init__(self) -> None:
        """Has seen none."""
        self._came = False
        self._before: Any = None
        self._wakeup = -1
        self._is_main = threading.current_thread() is threading.main_thread()
        self._reader, self._writer = socket.socketpair()

    def __enter__(self) -> Self:
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        if self._is_main:
            self._before = signal.getsignal(signal.SIGINT)
            self._take()
            descriptor = self._writer.fileno()
            self._wakeup = signal.set_wakeup_fd(descriptor, warn_on_full_buffer=False)
        # Py4J logs tracebacks of interruptions.
        logging.disable(logging.CRITICAL)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._is_main:
            signal.set_wakeup_fd(self._wakeup)
            signal.signal(signal.SIGINT, self._before)
        logging.disable(logging.NOTSET)
        try:
            self.check()
        finally:
            self._reader.close()
            self._writer.close()

    def started(self) -> None:
        """Takes the place of the handler that Spark has installed when it started."""
        self._take()
        logging.disable(logging.NOTSET)
        self.check()

    def check(self) -> None:
        """Raises a KeyboardInterrupt if there was one."""
        with contextlib.suppress(BlockingIOError):
            self._came |= signal.SIGINT in self._reader.recv(4096)
        if self._came:
            raise KeyboardInterrupt

    def _take(self) -> None:
        if self._is_main:
            is_ignored = self._before is signal.SIG_IGN
            handler: Any = signal.SIG_IGN if is_ignored else self._interrupt
            signal.signal(signal.SIGINT, handler)

    def _interrupt(self, _number: int, _frame: object) -> NoReturn:
        self._came = True
        logging.disable(logging.CRITICAL)
        raise KeyboardInterrupt


def _end_java(error: BaseException) -> None:
    """Ends Java, if PySpark was interrupted while it waited for it. It would stay for ever."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        process = frame.f_locals.get("proc")
        if isinstance(process, subprocess.Popen):
            process.terminate()


def _failure(error: Exception, spark: Any, target: str) -> Error:
    """Spark's error, without its text: that may have values of rows.

    Args:
        error: The error.
        spark: The session. None if it was not started.
        target: The target.
    """
    condition, kinds = _condition(error), _kinds(error)
    name = f"{condition} ({kinds[0]})" if condition else kinds[0]
    if spark is None:
        hint = "Spark does not start: see above what it says"
    elif _lacks_format(spark, target, condition, kinds):
        return Error(f"Spark: {name}; {_setup(target)}")
    else:
        hint = "its text may have values of rows: walrow.spark.apply_changes raises it whole"
    return Error(f"Spark: {name}; {hint}")


def _condition(error: Exception) -> str | None:
    """The name of Spark's error condition, which has no values."""
    for owner in (error, getattr(error, "java_exception", None)):
        for name in ("getCondition", "getErrorClass"):
            # Not all of Java's exceptions have one, and Java may be gone.
            with contextlib.suppress(Exception):
                if found := getattr(owner, name)():
                    return str(found)
    return None


def _kinds(error: Exception) -> list[str]:
    """The class of an error, and in Java of its causes. The first is the best one."""
    found: list[str] = []
    with contextlib.suppress(Exception):
        cause: Any = getattr(error, "java_exception", None) or error._origin  # type: ignore[attr-defined]
        while cause is not None and len(found) < _CAUSES:
            found.append(str(cause.getClass().getName()))
            cause = cause.getCause()
    return found or [type(error).__name__]


def _lacks_format(
    spark: Any, target: str, condition: str | None, kinds: list[str]
) -> bool:
    """Whether Spark has not what the target's format needs."""
    kind, _, place = target.partition(":")
    with contextlib.suppress(Exception):
        if kind == "delta":
            extensions = spark.conf.get("spark.sql.extensions", "") or ""
            is_set = _DELTA in extensions
        else:
            catalog = place.partition(".")[0].strip("`")
            is_set = bool(spark.conf.get(f"spark.sql.catalog.{catalog}", ""))
        # Its settings may be there, and its jar not.
        return (
            not is_set
            or condition in _UNKNOWN
            or any(it.endswith(_NO_CLASS) for it in kinds)
        )
    return False


def _setup(target: str) -> str:
    kind, _, place = target.partition(":")
    if kind == "delta":
        return (
            "Delta needs its jar, --conf spark.jars.packages=io.delta:delta-spark_..., "
            f"--conf spark.sql.extensions={_DELTA} and --conf "
            "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
        )
    from walrow.spark.targets.iceberg import EXTENSIONS

    catalog = place.partition(".")[0].strip("`")
    return (
        "Iceberg needs its jar, --conf spark.jars.packages=org.apache.iceberg:"
        f"iceberg-spark-runtime-..., --conf spark.sql.extensions={EXTENSIONS} and --conf "
        f"spark.sql.catalog.{catalog}=org.apache.iceberg.spark.SparkCatalog with its settings"
    )


_CAUSES = 10
_DELTA = "io.delta.sql.DeltaSparkSessionExtension"
_NO_CLASS = ("ClassNotFoundException", "NoClassDefFoundError")
_UNKNOWN = {
    "DATA_SOURCE_NOT_FOUND",
    "PARSE_SYNTAX_ERROR",
    "UNSUPPORTED_FEATURE.TABLE_OPERATION",
}
