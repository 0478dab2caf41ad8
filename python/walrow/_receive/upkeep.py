"""Removes old segments while a receiver writes, beside the stream."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from walrow._workers import answered

if TYPE_CHECKING:
    from concurrent.futures import Future

    from walrow._log.retention import Retainer
    from walrow._receive.stopping import Stop
    from walrow._workers import Worker

__all__ = ["Upkeep"]


class Upkeep:
    """The retention of a receiver's log, about once a minute."""

    def __init__(self, retainer: Retainer | None, files: Worker) -> None:
        """Stores the arguments.

        Args:
            retainer: The object that removes segments. None if all stay.
            files: The worker that does it.
        """
        self._retainer = retainer
        self._files = files
        self._due = time.monotonic() + _RETAIN_SECONDS
        self._answer: Future[None] | None = None

    @property
    def note(self) -> str | None:
        """The holds or problems, in words."""
        return None if self._retainer is None else self._retainer.note

    def tend(self) -> None:
        """Begins it if it is due. Call it often."""
        now = time.monotonic()
        if self._retainer is None or now < self._due:
            return
        self._due = now + _RETAIN_SECONDS
        if self._answer is None or self._answer.done():
            self._answer = self._files.do(self._retainer.apply)

    def finish(self, stop: Stop) -> None:
        """Does it once more, as far as a stop leaves time for that."""
        if self._retainer is not None:
            last = self._files.do(self._retainer.apply)
            answered(last, math.inf, stop.is_set)
            answered(last, _LAST_SECONDS)


_RETAIN_SECONDS = 60.0
#: The last time, after a stop.
_LAST_SECONDS = 0.3
