"""Tells a caller how a receiver is doing, about once a second."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from walrow._lsn import Lsn
from walrow._receive.orders import Counts
from walrow._receive.publishing import Publisher
from walrow._receive.status import LoadProgress, State, Status
from walrow._receive.watch import Watch


class Seen(NamedTuple):
    """The facts about a log in a report. `trouble` may pass.

    With `is_end_known`, the server's end of WAL can be compared with the position.
    """

    position: Lsn
    counts: Counts
    load: LoadProgress | None
    trouble: str | None
    is_end_known: bool


class Reports:
    """The reports of a receiver, and its messages for people."""

    def __init__(
        self,
        status: Callable[[Status], None] | None,
        watch: Watch,
        publisher: Publisher,
        seconds: float,
    ) -> None:
        """Stores the arguments: `status` is called with each report, after so many `seconds`."""
        self._publisher = publisher
        self._status = status
        self._watch = watch
        self._seconds = seconds
        self._due = 0.0
        #: When there was no lag.
        self._caught_up = -math.inf
        self._notes: deque[str] = deque()

    def end(self) -> None:
        """Reports nothing any more."""
        self._status = None

    def add(self, note: str) -> None:
        """Says something to people, with the next report."""
        self._notes.append(note)

    def report(self, state: State, seen: Seen, note: str | None, *, now: bool) -> None:
        """Reports, if it is time, or now."""
        clock = time.monotonic()
        if self._status is None or (not now and clock < self._due):
            return
        self._due = clock + self._seconds
        while self._notes:
            self._say(state, seen, self._notes.popleft())
        self._say(state, seen, note)

    def _say(self, state: State, seen: Seen, note: str | None) -> None:
        counts = seen.counts
        end, kept = self._watch.look() if seen.is_end_known else (None, None)
        lag = None if end is None or not seen.position else max(0, end - seen.position)
        clock = time.monotonic()
        if lag == 0:
            self._caught_up = clock
        if self._status is not None:
            record = self._publisher.file.record
            self._status(
                Status(
                    state,
                    seen.position,
                    counts.transactions,
                    counts.rows,
                    counts.bytes,
                    counts.segments,
                    lag,
                    lag_seconds(
                        counts.last_commit_time if seen.is_end_known else None,
                        lag,
                        clock - self._caught_up,
                    ),
                    kept,
                    seen.load,
                    note or seen.trouble,
                    None if record is None else record.to_dict(),
                )
            )


def lag_seconds(
    micros: int | None, lag: int | None, behind: float = math.inf
) -> float | None:
    """How many seconds a log is behind its server at most, from its last commit and the lag in bytes.

    `behind` counts since there was none: an idle server writes WAL, too.
    """
    if lag == 0:
        return 0.0
    if micros is None:
        return None
    now = dt.datetime.now(dt.UTC).timestamp()
    return min(max(0.0, now - micros / 1_000_000), behind)
