"""Tells a caller how a receiver is doing, about once a second, and publishes its status record."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from walrow._log.status_record import (
    CatchingUp,
    Cause,
    Connecting,
    Degraded,
    Phase,
    ReceiverFacts,
    Snapshotting,
    StatusFile,
    Stopped,
    Streaming,
    WaitingForPerson,
    text_of,
)
from walrow._lsn import Lsn
from walrow._postgres.copying import was_busy
from walrow._postgres.failures import deserves_reconnect
from walrow._receive import load
from walrow._receive.core import Core, Running
from walrow._receive.disk_states import is_refusal
from walrow._receive.orders import Counts
from walrow._receive.status import LoadProgress, State, Status
from walrow._receive.watch import Watch

if TYPE_CHECKING:
    from walrow._postgres.replication import ReplicationStream


class Seen(NamedTuple):
    """The facts about a log in a report. `trouble` may pass.

    With `is_end_known`, the server's end of WAL can be compared with the position.
    """

    position: Lsn
    counts: Counts
    load: LoadProgress | None
    trouble: str | None
    is_end_known: bool


class Reports:
    """The reports of a receiver, and its messages for people."""

    def __init__(
        self,
        status: Callable[[Status], None] | None,
        watch: Watch,
        publisher: Publisher,
        seconds: float,
    ) -> None:
        """Stores the arguments: `status` is called with each report, after so many `seconds`."""
        self._publisher = publisher
        self._status = status
        self._watch = watch
        self._seconds = seconds
        self._due = 0.0
        #: When there was no lag.
        self._caught_up = -math.inf
        self._notes: deque[str] = deque()

    def end(self) -> None:
        """Reports nothing any more."""
        self._status = None

    def add(self, note: str) -> None:
        """Says something to people, with the next report."""
        self._notes.append(note)

    def report(self, state: State, seen: Seen, note: str | None, *, now: bool) -> None:
        """Reports, if it is time, or now."""
        clock = time.monotonic()
        if self._status is None or (not now and clock < self._due):
            return
        self._due = clock + self._seconds
        while self._notes:
            self._say(state, seen, self._notes.popleft())
        self._say(state, seen, note)

    def _say(self, state: State, seen: Seen, note: str | None) -> None:
        counts = seen.counts
        end, kept = self._watch.look() if seen.is_end_known else (None, None)
        lag = None if end is None or not seen.position else max(0, end - seen.position)
        clock = time.monotonic()
        if lag == 0:
            self._caught_up = clock
        if self._status is not None:
            record = self._publisher.file.record
            self._status(
                Status(
                    state,
                    seen.position,
                    counts.transactions,
                    counts.rows,
                    counts.bytes,
                    counts.segments,
                    lag,
                    lag_seconds(
                        counts.last_commit_time if seen.is_end_known else None,
                        lag,
                        clock - self._caught_up,
                    ),
                    kept,
                    seen.load,
                    note or seen.trouble,
                    None if record is None else record.to_dict(),
                )
            )


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
        self.file, self._watch = StatusFile(log, "receive"), watch
        #: Why hosts cannot take over the slot.
        self.hosts: tuple[str, ...] = ()
        self._due, self._turns = 0.0, 0
        self._phase: Phase = Connecting()
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
        phase: Phase = Stopped(None)
        if error is not None and not isinstance(error, KeyboardInterrupt):
            text = text_of(error)
            now = dt.datetime.now(dt.UTC)
            self._facts = replace(self._facts, error=text, failed=now)
            phase = Stopped(text) if may_pass(error) else WaitingForPerson(text)
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
        return Degraded(Cause.DISK, note or trouble or "the log cannot be written")
    if failure is not None:
        return Degraded(failure.cause, failure.text)
    if not core.is_streaming:
        return Connecting()
    if trouble is not None:
        return Degraded(Cause.CATALOG, trouble)
    if isinstance(core.loads.state, load.Beginning | load.Copying | load.Placing):
        return Snapshotting(loading)
    is_behind = core.durable and end - core.durable > _BEHIND_BYTES
    return CatchingUp() if is_behind else Streaming()


def lag_seconds(
    micros: int | None, lag: int | None, behind: float = math.inf
) -> float | None:
    """How many seconds a log is behind its server at most, from its last commit and the lag in bytes.

    `behind` counts since there was none: an idle server writes WAL, too.
    """
    if lag == 0:
        return 0.0
    if micros is None:
        return None
    now = dt.datetime.now(dt.UTC).timestamp()
    return min(max(0.0, now - micros / 1_000_000), behind)


_PUBLISH_SECONDS = 1.0
#: A stream works if it has lasted so long, or has moved the log.
_STABLE_SECONDS = 10.0
_BEHIND_BYTES = 16 << 20
