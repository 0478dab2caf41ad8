"""Net changes as the source of a MERGE: columns as the target has them, masks, and old values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import quote

from walrow._apply.columns import Evolution
from walrow._apply.items import PREFIX, Op
from walrow._apply.net_table import (
    DATA,
    GONE,
    HEAD,
    OP,
    UNSENT,
    NetTable,
    Tally,
    integers,
)
from walrow._apply.options import ApplyOptions
from walrow._apply.tables import AppliedTable, lost_rows
from walrow._apply.targets import (
    LOST_TEXTS,
    NAME_BYTES,
    TOO_LONG,
    lost_in_path,
)
from walrow._apply.units import Batch
from walrow._late import pa, pc
from walrow._sources.urls import is_url

#: Before the number of an integer with bits for kept columns.
MASK = f"{PREFIX}mask"
#: So many columns have their bits in one integer.
MASK_BITS = 63
#: For an update, the number of a column that a new row would lack, from 1 on.
LOST = f"{PREFIX}lost"


class Gathered(NamedTuple):
    """Net changes in memory.

    Attributes:
        rows: The rows, as `net_table` describes them.
        tally: Their tally.
        never_sent: How many new rows have NULL for a value that was never sent.
    """

    rows: pa.Table
    tally: Tally
    never_sent: int = 0


#: Returns the rows of a target with some columns.
Scan: TypeAlias = "Callable[[Sequence[str]], Iterable[pa.RecordBatch]]"


def gather(
    table: NetTable, net: Any, limit: int, report: Callable[[int], None]
) -> Gathered | None:
    """Reads net changes into memory. None if they have more than `limit` bytes."""
    batches, size, tally = [], 0, Tally()
    for batch in table.rows(net):
        if batch.column(OP)[0].as_py() == Op.TALLY:
            tally = Tally.from_json(batch.column(DATA)[0].as_py())
            schema = batch.schema
            continue
        batches.append(batch)
        report(len(batch))
        size += batch.nbytes
        if size > limit:
            net.close()
            return None
    return Gathered(pa.Table.from_batches(batches, schema), tally)


def shaped(
    gathered: Gathered,
    applied: AppliedTable,
    rules: ApplyOptions,
    evolution: Evolution,
    scan: Scan | None,
    *,
    overwrites: bool,
) -> Gathered:
    """Fills in values of other keys, and refuses rows that lack values. The columns are the target's.

    Raises:
        ApplyError: A value was never sent.
    """
    nullable = set(applied.nullable)
    tally, rows = gathered.tally, gathered.rows
    lost = lost_rows(tally, applied, rules, overwrites=overwrites)
    if tally.heads:
        moved = rows.filter(pc.is_valid(rows.column(HEAD)))
        moved = _with_heads(moved, applied, evolution, scan)
        missing = _missing(moved, nullable)
        is_new = pc.equal(moved.column(OP), Op.INSERT)
        count = 0
        columns: set[str] = set()
        for column, are_lost in missing.items():
            if pc.any(pc.and_(are_lost, is_new)).as_py():
                columns.add(column)
        if columns:
            either = _either(list(missing.values()), len(moved))
            count = pc.sum(pc.and_(either, is_new)).as_py()
        lacks = Tally(lost=count, lacking=frozenset(columns))
        lost += lost_rows(lacks, applied, rules, overwrites=False)
        rows = pa.concat_tables([rows.filter(pc.is_null(rows.column(HEAD))), moved])
    if tally.kept and rules.never_sent == "null":
        lost += _new_without_values(rows, applied, evolution, scan, nullable)
    return gathered._replace(rows=rows, never_sent=lost)


def no_rows(table: NetTable) -> Gathered:
    """No net changes."""
    schema = table.other(Op.TALLY, b"").schema
    return Gathered(pa.Table.from_batches([], schema), Tally())


def streamed(
    table: NetTable,
    batch: Batch,
    applied: AppliedTable,
    rules: ApplyOptions,
    count: Count,
) -> Iterator[pa.RecordBatch]:
    """The rows after a load or truncate, one batch after the other, as they are read.

    Raises:
        ApplyError: A value was never sent.
    """
    if not batch.units:
        return
    if batch.is_plain_load and batch.barrier is not None:
        for start, end in batch.units:
            for rows in table.loaded(batch.barrier.lsn, start, end):
                count.events += len(rows)
                count.rows += len(rows)
                yield rows
        return
    net = table.whole()
    with table.errors():
        known = net.tally
    tally = Tally(
        lost=known.never_sent,
        kept=frozenset(known.kept),
        needed=frozenset(known.kept),
        lacking=frozenset(known.lacking),
    )
    count.never_sent = lost_rows(tally, applied, rules, overwrites=True)
    for rows in table.rows(net):
        if rows.column(OP)[0].as_py() == Op.TALLY:
            counted = Tally.from_json(rows.column(DATA)[0].as_py())
            count.events, count.rows = counted.events, counted.rows
            return
        is_row = pc.not_equal(rows.column(OP), Op.DELETE)
        chosen = rows if pc.all(is_row).as_py() else rows.filter(is_row)
        yield chosen.select(applied.columns)


class Count:
    """The counts of rows that are written as they are read."""

    def __init__(self, events: int = 0, rows: int = 0, never_sent: int = 0) -> None:
        self.events, self.rows, self.never_sent = events, rows, never_sent


def source(
    rows: pa.Table,
    applied: AppliedTable,
    rules: ApplyOptions,
    evolution: Evolution,
    kept: Sequence[str],
) -> pa.Table:
    """The source of a MERGE: the table's columns, with the target's types, and numbers."""
    arrays = dict(columns_of(rows, applied, evolution))
    arrays[OP] = rows.column(OP)
    if rules.deletes == "soft":
        arrays[GONE] = rows.column(GONE)
    lacks = _lacks(rows, kept)
    is_update = pc.equal(rows.column(OP), Op.UPDATE)
    for first in range(0, len(kept), MASK_BITS):
        mask: Any = pa.nulls(len(rows), pa.int64()).fill_null(0)
        for at, name in enumerate(kept[first : first + MASK_BITS]):
            bit = pc.if_else(pc.and_(lacks[name], is_update), 1 << at, 0)
            mask = pc.bit_wise_or(mask, bit.cast(pa.int64()))
        arrays[f"{MASK}{first // MASK_BITS}"] = mask
    needed = [
        name
        for name in kept
        if name not in applied.nullable and rules.never_sent == "error"
    ]
    if needed:
        number: Any = pa.nulls(len(rows), pa.int64()).fill_null(0)
        for name in reversed(needed):
            place = applied.columns.index(name) + 1
            number = pc.if_else(pc.and_(lacks[name], is_update), place, number)
        arrays[LOST] = number.cast(pa.int64())
    return pa.table(arrays)


def columns_of(
    rows: pa.Table | pa.RecordBatch, applied: AppliedTable, evolution: Evolution
) -> Iterator[tuple[str, Any]]:
    """The table's columns, with the names and types of the target."""
    for name in applied.columns:
        own = evolution.names[name]
        yield own, _cast(rows.column(name), evolution.schema.field(own).type)


