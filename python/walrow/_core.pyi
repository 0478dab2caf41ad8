import os
from collections.abc import Iterable, Mapping, Sequence
from inspect import Signature
from typing import Any, ClassVar, Literal, NoReturn, Self, TypedDict, Unpack, final

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
        trim_bpchar: Removes the trailing blanks of `character(n)`, except inside a longer text:
            the text profile, and arrays as strings.
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
        trim_bpchar: bool = False,
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

def copy_data_header(size: int) -> bytes: ...
def end_of_wal(
    payload: bytes | bytearray | memoryview,
) -> tuple[int, bool, int]: ...
def status_update(
    received: int, flushed: int, applied: int, clock: int, reply: bool
) -> bytes: ...
def is_keepalives(block: bytes) -> bool: ...
def frame_size(head: bytes) -> int | None: ...
def beginning(
    head: bytes, *, ended: bool
) -> Literal["frame", "invalid frame", "copydata", "message", "unknown"] | None: ...
def first_data(head: bytes) -> tuple[int, bytes] | None: ...
def timeline_history_command(timeline: int) -> str: ...
def create_slot_command(
    major: int,
    slot: str,
    *,
    plugin: str,
    temporary: bool,
    snapshot: str,
    two_phase: bool,
    failover: bool,
) -> str: ...
def create_physical_slot_command(
    major: int, slot: str, *, temporary: bool, reserve_wal: bool
) -> str: ...
def alter_slot_command(
    major: int, slot: str, *, failover: bool | None, two_phase: bool | None
) -> str: ...
def drop_slot_command(slot: str, *, wait: bool) -> str: ...
def start_replication_command(
    slot: str, start: int, options: dict[str, Any]
) -> str: ...
def parse_identify_system(
    cells: Sequence[bytes | None],
) -> tuple[str, int, int, bytes | None]: ...
def parse_timeline_history(
    cells: Sequence[bytes | None],
) -> tuple[bytes, bytes, list[tuple[int, int, bytes]]]: ...
def parse_created_slot(
    cells: Sequence[bytes | None],
) -> tuple[bytes, int, bytes | None, bytes | None]: ...
def show_command(setting: str) -> str: ...
def parse_setting(cells: Sequence[bytes | None]) -> bytes: ...
def read_slot_command(major: int, slot: str) -> str: ...
def parse_read_slot(
    cells: Sequence[bytes | None],
) -> tuple[int | None, int | None] | None: ...
def start_physical_command(
    start: int, *, slot: str | None, timeline: int | None
) -> str: ...
def parse_next_timeline(cells: Sequence[bytes | None]) -> tuple[int, int]: ...
def wal_position(payload: bytes) -> tuple[int, int, int] | None: ...
def hot_standby_feedback(
    clock: int, xmin: int, xmin_epoch: int, catalog_xmin: int, catalog_xmin_epoch: int
) -> bytes: ...
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
) -> str: ...
def upload_manifest_command(major: int) -> str: ...
def parse_backup_position(cells: Sequence[bytes | None]) -> tuple[int, int]: ...
def parse_tablespace(
    cells: Sequence[bytes | None],
) -> tuple[int | None, bytes | None, int | None]: ...
def parse_backup_data(payload: bytes) -> tuple[Any, ...]: ...
def crc32c(data: bytes, crc: int = 0) -> int: ...

@final
class Counts:
    def __new__(cls, framing: Framing = "wire") -> Self: ...
    def feed(self, data: Any) -> None: ...
    @property
    def unfinished(self) -> bool: ...
    @property
    def server_error(self) -> str | None: ...
    def result(self) -> dict[str, dict[str, int]]: ...
    def names(self) -> dict[str, dict[str, str]]: ...

class _NetOptions(TypedDict, total=False):
    start: Lsn | int | str | None
    end: At | None
    keys: Sequence[str] | None
    text_keys: Sequence[str]
    deletes: str
    truncates: str
    columns: str
    more: Sequence[str]
    nullable: Sequence[str]
    never_sent: str
    allows_altered: bool
    spool_memory: int | None
    spool_directory: str | os.PathLike[str] | None

