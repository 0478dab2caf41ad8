"""walrow for PySpark: converts captures in a DataFrame to typed change rows.

```python
import walrow.spark

schema = walrow.spark.schema("captures/", "public.orders")
decode = walrow.spark.decode(table="public.orders", schema=schema)
files = spark.read.format("binaryFile").load("captures/")
changes = files.select("path").mapInArrow(decode, schema)
```

Each value is one self-contained capture: either its bytes, in a binary column, or its
path or URL, in a string column. The task opens the path itself. Use paths if the
executors can open them: this is several times as fast, and files do not have to fit in
memory. Captures may be compressed with gzip or zstd, or written by pg_recvlogical: this
is recognised for each value.

Spark matches columns by position and type, never by name. So use `schema` to declare
the schema: it comes from the same code as the batches, and has the columns of all
versions of the table.
"""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import walrow
from walrow.conninfo import is_conninfo, without_credentials
from walrow.errors import DecodeError, Error, OptionError, SchemaError
from walrow.signatures import with_options
from walrow.sources import Chunks
from walrow.typing import SparkOptions, SparkSchemaOptions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Unpack

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from walrow.typing import Framing, TableName

__all__ = ["decode", "schema"]


@with_options(SparkOptions)
def decode(
    *,
    table: TableName | None = None,
    schema: Any = None,
    column: str | None = None,
    **options: Unpack[SparkOptions],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns a function for `DataFrame.mapInArrow` that decodes one table's changes.

    The function can be pickled, and its output depends only on its input, so tasks may
    be retried and run speculatively.

    Args:
        table: The table, as `"orders"`, `"public.orders"` or `("public", "orders")`.
            Include its schema: a task refuses captures that have a table of this name
            in different schemas, but it does not see the captures of other tasks. Side
            tables, such as `"walrow.transactions"`, are read like other tables. With
            `envelope=True`, the default is all tables, and `tables` chooses several.
        schema: The schema that every capture is projected onto, by column name: a
            `StructType` or any Arrow schema. Columns that a capture lacks are null and
            listed in `_unsent`. Columns that the schema lacks are an error, unless
            `columns` leaves them out. Without `schema`, all captures must contain the table,
            with the same columns. For a side table or an envelope, it selects columns.
        column: The column with the captures (binary) or their paths (string). Default:
            the only binary column, otherwise the only string column.
        **options: The options in the signature are those of `walrow.read`, for each
            capture by itself. `framing` and `profile` are fixed. A catalog's file is read
            once, on the driver. `unfinished="ignore"` fits captures whose incomplete
            transactions are in other captures again. `missing_table` is `"ignore"` by
            default if `schema` comes from `walrow.spark.schema`, which has found the
            table: then a capture without the table has no rows. With another schema, it
            is an error, because a task does not know whether other captures have it.

    Raises:
        OptionError: The options are invalid or contradict each other.
        SchemaError: The schema does not fit the table.
    """
    _check(table, {**options})
    declared = None if schema is None else _arrow_schema(schema)
    if table is not None and (origin := _origin(schema)) is not None:
        _compare(table, origin)
        options.setdefault("missing_table", "ignore")
    function = _Decode(table, declared, column, options)
    # Validate options on the driver.
    function.decoder()
    catalog = options.get("catalog")
    if isinstance(catalog, str | os.PathLike):
        # Executors may not have the file.
        options["catalog"] = walrow.Catalog.from_file(catalog)
    return function


@with_options(SparkSchemaOptions)
def schema(
    source: Any,
    table: TableName | None = None,
    **options: Unpack[SparkSchemaOptions],
) -> StructType:
    """Returns one schema for all versions of a table, for `decode` and `mapInArrow`.

    Args:
        source: A catalog, captures, directories or a list of these, as `walrow.schema`
            takes them. Include all captures that may have another version of the table.
        table: The table, as in `decode`. Optional with `envelope=True`.
        **options: As in `decode`.

    Raises:
        SchemaError: No source contains the table, or no type holds all values of a column.
    """
    _require("pyarrow", "pyspark")
    import pyarrow as pa
    from pyspark.sql.pandas.types import from_arrow_schema
    from pyspark.sql.types import StructField, StructType

    _check(table, {**options})
    found = pa.schema(
        walrow.schema(_local_source(source), table, profile="spark", **options)
    )
    struct = from_arrow_schema(found, prefer_timestamp_ntz=True)
    if (origin := _origin(found)) is None:
        return struct
    # The table of the schema, for `decode`.
    metadata = dict(zip(("pg.schema", "pg.table"), origin, strict=True))
    return StructType(
        [
            StructField(field.name, field.dataType, field.nullable, metadata)
            for field in struct.fields
        ]
    )


def _local_source(source: Any) -> Any:
    if isinstance(source, str):
        return _local(source)
    if isinstance(source, list | tuple):
        return [_local_source(each) for each in source]
    return source


@dataclass(frozen=True)
class _Decode:
    """The function that `decode` returns: only plain values, so it can be pickled."""

    table: TableName | None
    schema: pa.Schema | None
    column: str | None
    options: SparkOptions

    def decoder(self, framing: Framing | None = None) -> walrow.Decoder:
        """Creates a decoder for one capture."""
        schema = None if self.fixed else self.schema
        return walrow.Decoder(
            table=self.table,
            schema=schema,
            framing=framing,
            profile="spark",
            **self.options,
        )

    @property
    def fixed(self) -> bool:
        """Whether walrow defines the schema of the batches."""
        return _is_fixed(self.table, envelope=self.options.get("envelope", False))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decodes all captures of a partition."""
        import pyarrow as pa

        common = self.schema
        found: tuple[str, str] | None = None
        for place, source in self._sources(batches):
            try:
                for batch in self._capture(source):
                    name = (batch.schema_name, batch.table_name)
                    if found is None:
                        found = name
                    elif name != found:
                        text = (
                            f"{self.table!r} matches several tables in the captures, "
                            f"{found} and {name}; name one with its schema, as a pair"
                        )
                        raise SchemaError(text, table=batch.table)
                    records = pa.record_batch(batch)
                    if self.fixed and self.schema is not None:
                        yield _chosen(records, self.schema)
                        continue
                    if common is None:
                        common = records.schema
                    elif self.schema is None and not records.schema.equals(common):
                        text = (
                            "the captures have several versions of the table; pass "
                            "decode a schema= for all of them"
                        )
                        raise SchemaError(text, table=batch.table)
                    yield records
            except Error as error:
                error.add_note(f"walrow: in {place}")
                raise

    def _sources(
        self, batches: Iterator[pa.RecordBatch]
    ) -> Iterator[tuple[str, str | memoryview]]:
        """Each capture's bytes or path, and its position."""
        row = 0
        for batch in batches:
            name = _choose(batch.schema, self.column)
            values = batch.column(name)
            binary = _is_binary(values.type)
            paths = None
            if binary and "path" in batch.schema.names:
                paths = batch.column("path")
            for index, value in enumerate(values):
                row += 1
                place = f"column {name}, row {row} of the task's input"
                if paths is not None and paths[index].is_valid:
                    place += f", path {_shown(str(paths[index]))}"
                if not value.is_valid:
                    text = (
                        f"NULL in {place}: each value must be a capture or the path of "
                        f"one; remove NULLs first"
                    )
                    raise DecodeError(text, column=name)
                if binary:
                    yield place, memoryview(value.as_buffer())
                else:
                    yield f"{place}, path {_shown(str(value))}", str(value)

    def _capture(self, source: str | memoryview) -> Iterator[walrow.Batch]:
        """All batches of one capture."""
        size, head = 0, b""
        try:
            blocks = Chunks(
                _local(source) if isinstance(source, str) else source,
                unfinished=self.options.get("unfinished"),
            )
            decoder = self.decoder(blocks.begin())
            for block in blocks:
                head = head or bytes(block[:_FRAME_HEADER])
                size += len(block)
                yield from decoder.feed(block)
        except OSError as error:
            text = (
                f"the capture cannot be read: {error.strerror or type(error).__name__}"
            )
            raise Error(text) from error
        except DecodeError as error:
            if error.offset is not None and error.offset < _FRAME_HEADER:
                text = f"{_NO_CAPTURE} ({error})"
                raise DecodeError(text, offset=error.offset) from None
            raise
        if size == 0:
            text = f"the value is empty. {_NO_CAPTURE}"
            raise DecodeError(text, offset=0)
        if blocks.framing == "wire" and (
            size < _FRAME_HEADER or int.from_bytes(head[1:], "big") >= size
        ):
            text = f"the value ends inside its first frame. {_NO_CAPTURE}"
            raise DecodeError(text, offset=size)
        yield from decoder.finish()


def _shown(path: str) -> str:
    """The path for errors, without credentials."""
    return "(a connection string)" if is_conninfo(path) else without_credentials(path)


def _is_fixed(table: TableName | None, *, envelope: bool) -> bool:
    """Whether it reads envelopes or a side table, whose columns are fixed."""
    name = ".".join(table) if isinstance(table, tuple) else table
    return envelope or name in _SIDE_TABLES


_SIDE_TABLES = {
    f"walrow.{name}" for name in ("transactions", "messages", "relations", "truncates")
}


def _chosen(records: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Selects the columns that the schema names. Spark trusts their types, so they are compared."""
    found = _named_alike(records.schema)
    for name in schema.names:
        if name not in found.names:
            text = f"no column {name}, only {', '.join(found.names)}"
            raise SchemaError(text, column=name)
        declared, own = schema.field(name).type, found.field(name).type
        if declared != own:
            text = f"{name} is {own}, but {declared} in the schema"
            raise SchemaError(text, column=name)
    return records.select(schema.names)


def _check(
    table: TableName | None,
    options: Mapping[str, object],
) -> None:
    if table is None and not options.get("envelope") and "tables" not in options:
        text = "choose a table with table=, or use envelope=True for all tables"
        raise OptionError(text)
    if options.get("tables") is not None and not options.get("envelope"):
        text = (
            "in Spark, the rows of one function have one schema: choose one table with "
            "table=, or use envelope=True with tables="
        )
        raise OptionError(text)
    if options.get("side_tables"):
        text = 'in Spark, read a side table by itself: table="walrow.transactions"'
        raise OptionError(text)
    for name in ("framing", "profile"):
        if name in options:
            text = f"{name} is fixed in Spark: each value is a capture as the server sent it"
            raise OptionError(text)


def _origin(schema: Any) -> tuple[str, str] | None:
    """The schema and the name of the table that a schema was made for, if it says so."""
    metadata = getattr(schema, "metadata", None)
    if metadata is None:
        metadata = next((field.metadata for field in getattr(schema, "fields", ())), {})
    metadata = {_text(key): _text(value) for key, value in metadata.items()}
    if "pg.schema" in metadata and "pg.table" in metadata:
        return metadata["pg.schema"], metadata["pg.table"]
    return None


def _text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


def _compare(table: TableName, origin: tuple[str, str]) -> None:
    """Refuses a table that is not that of the schema: every capture might lack it."""
    if table not in {origin, ".".join(origin), origin[1]}:
        text = f"the schema is that of {'.'.join(origin)}, not of {table!r}"
        raise SchemaError(text, table=".".join(origin))


def _require(*names: str) -> None:
    """Imports packages that walrow.spark needs. Says how to install them."""
    for name in names:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
            text = f"walrow.spark needs {name}: pip install 'walrow[spark]'"
            raise ModuleNotFoundError(text, name=name) from None


def _arrow_schema(schema: Any) -> pa.Schema:
    """Converts any schema to a pyarrow schema, which can be pickled."""
    _require("pyarrow")
    import pyarrow as pa

    if hasattr(schema, "__arrow_c_schema__"):
        return _named_alike(pa.schema(schema))
    _require("pyspark")
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    if not isinstance(schema, StructType):
        text = f"schema must be a StructType or an Arrow schema, not {type(schema).__name__}"
        raise OptionError(text)
    try:
        arrow = to_arrow_schema(schema, timezone="UTC")
    except TypeError:
        # Before 4.2, the parameter did not exist, and the time zone was always UTC.
        arrow = to_arrow_schema(schema)
    return _named_alike(arrow)


def _named_alike(schema: pa.Schema) -> pa.Schema:
    """Names the items of lists as walrow does: Spark accepts any name."""
    import pyarrow as pa

    def renamed(field: pa.Field) -> pa.Field:
        found = field.type
        if pa.types.is_list(found):
            item = renamed(found.value_field.with_name("item"))
            return field.with_type(pa.list_(item))
        if pa.types.is_struct(found):
            return field.with_type(pa.struct([renamed(part) for part in found]))
        return field

    return pa.schema([renamed(field) for field in schema], schema.metadata)


def _choose(columns: pa.Schema, name: str | None) -> str:
    """Returns the name of the column with the captures."""
    if name is not None:
        if name not in columns.names:
            text = (
                f"no column {name} in the DataFrame, only {', '.join(columns.names)}; "
                "see column="
            )
            raise SchemaError(text, column=name)
        found = columns.field(name).type
        if not (_is_binary(found) or _is_string(found)):
            text = (
                f"column {name} is {found}; walrow needs a binary column with captures "
                "or a string column with their paths"
            )
            raise SchemaError(text, column=name)
        return name
    for kind, fits in (("binary", _is_binary), ("string", _is_string)):
        names: list[str] = [column.name for column in columns if fits(column.type)]
        if len(names) == 1:
            return names[0]
        if names:
            text = (
                f"the DataFrame has several {kind} columns, {', '.join(names)}; choose "
                "one with column="
            )
            raise SchemaError(text)
    text = (
        "the DataFrame has neither a binary column with captures nor a string column "
        "with their paths"
    )
    raise SchemaError(text)


def _is_binary(found: pa.DataType) -> bool:
    from pyarrow import types

    kinds = (types.is_binary, types.is_large_binary, types.is_binary_view)
    return any(fits(found) for fits in kinds)


def _is_string(found: pa.DataType) -> bool:
    from pyarrow import types

    kinds = (types.is_string, types.is_large_string, types.is_string_view)
    return any(fits(found) for fits in kinds)


def _local(path: str) -> str:
    """Removes `file:`, which Spark's sources write before a path.

    It has a single slash both in paths of `binaryFile`, such as `file:/tmp/a b`, which
    are not escaped, and in URLs of `input_file_name()` and `_metadata.file_path`, such
    as `file:/tmp/a%20b`.
    """
    if not path.startswith("file:"):
        return path
    plain = path.removeprefix("file:")
    if plain.startswith("//"):
        _, slash, rest = plain.removeprefix("//").partition("/")
        return unquote(slash + rest)
    decoded = unquote(plain)
    if decoded == plain or not Path(decoded).exists():
        return plain
    if Path(plain).exists():
        text = (
            "the path can mean two files that both exist, one with % in its name and one "
            "without; remove file: from the path"
        )
        raise Error(text)
    return decoded


# Every frame of a capture begins with a type byte and a length.
_FRAME_HEADER = 5
_NO_CAPTURE = (
    "the value is not a capture: each value must contain a replication connection's "
    "bytes as the server sent them, with all messages needed to decode them. A single "
    "pgoutput message or CopyData payload, as in Kafka, cannot be decoded by itself; "
    "feed the payloads of a connection in order to "
    'walrow.Decoder(framing="copydata"), or store them as captures first'
)
