"""The main functions: source to batches, source to frames."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import Literal, Unpack

from walrow._core import Frames, Message, Reader
from walrow._read.schemas import schema_of_all
from walrow._read.signatures import with_options
from walrow._read.starts import start_of
from walrow._sources.chunks import Chunks
from walrow._sources.logs import part_of
from walrow.typing import Options, Source


@with_options(Options)
def read(
    source: Source,
    *,
    versions: Literal["one", "union"] = "one",
    threads: int = 1,
    **options: Unpack[Options],
) -> Reader:
    """Reads the committed row changes of a stream, lazily.

    >>> import walrow
    >>> with walrow.read("tests/data/18/rows.text.wire") as reader:
    ...     for batch in reader:
    ...         print(batch.table, batch.num_rows)
    public.item 10
    public.stock 7

    With one table, the reader is an Arrow stream, for any consumer of Arrow streams:

    >>> import pyarrow as pa
    >>> path = "tests/data/18/rows.text.wire"
    >>> items = pa.table(walrow.read(path, table="public.item"))
    >>> items.select(["id", "label", "_change_type", "_seq"]).to_pylist()[0]
    {'id': 1, 'label': 'one', '_change_type': 'insert', '_seq': 0}

    Args:
        source: The bytes that a server sent, in one of these forms. The first bytes or the first
            chunk decide which: a `Decoder` takes bytes that cannot be recognised.

            - The path or the URL (opened with fsspec) of a capture, or a binary file
              object. Files of pg_recvlogical are captures too. gzip and zstd are
              decompressed, whatever the file's name is.
            - A `Log`, or its directory. Segments that the options exclude are not read.
            - Another directory: all files in it and in its subdirectories, except those whose
              names begin with `.` or `_`. Or a pattern: `"captures/2026-*.wire.gz"`.
              Files are ordered by name, compared character by character.
            - An iterable of paths, patterns and files, in this order. Several files are
              one stream, as if they were one file.
            - The bytes of a capture, or an iterable of chunks, as a connection receives
              them. An empty chunk of bytes that are cut anywhere says that nothing more
              came for now: all complete rows are returned before the next chunk.
            - The rows of `pg_logical_slot_get_binary_changes` or
              `pg_logical_slot_peek_binary_changes`: a cursor or a list, with rows of any
              driver.
        versions: With `table`: what happens if its columns change. `"one"`: that is a
            `SchemaError`. `"union"`: the rows have the columns of all versions in the
            source, as with `schema=walrow.schema(source, table)`. The source is read
            twice for that: a file object must be seekable, and an iterator cannot.
        threads: The maximum number of threads that read a log. With 2 or more, up to 64, a
            second thread reads and decompresses the segments of a log in a local directory
            while the first one decodes. Batches, their order and errors stay the same. The
            second thread takes up to 32 MiB. One thread reads a log at a URL, or several
            logs. One thread also decodes a capture: more than 1 is an `OptionError` there.
        table: One table, as `"public.orders"`, `"orders"`, `("public", "orders")` or its
            OID. A name chooses the changes of each table while the table had that name. An
            OID chooses one table, under all its names.
            All batches then have one schema, and the reader is an Arrow stream. Other
            stream contents are tables too: `"walrow.transactions"`,
            `"walrow.messages"`, `"walrow.relations"`, `"walrow.truncates"`.
        tables: Several tables, each as in `table`: `["orders", ("public", "items")]`. Their
            batches come as without it, each with the columns of its table's version, and
            rows of other tables are skipped. So the reader is not an Arrow stream, but
            `to_pandas` and the like return a mapping by table, also for a list of
            one. Side tables are chosen by their names: `["orders", "walrow.messages"]`. A
            table that two of the names match is read once. An empty list, a
            repeated name, and `table` or `schema` together with it are an `OptionError`. A pair in a
            list is a schema and a name, but `tables=("a", "b")` are two tables.
        schema: With `table`, any Arrow schema. Every version of the table is projected
            onto it, by column name. Columns that a version lacks are null and listed in
            `_unsent`. Columns that the schema lacks are a `SchemaError`, unless `columns`
            leaves them out. `walrow.schema` returns one for all versions.
        columns: The only columns to decode, as `"total"`, `"orders.total"` or
            `"public.orders.total"`, besides the metadata columns. With `schema`, these
            must be its columns. Default: all.
        profile: `"arrow"`: native types. `"spark"`: only types that Spark and table
            formats support. `"text"`: every column as the text that PostgreSQL writes.
        types: Arrow types that replace the profile's types, for columns (`"total"`,
            `"orders.total"`, `"public.orders.total"`) or PostgreSQL types (`"numeric"`,
            `"_int4"`). Examples: `"string"`, `"decimal128(38, 9)"`, `pa.int64()`.
            Names are accepted in the spelling of pyarrow and of Arrow's Rust library.
            A key that names neither a type nor a column of the source is a `SchemaError`
            at its end.
        unrepresentable: The policy for values that their Arrow type cannot hold:
            `"error"`, `"null"` (counted in `Reader.nulled`) or `"sentinel"` (infinite
            dates and timestamps become the largest or smallest ones). Or a policy for
            each column or PostgreSQL type, with the key `"*"` for all others.
        catalog: The definitions of user-defined types: a `Catalog`, or the path of a
            file that `Catalog.to_json` or `walrow catalog` wrote.
        session: The encoding of a stream that does not report it:
            `{"client_encoding": "LATIN1"}`, or `"UTF8"`, the default, or `"SQL_ASCII"`,
            for text that must be UTF-8. If the bytes have a ParameterStatus of
            client_encoding, that decides. `walrow.postgres.settings` has the values of all other settings: a date or an
            interval in another style is a `DecodeError`.
        metadata: The metadata columns that follow the table's own columns, with or
            without their prefix: `change_type`, `commit_lsn`, `seq`,
            `commit_timestamp`, `xid`, `key_only`, `unsent`, and `loaded`: whether the
            change is a part of a load. Default: all but `loaded`. Pass `()` for none.
        metadata_prefix: The prefix of the metadata columns' names.
        batch_rows: The maximum number of rows in a batch. The two images of an update
            are never split, so with a limit of 1, a batch may have 2.
        batch_bytes: A batch is full at this size of its values: bytes, or a text such as
            `"4MiB"`. At most 512 MiB.
        envelope: Returns all tables, or the chosen ones, under one schema:
            `schema_name`, `table_name`, `key` and `data` as maps of column names to
            PostgreSQL's own text, then the metadata columns. The reader is then an
            Arrow stream, unless `tables` has side tables, whose rows are not in envelopes.
        start: Skips what was delivered before: transactions that end, and
            non-transactional messages that are, at or before this LSN. An `Lsn`, such
            as `Reader.position`, an int, or a text as PostgreSQL writes it: `"0/1A2B"`.
            Also a time, as in `end`: it begins where `end` with this time stops. A capture
            is read twice for that: a file object must be seekable, and an iterator cannot.
            Also set it for a capture that begins later than its slot: then a COMMIT
            PREPARED whose rows are missing is an error.
        end: Stops after the last transaction that ends, and the last non-transactional
            message that is, at or before this LSN; or before the first transaction that
            was committed after this time: a `datetime` with a time zone, or a text, such as
            `"2026-01-31T12:00:00Z"`, `"-1h"`, `"1h ago"` or `"today"`. Without an offset, a
            text is in the zone of `TZ`. Commit times may go back, so later transactions may
            have earlier times: these come after `end`, too. The chosen table may then be
            missing. `start` continues at the same LSN.
        late_start: Skips streamed transactions whose first chunk is before the stream,
            and prepared transactions whose rows are before it. Otherwise they are
            errors.
        unfinished: The policy for a source that ends inside a frame or a transaction, or
            that the server ended with an error: `"error"`, raised after the batches of
            all complete transactions, or `"ignore"`. Transactions that are streamed or
            prepared and not committed do not count: see `Reader.open_transactions`.
        missing_table: The policy for chosen tables that the source does not contain:
            `"error"`, which names all of them, or `"ignore"` for no rows. With `start`
            or `end`, they may always be missing.
        gaps: The policy for a gap of a log, in which the server did not send the changes:
            `"error"`, raised after the batches before it, or `"cross"`.
        spool_memory: The memory that all open and prepared transactions take together:
            bytes, or a text such as `"64MiB"`. Beyond it, they wait in files.
        spool_directory: The directory of these files. Default: the system's directory
            for temporary files. The files have no name and disappear automatically.
        message_limit: The maximum size of a pgoutput message, and so of a row, as in
            `spool_memory`. Default: 1 GiB, which PostgreSQL never exceeds.

    Raises:
        OptionError: The options are invalid or contradict each other.
        TypeError: An option has another type, or there is no such option.
        OSError: A file does not exist or cannot be opened.

    While reading, `DecodeError`, `UnrepresentableError`, `SchemaError`, `SpoolError`,
    `UnfinishedError`, `ReplicationError` and the source's own exceptions are raised after
    all earlier batches were returned.
    """
    if options.get("start") is not None:
        options["start"] = start_of(source, options)
    if versions != "one":
        options["schema"] = schema_of_all(source, versions, options)
    chunks = Chunks(
        source,
        unfinished=options.get("unfinished"),
        part=part_of(options),
        threads=threads,
    )
    return Reader(chunks, **options)


def frames(
    source: Source, *, unfinished: Literal["error", "ignore"] = "error"
) -> Frames:
    """Returns every frame of a stream with its message and fields, as they were sent.

    Nothing is skipped or combined: messages of rolled-back transactions are included.
    An error of the server is a frame too, an ErrorResponse. So this is not an error
    here. A transaction without its end is not an error either: `Frames.server_error`
    and `Frames.unfinished` are for these.

    >>> import walrow
    >>> path = "tests/data/18/rows.text.wire"
    >>> for frame in walrow.frames(path):
    ...     if frame.message and frame.message.kind == "I":
    ...         print(frame.message.name, frame.message.new)
    ...         break
    Insert ['1', 'one', '1.50']

    Frames can be written again, byte for byte:

    >>> from pathlib import Path
    >>> data = b"".join(frame.to_bytes() for frame in walrow.frames(path))
    >>> data == Path(path).read_bytes()
    True

    Args:
        source: As in `read`.
        unfinished: The policy for a source that ends inside a frame, or whose compressed
            data is truncated: `"error"`, raised after all complete frames, or `"ignore"`.

    Raises:
        DecodeError: While iterating, if bytes do not follow the protocol.
        UnfinishedError: After the last complete frame, if the source ends inside another.
    """
    return Frames(Chunks(source, unfinished=unfinished), unfinished=unfinished)


def messages(
    source: Source, *, unfinished: Literal["error", "ignore"] = "error"
) -> Iterator[Message]:
    """Returns every pgoutput message of a stream, as it was sent.

    Nothing is skipped or combined: messages of rolled-back transactions are included.
    `frames` also returns their LSNs, and what is not pgoutput, such as keepalives and
    errors of the server.

    >>> import walrow
    >>> [message.name for message in walrow.messages("tests/data/18/rows.text.wire")][
    ...     :3
    ... ]
    ['Begin', 'Relation', 'Insert']

    Args:
        source: As in `read`.
        unfinished: As in `frames`.

    Raises:
        DecodeError: While iterating, if bytes do not follow the protocol.
        UnfinishedError: After the last complete message, as in `frames`.
    """
    found = frames(source, unfinished=unfinished)
    # Unlike a generator, these repeat an error.
    return filter(None, map(attrgetter("message"), found))
