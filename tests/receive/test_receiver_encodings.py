"""Databases in each encoding that a server has: names and values outside ASCII, and bytes without a character in UTF-8."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import walrow
from servers import EmbeddedServer
from servers.receiving import execute
from walrow import postgres
from walrow.errors import ReplicationError

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

#: Each encoding has one of these. SQL_ASCII has any bytes.
CHARACTERS = "éяλאاกあ中한şłă™"
ENCODINGS = [
    *("SQL_ASCII", "EUC_TW"),
    *(
        pytest.param(it, marks=pytest.mark.slow)
        for it in (
            *("UTF8", "EUC_JP", "EUC_CN", "EUC_KR", "EUC_JIS_2004", "JOHAB"),
            *(f"LATIN{number}" for number in range(1, 11)),
            *(f"ISO_8859_{number}" for number in range(5, 9)),
            *(f"WIN{number}" for number in (866, 874, *range(1250, 1259))),
            *("KOI8R", "KOI8U"),
        )
        if os.environ.get("WALROW_SLOW")
    ),
]


@contextlib.contextmanager
def database(server: EmbeddedServer, encoding: str) -> Iterator[str]:
    """A database in an encoding, whose slots and receivers are gone at the end."""
    options = f"ENCODING '{encoding}' LOCALE 'C'"
    with contextlib.ExitStack() as stack:
        try:
            name = stack.enter_context(server.database("encoded", options))
        except psycopg.errors.UndefinedObject:
            # The newest minor versions have no databases in JOHAB.
            pytest.skip(f"this server has no databases in {encoding}")
        yield server.dsn_of(name)
        slots = f"FROM pg_replication_slots WHERE database = '{name}'"
        execute(server.dsn, f"SELECT pg_drop_replication_slot(slot_name) {slots}")


def character(server: EmbeddedServer, encoding: str) -> str:
    """A character outside ASCII that an encoding has."""
    for each in CHARACTERS:
        with contextlib.suppress(psycopg.errors.UntranslatableCharacter):
            if encoding != "SQL_ASCII":
                execute(server.dsn, f"SELECT convert_to('{each}', '{encoding}')")
            return each
    raise AssertionError(encoding)


def execute_raw(dsn: str, encoding: str, *statements: bytes) -> None:
    """Executes statements whose texts are in an encoding."""
    with psycopg.connect(dsn, autocommit=True, client_encoding="UTF8") as conn:
        for each in (f"SET client_encoding = '{encoding}'".encode(), *statements):
            result = conn.pgconn.exec_(each)
            assert result.error_message == b""


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_names_and_values_of_each_encoding(
    server: EmbeddedServer, tmp_path: Path, encoding: str
) -> None:
    it = character(server, encoding)
    insert = f"INSERT INTO \"t{it}\" VALUES (%s, '{it}', '{it}')"  # noqa: S608
    log = tmp_path / "log"
    with database(server, encoding) as dsn:
        utf8 = f"{dsn} client_encoding=UTF8"
        execute(
            utf8,
            f"CREATE TYPE \"e{it}\" AS ENUM ('{it}')",
            f'CREATE TABLE "t{it}" (id int PRIMARY KEY, "c{it}" text, e "e{it}")',
            f'CREATE PUBLICATION "p{it}" FOR TABLE "t{it}"',
            insert % 1,
        )
        options: Any = {"slot": "encoded", "publications": f"p{it}", "until": "now"}
        # By a load, by the stream, and by the stream of another connection.
        for number in (1, 2, 3):
            walrow.receive(dsn, log=log, create=True, snapshot=True, **options)
            found = walrow.Log(log).state(f"public.t{it}").to_pyarrow()
            rows = sorted(found.to_pylist(), key=lambda row: row["id"])
            assert rows == [
                {"id": row + 1, f"c{it}": it, "e": it} for row in range(number)
            ]
            execute(utf8, insert % (number + 1))
        with psycopg.connect(utf8) as conn:
            found = postgres.preflight(conn, publications=f"p{it}", slot="encoded")
            assert not found.errors
            assert "encoding" not in str(found)
            assert f"e{it}" in postgres.catalog(conn).to_json()


def test_mule_internal_is_refused_by_name(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    with database(server, "MULE_INTERNAL") as dsn:
        with pytest.raises(ReplicationError, match=r"MULE_INTERNAL.* database in UTF8"):
            walrow.receive(dsn, log=tmp_path / "log", slot="mule", publications="p")
        assert not (tmp_path / "log").exists()
        with psycopg.connect(dsn, client_encoding="SQL_ASCII") as conn:
            (error,) = postgres.preflight(conn).errors
        assert error.code == "encoding"


def test_other_objects_that_are_not_utf8(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """WIN1252 leaves the byte 81 open. A type that no table has does not prevent anything."""
    with database(server, "WIN1252") as dsn:
        execute(
            f"{dsn} client_encoding=UTF8",
            "CREATE TABLE t (id int PRIMARY KEY)",
            "CREATE PUBLICATION p FOR TABLE t",
        )
        execute_raw(
            dsn,
            "WIN1252",
            b"CREATE TYPE odd AS ENUM ('a', '\x81')",
            b'CREATE TABLE "\x81" (id int PRIMARY KEY)',
            b"ALTER TABLE t ADD COLUMN d text DEFAULT '\x81'",
            b"INSERT INTO t VALUES (1, 'a')",
        )
        walrow.receive(
            dsn,
            log=tmp_path / "log",
            slot="odd",
            publications="p",
            create=True,
            snapshot=True,
            until="now",
        )
        state = walrow.Log(tmp_path / "log").state("public.t").to_pyarrow()
        assert state.to_pylist() == [{"id": 1, "d": "a"}]
        with psycopg.connect(dsn, client_encoding="UTF8") as conn:
            (found,) = warnings_of(postgres.preflight(conn, publications="p"))
            assert "WIN1252" in found
            assert "public.odd, public.t" in found
            execute_raw(dsn, "WIN1252", b'ALTER PUBLICATION p ADD TABLE "\x81"')
            (error,) = postgres.preflight(conn, publications="p").errors
        assert error.code == "name-encoding"
        assert "public.'<81>'" in error.text


def warnings_of(found: postgres.Preflight) -> list[str]:
    return [it.text for it in found if it.code == "name-encoding"]


def test_value_that_is_not_utf8_is_placed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The error of the stream names the table, and so does that of a load."""
    with database(server, "WIN1252") as dsn:
        execute(
            f"{dsn} client_encoding=UTF8",
            *(f"CREATE TABLE {it} (id int PRIMARY KEY, x text)" for it in ("é", "u")),
            'CREATE PUBLICATION "pé" FOR TABLE é, u',
        )
        options: Any = {"publications": "pé", "create": True, "until": "now"}
        walrow.receive(dsn, log=tmp_path / "log", slot="first", **options)
        execute(f"{dsn} client_encoding=UTF8", "INSERT INTO é VALUES (1, 'é')")
        execute_raw(
            dsn,
            "WIN1252",
            b"BEGIN; INSERT INTO u VALUES (1, 'a'); INSERT INTO \xe9 VALUES (2, '\x81');"
            b"INSERT INTO u VALUES (2, 'a'); COMMIT",
        )
        with pytest.raises(ReplicationError) as caught:
            walrow.receive(dsn, log=tmp_path / "log", slot="first", **options)
        assert caught.value.sqlstate == "22P05"
        assert "a change of public.é that is not UTF-8 in a database in WIN1252" in str(
            caught.value
        )
        received = walrow.receive(
            dsn, log=tmp_path / "other", slot="second", snapshot=True, **options
        )
        (left,) = received.left
        assert "public.é" in str(left)
        assert "cannot copy a table in WIN1252: SQLSTATE 22P05" in str(left)
        assert "without an equivalent in UTF-8" in str(left)
