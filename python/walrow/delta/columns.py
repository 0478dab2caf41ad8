"""The columns of a target beside the table's columns: additions, conversions and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from walrow._apply.items import COLUMNS
from walrow._apply.targets import refuse_marker, refuse_unknown
from walrow.delta.failures import BY_SPARK, by_spark
from walrow.errors import Remedy, SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from walrow._apply.items import Rules
    from walrow.delta.guards import State

__all__ = ["Evolution", "check_new", "evolution", "fits", "own_columns", "plain"]


class Evolution(NamedTuple):
    """How the columns of a target change before, or with, a batch.

    Attributes:
        names: The target's name of each column of the table, and of the marker.
        added: New columns.
        widened: Columns that get another type, which only a load can give them.
        schema: The columns of the target after the batch.
    """

    names: Mapping[str, str]
    added: Sequence[pa.Field]
    widened: Sequence[str]
    schema: pa.Schema


def own_columns(table: str, own: pa.Schema, rules: Rules) -> pa.Schema:
    """The columns that a table wants in its target, with the marker, without metadata.

    Raises:
        SchemaError: The table has a column of the marker's name.
    """
    import pyarrow as pa

    fields = [pa.field(it.name, plain(it.type)) for it in own]
    refuse_marker(table, own.names, rules)
    if rules.deletes == "soft":
        fields.append(pa.field(rules.deleted_column, pa.bool_()))
    return pa.schema(fields)


def plain(kind: pa.DataType) -> pa.DataType:
    """A type without metadata, whose parts have the names that Delta gives them."""
    import pyarrow as pa

    if isinstance(kind, pa.BaseExtensionType):
        kind = kind.storage_type
    if pa.types.is_list(kind):
        return pa.list_(pa.field("element", plain(kind.value_type)))
    if pa.types.is_struct(kind):
        parts = (kind.field(at) for at in range(kind.num_fields))
        return pa.struct([pa.field(it.name, plain(it.type)) for it in parts])
    return kind


def check_new(
    table: str, target: str, schema: pa.Schema, partition_by: Sequence[str]
) -> None:
    """Refuses a new target that could not be kept right.

    Raises:
        SchemaError: A column that `partition_by` names does not exist, or a name needs Spark.
    """
    refuse_unknown("partition_by", partition_by, table, schema.names)
    for name in schema.names:
        if _SPECIAL & set(name):
            text = (
                f"{table}: {target} cannot be created with column {name!r}: its name needs "
                f"column mapping: create it with {BY_SPARK}"
            )
            raise SchemaError(
                text,
                table=table,
                column=name,
                advice="; or leave it out with ",
                remedies=(COLUMNS,),
            )


def evolution(
    table: str,
    target: str,
    wanted: pa.Schema,
    schema: pa.Schema,
    state: State,
    *,
    overwrites: bool,
) -> Evolution:
    """Compares the columns of a table with the columns of its target.

    Args:
        table: The table.
        target: The target, as it was given.
        wanted: The columns that the table wants.
        schema: The columns that the target has.
        state: The target.
        overwrites: Whether all rows of the target are replaced.

    Raises:
        SchemaError: The target refuses a column or a type.
        ApplyError: Only Spark can change the target so.
    """
    import pyarrow as pa

    if state.properties.get("delta.enableChangeDataFeed", "").lower() == "true":
        for name in wanted.names:
            if name.lower() in _FED:
                text = (
                    f"{table}: {target} cannot have a column {name}: its change data feed "
                    "reserves the name"
                )
                raise SchemaError(
                    text,
                    table=table,
                    column=name,
                    advice="; choose other columns with ",
                    remedies=(COLUMNS,),
                )
    known = {it.name.lower(): it for it in schema}
    names = {
        it.name: known[it.name.lower()].name if it.name.lower() in known else it.name
        for it in wanted
    }
    added = [it for it in wanted if it.name.lower() not in known]
    if added and state.is_mapped:
        text = f"the table has column mapping, and needs column {added[0].name}"
        raise by_spark(target, text, table=table)
    widened = []
    fields = {it.name: it for it in schema}
    for it in wanted:
        own = known.get(it.name.lower())
        if own is None or fits(it.type, plain(own.type)):
            continue
        text = (
            f"{table}: column {it.name} is {it.type}, and {target} has it as {own.type}"
        )
        can_widen = fits(plain(own.type), it.type)
        if not can_widen or not overwrites or state.is_mapped:
            text += (
                f", which only a load or Spark can widen: use {BY_SPARK}"
                if can_widen
                else ": use a new target"
            )
            raise SchemaError(
                text,
                table=table,
                column=it.name,
                advice=f", or a type that becomes {own.type} with ",
                remedies=(Remedy("types", it.name, code="..."),),
            )
        widened.append(own.name)
        fields[own.name] = pa.field(own.name, it.type, own.nullable)
    return Evolution(
        names, added, widened, pa.schema([*fields.values(), *(it for it in added)])
    )


def fits(kind: pa.DataType, into: pa.DataType) -> bool:
    """Whether a type holds all values of another type, with the same meaning."""
    import pyarrow as pa

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
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return kind.precision - kind.scale, kind.scale
    digits = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}
    size = digits.get(kind)
    return None if size is None else (size, 0)


#: Characters that Delta refuses in names without column mapping.
_SPECIAL = frozenset(" ,;{}()\n\t=")
_FED = {"_change_type", "_commit_timestamp", "_commit_version"}
