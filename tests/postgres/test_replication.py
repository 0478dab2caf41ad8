"""ReplicationStream on real servers: what arrives, what is confirmed, how it ends."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import socket
import subprocess
import threading
import time
import traceback
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import walrow
from servers import (
    EmbeddedServer,
    FetchedServer,
    Proxy,
    create_slot,
    drop_slot,
    wal_end,
)
from servers.receiving import execute
from walrow._postgres.stream_options import stream_options
from walrow.errors import (
    ConnectionLostError,
    OptionError,
    ReplicationError,
    SettingError,
)
from walrow.postgres import ReplicationStream, deserves_reconnect
from walrow.postgres import create_slot as create_logical_slot

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


@pytest.fixture
def slot(server: EmbeddedServer) -> Iterator[str]:
    """A slot before a table `t` with a publication `p`, both empty."""
    yield from _slot(server)


@pytest.fixture(scope="module", params=[16, 18])
def own(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    """A server that tests may stop."""
    with EmbeddedServer(
        request.param,
        settings={"max_slot_wal_keep_size": "1MB", "wal_sender_timeout": "2s"},
    ) as server:
        yield server


@pytest.fixture
def own_slot(own: EmbeddedServer) -> Iterator[str]:
    yield from _slot(own)


def _slot(server: EmbeddedServer) -> Iterator[str]:
    name = f"s_{uuid.uuid4().hex[:8]}"
    execute(
        server.dsn,
        "DROP TABLE IF EXISTS t",
        "DROP PUBLICATION IF EXISTS p",
        "CREATE TABLE t (a int PRIMARY KEY, b text)",
        "CREATE PUBLICATION p FOR TABLE t",
    )
    create_slot(server.dsn, name)
    yield name
    with contextlib.suppress(psycopg.errors.UndefinedObject):
        drop_slot(server.dsn, name)


def insert(server: EmbeddedServer, *, first: int = 1, rows: int = 1) -> None:
    series = f"generate_series({first}, {first + rows - 1})"
    execute(server.dsn, f"INSERT INTO t SELECT i, 'x' || i FROM {series} i")  # noqa: S608


def receive_up_to(stream: ReplicationStream, lsn: int, seconds: float = 30) -> bytes:
    """All that the server sends up to a position."""
    data = b""
    deadline = time.monotonic() + seconds
    while stream.server_lsn < lsn:
        assert time.monotonic() < deadline
        block = stream.receive(0.1)
        assert block is not None
        data += block
        if not block:
            stream.confirm(stream.flushed, reply=True)
    return data


def receive_to_the_end(stream: ReplicationStream) -> None:
    while stream.receive(10) is not None:
        pass


def failure_of(stream: ReplicationStream) -> Exception:
    with pytest.raises(walrow.Error) as caught:
        receive_to_the_end(stream)
    return caught.value


def confirmed(server: EmbeddedServer, slot: str) -> int:
    slots = "SELECT slot_name, confirmed_flush_lsn - '0/0' FROM pg_replication_slots"
    return int(dict(execute(server.dsn, slots))[slot])


def rows_in(data: bytes) -> int:
    with walrow.read(data, unfinished="ignore", missing_table="ignore") as reader:
        return sum(batch.num_rows for batch in reader)


def test_blocks_are_what_the_server_sent(server: EmbeddedServer, slot: str) -> None:
    insert(server, rows=1000)
    with ReplicationStream.connect(server.dsn) as stream:
        assert stream.server_version == server.major
        assert stream.server_encoding == "UTF8"
        stream.start(slot, publications="p")
        data = receive_up_to(stream, wal_end(server.dsn))
        frames = list(walrow.frames(data))
    assert b"".join(frame.to_bytes() for frame in frames) == data
    assert {frame.kind for frame in frames} == {"w", "k"}
    assert rows_in(data) == 1000
    # 64 kB of logical_decoding_work_mem are less than this transaction.
    kinds = [frame.message.kind for frame in frames if frame.message]
    assert "S" in kinds
    assert kinds[-1] == "c"


def test_each_block_ends_between_messages(server: EmbeddedServer, slot: str) -> None:
    insert(server, rows=20_000)
    with ReplicationStream.connect(server.dsn) as stream:
        stream.start(slot, publications=["p"], streaming=False)
        end = wal_end(server.dsn)
        sizes, rows = [], 0
        while stream.server_lsn < end:
            block = stream.receive(0.1)
            assert block is not None
            kinds = [m.kind for m in walrow.messages(block)] if block else []
            rows += kinds.count("I")
            sizes.append(len(block))
            if not block:
                stream.confirm(0, reply=True)
    assert rows == 20_000
    assert max(sizes) < 1 << 21


def test_the_slot_moves_to_what_was_confirmed(
    server: EmbeddedServer, slot: str
) -> None:
    insert(server, rows=10)
    before = confirmed(server, slot)
    with ReplicationStream.connect(server.dsn) as stream:
        stream.start(slot, publications="p")
        receive_up_to(stream, wal_end(server.dsn))
        assert confirmed(server, slot) == before
        position = stream.server_lsn
        stream.confirm(position)
        stream.confirm(position - 100)
        assert stream.flushed == position
    assert confirmed(server, slot) == position
    insert(server, first=11)
    with ReplicationStream.connect(server.dsn) as stream:
        stream.start(slot, publications="p")
        assert rows_in(receive_up_to(stream, wal_end(server.dsn))) == 1


def test_a_position_is_reported_again_and_when_the_server_asks(
    own: EmbeddedServer, own_slot: str
) -> None:
    """An idle connection outlives the server's timeout of 2 s."""
    insert(own)
    with ReplicationStream.connect(own.dsn, ping_interval=60) as stream:
        stream.start(own_slot, publications="p")
        receive_up_to(stream, wal_end(own.dsn))
        end = time.monotonic() + 5
        while time.monotonic() < end:
            assert stream.receive(1) is not None
        insert(own, first=2)
        data = receive_up_to(stream, wal_end(own.dsn))
    assert [message.kind for message in walrow.messages(data)] == ["B", "I", "C"]


