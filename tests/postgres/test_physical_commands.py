"""Replication commands on both kinds of replication connections: with a database, and without."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import walrow
from servers import EmbeddedServer
from servers.receiving import run_walrow
from walrow import _core, postgres
from walrow._backup.base.manifest import ManifestReader
from walrow._backup.base.options import StreamOptions
from walrow._backup.base.stream import BackupStream
from walrow._postgres.hints import Command
from walrow._postgres.physical import PhysicalStream, Wal
from walrow._postgres.running import run as run_command
from walrow.errors import OptionError, ReplicationError

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

Connection = psycopg.Connection[Any]


@pytest.fixture(params=["true", "database"])
def conn(
    server: EmbeddedServer, request: pytest.FixtureRequest
) -> Iterator[Connection]:
    word: str = request.param
    with psycopg.connect(server.dsn, replication=word, autocommit=True) as conn:
        yield conn


def has_database(conn: Connection) -> bool:
    return conn.info.get_parameters()["replication"] == "database"


def major_of(conn: Connection) -> int:
    return conn.info.server_version // 10_000


def test_the_system_and_its_settings(conn: Connection, sql: Connection) -> None:
    [(identifier,)] = sql.execute(
        "SELECT system_identifier::text FROM pg_control_system()"
    ).fetchall()
    system = postgres.identify_system(conn)
    assert system.system_identifier == identifier
    assert (system.database is not None) == has_database(conn)
    for setting in ("wal_segment_size", "server_version", "data_directory"):
        [(value,)] = sql.execute(f"SHOW {setting}").fetchall()
        assert postgres.show(conn, setting) == value
        assert postgres.show(sql, setting) == value
    for absent in ("no_such_setting", "wal_level; SHOW port", "a'b"):
        with pytest.raises(ReplicationError, match="cannot show setting") as caught:
            postgres.show(conn, absent)
        assert caught.value.sqlstate in {"42704", "22023", "42602"}
    with pytest.raises(OptionError, match="a double quote or a NUL"):
        postgres.show(conn, 'wal"level')


def test_a_history_keeps_its_bytes(conn: Connection, server: EmbeddedServer) -> None:
    assert postgres.timeline_history(conn, 1).switches == ()
    with pytest.raises(ReplicationError, match="history of timeline 2") as caught:
        postgres.timeline_history(conn, 2)
    assert caught.value.sqlstate == "58P01"
    for timeline in (0, -1, 1 << 32):
        with pytest.raises(OptionError, match="a number from 1"):
            postgres.timeline_history(conn, timeline)
    # The server sends the file without reading it.
    content = b"# by hand\n1\t0/30000A0\tno recovery target specified\n\n2\t0/5000110\tbefore \xff\n"
    history = server.data_directory / "pg_wal" / "0000000B.history"
    history.write_bytes(content)
    history.chmod(0o644)
    try:
        found = postgres.timeline_history(conn, 11)
        history.write_text("1\tsecret\n")
        with pytest.raises(ReplicationError, match="switch point is not") as caught:
            postgres.timeline_history(conn, 11)
        assert "secret" not in str(caught.value)
    finally:
        history.unlink()
    assert (found.filename, found.content) == ("0000000B.history", content)
    first, second = found.switches
    reason = "no recovery target specified"
    assert first == postgres.TimelineSwitch(1, walrow.Lsn("0/30000A0"), reason)
    assert (second.timeline, second.lsn) == (2, walrow.Lsn("0/5000110"))
    assert json.loads(json.dumps(found.to_dict()))["switches"][0] == {
        "timeline": 1,
        "lsn": "0/30000A0",
        "reason": "no recovery target specified",
    }


@pytest.mark.parametrize("reserve", [True, False])
def test_a_physical_slot(
    conn: Connection, sql: Connection, name: str, *, reserve: bool
) -> None:
    created = postgres.create_physical_slot(conn, name, reserve_wal=reserve)
    assert (created.name, created.snapshot, created.plugin) == (name, None, None)
    query = "SELECT slot_type, temporary, restart_lsn::text FROM pg_replication_slots WHERE slot_name = %s"
    [(kind, temporary, restart)] = sql.execute(query, [name]).fetchall()
    assert (kind, temporary, restart is not None) == ("physical", False, reserve)
    if major_of(conn) < 15:
        with pytest.raises(OptionError, match="needs PostgreSQL 15 or later"):
            postgres.read_slot(conn, name)
    else:
        found = postgres.read_slot(conn, name)
        assert found is not None
        if reserve:
            lsn = walrow.Lsn(restart)
            assert found == postgres.PhysicalSlot(lsn, 1)
            # From version 19 on, the server writes more zeros.
            assert found.to_dict() == {"restart_lsn": str(lsn), "restart_timeline": 1}
        else:
            assert found.to_dict() == {"restart_lsn": None, "restart_timeline": None}
        assert postgres.read_slot(conn, f"{name}x") is None
    with pytest.raises(ReplicationError, match="use another name") as caught:
        postgres.create_physical_slot(conn, name)
    assert (caught.value.sqlstate, caught.value.slot) == ("42710", name)
    postgres.drop_slot(conn, name, wait=True)
    assert sql.execute(query, [name]).fetchall() == []


def test_a_temporary_physical_slot_ends_with_its_connection(
    server: EmbeddedServer, sql: Connection, name: str
) -> None:
    for word in ("true", "database", ""):
        given = {"replication": word} if word else {}
        with psycopg.connect(server.dsn, autocommit=True, **given) as conn:  # type: ignore[arg-type]
            created = postgres.create_physical_slot(
                conn, name, temporary=True, reserve_wal=not word
            )
            query = "SELECT temporary FROM pg_replication_slots WHERE slot_name = %s"
            assert sql.execute(query, [name]).fetchall() == [(True,)]
            assert (created.consistent_point > 0) == (not word)
        for _ in range(100):
            if not sql.execute(query, [name]).fetchall():
                break
        else:
            pytest.fail("the slot is still there")


def test_a_logical_slot_needs_a_database(
    conn: Connection, sql: Connection, name: str
) -> None:
    if not has_database(conn):
        with pytest.raises(OptionError, match="belongs to a database"):
            postgres.create_slot(conn, name)
    postgres.create_slot(sql, name)
    if major_of(conn) >= 15:
        with pytest.raises(ReplicationError) as caught:
            postgres.read_slot(conn, name)
        assert caught.value.sqlstate == "0A000"
    if major_of(conn) >= 17:
        postgres.alter_slot(conn, name, failover=True)
        query = "SELECT failover FROM pg_replication_slots WHERE slot_name = %s"
        assert sql.execute(query, [name]).fetchall() == [(True,)]
    else:
        with pytest.raises(OptionError, match="needs PostgreSQL 17 or later"):
            postgres.alter_slot(conn, name, failover=True)
    postgres.drop_slot(conn, name)


_BACKUP: dict[str, Any] = {
    "progress": False,
    "checkpoint": "fast",
    "wal": False,
    "wait": True,
    "max_rate": None,
    "tablespace_map": True,
    "verify_checksums": True,
    "manifest": "no",
    "manifest_checksums": "CRC32C",
    "compression": None,
    "compression_detail": None,
    "target": None,
    "target_detail": None,
    "incremental": False,
}
NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters='"\0'), min_size=1, max_size=70
)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(name=NAMES)
def test_no_name_leaves_its_quotes(conn: Connection, name: str) -> None:
    """A name is only ever a name: the server finds no such slot, and no syntax error."""
    if len(name.encode()) > 63:
        with pytest.raises(OptionError, match="at most 63 bytes"):
            postgres.drop_slot(conn, name)
    else:
        with pytest.raises(ReplicationError) as caught:
            postgres.drop_slot(conn, name)
        assert caught.value.sqlstate in {"42704", "42602"}, caught.value
    with pytest.raises(ReplicationError) as caught:
        postgres.show(conn, name)
    assert caught.value.sqlstate in {"42704", "42602"}, caught.value


def test_names_that_no_server_has() -> None:
    """A server would cut a publication's name to 63 bytes, and send another publication's tables."""
    start = postgres.start_replication_command
    assert f'"{"é" * 31}"' in start("s", 0, {"publication_names": "é" * 31})
    for names in ("p" * 64, ["a", "é" * 32]):
        with pytest.raises(OptionError, match="a publication's name has at most 63"):
            start("s", 0, {"publication_names": names})
    with pytest.raises(OptionError, match=r"no publication has the name 'a\\udc80'"):
        start("s", 0, {"publication_names": ["a\udc80"]})
    with pytest.raises(OptionError, match=r"no slot has the name '\\ud800'"):
        start("\ud800", 0, {})
    for bad, text in (
        ("n" * 64, "at most 63"),
        ("n\ud800", "surrogate"),
        ("n\0", "NUL"),
    ):
        for slot, publication in ((bad, "p"), ("s", bad)):
            with pytest.raises(OptionError, match=text):
                walrow.receive("", log="x", slot=slot, publications=publication)
        with pytest.raises(OptionError, match=text):
            postgres.changes("", publications=["p", bad])


@pytest.mark.parametrize("word", ["true", "database", ""])
def test_a_name_that_is_too_long_is_not_that_of_another_slot(
    server: EmbeddedServer, sql: Connection, name: str, word: str
) -> None:
    """Servers cut a name to 63 bytes, and then find the slot of that name."""
    kept = name.ljust(63, "_")
    long = f"{kept}_other"
    given = {"replication": word} if word else {}
    query = "SELECT slot_name FROM pg_replication_slots WHERE slot_name LIKE %s"
    with psycopg.connect(server.dsn, autocommit=True, **given) as conn:  # type: ignore[arg-type]
        postgres.create_physical_slot(conn, kept, reserve_wal=True)
        calls: list[Callable[[], object]] = [
            lambda: postgres.drop_slot(conn, long),
            lambda: postgres.create_physical_slot(conn, long),
            lambda: postgres.create_slot(conn, long),
            lambda: postgres.start_replication_command(long, 0, {}),
        ]
        if word:
            calls.append(lambda: postgres.drop_slot(conn, long, wait=True))
            if major_of(conn) >= 15:
                calls.append(lambda: postgres.read_slot(conn, long))
            if major_of(conn) >= 17:
                calls.append(lambda: postgres.alter_slot(conn, long, failover=True))
        for call in calls:
            with pytest.raises(OptionError, match="at most 63 bytes"):
                call()
        assert sql.execute(query, [f"{name}%"]).fetchall() == [(kept,)]
        with (
            PhysicalStream.connect(server.dsn) as stream,
            pytest.raises(OptionError, match="at most 63 bytes"),
        ):
            stream.start(0, timeline=1, slot=long)
        postgres.drop_slot(conn, kept)
        assert sql.execute(query, [f"{name}%"]).fetchall() == []


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    label=st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=90)
)
def test_no_label_leaves_its_quotes(conn: Connection, label: str) -> None:
    """The server reads the label to its end: it refuses the text after the label."""
    major = major_of(conn)
    command = _core.base_backup_command(major, label=label, **_BACKUP)
    # Twice the same option is an error of the option, and not of the syntax.
    again = ", LABEL 'again')" if major >= 15 else " LABEL 'again'"
    with pytest.raises(ReplicationError, match="duplicate option") as caught:
        run_command(conn, command.removesuffix(")") + again, "refused", Command.BACKUP)
    assert caught.value.sqlstate == "42601"


def test_wal_comes_on_both_kinds_of_connections(
    conn: Connection, sql: Connection
) -> None:
    system = postgres.identify_system(conn)
    with PhysicalStream.on(conn) as stream:
        assert stream.start(system.xlogpos, timeline=system.timeline) is None
        sql.execute("SELECT pg_logical_emit_message(false, '', repeat('walrow', 100))")
        found, end = b"", 0
        while b"walrow" * 100 not in found:
            piece = stream.receive(5)
            assert isinstance(piece, Wal)
            found += piece.data
            end = piece.start + len(piece.data)
        # The server's end of WAL and clock come with each message.
        assert stream.server_lsn >= end
        assert stream.server_clock is not None
        assert abs(stream.server_clock / 1e6 + 946_684_800 - time.time()) < 60
        start = int(system.xlogpos)
        stream.confirm(written=end, flushed=end - 1, applied=start + 1)
        query = (
            "SELECT write_lsn - '0/0', flush_lsn - '0/0', replay_lsn - '0/0'"
            " FROM pg_stat_replication WHERE pid = %s"
        )
        pid, wanted = conn.info.backend_pid, (end, end - 1, start + 1)
        deadline = time.monotonic() + 30
        while sql.execute(query, [pid]).fetchone() != wanted:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_backup_and_its_manifest(conn: Connection) -> None:
    """BASE_BACKUP and UPLOAD_MANIFEST need no database."""
    major = major_of(conn)
    options = StreamOptions(checkpoint="fast")
    with BackupStream(conn, options, with_links=False) as stream:
        manifest = b"".join(stream.manifest())
        found = ManifestReader()
        assert "PG_VERSION" in {it.path for it in found.files(iter([manifest]))}
        assert (found.ranges[0].start, found.ranges[-1].end) == (
            stream.start_lsn,
            stream.end_lsn,
        )
        if major >= 17:
            stream._upload([manifest])
        else:
            with pytest.raises(OptionError, match="needs PostgreSQL 17 or later"):
                _core.upload_manifest_command(major)
        # The connection takes another command.
        assert postgres.identify_system(conn).timeline == 1


def test_the_command_line(server: EmbeddedServer, sql: Connection, name: str) -> None:
    def said(*words: str, code: int = 0) -> str:
        done = run_walrow(*words, "--dsn", server.dsn)
        assert done.returncode == code, done.stderr
        assert (done.stderr == "") == (code == 0)
        return done.stdout if code == 0 else done.stderr

    assert "nothing to change" in said("slot", "alter", name, code=2)
    assert "--physical" in said("slot", "create", name, "--physical", code=2)
    postgres.create_physical_slot(sql, name, reserve_wal=True)
    lines = [it for it in said("slot", "list").splitlines() if name in it]
    assert [it.split()[:2] for it in lines] == [[name, "physical"]]
    assert said("slot", "drop", name) == f"dropped slot {name}\n"
    assert name not in said("slot", "list")
