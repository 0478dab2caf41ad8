"""Refused connections: the SQLSTATE decides, whatever the language, the command and the psycopg."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servers import EmbeddedServer
from servers.receiving import execute
from servers.refusing import Refusal, Refusing
from walrow._postgres.connecting import (
    connect,
    connect_for_sql,
    connect_to_ask,
    parameters_of,
)
from walrow._postgres.failures import Verdict, verdict_of
from walrow._postgres.hints import POOLER, Command, hint_for
from walrow.cli.connection import connected, connected_for_replication
from walrow.errors import ConnectionLostError, ReplicationError
from walrow.postgres import PhysicalStream, ReplicationStream, deserves_reconnect

#: From PostgreSQL's manual, appendix A, and what another connection may change.
VERDICTS = {
    Verdict.PERMANENT: (
        "28000 28P01 3D000 42501 42704 42601 42P01 0A000 22023 22P05 08P01 58P01"
        " 58P02 57P04"
    ),
    Verdict.TEMPORARY: (
        "57P01 57P02 57P03 57P05 57014 53000 53100 53200 53300 53400 55006 58030 08000"
        " 08003 08006 08001 08004 40001"
    ),
    Verdict.DOUBTFUL: "55000 25006 54000 XX000 XX001 F0000 55P03",
}
EXPECTED = {code: it for it, codes in VERDICTS.items() for code in codes.split()}

#: The server's words for severity and message. Some contain what libpq or walrow might look for.
LANGUAGES = {
    "en": ("FATAL", 'role "x" does not exist'),
    "de": ("FATAL", "Rolle »x« existiert nicht"),
    "fr": ("FATAL ", "le rôle « x » n'existe pas"),
    "ja": ("致命的エラー", 'ロール"x"は存在しません'),
    "ru": ("ВАЖНО", 'роль "x" не существует'),
    "misleading": ("FATAL", "57P03: SSL: certificate, Connection refused:  08006"),
    "lines": ("FATAL", "erste Zeile\nzweite:  Zeile, datei.c"),
}


def _sql(dsn: str) -> None:
    with connect_for_sql(parameters_of(dsn)):
        pass


def _cli(dsn: str) -> None:
    with connected(dsn):
        pass


def _cli_replication(dsn: str) -> None:
    with connected_for_replication(dsn):
        pass


COMMANDS: dict[str, Callable[[str], Any]] = {
    "stream": ReplicationStream.connect,
    "wal": PhysicalStream.connect,
    "sql": _sql,
    "ask": lambda dsn: connect_to_ask(parameters_of(dsn), "(test)"),
    "cli": _cli,
    "cli-replication": _cli_replication,
}


@pytest.fixture(scope="module")
def refusing() -> Iterator[Refusing]:
    with Refusing(Refusal(None)) as server:
        yield server


@settings(max_examples=60)
@given(
    sqlstate=st.sampled_from(sorted(EXPECTED)),
    language=st.sampled_from(sorted(LANGUAGES)),
    command=st.sampled_from(sorted(COMMANDS)),
    has_place=st.booleans(),
)
def test_each_refusal_in_each_language_for_each_command(
    refusing: Refusing, sqlstate: str, language: str, command: str, *, has_place: bool
) -> None:
    severity, text = LANGUAGES[language]
    refusing.refusal = Refusal(sqlstate, text, severity, has_place)
    with pytest.raises(ReplicationError) as caught:
        COMMANDS[command](refusing.dsn)
    error = caught.value
    assert error.sqlstate == sqlstate
    assert verdict_of(error) is EXPECTED[sqlstate]
    assert deserves_reconnect(error) is (EXPECTED[sqlstate] is Verdict.TEMPORARY)
    # The message is as libpq writes it otherwise.
    text = " ".join(text.split())
    assert text in error.reason
    assert f"{severity.strip()}" in error.reason
    assert "miscinit.c" not in error.reason
    assert f"{sqlstate}: " not in error.reason.replace(text, "")
    assert (POOLER in error.reason) is (not has_place or sqlstate == "08P01")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_ends_the_connection_is_lost(
    refusing: Refusing, command: str
) -> None:
    refusing.refusal = Refusal(None)
    with pytest.raises(ConnectionLostError) as caught:
        COMMANDS[command](refusing.dsn)
    assert deserves_reconnect(caught.value)


@pytest.mark.parametrize(
    ("text", "deserves"),
    [
        ("server login has been failing, try again later (server_login_retry)", True),
        ("pgbouncer cannot connect to server", True),
        ("query_wait_timeout", True),
        ("no more connections allowed (max_client_conn)", True),
        (
            "server login has been failing, cached error: password authentication failed",
            False,
        ),
        ("unsupported startup parameter: replication", False),
        ("no such database: shop", False),
        ("bouncer config error", False),
        ("Tenant or user not found", False),
    ],
)
def test_a_pooler_whose_server_is_away_is_asked_again(
    refusing: Refusing, text: str, *, deserves: bool
) -> None:
    refusing.refusal = Refusal("08P01", text, has_place=False)
    with pytest.raises(
        ReplicationError, match="connect to the server itself"
    ) as caught:
        ReplicationStream.connect(refusing.dsn)
    assert deserves_reconnect(caught.value) is deserves


def test_all_hosts_must_have_refused(refusing: Refusing, tmp_path: Path) -> None:
    """A server that starts, one that is away, and one whose name is unknown may let us in later."""

    def sqlstate(others: str, ports: str) -> str | None:
        dsn = refusing.dsn.replace(
            "host=127.0.0.1 port=", f"host=127.0.0.1,{others} port="
        )
        dsn = dsn.replace(" user=", f"{ports} user=")
        with pytest.raises(ReplicationError) as caught:
            ReplicationStream.connect(dsn)
        assert deserves_reconnect(caught.value) is (
            others != "127.0.0.1" or is_starting
        )
        return caught.value.sqlstate

    refusing.refusal, is_starting = Refusal("28P01"), False
    with Refusing(Refusal("28000")) as other:
        port = other.dsn.split("port=")[1].split()[0]
        assert sqlstate("127.0.0.1", f",{port}") == "28000"
        other.refusal, is_starting = Refusal("57P03"), True
        assert sqlstate("127.0.0.1", f",{port}") == "57P03"
    assert sqlstate(str(tmp_path), ",5432") is None
    assert sqlstate("no-such-host.invalid", ",5432") is None


SCRIPT = """
import psycopg, sys
from walrow.errors import ReplicationError
from walrow.postgres import ReplicationStream
try:
    ReplicationStream.connect(sys.argv[1])