def test_waiting_ends_in_time(server: EmbeddedServer, slot: str) -> None:
    with ReplicationStream.connect(server.dsn) as stream:
        stream.start(slot, publications="p")
        receive_up_to(stream, wal_end(server.dsn))
        for timeout in (0, 0.3):
            begun = time.monotonic()
            while stream.receive(timeout):
                begun = time.monotonic()
            assert timeout <= time.monotonic() - begun < timeout + 0.2


def test_another_thread_wakes_it(server: EmbeddedServer, slot: str) -> None:
    readable, writable = os.pipe()
    with ReplicationStream.connect(server.dsn, wakeup_fd=readable) as stream:
        stream.start(slot, publications="p")
        receive_up_to(stream, wal_end(server.dsn))
        threading.Timer(0.2, lambda: os.write(writable, b"!")).start()
        begun = time.monotonic()
        while stream.receive(20):
            pass
        assert 0.1 < time.monotonic() - begun < 2
        # It stays readable, so data is still returned, but nothing waits.
        begun = time.monotonic()
        assert stream.receive(20) == b""
        assert time.monotonic() - begun < 1
    os.close(readable)
    os.close(writable)


def test_ctrl_c_ends_it_at_once(server: EmbeddedServer, slot: str) -> None:
    with ReplicationStream.connect(server.dsn) as stream:
        stream.start(slot, publications="p")
        timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
        timer.start()
        begun = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            receive_to_the_end(stream)
        stream.close()
        assert time.monotonic() - begun < 2


def test_a_slot_that_does_not_exist(server: EmbeddedServer) -> None:
    with ReplicationStream.connect(server.dsn) as stream:
        with pytest.raises(
            ReplicationError, match="create it: walrow slot create"
        ) as caught:
            stream.start("no such slot", publications="p")
        assert caught.value.sqlstate == "42704"
        assert caught.value.slot == "no such slot"
        assert not deserves_reconnect(caught.value)


