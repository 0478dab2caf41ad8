"""The retention of a log: by age and by size, and the holds that keep more."""

from __future__ import annotations

import contextlib
import datetime as dt
import os
from pathlib import Path
from typing import Literal

from walrow._core import LogDirectory
from walrow._log.needs import read_record
from walrow._lsn import Lsn
from walrow._options import Option, options
from walrow._results import Result, result
from walrow.errors import Error, LogError
from walrow.typing import Duration, Size

#: 30,000 years: microseconds of it are a number of 64 bits.
_LONGEST_SECONDS = 1_000_000_000_000


@result
class Hold(Result):
    """A hold: it needs segments that would be removed otherwise.

    Attributes:
        kind: `reader`, or `load`: the last load of a table.
        name: The reader's name, or the table as `schema.name`.
        position: Segments after this LSN are needed.
        used: When the reader was last used.
    """

    kind: Literal["reader", "load"]
    name: str
    position: Lsn
    used: dt.datetime | None

    def __str__(self) -> str:
        """Says it in words."""
        if self.kind == "load":
            return f"the last load of {self.name} comes after {self.position}"
        used = "" if self.used is None else f", last used {self.used:%Y-%m-%d %H:%M}Z"
        return f"the reader {self.name} is at {self.position}{used}"


@result
class Retained(Result):
    """What `Log.retain` did.

    Attributes:
        segments: The number of removed segments.
        bytes: Bytes of them.
        held: The holds that keep more, the most restrictive first.
        forgotten: The names of the readers that were forgotten.
    """

    segments: int
    bytes: int
    held: tuple[Hold, ...]
    forgotten: tuple[str, ...]


@result
class Compacted(Result):
    """What `Log.compact` did.

    Attributes:
        segments: The number of segments that were merged.
        merged: The number of segments instead of them.
        bytes: Bytes that were copied.
    """

    segments: int
    merged: int
    bytes: int


@options
class Retention:
    """The retention of a log."""

    age: Option[Duration | None, float | None] = Option(
        "How long transactions are kept.", default=None, most=_LONGEST_SECONDS
    )
    bytes: Option[Size | None, int | None] = Option(
        "How many bytes of segments are kept. With `age` too, segments beyond either limit are "
        "removed.",
        default=None,
    )
    forget_after: Option[Duration | None, float | None] = Option(
        "Readers that were not used for so long are forgotten first.",
        default=None,
        most=_LONGEST_SECONDS,
    )

    def apply(self, log: LogDirectory, *, force: bool = False) -> Retained:
        """Removes old segments. See `Log.retain`."""
        name_tables(log)
        done = log.retain(
            _micros(self.age), self.bytes, _micros(self.forget_after), force
        )
        held = tuple(map(_hold, done["held"]))
        return Retained(done["segments"], done["bytes"], held, tuple(done["forgotten"]))


def holds(log: LogDirectory) -> list[Hold]:
    """The readers that need segments, or without readers, the last loads. The most restrictive is first."""
    name_tables(log)
    return list(map(_hold, log.holds()))


def _hold(found: tuple[str, str, Lsn, int | None]) -> Hold:
    kind, name, position, used = found
    when = None if used is None else _time(used)
    return Hold("load" if kind == "load" else "reader", name, position, when)


def name_tables(log: LogDirectory) -> None:
    """Names the tables with loads. The load of a table that left holds nothing back."""
    record = read_record(log.read_object)
    pairs = {oid: record.pair_of(oid) for oid in record.tables or ()}
    log.set_tables(pairs | dict.fromkeys(record.left))


class Keeper:
    """Keeps a log short, and its segments few, while a receiver writes it. Problems are its `note`."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        retention: Retention | None,
        segment_size: int | None,
    ) -> None:
        """Stores the arguments. Segments are merged up to `segment_size`, in bytes of the stream."""
        self.note: str | None = None
        self._path = Path(path)
        self._retention = retention
        self._segment_size = segment_size
        self._log: LogDirectory | None = None

    def apply(self) -> None:
        """Removes and merges the segments that are due now. Its problems are in the note."""
        try:
            # It stays open, as opening a long log takes a while.
            self._log = self._log or LogDirectory(self._path)
            held = self._retention.apply(self._log).held if self._retention else ()
            self.note = f"retention is held back: {held[0]}" if held else None
            if self._segment_size is not None:
                self._log.compact(self._segment_size)
        except (Error, OSError) as error:
            self._log = None
            is_early = isinstance(error, FileNotFoundError) or (
                isinstance(error, LogError) and error.code == "not_a_log"
            )
            # Without the log, there are no segments yet.
            self.note = None if is_early else f"upkeep: {error}"


def _micros(seconds: float | None) -> int | None:
    return None if seconds is None else int(seconds * 1_000_000)


def _time(micros: int) -> dt.datetime | None:
    with contextlib.suppress(OverflowError):
        return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(
            microseconds=micros
        )
    return None
