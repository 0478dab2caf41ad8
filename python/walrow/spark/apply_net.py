"""The net changes of a batch, as a view for a target's MERGE."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from walrow._apply.calls import Work
from walrow._apply.items import Op
from walrow._apply.net_table import DATA, GONE, HEAD, OP, UNSENT, Tally
from walrow._apply.options import ApplyOptions
from walrow._apply.tables import lost_rows
from walrow._apply.targets import Found
from walrow._late import f, pa, sql, types
from walrow.spark.apply_failures import task
from walrow.spark.net_rows import (
    PARTS,
    entangled,
    join,
    loaded,
    row_fields,
    split,
    whole,
)
from walrow.spark.schemas import fields_of
from walrow.spark.sessions import computed_once
from walrow.spark.targets.path_values import checked
from walrow.spark.targets.sql import Target, filter_by_keys, quoted

#: A column of joins. Columns of tables do not have this prefix.
_BEFORE = f"{HEAD}_before"


class Net:
    """The net changes of one batch. They are computed once, and stored.

    Attributes:
        net_rows: The number of net changes.
        kept: The columns that some updates keep as they are.
        never_sent: The number of rows with NULLs for values that were never sent.
        overwrites: Whether the rows replace all others.
        is_plain: Whether all of them belong to a load.
    """

    def __init__(
        self,
        target: Target,
        work: Work,
        before: Found | None,
        rules: ApplyOptions,
        *,
        texts: Collection[str] = (),
        staged: pa.Table | None = None,
    ) -> None:
        """Takes the target as it was before, and its columns whose `texts` become parts of paths."""
        self._session = target.session
        self._target = target
        self._applied = applied = work.applied
        self._batch = batch = work.batch
        self._before = before
        self._rules = rules
        self._texts = frozenset(texts)
        self._staged = staged
        keys = [it for it in fields_of(applied) if it.name in applied.keys]
        keys.sort(key=lambda field: applied.keys.index(field.name))
        self._schema = types.StructType([*fields_of(applied), *row_fields(keys)])
        self._table = applied.net_table(batch, rules)
        self._observation: Any = None
        self._rows = 0
        self.net_rows = 0
        self.never_sent = 0
        self.kept: list[str] = []
        self._is_soft = rules.deletes == "soft"
        self.overwrites = batch.overwrites(rules.deletes)
        self.is_plain = (
            self.overwrites
            and batch.is_plain_load
            # The fold finds equal keys.
            and applied.has_unique_keys
            and not self._is_soft
            and staged is None
        )

    def view(self, name: str) -> None:
        """Makes a temporary view of them, with the columns of the table, and op, unsent, gone."""
        if self.is_plain:
            # Written as it is decoded, without a shuffle.
            rows = self._load().select(*self._values())
            rows.createOrReplaceTempView(name)
            return
        stored = self._stored()
        tally = self._count(stored)
        # Spark makes a Bloom filter of keys only if a comparison has chosen them.
        source = stored.where((f.col(OP) >= Op.INSERT) & f.col(HEAD).isNull())
        moved = None
        if tally.heads:
            moved = stored.where(f.col(HEAD).isNotNull())
        elif tally.entangled:
            moved = self._entangled(stored)
        if moved is not None:
            moved = computed_once(self._session, self._with_heads(moved))
            self._count_moved(moved)
            source = computed_once(self._session, source.unionByName(moved))
            source = source.where(f.col(OP) >= Op.INSERT)
        source = source.select(*self._values(f.col(OP)), OP, UNSENT, GONE)
        if self.kept and self._rules.never_sent == "null":
            self.never_sent += self._new_rows_that_lack_values(source)
        if self.overwrites and not self._is_soft:
            source = source.where(f.col(OP) != Op.DELETE)
            source = source.select(*map(_column, self._applied.columns))
        source.createOrReplaceTempView(name)

    @property
    def rows(self) -> int | None:
        """The number of changes that were read. It is known once they were written.

        None for a plain load under Spark Connect, which has no metrics of the query
        behind a view.
        """
        if self.is_plain and self._batch.units:
            rows: int | None = self._observation.get.get("rows")
            return rows
        return self._rows

    def _load(self) -> Any:
        """The rows of a load, which are counted."""
        self._observation = sql.Observation()
        barrier = self._batch.barrier
        load = task(loaded, self._table, 0 if barrier is None else barrier.lsn)
        schema = types.StructType(fields_of(self._applied))
        rows = self._units().mapInArrow(load, schema)
        return rows.observe(self._observation, f.count(f.lit(1)).alias("rows"))

    def _units(self) -> Any:
        """The numbers of the units, each for a task."""
        count = len(self._batch.units)
        return self._session.range(0, count, 1, max(count, 1))

    def _stored(self) -> Any:
        """The rows of all tasks, each with its tally."""
        batch, table = self._batch, self._table
        if self._staged is not None:
            return self._session.createDataFrame(self._staged, self._schema)
        partitions = max(len(batch.units), -(-batch.stream_bytes // _PARTITION_BYTES))
        if partitions <= 1 or batch.is_small:
            # A fold takes less than a shuffle and another stage.
            one = self._session.range(0, min(len(batch.units), 1), 1, 1)
            rows = one.mapInArrow(task(whole, table), self._schema)
        else:
            rows = (
                self._units()
                .mapInArrow(task(split, table, partitions), PARTS)
                .repartition(partitions, "label")
                .mapInArrow(task(join, table), self._schema)
            )
        return computed_once(self._session, rows)

    def _count(self, stored: Any) -> Tally:
        """Computes the rows, and returns their tally."""
        rows = stored.where(f.col(OP) == Op.TALLY).select(DATA)
        tally = _added(row[DATA] for row in rows.collect())
        filter_by_keys(self._session, tally.rows + tally.entangled)
        self._rows = tally.events
        self._take(tally)
        return tally

    def _take(self, tally: Tally) -> None:
        self.net_rows += tally.rows
        self.kept = sorted({*self.kept, *tally.kept})
        self.never_sent += lost_rows(
            tally, self._applied, self._rules, overwrites=self.overwrites
        )

    def _entangled(self, stored: Any) -> Any:
        """The rows of keys that rows leave and get: one task has all of them."""
        parts = stored.where(f.col(OP) == Op.ENTANGLED).select(DATA)
        return parts.repartition(1).mapInArrow(
            task(entangled, self._table), self._schema
        )

    def _count_moved(self, moved: Any) -> None:
        """Computes rows with values of other keys, and takes their tally."""
        is_tally = f.col(OP) == Op.TALLY
        lost = f.when(
            (f.col(OP) == Op.INSERT) & f.col(HEAD).isNotNull(), self._missing()
        )
        found = moved.agg(
            f.collect_list(f.when(is_tally, f.col(DATA))).alias("tallies"),
            f.count(f.when(f.size(lost) > 0, 1)).alias("lost"),
            f.array_distinct(f.flatten(f.collect_set(lost))).alias("columns"),
        ).first()
        self._take(_added(found.tallies))
        self._take(Tally(lost=found.lost, lacking=frozenset(found.columns)))

    def _new_rows_that_lack_values(self, source: Any) -> int:
        """How many updates of rows that the target does not have lack a value."""
        is_update = (f.col(OP) == Op.UPDATE) & ~f.col(GONE)
        rows = source.where(is_update & (f.size(self._missing()) > 0))
        if not self.overwrites and self._before is not None:
            keys = list(self._applied.keys)
            before = self._target.at(self._before.version)
            rows = rows.join(before.select(*map(_column, keys)), keys, "left_anti")
        return int(rows.count())

    def _missing(self) -> Any:
        """The columns that all versions of the table have, and that lack a value."""
        nullable = f.array(*map(f.lit, self._applied.nullable)).cast("array<string>")
        return f.array_except(f.col(UNSENT), nullable)

    def _values(self, op: Any = None) -> list[Any]:
        """The table's columns, which raise an error where the target would have others."""
        return [
            checked(_column(name), place, op).alias(name)
            if name in self._texts
            else _column(name)
            for place, name in enumerate(self._applied.columns)
        ]

    def _with_heads(self, rows: Any) -> Any:
        """Adds the values that rows had before the batch, under the keys that they had then."""
        applied = self._applied
        version = (
            self._session.createDataFrame([], types.StructType(fields_of(applied)))
            if self._before is None
            else self._target.at(self._before.version)
        )
        before = as_structs(version, fields_of(applied), _BEFORE)
        condition = None
        for at, key in enumerate(applied.keys):
            each = f.col(HEAD)[f"k{at}"] == f.col(_BEFORE)[key]
            condition = each if condition is None else condition & each
        found = rows.join(before, condition, "left")
        is_found = f.col(_BEFORE).isNotNull()
        values = []
        for field in fields_of(applied):
            lacks = f.array_contains(f.col(UNSENT), field.name)
            old = f.col(_BEFORE)[field.name].cast(field.dataType)
            own = _column(field.name)
            values.append(
                f.when(is_found & lacks, old).otherwise(own).alias(field.name)
            )
        # An update is whole once it has the values of its head.
        is_whole = f.col(HEAD).isNotNull() & (f.col(OP) == Op.UPDATE)
        op = f.when(is_whole, f.lit(Op.INSERT)).otherwise(f.col(OP))
        unsent = f.when(is_found, f.lit(None)).otherwise(f.col(UNSENT))
        return found.select(
            *values,
            op.cast("tinyint").alias(OP),
            unsent.cast("array<string>").alias(UNSENT),
            GONE,
            HEAD,
            DATA,
        )


def as_structs(rows: Any, fields: Iterable[Any], name: str) -> Any:
    """Rows of a target as one column. They may lack a column that was just added."""
    known = {it.lower() for it in rows.columns}
    values = (
        (
            _column(it.name)
            if it.name.lower() in known
            else f.lit(None).cast(it.dataType)
        ).alias(it.name)
        for it in fields
    )
    return rows.select(f.struct(*values).alias(name))


def _added(tallies: Iterable[bytes]) -> Tally:
    """The tallies of all tasks together."""
    found = Tally()
    for text in tallies:
        found = found.plus(Tally.from_json(text))
    return found


def _column(name: str) -> Any:
    return f.col(quoted(name))


#: The bytes of the stream that one task joins, about.
_PARTITION_BYTES = 64 << 20
