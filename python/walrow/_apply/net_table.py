"""The net changes of a table, as rows for a MERGE, whichever engine makes it.

A row has the table's columns, and these beside them:

| column | contents |
|---|---|
| `_walrow_op` | what happens to the key, see `Op` |
| `_walrow_unsent` | the columns whose values are the target's, or were never sent |
| `_walrow_gone` | whether the row was deleted, and is only marked |
| `_walrow_head` | the row's key in the target, if the row has a different key now |
| `_walrow_data` | a tally, or changes of keys that rows leave and get |
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from walrow._apply.items import PREFIX, Op
from walrow._apply.modes import NET_METADATA
from walrow._core import NetJoin, Reader
from walrow._late import pa, pc
from walrow._log.net_refusals import as_refusal
from walrow.errors import LogError
from walrow.log import Log

OP, UNSENT, GONE, HEAD, DATA = (
    PREFIX + name for name in ("op", "unsent", "gone", "head", "data")
)


class Tally(NamedTuple):
    """The counts that a driver needs before it uses the net changes.

    Attributes:
        events: The number of changes before the fold.
        rows: The number of net changes.
        heads: How many of them are rows that the target has under another key.
        entangled: The number of changes that are joined later.
        lost: The number of new rows that lack values.
        kept: The columns that some updates keep as they are.
        lacking: The columns without a value in some new rows.
        needed: The columns that updates keep of rows that are there. Others only mark rows that
            were deleted.
    """

    events: int = 0
    rows: int = 0
    heads: int = 0
    entangled: int = 0
    lost: int = 0
    kept: frozenset[str] = frozenset()
    lacking: frozenset[str] = frozenset()
    needed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Tally:
        """Counts rows, and finds the columns that updates keep."""
        unsent, head = rows.column(UNSENT), rows.column(HEAD)
        found = cls(rows=rows.num_rows, heads=len(head) - head.null_count)
        if unsent.null_count == len(unsent):
            return found
        places, names = pc.list_parent_indices(unsent), pc.list_flatten(unsent)
        is_update = pc.equal(rows.column(OP).take(places), Op.UPDATE)
        # A row with a new key gets its kept values later.
        is_kept = pc.and_(is_update, pc.is_null(head.take(places)))
        is_there = pc.and_not(is_kept, rows.column(GONE).take(places))
        return found._replace(
            kept=frozenset(pc.unique(names.filter(is_kept)).to_pylist()),
            needed=frozenset(pc.unique(names.filter(is_there)).to_pylist()),
        )

    @classmethod
    def from_json(cls, text: bytes) -> Tally:
        """Reads the tally of a task."""
        *counts, kept, lacking, needed = json.loads(text)
        names = (frozenset(it) for it in (kept, lacking, needed))
        found: Any = (*counts, *names)
        return cls(*found)

    def plus(self, more: Tally) -> Tally:
        """The sum of both tallies."""
        return Tally(
            self.events + more.events,
            self.rows + more.rows,
            self.heads + more.heads,
            self.entangled + more.entangled,
            self.lost + more.lost,
            self.kept | more.kept,
            self.lacking | more.lacking,
            self.needed | more.needed,
        )

    def to_json(self) -> bytes:
        """Writes the tally for the driver."""
        names = (self.kept, self.lacking, self.needed)
        return json.dumps([*self[:5], *map(sorted, names)]).encode()


class NetTable(NamedTuple):
    """A table of a log, as executors need to know it.

    Attributes:
        log: The log, which each task opens again.
        oid: The OID of the table.
        schema: The schema of its changes, with metadata columns.
        options: Other options of `walrow.read`.
        units: The ranges of LSNs.
        keys: The columns of the key.
        fold: Other options of the fold.
    """

    log: Log
    oid: int
    schema: pa.Schema
    options: dict[str, Any]
    units: list[tuple[int, int]]
    keys: tuple[str, ...]
    fold: dict[str, Any]

    def whole(self) -> Any:
        """The net changes of all units."""
        (start, _), (_, end) = self.units[0], self.units[-1]
        return self.log._log.net(self.oid, **self.reading(start, end))

    def part(self, start: int, end: int) -> Any:
        """The net changes of a unit, which can be split."""
        return self.log._log.net_part(self.oid, **self.reading(start, end))

    def reading(self, start: int, end: int) -> dict[str, Any]:
        """The options of net changes between two LSNs."""
        return {"start": start, "end": end, "keys": self.keys, **self.fold}

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Refuses changes that do not give the rows."""
        try:
            yield
        except LogError as error:
            if (refusal := as_refusal(error)) is None:
                raise
            raise refusal from None

    def join(self, parts: list[tuple[int, Any]], *, whole: bool = False) -> Any:
        """Joins the units' changes of some keys. `whole` if this is the last join."""
        return NetJoin(parts, keys=self.keys, whole=whole, **self.fold)

    def loaded(self, lsn: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The rows of a load, by its commit LSN, in a unit: as they are, without other columns."""
        for batch in self.log.read(start=start, end=end, gaps="cross", **self.decoding):
            records = pa.record_batch(batch)
            *columns, change, commit, _, _ = records.columns
            is_row = pc.and_(
                pc.equal(change, CHANGE_TYPES[Op.INSERT]), pc.equal(commit, lsn)
            )
            rows = records.select(range(len(columns)))
            yield rows if pc.all(is_row).as_py() else rows.filter(is_row)

    def rows(self, net: Any, entangled: int = 0) -> Iterator[pa.RecordBatch]:
        """Decodes net changes, and adds their tally."""
        tally = Tally(entangled=entangled)
        with self.errors():
            known = net.tally
        for batch in self._decoded(net):
            rows = self._rows(batch)
            if rows.num_rows:
                tally = tally.plus(Tally.of(rows))
                yield rows
        tally = tally._replace(
            # A move is two rows: one with the old key, and one with the new key.
            events=known.events + known.moves,
            lost=known.never_sent,
            lacking=frozenset(known.lacking),
        )
        yield self.other(Op.TALLY, tally.to_json())

    def _decoded(self, net: Any) -> Iterator[pa.RecordBatch]:
        for batch in Reader(net, **self.decoding):
            yield pa.record_batch(batch)

    @property
    def decoding(self) -> dict[str, Any]:
        """The options of the decoder."""
        return {
            "table": self.oid,
            "schema": self.schema,
            "profile": "spark",
            "metadata": NET_METADATA,
            "metadata_prefix": PREFIX,
            "missing_table": "ignore",
            "_keys": self.keys,
            # The net has the columns of versions before the load that the target begins with, too.
            "columns": self.schema.names[: -len(NET_METADATA)],
            **self.options,
        }

    def _rows(self, records: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch, which has both images of an update."""
        *columns, change, _, key_only, unsent = records.columns
        count = records.num_rows
        op = pc.index_in(change, value_set=pa.array(CHANGE_TYPES)).cast(pa.int8())
        is_before = pc.equal(op, PREIMAGE)
        is_gone = pa.nulls(count, pa.bool_()).fill_null(False)
        if self.fold["deletes"] == "soft":
            # If a deleted row had another key, its old image is whole.
            is_deleted = pc.equal(op, Op.DELETE)
            is_gone = pc.or_(is_deleted, _next(pc.and_not(is_before, key_only)))
            # A row without its values can only get a mark.
            marks = pc.if_else(pc.is_null(unsent), _int8(Op.INSERT), _int8(Op.UPDATE))
            op = pc.if_else(is_deleted, marks, op)
        found = pa.RecordBatch.from_arrays(
            [
                *columns,
                op,
                unsent,
                is_gone,
                self._heads(records, is_before),
                pa.nulls(count, pa.binary()),
            ],
            [*self.columns, OP, UNSENT, GONE, HEAD, DATA],
        )
        is_row = pc.less_equal(op, _int8(Op.DELETE))
        return found if pc.all(is_row).as_py() else found.filter(is_row)

    def _heads(self, records: pa.RecordBatch, is_before: pa.Array) -> pa.Array:
        """The keys of the images before updates, beside the images after them."""
        count = records.num_rows
        if not pc.any(is_before).as_py():
            return self._no_heads(count)
        places = integers(-1, count)
        none = pa.scalar(None, pa.int64())
        origin = pc.if_else(_next(is_before), places, none)
        parts = [records.column(key).take(origin) for key in self.keys]
        names = [f"k{at}" for at in range(len(parts))]
        return pa.StructArray.from_arrays(parts, names, mask=origin.is_null())

    def _no_heads(self, count: int) -> pa.Array:
        fields = [
            pa.field(f"k{at}", self.schema.field(key).type)
            for at, key in enumerate(self.keys)
        ]
        return pa.nulls(count, pa.struct(fields))

    @property
    def columns(self) -> list[str]:
        """The names of the table's own columns."""
        return list(self.schema.names[: -len(NET_METADATA)])

    def other(self, op: int, data: bytes) -> pa.RecordBatch:
        """A row for a tally or for entangled changes, without the table's values."""
        own = list(self.schema)[: -len(NET_METADATA)]
        return pa.RecordBatch.from_arrays(
            [
                *(pa.nulls(1, field.type) for field in own),
                pa.array([op], pa.int8()),
                pa.nulls(1, self.schema.field(f"{PREFIX}unsent").type),
                pa.nulls(1, pa.bool_()),
                self._no_heads(1),
                pa.array([data], pa.binary()),
            ],
            [*self.columns, OP, UNSENT, GONE, HEAD, DATA],
        )


def integers(first: int, count: int) -> pa.Array:
    """So many integers, one after the other. pyarrow has no range before its version 21."""
    ones = pa.repeat(pa.scalar(1, pa.int64()), count)
    return pc.cumulative_sum(ones, start=first - 1)


def _next(flags: pa.Array) -> pa.Array:
    """Whether the row before each one has a flag."""
    return pa.concat_arrays([pa.array([False]), flags])[:-1]


def _int8(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.int8())


#: By the numbers of `Op`, and then others.
CHANGE_TYPES = (
    "insert",
    "update_postimage",
    "delete",
    "update_preimage",
    "truncate",
)
PREIMAGE = 3
TRUNCATE = 4
