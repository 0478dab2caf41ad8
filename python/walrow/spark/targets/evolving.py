"""Targets get the columns that a table has: they are created, added and widened."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walrow.errors import Remedy, SchemaError
from walrow.spark.apply_failures import spark_errors
from walrow.spark.apply_items import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walrow.spark.apply_items import Rules
    from walrow.spark.apply_tables import AppliedTable
    from walrow.spark.targets.sql import Target

__all__ = ["evolve"]


def evolve(
    target: Target,
    applied: AppliedTable,
    rules: Rules,
    layout: tuple[Sequence[str], Sequence[str]],
    *,
    is_new: bool,
) -> bool:
    """Creates the target, or gives it the columns that it lacks. None is ever dropped.

    Returns:
        Whether it has changed anything.

    Raises:
        SchemaError: The target refuses a column or a type.
    """
    from pyspark.sql.types import BooleanType, StructField

    name = applied.table.name
    fields = list(applied.fields)
    if rules.deletes == "soft":
        if rules.deleted_column.lower() in {it.lower() for it in applied.columns}:
            text = f"{name} has a column {rules.deleted_column} itself"
            raise SchemaError(
                text,
                table=name,
                column=rules.deleted_column,
                remedies=(Remedy("deleted_column"),),
            )
        fields.append(StructField(rules.deleted_column, BooleanType()))
    if is_new:
        try:
            target.create(fields, *layout)
        except Exception as error:
            text = (
                f"{name}: {target.name} cannot be created with its columns, see the cause "
                "above"
            )
            raise SchemaError(
                text,
                table=name,
                advice="; give a column another type, or leave it out, with ",
                remedies=(Remedy("types", code="{...}"), COLUMNS),
            ) from error
        return True
    known = {field.name.lower(): field for field in target.columns()}
    added = [field for field in fields if field.name.lower() not in known]
    if added:
        try:
            target.add_columns(added)
        except Exception as error:
            names = ", ".join(field.name for field in added)
            text = f"{name}: {target.name} refuses new columns, {names}, see the cause above"
            raise SchemaError(
                text,
                table=name,
                column=added[0].name,
                advice="; leave them out with ",
                remedies=(COLUMNS,),
            ) from error
    has_changed = bool(added)
    for field in fields:
        own = known.get(field.name.lower())
        if own is None or _fits(field.dataType, own.dataType):
            continue
        cause = None
        if _fits(own.dataType, field.dataType):
            try:
                target.widen(own.name, field.dataType.simpleString())
            except spark_errors() as error:
                cause = error
            else:
                has_changed = True
                continue
        kind = own.dataType.simpleString()
        text = (
            f"{name}: column {field.name} is {field.dataType.simpleString()}, and "
            f"{target.name} has it as {kind} and cannot change that: use a new target"
        )
        raise SchemaError(
            text,
            table=name,
            column=field.name,
            advice=f", or a type that becomes {kind} with ",
            remedies=(Remedy("types", field.name, code="..."),),
        ) from cause
    return has_changed


def _fits(kind: Any, into: Any) -> bool:
    """Whether a type holds all values of another one, without a change of what they mean."""
    from pyspark.sql import types

    size, more = _digits(kind), _digits(into)
    if kind.simpleString() == into.simpleString():
        fits = True
    elif size is not None and more is not None:
        # An integer has no decimals of its own, and takes none.
        is_decimal = isinstance(into, types.DecimalType)
        scaled = into.scale if is_decimal else 0
        fits = size[0] <= more[0] and size[1] <= scaled
        fits = fits and (is_decimal or not isinstance(kind, types.DecimalType))
    elif isinstance(kind, types.ArrayType) and isinstance(into, types.ArrayType):
        fits = _fits(kind.elementType, into.elementType)
    else:
        fits = isinstance(kind, types.FloatType) and isinstance(into, types.DoubleType)
    return fits


def _digits(kind: Any) -> tuple[int, int] | None:
    """The integer digits and the fractional digits of a number. None for other types."""
    from pyspark.sql import types

    if isinstance(kind, types.DecimalType):
        return kind.precision - kind.scale, kind.scale
    digits = {
        types.ByteType: 3,
        types.ShortType: 5,
        types.IntegerType: 10,
        types.LongType: 19,
    }
    size = digits.get(type(kind))
    return None if size is None else (size, 0)
