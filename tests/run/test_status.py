"""`walrow status` and `walrow run --once` in each state of a server, a disk and the processes."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from servers import EmbeddedServer

pytest.importorskip("deltalake", reason="needs deltalake: pip install deltalake")
pytest.importorskip("click")

import psycopg
from click.testing import CliRunner

from servers.receiving import drop_if_there, until
from servers.shop import Running, Shop, opened_shop, processes
from walrow._log import status_record
from walrow._log.requests import request

pytestmark = [pytest.mark.live, pytest.mark.timeout(1500)]

#: A busy machine takes long for a process.
LONG = 300.0


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedServer]:
    """A server that the tests of this file may stop. A role of it needs a password."""
    with EmbeddedServer(18) as running:
        rules = running.data_directory / "pg_hba.conf"
        rules.write_text("local all keeper scram-sha-256\n" + rules.read_text())
        with psycopg.connect(running.dsn, autocommit=True) as conn:
            conn.execute("CREATE ROLE keeper SUPERUSER LOGIN PASSWORD 'right'")
            conn.execute("SELECT pg_reload_conf()")
        yield running


@pytest.fixture
def shop(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Shop]:
    monkeypatch.setenv("PGPASSWORD", "right")
    # The log's file system has little room, if this is root.
    small = tmp_path / "small"
    small.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=32m", "tmpfs", str(small)]
    mounted = subprocess.run(mount, capture_output=True, check=False)  # noqa: S603
    publication = "CREATE PUBLICATION shop FOR TABLE sales.orders"
    try:
        with opened_shop(server, tmp_path, publication) as made:
            made.log = small / "log"
            configure(made)
            yield made
    finally:
        if mounted.returncode == 0:
            subprocess.run(["umount", "--lazy", str(small)], check=True)  # noqa: S603, S607


def configure(shop: Shop, source: str = "") -> None:
    """Writes the file, with the log in its own file system."""
    shop.write(source)
    text = shop.file.read_text().replace("user=postgres", "user=keeper")
    shop.file.write_text(text.replace('path = "log"', f'path = "{shop.log}"'))


def status(shop: Shop, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code of `walrow status`, and its JSON. Its text has the same reasons and code."""
    from walrow.cli.app import cli

    done = CliRunner().invoke(cli, ["status", str(shop.log), "--json", *words])
    if not done.output.startswith("{"):
        return done.exit_code, {"reasons": [str(done.exception or done.output)]}
    found: dict[str, Any] = json.loads(done.output)
    assert done.exit_code == (1 if found["reasons"] else 0)
    return done.exit_code, found


def phase_of(shop: Shop) -> str:
    """The phase of a receiver that is alive."""
    receiver = status(shop)[1].get("receiver", {})
    is_alive = receiver.get("life") == "alive"
    return str(receiver["record"]["phase"]["name"]) if is_alive else ""


def is_well(shop: Shop) -> bool:
    code, found = status(shop)
    targets = found.get("targets", [])
    return code == 0 and bool(targets) and all(it["is_current"] for it in targets)


def is_bad(shop: Shop, *words: str) -> bool:
    """Whether the exit code is 1, a reason has each of the words, and no target is called current."""
    code, found = status(shop)
    reasons = "\n".join(found["reasons"])
    if code != 1 or not all(it in reasons for it in words):
        return False
    assert not any(it["is_current"] for it in found["targets"])
    return True


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextlib.contextmanager
def filled(directory: Path) -> Iterator[None]:
    """A file system without room."""
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))
    try:
        yield
    finally:
        ballast.unlink()


