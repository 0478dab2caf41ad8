"""Targets with `mode="changes"` in Spark: executors read change rows, and they are added."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._apply.appending import change_rows
from walrow._apply.modes import beside
from walrow.spark.apply_failures import Reporting
from walrow.spark.keeping import KeepingCall
from walrow.spark.net_rows import numbers
from walrow.spark.schemas import fields_of, spark_schema
from walrow.spark.targets.sql import Appending

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from walrow._apply.calls import Work
    from walrow._apply.items import Applied
    from walrow._apply.tables import AppliedTable
    from walrow.spark.targets.sql import Target


class _Units(NamedTuple):
    """A function for `mapInArrow` over numbers of units: change rows out.

    Attributes:
        applied: The table.
        units: The ranges of LSNs.
    """

    applied: AppliedTable
    units: list[tuple[int, int]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Returns the rows."""
        for number in numbers(batches):
            yield from change_rows(self.applied, *self.units[number])


class ChangesCall(KeepingCall):
    """One call that adds changes to a target, in one commit."""

    def _work(self, target: Target, work: Work) -> Applied:
        """Adds all changes."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f
        from pyspark.sql.types import StructType

        applied, units = work.applied, work.batch.units
        schema = StructType(
            [*fields_of(applied), *spark_schema(beside(self.rules.mode)).fields]
        )

        def rows() -> Any:
            count = max(len(units), 1)
            places = target.session.range(0, len(units), 1, count)
            return places.mapInArrow(Reporting(_Units(applied, units)), schema)

        before, texts = self._ready_for(target, work, rows)
        token = self._recorded(target, work, before)
        observation = Observation()
        counted = self._checked(applied, rows(), texts).observe(
            observation, f.count(f.lit(1)).alias("rows")
        )
        with self._viewed(target, applied, counted.createOrReplaceTempView) as view:
            done = self._committed(target, Appending(view), token, before, work.nothing)
        # Spark Connect has no metrics of the query behind a view.
        count = observation.get.get("rows") if units else 0
        count = count or 0
        done = replace(done, rows=count, net_rows=count, inserted=count)
        return self._noted(target, done)
