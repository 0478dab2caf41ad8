"""Follows a log: returns its batches, and then the batches of each new segment."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from typing import Any, Self

from walrow._amounts import duration
from walrow._core import Batch, Decoder, LogDirectory
from walrow._log.readers import reader_name
from walrow._lsn import Lsn
from walrow._sources.logs import part_of, start_in
from walrow._waiting import pause
from walrow.errors import LogError, OptionError
from walrow.typing import Duration


class Follower:
    """Batches of a log, and then of each new segment. An iterator and context manager.

    Attributes:
        position: Up to where all batches were taken, and the next one was asked for. Give
            it as `start` to continue.
    """

    def __init__(
        self,
        opened: Callable[[], LogDirectory],
        poll_interval: Duration,
        reader: str | None,
        options: Mapping[str, Any],
    ) -> None:
        """Opens the log, and registers the reader."""
        if options.get("end") is not None:
            raise OptionError("follow() has no end: use read(end=...)")
        seconds = duration(poll_interval, "poll_interval")
        if seconds > _LONGEST_POLL_SECONDS:
            raise OptionError(
                f"poll_interval is {poll_interval}: it must be from 0 to "
                f"{_LONGEST_POLL_SECONDS:.0f} seconds"
            )
        self._opened = opened
        self._log = opened()
        self._interval = seconds
        self._options = {key: value for key, value in options.items() if key != "end"}
        if "start" in self._options:
            self._options["start"] = start_in(self._log, self._options["start"])
        self._reader = None if reader is None else reader_name(reader)
        self._recorded: Lsn | None = None
        self._used = time.monotonic()
        if reader is not None:
            start = self._options.get("start")
            _, self._recorded, _ = self._log.register(reader, start)
            self._options["start"] = self._recorded
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
        try:
            self._log.advance(reader, self.position, rewind=False)
        except LogError as error:
            if error.code == "no_reader":
                self._refuse_forgotten(reader)
            if error.code != "busy":
                raise
            # Somebody has the log locked: the next record has the position, too.
        else:
            self._recorded = self.position
        self._used = time.monotonic()

    def _refuse_forgotten(self, reader: str) -> None:
        """Raises an error if a forgotten reader has lost changes that it did not take."""
        start = self._opened().start
        if start > self.position:
            text = (
                f"reader {reader!r} was not used for long and was forgotten: what comes after "
                f"{self.position}, up to {start}, was removed. Load what it keeps again"
            )
            raise LogError(text, code="pruned")

    def _note(self, seconds: float) -> None:
        """Records the position, or that the reader is used, at most once in so many seconds."""
        if self._reader is not None and time.monotonic() >= self._used + seconds:
            self._record(self._reader)

    def _read(self) -> Generator[Batch]:
        part = part_of(self._options)
        start = part["start"]
        while True:
            end = self._log.end
            # Before it is read: 0/0 is a valid start even after the beginning was removed.
            self._note(_RECORD_SECONDS)
            with self._log.open(**part | {"start": start}) as file:
                while chunk := file.read():
                    yield from self._hand_out(self._decoder.feed(chunk))
            yield from self._hand_out(self._decoder.flush())
            self.position = start = max(self.position, end)
            self._note(_RECORD_SECONDS)
            while not self._log.follow():
                self._note(_WAITING_SECONDS)
                pause(self._interval)

    def _hand_out(self, batches: Iterable[Batch]) -> Generator[Batch]:
        """Hands out batches. A request for the next batch means that the earlier ones are used."""
        for batch in batches:
            delivered = self._decoder.position
            # Not 0/0, which is a valid start even after the beginning was removed.
            self.position = max(self.position, _BEGUN)
            yield batch
            self._move(delivered)
        # Transactions without rows that are read, too.
        self._move(self._decoder.position)

    def _move(self, position: Lsn) -> None:
        self.position = max(self.position, position)
        self._note(_RECORD_SECONDS)


#: The shortest time between two records of a reader, while it takes batches and while it waits.
_RECORD_SECONDS = 1.0
_WAITING_SECONDS = 2.0
_LONGEST_POLL_SECONDS = 86_400.0
#: Before every change: the position of a reader that has taken a part of the first transaction.
_BEGUN = Lsn(1)