def test_an_active_slot(server: EmbeddedServer, slot: str) -> None:
    with (
        ReplicationStream.connect(server.dsn) as first,
        ReplicationStream.connect(server.dsn) as second,
    ):
        first.start(slot, publications="p")
        with pytest.raises(ReplicationError, match="stop the client") as caught:
            second.start(slot, publications="p")
    assert caught.value.sqlstate == "55006"
    assert deserves_reconnect(caught.value)


def test_a_publication_that_does_not_exist(server: EmbeddedServer, slot: str) -> None:
    """Version 18 only warns, and would leave the rows out."""
    insert(server)
    with ReplicationStream.connect(server.dsn) as stream:
        stream.start(slot, publications=["p", "missing"])
        blocks = iter(lambda: stream.receive(10), None)
        received: list[bytes] = []
        with pytest.raises(ReplicationError, match="publication does not") as caught:
            received.extend(blocks)
        assert rows_in(b"".join(received)) == 0
        assert caught.value.sqlstate == "42704"
        assert not deserves_reconnect(caught.value)
        # It stays.
        assert failure_of(stream) is caught.value


def test_a_slot_that_lost_its_wal(own: EmbeddedServer, own_slot: str) -> None:
    for _ in range(5):
        execute(own.dsn, "SELECT pg_switch_wal()", "CREATE TABLE x ()", "DROP TABLE x")
    execute(own.dsn, "CHECKPOINT")
    with (
        ReplicationStream.connect(own.dsn) as stream,
        pytest.raises(ReplicationError, match="walrow preflight") as caught,
    ):
        stream.start(own_slot, publications="p")
    assert caught.value.sqlstate == "55000"
    assert not deserves_reconnect(caught.value)


def test_a_terminated_walsender(server: EmbeddedServer, slot: str) -> None:
    insert(server)
    with ReplicationStream.connect(server.dsn) as stream:
        stream.start(slot, publications="p")
        receive_up_to(stream, wal_end(server.dsn))
        execute(server.dsn, "SELECT pg_terminate_backend(pid) FROM pg_stat_replication")
        error = failure_of(stream)
    assert isinstance(error, ReplicationError)
    assert error.sqlstate == "57P01"
    assert deserves_reconnect(error)


def test_a_clean_shutdown_does_not_wait_for_the_client(
    own: EmbeddedServer, own_slot: str
) -> None:
    insert(own)
    with ReplicationStream.connect(own.dsn) as stream:
        stream.start(own_slot, publications="p")
        receive_up_to(stream, wal_end(own.dsn))
        stream.confirm(stream.server_lsn)
        stopping = threading.Thread(target=own.shut_down)
        stopping.start()
        try:
            deadline = time.monotonic() + 20
            while (block := stream.receive(1)) is not None:
                assert time.monotonic() < deadline
                if block:
                    stream.confirm(stream.server_lsn)
            assert stream.receive(0) is None
            stopping.join(20)
            assert not stopping.is_alive()
            with pytest.raises(ReplicationError) as caught:
                ReplicationStream.connect(own.dsn)
            assert deserves_reconnect(caught.value)
        finally:
            stopping.join()
            own.start()


def test_a_killed_server(own: EmbeddedServer, own_slot: str) -> None:
    with ReplicationStream.connect(own.dsn) as stream:
        stream.start(own_slot, publications="p")
        receive_up_to(stream, wal_end(own.dsn))
        own.restart("kill")
        error = failure_of(stream)
    assert isinstance(error, ConnectionLostError)
    assert deserves_reconnect(error)


