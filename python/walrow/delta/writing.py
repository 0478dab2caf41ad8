"""One commit of a target: net changes, or all rows after a load or truncate, with the record."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Literal, NamedTuple

from walrow._apply.columns import Evolution
from walrow._apply.items import Op, Token
from walrow._apply.merges import Merge
from walrow._apply.modes import beside
from walrow._apply.net_table import OP
from walrow._apply.options import ApplyOptions
from walrow._apply.statistics import has_wrong_statistics
from walrow._apply.tables import AppliedTable
from walrow._apply.targets import Commit
from walrow._late import pa, pc
from walrow.delta.failures import violates
from walrow.delta.merging import masked
from walrow.delta.rows import (
    columns_of,
    kept_columns,
    path_texts,
    refuse_lost_texts,
    source,
)
from walrow.delta.snapshots import Snapshot
from walrow.delta.threads import Stopped


class Writer(NamedTuple):
    """The parts that a commit is made from."""

    snapshot: Snapshot
    applied: AppliedTable
    rules: ApplyOptions
    change: Evolution
    token: Token

    def merge(self, net: pa.Table, *, overwrites: bool, lacks_marks: bool) -> Commit:
        """Merges net changes, as `net_changes` describes it."""
        applied, kept = self.applied, kept_columns(net)
        rows = source(net, applied, self.rules, self.change, kept)
        parts = masked(
            applied,
            self.rules,
            self.change.names,
            rows.schema,
            kept,
            overwrites=overwrites,
            lacks_marks=lacks_marks,
        )
        # Other rows lack values that the target has.
        self._refuse_nulls(rows.filter(pc.equal(rows.column(OP), Op.INSERT)))
        return self.merged(rows, parts)

    def merged(self, rows: pa.Table, merge: Merge) -> Commit:
        """Merges rows, if they have any effect."""
        if not len(rows) and not merge.reaches_others:
            self.snapshot.record_only(self.token)
            return Commit(True, 0, 0, 0)
        # Files with wrong statistics of a key must not be left out.
        is_doubtful = any(
            has_wrong_statistics(self.change.schema.field(self.change.names[key]).type)
            for key in self.applied.keys
        )
        return self.snapshot.merge(
            rows,
            merge,
            self.token,
            streamed=is_doubtful or merge.reaches_others,
            table=self.applied.table.name,
            columns=self.applied.columns,
        )

    def overwrite(
        self, rows: Iterator[pa.RecordBatch], replaced: str = "true"
    ) -> Commit:
        """Replaces the rows of the target that fulfil a condition, as the new rows do."""
        self._stream(rows, "overwrite", replaced)
        return Commit(True)

    def append(self, rows: Iterator[pa.RecordBatch]) -> None:
        """Adds rows to the target."""
        self._stream(rows, "append")

    def _stream(
        self,
        rows: Iterator[pa.RecordBatch],
        mode: Literal["overwrite", "append"],
        replaced: str = "true",
    ) -> None:
        failures: list[BaseException] = []

        def batches(stopped: threading.Event) -> Iterator[pa.RecordBatch]:
            try:
                for batch in rows:
                    yield self._whole(batch, stopped)
            except GeneratorExit:
                # deltalake closes the rows, and then raises its error.
                raise
            except BaseException as error:
                # deltalake would make a text of it.
                failures.append(error)
                raise

        try:
            self.snapshot.write(
                self.change.schema,
                batches,
                self.token,
                mode=mode,
                replaced=replaced,
                widens=bool(self.change.widened),
                table=self.applied.table.name,
                columns=self.applied.columns,
            )
        except KeyboardInterrupt:
            raise
        except BaseException:
            if failures:
                raise failures[0] from None
            raise

    def _whole(self, batch: pa.RecordBatch, stopped: threading.Event) -> pa.RecordBatch:
        """A batch with all columns of the target. Columns that it lacks are NULL."""
        if stopped.is_set():
            raise Stopped
        texts = path_texts(self.applied.own, self.snapshot.state.partition_by)
        refuse_lost_texts(batch, texts, self.applied, self.snapshot.place.target)
        own = dict(zip(batch.schema.names, batch.columns, strict=True))
        own |= dict(columns_of(batch, self.applied, self.change))
        for name in beside(self.rules.mode).names:
            own[self.change.names[name]] = batch.column(name)
        columns = [
            own[it.name].cast(it.type)
            if it.name in own
            else pa.nulls(len(batch), it.type)
            for it in self.change.schema
        ]
        self._refuse_nulls(pa.table(columns, self.change.schema.names))
        return pa.record_batch(columns, schema=self.change.schema)

    def _refuse_nulls(self, rows: pa.Table) -> None:
        """Refuses new rows with NULL in a column that is NOT NULL in the target."""
        for it in self.change.schema:
            is_there = not it.nullable and it.name in rows.column_names
            if is_there and rows.column(it.name).null_count:
                target, table = self.snapshot.place.target, self.applied.table.name
                raise violates(target, table, [f"{it.name} NOT NULL"], it.name)
