"""A receiver and a standby that takes over, with the failover slot that it has."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from servers import EmbeddedServer, Standby
from servers.receiving import (
    Disk,
    Load,
    ReceiverProcess,
    check_log,
    end_of_wal,
    execute,
    receive_all,
)

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(300)]

SYNCED = (
    "SELECT synced AND NOT temporary FROM pg_replication_slots WHERE slot_name = 's'"
)


def prepared(server: EmbeddedServer, log: Path) -> None:
    """Makes the tables, their publication, and the slot before they have rows."""
    execute(server.dsn, Load.SETUP, f"CREATE PUBLICATION p FOR TABLE {_TABLES}")
    receive_all(server.dsn, log, "--create", "--failover")


def until(server: EmbeddedServer, query: str) -> None:
    deadline = time.monotonic() + 90
    while execute(server.dsn, query) != [(True,)]:
        assert time.monotonic() < deadline, query
        time.sleep(0.1)


def test_a_receiver_goes_on_where_the_standby_is_promoted(tmp_path: Path) -> None:
    """One process, whose connection string has both: no step by hand on its side."""
    log = tmp_path / "log"
    with EmbeddedServer(18) as primary, Standby(primary) as standby:
        prepared(primary, log)
        # Then the primary sends nothing that the standby does not have.
        execute(
            primary.dsn,
            "ALTER SYSTEM SET synchronized_standby_slots = 'standby'",
            "SELECT pg_reload_conf()",
        )
        hosts = f"{primary.socket_directory},{standby.socket_directory}"
        both = f"host={hosts} user=postgres dbname=postgres"
        both += " target_session_attrs=read-write"
        with ReceiverProcess(both, log, "--segment-size", "1MiB") as receiver:
            with Load(primary.dsn, 1):
                receiver.until_streaming()
                until(standby, SYNCED)
                time.sleep(1)
                primary.shut_down("kill")
            execute(standby.dsn, "SELECT pg_promote()")
            with Load(standby.dsn, 2) as load:
                time.sleep(2)
            assert load.transactions > 10
            receiver.until_streaming(after=end_of_wal(standby.dsn), timeout=90)
            receiver.stop()
        check_log(standby.dsn, log, Load.TABLES)


def test_a_switchover_while_the_disk_is_full(tmp_path: Path) -> None:
    """The primary waits for the receiver, which lets it go: it is behind, and continues with the other."""
    log = tmp_path / "log"
    disk = Disk(log)
    with EmbeddedServer(18) as primary, Standby(primary) as standby:
        prepared(primary, log)
        hosts = f"{primary.socket_directory},{standby.socket_directory}"
        both = f"host={hosts} user=postgres dbname=postgres"
        both += " target_session_attrs=read-write"
        with ReceiverProcess(both, log, disk=disk) as receiver:
            receiver.until_streaming()
            until(standby, SYNCED)
            with disk.has("full"):
                execute(primary.dsn, "INSERT INTO audit (what) VALUES ('before')")
                time.sleep(1)
                begin = time.monotonic()
                primary.shut_down("fast")
                assert time.monotonic() - begin < 10
                execute(standby.dsn, "SELECT pg_promote()")
                time.sleep(2)
            execute(standby.dsn, "INSERT INTO audit (what) VALUES ('after')")
            receiver.until_streaming(after=end_of_wal(standby.dsn))
            receiver.stop()
        check_log(standby.dsn, log, Load.TABLES)


def test_a_log_that_is_further_than_the_standby_is_refused(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with EmbeddedServer(18) as primary, Standby(primary) as standby:
        prepared(primary, log)
        # The standby takes a slot only once it has moved on.
        with ReceiverProcess(primary.dsn, log) as receiver, Load(primary.dsn, 1):
            receiver.until_streaming()
            until(standby, SYNCED)
            standby.shut_down()
        execute(primary.dsn, "INSERT INTO audit (what) VALUES ('only in the log')")
        receive_all(primary.dsn, log)
        primary.shut_down("kill")
        standby.start()
        execute(
            standby.dsn,
            "SELECT pg_promote()",
            "INSERT INTO audit (what) VALUES ('only on the standby')",
        )
        with ReceiverProcess(standby.dsn, log, "--until", "now") as receiver:
            code, text = receiver.wait()
        assert code != 0
        assert "transactions that this server does" in text


_TABLES = ", ".join(Load.TABLES)
