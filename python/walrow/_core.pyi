import os
from collections.abc import Iterable, Mapping, Sequence
from inspect import Signature
from typing import Any, ClassVar, Literal, NoReturn, Self, Unpack, final

from walrow._lsn import Lsn
from walrow._sources.log_objects import LogStore
from walrow.errors import SchemaError
from walrow.typing import (
    At,
    Framing,
    Options,
    TableName,
    UnresolvedType,
)

__all__ = [
    "DECODER_OPTIONS",
    "FRAME_HEADER",
    "KEEPALIVE_SIZE",
    "OPTIONS",
    "UNCHANGED",
    "WAL_HEADER",
    "Batch",
    "BatchIterator",
    "Catalog",
    "Counts",
    "Decoder",
    "Frame",
    "Frames",
    "LogBlock",
    "LogCopy",
    "LogDirectory",
    "LogEraser",
    "LogFile",
    "LogLoad",
    "LogLock",
    "LogObjects",
    "LogRows",
    "LogWriter",
    "Message",
    "NetJoin",
    "NetPart",
    "NetTally",
    "Reader",
    "Rows",
    "Schema",
    "SchemaUnion",
    "Survey",
    "Unchanged",
    "ZstdDecompressor",
    "__version__",
    "alter_slot_command",
    "base_backup_command",
    "beginning",
    "copy_data_header",
    "crc32c",
    "create_physical_slot_command",
    "create_slot_command",
    "drop_slot_command",
    "end_of_wal",
    "first_data",
    "frame_size",
    "hot_standby_feedback",
    "is_keepalives",
    "parse_backup_data",
    "parse_backup_position",
    "parse_created_slot",
    "parse_identify_system",
    "parse_next_timeline",
    "parse_read_slot",
    "parse_setting",
    "parse_tablespace",
    "parse_timeline_history",
    "read_slot_command",
    "show_command",
    "start_physical_command",
    "start_replication_command",
    "status_update",
    "timeline_history_command",
    "upload_manifest_command",
    "wal_position",
]

FRAME_HEADER: int
KEEPALIVE_SIZE: int
DECODER_OPTIONS: dict[str, Any]
OPTIONS: dict[str, Any]
UNCHANGED: Unchanged
WAL_HEADER: int
__version__: str

@final
class Unchanged:
    """The type of `UNCHANGED`: a value that was not sent because it is unchanged."""

    def __reduce__(self) -> str: ...

@final
class Batch:
    """Change rows of one version of one table: its own columns, then metadata columns.

    Libraries with the Arrow PyCapsule interface import it without a copy.

    Example:
        for batch in walrow.read("shop.wire"):
            print(batch.table, pa.record_batch(batch), pl.DataFrame(batch))
    """

    @property
    def table(self) -> str:
        """Schema and name, joined by a dot without quotes: `public.orders`."""

    @property
    def schema_name(self) -> str:
        """The table's schema."""

    @property
    def table_name(self) -> str:
        """The table's name."""

    @property
    def relation_oid(self) -> int:
        """The table's OID."""

    @property
    def replica_identity(self) -> str:
        """`default`, `nothing`, `full` or `index`."""

    @property
    def key_columns(self) -> list[str]:
        """The columns of the replica identity."""

    @property
    def version(self) -> int:
        """The number of the relation version. Versions of all tables are numbered from 0."""

    @property
    def num_rows(self) -> int:
        """The number of rows; also `len(batch)`."""

    @property
    def num_columns(self) -> int:
        """The number of columns, including metadata columns."""

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, metadata columns last."""

    @property
    def schema(self) -> Schema:
        """The Arrow schema."""

    @property
    def nulled(self) -> dict[str, int]:
        """Number of values that `unrepresentable="null"` made null, by column."""

    @property
    def dropped_lower_bounds(self) -> dict[str, int]:
        """Number of arrays that lost a first subscript other than 1, by column."""

    def _rows(self) -> Rows:
        """Returns all rows."""

    def to_pyarrow(self) -> Any:
        """Returns the rows as a `pyarrow.Table`.

        Raises:
            ImportError: pyarrow is not installed.
        """

    def to_pandas(
        self,
        *,
        dtype_backend: Literal["pyarrow", "numpy"] = "pyarrow",
        decimals: Literal["exact", "float"] = "exact",
    ) -> Any:
        """Returns the rows as a `pandas.DataFrame`: see `Reader.to_pandas`.

        Raises:
            ImportError: pandas or pyarrow is not installed.
        """

    def to_polars(self) -> Any:
        """Returns the rows as a `polars.DataFrame`.

        Raises:
            ImportError: polars is not installed.
        """

    def to_duckdb(self, connection: Any = None) -> Any:
        """Returns the rows as a `duckdb.DuckDBPyRelation`: see `Reader.to_duckdb`.

        Raises:
            ImportError: duckdb or pyarrow is not installed.
        """

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object:
        """Exports the schema, for Arrow consumers."""

    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]:
        """Exports the rows, for Arrow consumers. Ignores a requested schema."""

@final
class BatchIterator:
    """Iterates over the batches of a `Decoder`."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Batch: ...