def test_a_connection_that_is_cut(server: EmbeddedServer, slot: str) -> None:
    insert(server, rows=50_000)
    with Proxy(server) as proxy, ReplicationStream.connect(proxy.dsn) as stream:
        stream.start(slot, publications="p", streaming=False)
        while not (stream.receive(1) or b"")[100:]:
            pass
        proxy.cut()
        assert isinstance(failure_of(stream), ConnectionLostError)


def test_a_silent_server_is_asked_and_then_lost(
    server: EmbeddedServer, slot: str
) -> None:
    with (
        Proxy(server) as proxy,
        ReplicationStream.connect(proxy.dsn, ping_interval=0.5) as stream,
    ):
        stream.start(slot, publications="p")
        # The answers to the pings keep it alive.
        end = time.monotonic() + 3
        while time.monotonic() < end:
            assert stream.receive(0.2) is not None
        proxy.stall()
        begun = time.monotonic()
        with pytest.raises(ConnectionLostError, match="has sent nothing for"):
            receive_to_the_end(stream)
        assert time.monotonic() - begun < 3
        assert time.monotonic() - stream.last_received >= 1


def test_a_pause_of_the_client_is_no_silence_of_the_server(
    server: EmbeddedServer, slot: str
) -> None:
    with ReplicationStream.connect(server.dsn, ping_interval=0.1) as stream:
        stream.start(slot, publications="p")
        for _ in range(3):
            time.sleep(1)
            assert stream.receive(0) is not None
            assert stream.receive(0.05) is not None


def test_confirming_never_waits(server: EmbeddedServer, slot: str) -> None:
    with Proxy(server) as proxy, ReplicationStream.connect(proxy.dsn) as stream:
        stream.start(slot, publications="p")
        receive_up_to(stream, wal_end(server.dsn))
        proxy.stall()
        begun = time.monotonic()
        for _ in range(50_000):
            stream.confirm(stream.server_lsn)
        assert time.monotonic() - begun < 10
        proxy.flow()
        insert(server)
        data = receive_up_to(stream, wal_end(server.dsn))
        assert "I" in [message.kind for message in walrow.messages(data)]
        # The server takes all reports, one after the other.
        position = stream.server_lsn
        stream.confirm(position)
        deadline = time.monotonic() + 20
        while confirmed(server, slot) != position:
            assert time.monotonic() < deadline
            stream.receive(0.1)


def test_closing_does_not_wait_for_a_silent_server(
    server: EmbeddedServer, slot: str
) -> None:
    insert(server, rows=50_000)
    with Proxy(server) as proxy:
        stream = ReplicationStream.connect(proxy.dsn)
        stream.start(slot, publications="p")
        proxy.stall()
        begun = time.monotonic()
        stream.close()
        stream.close()
        assert time.monotonic() - begun < 2
        assert "closed" in repr(stream)


@pytest.mark.parametrize("binary", [False, True])
def test_options_of_the_stream(
    server: EmbeddedServer, slot: str, *, binary: bool
) -> None:
    execute(server.dsn, "SELECT pg_logical_emit_message(true, 'us', 'hello')")
    insert(server, rows=1000)
    with ReplicationStream.connect(server.dsn) as stream:
        stream.start(slot, publications="p", binary=binary, messages=True)
        data = receive_up_to(stream, wal_end(server.dsn))
    messages = list(walrow.messages(data))
    kinds = {message.kind for message in messages}
    assert "M" in kinds
    assert "S" not in kinds
    (first, *_) = (message.new for message in messages if message.kind == "I")
    assert first == ([b"\0\0\0\1", b"x1"] if binary else ["1", "x1"])


