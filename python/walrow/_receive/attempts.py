"""The attempts to connect: when the next attempt is due after a failure, and whether its stream has open transactions."""

from __future__ import annotations

from typing import Literal, NamedTuple

from walrow._lsn import Lsn
from walrow._postgres.failures import (
    BUSY_SECONDS,
    INTERNAL_ERROR,
    OBJECT_IN_USE,
    Verdict,
    pause_after,
    verdict_of,
)
from walrow._receive.disk_states import is_refusal
from walrow.errors import Error


class Attempt(NamedTuple):
    """Another attempt after `pause` seconds. After the first minute, `note` has the time that it waits."""

    state: Literal["connecting", "degraded"]
    pause: float
    note: str


class Attempts:
    """The attempts of a receiver so far."""

    def __init__(self, give_up_after: float, start_within: float, now: float) -> None:
        """Begins with the first one.

        A file system may refuse writes for `give_up_after` seconds. A server must be reached within
        `start_within` seconds.
        """
        self._give_up_after = give_up_after
        self._start_within = start_within
        self._begun = now
        self._failing_since: float | None = None
        self._late_by = 0.0
        self._failed = 0
        self._longest = 0.0
        self._refused_since: float | None = None
        self._stuck_since: float | None = None
        #: The SQLSTATE of the last failures that are permanent once they are enough.
        self._alike: list[str | None] = []

    @property
    def is_late(self) -> bool:
        """Whether no server was reached within `start_within`."""
        return self._late_by > 0

    def after(
        self,
        error: Error,
        now: float,
        *,
        lasted: float,
        has_streamed: bool,
        has_advanced: bool,
        is_known: bool,
        has_given_up: bool,
    ) -> Attempt | None:
        """The attempt after one that `lasted` for seconds. None if it would not fix the error."""
        if has_advanced and not is_refusal(error):
            self._failed, self._stuck_since, self._alike = 0, None, []
        if has_streamed and lasted > _STABLE_SECONDS:
            # An idle connection lived long. The log need not have advanced.
            self._failed = 0
        # The server refuses the same place of the stream again.
        if lasted > _STABLE_SECONDS + 2 * self._longest:
            self._refused_since = None
        self._longest = max(self._longest, lasted)
        state = self._state(error, now, is_known=is_known, has_given_up=has_given_up)
        if state is None:
            return None
        if has_streamed or self._failing_since is None:
            self._failing_since = now
        minutes = int(now - self._failing_since) // 60
        note = f"{error} (for {minutes} min)" if minutes else str(error)
        pause = pause_after(self._failed)
        self._failed += 1
        return Attempt(state, pause, note)

    def _state(
        self,
        error: Error,
        now: float,
        *,
        is_known: bool,
        has_given_up: bool,
    ) -> Literal["connecting", "degraded"] | None:

        if is_refusal(error) and not has_given_up:
            # Opening the log again shows the state of the disk.
            since = self._refused_since = self._refused_since or now
            if now - since < self._give_up_after:
                return "degraded"
        sqlstate = getattr(error, "sqlstate", None)
        verdict = verdict_of(error)
        is_doubtful = verdict is Verdict.DOUBTFUL and sqlstate != INTERNAL_ERROR
        alike = [it for it in self._alike if it == sqlstate]
        self._alike = [*alike, sqlstate] if is_doubtful else []
        if verdict is not Verdict.PERMANENT and len(self._alike) < _ALIKE:
            since = now
            if sqlstate in {INTERNAL_ERROR, OBJECT_IN_USE}:
                since = self._stuck_since = self._stuck_since or now
            late_by = now - self._begun - self._start_within
            self._late_by = 0.0 if is_known else late_by
            # An internal error that comes for as long as a busy slot comes each time.
            is_stuck = now - since > BUSY_SECONDS
            if not self.is_late and not is_stuck:
                return "connecting"
        return None


class Streaming:
    """Whether large transactions come before their commit.

    PostgreSQL cannot stream some transactions, such as one that makes a table, truncates it after
    a savepoint, and rolls back to that. It ends the stream with an internal error then, and sends
    the same transaction at its commit.
    """

    def __init__(self) -> None:
        """Begins with the options as they are given."""
        #: Until where it is off. 0/0 if the next connection says that.
        self._until: Lsn | None = None

    def fail(self, error: Error) -> bool:
        """Learns of a failed connection. Returns whether the next ones go on without streaming."""
        return getattr(error, "sqlstate", None) == INTERNAL_ERROR and self.stop()

    def stop(self) -> bool:
        """Goes on without streaming for a while. Returns false if it is off already."""
        is_on = self._until is None
        self._until = Lsn(0) if is_on else self._until
        return is_on

    def may_stream(self, end_of_wal: Lsn, durable: Lsn) -> bool:
        """Whether a new connection may stream: not until the log has all of the WAL that failed."""
        if self._until == 0:
            self._until = end_of_wal
        elif self._until is not None and durable >= self._until:
            self._until = None
        return self._until is None


#: So many failures with one SQLSTATE in a row, which may be temporary, are permanent.
_ALIKE = 3
#: After this long, the next failure is the first one again.
_STABLE_SECONDS = 30.0
