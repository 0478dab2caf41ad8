"""Findings about the standbys of a connection string with several hosts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from servers import EmbeddedServer, Standby
from servers.receiving import ReceiverProcess, execute, run_walrow
from walrow._postgres.preflight.hosts import Away, Host, check_hosts
from walrow._postgres.slots import Slot

SETTINGS: dict[str, Any] = {
    "major": 18,
    "standby": False,
    "hot_standby_feedback": True,
    "primary_slot_name": "",
    "sync_replication_slots": True,
    "synchronized_standby_slots": "standby",
}
STANDBY = SETTINGS | {"standby": True, "primary_slot_name": "standby"}


def slot(name: str = "s", **given: Any) -> Slot:
    fields = dict.fromkeys(Slot.__annotations__)
    usual = {
        "name": name,
        "kind": "logical",
        "temporary": False,
        "wal_status": "reserved",
    }
    return Slot(**{**fields, **usual, **given})


def primary(
    *, active: bool = True, failover: bool = True, awaited: str = "standby"
) -> Host:
    physical = slot("standby", kind="physical", active_pid=7 if active else None)
    settings = SETTINGS | {"synchronized_standby_slots": awaited}
    return Host("a", settings, {"s": slot(failover=failover), "standby": physical})


def standby(*slots: Slot, **settings: Any) -> Host:
    return Host("b", STANDBY | settings, {it.name: it for it in slots})


COPY = slot(synced=True)


@pytest.mark.parametrize(
    ("hosts", "code", "text"),
    [
        ([primary(), standby()], "standby-slot-missing", "s is not on standby b yet"),
        (
            [primary(failover=False), standby()],
            "standby-slot-missing",
            "no failover slot, which walrow slot alter s --failover changes",
        ),
        (
            [primary(), standby(sync_replication_slots=False)],
            "standby-slot-missing",
            "sync_replication_slots is off",
        ),
        ([primary(), standby(slot(synced=False))], "standby-slot-own", "of its own"),
        (
            [primary(), standby(slot(synced=True, temporary=True))],
            "standby-slot-not-ready",
            "copied to standby b, and not ready yet",
        ),
        (
            [
                primary(),
                standby(
                    slot(synced=True, conflict=True, invalidation_reason="rows_removed")
                ),
            ],
            "standby-slot-lost",
            "lost on standby b: rows_removed",
        ),
        (
            [primary(), standby(slot(conflict=True, wal_status="lost"), major=16)],
            "standby-slot-lost",
            "or on a standby, the primary removed rows",
        ),
        (
            [primary(failover=False), standby(major=16)],
            "standby-slot-version",
            "PostgreSQL copies slots to standbys from 17 on",
        ),
        (
            [primary(), standby(COPY, primary_slot_name="")],
            "standby-primary-slot-name",
            "standby b has no primary_slot_name",
        ),
        (
            [primary(), standby(COPY, hot_standby_feedback=False)],
            "standby-feedback",
            "has no hot_standby_feedback",
        ),
        (
            [primary(active=False), standby(COPY)],
            "standby-physical-slot",
            "slot standby of standby b is not active",
        ),
        (
            [primary(active=False), standby(COPY)],
            "standby-slot-inactive",
            "sends no changes from slot s",
        ),
        (
            [primary(awaited="other, third"), standby(COPY)],
            "standby-slot-not-awaited",
            "synchronized_standby_slots lacks standby",
        ),
        ([primary(), Away("b", "it is off")], "host-away", "it is off"),
    ],
)
def test_each_finding(hosts: Sequence[Host | Away], code: str, text: str) -> None:
    found = {it.code: it for it in check_hosts("s", hosts)}
    assert text in found[code].text
    assert all(it.severity == "warning" for it in found.values())


def test_a_standby_that_can_take_over_has_none() -> None:
    assert list(check_hosts("s", [primary(), standby(COPY)])) == []


@pytest.mark.live
@pytest.mark.timeout(120)
def test_a_receiver_records_them(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with EmbeddedServer(18) as server, Standby(server) as other:
        execute(
            server.dsn,
            "CREATE TABLE t (id int PRIMARY KEY)",
            "CREATE PUBLICATION p FOR TABLE t",
        )
        execute(
            other.dsn,
            "ALTER SYSTEM SET primary_slot_name = ''",
            "SELECT pg_reload_conf()",
        )
        hosts = f"{server.socket_directory},{other.socket_directory}"
        dsn = f"host={hosts} user=postgres dbname=postgres target_session_attrs=read-write"
        wanted = f"standby {other.socket_directory} has no primary_slot_name"
        with ReceiverProcess(dsn, log, "--create", "--failover") as receiver:

            def has_it(state: dict[str, Any]) -> bool:
                facts = (state["record"] or {}).get("receiver") or {}
                return wanted in str(facts.get("hosts"))

            receiver.until(has_it)
            shown = run_walrow("status", log)
        assert f"host:     {wanted}" in shown.stdout
        found = run_walrow(
            *("preflight", "--json", "--dsn", dsn, "--slot", "s", "--publication", "p")
        )
        codes = [json.loads(line)["code"] for line in found.stdout.splitlines()]
        assert "standby-primary-slot-name" in codes
        # The standby itself.
        found = run_walrow("preflight", "--dsn", other.dsn, "--publication", "p")
        assert "the standby has no primary_slot_name" in found.stdout
