"""The part of a log that a batch reads: from the last load or truncate on, in units for tasks."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from walrow._apply.items import Barrier, Deletes, Truncates
from walrow._apply.modes import ANY_RANGE
from walrow._late import pa
from walrow._log.erasures import counts, read_erasures
from walrow._log.items import LogTable
from walrow._log.marks import Gap
from walrow._lsn import Lsn
from walrow.log import Log, reopened


class Batch(NamedTuple):
    """The part of a log to read for one table.

    Attributes:
        start: The target has all changes up to this LSN.
        end: The target has all changes up to this LSN after the batch.
        barrier: The last load or truncate in between.
        units: Ranges of LSNs, of segments that can be decoded alone.
        pieces: The same ranges before neighbours were joined, with the bytes of each.
        is_truncated: Whether a truncate removes the rows that the target has.
        is_small: Whether one task can read all.
        loads: The commit LSNs of all loads in between, for targets that take every change.
    """

    start: Lsn
    end: Lsn
    barrier: Barrier | None
    units: list[tuple[int, int]]
    pieces: list[tuple[int, int, int]]
    is_truncated: bool = False
    is_small: bool = False
    loads: tuple[int, ...] = ()

    @property
    def stream_bytes(self) -> int:
        """The bytes of the table's changes, of whole segments."""
        return sum(size for *_, size in self.pieces)

    @property
    def is_plain_load(self) -> bool:
        """Whether there is only a load: each row has its own key."""
        if self.barrier is None or not self.barrier.is_load:
            return False
        return all(end <= self.barrier.lsn + 1 for _, end in self.units)

    def overwrites(self, deletes: Deletes) -> bool:
        """Whether its rows replace all others."""
        if self.barrier is None:
            return False
        # A load that removes nothing leaves other rows as they are. A truncate does not.
        adds = self.barrier.is_load and not self.is_truncated
        return not (adds and deletes == "ignore")


class Stretch(NamedTuple):
    """Segments that can be decoded alone: one, or all with parts of one transaction.

    Attributes:
        start: Where the segment before it ends.
        end: The LSN where its last transaction ends.
        tables: By OID, rows, truncates, bytes and the end of the last load.
    """

    start: int
    end: int
    tables: dict[int, tuple[int, int, int, int]]


class LogContents:
    """The log's facts about its tables, read once for all targets.

    Attributes:
        log: The log.
        tables: Its tables.
        record: The receiver's record of them.
        erased: The end of the last transaction whose rows were erased, by OID.
        erasures: How often something was erased, by OID.
        removed: By OID, where the last removed change of a table ends, and its name.
        is_by_hand: Whether no other reader holds what its targets need.
    """

    def __init__(self, log: Log, *, is_by_hand: bool = False) -> None:
        self.log = log
        self.is_by_hand = is_by_hand
        self.removed = log._log.removed()
        # First: what is erased later is noticed before it is written.
        self.erased = log._log.erased()
        self.erasures = counts(read_erasures(log.read_object))
        self.record = log._record()
        self.tables = log._tables(self.record)
        self._stretches: dict[int, list[Stretch]] = {}
        for stretch in stretches(log):
            for oid in stretch.tables:
                self._stretches.setdefault(oid, []).append(stretch)

    def stretches(self, oid: int) -> list[Stretch]:
        """The segments that have changes of a table."""
        return self._stretches.get(oid, [])

    def columns_until(self, oid: int, end: Lsn) -> set[str]:
        """The columns that a table had in transactions up to an LSN."""
        log = self.log._log
        versions = log.versions()
        found: set[str] = set()
        for place, segment in enumerate(self.log.segments()):
            if segment.end > end:
                # It was merged, or is only read in part: it may have later versions, too.
                if segment.start < end:
                    found |= columns_between(self.log, oid, segment.start, end)
                continue
            for number, *_ in (log.segment(place) or {"tables": []})["tables"]:
                of, _, _, columns, _ = versions[number]
                if of == oid:
                    found.update(it[0] for it in columns)
        return found


def contents_of(log: LogContents | str | os.PathLike[str]) -> LogContents:
    """The facts of a log that a caller has named. `walrow run` has read them already."""
    if isinstance(log, LogContents):
        return log
    return LogContents(reopened(log), is_by_hand=True)


def columns_between(log: Log, oid: int, start: int, end: int) -> set[str]:
    """The columns that a table had in transactions, or a load, between two LSNs."""
    reader = log.read(table="walrow.relations", start=start, end=end, **ANY_RANGE)
    return {
        column["name"]
        for batch in reader
        for row in pa.record_batch(batch).to_pylist()
        if row["relation_oid"] == oid
        for column in row["columns"]
    }


def stretches(log: Log) -> list[Stretch]:
    """The segments of a log, with their counts for each table."""
    oids = [oid for oid, *_ in log._log.versions()]
    found: list[Stretch] = []
    begin: int | None = None
    tables: dict[int, tuple[int, int, int, int]] = {}
    for place in range(len(log._log)):
        segment = log._log.segment(place)
        if segment is None:
            break
        begin = segment["start"] if begin is None else begin
        for version, rows, truncates, size, _, load in segment["tables"]:
            oid = oids[version]
            of, had, bytes_, loaded = tables.get(oid, _NONE)
            last = loaded if load is None else max(loaded, load)
            tables[oid] = (of + rows, had + truncates, bytes_ + size, last)
        if not segment["continues"]:
            found.append(Stretch(begin, segment["end"], tables))
            begin, tables = None, {}
    return found


