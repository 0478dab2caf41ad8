"""Partitions of a log, and the reader of a batch query."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.datasource import DataSourceReader, InputPartition

from walrow._late import pa
from walrow._lsn import Lsn
from walrow.spark.log_plan import LogPlan
from walrow.spark.projection import Projection
from walrow.spark.source_options import SourceOptions


def partitions(
    options: SourceOptions, plan: LogPlan, start: Lsn, end: Lsn
) -> list[InputPartition]:
    """Packs segments into partitions of a size, by LSNs. Parts of a transaction stay together.

    Segments may be merged until a task reads them: their LSNs stay.

    Raises:
        LogError: Changes after the start were removed.
    """
    plan.check(start, end)
    # Each segment has the versions of its tables again: one decoder returns them once.
    is_one = options.table == "walrow.relations"
    size = options.partition_bytes
    found: list[InputPartition] = []
    begin = last = start
    filled = 0
    for chain in plan.chains(start, end):
        # As near to the size as can be. Segments without the table cost nothing.
        is_full = filled > 0 and filled + chain.stream_bytes / 2 > size
        if is_full and chain.stream_bytes and not is_one:
            found.append(InputPartition((begin, last)))
            begin, filled = last, 0
        filled += chain.stream_bytes
        last = min(chain.end, end)
    if filled:
        found.append(InputPartition((begin, last)))
    return found


class LogBatchReader(DataSourceReader):  # type: ignore[misc]
    """Reads the changes between two points of a log."""

    def __init__(self, projection: Projection, plan: LogPlan) -> None:
        options = projection.options
        self._projection = projection
        end, start = plan.log.end, plan.log.start
        if options.end is not None:
            end = min(plan.resolve(options.end), end)
        if options.start is not None:
            start = plan.resolve(options.start)
        self._partitions = partitions(options, plan, start, end)

    def partitions(self) -> list[InputPartition]:
        """The partitions, in the order of the log."""
        return self._partitions

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Decodes a partition, in a task."""
        # Without partitions, Spark passes none.
        if partition is not None:
            yield from self._projection.batches(*partition.value)
