"""`walrow follow --dsn`: its temporary slot and publication end with it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from cli.fork_server import COMMAND
from servers import EmbeddedServer
from servers.receiving import execute

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


@pytest.fixture
def shop(server: EmbeddedServer) -> Iterator[str]:
    with server.database("followed") as name:
        dsn = server.dsn_of(name)
        execute(dsn, "CREATE TABLE orders (id int PRIMARY KEY, price numeric(8, 2))")
        execute(dsn, "CREATE TABLE audit (note text)")
        yield dsn
        deadline = time.monotonic() + 10
        while left := _left(dsn):
            assert time.monotonic() < deadline, left
            time.sleep(0.05)


def _left(dsn: str) -> list[Any]:
    return [
        *execute(
            dsn, "SELECT pubname FROM pg_publication WHERE pubname LIKE 'walrow%'"
        ),
        *execute(
            dsn,
            "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()",
        ),
    ]


def follow(dsn: str, *words: str) -> subprocess.Popen[str]:
    """Follows a server. Its lines come through pipes."""
    return subprocess.Popen(  # noqa: S603
        [*COMMAND, "follow", "--dsn", dsn, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _until_followed(dsn: str) -> None:
    """Waits until the stream has begun, so that later commits are in it."""
    active = (
        "SELECT slot_name FROM pg_replication_slots"
        " WHERE database = current_database() AND confirmed_flush_lsn IS NOT NULL"
    )
    deadline = time.monotonic() + 20
    while not execute(dsn, active):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.parametrize("words", [["--table", "orders"], ["--publication", "p"]])
def test_changes_come_as_they_are_committed(shop: str, words: list[str]) -> None:
    execute(shop, "CREATE PUBLICATION p FOR TABLE orders, audit")
    is_published = words[0] == "--publication"
    with follow(shop, *words, "--json") as process:
        assert process.stdout
        assert process.stderr
        # Later changes are shown.
        said = process.stderr.readline()
        assert (
            said == "walrow: changes that are committed from now on; Ctrl-C ends it\n"
        )
        begun = time.monotonic()
        execute(
            shop,
            "INSERT INTO orders VALUES (7, 9.5)",
            "INSERT INTO audit VALUES ('x')",
            "UPDATE orders SET price = 12 WHERE id = 7",
            "TRUNCATE orders",
        )
        count = 4 if is_published else 3
        found = [json.loads(process.stdout.readline()) for _ in range(count)]
        assert time.monotonic() - begun < 10
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    if is_published:
        audit = found.pop(1)
        assert (audit["table"], audit["key"]) == ("public.audit", None)
    assert [(it["change"], it["key"], it["new"]) for it in found] == [
        ("insert", {"id": "7"}, {"id": "7", "price": "9.50"}),
        ("update", {"id": "7"}, {"id": "7", "price": "12.00"}),
        ("truncate", None, None),
    ]
    assert found[0]["xid"] < found[1]["xid"]


def test_a_table_that_is_not_there_is_an_error(shop: str) -> None:
    with follow(shop, "--table", "oders") as process:
        output, errors = process.communicate(timeout=60)
    assert (process.returncode, output) == (1, "")
    assert "no table oders in the database" in errors


def test_a_closed_pipe_ends_it_and_its_slot(shop: str) -> None:
    with follow(shop, "--table", "orders") as process:
        assert process.stdout
        _until_followed(shop)
        process.stdout.close()
        assert process.wait(20) == 141
