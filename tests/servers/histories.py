"""Records one workload in every mode in which a server can send it.

Each mode has its own slot, created before the workload. It is read either live, while the
workload runs, or afterwards: only a live reader sees transactions that roll back later,
because servers from 18 on skip transactions that are already rolled back.
"""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from reference import messages
from servers import script
from servers.recording import (
    create_slot,
    drop_slot,
    record,
    wal_end,
)
from servers.tables import setup
from streams import format_lsn

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from servers.embedded import EmbeddedServer
    from servers.recording import Streaming
    from servers.workload import Workload


@dataclass(frozen=True)
class Mode:
    """One way to read a slot; as text `v3 streaming two_phase live`.

    With `immediate`, every change is a separate chunk, even in a small transaction.
    With `resumed`, four sessions read the slot, each from the position that the one before
    confirmed: open streams begin again, prepared transactions do not.
    """

    proto_version: int = 1
    binary: bool = False
    streaming: Streaming = "off"
    two_phase: bool = False
    live: bool = False
    immediate: bool = False
    resumed: bool = False

    def __str__(self) -> str:
        """The name: its differences from the defaults."""
        words = [f"v{self.proto_version}"]
        if self.binary:
            words.append("binary")
        if self.streaming != "off":
            words.append({"on": "streaming", "parallel": "parallel"}[self.streaming])
        if self.two_phase:
            words.append("two_phase")
        if self.immediate:
            words.append("immediate")
        if self.resumed:
            words.append("resumed")
        if self.live:
            words.append("live")
        return " ".join(words)


PLAIN = Mode()
"""Whole transactions in text: what all other modes are compared with."""

BINARY = Mode(binary=True)


def modes(major: int) -> list[Mode]:
    """Returns the modes that a version supports, `PLAIN` first."""
    found = [PLAIN, BINARY]
    for live in (False, True):
        found.append(Mode(2, streaming="on", live=live))
        if major >= _TWO_PHASE:
            found.append(Mode(3, two_phase=True, live=live))
            found.append(Mode(3, streaming="on", two_phase=True, live=live))
        if major >= _PARALLEL:
            found.append(Mode(4, streaming="parallel", live=live))
            found.append(Mode(4, streaming="parallel", two_phase=True, live=live))
            found.append(
                Mode(4, streaming="on", two_phase=live, live=live, immediate=True)
            )
    two_phase = major >= _TWO_PHASE
    return [
        *found,
        Mode(2, binary=True, streaming="on"),
        Mode(3 if two_phase else 2, False, "on", two_phase, resumed=True),
    ]


def record_history(
    server: EmbeddedServer, workload: Workload, wanted: Sequence[Mode]
) -> dict[Mode, bytes]:
    """Runs a workload once, in a separate database, and records it in each mode.

    Returns:
        The `wire` bytes by mode.

    Raises:
        psycopg.Error: A statement failed that was not to fail.
    """
    with server.database("walrow") as database:
        try:
            return _record(server, database, workload, wanted)
        finally:
            # Prepared transactions would block the creation of later slots.
            _decide_all(server.dsn_of(database))


def _record(
    server: EmbeddedServer, database: str, workload: Workload, wanted: Sequence[Mode]
) -> dict[Mode, bytes]:
    dsn = server.dsn_of(database)
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in setup(workload):
            connection.execute(statement.encode())
    slots = {mode: f"{database}_{n}" for n, mode in enumerate(wanted)}
    try:
        for mode, slot in slots.items():
            create_slot(dsn, slot, two_phase=mode.two_phase)
        return dict(_recordings(server, database, workload, slots))
    finally:
        for slot in slots.values():
            _drop_if_there(dsn, slot)


def _recordings(
    server: EmbeddedServer, database: str, workload: Workload, slots: dict[Mode, str]
) -> Iterator[tuple[Mode, bytes]]:
    live = [mode for mode in slots if mode.live]
    ready = threading.Barrier(len(live) + 1, timeout=_READY_SECONDS)
    done = threading.Event()

    def wait() -> None:
        ready.wait()
        done.wait()

    dsn = server.dsn_of(database)
    positions: list[int] = []

    def read(mode: Mode) -> bytes:
        if mode.resumed:
            ends = [*positions, wal_end(dsn)]
            return b"".join(
                _session(server, database, slots[mode], mode, end) for end in ends
            )
        return record(
            server,
            wait if mode.live else None,
            publication="walrow",
            database=database,
            slot=slots[mode],
            proto_version=mode.proto_version,
            binary=mode.binary,
            streaming=mode.streaming,
            two_phase=mode.two_phase,
            messages=True,
            live=mode.live,
            settings=_IMMEDIATE if mode.immediate else None,
        )

    with ThreadPoolExecutor(max_workers=max(1, len(live))) as pool:
        recordings = {mode: pool.submit(read, mode) for mode in live}
        try:
            ready.wait()
            positions += run(dsn, workload)
        finally:
            done.set()
        for mode in slots:
            yield mode, recordings[mode].result() if mode.live else read(mode)


