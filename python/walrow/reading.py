"""The front doors: from a source to batches, to frames, and from a catalog to a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walrow._core import Catalog, Frames, Reader, Schema, catalog_schema
from walrow.sources import blocks

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from walrow.typing import (
        ArrowSchemaExportable,
        Framing,
        Policy,
        Profile,
        Source,
        TableName,
    )

__all__ = ["messages", "read", "schema"]


def read(
    source: Source,
    *,
    table: TableName | None = None,
    schema: ArrowSchemaExportable | None = None,
    framing: Framing = "wire",
    profile: Profile = "arrow",
    types: Mapping[str, ArrowSchemaExportable | str] | None = None,
    unrepresentable: Policy | Mapping[str, Policy] = "error",
    catalog: Catalog | None = None,
    session: Mapping[str, str] | None = None,
    trim_bpchar: bool = False,
    metadata: Sequence[str] | None = None,
    metadata_prefix: str = "_",
    batch_rows: int = 16384,
    batch_bytes: int = 32 << 20,
    batch_memory: int = 128 << 20,
    side_tables: Sequence[str] = (),
    envelope: bool = False,
    start: int | str | None = None,
    late_start: bool = False,
    spool_memory: int = 64 << 20,
    spool_directory: str | os.PathLike[str] | None = None,
    message_limit: int | None = None,
) -> Reader:
    """Reads the committed rows of a stream, lazily.

    >>> import walrow
    >>> with walrow.read("tests/data/18/rows.text.wire") as reader:
    ...     for batch in reader:
    ...         print(batch.table, batch.num_rows)
    public.item 10
    public.stock 7

    One table is an Arrow stream, for whatever takes one:

    >>> import pyarrow as pa
    >>> path = "tests/data/18/rows.text.wire"
    >>> items = pa.table(walrow.read(path, table="public.item"))
    >>> items.select(["id", "label", "_change_type", "_seq"]).to_pylist()[0]
    {'id': 1, 'label': 'one', '_change_type': 'insert', '_seq': 0}

    Args:
        source: A path, a URL (opened with fsspec), a binary file object, a bytes-like
            object, or an iterable of chunks.
        table: One table, as `"public.orders"`, `"orders"` or `("public", "orders")`. All
            batches then have one schema, and the reader is an Arrow stream. What else the
            stream tells are tables too: `"walrow.transactions"`, `"walrow.messages"`,
            `"walrow.relations"`, `"walrow.truncates"`.
        schema: With `table`, any Arrow schema that every version of the table is projected
            onto, by the columns' names. Columns that a version lacks are null and listed
            in `_unsent`. Without it, a change of the table's columns is a `SchemaError`.
        framing: `"wire"`, the connection's bytes, cut anywhere; `"copydata"`, each chunk
            one payload of CopyData, as drivers hand them out; `"message"`, each chunk one
            bare pgoutput message, or a tuple of LSN, transaction ID and message, as
            `pg_logical_slot_get_binary_changes` returns them.
        profile: `"arrow"`, native types; `"spark"`, only types that Spark and table formats
            take; `"text"`, every column as the text that PostgreSQL writes.
        types: Arrow types for columns (`"total"`, `"orders.total"`,
            `"public.orders.total"`) or PostgreSQL types (`"numeric"`, `"_int4"`) that shall
            have another than the profile gives: `"string"`, `"decimal128(38, 9)"`,
            `pa.int64()`.
        unrepresentable: What becomes of a value that its Arrow type cannot hold: `"error"`,
            `"null"` (counted in `Reader.nulled`), `"sentinel"` (infinite dates and
            timestamps become the largest or smallest ones); or a policy for each column or
            PostgreSQL type, with the key `"*"` for all others.
        catalog: What is known of user-defined types.
        session: The settings that the stream was written under, where they are not those of
            `walrow.postgres.settings`: `{"DateStyle": "SQL, DMY", "IntervalStyle":
            "sql_standard", "client_encoding": "LATIN1"}`. Without it, values that other
            settings shaped are a `DecodeError`.
        trim_bpchar: Leaves out the blanks that `character(n)` is filled up with.
        metadata: Which metadata columns follow the table's own, with or without their
            prefix: `change_type`, `commit_lsn`, `seq`, `commit_timestamp`, `xid`,
            `key_only`, `unsent`. None stands for all, `()` for none.
        metadata_prefix: What the metadata columns' names begin with.
        batch_rows: How many rows a batch has at most. The two images of an update are never
            split, so a batch of 1 may have 2.
        batch_bytes: After how many bytes of values a batch is full; at most 512 MiB.
        batch_memory: How many bytes the unfinished batches of all tables hold before the
            fullest is handed out.
        side_tables: Side tables whose batches come along with the others:
            `["transactions", "messages"]`. The reader is no Arrow stream then.
        envelope: Gives all tables, or the chosen one, one schema: `schema_name`,
            `table_name`, `key` and `data` as maps of column names to PostgreSQL's own text,
            then the metadata columns. The reader is an Arrow stream then.
        start: Leaves out what was delivered before: transactions that end, and
            non-transactional messages that lie, at this LSN or before it. A number, or as
            PostgreSQL writes it: `"0/1A2B"`. Set it also for a capture that begins later than
            its slot: then a COMMIT PREPARED whose rows are missing is an error.
        late_start: Leaves out streamed transactions whose first chunk, and prepared ones
            whose rows, lie before the stream, where they are errors otherwise.
        spool_memory: How many bytes of memory open and prepared transactions take over all;
            beyond it they wait in files.
        spool_directory: Where these files are; the system's directory for temporary files
            by default. They have no name and vanish by themselves.
        message_limit: The largest pgoutput message, and so the largest row, that is taken, in
            bytes; by default the 1 GiB that PostgreSQL never passes.

    Raises:
        OptionError: The options contradict each other or name what there is not.
        OSError: The file cannot be opened.

    While reading, `DecodeError`, `UnrepresentableError`, `SchemaError` and `SpoolError` come after all
    that was before them was handed out; so do the source's own exceptions.
    """
    return Reader(
        blocks(source, framing=framing),
        table=table,
        schema=schema,
        framing=framing,
        profile=profile,
        types=types,
        unrepresentable=unrepresentable,
        catalog=catalog,
        session=session,
        trim_bpchar=trim_bpchar,
        metadata=metadata,
        metadata_prefix=metadata_prefix,
        batch_rows=batch_rows,
        batch_bytes=batch_bytes,
        batch_memory=batch_memory,
        side_tables=side_tables,
        envelope=envelope,
        start=start,
        late_start=late_start,
        spool_memory=spool_memory,
        spool_directory=spool_directory,
        message_limit=message_limit,
    )


def messages(source: Source, *, framing: Framing = "wire") -> Frames:
    """Gives every frame of a stream, its message and their fields, as they were sent.

    Nothing is left out or put together: messages of transactions that roll back are there.

    >>> import walrow
    >>> path = "tests/data/18/rows.text.wire"
    >>> for frame in walrow.messages(path):
    ...     if frame.message and frame.message.kind == "I":
    ...         print(frame.message.name, frame.message.new)
    ...         break
    Insert ['1', 'one', '1.50']

    What is read can be written again, byte for byte:

    >>> from pathlib import Path
    >>> data = b"".join(frame.to_bytes() for frame in walrow.messages(path))
    >>> data == Path(path).read_bytes()
    True

    Args:
        source: As in `read`.
        framing: As in `read`.

    Raises:
        DecodeError: While iterating: bytes that are not the protocol.
    """
    return Frames(blocks(source, framing=framing), framing=framing)


def schema(catalog: Catalog, table: TableName, **options: Any) -> Schema:
    """Gives the schema that `read(table=...)` has, from a catalog's table.

    Its metadata lacks `pg.replica_identity` alone, which only the stream tells.

    >>> import walrow
    >>> catalog = walrow.Catalog(
    ...     '{"tables": [{"schema": "public", "name": "t", "oid": 16400,'
    ...     ' "columns": [{"name": "id", "type": 23, "key": true}]}]}'
    ... )
    >>> walrow.schema(catalog, "t", metadata=["change_type"])
    <walrow.Schema id: Int32, _change_type: Utf8>

    Args:
        catalog: A catalog that has the table.
        table: As in `read`.
        **options: `schema`, `profile`, `types`, `unrepresentable`, `metadata`,
            `metadata_prefix` and `envelope`, as in `read`.

    Raises:
        SchemaError: The catalog has no such table, or several of that name.
        OptionError: As in `read`.
    """
    return catalog_schema(catalog, table, **options)
