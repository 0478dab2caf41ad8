"""`walrow apply` with Spark: a session, interruptions that Spark hides, and errors without values."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, NoReturn, Self

from walrow._apply.items import Applied
from walrow.errors import Error


@contextlib.contextmanager
def applier(
    settings: Mapping[str, str], target: str
) -> Iterator[tuple[Callable[..., Applied], Callable[[], None]]]:
    """A function that applies with a session, and one that raises interruptions.

    Raises:
        Error: Spark does not start, or a call fails in Spark.
    """
    from walrow.spark.apply_failures import spark_errors
    from walrow.spark.modes import apply_changes
    from walrow.spark.schemas import require

    require("pyarrow", "pyspark")
    spark = None
    with _Interrupts() as interrupts:
        try:
            spark = _started(settings)
            interrupts.started()

            def apply(log: str, **options: Any) -> Applied:
                return apply_changes(spark, log, **options)

            yield apply, interrupts.check
        except spark_errors() as error:
            interrupts.check()
            raise without_text(error, spark, target) from None
        finally:
            if spark is not None:
                # After an interruption, or without Java, it can fail.
                with contextlib.suppress(Exception):
                    spark.stop()


@contextlib.contextmanager
def session(settings: Mapping[str, str]) -> Iterator[Any]:
    """A session for many tables, until the end.

    Raises:
        Error: Spark does not start.
    """
    from walrow.spark.schemas import require

    require("pyarrow", "pyspark")
    try:
        spark = _started(settings)
    except Exception as error:
        raise without_text(error, None, "") from None
    try:
        yield spark
    finally:
        # Java may be gone.
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


def without_text(error: Exception, spark: Any, target: str) -> Error:
    """Spark's error, without its text: that may have values of rows."""
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