except ReplicationError as error:
    print(psycopg.pq.__impl__, error.sqlstate)
"""


@pytest.mark.parametrize("implementation", ["binary", "c", "python"])
def test_each_psycopg(refusing: Refusing, implementation: str) -> None:
    environment = {**os.environ, "PSYCOPG_IMPL": implementation}
    is_there = subprocess.run(
        [sys.executable, "-c", "import psycopg"],
        env=environment,
        check=False,
        capture_output=True,
    )
    if is_there.returncode:
        pytest.skip(f"psycopg's {implementation} implementation is not installed")
    refusing.refusal = Refusal("28P01", "falsch")
    found = subprocess.run(  # noqa: S603
        [sys.executable, "-c", SCRIPT, refusing.dsn],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert found.stdout.split() == [implementation, "28P01"]


def test_without_the_function_of_libpq_the_text_decides(
    refusing: Refusing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrow._postgres.attempting._verbosity_function", lambda: None)
    refusing.refusal = Refusal("28000", 'role "x" does not exist')
    with pytest.raises(ReplicationError, match="does not exist") as caught:
        ReplicationStream.connect(refusing.dsn)
    assert caught.value.sqlstate is None
    assert not deserves_reconnect(caught.value)
    refusing.refusal = Refusal("57P03", "the database system is starting up")
    with pytest.raises(ConnectionLostError):
        ReplicationStream.connect(refusing.dsn)


@pytest.mark.live
def test_the_connection_is_as_usual_afterwards(server: EmbeddedServer) -> None:
    with (
        closing(connect(parameters_of(server.dsn))) as conn,
        pytest.raises(psycopg.errors.SyntaxError) as caught,
    ):
        conn.execute("SELEC 1")
    assert "42601" not in str(caught.value)
    assert "LOCATION" not in str(caught.value)


@pytest.mark.parametrize(
    ("command", "sqlstate", "wrong"),
    [
        (Command.TIMELINE_HISTORY, "58P01", "plugin"),
        (Command.QUERY, "42501", "REPLICATION"),
        (Command.QUERY, "53400", "replication_slots"),
        (Command.QUERY, "55000", "preflight"),
        (Command.BACKUP, "55000", "preflight"),
        (Command.WAL, "55000", "does not have this WAL"),
        (Command.ALTER_SLOT, "42704", "create it"),
        (Command.DROP_SLOT, "42704", "create it"),
        (Command.PUBLICATION, "42501", "REPLICATION"),
        (Command.COPY, "42501", "REPLICATION"),
        (Command.START, "58P01", "has no such plugin"),
        (Command.DROP_SLOT, "25001", "autocommit"),
    ],
)
def test_a_hint_is_about_its_command(
    command: Command, sqlstate: str, wrong: str
) -> None:
    assert wrong not in (hint_for(command, sqlstate, slot="s", publication="p") or "")


@given(
    command=st.sampled_from(Command),
    sqlstate=st.sampled_from(sorted(psycopg.errors.__dict__["_sqlcodes"])),
)
def test_timeouts_are_named_for_each_command(command: Command, sqlstate: str) -> None:
    hint = hint_for(command, sqlstate, slot="a {slot}", publication='p"q')
    named = {
        "25P03": "idle_in_transaction_session_timeout",
        "25P04": "transaction_timeout",
        "57P05": "idle_session_timeout",
        "57014": "statement_timeout",
    }
    assert hint is None or "{" not in hint.replace("{slot}", "")
    assert sqlstate not in named or named[sqlstate] in (hint or "")


#: The role and the database of a login, and the SQLSTATE of the server's refusal.
LOGINS = {
    "no such role": ("ghost", "postgres", "28000"),
    "no LOGIN": ("nologin", "postgres", "28000"),
    "no REPLICATION": ("plain", "postgres", "42501"),
    "no line in pg_hba.conf": ("stranger", "postgres", "28000"),
    "rejected by pg_hba.conf": ("rejected", "postgres", "28000"),
    "no such operating system user": ("peered", "postgres", "28000"),
    "wrong password": ("guarded password=wrong", "postgres", "28P01"),
    "no such database": ("postgres", "nothing", "3D000"),
    "too many connections of the role": ("full", "postgres", "53300"),
}
#: Fetched programs have no other language, or a glibc that needs a compiled locale for it.
INSTALLED = Path("/usr/lib/postgresql/15/bin")
LANGUAGE_CODES = ["de", "ja"]


@pytest.fixture(scope="module", params=LANGUAGE_CODES)
def foreign(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    """A server whose messages are not in English."""
    if not INSTALLED.exists():
        pytest.skip("needs Debian 12's package postgresql-15")
    with EmbeddedServer(15, programs=INSTALLED, language=request.param) as server:
        execute(
            server.dsn,
            "CREATE ROLE nologin REPLICATION",
            "CREATE ROLE plain LOGIN",
            "CREATE ROLE guarded LOGIN REPLICATION PASSWORD 'right'",
            "CREATE ROLE full LOGIN REPLICATION CONNECTION LIMIT 0",
            "CREATE ROLE peered LOGIN REPLICATION",
        )
        (server.data_directory / "pg_hba.conf").write_text(
            "local all guarded scram-sha-256\nlocal all rejected reject\n"
            "local all peered peer\n"
            "local all postgres,plain,nologin,full,ghost trust\n"
        )
        server.restart()
        yield server


@pytest.mark.live
@pytest.mark.timeout(300)
def test_real_refusals_in_other_languages(foreign: EmbeddedServer) -> None:
    for title, (user, database, sqlstate) in LOGINS.items():
        dsn = f"host={foreign.socket_directory} user={user} dbname={database}"
        # The limit of a role is not for walsenders.
        connect_as = _sql if user == "full" else ReplicationStream.connect
        with pytest.raises(ReplicationError) as caught:
            connect_as(dsn)
        assert caught.value.sqlstate == sqlstate, title
        assert deserves_reconnect(caught.value) is (sqlstate == "53300"), title
        assert POOLER not in caught.value.reason
        assert "does not exist" not in caught.value.reason
