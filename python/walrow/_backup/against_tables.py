"""Compares each table of a log with the recovered server's table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._backup import state_rows
from walrow._backup.against_items import (
    AgainstProgress,
    ComparedTable,
    Difference,
    LeftOut,
    TableResult,
)
from walrow._backup.against_rules import absence, columns_of, unpublished
from walrow._backup.comparing import Buckets, Rows, chosen_buckets, differences
from walrow._backup.scratch_tables import (
    read_buckets,
    read_columns,
    read_key,
    read_rows,
    read_tables,
)
from walrow._postgres.connecting import psycopg_or_refuse
from walrow.errors import DecodeError, LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg

    from walrow._backup.scratch_server import ScratchServer
    from walrow._backup.scratch_tables import Column, ScratchTable
    from walrow._core import Reader
    from walrow._log.items import LogTable
    from walrow._log.published import Published
    from walrow._lsn import Lsn
    from walrow.log import Log

__all__ = ["ComparedTables", "Sides", "compare"]


class Sides(NamedTuple):
    """Both sides of a comparison.

    Attributes:
        log: The log.
        record: Its record of the published tables.
        server: The server.
        conn: A connection to it.
        lsn: The LSN of both.
        has_money: Whether the text of money is as on the backup's server.
    """

    log: Log
    record: Published
    server: ScratchServer
    conn: psycopg.Connection[Any]
    lsn: Lsn
    has_money: bool


class ComparedTables(NamedTuple):
    """The results of a comparison.

    Attributes:
        tables: The tables of both.
        missing: Names of tables that only the log has.
        dropped: Names of the dropped tables.
        backed_up: All tables of the server.
    """

    tables: list[ComparedTable]
    missing: list[str]
    dropped: list[str]
    backed_up: dict[int, ScratchTable]


def compare(
    sides: Sides,
    chosen: Sequence[LogTable],
    tell: Callable[[AgainstProgress], None],
) -> ComparedTables:
    """Compares tables.

    Args:
        sides: Both sides.
        chosen: The tables of the log.
        tell: Is called before each table, and at the end.

    Raises:
        LogError: The log is damaged.
        BackupError: The server has ended.
    """
    found = ComparedTables([], [], [], read_tables(sides.conn))
    published = sides.record.tables
    names = {it.name for it in found.backed_up.values()}
    for done, table in enumerate(chosen):
        tell(AgainstProgress("compare", done, len(chosen), table.name))
        backed_up = found.backed_up.get(table.oid)
        if backed_up is not None:
            found.tables.append(_compare_table(sides, table, backed_up))
            continue
        is_later = not _is_known(sides, table)
        is_replaced = any(version.name in names for version in table.versions)
        kind = absence(table.oid, published, is_later=is_later, is_replaced=is_replaced)
        if kind != "later":
            absent = found.missing if kind == "missing" else found.dropped
            absent.append(table.name)
    tell(AgainstProgress("compare", len(chosen), len(chosen)))
    return found


def _is_known(sides: Sides, table: LogTable) -> bool:
    """Whether the log has anything of a table at the LSN."""
    if not table.versions:
        return table.oid in (sides.record.tables or ())
    try:
        sides.log.state(table.oid, as_of=sides.lsn).close()
    except LogError as error:
        return error.code != "too_early"
    return True


def _compare_table(
    sides: Sides, table: LogTable, backed_up: ScratchTable
) -> ComparedTable:
    made = partial(ComparedTable, backed_up.name, table.oid)
    reason = unpublished((sides.record.tables or {}).get(table.oid))
    if backed_up.persistence == "u":
        reason = "it is unlogged, so a backup has no rows of it"
    if backed_up.is_foreign:
        reason = "a partition is a foreign table, whose server is not asked"
    if reason is None and not table.versions:
        reason = table.needs_load or "it has no change in the log"
    if reason is not None:
        return made("not comparable", reason)
    psycopg = psycopg_or_refuse()
    try:
        return _compare_rows(sides, table, backed_up, made)
    except psycopg.Error as error:
        sides.server.check()
        result, reason = _unread(error)
        return made(result, reason)
    except LogError as error:
        if error.code not in _WITHOUT_ROWS:
            raise
        return made("not comparable", error.reason)
    except DecodeError as error:
        return made("not comparable", error.reason)


def _compare_rows(
    sides: Sides,
    table: LogTable,
    backed_up: ScratchTable,
    made: Callable[..., ComparedTable],
) -> ComparedTable:
    state, names = _open_state(sides, table)
    columns, out = columns_of(
        names, read_columns(sides.conn, table.oid), has_money=sides.has_money
    )
    primary = read_key(sides.conn, table.oid)
    without: set[str] = set()
    while True:
        compared = [column.name for column in columns]
        key = primary if set(primary) <= set(compared) else ()
        try:
            mine = state_rows.state_buckets(state, compared, key)
            break
        except DecodeError as error:
            if error.column not in compared:
                raise
            without.add(error.column)
            out.append(LeftOut(error.column, "the log has a value without a text"))
            columns = [it for it in columns if it.name != error.column]
            state = _state(sides, table, [it for it in names if it not in without])
    by_name = {column.name: column for column in columns}
    backup = _Server(sides.conn, backed_up, columns, [by_name[it] for it in key])
    rows = backup.buckets()
    if state is None and rows.rows:
        text = "the log has its rows only from a later LSN on: load the table"
        return made("not comparable", text, backup_rows=rows.rows)
    made = partial(
        made,
        key=key,
        backup_rows=rows.rows,
        log_rows=mine.rows,
        left_out=tuple(out),
    )
    differing = mine.differing(rows)
    if not differing:
        return made("equal")
    buckets = chosen_buckets(differing, mine, rows, _MOST_ROWS)
    chosen = [it for it in names if it not in without] if without else None
    again = None if state is None else _state(sides, table, chosen)
    found = differences(
        state_rows.state_rows(again, compared, key, set(buckets)), backup.rows(buckets)
    )
    return made(
        "different",
        differences=tuple(
            Difference(
                it.kind,
                None if it.key is None else dict(zip(key, it.key, strict=True)),
                it.rows,
            )
            for it in found[:_MOST_DIFFERENCES]
        ),
        has_more=len(buckets) < len(differing) or len(found) > _MOST_DIFFERENCES,
    )


def _open_state(sides: Sides, table: LogTable) -> tuple[Reader | None, list[str]]:
    """The rows of the log, and their columns. None if the table was empty: the log began before it."""
    try:
        state = _state(sides, table, None)
    except LogError as error:
        if error.code == "too_early" and table.loaded is None:
            return None, [column.name for column in table.versions[0].columns]
        raise
    return state, state_rows.column_names(state)


def _state(sides: Sides, table: LogTable, columns: Sequence[str] | None) -> Reader:
    return sides.log.state(table.oid, as_of=sides.lsn, profile="text", columns=columns)


class _Server(NamedTuple):
    """A table of the server."""

    conn: psycopg.Connection[Any]
    table: ScratchTable
    columns: list[Column]
    key: list[Column]

    def buckets(self) -> Buckets:
        return read_buckets(self.conn, self.table, self.columns, self.key)

    def rows(self, buckets: Sequence[int]) -> Rows:
        return read_rows(self.conn, self.table, self.columns, self.key, buckets)


def _unread(error: psycopg.Error) -> tuple[TableResult, str]:
    """The result for a table that the server cannot read. The error's message may have a value."""
    message = error.diag.message_primary or ""
    if "$libdir" in message or message.startswith("could not load library"):
        return "not comparable", "the library of an extension is missing in bin_dir"
    name = f"{error.sqlstate or 'no SQLSTATE'} ({type(error).__name__})"
    if (error.sqlstate or "")[:2] in _ABOUT_DATA:
        return "unreadable", f"the server cannot read it: {name}"
    return "not comparable", f"the server did not read it: {name}"


#: A state that the log does not have.
_WITHOUT_ROWS = ("incomplete", "too_early", "not_loaded", "no_table")
#: Classes of SQLSTATE: invalid values, missing files, and what the server calls corrupted.
_ABOUT_DATA = ("22", "58", "XX")
_MOST_ROWS = 200_000
_MOST_DIFFERENCES = 100
