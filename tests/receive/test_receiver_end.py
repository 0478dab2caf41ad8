"""`walrow receive --until now`: it ends with the last commit before its start, and names the rest."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

import walrow
from servers.loads import loads
from servers.receiving import (
    Feed,
)
from walrow._log.requests import request
from walrow.log import PendingLoad

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

#: The exit code of the command.
LEFT = 5


@pytest.fixture
def feed(feed: Feed) -> Iterator[Feed]:
    yield feed
    for (gid,) in feed.execute("SELECT gid FROM pg_prepared_xacts"):
        feed.execute(f"ROLLBACK PREPARED '{gid}'")


def prepare(feed: Feed, gid: str, *statements: str) -> None:
    feed.execute("BEGIN", *statements, f"PREPARE TRANSACTION '{gid}'")


def test_what_waits_for_somebody_is_left_and_named(
    feed: Feed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("walrow._receive.driver._PAUSE_SECONDS", 3)
    assert feed.receive_now().left == ()
    prepare(feed, "mine", "INSERT INTO item VALUES (1, 1)")
    request(feed.log, ["public.item"])
    feed.execute("INSERT INTO item VALUES (2, 2)")

    received = feed.receive_now()
    load, transaction = received.left
    assert isinstance(load, PendingLoad)
    assert load.tables == ("public.item",)
    assert [it.gid for it in load.transactions] == ["mine"]
    assert isinstance(transaction, walrow.postgres.OpenTransaction)
    assert transaction.gid == "mine"
    assert str(load).startswith(
        "the load of public.item, which waits for prepared transaction 'mine' of postgres"
    )
    assert [table.rows for table in walrow.Log(feed.log).tables()] == [1]
    assert loads(feed.log) == {"public.item": None}

    # `left` is empty as soon as the transaction is decided.
    feed.execute("COMMIT PREPARED 'mine'")
    assert feed.receive_now().left == ()
    assert loads(feed.log)["public.item"] is not None
    feed.check()


def test_the_command_names_it(feed: Feed) -> None:
    """Only a transaction that wrote to a published table before the start."""
    feed.execute("CREATE TABLE IF NOT EXISTS elsewhere (id int)")
    prepare(feed, "other", "INSERT INTO elsewhere VALUES (1)", "TABLE item")
    feed.receive_all()
    prepare(feed, "mine", "INSERT INTO item VALUES (1, 1)")
    text = feed.receive_all(code=LEFT)
    last = text.splitlines()[-1]
    assert last.startswith("walrow: the log lacks prepared transaction 'mine' of")
    assert last.endswith("COMMIT PREPARED or ROLLBACK PREPARED ends it")
    assert "other" not in text
    feed.receive_all("--quiet", code=LEFT)


@pytest.mark.slow
def test_a_load_that_goes_on_is_waited_for(feed: Feed) -> None:
    """Also if somebody has its table locked for a moment."""
    feed.receive_now()
    feed.execute("INSERT INTO item VALUES (1, 1)")
    request(feed.log, ["public.item"])
    with psycopg.connect(feed.dsn) as connection:
        connection.execute("LOCK TABLE item IN ACCESS EXCLUSIVE MODE")
        with feed.receiver("--until", "now") as receiver:
            receiver.until(lambda state: "begins again" in (state["note"] or ""))
            connection.rollback()
            assert receiver.wait()[0] == 0
    assert loads(feed.log)["public.item"] is not None
    feed.check()