def _cast(column: Any, kind: pa.DataType) -> Any:
    # A value that does not fit was refused before, and is an error here.
    return column if column.type.equals(kind) else column.cast(kind, safe=True)


def kept_columns(rows: pa.Table) -> list[str]:
    """The columns that some updates keep as they are."""
    unsent = rows.column(UNSENT).filter(pc.equal(rows.column(OP), Op.UPDATE))
    return sorted(pc.unique(pc.list_flatten(unsent)).to_pylist())


def path_texts(schema: pa.Schema, partition_by: Sequence[str]) -> list[str]:
    """The columns with texts that become parts of paths."""
    chosen = {it.lower() for it in partition_by}
    return [
        it.name
        for it in schema
        if it.name.lower() in chosen and pa.types.is_string(it.type)
    ]


def refuse_lost_texts(
    rows: pa.Table | pa.RecordBatch,
    texts: Sequence[str],
    applied: AppliedTable,
    target: str,
) -> None:
    """Refuses texts that paths of partitions cannot have, or that would not come back from them.

    Raises:
        ApplyError: A row has one.
    """
    for name in texts:
        column = rows.column(name)
        found = pc.is_in(column, value_set=pa.array(LOST_TEXTS, column.type))
        if OP in rows.schema.names:
            found = pc.and_(found, pc.not_equal(rows.column(OP), Op.DELETE))
        if pc.any(found).as_py():
            raise lost_in_path(applied.table.name, target, name)
        if _has_long_name(name, column, target):
            raise lost_in_path(applied.table.name, target, name, TOO_LONG)


def _has_long_name(name: str, column: Any, target: str) -> bool:
    """Whether a text of a column has too many bytes for a directory's name."""
    place = target.partition(":")[2]
    if is_url(place) and not place.startswith("file:"):
        return False
    # A byte becomes up to three.
    most = (NAME_BYTES - 1) // 3 - len(name.encode())
    texts = pc.unique(column.filter(pc.greater(pc.binary_length(column), most)))
    return any(
        len(quote(name, safe="") + "=" + quote(text, safe="")) > NAME_BYTES
        for text in texts.to_pylist()
    )


# ------------------------------------------------------------------- other keys


