"""The words of deltalake for a MERGE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._apply.items import Op
from walrow._apply.net_table import GONE, OP
from walrow._apply.targets import NEVER_SENT
from walrow.delta.rows import LOST, MASK, MASK_BITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from walrow._apply.merges import Merge


class Clauses(NamedTuple):
    """The parts of a MERGE: predicates, and expressions by columns.

    Attributes:
        on: The condition for matching rows.
        delete: The condition for rows of the target that are removed. None if all stay.
        update: The new values of rows. Empty if they keep theirs.
        inserts: The condition for rows that are inserted.
        insert: Their values.
        others: The new values of rows that the source lacks. Empty if they stay.
        which: The condition for these rows.
    """

    on: str
    delete: str | None
    update: Mapping[str, str]
    inserts: str
    insert: Mapping[str, str]
    others: Mapping[str, str]
    which: str | None

    def added_to(self, merge: Any) -> Any:
        """Adds them to deltalake's builder."""
        if self.delete is not None:
            merge = merge.when_matched_delete(self.delete)
        if self.update:
            merge = merge.when_matched_update(dict(self.update), _IS_ROW)
        merge = merge.when_not_matched_insert(dict(self.insert), self.inserts)
        if self.others:
            merge = merge.when_not_matched_by_source_update(
                dict(self.others), self.which
            )
        return merge


def clauses(
    merge: Merge, names: Mapping[str, str], source: pa.Schema, kept: Sequence[str]
) -> Clauses:
    """The clauses of a MERGE.

    Args:
        merge: The MERGE.
        names: The target's name of each column, which the source has, too.
        source: The columns of the source.
        kept: The columns that have bits in the masks, in their order.
    """
    update, insert = {}, {}
    keys = [names[it] for it in merge.keys]
    for it in merge.columns:
        own = names[it.name]
        column = quoted(own)
        value = f"s.{column}"
        if it.name in kept:
            place, bit = divmod(kept.index(it.name), MASK_BITS)
            is_kept = f"(s.{quoted(f'{MASK}{place}')} & {1 << bit}) <> 0"
            value = f"CASE WHEN {is_kept} THEN t.{column} ELSE s.{column} END"
        if not it.is_key:
            update[column] = value
        insert[column] = f"s.{column}"
    if LOST in source.names:
        insert[quoted(keys[0])] = _or_refused(keys[0], source.field(keys[0]).type)
    inserts = _IS_ROW
    others, which = {}, None
    if merge.marker is not None:
        marker = quoted(names[merge.marker])
        gone = f"s.{quoted(GONE)}"
        update[marker] = insert[marker] = gone
        # A change that only marks a row has no values for a new row.
        inserts = f"NOT ({gone} AND s.{quoted(OP)} = {Op.UPDATE})"
        if merge.marks_others:
            others = {marker: "true"}
        elif merge.unmarks_others:
            others, which = {marker: "false"}, f"t.{marker} IS NULL"
    return Clauses(
        " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in keys),
        f"s.{quoted(OP)} = {Op.DELETE}" if merge.deletes else None,
        update if merge.updates else {},
        inserts,
        insert,
        others,
        which,
    )


def _or_refused(key: str, kind: pa.DataType) -> str:
    """A value of the key, or an error if the row lacks a value: only a cast can raise one."""
    text = f"concat('{NEVER_SENT}', CAST(s.{quoted(LOST)} - 1 AS VARCHAR))"
    # Through a text, which becomes any type.
    error = f"CAST(CAST({text} AS BIGINT) AS VARCHAR)"
    cast = f"arrow_cast({error}, '{_rust(kind)}')"
    return f"CASE WHEN s.{quoted(LOST)} <> 0 THEN {cast} ELSE s.{quoted(key)} END"


def _rust(kind: pa.DataType) -> str:
    """The name of a type of a key in Rust."""
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return f"Decimal128({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
        return f"Timestamp(Microsecond, {zone})"
    return _RUST[str(kind)]


def quoted(name: str) -> str:
    """A name in an expression."""
    return '"' + name.replace('"', '""') + '"'


_IS_ROW = f's."{OP}" <> {Op.DELETE}'
_RUST = {
    "bool": "Boolean",
    "int8": "Int8",
    "int16": "Int16",
    "int32": "Int32",
    "int64": "Int64",
    "float": "Float32",
    "double": "Float64",
    "string": "Utf8",
    "binary": "Binary",
    "date32[day]": "Date32",
}
