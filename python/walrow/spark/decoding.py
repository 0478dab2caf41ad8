"""A function for `DataFrame.mapInArrow`: captures in, change rows out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Unpack

from walrow._core import FRAME_HEADER, Batch, Catalog, Decoder, frame_size
from walrow._late import pa
from walrow._read.signatures import with_options
from walrow._secrets import reason_of, shown
from walrow._sources.chunks import Chunks
from walrow.errors import DecodeError, Error, SchemaError
from walrow.spark.paths import local
from walrow.spark.schemas import (
    FIXED,
    arrow_schema,
    check_options,
    compare,
    is_fixed,
    named_alike,
    origin_of,
)
from walrow.typing import Framing, SparkOptions, TableName


@with_options(SparkOptions, elsewhere=FIXED)
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
            capture by itself. `profile` is fixed. A catalog's file is read
            once, on the driver. `unfinished="ignore"` fits captures whose incomplete
            transactions are in other captures again. `missing_table` is `"ignore"` by
            default if `schema` comes from `walrow.spark.schema`, which has found the
            table: then a capture without the table has no rows. With another schema, it
            is an error, because a task does not know whether other captures have it.

    Raises:
        OptionError: The options are invalid or contradict each other.
        SchemaError: The schema does not fit the table.
    """
    check_options(table, {**options})
    declared = None if schema is None else arrow_schema(schema)
    if table is not None and (origin := origin_of(schema)) is not None:
        compare(table, origin)
        options.setdefault("missing_table", "ignore")
    function = _Decode(table, declared, column, options)
    # Validate options on the driver.
    function.decoder()
    catalog = options.get("catalog")
    if isinstance(catalog, str | os.PathLike):
        # Executors may not have the file.
        options["catalog"] = Catalog.from_file(catalog)
    return function


@dataclass(frozen=True)
class _Decode:
    """The function that `decode` returns: only plain values, so it can be pickled."""

    table: TableName | None
    schema: pa.Schema | None
    column: str | None
    options: SparkOptions

    def decoder(self, framing: Framing = "wire") -> Decoder:
        """Creates a decoder for one capture."""
        schema = None if self.fixed else self.schema
        return Decoder(
            table=self.table,
            schema=schema,
            framing=framing,
            profile="spark",
            **self.options,
        )

    @property
    def fixed(self) -> bool:
        """Whether walrow defines the schema of the batches."""
        return is_fixed(self.table, envelope=self.options.get("envelope", False))

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Decodes all captures of a partition."""
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
            name = capture_column(batch.schema, self.column)
            values = batch.column(name)
            binary = _is_binary(values.type)
            paths = None
            if binary and "path" in batch.schema.names:
                paths = batch.column("path")
            for index, value in enumerate(values):
                row += 1
                place = f"column {name}, row {row} of the task's input"
                if paths is not None and paths[index].is_valid:
                    place += f", path {shown(str(paths[index]))}"
                if not value.is_valid:
                    text = (
                        f"NULL in {place}: each value must be a capture or the path of "
                        f"one; remove NULLs first"
                    )
                    raise DecodeError(text, column=name)
                if binary:
                    yield place, memoryview(value.as_buffer())
                else:
                    yield f"{place}, path {shown(str(value))}", str(value)

    def _capture(self, source: str | memoryview) -> Iterator[Batch]:
        """All batches of one capture."""
        size, head = 0, b""
        try:
            blocks = Chunks(
                local(source) if isinstance(source, str) else source,
                unfinished=self.options.get("unfinished"),
            )
            decoder = self.decoder(blocks.begin())
            for block in blocks:
                head = head or bytes(memoryview(block)[:FRAME_HEADER])
                size += len(block)
                yield from decoder.feed(block)
        except OSError as error:
            raise Error(f"the capture cannot be read: {reason_of(error)}") from error
        except DecodeError as error:
            if error.offset is not None and error.offset < FRAME_HEADER:
                text = f"{_NO_CAPTURE} ({error})"
                raise DecodeError(text, offset=error.offset) from None
            raise
        if size == 0:
            raise DecodeError(f"the value is empty. {_NO_CAPTURE}", offset=0)
        if blocks.framing == "wire" and (
            (first := frame_size(head)) is None or first > size
        ):
            text = f"the value ends inside its first frame. {_NO_CAPTURE}"
            raise DecodeError(text, offset=size)
        yield from decoder.finish()


def _chosen(records: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Selects the columns that the schema names. Spark trusts their types, so they are compared."""
    found = named_alike(records.schema)
    for name in schema.names:
        if name not in found.names:
            text = f"no column {name}, only {', '.join(found.names)}"
            raise SchemaError(text, column=name)
        declared, own = schema.field(name).type, found.field(name).type
        if declared != own:
            text = f"{name} is {own}, but {declared} in the schema"
            raise SchemaError(text, column=name)
    return records.select(schema.names)


def capture_column(columns: pa.Schema, name: str | None) -> str:
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
            raise SchemaError(
                f"the DataFrame has several {kind} columns, {', '.join(names)}; choose "
                "one with column="
            )
    raise SchemaError(
        "the DataFrame has neither a binary column with captures nor a string column "
        "with their paths"
    )


def _is_binary(found: pa.DataType) -> bool:
    kinds = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view)
    return any(fits(found) for fits in kinds)


def _is_string(found: pa.DataType) -> bool:
    kinds = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(fits(found) for fits in kinds)


# Every frame of a capture begins with a type byte and a length.
_NO_CAPTURE = (
    "the value is not a capture: each value must contain a replication connection's "
    "bytes as the server sent them, with all messages needed to decode them. A single "
    "pgoutput message or CopyData payload, as in Kafka, cannot be decoded by itself; "
    "feed the payloads of a connection in order to "
    'walrow.Decoder(framing="copydata"), or store them as captures first'
)