@final
class Decoder:
    """Converts a stream to batches as its bytes arrive.

    `feed` queues input. The iterators decode it, without the interpreter lock. A later
    iterator first decodes all input that is still queued, so a dropped iterator
    loses no rows. An error is raised after all earlier batches were returned.
    Every later call raises it again.

    Example:
        decoder = walrow.Decoder(framing="copydata")
        for batch in decoder.feed(payloads):
            ...
        for batch in decoder.flush():
            ...
        confirm(decoder.position)

    Args:
        framing: The bytes that `feed` takes. `"wire"`: the bytes of the connection, cut
            anywhere. `"recvlogical"`: a file that `pg_recvlogical` wrote with the plugin
            pgoutput, cut anywhere. Transactions that it received again after a reconnect are
            returned only once. `"copydata"`: each chunk is one CopyData payload, as drivers
            return them. `"message"`: each chunk is one pgoutput message, or a row of
            `pg_logical_slot_get_binary_changes`.
        batch_memory: The number of bytes that the unfinished batches of all tables may take
            together. Beyond it, the fullest batch is returned.
        **options: Those of `walrow.read`.

    Raises:
        OptionError: The options are invalid or contradict each other.
    """

    __signature__: ClassVar[Signature]

    def __new__(
        cls,
        *,
        framing: Framing = "wire",
        batch_memory: int = ...,
        **options: Unpack[Options],
    ) -> Self: ...
    def feed(
        self, data: bytes | bytearray | memoryview | Iterable[Any]
    ) -> BatchIterator:
        """Queues a block or an iterable of chunks. Iterates over the full batches.

        Args:
            data: Bytes, which are not copied; another buffer, which is copied once; or
                an iterable of these, in which each is a chunk of the decoder's framing.

        Raises:
            TypeError: The data has another type.
            RuntimeError: Another thread uses the decoder.
        """

    def flush(self) -> BatchIterator:
        """Iterates over batches of all rows up to the last commit.

        Raises:
            RuntimeError: Another thread uses the decoder.
        """

    def finish(self) -> BatchIterator:
        """Ends the stream: like `flush`, then checks that the stream is complete.

        It must end between transactions, without an error of the server, and the chosen
        tables must have appeared. For a connection that goes on, use `flush`. Transactions
        of `open_transactions` may end in the next session.

        Raises:
            UnfinishedError: While iterating, if the stream ends inside a frame or a
                transaction.
            ReplicationError: While iterating, if the server ended the stream with an error.
            SchemaError: While iterating, if a chosen table never appeared.
            RuntimeError: Another thread uses the decoder.
        """

    def new_session(self) -> None:
        """Begins a new server session: open transactions and relations are discarded.

        Prepared transactions are kept.
        """

    @property
    def prepared(self) -> list[dict[str, Any]]:
        """Prepared transactions not yet committed or rolled back.

        Each has `gid`, `xid`, `prepare_lsn` and `prepare_end_lsn` (`Lsn`).
        """

    def save_prepared(self) -> bytes:
        """Returns the prepared transactions as bytes, for `restore_prepared`.

        The state matches `position`. Resume from `position` to see their outcome; the
        server sends their rows again only if `position` is before their prepare. So
        call `flush` first, and take all batches.

        Raises:
            RuntimeError: Queued input is not yet decoded.
            OptionError: Some rows were not returned yet.
            Error: The error that stopped the decoder: use the last saved state with its
                position.
            SpoolError: The transactions cannot be read from disk.
        """

    def restore_prepared(self, state: bytes) -> None:
        """Loads the prepared transactions that `save_prepared` returned.

        Raises:
            DecodeError: The bytes are not a state, or are truncated. Nothing is loaded.
        """

    @property
    def schema(self) -> Schema | None:
        """The Arrow schema of all batches, once it is known. None for several tables."""

    @property
    def position(self) -> Lsn:
        """All transactions that end at or before this LSN were returned. It begins at `start`."""

    @property
    def unfinished(self) -> bool:
        """Whether the input so far ends inside a frame or a transaction."""

    @property
    def server_error(self) -> str | None:
        """The SQLSTATE of the server error that ended the stream."""

    @property
    def open_transactions(self) -> list[dict[str, Any]]:
        """Transactions that are neither committed nor rolled back.

        Each has `xid` and `gid`, which is None for a streamed transaction that waits for
        its next chunk. The rows come with the commit, maybe in the next session.
        """

    @property
    def unprepared_commits(self) -> int:
        """Number of COMMIT PREPARED without earlier messages of their transactions.

        These transactions changed nothing, or were prepared before the stream begins.
        Their rows in `walrow.transactions` have no `prepare_lsn`.
        """

    @property
    def repeated_transactions(self) -> int:
        """Number of transactions that `pg_recvlogical` received again after a reconnect.

        With `framing="recvlogical"`, they are returned only once.
        """

    @property
    def unresolved_types(self) -> list[UnresolvedType]:
        """The unknown types, neither built in nor in the catalog, and their columns.

        These are the types of columns, and the types inside an array, a composite type,
        a domain or a range in the catalog. Their values are text. The list is sorted, and
        has at most 10,000 types.
        """

    @property
    def nulled(self) -> dict[str, int]:
        """As in `Batch`, by `schema.table.column`, over all returned batches.

        If the batches have several tables of one name, such as one that was dropped and
        created again, their keys have the OID: `public.orders (OID 16400).total`.
        """

    @property
    def dropped_lower_bounds(self) -> dict[str, int]:
        """As in `Batch`, by column over all returned batches, with the keys of `nulled`."""

