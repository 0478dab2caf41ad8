"""Failures of a receiver that deserve another attempt, its time, and its options."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from walrow._postgres.failures import INTERNAL_ERROR, OBJECT_IN_USE, deserves_reconnect
from walrow._receive.disk_states import is_refusal

if TYPE_CHECKING:
    from typing import Literal

    from walrow._lsn import Lsn
    from walrow.errors import Error

__all__ = ["Attempt", "Attempts", "Streaming"]


class Attempt(NamedTuple):
    """Another attempt.

    Attributes:
        state: The receiver's state until then.
        pause: The seconds until then.
        note: The reason, and from the first minute on, for how long it waits.
    """

    state: Literal["connecting", "degraded"]
    pause: float
    note: str


class Attempts:
    """The attempts of a receiver so far.

    Attributes:
        is_late: Whether no server was reached within `start_within`.
    """

    def __init__(self, give_up_after: float, start_within: float) -> None:
        """Begins with the first one.

        Args:
            give_up_after: How many seconds a file system may refuse writes.
            start_within: The seconds within which a server must be reached.
        """
        self._give_up_after = give_up_after
        self._start_within = start_within
        self._begun = time.monotonic()
        self._failing_since: float | None = None
        self.is_late = False
        self._failed = 0
        self._longest = 0.0
        self._refused_since: float | None = None
        self._stuck_since: float | None = None

    def after(
        self,
        error: Error,
        *,
        lasted: float,
        has_streamed: bool,
        has_advanced: bool,
        is_known: bool,
        is_final: bool,
        has_given_up: bool,
    ) -> Attempt | None:
        """The attempt after a failed one. None if it would not fix the error.

        Args:
            error: The error of the failed one.
            lasted: Its seconds.
            has_streamed: Whether it has received a stream.
            has_advanced: Whether changes became durable in it.
            is_known: Whether an attempt has reached the server.
            is_final: Whether a check of walrow's has refused to go on.
            has_given_up: Whether the file system has refused writes for too long.
        """
        if has_advanced and not is_refusal(error):
            self._failed, self._stuck_since = 0, None
        # The server refuses the same place of the stream again.
        if lasted > _STABLE_SECONDS + 2 * self._longest:
            self._refused_since = None
        self._longest = max(self._longest, lasted)
        state = self._state(
            error, is_known=is_known, is_final=is_final, has_given_up=has_given_up
        )
        if state is None:
            return None
        now = time.monotonic()
        if has_streamed or self._failing_since is None:
            self._failing_since = now
        minutes = int(now - self._failing_since) // 60
        note = f"{error} (for {minutes} min)" if minutes else str(error)
        pause = min(_LONGEST_PAUSE, 0.25 * 2**self._failed)
        self._failed += 1
        return Attempt(state, pause, note)

    def _state(
        self, error: Error, *, is_known: bool, is_final: bool, has_given_up: bool
    ) -> Literal["connecting", "degraded"] | None:

        now = time.monotonic()
        if is_refusal(error) and not has_given_up:
            # Opening the log again shows the state of the disk.
            since = self._refused_since = self._refused_since or now
            if now - since < self._give_up_after:
                return "degraded"
        sqlstate = getattr(error, "sqlstate", None)
        if not is_final and (deserves_reconnect(error) or sqlstate == INTERNAL_ERROR):
            since = now
            if sqlstate in {INTERNAL_ERROR, OBJECT_IN_USE}:
                since = self._stuck_since = self._stuck_since or now
            self.is_late = not is_known and now - self._begun > self._start_within
            is_stuck = now - since > min(_BUSY_SECONDS, self._give_up_after)
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
        self._has_failed = False
        self._until: Lsn | None = None

    def fail(self, error: Error) -> bool:
        """Learns of a failed connection. Returns whether the next ones go on without streaming."""
        if (
            getattr(error, "sqlstate", None) != INTERNAL_ERROR
            or self._until is not None
        ):
            return False
        self._has_failed = True
        return True

    def may_stream(self, end_of_wal: Lsn, durable: Lsn) -> bool:
        """Whether a new connection may stream: not until the log has all of the WAL that failed.

        Args:
            end_of_wal: The end of the server's WAL.
            durable: The end of the log.
        """
        if self._has_failed:
            self._has_failed, self._until = False, end_of_wal
        elif self._until is not None and durable >= self._until:
            self._until = None
        return self._until is None


#: An old connection keeps the slot until the server notices that it is gone. An internal error that
#: comes for longer comes each time.
_BUSY_SECONDS = 90.0
_LONGEST_PAUSE = 15.0
#: After this long, the next failure is the first one again.
_STABLE_SECONDS = 30.0
