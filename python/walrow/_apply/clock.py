"""The valid times of a history: the greatest commit time of all transactions so far.

Commit times are not in the order of the commits. A state as of a time ends before the first transaction
that was committed later: so a transaction belongs to it if no transaction up to it was committed later.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from walrow._apply.modes import ANY_RANGE
from walrow._late import pa
from walrow.log import Log


class Reached(NamedTuple):
    """The commit times of a part of a log, in microseconds since 1970.

    Attributes:
        ends: For each commit LSN that was asked for, where its transaction ends.
        times: For each, the greatest commit time up to it.
        time: The greatest commit time of all transactions. None if there was none.
    """

    ends: dict[int, int]
    times: dict[int, int]
    time: int | None


def reached(
    log: Log, start: int, time: int | None, commits: Sequence[int], end: int | None
) -> Reached:
    """Finds the greatest commit times. Only segments with these commits are read.

    Args:
        log: The log.
        start: The transactions up to this LSN are in `time`.
        time: The greatest commit time until then. None if there was none.
        commits: Commit LSNs, in their order.
        end: Up to where to go on. None: up to the last of the commits.
    """
    found = Reached({}, {}, time)
    place = 0
    for begin, last, greatest in _chains(log):
        if last <= start:
            continue
        if place == len(commits) if end is None else begin >= end:
            break
        # A commit LSN is before the end of its transaction, and not before the end of another.
        has_some = place < len(commits) and commits[place] < last
        is_whole = begin >= start and (end is None or last <= end)
        if is_whole and not has_some:
            found = found._replace(time=_later(found.time, greatest))
            continue
        until = last if end is None else min(last, end)
        for lsn, at, when in _transactions(log, max(begin, start), until):
            found = found._replace(time=_later(found.time, when))
            if place < len(commits) and commits[place] == lsn:
                found.ends[lsn], found.times[lsn] = at, found.time or 0
                place += 1
                if end is None and place == len(commits):
                    return found
    return found


def _later(one: int | None, other: int | None) -> int | None:
    return max((it for it in (one, other) if it is not None), default=None)


def _chains(log: Log) -> Iterator[tuple[int, int, int | None]]:
    """The start, the end and the greatest commit time of segments that have whole transactions."""
    begin: int | None = None
    greatest: int | None = None
    for place in range(len(log._log)):
        segment = log._dict(place)
        begin = segment["start"] if begin is None else begin
        times = segment["commit_times"]
        greatest = _later(greatest, None if times is None else times[1])
        if not segment["continues"]:
            yield int(begin or 0), int(segment["end"]), greatest
            begin, greatest = None, None


def _transactions(log: Log, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """The transactions between two LSNs: commit LSN, end, commit time."""
    names = ("commit_lsn", "end_lsn", "commit_timestamp")
    for batch in log.read(
        table="walrow.transactions", start=start, end=end, **ANY_RANGE
    ):
        records = pa.record_batch(batch)
        columns = (records.column(name).cast(pa.int64()) for name in names)
        yield from zip(*(it.to_pylist() for it in columns), strict=True)