@final
class LogDirectory:
    def __new__(
        cls, path: str | os.PathLike[str], store: LogStore | None = None
    ) -> Self: ...
    @property
    def source(self) -> dict[str, Any]: ...
    @property
    def start(self) -> Lsn: ...
    @property
    def end(self) -> Lsn: ...
    def erased(self) -> dict[int, Lsn]: ...
    def __len__(self) -> int: ...
    def segment(self, place: int) -> dict[str, Any] | None: ...
    def versions(
        self,
    ) -> list[tuple[int, str, str, list[tuple[str, int, int, bool]], str]]: ...
    def open(
        self,
        tables: Sequence[TableName] | None = None,
        start: Lsn | int | str | None = None,
        end: At | None = None,
        columns: Sequence[str] = ...,
        ahead: bool = False,
    ) -> LogFile: ...
    def examples(
        self, table: TableName, after: Lsn | int | str | None = None
    ) -> LogFile: ...
    def versions_between(self, oid: int, start: int, end: int) -> list[int]: ...
    def removed(self) -> dict[int, tuple[Lsn, str]]: ...
    def holds(self) -> list[tuple[str, str, Lsn, int | None]]: ...
    def last_load(self, oid: int, start: int, end: int) -> Lsn | None: ...
    def state(
        self,
        table: TableName,
        as_of: At | None = None,
        spool_memory: int | None = None,
        spool_directory: str | os.PathLike[str] | None = None,
        columns: Sequence[tuple[str, int, int]] | None = None,
    ) -> LogRows: ...
    def net(
        self,
        table: TableName,
        **options: Unpack[_NetOptions],
    ) -> LogRows: ...
    def net_part(
        self,
        table: TableName,
        **options: Unpack[_NetOptions],
    ) -> NetPart: ...
    def net_parts(
        self, tables: Sequence[tuple[int, Mapping[str, Any]]]
    ) -> list[tuple[int, NetPart | None]]: ...
    def follow(self) -> int: ...
    def read_object(self, name: str) -> bytes: ...
    def check(self) -> list[str]: ...
    def reached(self) -> tuple[Lsn, bool, tuple[int, Lsn | None] | None] | None: ...
    def messages(
        self, prefix: str, start: Lsn
    ) -> list[tuple[Lsn, int, bool, bytes]]: ...
    def verify(self, place: int) -> None: ...
    def lsn_of(self, at: At, option: str) -> Lsn: ...
    def set_tables(self, tables: Mapping[int, tuple[str, str] | None]) -> None: ...
    def prune(self, until: Lsn | int | str, force: bool) -> int: ...
    def retain(
        self,
        age: int | None,
        size: int | None,
        forget_after: int | None,
        force: bool,
    ) -> dict[str, Any]: ...
    def compact(self, segment_bytes: int) -> tuple[int, int, int]: ...
    def readers(self) -> list[tuple[str, Lsn, int | None]]: ...
    def register(
        self, name: str, position: Lsn | int | str | None
    ) -> tuple[str, Lsn, int | None]: ...
    def advance(
        self, name: str, position: Lsn | int | str, rewind: bool
    ) -> tuple[str, Lsn, int | None]: ...
    def forget(self, name: str) -> None: ...

@final
class LogEraser:
    def __new__(cls, path: str | os.PathLike[str]) -> Self: ...
    def erase(
        self,
        tables: Sequence[int],
        columns: Sequence[str],
        rows: Sequence[tuple[int, int, bool, bool]],
        force: bool,
    ) -> tuple[int, int]: ...
    def close(self) -> None: ...

@final
class LogBlock:
    def __len__(self) -> int: ...

@final
class LogFile:
    @property
    def size(self) -> int: ...
    def read(self, size: int | None = None) -> Any: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...
    def close(self) -> None: ...

@final
class LogLoad:
    @property
    def point(self) -> Lsn: ...
    def copy(self, table: int, *, binary: bool) -> LogCopy: ...

@final
class LogCopy:
    def append(self, data: bytes) -> int: ...

@final
class LogLock:
    def __enter__(self) -> Self: ...
    def __exit__(self, *_exception: object) -> None: ...

@final
class LogObjects:
    def __new__(cls, path: str | os.PathLike[str]) -> Self: ...
    def list(self, prefix: str) -> list[str]: ...
    def changed(self) -> int: ...
    def read(self, name: str) -> tuple[bytes, str]: ...
    def create(self, name: str, data: bytes) -> bool: ...
    def swap(self, name: str, data: bytes, tag: str) -> bool: ...
    def replace(self, name: str, data: bytes) -> None: ...
    def remove(self, name: str) -> None: ...
    def lock(self) -> LogLock: ...

@final
class LogRows:
    def __iter__(self) -> Self: ...
    def __next__(self) -> bytes: ...
    @property
    def position(self) -> Lsn: ...
    @property
    def oid(self) -> int: ...
    @property
    def bytes_read(self) -> int: ...
    @property
    def bytes_total(self) -> int: ...
    @property
    def tally(self) -> NetTally: ...
    def close(self) -> None: ...

