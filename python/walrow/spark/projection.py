"""The columns that a query of the data source reads: the log's, or fewer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from walrow._apply.modes import READ_METADATA
from walrow._core import OPTIONS, Decoder
from walrow._late import pa, types
from walrow._log.items import SourceIdentity
from walrow._lsn import Lsn
from walrow._read.reading import read
from walrow.errors import LogError, SchemaError
from walrow.log import Log
from walrow.spark.log_plan import after, open_log
from walrow.spark.schemas import arrow_schema, check_options, is_fixed
from walrow.spark.source_options import SourceOptions, naming_options
from walrow.typing import SchemaOptions


def log_schema(options: SourceOptions) -> pa.Schema:
    """The schema of all versions of the table in the log.

    Raises:
        SchemaError: The log does not have the table, or a column that an option names.
        OptionError: The options contradict each other.
        LogError: The directory is not a log, or a segment is damaged.
    """
    check_options(options.table, options.read)
    # Also refuses options that do not determine the schema.
    Decoder(table=options.table, profile="spark", **options.read)
    log = open_log(options)
    names = SchemaOptions.__annotations__
    found = {name: value for name, value in options.read.items() if name in names}
    return pa.schema(log.schema(options.table, profile="spark", **found))


@dataclass(frozen=True)
class Projection:
    """The work of a task with its part of the log. It can be pickled.

    Attributes:
        options: The options of the query.
        source: Where the changes of the log come from.
        schema: The columns as Spark expects them.
        read: The options of `walrow.read`.
        has_all: Whether the query reads all columns that the table has.
    """

    options: SourceOptions
    source: SourceIdentity
    schema: pa.Schema
    read: dict[str, Any]
    has_all: bool

    def batches(self, start: Lsn, end: Lsn) -> Iterator[pa.RecordBatch]:
        """Decodes the transactions between two LSNs.

        Raises:
            LogError: This process sees another log, or a part of it was removed.
            DecodeError: A value cannot be read or held: as `walrow.read`.
        """
        with naming_options():
            log = open_log(self.options)
            self._check(log, end)
            for batch in read(log, start=after(start), end=end, **self.read):
                yield _conformed(pa.record_batch(batch), self.schema)

    def _check(self, log: Log, end: Lsn) -> None:
        """Refuses a log that differs from the driver's."""
        if log.source != self.source:
            raise LogError(
                f"{log.location}: the log has changes of {log.source.words} here, "
                f"but of {self.source.words} where the query was planned"
            )
        if log.end < end:
            raise LogError(
                f"{log.location}: the log ends at {log.end} here, but the query was "
                f"planned up to {end}; the driver and all executors must have the same "
                "directory under this path"
            )


def projection(
    options: SourceOptions,
    source: SourceIdentity,
    declared: types.StructType,
    own: pa.Schema,
    *,
    is_declared: bool,
) -> Projection:
    """Compares the schema that Spark declares with the log's, and chooses the columns.

    Raises:
        SchemaError: A column is not in the log, or has another type.
    """
    schema = arrow_schema(declared)
    if not schema.names:
        raise SchemaError("the schema has no columns: choose one at least")
    for field in schema:
        if field.name not in own.names:
            shown = ", ".join(own.names)
            text = f"the schema has a column {field.name}, but the log only {shown}"
            raise SchemaError(text, column=field.name)
        _compare(field, own.field(field.name), options)
    read = {**options.read, "table": options.table, "profile": "spark"}
    if is_fixed(options.table, envelope=options.read.get("envelope", False)):
        return Projection(options, source, schema, read, has_all=False)
    prefix = read.get("metadata_prefix", OPTIONS["metadata_prefix"])
    metadata = [f"{prefix}{name}" for name in READ_METADATA]
    columns = [
        name for name in own.names if name in schema.names and name not in metadata
    ]
    has_all = not is_declared and "columns" not in read
    read |= {
        "schema": _of_columns(own, schema.names),
        "metadata": [name for name in metadata if name in schema.names],
        # Without it, a column that the schema lacks is an error.
        "columns": None if has_all else columns,
        # A part of the log may lack the table.
        "missing_table": "ignore",
    }
    return Projection(options, source, schema, read, has_all=has_all)


def _of_columns(own: pa.Schema, names: list[str]) -> pa.Schema:
    """The fields with these names."""
    return pa.schema([field for field in own if field.name in names])


def _compare(declared: pa.Field, own: pa.Field, options: SourceOptions) -> None:
    """Refuses a declared column that is not the log's, or that promises more."""
    if _fits(declared, own):
        return
    name = declared.name
    if _fits(declared.with_nullable(nullable=True), own.with_nullable(nullable=False)):
        text = f"column {name} may be null, but the schema declares it NOT NULL"
        raise SchemaError(text, column=name)
    text = (
        f"column {name} is {_spelled(own)} in the log, but {_spelled(declared)} in the "
        f"schema; declare it as in the log, or choose its type with the option types"
    )
    if not is_fixed(options.table, envelope=options.read.get("envelope", False)):
        text += ', such as {"numeric": "string"}'
    raise SchemaError(text, column=name)


def _fits(declared: pa.Field, own: pa.Field) -> bool:
    """Whether the types are the same, apart from fields that are declared nullable."""
    if own.nullable and not declared.nullable:
        return False
    one, other = declared.type, own.type
    if pa.types.is_list(one) and pa.types.is_list(other):
        return _fits(one.value_field, other.value_field)
    if pa.types.is_struct(one) and pa.types.is_struct(other):
        return [it.name for it in one] == [it.name for it in other] and all(
            map(_fits, one, other)
        )
    if pa.types.is_map(one) and pa.types.is_map(other):
        return one.key_type == other.key_type and _fits(
            one.item_field, other.item_field
        )
    return bool(one == other)


def _spelled(field: pa.Field) -> str:
    """The type in Spark's words."""
    from pyspark.sql.pandas.types import from_arrow_type

    kind = from_arrow_type(field.type, prefer_timestamp_ntz=True)
    return str(kind.simpleString())


def _conformed(records: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns in the order, and with the nullability, that Spark expects."""
    columns = []
    for field in schema:
        column = records.column(field.name)
        if column.type != field.type:
            column = column.cast(field.type)
        columns.append(column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)
