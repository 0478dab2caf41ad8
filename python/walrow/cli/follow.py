"""`walrow follow`: shows changes as they are committed."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import click

from walrow import postgres
from walrow._log.following import Follower
from walrow._lsn import Lsn
from walrow._sources.logs import is_named
from walrow.cli import connection
from walrow.cli.arguments import LSN_OR_TIME, TEXT, pairs
from walrow.cli.change_lines import (
    OPTIONS,
    changes_of,
    json_line,
    key_filter,
    text_lines,
)
from walrow.cli.decode import require_pyarrow
from walrow.cli.places import resolved
from walrow.cli.source import is_quiet, quiet
from walrow.cli.stopping import ended_with_its_reader
from walrow.cli.terminal import say
from walrow.log import Log


@click.command()
@click.argument("log", required=False, metavar="[LOG]")
@connection.optional_dsn
@click.option(
    "--publication",
    "publications",
    type=TEXT,
    multiple=True,
    metavar="NAME",
    help="With --dsn: a publication. Repeatable. Default: a new one of the tables, which is "
    "dropped at the end.",
)
@click.option(
    "--table",
    "tables",
    type=TEXT,
    multiple=True,
    metavar="TABLE",
    help="Only this table: orders, public.orders. Repeatable.",
)
@click.option(
    "--where",
    type=TEXT,
    multiple=True,
    metavar="COLUMN=VALUE",
    help="Only rows with this value in a column of the key, as PostgreSQL writes it. Repeatable, "
    "for a key of several columns. Needs one --table.",
)
@click.option(
    "--start",
    type=LSN_OR_TIME,
    metavar="LSN|TIME",
    help="With a LOG: begin after the transactions up to this LSN, or with the first one that was "
    "committed after this time: -5m, today. Default: the end of the log.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option("--full", is_flag=True, help="Do not shorten lines on a terminal.")
@quiet
def follow(
    *,
    log: str | None,
    dsn: str | None,
    publications: tuple[str, ...],
    tables: tuple[str, ...],
    where: tuple[str, ...],
    start: Lsn | dt.datetime | None,
    as_json: bool,
    full: bool,
) -> None:
    """Shows the changes of a log or a server as they are committed, until Ctrl-C.

    A LOG shows them when its receiver has published them. With --dsn, they come through a
    temporary slot, and begin now.

    Each line is one change: the time and the LSN of its commit, the table and the row. Values
    are PostgreSQL's text. An update has old→new where the old value is known.

    With --json, each line contains table, change (insert, update, delete, truncate), lsn, time,
    xid, seq, key (its columns), old and new (an object of texts, or null), unsent (the columns of
    the new row that the server did not send), and loaded (whether it is a part of a load).

    The exit code is 130 after Ctrl-C, 141 if the reader of the output closes it, 143 if it is
    terminated.
    """
    if (log is None) == (dsn is None):
        text = "give a LOG, or a server with --dsn"
        raise click.UsageError(text)
    if where and len(tables) != 1:
        text = "--where is for the key of one table: choose it with --table"
        raise click.UsageError(text)
    chosen = key_filter(pairs("--where", where))
    require_pyarrow()
    show = json_line if as_json else text_lines(full=full)
    found = _source(log, dsn, publications, tables, start)
    with found, ended_with_its_reader():
        for batch in found:
            for change in filter(chosen, changes_of(batch)):
                show(change)


def _source(
    log: str | None,
    dsn: str | None,
    publications: Sequence[str],
    tables: Sequence[str],
    start: Lsn | dt.datetime | None,
) -> Follower | postgres.Changes:
    if log is not None:
        if publications:
            text = "--publication is for --dsn: a log has what its receiver published"
            raise click.UsageError(text)
        return _from_log(Log(log), tables, start)
    if start is not None:
        text = "--start needs a LOG: a temporary slot has only what is committed from now on"
        raise click.UsageError(text)
    if not tables and not publications:
        text = (
            "with --dsn, choose tables with --table, or publications with --publication"
        )
        raise click.UsageError(text)
    options: Any = OPTIONS | ({"tables": list(tables)} if tables else {})
    found = postgres.changes(
        dsn or "", publications=publications or None, until=None, **options
    )
    # Changes from before this line are not shown.
    if not is_quiet():
        say("walrow: changes that are committed from now on; Ctrl-C ends it")
    return found


def _from_log(
    log: Log, tables: Sequence[str], start: Lsn | dt.datetime | None
) -> Follower:
    known = [(it.oid, *it.pair) for it in log.tables()]
    for table in tables:
        if not is_quiet() and not any(is_named(table, *each) for each in known):
            names = (
                ", ".join(f"{schema}.{name}" for _, schema, name in known) or "no table"
            )
            say(f"walrow: waiting for the first change of {table}; the log has {names}")
    begin = log.end if start is None else resolved(log._log, "--start", start)
    if not is_quiet():
        say(f"walrow: changes after {begin}; Ctrl-C ends it")
    options: Any = OPTIONS | {"start": begin}
    if tables:
        options |= {"tables": list(tables), "missing_table": "ignore"}
    return log.follow(**options)
