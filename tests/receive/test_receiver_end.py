"""`walrow receive --until now`: it ends with the last commit before its start, and names the rest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import walrow
from servers import EmbeddedServer
from servers.loads import loads
from servers.receiving import (
    Load,
    ReceiverProcess,
    check_log,
    execute,
    receive_all,
    slot_for_load,
)
from walrow._log.requests import request
from walrow.log import PendingLoad, Received

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

#: The exit code of the command.
LEFT = 5


@pytest.fixture
def slot(server: EmbeddedServer) -> Iterator[str]:
    with slot_for_load(server) as name:
        yield name
        for (gid,) in execute(server.dsn, "SELECT gid FROM pg_prepared_xacts"):
            execute(server.dsn, f"ROLLBACK PREPARED '{gid}'")


def receive(server: EmbeddedServer, log: Path, slot: str) -> Received:
    return walrow.receive(
        server.dsn, log=log, slot=slot, publications="p", until="now", publish_after=0.2
    )


def prepare(server: EmbeddedServer, gid: str, *statements: str) -> None:
    execute(server.dsn, "BEGIN", *statements, f"PREPARE TRANSACTION '{gid}'")


def test_what_waits_for_somebody_is_left_and_named(
    server: EmbeddedServer,
    slot: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("walrow._receive.driver._PAUSE_SECONDS", 3)
    log = tmp_path / "log"
    assert receive(server, log, slot).left == ()
    prepare(server, "mine", "INSERT INTO item VALUES (1, 1)")
    request(log, ["public.item"])
    execute(server.dsn, "INSERT INTO item VALUES (2, 2)")

    received = receive(server, log, slot)
    load, transaction = received.left
    assert isinstance(load, PendingLoad)
    assert load.tables == ("public.item",)
    assert [it.gid for it in load.transactions] == ["mine"]
    assert isinstance(transaction, walrow.postgres.OpenTransaction)
    assert transaction.gid == "mine"
    assert str(load).startswith(
        "the load of public.item, which waits for prepared transaction 'mine' of postgres"
    )
    assert [table.rows for table in walrow.Log(log).tables()] == [1]
    assert loads(log) == {"public.item": None}

    # `left` is empty as soon as the transaction is decided.
    execute(server.dsn, "COMMIT PREPARED 'mine'")
    assert receive(server, log, slot).left == ()
    assert loads(log)["public.item"] is not None
    check_log(server.dsn, log, Load.TABLES)


def test_the_command_names_it(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """Only a transaction that wrote to a published table before the start."""
    log = tmp_path / "log"
    execute(server.dsn, "CREATE TABLE IF NOT EXISTS elsewhere (id int)")
    prepare(server, "other", "INSERT INTO elsewhere VALUES (1)", "TABLE item")
    receive_all(server.dsn, log, slot=slot)
    prepare(server, "mine", "INSERT INTO item VALUES (1, 1)")
    text = receive_all(server.dsn, log, slot=slot, code=LEFT)
    last = text.splitlines()[-1]
    assert last.startswith("walrow: the log lacks prepared transaction 'mine' of")
    assert last.endswith("COMMIT PREPARED or ROLLBACK PREPARED ends it")
    assert "other" not in text
    receive_all(server.dsn, log, "--quiet", slot=slot, code=LEFT)


@pytest.mark.slow
def test_a_load_that_goes_on_is_waited_for(
    server: EmbeddedServer, slot: str, tmp_path: Path
) -> None:
    """Also if somebody has its table locked for a moment."""
    log = tmp_path / "log"
    receive(server, log, slot)
    execute(server.dsn, "INSERT INTO item VALUES (1, 1)")
    request(log, ["public.item"])
    with psycopg.connect(server.dsn) as connection:
        connection.execute("LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
        with ReceiverProcess(server.dsn, log, "--until", "now", slot=slot) as receiver:
            receiver.until(lambda state: "begins again" in (state["note"] or ""))
            connection.rollback()
            assert receiver.wait()[0] == 0
    assert loads(log)["public.item"] is not None
    check_log(server.dsn, log, Load.TABLES)
