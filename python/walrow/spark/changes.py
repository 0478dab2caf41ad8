"""A DataFrame of captures becomes one of changes: `mapInArrow` for the usual case."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Unpack

from walrow._late import pa
from walrow._read.signatures import with_options
from walrow.errors import OptionError, SchemaError
from walrow.spark.decoding import capture_column, decode
from walrow.spark.schemas import FIXED, require
from walrow.spark.schemas import schema as schema_of
from walrow.typing import SparkOptions, SparkSchemaOptions, TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@with_options(SparkOptions, elsewhere=FIXED)
def changes(
    captures: DataFrame,
    table: TableName | None = None,
    *,
    schema: Any = None,
    column: str | None = None,
    **options: Unpack[SparkOptions],
) -> DataFrame:
    """Decodes captures into the changes of one table.

    ```python
    files = spark.read.format("binaryFile").load("captures/").select("path")
    orders = walrow.spark.changes(files, "public.orders")
    ```

    It is `captures.mapInArrow(decode(...), schema)`. See docs/spark.md for its limits.

    Args:
        captures: A DataFrame with a column of captures: of their paths (string), which the
            tasks open, or of their bytes (binary). Each value is a self-contained capture.
        table: The table, as in `decode`. Optional with `envelope=True`.
        schema: The columns, as in `decode`. Default: the columns of all versions
            in all captures. To find them, the driver collects the paths and reads all
            captures once. So it is required for bytes and for streaming DataFrames.
        column: As in `decode`.
        **options: As in `decode`.

    Returns:
        The changes. Not ordered: a task decodes its captures in their order.

    Raises:
        OptionError: The options are invalid or contradict each other, or the schema is
            missing.
        SchemaError: The DataFrame has no such column, or no capture has the table.
    """
    require("pyarrow", "pyspark")
    from pyspark.sql import DataFrame, functions

    if not isinstance(captures, DataFrame):
        text = f"captures must be a DataFrame of Spark, not {type(captures).__name__}"
        raise OptionError(text)
    name = _column(captures, column)
    if schema is None:
        schema = schema_of(_paths(captures, name), table, **_for_schema(options))
    # Spark's mapInArrow finds no column with such a name.
    plain = "capture" if set(name) & {".", "`"} else name
    chosen = [functions.col(_quoted(name)).alias(plain)]
    if "path" in captures.columns and name != "path":
        # Spark's sources write it beside the bytes: errors name it.
        chosen.append(functions.col("path"))
    function = decode(table=table, schema=schema, column=plain, **options)
    return captures.select(*chosen).mapInArrow(function, schema)


def _column(captures: DataFrame, column: str | None) -> str:
    """The name of the column with the captures or their paths."""
    kinds = {"binary": pa.binary(), "string": pa.string()}
    fields = [
        (field.name, kinds.get(field.dataType.typeName(), pa.null()))
        for field in captures.schema.fields
    ]
    return capture_column(pa.schema(fields), column)


def _paths(captures: DataFrame, name: str) -> list[str]:
    """The paths of all captures, if the driver can find the schema in them."""
    if captures.isStreaming or captures.schema[name].dataType.typeName() == "binary":
        what = "a streaming DataFrame" if captures.isStreaming else "captures as bytes"
        text = f"{what} needs schema=: walrow.spark.schema(...) of captures, or of a catalog"
        raise OptionError(text)
    rows = captures.select(_quoted(name)).distinct().collect()
    paths = sorted(row[0] for row in rows if row[0] is not None)
    if not paths:
        text = "the DataFrame has no captures, so there is no schema; see schema="
        raise SchemaError(text)
    return paths


def _for_schema(options: Any) -> Any:
    """The options that also determine the schema."""
    names = SparkSchemaOptions.__annotations__
    return {name: value for name, value in options.items() if name in names}


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
