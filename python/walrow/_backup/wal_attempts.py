"""Whether another connection may fix a failure, and when: a pure function over the last ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from walrow._postgres.failures import (
    BUSY_SECONDS,
    OBJECT_IN_USE,
    deserves_reconnect,
    pause_after,
)

if TYPE_CHECKING:
    from walrow.errors import Error

__all__ = ["Attempts", "Failed"]


@dataclass(frozen=True)
class Failed:
    """A connection that has failed.

    Attributes:
        error: Its error.
        at: When, in seconds.
        has_reached: Whether it has reached the server.
        has_advanced: Whether WAL became durable.
    """

    error: Error
    at: float
    has_reached: bool
    has_advanced: bool


@dataclass(frozen=True)
class Attempts:
    """The failures in a row.

    Attributes:
        begun: When the first connection was tried, in seconds.
        start_within: The seconds within which the server must be reached once.
        is_known: Whether it was reached.
        failed: How many have failed since WAL came.
        busy_since: Since when another process has the slot.
    """

    begun: float
    start_within: float
    is_known: bool = False
    failed: int = 0
    busy_since: float | None = None

    def after(self, failure: Failed) -> tuple[Attempts, float] | None:
        """The state after a failure, and the pause. None if somebody must fix it first."""
        error, now = failure.error, failure.at
        is_known = self.is_known or failure.has_reached
        if not deserves_reconnect(error):
            return None
        if not is_known and now - self.begun > self.start_within:
            return None
        is_busy = getattr(error, "sqlstate", None) == OBJECT_IN_USE
        busy_since = (self.busy_since or now) if is_busy else None
        if busy_since is not None and now - busy_since > BUSY_SECONDS:
            return None
        failed = 0 if failure.has_advanced else self.failed
        after = replace(
            self, is_known=is_known, failed=failed + 1, busy_since=busy_since
        )
        return after, pause_after(failed)
