"""`walrow apply`: keeps a Delta or Iceberg table as a table of a log, with Spark."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from walrow.cli.arguments import LSN_OR_TIME, TEXT, library_option, pairs
from walrow.cli.source import is_quiet, quiet
from walrow.cli.terminal import count, say
from walrow.lsn import Lsn

if TYPE_CHECKING:
    import datetime as dt

    from walrow.spark.apply_items import Applied


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
    help="The LSN up to which the target has all changes. Used only if the target does not "
    "record one.",
)
@click.option(
    "--every",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="Apply again and again, with this pause, until it is stopped.",
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
    like. Spark's own settings apply, such as those of spark-defaults.conf, and --conf.
    """
    from walrow.spark.applying import apply_changes
    from walrow.spark.schemas import require

    require("pyarrow", "pyspark")
    from pyspark.sql import SparkSession

    # Otherwise, executors on this machine take the first Python of the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("walrow apply")
    for name, value in pairs("--conf", settings).items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        while True:
            done = apply_changes(
                spark,
                directory,
                table=int(table) if table.isdecimal() else table,
                keys=keys or None,
                **options,
            )
            _show(done, as_json=as_json)
            if every is None:
                return
            time.sleep(every)
    finally:
        spark.stop()


def _show(done: Applied, *, as_json: bool) -> None:
    if as_json:
        found = done._asdict() | {"start": str(done.start), "end": str(done.end)}
        found["token"] = None if done.token is None else json.loads(done.token)
        click.echo(json.dumps(found))
    elif not is_quiet():
        what = count(done.net_rows, "row") if done.committed else "nothing new"
        say(f"walrow: {what}, {done.target} is at {done.end}")