@final
class NetPart:
    @property
    def events(self) -> int: ...
    @property
    def position(self) -> Lsn: ...
    def split(self, partitions: int) -> list[tuple[int, bytes]]: ...

@final
class NetJoin:
    def __new__(
        cls,
        parts: Sequence[tuple[int, bytes | bytearray | memoryview]],
        *,
        whole: bool = False,
        **options: Unpack[_NetOptions],
    ) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> bytes: ...
    @property
    def position(self) -> Lsn: ...
    @property
    def oid(self) -> int: ...
    @property
    def entangled(self) -> bytes | None: ...
    @property
    def tally(self) -> NetTally: ...
    def close(self) -> None: ...

@final
class NetTally:
    @property
    def events(self) -> int: ...
    @property
    def rows(self) -> int: ...
    @property
    def moves(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def kept(self) -> list[str]: ...
    @property
    def never_sent(self) -> int: ...
    @property
    def lacking(self) -> list[str]: ...
    @property
    def barrier(self) -> tuple[Lsn, int, bool] | None: ...
    @property
    def clears(self) -> bool: ...
    @property
    def entangled(self) -> int: ...
    @property
    def partial(self) -> list[str]: ...

@final
class LogWriter:
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
    def new_session(self) -> None: ...
    def compare(self, confirmed: Lsn | int | str, *, only: bool = False) -> None: ...
    def assume_compared(self) -> None: ...
    def cross_gap(self, end: Lsn | int | str, reason: str) -> None: ...
    @property
    def gap_end(self) -> Lsn | None: ...
    @property
    def open_commit(self) -> Lsn | None: ...
    @property
    def is_compared(self) -> bool: ...
    @property
    def last(self) -> tuple[Lsn, Lsn, int | None, bool] | None: ...
    @property
    def asked(self) -> dict[str, str]: ...
    def set_asked(self, options: Mapping[str, str]) -> None: ...
    def next_session(self) -> None: ...
    def append(self, chunk: bytes | bytearray | memoryview) -> None: ...
    @property
    def is_full(self) -> bool: ...
    @property
    def has_changes(self) -> bool: ...
    def set_timeline(
        self, timeline: int, start: Lsn | int | str | None = None
    ) -> None: ...
    def set_slot_start(
        self,
        lsn: Lsn | int | str,
        *,
        prepared_until: Lsn | int | str | None = None,
        prepared: Sequence[int] = ...,
    ) -> None: ...
    def advance(self, lsn: Lsn | int | str) -> None: ...
    def sync(self) -> Lsn: ...
    def fill(self) -> None: ...
    def publish(self) -> bool: ...
    @property
    def lacks_first_load(self) -> bool: ...
    def plan_first_load(self) -> None: ...
    def begin_load(
        self,
        point: Lsn | int | str,
        micros: int,
        catalog: Catalog,
        tables: Sequence[tuple[int, str]],
    ) -> LogLoad: ...
    def end_load(self, load: LogLoad) -> bool: ...
    def give_up_load(self, load: LogLoad) -> None: ...
    @property
    def position(self) -> Lsn: ...
    @property
    def source(self) -> dict[str, Any]: ...
    @property
    def counts(self) -> dict[str, Any]: ...
    @property
    def unfinished(self) -> bool: ...
    def new_relations(self) -> list[tuple[int, str, str, list[int]]]: ...
    @property
    def catalog(self) -> Catalog: ...
    def extend_catalog(self, catalog: Catalog) -> None: ...
    def close(self) -> None: ...

@final
class ZstdDecompressor:
    def __new__(cls) -> Self: ...
    @property
    def ended(self) -> bool: ...
    def decompress(self, data: bytes, size: int) -> tuple[bytes, int]: ...

@final
class Rows:
    @property
    def schema(self) -> Schema: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

@final
class Survey:
    def __new__(cls, framing: Framing, **options: Unpack[Options]) -> Self: ...
    def feed(self, chunk: Any) -> None: ...
    def finish(self) -> None: ...
    @property
    def unfinished(self) -> bool: ...
    @property
    def server_error(self) -> str | None: ...
    def versions(self) -> list[dict[str, Any]]: ...
    def ddl(self) -> list[tuple[int, str, tuple[Lsn, int | None]]]: ...

@final
class SchemaUnion:
    def __new__(cls, **options: Unpack[Options]) -> Self: ...
    def add_catalog(self, catalog: Catalog) -> None: ...
    def begin_stream(self, name: str, framing: Framing) -> None: ...
    def feed(self, chunk: Any) -> None: ...
    def finish_stream(self) -> None: ...
    def schema(self) -> Schema: ...
