"""Follows a log: its batches, and then those of what is published."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from walrow._core import Decoder
from walrow.errors import OptionError
from walrow.log_places import part_of

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping

    from walrow._core import Batch, LogDirectory
    from walrow.lsn import Lsn

__all__ = ["Follower"]


class Follower:
    """Batches of a log, and then of what is published. An iterator and context manager.

    Attributes:
        position: Up to where all batches were taken, and the next one was asked for. Give
            it as `start` to continue.
    """

    def __init__(
        self,
        log: LogDirectory,
        poll_interval: float,
        reader: str | None,
        options: Mapping[str, Any],
    ) -> None:
        """Registers the reader. Nobody else may follow with this object of the log."""
        if options.get("end") is not None:
            text = "follow() has no end: use read(end=...)"
            raise OptionError(text)
        if not 0 <= poll_interval <= _LONGEST_INTERVAL:
            text = (
                f"poll_interval is {poll_interval}: it must be from 0 to "
                f"{_LONGEST_INTERVAL}"
            )
            raise OptionError(text)
        self._log = log
        self._interval = poll_interval
        self._options = {key: value for key, value in options.items() if key != "end"}
        self._reader = reader
        self._recorded: Lsn | None = None
        if reader is not None:
            _, self._recorded, _ = self._log.register(reader, options.get("start"))
            self._options["start"] = self._recorded
        self._due = time.monotonic() + _USED_SECONDS
        self._decoder = Decoder(**self._options)
        self.position = self._decoder.position
        self._batches = self._read()

    def __iter__(self) -> Iterator[Batch]:
        return self._batches

    def __next__(self) -> Batch:
        return next(self._batches)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the iterator, and records the reader's position."""
        self._batches.close()
        if self._reader is not None and self.position != self._recorded:
            self._record(self._reader)

    def _record(self, reader: str) -> None:
        self._log.advance(reader, self.position, rewind=False)
        self._recorded = self.position
        self._due = time.monotonic() + _USED_SECONDS

    def _note(self) -> None:
        """Records the position if it is time to."""
        if self._reader is None:
            return
        left = self._due - time.monotonic()
        has_moved = self.position != self._recorded
        if left <= (_USED_SECONDS - _RECORD_SECONDS if has_moved else 0):
            self._record(self._reader)

    def _read(self) -> Generator[Batch]:
        part = part_of(self._options)
        start = part["start"]
        while True:
            end = self._log.end
            with self._log.open(**part | {"start": start}) as file:
                while chunk := file.read():
                    yield from self._decoder.feed(chunk)
            yield from self._decoder.flush()
            self.position = start = max(self.position, end)
            self._note()
            while not self._log.follow():
                self._note()
                time.sleep(self._interval)


#: 30 years. What is longer, or infinite, is more than a thread can wait.
_LONGEST_INTERVAL = 1_000_000_000
#: The shortest time between two records of a reader's position, and the longest.
_RECORD_SECONDS = 1.0
_USED_SECONDS = 60.0
