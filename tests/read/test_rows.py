"""Rows that real drivers return of `pg_logical_slot_peek_binary_changes`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg import rows

import walrow
import walrow.postgres
from rows import outcome
from servers import EmbeddedServer

pytestmark = pytest.mark.live

SETUP = """
DROP TABLE IF EXISTS drivers;
CREATE TABLE drivers (id int PRIMARY KEY, note text, data bytea);
CREATE PUBLICATION drivers FOR TABLE drivers;
"""
CHANGES = (
    "INSERT INTO drivers VALUES (1, 'one', '\\x00ff'), (2, NULL, NULL)",
    "UPDATE drivers SET note = 'zwei' WHERE id = 2",
    "DELETE FROM drivers WHERE id = 1",
)
PEEK = (
    "SELECT {} FROM pg_logical_slot_{}_binary_changes('drivers', NULL, NULL, "
    "'proto_version', '1', 'publication_names', 'drivers')"
)
ALL = PEEK.format("*", "peek")


@pytest.fixture
def conn(server: EmbeddedServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        for statement in SETUP.strip().splitlines():
            conn.execute(statement.encode())
        conn.execute("SELECT pg_create_logical_replication_slot('drivers', 'pgoutput')")
        for change in CHANGES:
            conn.execute(change.encode())
        yield conn
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        conn.execute("SELECT pg_drop_replication_slot('drivers')")
        conn.execute("DROP PUBLICATION drivers")


def test_rows_of_psycopg_are_read(conn: psycopg.Connection[Any]) -> None:
    found = conn.execute(ALL.encode()).fetchall()
    expected = outcome(walrow.read([bytes(row[2]) for row in found]))
    assert sum(len(batch) for batch in walrow.read(found)) == 4
    for factory in (rows.tuple_row, rows.dict_row, rows.namedtuple_row):
        for binary in (False, True):
            cursor: Any = conn.cursor(binary=binary, row_factory=factory)
            assert outcome(walrow.read(cursor.execute(ALL))) == expected
            assert outcome(walrow.read(cursor.execute(ALL).fetchall())) == expected
            assert outcome(walrow.read(cursor.stream(ALL))) == expected
    with conn.transaction(), conn.cursor("drivers_named") as named:
        named.execute(ALL.encode())
        assert outcome(walrow.read(named)) == expected
    only = PEEK.format("data", "peek").encode()
    assert outcome(walrow.read(conn.execute(only))) == expected
    scalars: Any = conn.cursor(row_factory=rows.scalar_row)
    assert outcome(walrow.read(scalars.execute(only))) == expected
    taken = conn.execute(PEEK.format("*", "get").encode())
    assert outcome(walrow.read(taken)) == expected
    # A slot without changes is a complete stream without rows.
    assert list(walrow.read(conn.execute(ALL.encode()))) == []


def test_position_of_rows_resumes(conn: psycopg.Connection[Any]) -> None:
    found = conn.execute(ALL.encode()).fetchall()
    reader = walrow.read(found)
    assert sum(len(batch) for batch in reader) == 4
    assert list(walrow.read(found, start=reader.position)) == []


def test_rows_of_psycopg2_are_read(
    server: EmbeddedServer, conn: psycopg.Connection[Any]
) -> None:
    psycopg2 = pytest.importorskip("psycopg2")
    extras = pytest.importorskip("psycopg2.extras")
    expected = outcome(walrow.read(conn.execute(ALL.encode()).fetchall()))
    other = psycopg2.connect(server.dsn)
    try:
        factories = (
            None,
            extras.DictCursor,
            extras.RealDictCursor,
            extras.NamedTupleCursor,
        )
        for factory in factories:
            cursor = other.cursor(cursor_factory=factory)
            cursor.execute(ALL)
            assert outcome(walrow.read(cursor)) == expected
        for refused in (other, cursor):
            with pytest.raises(walrow.errors.OptionError, match="psycopg"):
                walrow.postgres.catalog(refused)
        with pytest.raises(walrow.errors.OptionError, match="database connection"):
            walrow.read(other)
    finally:
        other.close()


def test_connections_are_refused_with_what_to_do(
    server: EmbeddedServer, conn: psycopg.Connection[Any]
) -> None:
    with pytest.raises(
        walrow.errors.OptionError, match=r"database connection: .*pg_recvlogical"
    ):
        walrow.read(conn)  # type: ignore[arg-type]
    with pytest.raises(walrow.errors.OptionError, match=r"psycopg\.connect"):
        walrow.postgres.catalog(server.dsn)  # type: ignore[arg-type]
    for wrong in (conn.cursor(), object()):
        with pytest.raises(
            walrow.errors.OptionError, match=r"is (no|not a) connection"
        ):
            walrow.postgres.check_settings(wrong)  # type: ignore[arg-type]

    async def asynchronous() -> None:
        async with await psycopg.AsyncConnection.connect(server.dsn) as other:
            with pytest.raises(
                walrow.errors.OptionError, match="asynchronous connection"
            ):
                walrow.read(other)  # type: ignore[arg-type]
            with pytest.raises(walrow.errors.OptionError, match="asynchronous"):
                walrow.postgres.catalog(other)  # type: ignore[arg-type]
            cursor = await other.execute(ALL.encode())
            with pytest.raises(walrow.errors.OptionError, match="await"):
                walrow.read(cursor)  # type: ignore[arg-type]
            assert (
                sum(len(batch) for batch in walrow.read(await cursor.fetchall())) == 4
            )

    asyncio.run(asynchronous())
