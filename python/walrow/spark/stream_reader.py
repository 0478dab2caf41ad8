"""The reader of a streaming query: micro-batches of whole transactions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from walrow._late import pa
from walrow._log.items import SourceIdentity
from walrow._lsn import Lsn
from walrow.errors import LogError
from walrow.spark.batch_reader import partitions
from walrow.spark.log_plan import LogPlan
from walrow.spark.new_versions import NewVersions
from walrow.spark.projection import Projection
from walrow.spark.source_options import naming_options

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before Spark 4.2
    SupportsTriggerAvailableNow = object


class LogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """Reads a log, and then each new segment.

    One process on the driver calls all functions but `read`, which runs in tasks. From
    Spark 4.2 on, Spark says where a micro-batch begins and how it is limited. Before, the
    reader knows it from the last call of `partitions`, which Spark also makes, with an empty
    range, when a query starts again.
    """

    def __init__(self, projection: Projection) -> None:
        self._projection = projection
        self._options = projection.options
        self._forget()

    def _forget(self) -> None:
        self._plan: LogPlan | None = None
        self._versions: NewVersions | None = None
        self._initial: Lsn | None = None
        self._position: Lsn | None = None
        self._target: Lsn | None = None
        self._registered = False

    def __getstate__(self) -> dict[str, Any]:
        """Pickles what `read` needs."""
        return {"_projection": self._projection, "_options": self._options}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restores what `read` needs."""
        self.__dict__.update(state)
        self._forget()

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's, as below
        """A query without a checkpoint begins at this offset."""
        return self._offset(self._first())

    @naming_options()
    def latestOffset(  # noqa: N802
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """The next micro-batch ends at this offset.

        Raises:
            LogError: The checkpoint belongs to another log, or the next segments were
                removed.
            SchemaError: The next changes have columns or types that the query lacks.
        """
        plan = self._followed()
        if start is not None:
            at = _lsn_of(start, plan.log.source)
        elif self._position is not None:
            at = self._position
        else:
            at = self._first()
        end = self._end(plan)
        if at >= end:
            self._check_reached(plan, at)
            return self._offset(at)
        self._check_kept(plan, at, end)
        self._register(plan, at)
        rows, size = self._options.max_rows, self._options.max_bytes
        # Trigger.Once asks for all.
        is_all = type(limit).__name__ == "ReadAllAvailable"
        if not is_all and (rows is not None or size is not None):
            end = plan.limited(at, end, rows, size)
        if self._versions is None:
            self._versions = NewVersions(self._projection)
        return self._offset(self._versions.cut(plan, at, end))

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        """The limit of a micro-batch. `latestOffset` also applies the other one."""
        from pyspark.sql.streaming import datasource

        if self._options.max_rows is not None:
            return datasource.ReadMaxRows(self._options.max_rows)
        if self._options.max_bytes is not None:
            return datasource.ReadMaxBytes(self._options.max_bytes)
        return datasource.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Makes the query end where the log ends now."""
        self._target = self._followed().log.end

    def reportLatestOffset(self) -> dict[str, Any]:  # noqa: N802
        """The offset at the end of the log, for the progress of the query."""
        return self._offset(self._end(self._opened()))

    def partitions(
        self, start: dict[str, Any], end: dict[str, Any]
    ) -> list[InputPartition]:
        """The partitions of a micro-batch.

        Raises:
            LogError: As `latestOffset`.
        """
        plan = self._opened()
        begin, last = _lsn_of(start, plan.log.source), _lsn_of(end, plan.log.source)
        self._position = last
        if begin >= last:
            return []
        if last > plan.log.end:
            plan.follow()
            self._check_reached(plan, last)
        self._check_kept(plan, begin, last)
        return partitions(self._options, plan, begin, last)

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        """Decodes a partition, in a task."""
        if partition is not None:
            yield from self._projection.batches(*partition.value)

    def commit(self, end: dict[str, Any]) -> None:
        """Moves the registered reader, if there is one: this micro-batch is done."""
        if self._options.reader is not None:
            plan = self._opened()
            lsn = _lsn_of(end, plan.log.source)
            self._register(plan, lsn)
            plan.log._log.advance(self._options.reader, lsn, rewind=False)

    def stop(self) -> None:
        """Closes the log."""
        self._forget()

    def _opened(self) -> LogPlan:
        if self._plan is None:
            self._plan = LogPlan(self._options)
        return self._plan

    def _followed(self) -> LogPlan:
        plan = self._opened()
        plan.follow()
        return plan

    def _offset(self, lsn: Lsn) -> dict[str, Any]:
        """The offset at an LSN, as Spark stores it in the checkpoint."""
        return {"source": self._projection.source.to_dict(), "lsn": str(lsn)}

    def _first(self) -> Lsn:
        # Spark asks twice, and segments that are removed meanwhile must be noticed.
        if self._initial is None:
            plan = self._opened()
            start = self._options.start
            self._initial = plan.log.start if start is None else plan.resolve(start)
        return self._initial

    def _end(self, plan: LogPlan) -> Lsn:
        ends = [plan.log.end]
        if self._target is not None:
            ends.append(self._target)
        if self._options.end is not None:
            ends.append(plan.resolve(self._options.end))
        return min(ends)

    def _register(self, plan: LogPlan, at: Lsn) -> None:
        name = self._options.reader
        if name is None or self._registered:
            return
        _, found, _ = plan.log._log.register(name, at)
        if found > at:
            raise LogError(
                f"reader {name} is already at {found}, after {at}, where this query "
                "continues: another query uses the name, or the checkpoint is an old one; "
                "choose another name with the option reader"
            )
        self._registered = True

    def _check_reached(self, plan: LogPlan, at: Lsn) -> None:
        # The option start may be later than the log's end.
        if at > plan.log.end and (self._options.start is None or at != self._first()):
            raise LogError(
                f"the log ends at {plan.log.end}, before {at}, where the query continues: it "
                "is not the log of the checkpoint, or an older copy of it"
            )

    def _check_kept(self, plan: LogPlan, start: Lsn, end: Lsn) -> None:
        is_chosen = self._options.start is not None and start == self._first()
        if 0 < start < (plan.log.slot_start or 0) and not is_chosen:
            text = (
                f"the log has no changes from before {plan.log.slot_start}, where its slot was "
                f"when the log was begun, but the query continues at {start}: what was "
                "committed between may be missing. It is not the log of the checkpoint: "
                "start the query with another checkpointLocation, and build its target "
                "again from a load of the table"
            )
            raise LogError(text, code="not_received", lsn=start)
        try:
            plan.check(start, end)
        except LogError as error:
            if error.code != "pruned":
                raise
            text = (
                f"{error.reason}: the query cannot continue at {start}. Start it with "
                "another checkpointLocation, and build its target again from a load of "
                "the table; register a reader with the option reader, so that what a "
                "query needs is kept"
            )
            raise LogError(text, code="pruned", lsn=error.lsn) from None


def _lsn_of(found: Mapping[str, Any], source: SourceIdentity) -> Lsn:
    """The LSN of an offset.

    Raises:
        LogError: It is the offset of another log or data source.
    """
    try:
        stored, lsn = SourceIdentity(**found["source"]), Lsn(found["lsn"])
    except (KeyError, TypeError, ValueError):
        raise LogError(
            "the checkpoint is not one of the data source walrow; use another "
            "checkpointLocation"
        ) from None
    if stored != source:
        raise LogError(
            f"the checkpoint is that of another log: it has an offset in changes of "
            f"{stored.words}, but the log has those of {source.words}; use the path of "
            "that log, or another checkpointLocation"
        )
    return lsn
