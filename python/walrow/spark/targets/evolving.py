"""Targets get the columns that a table has: they are created, added and widened."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

from walrow._apply.items import COLUMNS
from walrow._apply.targets import Conflict, refuse_marker, refuse_unknown
from walrow.errors import Remedy, SchemaError
from walrow.spark.schemas import fields_of
from walrow.spark.targets.path_values import path_texts
from walrow.spark.targets.sql import condition_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from walrow._apply.items import Rules
    from walrow._apply.tables import AppliedTable
    from walrow.spark.targets.sql import Target

__all__ = ["evolve"]


def evolve(
    target: Target,
    applied: AppliedTable,
    rules: Rules,
    layout: tuple[Sequence[str], Sequence[str]],
    *,
    columns: Sequence[Any] | None = None,
    rehearse: Callable[[Sequence[str]], None] | None = None,
) -> bool:
    """Creates the target, or gives it the columns that it lacks. None is ever dropped.

    Args:
        target: The target.
        applied: The table.
        rules: The caller's options for the target.
        layout: How a new target is partitioned and clustered.
        columns: The columns that it has. None if it does not exist.
        rehearse: Raises an error if rows cannot be written to a new target. Its columns
            with texts become parts of paths. It is called with them before the target
            is created.

    Returns:
        Whether it has changed anything.

    Raises:
        SchemaError: The target refuses a column or a type.
        Conflict: Another writer has just changed its columns.
    """
    from pyspark.sql.types import BooleanType, StructField

    name = applied.table.name
    fields = fields_of(applied)
    refuse_marker(name, applied.columns, rules)
    if rules.deletes == "soft":
        fields.append(StructField(rules.deleted_column, BooleanType()))
    reserved = _reserved(target, applied, rules, target.reserved, "its format")
    if reserved is not None:
        raise reserved
    fed = _reserved(target, applied, rules, target.fed, "its change data feed")
    if columns is None:
        _check_layout(name, fields, layout)
        paths = layout[0] if target.has_path_values else ()
        texts = path_texts(name, target.name, fields_of(applied), paths)
        if texts and rehearse is not None:
            rehearse(texts)
        text = f"{name}: {target.name} cannot be created with its columns, see the cause above"
        refusal = SchemaError(
            text,
            table=name,
            advice="; give a column another type, or leave it out, with ",
            remedies=(Remedy("types", code="{...}"), COLUMNS),
        )
        with _refusing(target, (), refusal, fed):
            target.create(fields, *layout)
        return True
    known = {field.name.lower(): field for field in columns}
    added = [field for field in fields if field.name.lower() not in known]
    if added:
        names = ", ".join(field.name for field in added)
        text = (
            f"{name}: {target.name} refuses new columns, {names}, see the cause above"
        )
        refusal = SchemaError(
            text,
            table=name,
            column=added[0].name,
            advice="; leave them out with ",
            remedies=(COLUMNS,),
        )
        with _refusing(target, added, refusal, fed):
            target.add_columns(added)
    has_changed = bool(added)
    for field in fields:
        own = known.get(field.name.lower())
        if own is None or _fits(field.dataType, own.dataType):
            continue
        kind = own.dataType.simpleString()
        text = (
            f"{name}: column {field.name} is {field.dataType.simpleString()}, and "
            f"{target.name} has it as {kind} and cannot change that: use a new target"
        )
        refusal = SchemaError(
            text,
            table=name,
            column=field.name,
            advice=f", or a type that becomes {kind} with ",
            remedies=(Remedy("types", field.name, code="..."),),
        )
        if not _fits(own.dataType, field.dataType):
            raise refusal
        with _refusing(target, [field], refusal):
            target.widen(own.name, field.dataType.simpleString())
        has_changed = True
    return has_changed


def _reserved(
    target: Target,
    applied: AppliedTable,
    rules: Rules,
    names: Collection[str],
    owner: str,
) -> SchemaError | None:
    """The error for a column with one of the names that the target's format has for its own."""
    chosen = [(name, COLUMNS) for name in applied.columns]
    if rules.deletes == "soft":
        chosen.append((rules.deleted_column, Remedy("deleted_column")))
    for name, remedy in chosen:
        if name.lower() in names:
            table = applied.table.name
            text = (
                f"{table}: {target.name} cannot have a column {name}: {owner} reserves "
                "the name"
            )
            return SchemaError(
                text,
                table=table,
                column=name,
                advice="; choose another name or other columns with ",
                remedies=(remedy,),
            )
    return None


def _check_layout(
    table: str, fields: Sequence[Any], layout: tuple[Sequence[str], Sequence[str]]
) -> None:
    """Refuses columns that do not exist. Iceberg would make the table, and refuse the order."""
    columns = [field.name for field in fields]
    for option, names in zip(("partition_by", "cluster_by"), layout, strict=True):
        # Only the format knows the meaning of a transform.
        plain = [it for it in names if "(" not in it]
        refuse_unknown(option, plain, table, columns)


@contextlib.contextmanager
def _refusing(
    target: Target,
    fields: Sequence[Any],
    refusal: SchemaError,
    fed: SchemaError | None = None,
) -> Iterator[None]:
    """Raises an error about columns if it is they that a change is refused for.

    Args:
        target: The target.
        fields: Its columns after the change.
        refusal: That error.
        fed: The error if it is a change data feed that refuses.
    """
    try:
        yield
    except Exception as error:
        if target.is_conflict(error) or (fields and _has(target, fields)):
            raise Conflict from error
        if fed is not None and _FED in condition_of(error):
            raise fed from None
        if not _is_about_columns(error):
            raise
        raise refusal from error


def _has(target: Target, fields: Sequence[Any]) -> bool:
    """Whether the target has columns now, by another writer."""
    with contextlib.suppress(Exception):
        # Iceberg's catalogs keep tables. For a path of Delta, Spark has no such thing.
        target.session.catalog.refreshTable(target.table)
    known = {field.name.lower(): field.dataType for field in target.columns()}
    return all(
        field.name.lower() in known and _fits(field.dataType, known[field.name.lower()])
        for field in fields
    )


def _is_about_columns(error: BaseException) -> bool:
    """Whether a name or type of a column was refused, and not the file system or the place."""
    from pyspark import errors

    kinds = (
        errors.AnalysisException,
        errors.IllegalArgumentException,
        errors.ParseException,
        errors.UnsupportedOperationException,
    )
    text = condition_of(error)
    is_refusal = isinstance(error, kinds) or re.search(_REFUSES, text) is not None
    return is_refusal and re.search(_ELSEWHERE, text) is None


def _fits(kind: Any, into: Any) -> bool:
    """Whether a type holds all values of another type, with the same meaning."""
    from pyspark.sql import types

    size, more = _digits(kind), _digits(into)
    if kind.simpleString() == into.simpleString():
        fits = True
    elif size is not None and more is not None:
        # Integers have a scale of 0, and only integers fit into them.
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


#: Of Delta: whether a table has a feed is known to nobody before.
_FED = "RESERVED_CDC_COLUMNS"
#: Of Iceberg, whose own exceptions PySpark does not know.
_REFUSES = "ValidationException|Invalid schema|Cannot change column type"
_ELSEWHERE = (
    "(SCHEMA|CATALOG|CATALOG_PLUGIN|TABLE|TABLE_OR_VIEW|PATH)_NOT_FOUND|_NAMESPACE"
    "|NoSuch(Namespace|Table)|PERMISSION|AccessControl"
)
