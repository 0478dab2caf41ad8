"""Targets with `mode="history"` in Spark: all versions of a table's rows.

The driver folds transactions, a bounded number of bytes at a time. Executors read loads, and Spark
compares their rows with the open versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_
from typing import Any

from walrow._apply.calls import Work
from walrow._apply.items import Applied
from walrow._apply.keys import bad_key
from walrow._apply.merges import versions
from walrow._apply.modes import IS_CURRENT, VALID_FROM, VALID_TO, beside
from walrow._apply.tables import AppliedTable
from walrow._apply.targets import Found
from walrow._apply.version_parts import (
    LoadPart,
    TransactionsPart,
    dated,
    loaded_columns,
    next_part,
    opened_by_load,
)
from walrow._apply.versions import MERGE_KEY, Fold
from walrow._late import f, pa, types
from walrow.spark.apply_failures import task
from walrow.spark.apply_net import as_structs
from walrow.spark.applying import observe
from walrow.spark.keeping import KeepingCall
from walrow.spark.net_rows import numbers
from walrow.spark.schemas import arrow_schema, fields_of, spark_schema
from walrow.spark.sessions import computed_once
from walrow.spark.targets.sql import (
    WORDS,
    Appending,
    Merging,
    Target,
    filter_by_keys,
    quoted,
)


def _opened(
    applied: AppliedTable, part: LoadPart, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """A function for `mapInArrow` over one number: the versions that a load opens."""
    for _ in numbers(batches):
        yield from opened_by_load(applied, part)


class HistoryCall(KeepingCall):
    """One call that brings a history up to the end of a log, in one commit or several."""

    def _work(self, target: Target, work: Work) -> Applied:
        """Takes the next load, or as many transactions as the driver folds at once."""
        limit = _DRIVER_BYTES
        while (part := next_part(work, limit)) is None:
            # One transaction is larger.
            limit *= 2
        if isinstance(part, LoadPart):
            return self._load(target, work, part)
        return self._transactions(target, work, part)

    # ------------------------------------------------------------------ transactions

    def _transactions(
        self, target: Target, work: Work, part: TransactionsPart
    ) -> Applied:
        applied = work.applied
        fold = Fold(applied, self.rules, part.changes, part.times)
        session = target.session

        def rows() -> Any:
            """The rows for a new target, which has no values to keep."""
            fields = fields_of(applied)
            source = fold.source(_kinds(fields), None)
            return session.createDataFrame(source.rows, _schema(applied, fields))

        before, texts = self._ready_for(target, work, rows)
        fields = _fields(applied, target)
        found = self._open_rows(target, before, fields, fold.needs())
        source = fold.source(_kinds(fields), found)
        filter_by_keys(session, len(source.rows))
        frame = session.createDataFrame(source.rows, _schema(applied, fields))
        token = dated(self._recorded(target, work, before), part)
        checked = self._checked(applied, frame, texts)
        writing = self._merging(applied, source.closed)
        done = self._committed(
            target, work, checked, writing, token=token, before=before
        )
        done = replace(
            done,
            rows=len(part.changes),
            net_rows=source.opened,
            never_sent=source.never_sent,
        )
        return observe(target.session, done)

    def _open_rows(
        self,
        target: Target,
        before: Found,
        fields: Sequence[Any],
        needs: tuple[pa.Table, Sequence[str]],
    ) -> pa.Table | None:
        """The open rows with some keys, and the values of some columns."""
        keys, columns = needs
        if not len(keys):
            return None
        kinds = {it.name: it for it in fields}
        session, names = target.session, keys.column_names
        wanted = session.createDataFrame(
            keys, types.StructType([kinds[it] for it in names])
        ).distinct()
        opened = target.at(before.version).where(f.col(IS_CURRENT))
        known = {it.lower() for it in opened.columns}
        chosen = [*names, *(it for it in columns if it not in names)]
        opened = opened.select(*(quoted(it) for it in chosen if it.lower() in known))
        found: pa.Table = opened.join(wanted, names, "left_semi").toArrow()
        return found

    def _merging(
        self, applied: AppliedTable, closed: int | None
    ) -> Callable[[str], Merging]:
        inserted = [*applied.columns, *beside(self.rules.mode).names]
        merge = versions(applied.keys, inserted, closed, WORDS)
        return lambda view: Merging(view, merge)

    # ------------------------------------------------------------------------ a load

    def _load(self, target: Target, work: Work, part: LoadPart) -> Applied:
        applied = work.applied
        schema = types.StructType(
            [*fields_of(applied), *spark_schema(beside(self.rules.mode)).fields]
        )

        def rows() -> Any:
            one = target.session.range(0, 1, 1, 1)
            return one.mapInArrow(task(_opened, applied, part), schema)

        before, texts = self._ready_for(target, work, rows)
        token = dated(self._recorded(target, work, before), part)
        loaded = self._checked(applied, rows(), texts)
        if not applied.has_unique_keys:
            # It is read once, for the keys and for the rows.
            loaded = computed_once(target.session, loaded)
            with self._errors(applied):
                _refuse_equal_keys(applied, loaded)
        if before.is_empty:
            done = self._committed(
                target, work, loaded, Appending, token=token, before=before
            )
            count = self._open_count(target)
            done = replace(done, rows=count, net_rows=count, inserted=count)
            return observe(target.session, done)
        with self._errors(applied):
            source = self._differences(target, before, applied, part, loaded)
            opened = source.where(f"{VALID_FROM} IS NOT NULL").count()
        writing = self._merging(applied, None)
        done = self._committed(
            target, work, source, writing, token=token, before=before
        )
        return observe(target.session, replace(done, rows=opened, net_rows=opened))

    def _open_count(self, target: Target) -> int:
        return int(target.session.table(target.table).where(IS_CURRENT).count())

    def _differences(
        self,
        target: Target,
        before: Found,
        applied: AppliedTable,
        part: LoadPart,
        loaded: Any,
    ) -> Any:
        """The versions that a load closes and opens."""
        session, fields = target.session, _fields(applied, target)
        filter_by_keys(session, _MANY)
        opened = target.at(before.version).where(f.col(IS_CURRENT))
        old = as_structs(opened, fields, _OLD)
        new = loaded.select(f.struct("*").alias(_NEW))
        matches = [f.col(_NEW)[it] == f.col(_OLD)[it] for it in applied.keys]
        both = new.join(old, reduce(and_, matches), "full_outer")
        is_new, is_old = f.col(_NEW).isNotNull(), f.col(_OLD).isNotNull()
        equal = [
            f.col(_NEW)[it].eqNullSafe(f.col(_OLD)[it])
            for it in loaded_columns(applied, part.lsn)
        ]
        differs = computed_once(
            session, both.where(~(is_new & is_old & reduce(and_, equal)))
        )
        kinds = {it.name: it.dataType for it in fields}
        extra = spark_schema(beside(self.rules.mode)).fields
        opens = differs.where(is_new).select(
            *(f.col(_NEW)[it].cast(kinds[it]).alias(it) for it in applied.columns),
            *(f.col(_NEW)[it.name].alias(it.name) for it in extra),
            *(
                f.lit(None).cast(kinds[it]).alias(f"{MERGE_KEY}{at}")
                for at, it in enumerate(applied.keys)
            ),
        )
        time = f.timestamp_micros(f.lit(part.time))
        closes = differs.where(is_old).select(
            *(f.lit(None).cast(kinds[it]).alias(it) for it in applied.columns),
            *(
                time.alias(it.name)
                if it.name == VALID_TO
                else f.lit(None).cast(it.dataType).alias(it.name)
                for it in extra
            ),
            *(
                f.col(_OLD)[it].alias(f"{MERGE_KEY}{at}")
                for at, it in enumerate(applied.keys)
            ),
        )
        return opens.unionByName(closes)


def _refuse_equal_keys(applied: AppliedTable, rows: Any) -> None:
    """Refuses rows if two have one key."""
    counts = rows.groupBy(*map(quoted, applied.keys)).count()
    if counts.where("count > 1").limit(1).count():
        text = "is not unique: two rows of a load have it"
        raise bad_key(applied, "duplicate_key", text)


def _fields(applied: AppliedTable, target: Target) -> list[Any]:
    """The table's columns with the types that the target has, as Spark's fields."""
    known = {it.name.lower(): it.dataType for it in target.columns()}
    return [types.StructField(it, known[it.lower()]) for it in applied.columns]


def _kinds(fields: Sequence[Any]) -> pa.Schema:
    found = arrow_schema(types.StructType(list(fields)))
    return pa.schema(list(found))


def _schema(applied: AppliedTable, fields: Sequence[Any]) -> Any:
    """The columns of the rows of a MERGE, for Spark."""
    kinds = {it.name: it.dataType for it in fields}
    keys = [
        types.StructField(f"{MERGE_KEY}{at}", kinds[it])
        for at, it in enumerate(applied.keys)
    ]
    extra = spark_schema(beside("history")).fields
    return types.StructType([*fields, *extra, *keys])


#: The bytes of changes that the driver folds at once, about.
_DRIVER_BYTES = 64 << 20
#: So many rows are compared that a filter for them does not help.
_MANY = 1 << 40
_NEW, _OLD = "_walrow_new", "_walrow_old"