@final
class Reader:
    """Reads a stream to its end: an iterator over its batches.

    `walrow.read` returns it. With `table` or `envelope`, it is an Arrow stream, which
    decodes while it is consumed. It can be read once. As a context manager, it closes
    its source.

    Example:
        with walrow.read("shop.wire") as reader:
            for batch in reader:
                print(batch.table, pa.record_batch(batch))
        print(reader.position)

    Args:
        chunks: An iterable of the bytes of a connection, cut anywhere. If it has the attribute
            `framing`, as the sources of `walrow.read` do, its chunks are in that framing.
        **options: Those of `walrow.read`.

    Raises:
        OptionError: The options are invalid or contradict each other.
    """

    __signature__: ClassVar[Signature]

    def __new__(cls, chunks: Iterable[Any], /, **options: Unpack[Options]) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Batch: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...
    def close(self) -> None:
        """Closes the source, as an error does. No more batches are returned."""

    @property
    def schema(self) -> Schema:
        """The schema of the Arrow stream. Reads until the chosen table appears.

        Raises:
            TypeError: Neither `table` nor `envelope` was set.
            SchemaError: The table never appeared.
        """

    @property
    def position(self) -> Lsn:
        """All transactions that end at or before this LSN were returned. It begins at `start`."""

    @property
    def bytes_read(self) -> int:
        """Bytes read from the source. For a compressed file, compressed bytes."""

    @property
    def bytes_total(self) -> int | None:
        """Bytes of the whole source, as `bytes_read` counts them. None if it is not known."""

    @property
    def unfinished(self) -> bool:
        """Whether the source so far ends inside a frame or a transaction."""

    @property
    def server_error(self) -> str | None:
        """The SQLSTATE of the server error that ended the stream."""

    @property
    def open_transactions(self) -> list[dict[str, Any]]:
        """Transactions that are neither committed nor rolled back.

        Each has `xid` and `gid`, which is None for a streamed transaction that waits for
        its next chunk. The rows come with the commit, maybe in the next session.
        """

    @property
    def unprepared_commits(self) -> int:
        """Number of COMMIT PREPARED without earlier messages of their transactions.

        These transactions changed nothing, or were prepared before the stream begins.
        Their rows in `walrow.transactions` have no `prepare_lsn`.
        """

    @property
    def repeated_transactions(self) -> int:
        """Number of transactions that `pg_recvlogical` received again after a reconnect.

        They are returned only once.
        """

    @property
    def unresolved_types(self) -> list[UnresolvedType]:
        """The unknown types, neither built in nor in the catalog, and their columns.

        These are the types of columns, and the types inside an array, a composite type,
        a domain or a range in the catalog. Their values are text. The list is sorted, and
        has at most 10,000 types.
        """

    @property
    def nulled(self) -> dict[str, int]:
        """As in `Batch`, by `schema.table.column`, over all returned batches.

        If the batches have several tables of one name, such as one that was dropped and
        created again, their keys have the OID: `public.orders (OID 16400).total`.
        """

    @property
    def dropped_lower_bounds(self) -> dict[str, int]:
        """As in `Batch`, by column over all returned batches, with the keys of `nulled`."""

    def _rows(self) -> Rows | dict[str, Rows | SchemaError]:
        """Takes all rows: `Rows`, or a dictionary of them by table, or of its error."""

    def to_pyarrow(self) -> Any:
        """Reads all rows into a `pyarrow.Table`.

        Without `table` or `envelope`, reads them into a mapping of tables by name,
        `schema.table`: `walrow.typing.ByTable`. If the columns of a table changed, or two
        tables have its name, the mapping raises its error when you ask for it, and when
        you iterate over all. The other tables are there.

        Raises:
            SchemaError: The columns of the only table changed.
            ImportError: pyarrow is not installed.
            ValueError: All batches were taken.
        """

    def to_pandas(
        self,
        *,
        dtype_backend: Literal["pyarrow", "numpy"] = "pyarrow",
        decimals: Literal["exact", "float"] = "exact",
    ) -> Any:
        """Reads all rows into a `pandas.DataFrame`, or several by name, as `to_pyarrow` does.

        By default, columns have Arrow's types. NumPy's types cannot hold all values: with
        `dtype_backend="numpy"`, integers with NULL become floats.

        Args:
            dtype_backend: `"pyarrow"` or `"numpy"`.
            decimals: `"exact"`, or `"float"` for the nearest floats, which pandas can plot.

        Raises:
            SchemaError: As in `to_pyarrow`.
            ImportError: pandas or pyarrow is not installed.
            ValueError: All batches were taken.
        """

    def to_parquet(self, path: str | os.PathLike[str]) -> int:
        """Writes all rows to a Parquet file, batch by batch. Needs `table` or `envelope`.

        The file gets its name when it is complete, and replaces an earlier one. After an error,
        there is no new file.

        Args:
            path: The path of the file.

        Returns:
            The number of rows.

        Raises:
            OptionError: The reader has several tables.
            ImportError: pyarrow is not installed.
            OSError: The file cannot be written.
        """

    def to_polars(self) -> Any:
        """Reads all rows into a `polars.DataFrame`, or several by name, as `to_pyarrow` does.

        Raises:
            SchemaError: As in `to_pyarrow`.
            ImportError: polars is not installed.
            ValueError: All batches were taken.
        """

    def to_duckdb(self, connection: Any = None) -> Any:
        """Reads all rows into a DuckDB relation, or several by name, as `to_pyarrow` does.

        Args:
            connection: The connection that queries them. Default: DuckDB's default one.

        Raises:
            SchemaError: As in `to_pyarrow`.
            ImportError: duckdb or pyarrow is not installed.
            ValueError: All batches were taken.
        """

    def __array__(self, *_arguments: object, **_options: object) -> NoReturn:
        """Raises `TypeError`: pandas would otherwise make a column of `Batch` objects."""

    def __arrow_c_schema__(self) -> object:
        """Exports the schema, for Arrow consumers. Needs `table` or `envelope`."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Exports the batches, for Arrow consumers. Ignores a requested schema.

        Raises:
            TypeError: Neither `table` nor `envelope` was set.
            SchemaError: The table never appeared.
        """

