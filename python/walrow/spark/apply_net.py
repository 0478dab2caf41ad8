"""The net changes of a batch, as a view for a target's MERGE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walrow.spark.apply_failures import Reporting
from walrow.spark.change_rows import EVENT_COLUMNS, PREFIX, Kind, event_fields
from walrow.spark.folding import RAW
from walrow.spark.key_changes import COMPONENT, KeyChanges, components, identity_of
from walrow.spark.packing import PACKED, FoldHere, Pack, Tally, Unpack
from walrow.spark.schemas import arrow_schema
from walrow.spark.targets.path_values import checked
from walrow.spark.targets.sql import (
    GONE,
    OP,
    UNSENT,
    filter_by_keys,
    never_sent,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    import pyarrow as pa

    from walrow.spark.apply_items import Rules
    from walrow.spark.apply_tables import AppliedTable
    from walrow.spark.apply_units import Batch
    from walrow.spark.targets.sql import Found, Target

__all__ = ["Net"]

_KIND, _LSN, _SEQ, _UNSENT, _FROM = EVENT_COLUMNS
#: Columns of joins. Tables have none with this prefix.
_HASH, _HEAD, _BEFORE = (PREFIX + name for name in ("hash", "head", "before"))


class Net:
    """The net changes of one batch. They are computed once, and stored.

    Attributes:
        net_rows: The number of net changes.
        kept: The columns that some updates keep as they are.
        never_sent: The number of rows with NULLs for values that were never sent.
        overwrites: Whether the rows replace all others.
        is_plain: Whether they are those of a load, and nothing else.
    """

    def __init__(
        self,
        target: Target,
        *,
        applied: AppliedTable,
        batch: Batch,
        before: Found | None,
        rules: Rules,
        texts: Collection[str] = (),
        staged: pa.Table | None = None,
    ) -> None:
        """Stores the arguments.

        Args:
            target: The target.
            applied: The table.
            batch: The part of the log that is read.
            before: The target as it was found. None if it does not exist yet.
            rules: The options of the caller.
            texts: The columns with texts that become parts of its paths.
            staged: The net changes, which are then not computed again.
        """
        from pyspark.sql.types import StructType

        self._session = target.session
        self._target = target
        self._applied = applied
        self._batch = batch
        self._before = before
        self._rules = rules
        self._texts = frozenset(texts)
        self._staged = staged
        keys = [it for it in applied.fields if it.name in applied.keys]
        keys.sort(key=lambda field: applied.keys.index(field.name))
        self._schema = StructType([*applied.fields, *event_fields(keys)])
        self._observation: Any = None
        self._rows = 0
        self.net_rows = 0
        self.never_sent = 0
        self.kept: list[str] = []
        self._is_soft = rules.deletes == "soft"
        # A load that removes nothing leaves other rows as they are. A truncate does not.
        adds = (
            batch.barrier is not None
            and batch.barrier.is_load
            and not batch.is_truncated
        )
        self.overwrites = batch.barrier is not None and not (
            adds and rules.deletes == "ignore"
        )
        self.is_plain = (
            self.overwrites
            and batch.is_plain_load
            and not self._is_soft
            and staged is None
        )

    def view(self, name: str) -> None:
        """Makes a temporary view of them, with the columns of the table, and op, unsent, gone."""
        from pyspark.sql import functions as f

        if self.is_plain:
            # Written as it is decoded, without a shuffle.
            rows = self._read().select(*self._values())
            rows.createOrReplaceTempView(name)
            return
        folded = self._folded()
        # Spark makes a Bloom filter of keys only if a comparison has chosen them.
        is_net = ~f.col(RAW) & (f.col(_KIND) >= Kind.INSERT)
        source = self._as_source(folded.where(is_net))
        if self._count(folded):
            entangled = self._store(self._as_source(self._entangled(folded)))
            self._count_missing(entangled)
            if self._is_soft:
                # What a row leaves behind keeps all values.
                columns, keys = self._applied.columns, self._applied.keys
                self.kept = [name for name in columns if name not in keys]
            source = self._store(source.unionByName(entangled))
            source = source.where(f.col(OP) >= Kind.INSERT)
        if self.kept and self._rules.never_sent == "null":
            self.never_sent += self._new_rows_that_lack_values(source)
        if self.overwrites and not self._is_soft:
            source = source.where(f.col(OP) != Kind.DELETE)
            source = source.select(*map(_column, self._applied.columns))
        source.createOrReplaceTempView(name)

    @property
    def rows(self) -> int | None:
        """The number of events that were read. It is known once they were written.

        None for a plain load under Spark Connect, which has no metrics of what is behind a view.
        """
        if self.is_plain and self._batch.units:
            rows: int | None = self._observation.get.get("rows")
            return rows
        return self._rows

    def _events(self, *, with_old_images: bool = False) -> Any:
        function = self._applied.events(
            self._batch, self._rules, with_old_images=with_old_images
        )
        count = len(self._batch.units)
        numbers = self._session.range(0, count, 1, max(count, 1))
        return numbers.mapInArrow(Reporting(function), self._schema)

    def _read(self) -> Any:
        """The events of the batch, which are counted."""
        from pyspark.sql import Observation
        from pyspark.sql import functions as f

        self._observation = Observation()
        return self._events().observe(
            self._observation, f.count(f.lit(1)).alias("rows")
        )

    def _folded(self) -> Any:
        from pyspark.sql.types import BooleanType, StructField, StructType

        applied, batch = self._applied, self._batch
        events = applied.events(batch, self._rules)
        fold = applied.fold(self._rules)
        schema = StructType([*self._schema.fields, StructField(RAW, BooleanType())])
        if self._staged is not None:
            return self._session.createDataFrame(self._staged, schema)
        count = len(batch.units)
        partitions = max(count, -(-batch.stream_bytes // _PARTITION_BYTES))
        if partitions <= 1:
            # One task has all of them, so there is nothing to shuffle.
            here = FoldHere(events, fold, applied.nullable)
            folded = self._session.range(0, count, 1, 1).mapInArrow(
                Reporting(here), schema
            )
        else:
            folded = (
                self._session.range(0, count, 1, count)
                .mapInArrow(Reporting(Pack(events, fold, partitions)), PACKED)
                .repartition(partitions, "label")
                .mapInArrow(Reporting(Unpack(fold, applied.nullable)), schema)
            )
        return self._store(folded)

    def _store(self, frame: Any) -> Any:
        """Computes a DataFrame at its first use only. Delta's MERGE refuses cached ones."""
        stored = frame.localCheckpoint(eager=False)
        if hasattr(stored, "_plan"):
            # Under Connect, PySpark takes the active session for the one that has it.
            stored._session = stored._plan._spark_session = self._session
        return stored

    def _count(self, folded: Any) -> int:
        """Computes the fold, and returns how many events are left as they are."""
        from pyspark.sql import functions as f

        rows = folded.where(f.col(_KIND) < Kind.INSERT)
        tally = Tally.from_rows(rows.select(_KIND, _LSN, _SEQ, _UNSENT).collect())
        filter_by_keys(self._session, tally.net + tally.raw)
        self._rows = tally.events
        self.net_rows += tally.net
        self.kept = sorted(tally.kept)
        self._refuse_lost(tally.lost, tally.lacking)
        if self.overwrites:
            # There is no row from before to keep values of.
            gone = tally.kept - set(self._applied.nullable)
            if gone and self._rules.never_sent == "error":
                raise never_sent(self._applied.table.name, min(gone))
        return tally.raw

    def _count_missing(self, source: Any) -> None:
        from pyspark.sql import functions as f

        lost = f.when(f.col(OP) == Kind.INSERT, self._missing())
        found = source.agg(f.count(f.lit(1)).alias("net"), *_lost(lost)).first()
        self.net_rows += found.net
        self._refuse_lost(found.lost, found.columns)

    def _new_rows_that_lack_values(self, source: Any) -> int:
        """How many updates of rows that the target does not have lack a value."""
        from pyspark.sql import functions as f

        is_update = (f.col(OP) == Kind.UPDATE) & ~f.col(GONE)
        rows = source.where(is_update & (f.size(self._missing()) > 0))
        if not self.overwrites and self._before is not None:
            keys = list(self._applied.keys)
            before = self._target.at(self._before.version)
            rows = rows.join(before.select(*map(_column, keys)), keys, "left_anti")
        return int(rows.count())

    def _missing(self) -> Any:
        """The columns without a value, of those that all versions of the table have."""
        from pyspark.sql import functions as f

        nullable = f.array(*map(f.lit, self._applied.nullable)).cast("array<string>")
        return f.array_except(f.col(UNSENT), nullable)

    def _refuse_lost(self, rows: int, columns: Collection[str]) -> None:
        if not rows:
            return
        if self._rules.never_sent == "error":
            raise never_sent(self._applied.table.name, min(columns))
        self.never_sent += rows

    def _as_source(self, events: Any) -> Any:
        """Net events with the columns that a MERGE needs."""
        from pyspark.sql import functions as f

        kind = f.col(_KIND)
        gone = kind >= Kind.INSERT_GONE
        op = f.when(gone, kind - Kind.INSERT_GONE).otherwise(kind)
        return events.select(
            *self._values(op),
            op.cast("tinyint").alias(OP),
            f.col(_UNSENT).alias(UNSENT),
            gone.alias(GONE),
        )

    def _values(self, kind: Any = None) -> list[Any]:
        """The table's columns, which raise an error where the target would have others."""
        return [
            checked(_column(name), place, kind).alias(name)
            if name in self._texts
            else _column(name)
            for place, name in enumerate(self._applied.columns)
        ]

    def _entangled(self, folded: Any) -> Any:
        """The net changes of keys that rows leave and get."""
        from pyspark.sql import functions as f

        applied = self._applied
        raw = folded.where(f.col(RAW)).drop(RAW)
        keys = [_column(key) for key in applied.keys]
        old = [f.col(_FROM)[f"k{at}"] for at in range(len(keys))]
        moved = raw.where(f.col(_KIND) == Kind.ARRIVE)
        pairs = moved.select(f.xxhash64(*keys), f.xxhash64(*old)).distinct()
        connected = list(components(pairs.collect()).items())
        known = self._session.createDataFrame(
            connected, f"{_HASH} bigint, {COMPONENT} bigint"
        )
        events = raw
        if applied.whole_images:
            # Which of two rows with one key an old image means: all of them are needed.
            chosen = raw.select(*keys).distinct()
            events = self._events(with_old_images=True).join(
                f.broadcast(chosen), list(applied.keys), "left_semi"
            )
            events = events.select(*map(_column, self._schema.names))
        own = f.coalesce(f.col(COMPONENT), f.col(_HASH))
        buckets = max(len(self._batch.units), 1) * _BUCKETS
        fold = KeyChanges(
            applied.table.name,
            applied.keys,
            self._rules.deletes,
            identity_of(applied.table.versions) if applied.whole_images else None,
        )
        grouped = (
            events.withColumn(_HASH, f.xxhash64(*keys))
            .join(f.broadcast(known), _HASH, "left")
            .withColumn(COMPONENT, f.pmod(own, f.lit(buckets)))
            .drop(_HASH)
        )
        resolved = self._in_groups(grouped, fold)
        if self._batch.barrier is not None:
            # There is no row from before. What a row leaves behind is marked where it is.
            is_update = f.col(_KIND) == Kind.UPDATE
            kind = f.when(is_update, Kind.INSERT).otherwise(f.col(_KIND))
            return resolved.withColumn(_KIND, kind.cast("tinyint"))
        resolved = self._store(resolved).where(f.col(_KIND) >= Kind.INSERT)
        return self._with_heads(resolved)

    def _in_groups(self, events: Any, fold: KeyChanges) -> Any:
        """Folds the events of each group of components."""
        from pyspark.sql.types import StructField, StructType

        names = [*self._schema.names, COMPONENT]
        # PySpark takes a dot or a backtick in a name for syntax.
        *labels, group = plain = [f"c{at}" for at in range(len(names))]
        schema = StructType(
            [
                StructField(label, field.dataType)
                for label, field in zip(labels, self._schema.fields, strict=True)
            ]
        )
        # Spark gives groups in the session's time zone, and with large texts if that is set. It
        # takes neither back.
        declared = arrow_schema(schema)
        resolved = (
            events.toDF(*plain)
            .groupBy(group)
            # Spark counts the parameters, and would count that of a method, too.
            .applyInArrow(
                lambda table: (
                    fold(table.rename_columns(names))
                    .rename_columns(labels)
                    .cast(declared)
                ),
                schema,
            )
        )
        return resolved.toDF(*self._schema.names)

    def _with_heads(self, resolved: Any) -> Any:
        """Adds the values that rows had before the batch, under the keys that they had then."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import StructType

        applied = self._applied
        version = (
            self._session.createDataFrame([], StructType(applied.fields))
            if self._before is None
            else self._target.at(self._before.version)
        )
        known = {name.lower() for name in version.columns}
        before = version.select(
            f.struct(*map(_column, applied.keys)).alias(_HEAD),
            # An older version may lack a column that was just added.
            f.struct(
                *(
                    _column(field.name)
                    if field.name.lower() in known
                    else f.lit(None).cast(field.dataType).alias(field.name)
                    for field in applied.fields
                )
            ).alias(_BEFORE),
        )
        condition = None
        for at, key in enumerate(applied.keys):
            each = f.col(_FROM)[f"k{at}"] == f.col(_HEAD)[key]
            condition = each if condition is None else condition & each
        rows = resolved.join(before, condition, "left")
        is_found = f.col(_BEFORE).isNotNull()
        values = []
        for field in applied.fields:
            lacks = f.array_contains(f.col(_UNSENT), field.name)
            old = f.col(_BEFORE)[field.name].cast(field.dataType)
            own = _column(field.name)
            values.append(
                f.when(is_found & lacks, old).otherwise(own).alias(field.name)
            )
        has_head = f.col(_FROM).isNotNull()
        kind = f.when(has_head, _whole(f.col(_KIND))).otherwise(f.col(_KIND))
        unsent = f.when(is_found & has_head, f.lit(None)).otherwise(f.col(_UNSENT))
        return rows.select(
            *values,
            kind.cast("tinyint").alias(_KIND),
            _LSN,
            _SEQ,
            unsent.cast("array<string>").alias(_UNSENT),
            _FROM,
        )


def _whole(kind: Any) -> Any:
    """Of an update, the insert with its values."""
    from pyspark.sql import functions as f

    is_update = kind.isin(Kind.UPDATE, Kind.UPDATE_GONE)
    return f.when(is_update, kind - 1).otherwise(kind).cast("tinyint")


def _lost(lost: Any) -> list[Any]:
    """How many rows lack values, and of which columns."""
    from pyspark.sql import functions as f

    return [
        f.count(f.when(f.size(lost) > 0, 1)).alias("lost"),
        f.array_distinct(f.flatten(f.collect_set(lost))).alias("columns"),
    ]


def _column(name: str) -> Any:
    from pyspark.sql import functions as f

    return f.col(quoted(name))


# Groups for each task: a group has many components.
_BUCKETS = 2
#: Of the stream: what one task folds, about.
_PARTITION_BYTES = 64 << 20
