"""Compares the tables of a server with their states in a log."""

from __future__ import annotations

import json
from collections import Counter
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from psycopg import pq
from psycopg.pq.abc import PGconn

import walrow
from walrow import errors


class Verdict(StrEnum):
    """How a table's state compares with the server's table."""

    EQUAL = "equal"
    REFUSED = "refused without a mark"
    NEEDED = "marked: it would be another"
    NEEDLESS = "marked without need"
    WRONG = "another without a mark"


class Compared(NamedTuple):
    """A table of the server.

    Attributes:
        name: Its name.
        verdict: How its state compares.
        why: Its marks, the error's text, or what differs.
    """

    name: str
    verdict: Verdict
    why: str


def compare(dsn: str, log: Path, *, root: bool) -> list[Compared]:
    """Compares all permanent tables of a database. Accepts all marks of the log.

    Args:
        dsn: The database, as its superuser.
        log: A log with all that is committed there.
        root: Whether the log has partitioned tables instead of partitions, with stored
            generated columns.
    """
    opened = walrow.Log(log)
    marked = {it.oid: it.needs_load for it in opened.tables() if it.needs_load}
    for table in opened.tables():
        for code in {mark.code for mark in table.marks if mark.is_open}:
            opened.accept(table.oid, reason=code.value)
    opened = _Once(log)
    names = {it.oid: it.pair for it in opened.tables()}
    conn = pq.PGconn.connect(f"{dsn} options='{walrow.postgres.options()}'".encode())
    found = []
    sql = _TABLES.replace("{kinds}", _ROOTS if root else "c.relkind = 'r'")
    sql = sql.replace("{generated}", "'', 's'" if root else "''")
    for (row,) in _rows(conn, sql) or ():
        table = json.loads(row or b"")
        if (wanted := _rows(conn, table["query"])) is None:
            # A rule of the suite's refuses to read it.
            continue
        verdict, why = _compared(opened, table, Counter(wanted))
        name = tuple(table["name"])
        if names.get(table["oid"], name) != name:
            verdict, why = Verdict.WRONG, f"it has the name {names[table['oid']]}"
        if (reason := marked.get(table["oid"])) is not None:
            is_needless = verdict is Verdict.EQUAL
            verdict = Verdict.NEEDLESS if is_needless else Verdict.NEEDED
            why = f"{reason} ({why})" if why else reason
        found.append(Compared(".".join(table["name"]), verdict, why))
    return found


class _Once(walrow.Log):
    """A log whose record is read once, and not for each table."""

    def __init__(self, log: Path) -> None:
        super().__init__(log)
        self._read = super()._record()
        self._found = super()._tables(self._read)

    def _record(self) -> Any:
        return self._read

    def _tables(self, _record: object) -> Any:
        return self._found


def _compared(
    log: walrow.Log, table: dict[str, Any], wanted: Counter[tuple[bytes | None, ...]]
) -> tuple[Verdict, str]:
    columns = table["columns"]
    try:
        # By its OID: to look up a name takes longer, the more tables there are.
        state = _state(log, table["oid"])
    except errors.SchemaError as error:
        # The log has no change of it.
        return (Verdict.REFUSED, str(error)) if wanted else (Verdict.EQUAL, "")
    except walrow.Error as error:
        return Verdict.REFUSED, f"{type(error).__name__}: {error}"
    names = state.schema.names
    if not wanted and not state.num_rows:
        return Verdict.EQUAL, ""
    if sorted(names) != sorted(columns):
        return Verdict.WRONG, f"columns {names}, and not {columns}"
    values = [
        [it.encode() if isinstance(it, str) else it for it in state[name].to_pylist()]
        for name in columns
    ]
    found = Counter(zip(*values, strict=True))
    if not columns:
        found[()] = state.num_rows
    if found == wanted:
        return Verdict.EQUAL, ""
    return (
        Verdict.WRONG,
        f"missing {(wanted - found)!r:.300}, more {(found - wanted)!r:.300}",
    )


def _state(log: walrow.Log, oid: int) -> pa.Table:
    types: dict[str, str] = {}
    while True:
        try:
            return log.state(oid, profile="text", types=types).to_pyarrow()
        except errors.UnrepresentableError as error:
            if error.column is None or error.column in types:
                raise
            types[error.column] = "binary"


def _rows(conn: PGconn, sql: str) -> list[tuple[bytes | None, ...]] | None:
    """The rows of a query, as the server writes them. None if it refuses it."""
    result = conn.exec_(sql.encode())
    if result.status != pq.ExecStatus.TUPLES_OK:
        return None
    columns = range(result.nfields)
    return [
        tuple(result.get_value(row, column) for column in columns)
        for row in range(result.ntuples)
    ]


_ROOTS = "c.relkind IN ('r', 'p') AND NOT c.relispartition"
_TABLES = """
SELECT jsonb_build_object(
    'oid', c.oid::bigint,
    'name', jsonb_build_array(n.nspname, c.relname),
    'columns', coalesce(a.names, '[]'),
    'query', format('SELECT %s FROM %s %I.%I', a.columns,
        CASE c.relkind WHEN 'r' THEN 'ONLY' END, n.nspname, c.relname)
)
FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT jsonb_agg(attname ORDER BY attnum) AS names,
        string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS columns
    FROM pg_attribute
    WHERE attrelid = c.oid AND attnum > 0 AND NOT attisdropped
        AND attgenerated IN ({generated})
) a
WHERE {kinds} AND c.relpersistence = 'p'
    AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_t'
ORDER BY n.nspname, c.relname
"""
