"""`walrow apply`: keeps a Delta or Iceberg table as a table of a log, with or without Spark."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import time
from typing import TYPE_CHECKING, Any

import click

from walrow._apply.engines import choose
from walrow._lsn import Lsn
from walrow.cli.arguments import LSN_OR_TIME, TEXT, library_option, pairs
from walrow.cli.log_options import SIZE
from walrow.cli.source import is_quiet, quiet
from walrow.cli.terminal import count, say
from walrow.errors import ApplyError, OptionError

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Iterator

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
    "--engine",
    type=click.Choice(("auto", "delta", "spark")),
    default="auto",
    show_default=True,
    help="What writes the target. auto: for delta:PATH, deltalake if it is installed; for others, "
    "and with --conf or --cluster-by, Spark.",
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
@click.option(
    "--memory",
    type=SIZE,
    metavar="SIZE",
    help="Without Spark: about how much memory it takes. Default: 1GiB.",
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
    engine: str,
    keys: tuple[str, ...],
    every: float | None,
    settings: tuple[str, ...],
    as_json: bool,
    table: str,
    **options: Any,
) -> None:
    """Applies the changes of a table to a Delta or Iceberg table, exactly once.

    The target records how far it is. Run the command again after a crash, or whenever you
    like. Delta tables at a path or URL need no Spark. With Spark, its own settings apply, such
    as spark-defaults.conf and --conf.
    """
    options |= {
        "table": int(table) if table.isdecimal() else table,
        "keys": keys or None,
    }
    given = pairs("--conf", settings)
    cluster_by, memory = options.pop("cluster_by"), options.pop("memory")
    of_spark = [
        name
        for name, value in (("--conf", given), ("--cluster-by", cluster_by))
        if value
    ]
    choice = choose(
        engine,
        options["target"],
        of_spark=of_spark,
        has_delta=_is_there("deltalake"),
        has_spark=_is_there("pyspark"),
    )
    if engine == "auto" and not is_quiet():
        say(f"walrow: engine {choice.engine}: {choice.reason}")
    if choice.engine == "spark":
        if memory is not None:
            text = f"only --engine delta has --memory, and the engine is spark: {choice.reason}"
            raise OptionError(text)
        from walrow.cli.apply_spark import applier
        from walrow.spark.applying import check_call

        options["cluster_by"] = cluster_by
        check_call(directory, **options)
        with applier(given, options["target"]) as (one, check):
            _repeat(one, check, directory, options, every=every, as_json=as_json)
        return
    from walrow.delta.applying import apply_changes, require

    require()
    if memory is not None:
        options["memory"] = memory
    with _said():
        _repeat(
            apply_changes,
            lambda: None,
            directory,
            options,
            every=every,
            as_json=as_json,
        )


def _is_there(module: str) -> bool:
    """Whether a module can be imported."""
    try:
        return importlib.util.find_spec(module) is not None
    except ValueError:
        return False


@contextlib.contextmanager
def _said() -> Iterator[None]:
    """Prints what an interruption leaves open."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as interruption:
        for note in getattr(interruption, "__notes__", ()):
            say(f"walrow: {note}")
        raise


def _repeat(
    one: Callable[..., Applied],
    check: Callable[[], None],
    log: str,
    options: dict[str, Any],
    *,
    every: float | None,
    as_json: bool,
) -> None:
    """Applies once, or again and again.

    Args:
        one: Applies.
        check: Raises an interruption that was not seen yet.
        log: The log.
        options: The options of `one`.
        every: The pause in seconds. None for once.
        as_json: Whether results are printed as JSON.
    """
    while True:
        try:
            done = one(log, **options)
        except ApplyError as error:
            if every is None or error.code != "conflict":
                raise
            say(f"walrow: {error}: the next attempt is in {every:g} seconds")
        else:
            _show(done, as_json=as_json)
            if done.token is not None:
                # From now on, a target without its record was set back.
                options["resume_from"] = None
        check()
        if every is None:
            return
        time.sleep(every)


def _show(done: Applied, *, as_json: bool) -> None:
    if as_json:
        found = done._asdict() | {"start": str(done.start), "end": str(done.end)}
        found["token"] = None if done.token is None else json.loads(done.token)
        click.echo(json.dumps(found))
    elif not is_quiet():
        what = count(done.net_rows, "row") if done.committed else "nothing new"
        say(f"walrow: {what}, {done.target} is at {done.end}")
