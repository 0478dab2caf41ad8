"""Decides about a receiver's connections: which failures deserve another, when, and how it streams.

```text
Away ─► Connecting ─► Opening (the log) ─► Connecting ─► Streaming ─► Away, or Ended
```
Here is no thread, no I/O and no clock.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from walrow._lsn import Lsn
from walrow._postgres.failures import (
    BUSY_SECONDS,
    INTERNAL_ERROR,
    OBJECT_IN_USE,
    deserves_reconnect,
    pause_after,
)
from walrow._receive.disk_states import is_refusal
from walrow._receive.same_server import Comparison

if TYPE_CHECKING:
    from typing import Literal

    from walrow.errors import Error

__all__ = [
    "Attempt",
    "Attempts",
    "Away",
    "Connecting",
    "Ended",
    "Link",
    "Opening",
    "State",
    "Streaming",
    "Streams",
]


@dataclass(frozen=True, slots=True)
class Away:
    """There is no connection. The next attempt is due then."""

    until: float


@dataclass(frozen=True, slots=True)
class Connecting:
    """A connection is made and prepared. The server has answered then."""

    since: float
    answered: float


@dataclass(frozen=True, slots=True)
class Opening:
    """The log is opened, and the server is not asked meanwhile: a large log takes long."""

    since: float


@dataclass(frozen=True, slots=True)
class Streams:
    """The stream comes, for this purpose."""

    since: float
    purpose: Comparison


@dataclass(frozen=True, slots=True)
class Ended:
    """Another attempt would not help."""

    error: Error


State = Away | Connecting | Opening | Streams | Ended


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
    """The attempts of a receiver so far."""

    def __init__(self, give_up_after: float, start_within: float, now: float) -> None:
        """Begins with the first one.

        Args:
            give_up_after: How many seconds a file system may refuse writes.
            start_within: The seconds within which a server must be reached.
            now: The time.
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
        is_final: bool,
        has_given_up: bool,
    ) -> Attempt | None:
        """The attempt after a failed one. None if it would not fix the error.

        Args:
            error: The error of the failed one.
            now: The time.
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
            error, now, is_known=is_known, is_final=is_final, has_given_up=has_given_up
        )
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
        is_final: bool,
        has_given_up: bool,
    ) -> Literal["connecting", "degraded"] | None:

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
            late_by = now - self._begun - self._start_within
            self._late_by = 0.0 if is_known else late_by
            # An internal error that comes for as long as a busy slot comes each time.
            is_stuck = now - since > min(BUSY_SECONDS, self._give_up_after)
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
        if (
            getattr(error, "sqlstate", None) != INTERNAL_ERROR
            or self._until is not None
        ):
            return False
        self._until = Lsn(0)
        return True

    def may_stream(self, end_of_wal: Lsn, durable: Lsn) -> bool:
        """Whether a new connection may stream: not until the log has all of the WAL that failed.

        Args:
            end_of_wal: The end of the server's WAL.
            durable: The end of the log.
        """
        if self._until == 0:
            self._until = end_of_wal
        elif self._until is not None and durable >= self._until:
            self._until = None
        return self._until is None


class Link:
    """The connection of a receiver.

    Attributes:
        state: Its state.
        attempts: The attempts so far.
        streaming: Whether large transactions come before their commit.
    """

    def __init__(
        self, give_up_after: float, start_within: float, now: float, *, streams: bool
    ) -> None:
        """Begins without one.

        Args:
            give_up_after: As for `Attempts`.
            start_within: As for `Attempts`.
            now: The time.
            streams: Whether large transactions come before their commit, as far as the options
                say it.
        """
        self._streams = streams
        self.state: State = Away(now)
        self.attempts = Attempts(give_up_after, start_within, now)
        self.streaming = Streaming()
        #: When the attempt has begun, and when one has streamed last.
        self._since, self._streamed = now, -math.inf
        self._durable = Lsn(0)

    @property
    def unanswered_until(self) -> float:
        """When a connection is left whose server does not answer."""
        match self.state:
            case Connecting(_, answered):
                return answered + ANSWER_SECONDS
            case _:
                return math.inf

    @property
    def only_compares(self) -> bool:
        """Whether the connection ends as soon as its server is compared with the log's."""
        state = self.state
        return isinstance(state, Streams) and state.purpose is Comparison.ONLY

    def begin(self, durable: Lsn, now: float) -> None:
        """An attempt begins. The log ends there."""
        self._since, self._durable = now, durable
        self.state = Connecting(now, now)

    def answer(self, now: float) -> None:
        """The server has answered, or the log is open."""
        self.state = Connecting(self._since, now)

    def open(self) -> None:
        """The log is being opened."""
        self.state = Opening(self._since)

    def stream(self, purpose: Comparison, now: float) -> None:
        """The stream comes."""
        self._streamed = now
        self.state = Streams(now, purpose)

    def lose(
        self,
        error: Error,
        durable: Lsn,
        now: float,
        *,
        is_known: bool,
        is_final: bool,
        has_given_up: bool,
    ) -> Attempt | None:
        """The connection is lost. It has the arguments of `Attempts.after`.

        Returns:
            The next attempt. None if it would not help.
        """
        attempt = self.attempts.after(
            error,
            now,
            lasted=now - self._since,
            has_streamed=self._streamed >= self._since,
            has_advanced=durable > self._durable,
            is_known=is_known,
            is_final=is_final,
            has_given_up=has_given_up,
        )
        if attempt is None:
            self.state = Ended(error)
            return None
        self.state = Away(now + attempt.pause)
        if self._streams and self.streaming.fail(error):
            attempt = attempt._replace(note=f"{attempt.note}. {_WITHOUT_STREAMING}")
        return attempt


#: Connecting, questions and the stream's start take less than this between two answers.
ANSWER_SECONDS = 90.0
#: After this long, the next failure is the first one again.
_STABLE_SECONDS = 30.0
_WITHOUT_STREAMING = (
    "Until the log has passed this place, large transactions come at their commit"
)