@final
class Frames:
    """Iterates over the frames of a stream; `walrow.frames` returns it."""

    def __new__(
        cls,
        chunks: Iterable[Any],
        /,
        framing: Framing | None = None,
        unfinished: Literal["error", "ignore"] = "error",
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Frame: ...
    @property
    def unfinished(self) -> bool:
        """Whether the source so far ends inside a frame or a transaction."""

    @property
    def server_error(self) -> str | None:
        """The SQLSTATE of the server error that ended the stream."""

@final
class Frame:
    """One message of the server, or the payload of a CopyData message."""

    @property
    def kind(self) -> str:
        """`w` or `k` for CopyData, otherwise the letter of the message's type."""

    @property
    def name(self) -> str:
        """`XLogData`, `PrimaryKeepalive`, `CopyBothResponse`, ...."""

    @property
    def offset(self) -> int:
        """The offset in the stream, in bytes."""

    @property
    def size(self) -> int:
        """The size in bytes."""

    @property
    def message(self) -> Message | None:
        """The pgoutput message in an XLogData frame, otherwise None."""

    @property
    def fields(self) -> dict[str, Any]:
        """The frame's fields. LSNs are `Lsn`, clocks are microseconds since 2000."""

    def to_bytes(self) -> bytes:
        """Encodes the parsed frame: exactly the original bytes."""

@final
class Message:
    """A pgoutput message. Its fields are attributes, except `name` and `kind`."""

    @property
    def kind(self) -> str:
        """The letter of the message: `I`."""

    @property
    def name(self) -> str:
        """The message's name in the manual: `Insert`. A relation's name is in `fields`."""

    @property
    def fields(self) -> dict[str, Any]:
        """The fields in the manual. LSNs are `Lsn`, times are microseconds since 2000.

        Rows (`key`, `old`, `new`) are lists with one value per column: None for NULL,
        `UNCHANGED` for a value that was not sent, a string (or bytes, if not UTF-8) for
        a text value, and bytes for a binary value.
        """

    def __getattribute__(self, name: str, /) -> Any: ...
    def __dir__(self) -> list[str]: ...

@final
class Catalog:
    """Definitions of types and tables that a stream lacks: a value, read from a server.

    `walrow.postgres.catalog` reads one from a server. It can be compared, hashed and
    pickled.

    Example:
        catalog = walrow.Catalog.from_file("shop.json")
        walrow.read("shop.wire", catalog=catalog)

    Args:
        json: A catalog as JSON, from `to_json`. Default: an empty catalog.

    Raises:
        OptionError: The text is not a catalog: it contains an unknown key, an OID
            twice, or an invalid array delimiter. The error names the entry by its OID.
    """

    def __new__(cls, json: str | None = None) -> Self: ...
    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a catalog from a file that contains JSON, in UTF-8.

        Raises:
            OptionError: The file is not a catalog.
            OSError: The file cannot be read.
        """

    @classmethod
    def from_json(cls, json: str) -> Self:
        """Reads a catalog from JSON.

        Raises:
            OptionError: The text is not a catalog.
        """

    def to_json(self) -> str:
        """Returns the catalog as JSON."""

    def tables(self) -> list[tuple[str, str]]:
        """The tables, as pairs of schema and name."""

    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __reduce__(self) -> tuple[Any, ...]: ...

@final
class Schema:
    """An Arrow schema: `pa.schema(schema)`."""

    @property
    def names(self) -> list[str]:
        """The names of the columns."""

    @property
    def types(self) -> list[str]:
        """The Arrow types of the columns, as text that the option `types` accepts."""

    @property
    def metadata(self) -> dict[str, str]:
        """The table's metadata: `pg.schema`, `pg.table`, `pg.key_columns`, ...."""

    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __arrow_c_schema__(self) -> object:
        """Exports the schema, for Arrow consumers."""

def copy_data_header(size: int) -> bytes:
    """Returns the header of the frame of a CopyData payload of this size."""

def end_of_wal(payload: bytes | bytearray | memoryview) -> tuple[int, bool]:
    """Returns the end of WAL in a payload of the server, and whether it asks for an answer.

    The end of WAL is 0 if the payload does not have it.
    """

def status_update(received: int, flushed: int, clock: int, reply: bool) -> bytes:
    """Writes a Standby status update.

    Args:
        received: All transactions up to this LSN were received.
        flushed: All transactions up to this LSN are durable and applied.
        clock: The time, in microseconds since 2000.
        reply: Whether to ask the server for an answer at once.
    """

def is_keepalives(block: bytes) -> bool:
    """Returns whether whole frames are all keepalives."""

def frame_size(head: bytes) -> int | None:
    """Returns the size of the frame that begins so, or None if its header is cut or invalid."""

def beginning(
    head: bytes, *, ended: bool
) -> Literal["frame", "invalid frame", "copydata", "message", "unknown"] | None:
    """Returns what bytes begin with, or None if more of them are needed."""

def first_data(head: bytes) -> tuple[int, bytes] | None:
    """Returns the data of the first whole XLogData, after its offset.

    None without one.

    Args:
        head: Frames, or one payload of CopyData.
    """

def timeline_history_command(timeline: int) -> str:
    """Writes TIMELINE_HISTORY."""

def create_slot_command(
    major: int,
    slot: str,
    *,
    plugin: str,
    temporary: bool,
    snapshot: str,
    two_phase: bool,
    failover: bool,
) -> str:
    """Writes CREATE_REPLICATION_SLOT for a logical slot and a server's major version."""

def create_physical_slot_command(
    major: int, slot: str, *, temporary: bool, reserve_wal: bool
) -> str:
    """Writes CREATE_REPLICATION_SLOT for a physical slot and a server's major version."""

def alter_slot_command(
    major: int, slot: str, *, failover: bool | None, two_phase: bool | None
) -> str:
    """Writes ALTER_REPLICATION_SLOT for a server's major version."""

def drop_slot_command(slot: str, *, wait: bool) -> str:
    """Writes DROP_REPLICATION_SLOT."""

def start_replication_command(slot: str, start: int, options: dict[str, Any]) -> str:
    """Writes START_REPLICATION for a logical slot: see `walrow.postgres.start_replication_command`."""

def parse_identify_system(
    cells: Sequence[bytes | None],
) -> tuple[str, int, int, bytes | None]:
    """Reads the result of IDENTIFY_SYSTEM."""

def parse_timeline_history(
    cells: Sequence[bytes | None],
) -> tuple[bytes, bytes, list[tuple[int, int, bytes]]]:
    """Reads the result of TIMELINE_HISTORY: the file's name, its bytes and its contents.

    The contents are each earlier timeline, its end and a reason.
    """

def parse_created_slot(
    cells: Sequence[bytes | None],
) -> tuple[bytes, int, bytes | None, bytes | None]:
    """Reads the result of CREATE_REPLICATION_SLOT."""

def show_command(setting: str) -> str:
    """Writes SHOW."""

def parse_setting(cells: Sequence[bytes | None]) -> bytes:
    """Reads the result of SHOW."""

def read_slot_command(major: int, slot: str) -> str:
    """Writes READ_REPLICATION_SLOT for a server's major version."""

def parse_read_slot(
    cells: Sequence[bytes | None],
) -> tuple[int | None, int | None] | None:
    """Reads the result of READ_REPLICATION_SLOT: the oldest WAL that the slot keeps, and its timeline."""

def start_physical_command(
    start: int, *, slot: str | None, timeline: int | None
) -> str:
    """Writes START_REPLICATION for WAL itself."""

def parse_next_timeline(cells: Sequence[bytes | None]) -> tuple[int, int]:
    """Reads the result at the end of a timeline: the next one, and where it begins."""

def wal_position(payload: bytes) -> tuple[int, int] | None:
    """Reads the head of a payload of a stream of WAL: where its bytes begin, and the end of WAL.

    The WAL begins at `WAL_HEADER`. None for a payload without WAL, such as a keepalive.
    """

def hot_standby_feedback(
    clock: int, xmin: int, xmin_epoch: int, catalog_xmin: int, catalog_xmin_epoch: int
) -> bytes:
    """Writes a Hot standby feedback message: the oldest transactions whose rows a client sees.

    Zeros end the feedback.

    Args:
        clock: The time, in microseconds since 2000.
        xmin: The client's oldest transaction.
        xmin_epoch: The epoch of `xmin`.
        catalog_xmin: The oldest transaction for catalogs.
        catalog_xmin_epoch: The epoch of `catalog_xmin`.
    """

def base_backup_command(
    major: int,
    *,
    label: str,
    progress: bool,
    checkpoint: str,
    wal: bool,
    wait: bool,
    max_rate: int | None,
    tablespace_map: bool,
    verify_checksums: bool,
    manifest: str,
    manifest_checksums: str,
    compression: str | None,
    compression_detail: str | None,
    target: str | None,
    target_detail: str | None,
    incremental: bool,
) -> str:
    """Writes BASE_BACKUP for a server's major version."""

def upload_manifest_command(major: int) -> str:
    """Writes UPLOAD_MANIFEST for a server's major version."""

def parse_backup_position(cells: Sequence[bytes | None]) -> tuple[int, int]:
    """Reads the first or the last result of BASE_BACKUP: an LSN and its timeline."""

def parse_tablespace(
    cells: Sequence[bytes | None],
) -> tuple[int | None, bytes | None, int | None]:
    """Reads a row of the second result of BASE_BACKUP: OID, directory and size in kB."""

def parse_backup_data(payload: bytes) -> tuple[Any, ...]:
    """Reads one payload of a base backup, from server 15 on: its letter, and its parts."""

def crc32c(data: bytes, crc: int = 0) -> int:
    """Returns the CRC-32C of bytes, which manifests use by default.

    Args:
        data: The bytes.
        crc: The CRC-32C of the bytes before.
    """

@final
class Counts:
    """Counts frames, messages and cells by kind."""

    def __new__(cls, framing: Framing = "wire") -> Self: ...
    def feed(self, data: Any) -> None:
        """Counts a block or, with `copydata` and `message`, a chunk."""

    @property
    def unfinished(self) -> bool:
        """Whether the input so far ends inside a frame or a transaction."""

    @property
    def server_error(self) -> str | None:
        """The SQLSTATE of the server error that ended the stream."""

    def result(self) -> dict[str, dict[str, int]]:
        """The counts: `frames`, `messages` and `cells`, by their letter."""

    def names(self) -> dict[str, dict[str, str]]:
        """The names of what `result` counts, by letter as there."""

@final
class LogDirectory:
    """The published segments of a log."""

    def __new__(
        cls, path: str | os.PathLike[str], store: LogStore | None = None
    ) -> Self: ...
    @property
    def source(self) -> dict[str, Any]:
        """Where the changes come from."""

    @property
    def start(self) -> Lsn:
        """Where the log begins."""

    @property
    def end(self) -> Lsn:
        """Where the log ends."""

    def erased(self) -> dict[int, Lsn]:
        """Where the last transaction ends of which rows were erased by now, by OID."""

    def __len__(self) -> int: ...
    def segment(self, place: int) -> dict[str, Any] | None:
        """A segment, as a dictionary."""

    def versions(
        self,
    ) -> list[tuple[int, str, str, list[tuple[str, int, int, bool]], str]]:
        """All relation versions: OID, schema, name, columns, replica identity."""

    def open(
        self,
        tables: Sequence[TableName] | None = None,
        start: Lsn | int | str | None = None,
        end: At | None = None,
        columns: Sequence[str] = ...,
        ahead: bool = False,
    ) -> LogFile:
        """The stream of the segments that have what these options of `walrow.read` choose.

        `columns` are names in these options that may be those of columns. With `ahead`, another thread
        reads the segments of a log in a local directory.
        """

    def examples(self, table: TableName) -> LogFile:
        """The stream of segments that have each relation version of a table."""

    def state(
        self,
        table: TableName,
        as_of: At | None = None,
        spool_memory: int | None = None,
        spool_directory: str | os.PathLike[str] | None = None,
        columns: Sequence[tuple[str, int, int]] | None = None,
    ) -> LogRows:
        """The rows of a table as of an LSN or a time.

        `columns` are the columns that it got after its last change: name, type and type modifier.
        """

    def net(
        self,
        table: TableName,
        *,
        start: Lsn | int | str | None = None,
        end: At | None = None,
        keys: Sequence[str] | None = None,
        text_keys: Sequence[str] = ...,
        deletes: str = "apply",
        truncates: str = "apply",
        columns: str = "last",
        more: Sequence[str] = ...,
        nullable: Sequence[str] = ...,
        never_sent: str = "error",
        allows_altered: bool = False,
        spool_memory: int | None = None,
        spool_directory: str | os.PathLike[str] | None = None,
    ) -> LogRows:
        """The net changes of a table between two LSNs.

        Rows are found by the columns `keys`. By default, these are the columns of the replica
        identity, or of the primary key under FULL. The keys in `text_keys` are texts in the target,
        and are compared as texts. `deletes` is `"apply"`, `"soft"` or `"ignore"`, `truncates` is
        `"apply"` or `"ignore"`. `columns` chooses the columns of the `"last"` version,
        or of `"all"` versions. `more` names further columns that the target has: they are NULL in
        new rows, and kept in others. A value that was never sent is an `"error"` or `"null"`. In
        the columns `nullable`, it is neither noticed nor counted. With `allows_altered`, the target
        has columns that were renamed, retyped, or dropped and added again.
        """

    def net_part(
        self,
        table: TableName,
        *,
        start: Lsn | int | str | None = None,
        end: At | None = None,
        keys: Sequence[str] | None = None,
        text_keys: Sequence[str] = ...,
        deletes: str = "apply",
        truncates: str = "apply",
        columns: str = "last",
        more: Sequence[str] = ...,
        nullable: Sequence[str] = ...,
        never_sent: str = "error",
        allows_altered: bool = False,
        spool_memory: int | None = None,
        spool_directory: str | os.PathLike[str] | None = None,
    ) -> NetPart:
        """Reads the changes of a unit: its net changes can be divided and joined with others.

        It takes the options of `net`.
        """

    def net_parts(
        self, tables: Sequence[tuple[int, Mapping[str, Any]]]
    ) -> list[tuple[int, NetPart | None]]:
        """Reads the changes of a unit of several tables in one pass: by OID, with the options of each.

        A table whose changes do not give net changes is `None`.
        """

    def follow(self) -> int:
        """Looks for new segments. Returns how many there are."""

    def read_object(self, name: str) -> bytes:
        """All bytes of a small object of the log."""

    def check(self) -> list[str]:
        """The repairs that the next writer will make, in words."""

    def reached(self) -> tuple[Lsn, bool, tuple[int, Lsn | None] | None] | None:
        """Up to where the log has everything, whether more came, and the last timeline.

        None if a segment was published since the log was opened.
        """

    def verify(self, place: int) -> None:
        """Reads a segment, and compares it with its checksums."""

    def lsn_of(self, at: At, option: str) -> Lsn:
        """The LSN in the log that an LSN or a time means."""

    def prune(self, until: Lsn | int | str, force: bool) -> int:
        """Removes segments. Returns how many."""

    def retain(
        self,
        age: int | None,
        size: int | None,
        forget_after: int | None,
        force: bool,
    ) -> dict[str, Any]:
        """Removes segments by age and size. Times are in microseconds."""

    def compact(self, segment_bytes: int) -> tuple[int, int, int]:
        """Merges small segments. Returns how many, into how many, and the copied bytes."""

    def readers(self) -> list[tuple[str, Lsn, int | None]]:
        """The registered readers: name, position, last use in microseconds since 1970."""

    def register(
        self, name: str, position: Lsn | int | str | None
    ) -> tuple[str, Lsn, int | None]:
        """Registers a reader, or returns the registered reader of this name."""

    def advance(
        self, name: str, position: Lsn | int | str, rewind: bool
    ) -> tuple[str, Lsn, int | None]:
        """Moves a reader forward, or to any position."""

    def forget(self, name: str) -> None:
        """Forgets a reader."""

@final
class LogEraser:
    """Erases columns and rows. While it is open, other processes cannot write to the log."""

    def __new__(cls, path: str | os.PathLike[str]) -> Self: ...
    def erase(
        self,
        tables: Sequence[int],
        columns: Sequence[str],
        rows: Sequence[tuple[int, int, bool, bool]],
        force: bool,
    ) -> tuple[int, int]:
        """Rewrites segments without these columns and rows of tables.

        A row is its commit LSN, seq, and whether the old and the new image go. Returns how many
        segments were read, and how many rewritten. `force` erases what readers have not taken, too.
        """

    def close(self) -> None:
        """Closes the log, so that others can write to it."""

@final
class LogBlock:
    """Bytes of a log's stream, as a read-only buffer."""

    def __len__(self) -> int: ...

@final
class LogFile:
    """The stream of some segments of a log, as a file that is read to its end."""

    @property
    def size(self) -> int:
        """Bytes of the stream."""

    def read(self, size: int | None = None) -> Any:
        """The next bytes, of any number, as a `LogBlock`. No bytes at the end."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...
    def close(self) -> None:
        """Closes the current segment. Nothing can be read after it."""

@final
class LogLoad:
    """A load under construction. Several threads may append rows."""

    @property
    def point(self) -> Lsn:
        """The consistent point of its snapshot."""

    def copy(self, table: int, *, binary: bool) -> LogCopy:
        """Begins a COPY of the table with this number. A large table may come in several."""

@final
class LogCopy:
    """The rows of one COPY. It is for one thread at a time."""

    def append(self, data: bytes) -> int:
        """Appends rows: whole payloads of CopyData, joined. Returns how many there were."""

@final
class LogLock:
    """The lock of a log, until it is left."""

    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class LogObjects:
    """The small objects in a log's directory, by name.

    Everything goes to the directory that was opened, and no link is followed below it. An object
    that does not exist is a FileNotFoundError, another failure a LogError.
    """

    def __new__(cls, path: str | os.PathLike[str]) -> Self: ...
    def list(self, prefix: str) -> list[str]:
        """The names that begin so, sorted."""

    def changed(self) -> int:
        """When a name came or went last, in nanoseconds since 1970."""

    def read(self, name: str) -> tuple[bytes, str]:
        """All bytes of an object, and the tag that distinguishes it from a later one."""

    def create(self, name: str, data: bytes) -> bool:
        """Creates an object as a whole, and durably. Returns false if there is another of this name."""

    def swap(self, name: str, data: bytes, tag: str) -> bool:
        """Replaces the object that has this tag. Returns false if that is gone. Hold the lock."""

    def replace(self, name: str, data: bytes) -> None:
        """Creates or replaces an object. Nobody else may write it meanwhile."""

    def remove(self, name: str) -> None:
        """Removes an object for good, if there is one."""

    def lock(self) -> LogLock:
        """Waits for the lock that is held while small objects change. Use it in a `with` statement."""

@final
class LogRows:
    """The rows of a table of a log, or its net changes, as the chunks of a stream.

    The first one comes after all changes were read.
    """

    def __iter__(self) -> Self: ...
    def __next__(self) -> bytes: ...
    @property
    def position(self) -> Lsn:
        """The LSN of the rows, or the end of the net changes."""

    @property
    def oid(self) -> int:
        """The OID of the table."""

    @property
    def bytes_read(self) -> int:
        """Bytes of the log's stream that were read."""

    @property
    def bytes_total(self) -> int:
        """Bytes of the log's stream that are read."""

    @property
    def tally(self) -> NetTally:
        """The tally of net changes. It reads all changes first, if they were not read yet."""

    def close(self) -> None:
        """Frees the rows. There are no more chunks."""

@final
class NetPart:
    """The net changes of one unit: a range of whole transactions."""

    @property
    def events(self) -> int:
        """The number of row changes that were read, since the last barrier."""

    @property
    def position(self) -> Lsn:
        """The LSN where the unit ends."""

    def split(self, partitions: int) -> list[tuple[int, bytes]]:
        """Divides them by the hashes of their keys: partitions with their bytes. Call it once.

        A partition without changes is left out, unless there is a barrier. The bytes stand alone.
        """

@final
class NetJoin:
    """The parts of one partition together, as the chunks of a stream.

    Changes of keys that take part in moves are left out, and are `entangled`.

    `parts` have the numbers of their units, in any order. With `whole`, their bytes come from
    `entangled` of all partitions. These bytes have unit numbers inside, and no change is left out.
    It takes the options of `net`.
    """

    def __new__(
        cls,
        parts: Sequence[tuple[int, bytes | bytearray | memoryview]],
        *,
        whole: bool = False,
        start: Lsn | int | str | None = None,
        end: At | None = None,
        keys: Sequence[str] | None = None,
        text_keys: Sequence[str] = ...,
        deletes: str = "apply",
        truncates: str = "apply",
        columns: str = "last",
        more: Sequence[str] = ...,
        nullable: Sequence[str] = ...,
        never_sent: str = "error",
        allows_altered: bool = False,
        spool_memory: int | None = None,
        spool_directory: str | os.PathLike[str] | None = None,
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> bytes: ...
    @property
    def position(self) -> Lsn:
        """The LSN where the last unit ends."""

    @property
    def oid(self) -> int:
        """The OID of the table. 0 without parts."""

    @property
    def entangled(self) -> bytes | None:
        """The changes that were left out. Their bytes stand alone. `None` without such changes."""

    @property
    def tally(self) -> NetTally:
        """The tally of the rows, without the changes that were left out."""

    def close(self) -> None:
        """Frees the rows. There are no more chunks."""

@final
class NetTally:
    """Counts and columns of net changes, known before their first row."""

    @property
    def events(self) -> int:
        """The number of row changes that were read, since the last barrier."""

    @property
    def rows(self) -> int:
        """The number of net rows."""

    @property
    def moves(self) -> int:
        """The number of updates that gave a row another key, since the last barrier."""

    @property
    def heads(self) -> int:
        """The number of net rows that keep values of a row with another key."""

    @property
    def kept(self) -> list[str]:
        """The columns where some updates, or deletes that mark rows, keep the target's values."""

    @property
    def never_sent(self) -> int:
        """The number of new rows without a value in a column that is not nullable."""

    @property
    def lacking(self) -> list[str]:
        """The columns without a value in these rows."""

    @property
    def barrier(self) -> tuple[Lsn, int, bool] | None:
        """The last load or truncate that counts: its commit LSN, seq, and whether it is a load."""

    @property
    def clears(self) -> bool:
        """Whether the target's other rows go: the stream begins with a truncate."""

    @property
    def entangled(self) -> int:
        """The number of changes that were left out, of one key in one unit each."""

    @property
    def partial(self) -> list[str]:
        """The columns that some versions of the table in the range lack."""

@final
class LogWriter:
    """The one writer of a log. It is for one thread at a time."""

    def __new__(
        cls,
        path: str | os.PathLike[str],
        *,
        segment_bytes: int,
        spool_memory: int,
        level: int | None = 1,
        framing: str = "wire",
        system_identifier: str | None = None,
        database: str | None = None,
        slot: str | None = None,
        session: Mapping[str, str] | None = None,
        spool_directory: str | os.PathLike[str] | None = None,
        group_access: bool = False,
        syncs: bool = True,
        captures: bool = False,
    ) -> Self: ...
    def new_session(self) -> None:
        """Begins a session of the server, at `position`."""

    def compare(self, confirmed: Lsn | int | str, *, only: bool = False) -> None:
        """Compares the server of the session with the log's.

        The log takes no changes until that server has sent everything up to `position`, and with
        `only`, no later changes, either. The server sends all changes after `confirmed`, or from
        `resent_from` on if that is later.
        """

    def assume_compared(self) -> None:
        """As `compare`, for a server that was compared, and is asked for other things now."""

    @property
    def is_compared(self) -> bool:
        """Whether the server has sent everything up to `position`."""

    @property
    def last(self) -> tuple[Lsn, Lsn, int | None, bool] | None:
        """The last transaction or message that the log took.

        Its LSN, from where it is sent again, the ID of the last transaction, and whether that was
        prepared only.
        """

    @property
    def asked(self) -> dict[str, str]:
        """The options of the stream that the log was received with."""

    def set_asked(self, options: Mapping[str, str]) -> None:
        """Sets them. They are as durable as what comes."""

    def next_session(self) -> None:
        """Begins a session of a capture."""

    def append(self, chunk: bytes | bytearray | memoryview) -> None:
        """Appends bytes of the stream, in the writer's framing.

        After an error of the file system, another call continues where this one stopped: pass no
        bytes, or the next ones.
        """

    @property
    def is_full(self) -> bool:
        """Whether the transactions that are not published fill a segment."""

    @property
    def has_changes(self) -> bool:
        """Whether there are transactions or messages that are not published."""

    def set_timeline(self, timeline: int, start: Lsn | int | str | None = None) -> None:
        """Sets the timeline of the WAL that comes next, and where it began, if that is known."""

    def set_slot_start(
        self,
        lsn: Lsn | int | str,
        *,
        prepared_until: Lsn | int | str | None = None,
        prepared: Sequence[int] = ...,
    ) -> None:
        """Sets where the slot begins, for a log that is empty.

        Transactions that were committed up to `prepared_until`, and those with an ID in
        `prepared`, may have been prepared before.
        """

    def advance(self, lsn: Lsn | int | str) -> None:
        """Records that the server has decoded everything up to this LSN."""

    def sync(self) -> Lsn:
        """Makes all transactions durable. Returns the position."""

    def fill(self) -> None:
        """Gives what fills blocks to the next segment. The catalog must have the definitions."""

    def publish(self) -> bool:
        """Publishes all transactions. Returns whether there were any."""

    @property
    def lacks_first_load(self) -> bool:
        """Whether the log lacks the load that it begins with, because that was broken off."""

    def plan_first_load(self) -> None:
        """Records that the log begins with a load, before its slot is created."""

    def begin_load(
        self,
        point: Lsn | int | str,
        micros: int,
        catalog: Catalog,
        tables: Sequence[tuple[int, str]],
    ) -> LogLoad:
        """Begins a load of tables, by OID and replica identity, in a snapshot.

        `point` is its consistent point, and `micros` its time, in microseconds since 1970.
        """

    def end_load(self, load: LogLoad) -> bool:
        """Gives a load its place. Returns false while something before it may still come."""

    def give_up_load(self, load: LogLoad) -> None:
        """Cancels a load."""

    @property
    def position(self) -> Lsn:
        """Up to where everything is durable."""

    @property
    def source(self) -> dict[str, Any]:
        """Where the changes come from."""

    @property
    def counts(self) -> dict[str, Any]:
        """Appended transactions, rows, repeated transactions, segments, last commit time."""

    @property
    def unfinished(self) -> bool:
        """Whether the stream so far ends inside a frame or a transaction."""

    def new_relations(self) -> list[tuple[int, str, str, list[int]]]:
        """The relations that came since the last call: OID, schema, name, OIDs of the columns' types."""

    @property
    def catalog(self) -> Catalog:
        """The definitions of types and tables that the log has."""

    def extend_catalog(self, catalog: Catalog) -> None:
        """Adds definitions, for the next segments."""

    def close(self) -> None:
        """Closes the log, so that others can write to it. Publishes nothing."""

@final
class ZstdDecompressor:
    """Decompresses zstd frames, one after the other."""

    def __new__(cls) -> Self: ...
    @property
    def ended(self) -> bool:
        """Whether the input so far ends between two frames."""

    def decompress(self, data: bytes, size: int) -> tuple[bytes, int]:
        """Decompresses a part of `data`, to at most `size` bytes.

        More output may be waiting if there are `size` bytes of it.

        Returns:
            The output, and how many bytes of `data` it took.

        Raises:
            ValueError: The data is not zstd, is damaged, or needs more than 128 MiB of
                memory.
        """

@final
class Rows:
    """Rows of one table in memory. Unlike a `Reader`, they can be read again."""

    @property
    def schema(self) -> Schema:
        """The schema."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object:
        """Exports the schema, for Arrow consumers."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Exports the batches, for Arrow consumers. Ignores a requested schema."""

@final
class Survey:
    """Counts the changes of each version of each table: see `walrow.tables`."""

    def __new__(cls, framing: Framing, **options: Unpack[Options]) -> Self: ...
    def feed(self, chunk: Any) -> None:
        """Takes a block or a chunk."""

    def finish(self) -> None:
        """Ends the stream: adds tables without committed changes."""

    @property
    def unfinished(self) -> bool:
        """Whether the input so far ends inside a frame or a transaction."""

    @property
    def server_error(self) -> str | None:
        """The SQLSTATE of the server error that ended the stream."""

    def versions(self) -> list[dict[str, Any]]:
        """The versions, in the order of their first appearance."""

    def ddl(self) -> list[tuple[int, str, tuple[Lsn, int | None]]]:
        """The commands that changed tables' definitions: OID, tag, and commit."""

@final
class SchemaUnion:
    """Finds one schema for all versions of a table: see `walrow.schema`."""

    def __new__(cls, **options: Unpack[Options]) -> Self: ...
    def add_catalog(self, catalog: Catalog) -> None:
        """Adds the table's version in a catalog."""

    def begin_stream(self, name: str, framing: Framing) -> None:
        """Begins another stream, with its framing. The name is for errors."""

    def feed(self, chunk: Any) -> None:
        """Decodes a chunk of the current stream."""

    def finish_stream(self) -> None:
        """Ends the current stream."""

    def schema(self) -> Schema:
        """The schema of all versions so far."""
