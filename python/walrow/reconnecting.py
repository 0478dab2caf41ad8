"""Which failures of a receiver deserve another attempt, and when it is made."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from walrow.landing import is_refusal

if TYPE_CHECKING:
    from typing import Literal

    from walrow.errors import Error

__all__ = ["Attempt", "Attempts"]


class Attempt(NamedTuple):
    """Another attempt.

    Attributes:
        state: The receiver's state until then.
        pause: The seconds until then.
    """

    state: Literal["connecting", "degraded"]
    pause: float


class Attempts:
    """The attempts of a receiver so far."""

    def __init__(self, give_up_after: float) -> None:
        """Begins with the first one. A file system may refuse writes for this many seconds."""
        self._give_up_after = give_up_after
        self._failed = 0
        self._longest = 0.0
        self._refused_since: float | None = None
        self._stuck_since: float | None = None

    def after(
        self,
        error: Error,
        *,
        lasted: float,
        has_advanced: bool,
        is_known: bool,
        is_final: bool,
        has_given_up: bool,
    ) -> Attempt | None:
        """The attempt after a failed one. None if it would not fix the error.

        Args:
            error: The error of the failed one.
            lasted: Its seconds.
            has_advanced: Whether changes became durable in it.
            is_known: Whether an attempt has reached the server.
            is_final: Whether a check of walrow's has refused to go on.
            has_given_up: Whether the file system has refused writes for too long.
        """
        if has_advanced and not is_refusal(error):
            self._failed, self._stuck_since = 0, None
        # What is refused at one place of the stream is refused there again.
        if lasted > _STABLE_SECONDS + 2 * self._longest:
            self._refused_since = None
        self._longest = max(self._longest, lasted)
        state = self._state(
            error, is_known=is_known, is_final=is_final, has_given_up=has_given_up
        )
        if state is None:
            return None
        pause = min(_LONGEST_PAUSE, 0.25 * 2**self._failed)
        self._failed += 1
        return Attempt(state, pause)

    def _state(
        self, error: Error, *, is_known: bool, is_final: bool, has_given_up: bool
    ) -> Literal["connecting", "degraded"] | None:
        from walrow.postgres.failures import (
            INTERNAL_ERROR,
            OBJECT_IN_USE,
            deserves_reconnect,
        )

        now = time.monotonic()
        if is_refusal(error) and not has_given_up:
            # What is on the disk is found out by opening the log again.
            since = self._refused_since = self._refused_since or now
            if now - since < self._give_up_after:
                return "degraded"
        sqlstate = getattr(error, "sqlstate", None)
        if not is_final and (deserves_reconnect(error) or sqlstate == INTERNAL_ERROR):
            since = now
            if sqlstate in {INTERNAL_ERROR, OBJECT_IN_USE}:
                since = self._stuck_since = self._stuck_since or now
            is_unknown = not is_known and self._failed == 0 and sqlstate is None
            if not is_unknown and now - since <= _BUSY_SECONDS:
                return "connecting"
        return None


#: An old connection keeps the slot until the server notices that it is gone. An internal error that
#: comes for longer comes each time.
_BUSY_SECONDS = 90.0
_LONGEST_PAUSE = 15.0
#: After this long, the next failure is the first one again.
_STABLE_SECONDS = 30.0
