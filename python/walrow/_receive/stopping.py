"""The stop of a receiver, and how long the rest may take after it."""

from __future__ import annotations

import contextlib
import math
import time
from typing import TYPE_CHECKING

from walrow._waiting import StopEvent

if TYPE_CHECKING:
    import threading
    from contextlib import AbstractContextManager

    from walrow._waiting import Waiter

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

    def waking(self, waiter: Waiter) -> AbstractContextManager[None]:
        """Wakes this waiter meanwhile, when the caller asks for it: see `look_within`."""
        if isinstance(self._callers, StopEvent):
            return self._callers.waking(waiter)
        return contextlib.nullcontext()

    @property
    def look_within(self) -> float:
        """After how many seconds to look at it again. A plain event wakes nobody."""
        return math.inf if isinstance(self._callers, StopEvent) else _LOOK_SECONDS

    def allowed(self, seconds: float) -> float:
        """The rest of these seconds after it."""
        if not self.is_set():
            return seconds
        left = self._must_end - time.monotonic()
        return min(seconds, max(left, _LEAST_SECONDS))


_LOOK_SECONDS = 0.25
#: For each wait that comes later.
_LEAST_SECONDS = 0.1
