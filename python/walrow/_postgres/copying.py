"""Copies published tables in a snapshot: what a load consists of."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import psycopg
from psycopg import errors, pq

from walrow._postgres.failures import SERIALIZATION_FAILURE
from walrow._postgres.hints import Command
from walrow._postgres.published import PublishedTable
from walrow._postgres.server_errors import copy_error, replication_error
from walrow._waiting import READ, Waiter
from walrow.errors import ConnectionLostError, Error


class Piece(NamedTuple):
    """The part of a table that one COPY reads: about so many pages. `table` is its number."""

    table: int
    query: str
    pages: int


def lock(
    conns: Sequence[psycopg.Connection[Any]], tables: Sequence[PublishedTable]
) -> None:
    """Keeps tables from being truncated, rewritten or altered while they are copied.

    A snapshot does not protect from that: a table that was truncated is empty for older snapshots,
    too. All connections lock at the same time: if somebody waited for the lock of the first one,
    the second one would wait for them.
    """
    quoted = dict.fromkeys(part.quoted for table in tables for part in table.parts)
    if not quoted:
        return
    # LOCK TABLE would need a privilege of the whole table, where one of the columns is enough.
    command = ";".join(f"SELECT FROM ONLY {it} WHERE false" for it in quoted)
    failed = "cannot lock the tables of a load"
    try:
        for conn in conns:
            conn.pgconn.send_query(command.encode())
    except psycopg.Error as error:
        raise replication_error(error, failed, Command.COPY) from error
    for conn in conns:
        with Waiter() as waiter:
            wait = _waits(conn.pgconn, waiter, lambda: False)
            refusal = _finish(conn.pgconn, failed, wait)
        if refusal is not None:
            raise replication_error(refusal, failed, Command.COPY) from None


def altered(
    tables: Sequence[PublishedTable], later: Sequence[PublishedTable]
) -> list[str]:
    """The names of tables that have other definitions or files later. They may have grown."""

    def definition(table: PublishedTable) -> PublishedTable:
        parts = [part._replace(pages=0) for part in table.parts]
        return table._replace(parts=parts, filters=[])

    now = {table.oid: definition(table) for table in later}
    return [it.name for it in tables if now.get(it.oid) != definition(it)]


def refusals(
    conn: psycopg.Connection[Any], tables: Sequence[PublishedTable]
) -> dict[str, Error]:
    """Why the server refuses to copy tables, by name, as far as it shows that before a row."""
    found: dict[str, Error] = {}
    for piece in pieces_of(tables):
        name = tables[piece.table].name
        if name in found:
            continue
        try:
            # That plans the query and checks the role's privileges.
            conn.execute(f"EXPLAIN {piece.query}".encode())
        except psycopg.Error as error:
            if error.sqlstate is None:
                raise
            refusal = copy_error(error, "its rows cannot be copied")
            found[name] = refusal
            if was_busy(refusal):
                # Others may be locked, too.
                break
    return found


def was_busy(failure: BaseException) -> bool:
    """Whether a table was locked by another session, or changed or dropped while a load began."""
    found = getattr(failure, "sqlstate", None)
    return found in {"55P03", "40P01", "42P01", SERIALIZATION_FAILURE}


def pieces_of(tables: Sequence[PublishedTable]) -> list[Piece]:
    """The pieces, the largest first, so that all connections end at about the same time."""
    pieces = []
    for number, table in enumerate(tables):
        wanted = " OR ".join(f"({it})" for it in table.filters)
        for part in table.parts:
            for range_ in _ranges(part.pages):
                conditions = [f"({it})" for it in (range_, wanted) if it]
                where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
                columns = ", ".join(it.quoted for it in table.columns)
                # The server has quoted all names, and written the filters.
                query = f"SELECT {columns} FROM ONLY {part.quoted}{where}"  # noqa: S608
                size = min(part.pages, _PIECE_PAGES)
                pieces.append(Piece(number, query, size))
    return sorted(pieces, key=lambda piece: -piece.pages)


def _ranges(pages: int) -> list[str]:
    """Conditions that divide a table. Together they have all rows, whatever its size is."""
    starts = range(0, max(1, pages), _PIECE_PAGES)
    return [
        " AND ".join(
            [f"ctid >= '({start},0)'"] * (start > 0)
            + [f"ctid < '({start + _PIECE_PAGES},0)'"] * (start != starts[-1])
        )
        for start in starts
    ]


def copy(
    conn: psycopg.Connection[Any],
    piece: Piece,
    *,
    binary: bool,
    take: Callable[[bytes], None],
    waiter: Waiter,
    is_stopped: Callable[[], bool],
) -> None:
    """Copies a piece. `take` gets whole rows, about 1 MiB at once. A stop wakes the `waiter`.

    It raises `Stopped` if it was given up.
    """
    pgconn = conn.pgconn
    wait = _waits(pgconn, waiter, is_stopped)
    form = "BINARY" if binary else "TEXT"
    failed = "cannot copy a table"
    try:
        pgconn.send_query(f"COPY ({piece.query}) TO STDOUT (FORMAT {form})".encode())
        while pgconn.flush():
            wait()
        result = _result(pgconn, wait)
        if result is not None and result.status == pq.ExecStatus.COPY_OUT:
            pgconn.nonblocking = 1
            _drain(pgconn, take, wait)
            result = None
    except psycopg.Error as error:
        raise ConnectionLostError(f"{failed}: the connection broke") from error
    if (refusal := _finish(pgconn, failed, wait, result)) is not None:
        if refusal.sqlstate == "22P05":
            encoding = pgconn.parameter_status(b"server_encoding") or b""
            failed += f" in {encoding.decode()}"
        raise copy_error(refusal, failed) from None


def _finish(
    pgconn: Any, failed: str, wait: Callable[[], None], last: Any = None
) -> psycopg.Error | None:
    """Takes the results of a command. Returns the server's error if it failed."""
    try:
        while (result := _result(pgconn, wait)) is not None:
            last = result
    except psycopg.Error as error:
        raise ConnectionLostError(f"{failed}: the connection broke") from error
    if last is None:
        raise ConnectionLostError(f"{failed}: the server sent no result")
    if last.status in {pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK}:
        return None
    return errors.error_from_result(last)


class Stopped(Exception):  # noqa: N818
    """A load was given up."""


def _result(pgconn: Any, wait: Callable[[], None]) -> Any:
    while pgconn.is_busy():
        wait()
    return pgconn.get_result()


def _waits(
    pgconn: Any, waiter: Waiter, is_stopped: Callable[[], bool]
) -> Callable[[], None]:
    """A function that waits for the socket and reads from it, unless the load is stopped."""

    def wait() -> None:
        if is_stopped():
            raise Stopped
        waiter.watch(pgconn.socket, READ)
        waiter.wait(time.monotonic() + _POLL_SECONDS)
        pgconn.consume_input()

    return wait


def _drain(
    pgconn: Any, take: Callable[[bytes], None], wait: Callable[[], None]
) -> None:
    block = bytearray()
    while True:
        # This runs for every row: as little as possible.
        for size, payload in map(pgconn.get_copy_data, itertools.repeat(1)):
            if size <= 0:
                break
            block += payload
            if len(block) >= _BLOCK_BYTES:
                take(bytes(block))
                block.clear()
        if size < 0:
            break
        wait()
    if block:
        take(bytes(block))


#: 128 MiB of 8 KiB pages: a few seconds for one connection.
_PIECE_PAGES = 16_384
_BLOCK_BYTES = 1 << 20
_POLL_SECONDS = 0.5
