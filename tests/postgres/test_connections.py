"""Every connection has the same settings, whatever the role, the database and the environment set."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import walrow
from servers import EmbeddedServer
from servers.pgbouncer import PgBouncer
from servers.receiving import Disk, ReceiverProcess, drop_if_there, execute
from walrow._postgres.connecting import (
    connect,
    connect_for_sql,
    connect_to_ask,
    parameters_of,
)
from walrow._postgres.hints import Command
from walrow._postgres.running import run
from walrow.cli.connection import connected, connected_for_replication
from walrow.errors import Error, ReplicationError, SettingError
from walrow.postgres import PhysicalStream, ReplicationStream

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

#: Each may be set for a role, for a database, in the connection string, and in PGOPTIONS.
HOSTILE = {
    "statement_timeout": "1ms",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "1ms",
    "idle_session_timeout": "1ms",
    "transaction_timeout": "20s",
    "default_transaction_read_only": "on",
    "jit": "on",
    "datestyle": "German",
    "intervalstyle": "sql_standard",
    "extra_float_digits": "-15",
    "bytea_output": "escape",
    "timezone": "America/New_York",
    "search_path": "evil,public",
    "standard_conforming_strings": "off",
    "quote_all_identifiers": "on",
    "default_transaction_isolation": "serializable",
    "row_security": "off",
    "client_min_messages": "debug1",
}
PINNED = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "transaction_timeout": "0",
    "default_transaction_read_only": "off",
    "jit": "off",
    "intervalstyle": "postgres",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "timezone": "UTC",
    "search_path": "",
    "client_encoding": "UTF8",
}
SHORT = {"statement_timeout": "30s", "lock_timeout": "2s"}


@contextlib.contextmanager
def _stream(dsn: str) -> Iterator[psycopg.Connection[Any]]:
    with ReplicationStream.connect(dsn) as stream:
        yield stream.connection


OPENED: dict[str, Callable[[str], Any]] = {
    "stream": _stream,
    "sql": lambda dsn: connect_for_sql(parameters_of(dsn)),
    "ask": lambda dsn: contextlib.closing(connect_to_ask(parameters_of(dsn), "(test)")),
    "cli": connected,
    "cli-replication": connected_for_replication,
}


@pytest.fixture(scope="module")
def own_server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(18) as server:
        execute(
            server.dsn,
            "CREATE ROLE walrow LOGIN REPLICATION",
            "CREATE SCHEMA evil",
            "CREATE TABLE evil.pg_class (relname text)",
            "GRANT USAGE ON SCHEMA evil TO walrow",
            "CREATE TABLE t (id int PRIMARY KEY, at timestamptz, f float8, b bytea)",
            r"INSERT INTO t VALUES (1, '2026-11-28 12:00+00', 0.1, '\x00ff')",
            "GRANT SELECT ON t TO walrow",
            "CREATE PUBLICATION p FOR TABLE t",
        )
        yield server


def dsn_of(server: EmbeddedServer) -> str:
    return server.dsn.replace("user=postgres", "user=walrow")


@contextlib.contextmanager
def placed(server: EmbeddedServer, places: dict[str, str]) -> Iterator[str]:
    """The connection string, while each setting has a hostile value at its place."""
    texts: dict[str, list[str]] = {"dsn": [], "environment": []}
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        for of in ("ROLE walrow", "DATABASE postgres"):
            admin.execute(f"ALTER {of} RESET ALL".encode())
        for name, place in places.items():
            if place in texts:
                texts[place].append(f"-c {name}={HOSTILE[name]}")
            else:
                query = f"ALTER {place} SET {name} = {HOSTILE[name]!r}"
                admin.execute(query.replace("'evil,public'", "evil, public").encode())
        variables = {"PGOPTIONS": " ".join(texts["environment"])}
        dsn = dsn_of(server)
        if texts["dsn"]:
            dsn += f" options='{' '.join(texts['dsn'])}'"
        try:
            with mock.patch.dict(os.environ, variables):
                yield dsn
        finally:
            for of in ("ROLE walrow", "DATABASE postgres"):
                admin.execute(f"ALTER {of} RESET ALL".encode())


@settings(max_examples=25)
@given(
    places=st.dictionaries(
        st.sampled_from(sorted(HOSTILE)),
        st.sampled_from(["ROLE walrow", "DATABASE postgres", "dsn", "environment"]),
        min_size=3,
    ),
    command=st.sampled_from(sorted(OPENED)),
)
def test_no_setting_reaches_a_connection(
    own_server: EmbeddedServer, places: dict[str, str], command: str
) -> None:
    with placed(own_server, places) as dsn, OPENED[command](dsn) as conn:
        names = ", ".join(f"current_setting('{it}')" for it in ("datestyle", *PINNED))
        found = conn.execute(f"SELECT {names}".encode()).fetchone()
        expected = PINNED | (SHORT if command == "ask" else {})
        shown = dict(zip(("datestyle", *PINNED), found or (), strict=True))
        # The order of a date's parts in input does not matter.
        assert shown.pop("datestyle").startswith("ISO, ")
        assert shown == expected


@pytest.mark.parametrize("place", ["ROLE walrow", "DATABASE postgres"])
def test_a_receiver_under_all_of_them(
    own_server: EmbeddedServer, tmp_path: Path, place: str
) -> None:
    slot = f"s_{place.partition(' ')[0].lower()}"
    with placed(own_server, dict.fromkeys(HOSTILE, place)) as dsn:
        with PhysicalStream.connect(dsn) as physical:
            shown = physical.connection.execute("SHOW statement_timeout").fetchone()
            # Without a database, psycopg itself would return bytes.
            assert shown == ("0",)
        options: dict[str, Any] = {"slot": slot, "publications": "p", "until": "now"}
        walrow.receive(dsn, log=tmp_path, create=True, snapshot=True, **options)
    execute(own_server.dsn, "UPDATE t SET f = 0.3")
    with placed(own_server, dict.fromkeys(HOSTILE, place)) as dsn:
        walrow.receive(dsn, log=tmp_path, **options)
    execute(own_server.dsn, f"SELECT pg_drop_replication_slot('{slot}')")
    [batch] = (
        walrow.Log(tmp_path).state("public.t", profile="text").to_pyarrow().to_batches()
    )
    row = batch.to_pylist()[0]
    assert (row["id"], row["at"]) == ("1", "2026-11-28 12:00:00+00")
    assert (row["f"], row["b"]) == ("0.3", r"\x00ff")


def test_a_timeout_that_strikes_is_named(own_server: EmbeddedServer) -> None:
    with psycopg.connect(own_server.dsn, autocommit=True) as conn:
        conn.execute("SET statement_timeout = '1ms'")
        with pytest.raises(ReplicationError, match="the setting statement_timeout"):
            run(conn, "SELECT pg_sleep(1)", "failed", Command.QUERY)


SHOWN = [
    "statement_timeout",
    "lock_timeout",
    "idle_session_timeout",
    "jit",
    "datestyle",
    "search_path",
    "timezone",
    "client_encoding",
    "transaction_timeout",
    "default_transaction_read_only",
]


def session(dsn: str) -> list[Any]:
    """The settings of the connection that the pooler's next client gets."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        return [conn.execute(f"SHOW {it}".encode()).fetchone() for it in SHOWN]


