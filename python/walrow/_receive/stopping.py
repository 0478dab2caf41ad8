"""The stop of a receiver, and how long the rest may take after it."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading

__all__ = ["Stop"]


class Stop:
    """A stop that its caller, or an interruption, asks for. For one thread."""

    def __init__(self, callers: threading.Event, seconds: float) -> None:
        """Stores the arguments.

        Args:
            callers: The caller's. It is never set here: he may have given it to others, too.
            seconds: How long all that is left may take after it.
        """
        self._callers = callers
        self._seconds = seconds
        self._must_end = math.inf

    def set(self) -> None:
        """Asks for it, for this receiver only."""
        self._must_end = min(self._must_end, time.monotonic() + self._seconds)

    def is_set(self) -> bool:
        """Whether somebody has asked for it. Look often: the time begins with the first look."""
        if self._callers.is_set():
            self.set()
        return self._must_end < math.inf

    def wait(self, seconds: float) -> None:
        """Waits for it, at most so long."""
        if not self.is_set():
            self._callers.wait(seconds)

    def allowed(self, seconds: float) -> float:
        """The rest of these seconds after it."""
        if not self.is_set():
            return seconds
        left = self._must_end - time.monotonic()
        return min(seconds, max(left, _LEAST_SECONDS))


#: For each wait that comes later.
_LEAST_SECONDS = 0.1