def plan(
    log: Log,
    segments: list[Stretch],
    table: LogTable,
    start: Lsn,
    end: Lsn,
    *,
    truncates: Truncates,
    unit_size: int,
    least_units: int,
) -> Batch:
    """Chooses the segments that have changes of a table between two LSNs.

    A unit has at most `unit_size` bytes of changes if its segments are not larger. There are
    `least_units` if there are as many segments.
    """
    parts = _parts(segments, table, start, end)
    barrier = None
    ranges = [(begin, last) for begin, last, _, truncated, _, _ in parts if truncated]
    loads = [load - 1 for *_, load in parts if start < load <= end]
    # A segment that was merged says where its last load ends, and may have earlier ones.
    hidden = [(begin, last) for begin, last, *_, load in parts if load > end]
    if (found := _last_truncate(log, table, hidden, is_load=True)) is not None:
        loads.append(found[0])
    if loads:
        barrier = Barrier(max(loads), 0, is_load=True)
    found = None
    if truncates == "apply":
        found = _last_truncate(log, table, ranges, is_load=False)
    if found is not None and (barrier is None or found > barrier[:2]):
        barrier = Barrier(*found, is_load=False)
    first = max(start, barrier.lsn) if barrier is not None else int(start)
    sized = [
        (max(begin, first), last, size)
        for begin, last, rows, _, size, _ in parts
        if rows and last > first
    ]
    total = sum(size for *_, size in sized)
    size = min(unit_size, max(total // max(least_units, 1), _LEAST_BYTES))
    return Batch(
        start,
        end,
        barrier,
        _units(sized, size),
        sized,
        found is not None,
        is_small=total <= unit_size,
    )


def plan_all(
    log: Log,
    segments: list[Stretch],
    table: LogTable,
    start: Lsn,
    end: Lsn,
    *,
    unit_size: int,
    first: int,
    gaps: Sequence[Gap] = (),
) -> Batch:
    """Chooses the segments with all changes of a table between two LSNs, and finds its loads.

    The barrier is the load with the commit LSN `first` that the target begins with, or `first` is
    the start. A target of changes gets the `gaps`, too.
    """
    parts = _parts(segments, table, start, end)
    loads = [it for it in loads_of(log, segments, table, start, end) if it >= first]
    barrier = Barrier(first, 0, is_load=True) if first > start else None
    sized = [
        (max(begin, first), last, size)
        for begin, last, rows, truncates, size, _ in parts
        if (rows or truncates) and last > first
    ]
    sized += [
        (int(gap.start), int(gap.end), 0)
        for gap in gaps
        if first < gap.end <= end
        and not any(begin < gap.end <= last for begin, last, _ in sized)
    ]
    sized.sort()
    units = _units(sized, unit_size)
    return Batch(start, end, barrier, units, sized, loads=tuple(loads))


def loads_of(
    log: Log, segments: list[Stretch], table: LogTable, start: Lsn, end: Lsn
) -> list[int]:
    """The commit LSNs of all loads of a table between two LSNs."""
    return [
        lsn
        for begin, last, _, truncates, *_ in _parts(segments, table, start, end)
        if truncates
        for lsn, _ in _truncates(log, table, begin, last)
        if lsn % 8 == _LOAD
    ]


def _parts(
    segments: list[Stretch], table: LogTable, start: Lsn, end: Lsn
) -> list[tuple[int, int, int, int, int, int]]:
    """The segments with changes of a table between two LSNs, cut there."""
    return [
        (max(it.start, start), min(it.end, end), *it.tables[table.oid])
        for it in segments
        if it.end > start and it.start < end and table.oid in it.tables
    ]


def _units(parts: list[tuple[int, int, int]], size: int) -> list[tuple[int, int]]:
    """Joins neighbours up to a size."""
    units: list[tuple[int, int]] = []
    gathered = 0
    for begin, last, each in parts:
        if not units or gathered + each > size:
            units.append((begin, last))
            gathered = each
        else:
            units[-1] = (units[-1][0], last)
            gathered += each
    return units


def _last_truncate(
    log: Log,
    table: LogTable,
    ranges: list[tuple[int, int]],
    *,
    is_load: bool,
) -> tuple[int, int] | None:
    """The last truncate that begins a load, or one that does not: its commit LSN and seq.

    Only segments that have truncates are read, from the last one on, without their
    rows.
    """
    for start, end in reversed(ranges):
        found = None
        for lsn, seq in _truncates(log, table, start, end):
            if (lsn % 8 == _LOAD) == is_load:
                found = (lsn, seq)
        if found is not None:
            return found
    return None


def _truncates(
    log: Log, table: LogTable, start: int, end: int
) -> Iterator[tuple[int, int]]:
    """The commit LSN and the seq of each truncate of a table. A load has one, too."""
    for batch in log.read(table="walrow.truncates", start=start, end=end, **ANY_RANGE):
        for row in pa.record_batch(batch).to_pylist():
            if table.oid in {it["relation_oid"] for it in row["tables"]}:
                yield row["commit_lsn"], row["seq"]


# Commit records begin at multiples of 8 bytes, and a load's is 1 before its point.
_LOAD = 7
_LEAST_BYTES = 8 << 20
_NONE = (0, 0, 0, 0)
