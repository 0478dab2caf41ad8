"""The oracle: every state is the server's table, or marked, or refused by name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

import walrow
from campaign.grammar import IS_USERS, watch
from campaign.steps import Fault

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from campaign.day import Day


Rows = list[tuple[tuple[str, str | None], ...]]


class Past(NamedTuple):
    """A table at the end of an earlier look, by its name of then."""

    end: walrow.Lsn
    name: tuple[str, str]
    columns: list[str]
    rows: Rows
    #: The OID, its replica identity, and a stamp that moves with it.
    identity: tuple[int, str, str]


def published(day: Day) -> list[tuple[int, str, list[str], str | None]]:
    """The OID, name, columns and row filter of each table that is published."""
    found = day.sql(
        "SELECT format('%I.%I', schemaname, tablename)::regclass::oid, "
        "format('%I.%I', schemaname, tablename), attnames::text[], rowfilter "
        "FROM pg_publication_tables WHERE pubname = 'p' ORDER BY 2"
    )
    return [
        (int(oid), name, list(columns), where) for oid, name, columns, where in found
    ]


def server_rows(day: Day, name: str, columns: list[str], where: str | None) -> Rows:
    """The server's own rows, as text."""
    chosen = ", ".join(f'"{it}"::text' for it in columns)
    # Values of the type regclass have their schemas, as in the stream.
    day.sql("SET search_path = ''")
    found = day.sql(f"SELECT {chosen} FROM {name} WHERE {where or 'true'}")  # noqa: S608
    day.sql("SET search_path = public")
    return sorted((tuple(zip(columns, row, strict=True)) for row in found), key=str)


def state_rows(state: Any, *, without: set[str]) -> tuple[list[str], Rows]:
    """The columns and the rows of a state."""
    found = state.to_pyarrow()
    rows = (
        tuple((key, value) for key, value in row.items() if key not in without)
        for row in found.to_pylist()
    )
    names = [it for it in found.column_names if it not in without]
    return names, sorted(rows, key=str)


def needed(log: walrow.Log) -> dict[int, str]:
    """Why tables need a load, by OID."""
    return {it.oid: it.needs_load for it in log.tables() if it.needs_load is not None}


def users_tables(
    day: Day,
) -> list[tuple[int, str, str, str, list[str], str | None, bool]]:
    """The OID, schema, name, name as SQL, columns and filter of each table, and whether it is published."""
    return day.sql(
        f"SELECT c.oid::bigint, n.nspname, c.relname, format('%I.%I', n.nspname, c.relname), "  # noqa: S608
        "coalesce(p.attnames::text[], (SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute "
        "WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped), '{}'), p.rowfilter, "
        "p.pubname IS NOT NULL FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "LEFT JOIN pg_publication_tables p ON p.pubname = 'p' AND p.schemaname = n.nspname "
        f"AND p.tablename = c.relname WHERE {IS_USERS} ORDER BY 1"
    )


def compare(day: Day) -> None:
    """Compares the state of each table with the server, and its net changes.

    Raises:
        Fault: One differs from the server, without a mark or a refusal. Or a state is
            refused without need.
    """
    try:
        log = walrow.Log(day.log)
        marks = needed(log)
    except walrow.Error:
        if not day.is_risky:
            raise
        day.whole.clear()
        return
    before, day.whole = day.whole | day.born, set()
    is_partial = day.is_partial
    for oid, schema, table, name, columns, where, is_published in users_tables(day):
        if oid in day.blind and not day.is_told:
            continue
        hidden, gone = day.erased.get(oid, (set(), set()))
        expected = [
            tuple(pair for pair in row if pair[0] not in hidden)
            for row in server_rows(day, name, columns, where)
            if dict(row).get("id") not in gone
        ]
        try:
            state = log.state((schema, table), profile="text")
            columns_found, rows = state_rows(state, without=hidden)
        except walrow.Error as error:
            if (
                is_published
                and oid in before
                and not day.is_risky
                and oid not in day.risky
            ):
                text = f"{name} is refused without need: {error}"
                raise Fault(text) from error
            continue
        rows = [row for row in rows if dict(row).get("id") not in gone]
        wanted = [it for it in columns if it not in hidden]
        if rows == expected and columns_found == wanted:
            if oid not in marks and is_published:
                day.whole.add(oid)
                if not gone and not hidden:
                    now = Past(
                        log.end, (schema, table), columns, rows, _identity(day, oid)
                    )
                    _compare_old_rows(log, oid, day.past, now)
                    day.past.append(now)
            if not gone and not hidden:
                _compare_net(log, (schema, table), columns, expected)
        elif not (is_published and is_partial):
            text = (
                f"{name} {'' if is_published else '(not published) '}is not the server's, and nothing says so: columns "
                f"{columns_found}, server {wanted}; state {shown(rows)}, server {shown(expected)}"
            )
            raise Fault(text)
    watch(day, is_look=True)
    day.is_risky = False
    day.risky.clear()
    day.born.clear()


def _identity(day: Day, oid: int) -> tuple[int, str, str]:
    ((identity, stamp),) = day.sql(
        f"SELECT relreplident::text, xmin::text FROM pg_class WHERE oid = {oid}"  # noqa: S608
    )
    return oid, identity, stamp


def _compare_old_rows(
    log: walrow.Log, oid: int, past: Sequence[Past], now: Past
) -> None:
    """Compares the old rows since the last look, if they are whole by REPLICA IDENTITY FULL."""
    same = (now.identity, now.columns)
    before = next((it for it in past[::-1] if (it.identity, it.columns) == same), None)
    if before is None or now.identity[1] != "f":
        return
    known, was = {*before.rows}, dict[str, str | None]()
    for batch in log.read(table=oid, start=before.end, profile="text"):
        for row in pa.record_batch(batch).to_pylist():
            unsent = {it: was.get(it) for it in row["_unsent"] or ()}
            values = tuple((it, (row | unsent).get(it)) for it in now.columns)
            if row["_change_type"] not in {"delete", "update_preimage"}:
                known.add(values)
            elif values not in known:
                text = (
                    f"an old row of {now.name} is {shown([values])}, which no row was"
                )
                raise Fault(text)
            was = dict(values)


def _compare_net(
    log: walrow.Log, table: tuple[str, str], columns: list[str], expected: Rows
) -> None:
    """Compares the net changes from the log's start, if they are not refused."""
    try:
        net = log.net(table, start=0, profile="text").to_pyarrow().to_pylist()
    except walrow.Error:
        return
    kept = [row for row in net if row["_change_type"] in {"insert", "update_postimage"}]
    # Rows without a column that is new are not sent again: it is NULL in them.
    rows = sorted((tuple((it, row.get(it)) for it in columns) for row in kept), key=str)
    if rows != expected:
        text = f"the net of {table} is not the server's, and nothing says so: {shown(rows)}, server {shown(expected)}"
        raise Fault(text)


def shown(rows: Iterable[Any]) -> str:
    """Some rows for a message, with long values cut."""
    first, *more = [*rows] or ["no rows"]
    text = re.sub(
        r"([^' ]{1,12}) ([^']{40,})'", r"\1 ...'", str([first, *more[:_SHOWN]])
    )
    return text if len(more) <= _SHOWN else f"{text} and {len(more) - _SHOWN} more"


_SHOWN = 8
