"""Removes old segments and merges small ones while a receiver writes, beside the stream."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from concurrent.futures import Future

from walrow._log.retention import Keeper
from walrow._workers import Worker, answered


class Upkeep:
    """The upkeep of a receiver's log, about once a minute."""

    def __init__(self, keeper: Keeper | None, worker: Worker) -> None:
        """Stores the arguments. The worker is only for this, since a merge may take long."""
        self._keeper = keeper
        self._worker = worker
        self._due = time.monotonic() + _UPKEEP_SECONDS
        self._answer: Future[None] | None = None

    @property
    def note(self) -> str | None:
        """The holds or problems, in words."""
        return None if self._keeper is None else self._keeper.note

    def tend(self) -> None:
        """Begins it if it is due. Call it often."""
        now = time.monotonic()
        if self._keeper is None or now < self._due:
            return
        self._due = now + _UPKEEP_SECONDS
        if self._answer is None or self._answer.done():
            self._answer = self._worker.do(self._keeper.apply)

    def finish(self, is_stopped: Callable[[], bool]) -> None:
        """Does it once more, as far as a stop leaves time for that."""
        if self._keeper is not None:
            last = self._worker.do(self._keeper.apply)
            answered(last, math.inf, is_stopped)
            answered(last, _LAST_SECONDS)
        self._worker.close()


_UPKEEP_SECONDS = 60.0
#: The last time, after a stop.
_LAST_SECONDS = 0.3
