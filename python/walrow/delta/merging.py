"""The words of deltalake for a MERGE."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from walrow._apply.merges import Merge, Words, net_changes
from walrow._apply.modes import IS_CURRENT, VALID_TO
from walrow._apply.options import ApplyOptions
from walrow._apply.tables import AppliedTable
from walrow._apply.targets import NEVER_SENT
from walrow._late import pa
from walrow.delta.rows import LOST, MASK, MASK_BITS


def added_to(builder: Any, merge: Merge) -> Any:
    """Adds the clauses of a MERGE to deltalake's builder."""
    for it in merge.clauses:
        add = getattr(builder, f"when_{it.rows}_{it.action}")
        values = () if it.action == "delete" else (dict(it.values),)
        builder = add(*values, it.condition)
    return builder


def words(names: Mapping[str, str]) -> Words:
    """The words of deltalake, with the target's name of each column."""
    return Words(quoted, _moment, names)


def masked(
    applied: AppliedTable,
    rules: ApplyOptions,
    names: Mapping[str, str],
    source: pa.Schema,
    kept: Sequence[str],
    *,
    overwrites: bool,
    lacks_marks: bool,
) -> Merge:
    """The MERGE of net changes, whose `kept` columns have bits in masks, in their order."""
    bits = {}
    for at, name in enumerate(kept):
        place, bit = divmod(at, MASK_BITS)
        bits[name] = f"(s.{quoted(f'{MASK}{place}')} & {1 << bit}) <> 0"
    inserted = {}
    if LOST in source.names:
        key = applied.keys[0]
        own = names[key]
        inserted[key] = _or_refused(own, source.field(own).type)
    return net_changes(
        applied,
        rules,
        words(names),
        overwrites=overwrites,
        lacks_marks=lacks_marks,
        kept=bits,
        inserted=inserted,
    )


def changeable(names: Mapping[str, str], time: int) -> str:
    """The condition for rows that a load may change: open versions, and versions of its time."""
    is_current, until = quoted(names[IS_CURRENT]), quoted(names[VALID_TO])
    return f"{is_current} = true OR {until} >= {_moment(time)}"


def _moment(time: int) -> str:
    return (
        f"arrow_cast(CAST({time} AS BIGINT), 'Timestamp(Microsecond, Some(\"UTC\"))')"
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
    if pa.types.is_decimal(kind):
        return f"Decimal128({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        zone = "None" if kind.tz is None else f'Some("{kind.tz}")'
        return f"Timestamp(Microsecond, {zone})"
    return _RUST[str(kind)]


def quoted(name: str) -> str:
    """A name in an expression."""
    return '"' + name.replace('"', '""') + '"'


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
