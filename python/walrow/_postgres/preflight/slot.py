"""Findings about the slot to be read."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from walrow._postgres.preflight.finding import Finding, listed
from walrow._postgres.running import literal
from walrow._postgres.slots import Slot


def check_slot(
    name: str, slot: Slot | None, database: str, *, two_phase: bool
) -> Iterator[Finding]:
    """Checks whether the slot can be read. None: it does not exist."""
    flags = ", false, true" if two_phase else ""
    create = f"SELECT pg_catalog.pg_create_logical_replication_slot({literal(name)}, 'pgoutput'{flags});"
    again = f"SELECT pg_catalog.pg_drop_replication_slot({literal(name)});\n{create}"
    if slot is None:
        text = f"there is no slot {name}; changes are kept from its creation on"
        yield Finding("slot-missing", "error", text, create)
        return
    if slot.kind != "logical":
        text = f"slot {name} is physical; use another name"
        yield Finding("slot-physical", "error", text)
        return
    if slot.plugin != "pgoutput":
        # It is another program's: no statement drops it.
        text = (
            f"slot {name} has the plugin {slot.plugin}, and walrow reads pgoutput; use"
            " another name"
        )
        yield Finding("slot-plugin", "error", text)
    if slot.database != database:
        text = (
            f"slot {name} belongs to database {slot.database}, and the connection is to"
            f" {database}"
        )
        yield Finding("slot-database", "error", text)
    if slot.active_pid is not None:
        application = slot.active_application
        by = f" ({application})" if application else ""
        text = f"slot {name} is in use by process {slot.active_pid}{by}"
        if application and application.partition(" ")[0] == "walrow":
            text += ": a receiver of walrow, which must be the one for your log"
            yield Finding("slot-active", "note", text)
        else:
            sql = f"SELECT pg_catalog.pg_terminate_backend({slot.active_pid});"
            yield Finding("slot-active", "error", f"{text}; stop that client", sql)
    if slot.wal_status == "lost" or slot.conflict or slot.invalidation_reason:
        reason = why_lost(slot)
        yield Finding(
            "slot-lost",
            "error",
            f"slot {name} is lost ({reason}), with all changes that were not received;"
            " create it again, and load the tables again",
            again,
        )
    elif slot.wal_status == "unreserved":
        text = (
            f"slot {name} keeps more WAL than max_slot_wal_keep_size, and is lost at one"
            " of the next checkpoints: receive its changes now, or raise the limit"
        )
        sql = "ALTER SYSTEM SET max_slot_wal_keep_size = ...;\nSELECT pg_catalog.pg_reload_conf();"
        yield Finding("slot-unreserved", "warning", text, sql)
    if two_phase and not slot.two_phase:
        text = (
            f"slot {name} sends prepared transactions at COMMIT PREPARED; the first"
            " stream with two_phase changes that for good"
        )
        yield Finding("slot-two-phase", "note", text)
    if slot.two_phase and not two_phase:
        text = (
            f"slot {name} can send prepared transactions at PREPARE; without two_phase,"
            " they are received at COMMIT PREPARED"
        )
        yield Finding("slot-two-phase", "note", text)


def why_lost(slot: Slot) -> str:
    """Why a slot is lost. Up to version 16, the server does not say."""
    rows = ", or on a standby, the primary removed rows that it needs or has another wal_level"
    return (
        slot.invalidation_reason
        or f"the server removed its WAL{rows if slot.conflict else ''}"
    )


def names_in(settings: Mapping[str, Any]) -> list[str]:
    """The names in `synchronized_standby_slots`."""
    setting = settings["synchronized_standby_slots"] or ""
    return [each.strip(' "') for each in setting.split(",") if each.strip()]


def check_standby_slots(
    slot: Slot | None, settings: Mapping[str, Any], slots: Collection[Slot]
) -> Iterator[Finding]:
    """Checks whether `synchronized_standby_slots` holds back what a failover slot sends."""
    if slot is None or not slot.failover:
        return
    named = names_in(settings)
    followed = {
        each.name
        for each in slots
        if each.kind == "physical" and each.active_pid and not each.invalidation_reason
    }
    left = [name for name in named if name in followed]
    absent = [name for name in named if name not in followed]
    if absent:
        text = (
            f"synchronized_standby_slots names {listed(absent)}, which no standby uses now:"
            f" until one does, the server sends no changes from slot {slot.name}; start the"
            " standby, or take its slot out: then the log may have transactions that this"
            " standby lacks"
        )
        value = literal(", ".join(left))
        sql = (
            f"ALTER SYSTEM SET synchronized_standby_slots = {value};\n"
            "SELECT pg_catalog.pg_reload_conf();"
        )
        yield Finding("standby-slot-inactive", "warning", text, sql)
