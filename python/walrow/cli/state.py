"""`walrow state`: writes the rows of a table of a log."""

from __future__ import annotations

import datetime as dt
import sys
from typing import Unpack

import click

from walrow._lsn import Lsn
from walrow._results import counted
from walrow.cli.arguments import LSN_OR_TIME, TEXT, library_option
from walrow.cli.decode import Counted, prepared, to_output, write
from walrow.cli.places import resolved
from walrow.cli.source import note, quiet
from walrow.log import Log
from walrow.typing import StateOptions


@click.command()
@click.argument("directory", metavar="LOG")
@click.option(
    "--table",
    required=True,
    type=TEXT,
    metavar="TABLE",
    help="The table: orders, public.orders.",
)
@click.option(
    "--as-of",
    type=LSN_OR_TIME,
    metavar="LSN|TIME",
    help="The table after the transactions up to this LSN, or before the first one that was "
    "committed after this time. Default: all of the log.",
)
@library_option("columns")
@library_option("profile")
@to_output
@quiet
@library_option("types")
@library_option("unrepresentable")
def state(
    *,
    directory: str,
    table: str,
    as_of: Lsn | dt.datetime | None,
    to: str,
    form: str | None,
    **options: Unpack[StateOptions],
) -> None:
    """Writes the rows of a table, as of an LSN or a time.

    They follow from the last complete load of the table in LOG, and the changes after it.
    A table that was never loaded begins empty.

    An error leaves no new file. Exit codes: 0, 1 for an error, 2 for a usage error, 129,
    130 and 143 after a signal.
    """
    form = prepared(to, form, options)
    name = int(table) if table.isdecimal() else table
    log = Log(directory)
    reader = log.state(name, as_of=resolved(log._log, "--as-of", as_of), **options)
    batches = Counted(reader)
    write(to, form, batches, one_schema=True)
    if not (to == "-" and sys.stdout.isatty()):
        note(f"walrow: {counted(batches.rows, 'row')} as of {reader.position}")
