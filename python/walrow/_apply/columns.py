"""The columns of a target beside the columns of a table: additions, wider types and refusals.

Each engine reads the columns of its targets, and takes this decision from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from walrow._apply.modes import beside
from walrow._apply.options import ApplyOptions
from walrow._apply.targets import refuse_marker
from walrow._late import pa
from walrow.errors import ApplyError, Remedy, SchemaError


class Wider(NamedTuple):
    """A column whose type in the target holds fewer values than the table's type.

    Attributes:
        name: The table's name of the column.
        own: The target's name of it.
        kind: The table's type.
        own_kind: The target's type.
    """

    name: str
    own: str
    kind: pa.DataType
    own_kind: pa.DataType


class Evolution(NamedTuple):
    """How the columns of a target change before, or with, a batch.

    Attributes:
        names: The target's name of each column of the table, of the marker, and of the mode.
        added: New columns.
        widened: Columns that need another type.
        schema: The columns of the target after the batch.
    """

    names: Mapping[str, str]
    added: Sequence[pa.Field]
    widened: Sequence[Wider]
    schema: pa.Schema


def own_columns(table: str, own: pa.Schema, rules: ApplyOptions) -> pa.Schema:
    """The columns that a table and its mode want in a target, without metadata.

    Raises:
        SchemaError: The table has a column of the marker's name.
    """
    fields = [pa.field(it.name, plain(it.type)) for it in own]
    refuse_marker(table, own.names, rules)
    if rules.deletes == "soft":
        fields.append(pa.field(rules.deleted_column, pa.bool_()))
    return pa.schema([*fields, *beside(rules.mode)])


def plain(kind: pa.DataType) -> pa.DataType:
    """A type without metadata, whose parts have the names that Delta gives them."""
    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", plain(kind.value_type)))
    if pa.types.is_struct(kind):
        parts = (kind.field(at) for at in range(kind.num_fields))
        return pa.struct([pa.field(it.name, plain(it.type)) for it in parts])
    return kind


def evolution(
    table: str, target: str, wanted: pa.Schema, schema: pa.Schema
) -> Evolution:
    """Compares a table's columns with its target's columns.

    Raises:
        SchemaError: The target has a column with a type that cannot become the table's.
    """
    known = {it.name.lower(): it for it in schema}
    fields = {it.name: it for it in schema}
    names, added, widened = {}, [], []
    for it in wanted:
        own = known.get(it.name.lower())
        names[it.name] = it.name if own is None else own.name
        if own is None:
            added.append(it)
            continue
        own_kind = plain(own.type)
        if fits(it.type, own_kind):
            continue
        if not fits(own_kind, it.type):
            raise misfit(table, target, it.name, str(it.type), str(own.type))
        widened.append(Wider(it.name, own.name, it.type, own.type))
        fields[own.name] = pa.field(own.name, it.type, own.nullable)
    return Evolution(names, added, widened, pa.schema([*fields.values(), *added]))


def misfit(
    table: str, target: str, column: str, kind: str, own_kind: str
) -> SchemaError:
    """The error of a column whose type in the target cannot become the table's."""
    text = (
        f"{table}: column {column} is {kind}, and {target} has it as {own_kind} and cannot "
        "change that: use a new target"
    )
    return SchemaError(
        text,
        table=table,
        column=column,
        advice=f", or a type that becomes {own_kind} with ",
        remedies=(Remedy("types", column, code="..."),),
    )


def not_widened(
    table: str, target: str, wider: Wider, *, by_load: bool = True
) -> ApplyError:
    """The error of a Delta table that needs a wider type, unless a load or `widen_types` gives it one."""
    load = (
        "load the table, and apply the load with walrow.delta, or walrow apply --engine delta. Or "
        if by_load
        else ""
    )
    text = (
        f"{table}: column {wider.name} is {wider.kind}, and {target} has it as "
        f"{wider.own_kind}: {load}let Spark widen it (walrow.spark.apply_changes, or walrow apply "
        "--engine spark): from then on, the table has type widening, and only Spark writes it"
    )
    return ApplyError(
        text,
        code="widening",
        table=table,
        column=wider.name,
        target=target,
        advice="; ask for that with ",
        remedies=(Remedy("widen_types", None, True),),
    )


def fits(kind: pa.DataType, into: pa.DataType) -> bool:
    """Whether a type holds all values of another type, with the same meaning."""
    if kind.equals(into):
        return True
    size, more = _digits(kind), _digits(into)
    if size is not None and more is not None:
        # Integers have a scale of 0, and only integers fit into them.
        is_fit: bool = size[0] <= more[0] and size[1] <= more[1]
        return is_fit and (pa.types.is_decimal(into) or not pa.types.is_decimal(kind))
    if pa.types.is_list(kind) and pa.types.is_list(into):
        return fits(kind.value_type, into.value_type)
    return bool(pa.types.is_float32(kind) and pa.types.is_float64(into))


def _digits(kind: pa.DataType) -> tuple[int, int] | None:
    """The integer digits and the fractional digits of a number. None for other types."""
    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    digits = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
    size = digits.get(kind)
    return None if size is None else (size, 0)
