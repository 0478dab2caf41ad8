"""Schemas of tables for Spark, from the same code as the batches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

from walrow import _late
from walrow._apply.tables import AppliedTable
from walrow._late import pa, types
from walrow._read import schemas
from walrow._read.signatures import with_options
from walrow.errors import OptionError, SchemaError
from walrow.spark.paths import local
from walrow.typing import SparkSchemaOptions, TableName

SIDE_TABLES = frozenset(
    f"walrow.{name}" for name in ("transactions", "messages", "relations", "truncates")
)


#: Options of `walrow.read` that Spark determines.
FIXED = ("profile",)


@with_options(SparkSchemaOptions, elsewhere=FIXED)
def schema(
    source: Any,
    table: TableName | None = None,
    **options: Unpack[SparkSchemaOptions],
) -> types.StructType:
    """Returns one schema for all versions of a table, for `decode` and `mapInArrow`.

    Args:
        source: A catalog, captures, directories or a list of these, as `walrow.schema`
            takes them. Include all captures that may have another version of the table.
        table: The table, as in `decode`. Optional with `envelope=True`.
        **options: As in `decode`.

    Raises:
        SchemaError: No source contains the table, or no type holds all values of a column.
    """
    require("pyarrow", "pyspark")
    check_options(table, {**options})
    found = pa.schema(
        schemas.schema(_local_source(source), table, profile="spark", **options)
    )
    struct = spark_schema(found)
    if (origin := origin_of(found)) is None:
        return struct
    # The table of the schema, for `decode`.
    metadata = dict(zip(("pg.schema", "pg.table"), origin, strict=True))
    return types.StructType(
        [
            types.StructField(field.name, field.dataType, field.nullable, metadata)
            for field in struct.fields
        ]
    )


def spark_schema(found: pa.Schema) -> types.StructType:
    """Converts a schema of the profile `spark`."""
    from pyspark.sql.pandas.types import from_arrow_schema

    def marked(field: pa.Field) -> pa.Field:
        """In 4.1, Spark expects metadata of fields of structs."""
        kind = field.type
        if pa.types.is_list(kind):
            return field.with_type(pa.list_(marked(kind.value_field)))
        if not pa.types.is_struct(kind):
            return field
        parts = [marked(part).with_metadata({"of": field.name}) for part in kind]
        return field.with_type(pa.struct(parts))

    plain = pa.schema([marked(field) for field in found])
    return from_arrow_schema(plain, prefer_timestamp_ntz=True)


def fields_of(applied: AppliedTable) -> list[Any]:
    """The columns of a target, as Spark's fields."""
    return list(spark_schema(applied.own).fields)


def check_options(
    table: TableName | None,
    options: Mapping[str, object],
) -> None:
    """Refuses options that Spark cannot have."""
    if table is None and not options.get("envelope") and "tables" not in options:
        text = "choose a table with table=, or use envelope=True for all tables"
        raise OptionError(text)
    if options.get("tables") is not None and not options.get("envelope"):
        raise OptionError(
            "in Spark, the rows of one function have one schema: choose one table with "
            "table=, or use envelope=True with tables="
        )
    chosen: Any = options.get("tables") or ()
    if any(is_fixed(each, envelope=False) for each in chosen):
        text = 'in Spark, read a side table by itself: table="walrow.transactions"'
        raise OptionError(text)
    if "profile" in options:
        text = "profile is fixed in Spark: its types are those of the profile spark"
        raise OptionError(text)


def is_fixed(table: TableName | None, *, envelope: bool) -> bool:
    """Whether it reads envelopes or a side table, whose columns are fixed."""
    name = ".".join(table) if isinstance(table, tuple) else table
    return envelope or name in SIDE_TABLES


def origin_of(schema: Any) -> tuple[str, str] | None:
    """The schema and the name of the table that a schema was made for, if it has them."""
    metadata = getattr(schema, "metadata", None)
    if metadata is None:
        metadata = next((field.metadata for field in getattr(schema, "fields", ())), {})
    metadata = {_text(key): _text(value) for key, value in metadata.items()}
    if "pg.schema" in metadata and "pg.table" in metadata:
        return metadata["pg.schema"], metadata["pg.table"]
    return None


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def compare(table: TableName, origin: tuple[str, str]) -> None:
    """Refuses a table that differs from the schema's: every capture might lack it."""
    if table not in {origin, ".".join(origin), origin[1]}:
        text = f"the schema is that of {'.'.join(origin)}, not of {table!r}"
        raise SchemaError(text, table=".".join(origin))


def require(*names: str) -> None:
    """Imports packages that walrow.spark needs. Says how to install them."""
    _late.require(*names, part="spark")


def arrow_schema(schema: Any) -> pa.Schema:
    """Converts any schema to a pyarrow schema, which can be pickled."""
    require("pyarrow")
    if hasattr(schema, "__arrow_c_schema__"):
        return named_alike(pa.schema(schema))
    require("pyspark")
    from pyspark.sql.pandas.types import to_arrow_schema

    if not isinstance(schema, types.StructType):
        text = f"schema must be a StructType or an Arrow schema, not {type(schema).__name__}"
        raise OptionError(text)
    try:
        arrow = to_arrow_schema(schema, timezone="UTC")
    except TypeError:
        # Before 4.2, the parameter did not exist, and the time zone was always UTC.
        arrow = to_arrow_schema(schema)
    return named_alike(arrow)


def named_alike(schema: pa.Schema) -> pa.Schema:
    """Names the items of lists as walrow does: Spark accepts any name."""

    def renamed(field: pa.Field) -> pa.Field:
        found = field.type
        if pa.types.is_list(found):
            item = renamed(found.value_field.with_name("item"))
            return field.with_type(pa.list_(item))
        if pa.types.is_struct(found):
            return field.with_type(pa.struct([renamed(part) for part in found]))
        return field

    return pa.schema([renamed(field) for field in schema], schema.metadata)


def _local_source(source: Any) -> Any:
    if isinstance(source, str):
        return local(source)
    if isinstance(source, list | tuple):
        return [_local_source(each) for each in source]
    return source
