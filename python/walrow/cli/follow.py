"""`walrow follow`: shows changes as they are committed."""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import click

from walrow import postgres
from walrow._core import Batch
from walrow._late import pa
from walrow._log.following import Follower
from walrow._lsn import Lsn
from walrow._results import Result, result
from walrow._sources.logs import is_named
from walrow.cli import connection
from walrow.cli.arguments import LSN_OR_TIME, TEXT, as_json, pairs, repeatable
from walrow.cli.decode import require_pyarrow
from walrow.cli.places import resolved
from walrow.cli.source import note, quiet
from walrow.cli.stopping import ended_with_its_reader
from walrow.cli.terminal import line_printer, print_json, printable
from walrow.errors import OptionError
from walrow.log import Log
from walrow.typing import ChangesOptions


@click.command()
@click.argument("log", required=False, metavar="[LOG]")
@connection.optional_dsn
@repeatable(
    "--publication",
    "publications",
    metavar="NAME",
    help="With --dsn: a publication. Repeatable. Default: a new one of the tables, which is "
    "dropped at the end.",
)
@repeatable(
    "--table",
    "tables",
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
@as_json("Print one JSON object per line.")
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
        raise click.UsageError("give a LOG, or a server with --dsn")
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
        raise click.UsageError(
            "with --dsn, choose tables with --table, or publications with --publication"
        )
    options: Any = OPTIONS | ({"tables": list(tables)} if tables else {})
    found = postgres.changes(
        dsn or "", publications=publications or None, until=None, **options
    )
    # Changes from before this line are not shown.
    note("walrow: changes that are committed from now on; Ctrl-C ends it")
    return found


def _from_log(
    log: Log, tables: Sequence[str], start: Lsn | dt.datetime | None
) -> Follower:
    known = [(it.oid, *it.pair) for it in log.tables()]
    for table in tables:
        if not any(is_named(table, *each) for each in known):
            names = (
                ", ".join(f"{schema}.{name}" for _, schema, name in known) or "no table"
            )
            note(
                f"walrow: waiting for the first change of {table}; the log has {names}"
            )
    begin = log.end if start is None else resolved(log._log, "--start", start)
    note(f"walrow: changes after {begin}; Ctrl-C ends it")
    options: Any = OPTIONS | {"start": begin}
    if tables:
        options |= {"tables": list(tables), "missing_table": "ignore"}
    return log.follow(**options)


#: How changes are read: all tables in the order of their commits.
OPTIONS: ChangesOptions = {
    "envelope": True,
    "metadata": (
        "change_type",
        "commit_lsn",
        "seq",
        "commit_timestamp",
        "xid",
        "unsent",
        "loaded",
    ),
}


@result
class Change(Result):
    """A change of one row, or a TRUNCATE.

    Attributes:
        change: `insert`, `update`, `delete` or `truncate`.
        seq: The number of the change in its transaction.
        key: The values of the replica identity, after an update. None without one.
        old: The values that the server sent of the row before it.
        new: The values that it sent of the row after it.
        unsent: The columns of the new row whose values it did not send.
        loaded: Whether it is a part of a load.
    """

    table: str
    change: str
    lsn: Lsn
    time: dt.datetime
    xid: int
    seq: int
    key: Mapping[str, str | None] | None
    old: Mapping[str, str | None] | None
    new: Mapping[str, str | None] | None
    unsent: tuple[str, ...]
    loaded: bool


def changes_of(batch: Batch) -> Iterator[Change]:
    """The changes of a batch that was read with `OPTIONS`, in order."""
    old: dict[str, str | None] | None = None
    for row in pa.record_batch(batch).to_pylist():
        kind, data = row["_change_type"], row["data"]
        values = None if data is None else dict(data)
        if kind == "update_preimage":
            # The other image is the next row of the batch.
            old = values
            continue
        is_delete = kind == "delete"
        yield Change(
            table=f"{row['schema_name']}.{row['table_name']}",
            change=kind.removesuffix("_postimage"),
            lsn=Lsn(row["_commit_lsn"]),
            time=row["_commit_timestamp"],
            xid=row["_xid"],
            seq=row["_seq"],
            key=None if row["key"] is None else dict(row["key"]),
            old=values if is_delete else old,
            new=None if is_delete else values,
            unsent=tuple(row["_unsent"] or ()),
            loaded=row["_loaded"],
        )
        old = None


def key_filter(wanted: Mapping[str, str]) -> Callable[[Change], bool]:
    """Chooses the changes of one key: its columns, and their values in PostgreSQL's text.

    A TRUNCATE changes every row. An update to another key belongs to both.

    Raises:
        OptionError: A column is not part of the key, so that old rows may lack it. It is raised
            with the first change.
    """

    def is_chosen(change: Change) -> bool:
        if change.change == "truncate":
            return True
        key = change.key or {}
        for name in wanted:
            if name not in key:
                raise OptionError(
                    f"--where {name}: it is not in the key of {change.table}, which is "
                    f"{', '.join(key) or 'none'}. Only a key is in all rows: name its columns"
                )
        images = [image for image in (change.old, change.new) if image is not None]
        return any(wanted.items() <= image.items() for image in images)

    return is_chosen


def json_line(change: Change) -> None:
    """Prints a change as one JSON object."""
    print_json(change.to_dict())
    sys.stdout.flush()


def text_lines(*, full: bool) -> Callable[[Change], None]:
    """Prints each change as one line, in colour and shortened on a terminal.

    Args:
        full: Whether lines and values are whole on a terminal, too.
    """
    is_terminal = sys.stdout.isatty()
    write = line_printer(whole=full)
    longest = _SHORT if is_terminal and not full else None

    def show(change: Change) -> None:
        word = f"load {change.change}" if change.loaded else change.change
        head = f"{change.time:%Y-%m-%dT%H:%M:%S}Z {change.lsn!s:>12} {word:<8} "
        row = " ".join(_cells(change, longest))
        style = "dim" if change.loaded else _STYLES[change.change]
        write(head, style, f"{printable(change.table)} {row}", False)
        sys.stdout.flush()

    return show


def _cells(change: Change, longest: int | None) -> Iterator[str]:
    old, new = change.old or {}, change.new
    if new is None:
        new, old = old, {}
    for name, value in new.items():
        now = _value(value, longest)
        before = _value(old[name], longest) if name in old else now
        arrow = "" if before == now else f"{before}→"
        yield f"{printable(name)}={arrow}{now}"
    for name in change.unsent:
        yield f"{printable(name)}=(not sent)"


def _value(value: str | None, longest: int | None) -> str:
    """NULL, or the text, in quotes if it could be read as something else."""
    if value is None:
        return "NULL"
    if longest is not None and len(value) > longest:
        value = f"{value[: longest - 1]}…"
    if _PLAIN.fullmatch(value) and value != "NULL":
        return printable(value)
    return printable(json.dumps(value, ensure_ascii=False))


_PLAIN = re.compile(r"[^\s\"'=→()]+")
_SHORT = 40
_STYLES = {"insert": "green", "update": "yellow", "delete": "red", "truncate": "red"}
