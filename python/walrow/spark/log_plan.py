"""Where a log can be cut: ranges of whole transactions, from what its segments say."""

from __future__ import annotations

import datetime as dt
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from walrow._late import pa
from walrow._lsn import Lsn
from walrow._secrets import reason_of, without_credentials
from walrow._sources.logs import part_of
from walrow._sources.urls import is_url
from walrow.errors import LogError
from walrow.log import Log
from walrow.spark.schemas import SIDE_TABLES
from walrow.spark.source_options import SourceOptions


class Chain(NamedTuple):
    """A segment, or the parts of a transaction that is larger than one.

    Attributes:
        start: Where it begins.
        end: The LSN where its last transaction ends.
        rows: The number of rows of the chosen tables.
        stream_bytes: Bytes of the stream of segments that have these tables.
        versions: The chosen tables' versions, as places in `LogPlan.versions`.
        renamed: Versions of these tables under other names, which are not chosen.
    """

    start: Lsn
    end: Lsn
    rows: int
    stream_bytes: int
    versions: frozenset[int]
    renamed: frozenset[int]


class Step(NamedTuple):
    """The next part for a micro-batch: a chain, or a transaction of a chain."""

    end: Lsn
    rows: int
    stream_bytes: int


class LogPlan:
    """A log, as the driver sees it: only what the segments say, no rows.

    Attributes:
        log: The log.

    Args:
        options: The options. Only the log and the chosen tables are used.

    Raises:
        LogError: The directory is not a log, or a segment is damaged.
        OSError: The directory cannot be read.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._chosen: list[Any] | None = self._part()["tables"]
        self.log = open_log(options)
        self._log = self.log._log
        self._versions: list[Any] | None = None
        self._others: frozenset[int] | None = None
        self._cuts: tuple[Chain, list[Step]] | None = None
        self._times: dict[dt.datetime, Lsn] = {}

    @property
    def versions(self) -> list[Any]:
        """All versions of all tables: OID, schema, name, columns, replica identity."""
        if self._versions is None:
            self._versions = self._log.versions()
        return self._versions

    def follow(self) -> None:
        """Looks for new segments. Its cost does not grow with the log."""
        if self._log.follow():
            self._versions = self._others = None

    def check(self, start: Lsn, end: Lsn) -> None:
        """Refuses a range whose changes were removed, as far as the tables are read.

        Raises:
            LogError: With the code `"pruned"`.
        """
        self._log.open(**self._part() | {"start": after(start), "end": end}).close()

    def resolve(self, point: Lsn | dt.datetime) -> Lsn:
        """The LSN of a point. A time means the same place as everywhere: see `LogDirectory.lsn_of`."""
        if isinstance(point, Lsn):
            return point
        found = self._times.get(point)
        if found is None:
            found = self._log.lsn_of(point, "a time")
            if found < self.log.end:
                # There is a later transaction, and more segments do not change the place.
                self._times[point] = found
        return found

    def chains(self, start: Lsn, end: Lsn) -> Iterator[Chain]:
        """The chains with transactions after an LSN, and up to another LSN."""
        parts: list[dict[str, Any]] = []
        for place in range(self._place(start), len(self._log)):
            parts.append(self.log._dict(place))
            if parts[0]["start"] >= end:
                return
            if parts[-1]["continues"]:
                continue
            if parts[-1]["end"] > start:
                yield self._chain(parts)
            parts = []

    def limited(
        self, start: Lsn, end: Lsn, rows: int | None, stream_bytes: int | None
    ) -> Lsn:
        """Where a micro-batch of a limited size ends: at least one transaction later."""
        left_rows, left_bytes = rows, stream_bytes
        at = start
        for step in self._steps(start, end, rows, stream_bytes):
            if left_rows is not None:
                left_rows -= step.rows
            if left_bytes is not None:
                left_bytes -= step.stream_bytes
            is_over = any(it is not None and it < 0 for it in (left_rows, left_bytes))
            if is_over and at > start:
                return at
            at = min(step.end, end)
            if is_over:
                return at
        return max(at, end)

    def _steps(
        self, start: Lsn, end: Lsn, rows: int | None, stream_bytes: int | None
    ) -> Iterator[Step]:
        """Chains, and the transactions of a chain that is too large, or partly taken."""
        is_first = True
        for chain in self.chains(start, end):
            is_large = (rows is not None and chain.rows > rows) or (
                stream_bytes is not None and chain.stream_bytes > stream_bytes
            )
            if chain.start < start or (is_large and is_first):
                for step in self._transactions(chain):
                    if start < step.end <= end:
                        yield step
            else:
                yield Step(chain.end, chain.rows, chain.stream_bytes)
            is_first = False

    def _transactions(self, chain: Chain) -> list[Step]:
        """The transactions of a chain. They are kept: the next batches take more of them."""
        if self._cuts is not None and self._cuts[0] == chain:
            return self._cuts[1]
        found = _counted(self.log, self._options, chain)
        changes = sum(changes for _, changes, _ in found)
        steps = [
            Step(end, rows, chain.stream_bytes * count // max(changes, 1))
            for end, count, rows in found
        ]
        if steps:
            steps[-1] = steps[-1]._replace(end=max(steps[-1].end, chain.end))
        self._cuts = chain, steps
        return steps

    def _chain(self, parts: list[dict[str, Any]]) -> Chain:
        rows = stream_bytes = 0
        versions: set[int] = set()
        renamed: set[int] = set()
        for part in parts:
            chosen = [
                it for it in part["tables"] if self._chooses(self.versions[it[0]])
            ]
            renamed |= self._renamed.intersection(it[0] for it in part["tables"])
            rows += sum(it[1] for it in chosen)
            versions |= {it[0] for it in chosen}
            if chosen or self._is_all:
                stream_bytes += part["stream_bytes"]
        if self._is_all:
            rows = sum(it[1] for part in parts for it in part["tables"])
        first, last = parts[0], parts[-1]
        return Chain(
            first["start"],
            last["end"],
            rows,
            stream_bytes,
            frozenset(versions),
            frozenset(renamed),
        )

    @property
    def _renamed(self) -> frozenset[int]:
        """Versions that are not chosen, of tables with another name that is."""
        if self._others is None:
            chosen = {it[0] for it in self.versions if self._chooses(it)}
            self._others = frozenset(
                place
                for place, it in enumerate(self.versions)
                if it[0] in chosen and not self._chooses(it)
            )
        return self._others

    def chosen_name(self, oid: int, chain: Chain) -> str | None:
        """The name that is chosen of a table, if it has it in a chain, or had it just before."""
        found: Iterable[int] = chain.versions
        place = self._place(chain.start)
        while True:
            of_table = [
                it for it in map(self.versions.__getitem__, found) if it[0] == oid
            ]
            for version in of_table:
                if self._chooses(version):
                    return f"{version[1]}.{version[2]}"
            if of_table or place == 0:
                return None
            place -= 1
            found = [it[0] for it in self.log._dict(place)["tables"]]

    @property
    def _is_all(self) -> bool:
        """Whether any segment may have changes of the tables."""
        return self._chosen is None

    def _part(self) -> dict[str, Any]:
        return part_of({**self._options.read, "table": self._options.table})

    def _chooses(self, version: tuple[int, str, str, Any, str]) -> bool:
        oid, schema, name, *_ = version
        named = {oid, name, f"{schema}.{name}", (schema, name)}
        return self._chosen is None or any(it in named for it in self._chosen)

    def _place(self, lsn: Lsn) -> int:
        """The place of the first segment of the chain that an LSN is in."""

        def start(place: int) -> Lsn:
            return Lsn(self.log._dict(place)["start"])

        low = bisect_right(range(len(self._log)), lsn, key=start)
        low = max(low - 1, 0)
        while (
            low and self.log._dict(low)["part"] and self.log._dict(low - 1)["continues"]
        ):
            low -= 1
        return low


def open_log(options: SourceOptions) -> Log:
    """Opens the log of a query.

    Raises:
        LogError: The directory does not exist here, or is not a log.
    """
    path = options.path
    try:
        return Log(path, storage_options=options.storage_options)
    except OSError as error:
        why = "reach it" if is_url(path) else "have its directory under this path"
        raise LogError(
            f"{without_credentials(path)}: the log cannot be opened: "
            f"{reason_of(error)}; the driver and all executors "
            f"must {why}"
        ) from error


def after(lsn: Lsn) -> Lsn:
    """The start of a range. At 0/0, removed segments are not missing."""
    return max(lsn, Lsn(1))


def _counted(
    log: Log, options: SourceOptions, chain: Chain
) -> list[tuple[Lsn, int, int]]:
    """Each transaction's end, its changes, and its rows of the chosen tables."""
    of_range: dict[str, Any] = {"start": after(chain.start), "end": chain.end}
    # The executors refuse a gap.
    of_range["gaps"] = "cross"
    transactions = [
        row
        for batch in log.read(table="walrow.transactions", **of_range)
        for row in pa.record_batch(batch).to_pylist()
    ]
    counts = {row["commit_lsn"]: row["changes"] for row in transactions}
    if chain.versions and options.table not in SIDE_TABLES:
        counts = dict.fromkeys(counts, 0)
        rows = log.read(
            table=options.table,
            tables=options.read.get("tables"),
            schema=pa.schema([("_commit_lsn", pa.uint64())])
            if options.table is not None
            else None,
            columns=[],
            metadata=["commit_lsn"],
            missing_table="ignore",
            **of_range,
        )
        for batch in rows:
            for each in pa.record_batch(batch).column(0).value_counts().to_pylist():
                counts[each["values"]] += each["counts"]
    return [
        (Lsn(row["end_lsn"]), row["changes"], counts[row["commit_lsn"]])
        for row in transactions
    ]
