"""The oracle: every state is the server's table, or marked, or refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import walrow
from campaign.steps import Fault

if TYPE_CHECKING:
    from campaign.day import Day


Rows = list[tuple[tuple[str, str | None], ...]]


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
    found = day.sql(f"SELECT {chosen} FROM {name} WHERE {where or 'true'}")  # noqa: S608
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


def compare(day: Day) -> None:
    """Compares the state of each published table with the server.

    Raises:
        Fault: A state differs from the server, without a mark or a refusal. Or a state is
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
    before, day.whole = day.whole, set()
    for oid, name, columns, where in published(day):
        hidden, gone = day.erased.get(oid, (set(), set()))
        expected = [
            tuple(pair for pair in row if pair[0] not in hidden)
            for row in server_rows(day, name, columns, where)
            if dict(row).get("id") not in gone
        ]
        try:
            state = log.state(name, profile="text")
            columns_found, rows = state_rows(state, without=hidden)
        except walrow.Error as error:
            if oid in before and not day.is_risky:
                text = f"{name} is refused without need: {error}"
                raise Fault(text) from error
            continue
        rows = [row for row in rows if dict(row).get("id") not in gone]
        wanted = [it for it in columns if it not in hidden]
        if rows == expected and columns_found == wanted:
            if oid not in marks:
                day.whole.add(oid)
        elif oid not in marks and not day.is_partial:
            text = (
                f"{name} is not the server's, and nothing says so: columns "
                f"{columns_found}, server {wanted}; state {rows}, server {expected}"
            )
            raise Fault(text)
    day.is_risky = False