def test_each_state(  # noqa: PLR0915 -- one state after the other
    shop: Shop, server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nothing has ever run.
    assert status(shop)[0] == 1
    with Running(shop) as running:
        # Idle.
        until(lambda: is_well(shop), LONG)
        assert phase_of(shop) == "streaming"
        found = status(shop)[1]
        record = found["receiver"]["record"]
        assert record["process"] == processes(shop)["receive"]
        facts = record["receiver"]
        assert (facts["reconnects"], facts["error"]) == (0, None)
        # A keepalive's position is durable a moment before readers see it.
        until(lambda: len({*positions(shop)}) == 1, LONG)
        (target,) = found["targets"]
        assert target["committed"] is not None
        assert found["applier"]["record"]["targets"][0]["end"] == target["end"]

        # A snapshot, whose slot waits for a transaction.
        with psycopg.connect(shop.dsn) as conn:
            conn.execute("CREATE TEMP TABLE held (n int)")
            request(shop.log, ["sales.orders"])
            until(lambda: phase_of(shop) == "snapshotting", LONG)
            assert status(shop)[0] == 0
        until(lambda: is_well(shop) and phase_of(shop) == "streaming", LONG)

        # An outage.
        server.shut_down("immediate")
        until(lambda: is_bad(shop, "the receiver (process ", "is degraded since"), LONG)
        assert phase_of(shop) == "degraded"
        server.start()
        until(lambda: is_well(shop), LONG)
        receiver = status(shop)[1]["receiver"]["record"]["receiver"]
        assert receiver["reconnects"] == 1
        assert receiver["error"] is not None

        # A full disk. The record does not need room. Only root can mount a small one.
        if shop.log.parent.is_mount():
            with filled(shop.log.parent):
                shop.sql(
                    "INSERT INTO sales.orders SELECT g, g FROM generate_series(1000, 60000) g"
                )
                until(lambda: is_bad(shop, "is degraded", "No space left"), LONG)
            until(lambda: is_well(shop), LONG)

        # Frozen processes.
        with monkeypatch.context() as patched:
            patched.setattr(status_record, "BEAT_SECONDS", 2.0)
            patched.setattr(status_record, "_STALE", dt.timedelta(seconds=8))
            for part, name in (("receive", "receiver"), ("apply", "applier")):
                with stopped(processes(shop)[part]):
                    until(partial(is_stale, shop, name), LONG)
                until(lambda: is_well(shop), LONG)

        # A wrong password. The parent starts the receiver again and again.
        alter = "ALTER ROLE keeper PASSWORD '{}'"
        cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'keeper'"
        shop.sql(alter.format("other"), cut)
        until(lambda: is_bad(shop, "password authentication failed"), LONG)
        assert is_bad(shop)
        shop.sql(alter.format("right"))
        until(lambda: is_well(shop), LONG)

        # A lost slot.
        shop.sql(cut)
        drop_if_there(shop.dsn, shop.slot)
        lost = (
            "receive has ended: ",
            f'slot "{shop.slot}": it does not exist',
            "--cross-gap",
        )
        until(lambda: is_bad(shop, *lost), LONG)
        assert running.stop() < 20
    assert is_bad(shop, "no applier runs, and a target is configured: the last one was")


def positions(shop: Shop) -> tuple[str, str, str]:
    facts = status(shop)[1]["receiver"]["record"]["receiver"]
    return facts["received"], facts["durable"], facts["visible"]


def is_stale(shop: Shop, name: str) -> bool:
    code, found = status(shop)
    return code == 1 and any(
        f"the {name} (process" in it and "its process is stopped or hangs" in it
        for it in found["reasons"]
    )


def test_killed(shop: Shop) -> None:
    with Running(shop) as running:
        until(lambda: is_well(shop), LONG)
        running.process.kill()
        running.process.wait()
        until(lambda: not processes(shop), LONG)
        # The lock of a process goes a moment after its command line.
        killed = ("the receiver was killed", "the applier was killed")
        until(lambda: is_bad(shop, *killed), LONG)
        # A copy is not alive while its original is.
        with Running(shop):
            until(lambda: is_well(shop), LONG)
            (shop.folder / "copied").mkdir()
            copied = Shop(shop.dsn, shop.folder / "copied", shop.slot)
            shutil.copytree(shop.log, copied.log)
            assert is_bad(
                copied, "the receiver was killed", "or this is a copy of its log"
            )
            assert is_well(shop)


def test_once_says_what_is_so(shop: Shop, server: EmbeddedServer) -> None:
    configure(shop, "start_within = 1")
    code, said = shop.call("run", str(shop.file), "--once")
    assert code == 0, said
    assert "tables that are current: 1 of 1" in said
    # Cron does not keep it running.
    assert is_bad(
        shop, "no receiver runs, and a target is configured: the last one was stopped"
    )
    assert status(shop, "--allow-stopped")[0] == 0
    server.shut_down("fast")
    try:
        code, said = shop.call("run", str(shop.file), "--once")
        assert code == 1
        assert "no table is known to be current: receive has ended: " in said
        assert "tables that have all of the log: 1 of 1" in said
        assert "that are current" not in said
        code, said = shop.call("run", str(shop.file), "--once", "--json")
        last = json.loads(said.splitlines()[-1])
        assert (code, last["is_current"]) == (1, False)
        assert last["receiver"]["record"]["phase"]["name"] in (
            "stopped",
            "waiting_for_person",
        )
        assert last["reasons"]
        assert status(shop, "--allow-stopped")[0] == 1
    finally:
        server.start()
    code, said = shop.call("run", str(shop.file), "--once", "--json")
    assert code == 0, said
    last = json.loads(said.splitlines()[-1])
    assert (last["is_current"], last["reasons"]) == (True, [])
    assert status(shop, "--allow-stopped")[0] == 0
    # The lines before have the receiver's record, too.
    lines = [json.loads(it) for it in said.splitlines()]
    shown = [it["record"] for it in lines if it["part"] == "receive" and it["record"]]
    assert shown[-1]["process"] == last["receiver"]["record"]["process"]