def _with_heads(
    moved: pa.Table,
    applied: AppliedTable,
    evolution: Evolution,
    scan: Scan | None,
) -> pa.Table:
    """Adds the values that rows had before the batch, under the keys that they had then."""
    heads = moved.column(HEAD).combine_chunks()
    keys = [pc.struct_field(heads, [at]) for at in range(len(applied.keys))]
    unsent = moved.column(UNSENT)
    names = pc.unique(pc.list_flatten(unsent)).to_pylist()
    lacks = _lacks(moved, names)
    at, found = _found(keys, applied, evolution, names, scan)
    is_found = pc.is_valid(at)
    columns = {}
    for name in moved.column_names:
        column = moved.column(name)
        if name in lacks and found is not None and name in found.column_names:
            old = _cast(found.column(name).take(at), column.type)
            column = pc.if_else(pc.and_(is_found, lacks[name]), old, column)
        columns[name] = column
    # An update is whole once it has the values of its head.
    is_update = pc.equal(moved.column(OP), Op.UPDATE)
    columns[OP] = pc.if_else(
        is_update, pa.scalar(Op.INSERT, pa.int8()), moved.column(OP)
    )
    none = pa.scalar(None, unsent.type)
    columns[UNSENT] = pc.if_else(is_found, none, unsent)
    return pa.table(columns, schema=moved.schema)


def _found(
    keys: Sequence[Any],
    applied: AppliedTable,
    evolution: Evolution,
    names: Sequence[str],
    scan: Scan | None,
) -> tuple[Any, pa.Table | None]:
    """Looks for rows in the target: for each key, the place of its row, and the rows."""
    count = len(keys[0])
    nothing = pa.nulls(count, pa.int64())
    if scan is None or count == 0:
        return nothing, None
    added = {it.name for it in evolution.added}
    there = [name for name in names if evolution.names[name] not in added]
    known: list[tuple[Any, Any]] = []
    wanted = _numbers([_comparable(it) for it in keys], known)
    parts, codes = [], []
    own = [evolution.names[name] for name in there]
    own_keys = [evolution.names[key] for key in applied.keys]
    for batch in scan([*dict.fromkeys([*own_keys, *own])]):
        columns = [
            _comparable(_cast(batch.column(key), it.type))
            for key, it in zip(own_keys, keys, strict=True)
        ]
        code = _numbers(columns, known)
        is_wanted = pc.is_in(code, value_set=wanted)
        # A key that is not looked for has no code.
        is_wanted = pc.and_(is_wanted, pc.is_valid(code))
        if pc.any(is_wanted).as_py():
            parts.append(batch.select(own).filter(is_wanted))
            codes.append(code.filter(is_wanted))
    if not parts:
        return nothing, None
    found = pa.Table.from_batches(parts).rename_columns(there)
    at = pc.index_in(wanted, value_set=pa.concat_arrays(codes)).cast(pa.int64())
    return at, found


def _comparable(column: Any) -> Any:
    """Values that are equal if the target takes them for equal: -0.0 is 0.0."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return pc.add(column, 0.0) if pa.types.is_floating(column.type) else column


def _numbers(columns: Sequence[Any], known: list[tuple[Any, Any]]) -> Any:
    """A number for each combination of values: each column numbers the combinations so far again.

    The first rows fill `known`: by column, its values, and the combinations. Others are NULL later.
    """
    is_first, number = not known, None
    for at, column in enumerate(columns):
        values = pc.unique(column) if is_first else known[at][0]
        pair = pc.index_in(column, value_set=values).cast(pa.int64())
        if number is not None:
            # Both have 32 bits.
            pair = pc.bit_wise_or(pc.shift_left(number.cast(pa.int64()), 32), pair)
        if is_first:
            known.append((values, pc.unique(pair)))
        number = pc.index_in(pair, value_set=known[at][1])
    return number


def _new_without_values(
    rows: pa.Table,
    applied: AppliedTable,
    evolution: Evolution,
    scan: Scan | None,
    nullable: set[str],
) -> int:
    """How many updates of rows that the target does not have lack a value."""
    is_update = pc.and_not(
        pc.equal(rows.column(OP), Op.UPDATE), rows.column(GONE).fill_null(False)
    )
    updates = rows.filter(is_update)
    missing = _missing(updates, nullable)
    if not missing:
        return 0
    updates = updates.filter(_either(list(missing.values()), len(updates)))
    keys = [_comparable(updates.column(name)) for name in applied.keys]
    at, _ = _found(keys, applied, evolution, (), scan)
    return int(at.null_count)


def _missing(rows: pa.Table, nullable: set[str]) -> dict[str, Any]:
    """By the columns that all versions of the table have: which rows lack a value."""
    names = pc.unique(pc.list_flatten(rows.column(UNSENT))).to_pylist()
    return _lacks(rows, [it for it in names if it not in nullable])


def _lacks(rows: pa.Table, names: Sequence[str]) -> dict[str, Any]:
    """By column, which rows have it in their list of unsent columns."""
    if not names:
        return {}
    unsent = rows.column(UNSENT).combine_chunks()
    places, all_names = pc.list_parent_indices(unsent), pc.list_flatten(unsent)
    numbers = integers(0, len(rows))
    return {
        name: pc.is_in(numbers, value_set=places.filter(pc.equal(all_names, name)))
        for name in names
    }


def _either(flags: Sequence[Any], count: int) -> Any:
    found = pa.nulls(count, pa.bool_()).fill_null(False)
    for each in flags:
        found = pc.or_(found, each)
    return found
