"""Targets get the columns that a table has: they are created, added and widened."""

# ruff: noqa: S608  (statements are put together here, from what `quoted` returns)

from __future__ import annotations

import contextlib
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from walrow._apply.columns import Evolution, evolution, fits, misfit, not_widened, plain
from walrow._apply.items import COLUMNS
from walrow._apply.modes import beside
from walrow._apply.options import ApplyOptions
from walrow._apply.tables import AppliedTable
from walrow._apply.targets import Conflict, refuse_marker, refuse_unknown
from walrow._late import pa, types
from walrow.errors import Remedy, SchemaError
from walrow.spark.schemas import arrow_schema, fields_of, spark_schema
from walrow.spark.targets.path_values import path_texts
from walrow.spark.targets.sql import Target, condition_of, quoted


def evolve(
    target: Target,
    applied: AppliedTable,
    rules: ApplyOptions,
    layout: tuple[Sequence[str], Sequence[str]],
    *,
    columns: Sequence[Any] | None = None,
    widen_types: bool = False,
    rehearse: Callable[[Sequence[str]], None] | None = None,
) -> bool:
    """Creates the target, or gives it the columns that it lacks. None is ever dropped.

    Args:
        target: The target.
        applied: The table.
        rules: The caller's options for the target.
        layout: How a new target is partitioned and clustered.
        columns: The columns that it has. None if it does not exist.
        widen_types: Whether columns of a Delta table may get wider types: from then on, only
            Spark writes it.
        rehearse: Raises an error if rows cannot be written to a new target. Its columns
            with texts become parts of paths. It is called with them before the target
            is created.

    Returns:
        Whether it has changed anything.

    Raises:
        SchemaError: The target refuses a column or a type.
        ApplyError: A column needs a wider type, and `widen_types` is false.
        Conflict: Another writer has just changed its columns.
    """
    name = applied.table.name
    fields = fields_of(applied)
    refuse_marker(name, applied.columns, rules)
    if rules.deletes == "soft":
        fields.append(types.StructField(rules.deleted_column, types.BooleanType()))
    fields += spark_schema(beside(rules.mode)).fields
    reserved = _reserved(target, applied, rules, target.reserved, "its format")
    if reserved is not None:
        raise reserved
    fed = _reserved(target, applied, rules, target.fed, "its change data feed")
    if columns is None:
        _check_layout(name, fields, layout)
        paths = layout[0] if target.has_path_values else ()
        texts = path_texts(name, target.name, fields, paths)
        texts = [it for it in texts if it in applied.columns]
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
            # Lists of reserved names become old.
            suspects = {it.lower() for it in applied.columns if it.startswith("_")}
            own = _reserved(target, applied, rules, suspects, "its MERGE")
            tried = [field.name for field in fields]
            key = tried.index((applied.keys or tried)[0])
            if own is not None and not _try_merge(target, tried, key):
                raise own
            target.create(fields, *layout)
        return True
    change = _evolution(target, name, fields, columns)
    if change.widened and not (widen_types or target.is_widened()):
        by_load = rules.mode == "current"
        raise not_widened(name, target.name, change.widened[0], by_load=by_load)
    of_table = {field.name: field for field in fields}
    added = [of_table[it.name] for it in change.added]
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
    for it in change.widened:
        field = of_table[it.name]
        refusal = misfit(name, target.name, it.name, str(it.kind), str(it.own_kind))
        with _refusing(target, [field], refusal):
            target.widen(it.own, field.dataType.simpleString())
    return bool(added or change.widened)


def _evolution(
    target: Target, table: str, fields: Sequence[Any], columns: Sequence[Any]
) -> Evolution:
    """Compares the columns of a table with the columns of its target, in Arrow's types.

    Raises:
        SchemaError: A column has a type that cannot become the table's.
    """
    wanted = pa.schema(
        [
            pa.field(it.name, plain(it.type))
            for it in arrow_schema(types.StructType(list(fields)))
        ]
    )
    kinds = {it.name.lower(): it.type for it in wanted}
    known = []
    for field in columns:
        kind = kinds.get(field.name.lower())
        if kind is None:
            # It is not the table's, and its type does not matter.
            continue
        found = _arrow(field)
        if found is None:
            own = field.dataType.simpleString()
            raise misfit(table, target.name, field.name, str(kind), own)
        known.append(found)
    return evolution(table, target.name, wanted, pa.schema(known))


def _arrow(field: Any) -> pa.Field | None:
    """A column in Arrow's types. None if its type means more there, or has no such type."""
    from pyspark.errors import PySparkException

    try:
        schema = arrow_schema(types.StructType([field]))
        (again,) = spark_schema(schema).fields
    except (PySparkException, NotImplementedError, TypeError):
        return None
    is_same = again.dataType.simpleString() == field.dataType.simpleString()
    return schema.field(0) if is_same else None


def _reserved(
    target: Target,
    applied: AppliedTable,
    rules: ApplyOptions,
    names: Collection[str],
    owner: str,
) -> SchemaError | None:
    """The error for a column with one of the names that the target's format has for its own."""
    chosen = [(name, COLUMNS) for name in applied.columns]
    if rules.deletes == "soft":
        chosen.append((rules.deleted_column, Remedy("deleted_column")))
    chosen += [(it, Remedy("mode")) for it in beside(rules.mode).names]
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


def _try_merge(target: Target, names: Sequence[str], key: int) -> bool:
    """Merges two rows into a table like the target, which is dropped again. Whether it had them."""
    trial = target.trial()
    if trial is None:
        return True
    session, view = target.session, f"walrow_trial_{uuid.uuid4().hex[:12]}"
    schema = types.StructType(
        [types.StructField(it, types.StringType()) for it in names]
    )
    rows = [[str(row)] * len(names) for row in range(3)]
    # The second row replaces the first one.
    rows[1][key] = rows[0][key]
    columns = [quoted(it) for it in names]
    trial.create(schema.fields, (), ())
    try:
        session.createDataFrame(rows[:1], schema).writeTo(trial.table).append()
        session.createDataFrame(rows[1:], schema).createOrReplaceTempView(view)
        session.sql(
            f"MERGE INTO {trial.table} t USING {view} s ON t.{columns[key]} = s.{columns[key]} "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{it} = s.{it}' for it in columns)} "
            f"WHEN NOT MATCHED THEN INSERT ({', '.join(columns)}) "
            f"VALUES ({', '.join(f's.{it}' for it in columns)})"
        )
        found = session.table(trial.table).collect()
    finally:
        session.catalog.dropTempView(view)
        trial.drop()
    return sorted(map(list, found)) == rows[1:]


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
    """Raises the error of columns, or of a change data feed, that a change is refused for."""
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
    known = {field.name.lower(): field for field in target.columns()}
    return all(
        field.name.lower() in known and _holds(known[field.name.lower()], field)
        for field in fields
    )


def _holds(own: Any, field: Any) -> bool:
    """Whether a column holds all values of another column."""
    into, kind = _arrow(own), _arrow(field)
    if into is None or kind is None:
        return False
    return fits(plain(kind.type), plain(into.type))


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


#: Of Delta: whether a table has a feed is known to nobody before.
_FED = "RESERVED_CDC_COLUMNS"
#: Of Iceberg, whose own exceptions PySpark does not know.
_REFUSES = "ValidationException|Invalid schema|Cannot change column type"
_ELSEWHERE = (
    "(SCHEMA|CATALOG|CATALOG_PLUGIN|TABLE|TABLE_OR_VIEW|PATH)_NOT_FOUND|_NAMESPACE"
    "|NoSuch(Namespace|Table)|PERMISSION|AccessControl"
)
