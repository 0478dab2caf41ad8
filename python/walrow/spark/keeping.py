"""Histories and changes in Spark: the common parts of targets that keep old rows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Any

from walrow._apply.calls import Work, committed
from walrow._apply.erased_rows import IMAGE, OLD_IMAGES, erased_columns, erased_rows
from walrow._apply.items import Applied, Token
from walrow._apply.merges import erasing
from walrow._apply.modes import LSN, SEQ, beside
from walrow._apply.tables import AppliedTable, change_rows
from walrow._apply.targets import Conflict, Found
from walrow._late import f, pa, sql, types
from walrow.spark.apply_failures import task
from walrow.spark.applying import Call, compute, observe
from walrow.spark.net_rows import numbers
from walrow.spark.schemas import fields_of, spark_schema
from walrow.spark.targets.evolving import evolve
from walrow.spark.targets.path_values import checked
from walrow.spark.targets.sql import WORDS, Appending, Merging, Target, Writing, quoted


class KeepingCall(Call):
    """One call for a target that keeps old rows."""

    def look(self, session: Any) -> Applied:
        """Applies what the target lacks: it takes no part in a pass for many tables."""
        return self.run(session)

    def run(self, session: Any) -> Applied:
        """Makes one commit after the other, until the target has everything.

        Raises:
            ApplyError: As in `apply_changes`.
        """

        def one() -> Applied:
            with self._refreshed(session) as target:
                return self._one(target)

        return self.commits(one)

    def _one(self, target: Target) -> Applied:
        """Makes one commit, if the target lacks anything."""
        found = target.look()
        applied = self.applied(found)
        token = None if found is None else found.token
        if found is not None and token is not None and self.record.lacks_erasure(token):
            return self._erase(target, found, token, applied)
        work = self.begin(applied, found, least_units=1)
        if not isinstance(work, Applied):
            return self._work(target, work)
        if found is None:
            evolve(target, applied, self.rules, self.layout)
        return work

    def _work(self, target: Target, work: Work) -> Applied:
        """Makes one commit with work that the target lacks."""
        raise NotImplementedError

    def _ready_for(
        self, target: Target, work: Work, rows: Callable[[], Any]
    ) -> tuple[Found, Collection[str]]:
        """As `_ready`, with what returns rows that have the table's columns."""

        def rehearse(names: Collection[str]) -> None:
            with self._errors(work.applied):
                compute(self._checked(work.applied, rows(), names), names)

        return self._ready(target, work, rehearse)

    def _checked(self, applied: AppliedTable, rows: Any, texts: Collection[str]) -> Any:
        """Rows that raise an error where a value would not come back from a path."""
        return rows.withColumns(
            {
                name: checked(f.col(quoted(name)), applied.columns.index(name))
                for name in texts
            }
        )

    def _committed(
        self,
        target: Target,
        work: Work,
        rows: Any,
        writing: Callable[[str], Writing],
        *,
        token: Token,
        before: Found,
    ) -> Applied:
        """Writes rows, by the view that has them, and the record, in one commit."""
        with self._viewed(target, work.applied, rows.createOrReplaceTempView) as view:
            self.record.refuse_erased_meanwhile()
            commit = target.commit(writing(view), token, before)
        if not commit.is_first:
            # Another driver has done the same.
            raise Conflict
        return committed(work.nothing, token, commit)

    # ---------------------------------------------------------------- erasures

    def _erase(
        self, target: Target, found: Found, token: Token, applied: AppliedTable
    ) -> Applied:
        """Removes the rows that were erased from the log, and the values of erased columns."""
        self.record.start(found, applied.keys)
        has_images = self.rules.mode == "changes"
        is_old = f.col("_change_type").isin(*OLD_IMAGES) if has_images else f.lit(False)
        places = target.at(found.version).select(LSN, SEQ, is_old.alias(IMAGE))
        own: pa.Table = places.toArrow()
        rows = erased_rows(self.record, applied, token, own.to_batches())
        names = [field.name for field in target.columns()]
        columns = erased_columns(self.record, names, applied.keys)
        token, done = self.erased(token, found, len(rows))
        frame = target.session.createDataFrame(
            rows, f"{LSN} bigint, {SEQ} bigint, {IMAGE} boolean"
        )
        with self._viewed(target, applied, frame.createOrReplaceTempView) as view:
            merge = erasing(columns, WORDS, has_images=has_images)
            commit = target.commit(Merging(view, merge), token, found)
        if not commit.is_first:
            raise Conflict
        return observe(target.session, done)


def _changes(
    applied: AppliedTable,
    units: list[tuple[int, int]],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """A function for `mapInArrow` over numbers of units: change rows out."""
    for number in numbers(batches):
        yield from change_rows(applied, *units[number])


class ChangesCall(KeepingCall):
    """One call that adds changes to a target, in one commit."""

    def _work(self, target: Target, work: Work) -> Applied:
        """Adds all changes."""
        applied, units = work.applied, work.batch.units
        schema = types.StructType(
            [*fields_of(applied), *spark_schema(beside(self.rules.mode)).fields]
        )

        def rows() -> Any:
            count = max(len(units), 1)
            places = target.session.range(0, len(units), 1, count)
            return places.mapInArrow(task(_changes, applied, units), schema)

        before, texts = self._ready_for(target, work, rows)
        token = self._recorded(target, work, before)
        observation = sql.Observation()
        counted = self._checked(applied, rows(), texts).observe(
            observation, f.count(f.lit(1)).alias("rows")
        )
        done = self._committed(
            target, work, counted, Appending, token=token, before=before
        )
        # Spark Connect has no metrics of the query behind a view.
        count = observation.get.get("rows") if units else 0
        count = count or 0
        done = replace(done, rows=count, net_rows=count, inserted=count)
        return observe(target.session, done)