def test_the_settings_are_pinned_and_the_users_kept(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def show(stream: ReplicationStream, name: str) -> Any:
        row = stream.connection.execute(f"SHOW {name}".encode()).fetchone()
        return row and row[0]

    own = "-c work_mem=3MB -c TimeZone=Asia/Tokyo"
    with ReplicationStream.connect(server.dsn, options=own) as stream:
        assert show(stream, "work_mem") == "3MB"
        assert show(stream, "TimeZone") == "UTC"
        assert show(stream, "application_name") == "walrow"
        assert stream.connection.info.get_parameters()["keepalives_idle"] == "30"
    name = "application_name=mine keepalives_idle=7"
    with ReplicationStream.connect(f"{server.dsn} {name}") as stream:
        assert show(stream, "application_name") == "mine"
        assert stream.connection.info.get_parameters()["keepalives_idle"] == "7"

    service = tmp_path / "services"
    parameters = server.dsn.replace(" ", "\n")
    service.write_text(f"[shop]\n{parameters}\noptions=-c work_mem=5MB\n")
    monkeypatch.setenv("PGSERVICEFILE", str(service))
    with ReplicationStream.connect("service=shop") as stream:
        assert show(stream, "work_mem") == "5MB"
        assert show(stream, "IntervalStyle") == "postgres"
    monkeypatch.setenv("PGOPTIONS", "-c work_mem=7MB")
    with ReplicationStream.connect(server.dsn) as stream:
        assert show(stream, "work_mem") == "7MB"


def test_no_timeout_ends_a_stream_that_works_or_waits(
    server: EmbeddedServer, slot: str
) -> None:
    names = ["idle_session", "idle_in_transaction_session", "lock"]
    if server.major >= 17:
        names.append("transaction")
    options = " ".join(f"-c {name}_timeout=200ms" for name in names)
    second = f"{slot}_2"
    with (
        psycopg.connect(server.dsn) as writer,
        ReplicationStream.connect(server.dsn, options=options) as stream,
    ):
        writer.execute(
            "INSERT INTO t SELECT i, repeat('x', 1000) FROM generate_series(1, 9000) i"
        )
        ends = threading.Timer(1, writer.commit)
        ends.start()
        time.sleep(0.5)
        # It waits for the lock of the transaction, and then keeps the snapshot.
        create_logical_slot(
            stream.connection, second, temporary=True, snapshot="export"
        )
        ends.join()
        time.sleep(0.5)
        stream.start(slot, publications="p", streaming=False)
        # Decoding the transaction goes on only when its first rows are taken.
        time.sleep(0.5)
        assert rows_in(receive_up_to(stream, wal_end(server.dsn))) == 9000


@pytest.mark.parametrize(
    ("variable", "value", "setting"),
    [
        ("PGTZ", "Asia/Tokyo", "TimeZone"),
        ("PGDATESTYLE", "German", "DateStyle"),
        ("PGCLIENTENCODING", "LATIN1", "client_encoding"),
    ],
)
def test_environment_variables_that_win_are_named(
    server: EmbeddedServer,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    value: str,
    setting: str,
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(SettingError, match=f"unset .* {variable}$") as caught:
        ReplicationStream.connect(server.dsn)
    assert caught.value.setting == setting
    assert not deserves_reconnect(caught.value)


def test_an_encoding_as_a_parameter_is_named(server: EmbeddedServer) -> None:
    with pytest.raises(SettingError, match="leave client_encoding out"):
        ReplicationStream.connect(server.dsn, client_encoding="LATIN1")


def test_a_database_without_an_encoding(server: EmbeddedServer) -> None:
    with (
        server.database("plain", "ENCODING 'SQL_ASCII' LOCALE 'C'") as name,
        ReplicationStream.connect(server.dsn_of(name)) as stream,
    ):
        assert stream.server_encoding == "SQL_ASCII"
        cursor = stream.connection.execute("SHOW client_encoding")
        assert cursor.fetchall() == [("SQL_ASCII",)]


@pytest.mark.parametrize(
    ("conninfo", "parameters"),
    [
        ("postgresql://u:hunter2@h:hunter2/shop", {}),
        ("postgresql://u:hun@ter2@h/shop", {}),
        ("postgresql://u:hun%ter2@h/shop", {}),
        ("postgresql://u:hun ter2@h/shop", {}),
        ("postgresql://u:hun/ter2@h/shop", {}),
        ("password='hunter2", {}),
        ("hunter2", {}),
        ("dbname=shop", {"no_such_parameter": "hunter2"}),
    ],
)
def test_a_connection_string_that_is_wrong(
    conninfo: str, parameters: dict[str, Any]
) -> None:
    with pytest.raises(OptionError) as caught:
        ReplicationStream.connect(conninfo, **parameters)
    assert_has_no(caught.value, "hunter2", "ter2")


def assert_has_no(error: BaseException, *secrets: str) -> None:
    seen: BaseException | None = error
    while seen is not None:
        for secret in secrets:
            assert secret not in str(seen)
            assert secret not in repr(seen)
            assert secret not in repr(vars(seen))
        seen = seen.__cause__ or seen.__context__
    text = "".join(traceback.format_exception_only(error))
    assert not any(secret in text for secret in secrets)
    assert pickle.loads(pickle.dumps(error)).args == error.args


@pytest.fixture(scope="module", params=[16, 18])
def guarded(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    """A server that asks the user `secret` for a password."""
    with EmbeddedServer(request.param) as server:
        execute(
            server.dsn,
            "CREATE ROLE secret LOGIN REPLICATION PASSWORD 'hunter2'",
            "CREATE ROLE weak LOGIN",
        )
        rules = server.data_directory / "pg_hba.conf"
        rules.write_text(
            "local all secret scram-sha-256\nlocal all absent reject\n"
            "local all postgres,weak,nobody trust\n"
        )
        execute(server.dsn, "SELECT pg_reload_conf()")
        time.sleep(0.5)
        yield server


@pytest.mark.parametrize(
    ("user", "database", "text"),
    [
        ("secret", "postgres", "password authentication failed"),
        ("nobody", "postgres", "does not exist"),
        ("postgres", "nowhere", "does not exist"),
        ("absent", "postgres", "rejects"),
        ("stranger", "postgres", "no pg_hba.conf entry"),
        ("weak", "postgres", "(permission denied|must be superuser or replication)"),
    ],
)
def test_a_login_that_is_refused(
    guarded: EmbeddedServer, user: str, database: str, text: str
) -> None:
    dsn = f"host={guarded.socket_directory} user={user} dbname={database}"
    with pytest.raises(ReplicationError, match=text) as caught:
        ReplicationStream.connect(f"{dsn} password=hunter3")
    assert_has_no(caught.value, "hunter3")
    assert not deserves_reconnect(caught.value)


def test_one_host_that_refuses_is_not_the_end_of_the_others(
    guarded: EmbeddedServer, tmp_path: Path
) -> None:
    def deserves(*hosts: object) -> bool:
        dsn = f"host={','.join(map(str, hosts))} user=postgres dbname=nowhere"
        with pytest.raises(ReplicationError, match="does not exist") as caught:
            ReplicationStream.connect(dsn)
        return deserves_reconnect(caught.value)

    here = guarded.socket_directory
    assert not deserves(here)
    assert not deserves(here, here)
    # Nothing listens there.
    assert deserves(here, tmp_path)
    assert deserves(tmp_path, here)


@pytest.mark.parametrize(
    "reason",
    [
        'connection to server at "certificates-db" (10.0.0.1), port 5432 failed:'
        " Connection refused",
        "failed to resolve host 'certificates-db': [Errno -3] Temporary failure",
        'connection to server at "db" failed: FATAL:  too many connections for role'
        ' "permission denied"',
    ],
)
def test_names_are_no_refusal(reason: str) -> None:
    assert deserves_reconnect(ReplicationError(f"connection failed: {reason}"))


def test_a_password_is_nowhere(guarded: EmbeddedServer) -> None:
    dsn = f"host={guarded.socket_directory} user=secret dbname=postgres"
    with ReplicationStream.connect(f"{dsn} password=hunter2") as stream:
        assert "hunter2" not in repr(stream) + repr(stream.connection)
        with pytest.raises(ReplicationError) as caught:
            stream.start("missing", publications="p")
        assert_has_no(caught.value, "hunter2")


def test_a_server_that_starts_up_or_is_full_deserves_another_attempt(
    guarded: EmbeddedServer,
) -> None:
    execute(guarded.dsn, "ALTER SYSTEM SET max_wal_senders = 1")
    guarded.restart()
    with (
        ReplicationStream.connect(guarded.dsn),
        pytest.raises(ReplicationError, match="max_wal_senders") as caught,
    ):
        ReplicationStream.connect(guarded.dsn)
    assert deserves_reconnect(caught.value)
    with pytest.raises(ReplicationError) as caught:
        ReplicationStream.connect("host=127.0.0.1 port=1 user=u dbname=d")
    assert deserves_reconnect(caught.value)


@pytest.mark.parametrize(
    ("sqlstate", "deserves"),
    [
        ("57P01", True),
        ("57P02", True),
        ("57P03", True),
        ("57P04", False),
        ("57014", True),
        ("08006", True),
        ("08P01", False),
        ("53300", True),
        ("53100", True),
        ("55006", True),
        ("55000", False),
        ("42704", False),
        ("42501", False),
        ("40001", True),
        ("42601", False),
        ("28P01", False),
        ("28000", False),
        ("3D000", False),
        ("22P05", False),
        ("58P01", False),
        ("XX000", False),
    ],
)
def test_errors_that_deserve_another_connection(
    sqlstate: str, *, deserves: bool
) -> None:
    assert deserves_reconnect(ReplicationError("x", sqlstate=sqlstate)) is deserves


def test_other_errors_deserve_none() -> None:
    assert not deserves_reconnect(OptionError("x"))
    assert not deserves_reconnect(KeyboardInterrupt())


@pytest.mark.parametrize(
    ("version", "options", "expected"),
    [
        (14, {}, {"proto_version": 2, "streaming": "on"}),
        (15, {}, {"proto_version": 3, "streaming": "on"}),
        (16, {}, {"proto_version": 4, "streaming": "parallel"}),
        (19, {}, {"proto_version": 4, "streaming": "parallel"}),
        (16, {"protocol_version": 3}, {"proto_version": 3, "streaming": "on"}),
        (16, {"protocol_version": 1}, {"proto_version": 1}),
        (16, {"streaming": False}, {"proto_version": 4}),
        (16, {"messages": True}, {"proto_version": 4, "messages": True}),
        (
            14,
            {"messages": True, "streaming": True},
            {"proto_version": 2, "messages": True, "streaming": "on"},
        ),
        (
            15,
            {"two_phase": True, "binary": True, "streaming": False},
            {"proto_version": 3, "two_phase": True, "binary": True},
        ),
        (16, {"streaming": "on"}, {"proto_version": 4, "streaming": "on"}),
        (16, {"streaming": "parallel"}, {"proto_version": 4, "streaming": "parallel"}),
        (
            16,
            {"origin": "none", "streaming": False},
            {"proto_version": 4, "origin": "none"},
        ),
    ],
)
def test_options_of_a_version(
    version: int, options: dict[str, Any], expected: dict[str, Any]
) -> None:
    names = {"publication_names": ["a", "b"]}
    assert stream_options(version, ("a", "b"), **options) == names | expected


@pytest.mark.parametrize(
    ("version", "publications", "options", "text"),
    [
        (13, ["p"], {}, "version 14"),
        (16, [], {}, "publications"),
        (14, ["p"], {"protocol_version": 3}, "from 1 to 2 on version 14"),
        (16, ["p"], {"protocol_version": 0}, "from 1 to 4"),
        (14, ["p"], {"two_phase": True}, "version 15"),
        (16, ["p"], {"two_phase": True, "protocol_version": 2}, "two_phase"),
        (16, ["p"], {"streaming": True, "protocol_version": 1}, "streaming"),
        (16, ["p"], {"streaming": "off"}, 'a bool, "on" or "parallel"'),
        (15, ["p"], {"streaming": "parallel"}, "protocol_version 4"),
        (15, ["p"], {"origin": "none"}, "version 16"),
        (16, ["p"], {"origin": "x"}, "origin"),
    ],
)
def test_options_that_a_version_lacks(
    version: int, publications: list[str], options: dict[str, Any], text: str
) -> None:
    with pytest.raises(OptionError, match=text):
        stream_options(version, publications, **options)


def test_the_order_of_calls(server: EmbeddedServer, slot: str) -> None:
    with ReplicationStream.connect(server.dsn) as stream:
        with pytest.raises(OptionError, match="call start"):
            stream.receive(0)
        stream.start(slot, publications="p")
        with pytest.raises(OptionError, match="starts once"):
            stream.start(slot, publications="p")
    with pytest.raises(OptionError, match="closed"):
        stream.receive(0)


def test_a_block_has_many_messages_of_a_busy_server(
    server: EmbeddedServer, slot: str
) -> None:
    """The server sends each by itself."""
    insert(server, rows=20_000)
    with ReplicationStream.connect(server.dsn) as stream:
        stream.start(slot, publications="p", streaming=False)
        end = wal_end(server.dsn)
        blocks = messages = 0
        while stream.server_lsn < end:
            block = stream.receive(0.1) or b""
            blocks += 1
            messages += sum(1 for _ in walrow.messages(block)) if block else 0
            if not block:
                stream.confirm(0, reply=True)
    assert messages > 20_000
    assert messages > 20 * blocks


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[tuple[EmbeddedServer, str]]:
    """A server with TLS, and its connection string."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"listen_addresses": "127.0.0.1", "port": str(port)}
    with FetchedServer(18, settings=settings) as server:
        data, key = server.data_directory, tmp_path / "key"
        certificate = tmp_path / "certificate"
        command = "openssl req -x509 -nodes -subj /CN=localhost -newkey rsa:2048"
        subprocess.run(  # noqa: S603
            [*command.split(), "-keyout", key, "-out", certificate],
            check=True,
            capture_output=True,
        )
        owner = data.stat()
        for name, file in (("server.key", key), ("server.crt", certificate)):
            (data / name).write_bytes(file.read_bytes())
            (data / name).chmod(0o600)
            os.chown(data / name, owner.st_uid, owner.st_gid)
        local = f"{server.dsn} port={port}"
        with psycopg.connect(local, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET ssl = on")
            connection.execute("CREATE TABLE t (a int PRIMARY KEY, b text)")
            connection.execute("CREATE PUBLICATION p FOR TABLE t")
            create_slot(local, "s")
        server.restart()
        yield server, f"host=127.0.0.1 user=postgres dbname=postgres port={port}"


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("WALROW_SLOW"), reason="fetches a server: make test-all"
)
def test_bytes_that_tls_has_decrypted_do_not_wait(
    secured: tuple[EmbeddedServer, str],
) -> None:
    """Each row comes in several TLS records, of which poll sees only unread ones."""
    _, dsn = secured
    sizes = [*range(7_000, 9_000, 97), *range(15_000, 18_000, 97), 70_000, 300_000]
    dsn = f"{dsn} sslmode=require"
    with (
        psycopg.connect(dsn, autocommit=True) as writer,
        ReplicationStream.connect(dsn) as stream,
    ):
        assert stream.connection.pgconn.ssl_in_use
        stream.start("s", publications="p")
        slowest = 0.0
        for key, size in enumerate(sizes):
            writer.execute("INSERT INTO t VALUES (%s, repeat('x', %s))", (key, size))
            begun = time.monotonic()
            received = b""
            while len(received) < size or received.count(b"C\0") == 0:
                block = stream.receive(10)
                assert block is not None
                received += block
            slowest = max(slowest, time.monotonic() - begun)
    assert slowest < 2