def run(dsn: str, workload: Workload) -> list[int]:
    """Runs a workload: one statement after the other, each on its own connection.

    Returns:
        The log's positions after each quarter but the last.

    Raises:
        psycopg.Error: A statement failed unexpectedly.
        AssertionError: A statement succeeded that should fail.
    """
    connections: dict[int, psycopg.Connection[Any]] = {}
    positions: list[int] = []
    with psycopg.connect(dsn, autocommit=True) as aside:
        try:
            steps = script.steps(workload)
            quarters = {len(steps) * quarter // 4 for quarter in (1, 2, 3)}
            for number, step in enumerate(steps):
                if number in quarters:
                    row = aside.execute(_POSITION).fetchone()
                    positions.append(int(row[0]) if row else 0)
                if step.session not in connections:
                    connections[step.session] = psycopg.connect(
                        dsn, autocommit=True, options="-c lock_timeout=5s"
                    )
                _do(connections[step.session], step)
                if step.large:
                    # Flushes the WAL, so that live readers get the message before the end.
                    aside.execute("CHECKPOINT")
                    time.sleep(_LIVE_SECONDS)
        finally:
            for connection in connections.values():
                connection.close()
    return positions


def _session(
    server: EmbeddedServer, database: str, slot: str, mode: Mode, end: int
) -> bytes:
    """Reads a slot up to a position, and confirms the complete transactions.

    A server that is busy sending does not read confirmations, so they are sent again
    afterwards.
    """
    data = record(
        server,
        None,
        publication="walrow",
        database=database,
        slot=slot,
        proto_version=mode.proto_version,
        binary=mode.binary,
        streaming=mode.streaming,
        two_phase=mode.two_phase,
        messages=True,
        until=end,
    )
    received = max(
        getattr(found, name, 0)
        for _, found in messages(data)
        for name in ("end_lsn", "rollback_end_lsn")
    )
    dsn = server.dsn_of(database)
    with psycopg.connect(dsn, autocommit=True) as connection:
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            row = connection.execute(_ACTIVE, (slot,)).fetchone()
            if row is not None and not row[0]:
                position = format_lsn(received)
                connection.execute(_CONFIRM, {"slot": slot, "position": position})
                return data
            time.sleep(_LIVE_SECONDS)
    msg = "the slot is still in use"
    raise RuntimeError(msg)


def _do(connection: psycopg.Connection[Any], step: script.Step) -> None:
    try:
        connection.execute(step.sql.encode())
    except psycopg.Error as error:
        if not step.fails:
            error.add_note(step.sql)
            raise
    else:
        assert not step.fails, step.sql


def _decide_all(dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database()"
        ).fetchall()
        for (gid,) in rows:
            quoted = gid.replace("'", "''")
            connection.execute(f"ROLLBACK PREPARED '{quoted}'".encode())


def _drop_if_there(dsn: str, slot: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        found = connection.execute(
            "SELECT FROM pg_replication_slots WHERE slot_name = %s", (slot,)
        ).fetchone()
    if found is not None:
        drop_slot(dsn, slot)


# A developer setting of the walsender's session, from 16 on.
_IMMEDIATE = {"debug_logical_replication_streaming": "immediate"}
_POSITION = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
_CONFIRM = """
SELECT pg_replication_slot_advance(slot_name, %(position)s)
FROM pg_replication_slots
WHERE slot_name = %(slot)s AND confirmed_flush_lsn < %(position)s::pg_lsn
"""
_ACTIVE = "SELECT active FROM pg_replication_slots WHERE slot_name = %s"
_TWO_PHASE = 15
_PARALLEL = 16
_READY_SECONDS = 30
_LIVE_SECONDS = 0.02