@pytest.mark.parametrize(
    ("ignored", "text"),
    [
        (
            "",
            "connection pooler answered, not PostgreSQL: connect to the server itself",
        ),
        ("options", "(connection pooler answered|connection pooler leaves them out)"),
        ("options,replication", "connection pooler leaves them out"),
    ],
)
def test_an_old_pooler_is_named_and_nothing_is_left(
    own_server: EmbeddedServer, ignored: str, text: str
) -> None:
    with PgBouncer(own_server, "1.18", ignore=ignored) as pooler:
        before = session(pooler.dsn)
        for command in OPENED.values():
            with pytest.raises(Error, match=text) as caught, command(pooler.dsn):
                pass
            assert isinstance(caught.value, (ReplicationError, SettingError))
            assert not walrow.postgres.deserves_reconnect(caught.value)
        assert session(pooler.dsn) == before


def test_a_pooler_that_passes_replication_on(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    execute(
        own_server.dsn,
        "CREATE TABLE u (id int PRIMARY KEY)",
        "INSERT INTO u VALUES (1), (2)",
        "CREATE PUBLICATION q FOR TABLE u",
    )
    with PgBouncer(own_server, "1.24", connections=20) as pooler:
        before = session(pooler.dsn)
        options: dict[str, Any] = {
            "slot": "pooled",
            "publications": "q",
            "until": "now",
        }
        walrow.receive(pooler.dsn, log=tmp_path, create=True, snapshot=True, **options)
        execute(own_server.dsn, "INSERT INTO u VALUES (3)")
        walrow.receive(pooler.dsn, log=tmp_path, **options)
        assert session(pooler.dsn) == before
        with contextlib.closing(connect(parameters_of(pooler.dsn), replication="true")):
            pass
    execute(own_server.dsn, "SELECT pg_drop_replication_slot('pooled')")
    assert walrow.Log(tmp_path).state("public.u").to_pyarrow().num_rows == 3


@pytest.mark.slow
def test_a_server_behind_a_pooler_shuts_down_while_the_disk_stalls(
    own_server: EmbeddedServer, tmp_path: Path
) -> None:
    """The pooler accepts connections, and does not say for 15 s that it has no server."""
    disk = Disk(tmp_path / "log")
    execute(
        own_server.dsn,
        "CREATE TABLE v (id int PRIMARY KEY)",
        "CREATE PUBLICATION r FOR TABLE v",
    )
    options: dict[str, Any] = {"slot": "stalled", "publication": "r", "disk": disk}
    with (
        PgBouncer(own_server, "1.24", connections=20) as pooler,
        ReceiverProcess(
            pooler.dsn, tmp_path / "log", "--create", **options
        ) as receiver,
    ):
        receiver.until_streaming()
        with disk.has("stalled"):
            execute(own_server.dsn, "INSERT INTO v VALUES (1)")
            time.sleep(1)
            begin = time.monotonic()
            own_server.shut_down()
            assert time.monotonic() - begin < 10
            own_server.start()
    drop_if_there(own_server.dsn, "stalled")
