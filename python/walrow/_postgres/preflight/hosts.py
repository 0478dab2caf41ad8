"""Findings about the hosts of a connection string: whether its standbys can take over the slot."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import psycopg

from walrow._postgres.connecting import connect_for_sql
from walrow._postgres.preflight.finding import Finding
from walrow._postgres.preflight.slot import check_standby_slots, names_in, why_lost
from walrow._postgres.running import literal
from walrow._postgres.session import records
from walrow._postgres.slots import Slot, slots
from walrow.errors import Error


class Host(NamedTuple):
    """A host, its settings, and its slots by name."""

    name: str
    settings: Mapping[str, Any]
    slots: Mapping[str, Slot]


class Away(NamedTuple):
    """A host that cannot be asked."""

    name: str
    why: str


def look_at_hosts(given: Mapping[str, Any], slot: str | None) -> list[Finding]:
    """Asks each host of given parameters, if there are several."""
    found = {it: given.get(it) or os.environ.get(f"PG{it.upper()}") for it in _PLACE}
    lists = {name: str(it).split(",") for name, it in found.items() if it}
    count = max(map(len, lists.values()), default=0)
    # One port may be that of all hosts.
    places = [
        {name: each[number % len(each)] for name, each in lists.items()}
        for number in range(count)
    ]
    hosts = [_look(given, it) for it in places] if count > 1 else []
    return list(check_hosts(slot, hosts))


def _look(given: Mapping[str, Any], place: dict[str, str]) -> Host | Away:
    name = ":".join(filter(None, map(place.get, ("host", "hostaddr", "port"))))
    try:
        with connect_for_sql(
            {**given, **place, **_ONE}, statement_timeout="5s"
        ) as conn:
            (settings,) = records(conn, _SETTINGS)
            return Host(name, settings, {it.name: it for it in slots(conn)})
    except (Error, psycopg.Error) as error:
        return Away(name, str(error))


def check_hosts(slot: str | None, hosts: Sequence[Host | Away]) -> Iterator[Finding]:
    """Checks whether each standby can take over a slot, or any if it has no name yet."""
    known = [it for it in hosts if isinstance(it, Host)]
    everywhere = {name: it for host in known for name, it in host.slots.items()}
    primary = next((it for it in known if not it.settings["standby"]), None)
    original = None if primary is None else primary.slots.get(slot or "")
    if primary is not None:
        there = primary.slots.values()
        yield from check_standby_slots(original, primary.settings, there)
    for host in hosts:
        where = f"standby {host.name}"
        if isinstance(host, Away):
            text = f"it is not known whether host {host.name} can take over: {host.why}"
            yield Finding("host-away", "warning", text)
        elif host.settings["standby"]:
            if slot is not None and (found := _of_copy(slot, host, where, original)):
                yield found
            yield from check_standby(host.settings, where)
            used = host.settings["primary_slot_name"]
            if primary is not None and used:
                awaited, its = names_in(primary.settings), everywhere.get(used)
                yield from _of_physical(used, its, where, original, awaited)


def _of_copy(
    name: str, host: Host, where: str, original: Slot | None
) -> Finding | None:
    """Checks a standby's copy of the slot."""
    slot, sql = host.slots.get(name), None
    if slot is not None and (slot.wal_status == "lost" or slot.conflict):
        code, text = "lost", f"slot {name} is lost on {where}: {why_lost(slot)}"
    elif host.settings["major"] < _FAILOVER_SINCE:
        code = "version"
        text = f"{where} will not have slot {name}: PostgreSQL copies slots to standbys from {_FAILOVER_SINCE} on"
    elif slot is None:
        code, text = "missing", f"slot {name} is not on {where} yet"
        if original is not None and not original.failover:
            text += f": it is no failover slot, which walrow slot alter {name} --failover changes"
        elif not host.settings["sync_replication_slots"]:
            text += ": sync_replication_slots is off there"
            sql = f"ALTER SYSTEM SET sync_replication_slots = on;\n{_RELOAD}"
    elif not slot.synced:
        code = "own"
        text = f"{where} has a slot {name} of its own, as a former primary has: drop it there, so that the primary's is copied"
        sql = f"SELECT pg_catalog.pg_drop_replication_slot({literal(name)});"
    elif slot.temporary:
        code, text = "not-ready", f"slot {name} is copied to {where}, and not ready yet"
    else:
        return None
    return Finding(f"standby-slot-{code}", "warning", text, sql)


def check_standby(settings: Mapping[str, Any], who: str) -> Iterator[Finding]:
    """Checks the settings of a standby that prevent the loss of its slots."""
    lost = "the primary may remove rows of its catalog that the slot needs, and the slot is lost"
    if not settings["hot_standby_feedback"]:
        sql = f"ALTER SYSTEM SET hot_standby_feedback = on;\n{_RELOAD}"
        text = f"{who} has no hot_standby_feedback: {lost}"
        yield Finding("standby-feedback", "warning", text, sql)
    if not settings["primary_slot_name"]:
        text = f"{who} has no primary_slot_name: while it is away, {lost}; and no slot is copied to it"
        yield Finding("standby-primary-slot-name", "warning", text)


def _of_physical(
    used: str,
    slot: Slot | None,
    where: str,
    original: Slot | None,
    awaited: Sequence[str],
) -> Iterator[Finding]:
    """Checks the physical slot through which a standby receives."""
    if slot is None or slot.active_pid is None:
        state = "does not exist" if slot is None else "is not active"
        text = (
            f"the physical slot {used} of {where} {state}: no slot is copied through it"
        )
        yield Finding("standby-physical-slot", "warning", text)
    if original is not None and original.failover and used not in awaited:
        text = (
            f"synchronized_standby_slots lacks {used}: the log may have transactions that"
            f" {where} lacks, which then refuses it after a failover"
        )
        value = literal(", ".join([*awaited, used]))
        sql = f"ALTER SYSTEM SET synchronized_standby_slots = {value};\n{_RELOAD}"
        yield Finding("standby-slot-not-awaited", "warning", text, sql)


_PLACE = ("host", "hostaddr", "port")
_ONE = {"target_session_attrs": "any", "connect_timeout": 3}
_FAILOVER_SINCE = 17
_RELOAD = "SELECT pg_catalog.pg_reload_conf();"
_SETTINGS = """
SELECT jsonb_build_object(
    'major', current_setting('server_version_num')::int / 10000,
    'standby', pg_is_in_recovery(),
    'hot_standby_feedback', current_setting('hot_standby_feedback')::bool,
    'primary_slot_name', current_setting('primary_slot_name'),
    -- From version 17 on.
    'sync_replication_slots', current_setting('sync_replication_slots', true)::bool,
    'synchronized_standby_slots', current_setting('synchronized_standby_slots', true)
)::text
"""
