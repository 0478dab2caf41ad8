"""Publishes the status record of a receiver."""

from __future__ import annotations

import datetime as dt
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from walrow._log.status_record import (
    Cause,
    Part,
    Phase,
    PhaseName,
    ReceiverFacts,
    StatusFile,
    text_of,
)
from walrow._lsn import Lsn
from walrow._postgres.copying import was_busy
from walrow._postgres.failures import deserves_reconnect
from walrow._receive import load
from walrow._receive.core import Core, Running
from walrow._receive.disk_states import is_refusal
from walrow._receive.status import State
from walrow._receive.watch import Watch

if TYPE_CHECKING:
    from walrow._postgres.replication import ReplicationStream


class Failure(NamedTuple):
    """Why a receiver has no stream, and where its log ended then."""

    cause: Cause
    text: str
    durable: Lsn
    time: dt.datetime


class Publisher:
    """Publishes the status record of a receiver: at each change, and once a second."""

    def __init__(self, log: Path, watch: Watch) -> None:
        """Publishes nothing yet."""
        self.file, self._watch = StatusFile(log, Part.RECEIVE), watch
        #: Why hosts cannot take over the slot.
        self.hosts: tuple[str, ...] = ()
        self._due, self._turns = 0.0, 0
        self._phase = Phase(PhaseName.CONNECTING)
        self._facts = ReceiverFacts()
        #: The connections that have streamed, and since when the last one does.
        self._streams, self._connection, self._since = 0, 0, 0.0
        #: The failure that is not over.
        self._failure: Failure | None = None
        before = self.file.before
        if before is not None and (text := before.error) is not None:
            # Until a stream shows that it is over.
            self._failure = Failure(Cause.SERVER, text, Lsn(0), before.time)

    def fail(self, core: Core, word: State, text: str) -> None:
        """Notes the failure that ended a stream, or prevented it."""
        cause = Cause.DISK if word == "degraded" else Cause.SERVER
        self._failure = Failure(cause, text, core.durable, dt.datetime.now(dt.UTC))

    def turn(
        self, core: Core, stream: ReplicationStream | None, loading: tuple[str, ...]
    ) -> None:
        """Publishes how the receiver is, if it is time or has changed."""
        now, end, failure = time.monotonic(), Lsn(0), self._failure
        self._turns += 1
        if stream is not None:
            if core.link.number != self._connection:
                self._streams, self._connection = self._streams + 1, core.link.number
                self._since = now
            has_moved = failure is not None and core.durable > failure.durable
            if has_moved or now > self._since + _STABLE_SECONDS:
                self._failure = None
            end = stream.server_lsn
            if not core.link.has_other_positions:
                end = max(end, Lsn(self._watch.look()[0] or 0))
        phase = self._phase
        if isinstance(core.phase, Running):
            phase = phase_of(core, end, loading, self._failure)
        if phase == self._phase and now < self._due:
            return
        self._due, self._phase = now + _PUBLISH_SECONDS, phase
        before, heard = self._facts, None
        if core.heard > -math.inf:
            heard = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=now - core.heard)
        self._facts = ReceiverFacts(
            server=end or before.server,
            received=before.received if stream is None else stream.received,
            durable=core.durable or None,
            visible=before.visible if core.disk is None else core.disk.visible,
            heard=heard,
            reconnects=max(0, self._streams - 1),
            error=before.error if failure is None else failure.text,
            failed=before.failed if failure is None else failure.time,
            hosts=self.hosts,
        )
        self.file.post(phase, self._turns, self._facts)

    def end(self, error: BaseException | None) -> None:
        """Publishes why the receiver has ended, and nothing more."""
        phase = Phase(PhaseName.STOPPED)
        if error is not None and not isinstance(error, KeyboardInterrupt):
            text = text_of(error)
            now = dt.datetime.now(dt.UTC)
            self._facts = replace(self._facts, error=text, failed=now)
            stopped, waiting = PhaseName.STOPPED, PhaseName.WAITING_FOR_PERSON
            phase = Phase(stopped if may_pass(error) else waiting, text=text)
        self.file.post(phase, self._turns, self._facts)
        self.file.close()


def may_pass(failure: BaseException) -> bool:
    """Whether another attempt may succeed."""
    return deserves_reconnect(failure) or is_refusal(failure) or was_busy(failure)


def phase_of(
    core: Core, end: Lsn, loading: tuple[str, ...], failure: Failure | None
) -> Phase:
    """The phase of a receiver whose server's WAL ends there."""
    disk, (word, note) = core.disk, core.word or ("connecting", None)
    trouble = None if disk is None else disk.trouble or disk.definitions.trouble
    if word == "degraded":
        text = note or trouble or "the log cannot be written"
        return Phase.degraded(Cause.DISK, text)
    if failure is not None:
        return Phase.degraded(failure.cause, failure.text)
    if not core.is_streaming:
        return Phase(PhaseName.CONNECTING)
    if trouble is not None:
        return Phase.degraded(Cause.CATALOG, trouble)
    if isinstance(core.loads.state, load.Beginning | load.Copying | load.Placing):
        return Phase(PhaseName.SNAPSHOTTING, tables=loading)
    is_behind = core.durable and end - core.durable > _BEHIND_BYTES
    return Phase(PhaseName.CATCHING_UP if is_behind else PhaseName.STREAMING)


_PUBLISH_SECONDS = 1.0
#: A stream works if it has lasted so long, or has moved the log.
_STABLE_SECONDS = 10.0
_BEHIND_BYTES = 16 << 20
