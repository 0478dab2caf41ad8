import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, final

from walrow.typing import (
    ArrowSchemaExportable,
    Buffer,
    Framing,
    Policy,
    Profile,
    TableName,
)

__all__ = [
    "UNCHANGED",
    "Batch",
    "BatchIterator",
    "Catalog",
    "Counts",
    "Decoder",
    "Frame",
    "Frames",
    "Message",
    "Reader",
    "Schema",
    "Unchanged",
    "__version__",
    "catalog_schema",
]

UNCHANGED: Unchanged
__version__: str

@final
class Unchanged:
    """The type of `UNCHANGED`: a value that was not sent because it is unchanged."""

    def __reduce__(self) -> str: ...

@final
class Batch:
    """Change rows of one version of one table: its own columns, then metadata columns.

    Libraries with the Arrow PyCapsule interface import it without a copy:
    `pa.record_batch(batch)`, `pl.DataFrame(batch)`.
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
    def dropped_bounds(self) -> dict[str, int]:
        """Number of arrays that lost a first subscript other than 1, by column."""

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
    iterator first decodes all input that is still queued, so nothing is lost if an
    iterator is dropped. An error is raised after all earlier batches were returned.
    Every later call raises it again.

    The options are those of `walrow.read`.

    Example:
        decoder = walrow.Decoder(framing="copydata")
        for batch in decoder.feed(payloads):
            ...
        for batch in decoder.flush():
            ...
        confirm(decoder.position)

    Raises:
        OptionError: The options are invalid or contradict each other.
    """

    def __new__(
        cls,
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
        batch_bytes: int = 33554432,
        batch_memory: int = 134217728,
        side_tables: Sequence[str] = (),
        envelope: bool = False,
        start: int | str | None = None,
        late_start: bool = False,
        spool_memory: int = 67108864,
        spool_directory: str | os.PathLike[str] | None = None,
        message_limit: int | None = None,
    ) -> Self: ...
    def feed(self, data: Buffer | Iterable[Any]) -> BatchIterator:
        """Queues a block or an iterable of chunks. Iterates over the full batches.

        Args:
            data: Bytes, which are not copied; another buffer, which is copied once; or
                an iterable of these, in which each is a chunk of the decoder's framing.

        Raises:
            TypeError: The data has another type.
            RuntimeError: Another thread uses the decoder.
        """

    def flush(self) -> BatchIterator:
        """Iterates over batches of all rows up to the last commit."""

    def finish(self) -> BatchIterator:
        """Ends the stream: like `flush`, but a missing chosen table is a SchemaError."""

    def new_session(self) -> None:
        """Begins a new server session: open transactions and relations are discarded.

        Prepared transactions are kept.
        """

    @property
    def prepared(self) -> list[dict[str, Any]]:
        """Prepared transactions not yet committed or rolled back.

        Each has `gid`, `xid`, `prepare_lsn` and `prepare_end_lsn`.
        """

    def prepared_state(self) -> bytes:
        """Returns them as bytes, for `restore_prepared` of another decoder.

        The state matches `position`. Resume from `position` to see their outcome; the
        server sends their rows again only if `position` is before their prepare. So
        call `flush` first, and take all batches.

        Raises:
            RuntimeError: Queued input is not yet decoded.
            OptionError: Some rows were not returned yet.
            Error: The error that stopped the decoder: use the last saved state with its
                position.
            SpoolError: They cannot be read from disk.
        """

    def restore_prepared(self, state: bytes) -> None:
        """Loads the result of `prepared_state`.

        Raises:
            DecodeError: The bytes are not a state, or are truncated. Nothing is loaded.
        """

    @property
    def schema(self) -> Schema | None:
        """The chosen table's schema, once it has appeared."""

    @property
    def position(self) -> int:
        """The end LSN up to which everything was returned; 0 at the beginning."""

    @property
    def unfinished(self) -> bool:
        """Whether the input so far ends inside a frame or a transaction."""

    @property
    def server_error(self) -> str | None:
        """The SQLSTATE of the server error that ended the stream."""

    @property
    def unprepared_commits(self) -> int:
        """Number of COMMIT PREPARED without earlier messages of their transactions.

        These transactions changed nothing, or were prepared before the stream begins.
        Their rows in `walrow.transactions` have no `prepare_lsn`.
        """

    @property
    def unresolved_types(self) -> list[int]:
        """OIDs of unknown types, neither built in nor in the catalog; values are text.

        These are the types of columns, and the types inside an array, a composite type,
        a domain or a range in the catalog.
        """

    @property
    def nulled(self) -> dict[str, int]:
        """As in `Batch`, by `schema.table.column`, over all returned batches."""

    @property
    def dropped_bounds(self) -> dict[str, int]:
        """As in `Batch`, by `schema.table.column`, over all returned batches."""

@final
class Reader:
    """Reads a stream to its end: an iterator over its batches.

    `walrow.read` returns it. With `table` or `envelope`, it is an Arrow stream, which
    decodes while it is consumed. It can be read once. As a context manager, it closes
    its source.
    """

    def __new__(
        cls,
        chunks: Iterable[Any],
        /,
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
        batch_bytes: int = 33554432,
        batch_memory: int = 134217728,
        side_tables: Sequence[str] = (),
        envelope: bool = False,
        start: int | str | None = None,
        late_start: bool = False,
        spool_memory: int = 67108864,
        spool_directory: str | os.PathLike[str] | None = None,
        message_limit: int | None = None,
    ) -> Self: ...
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
    def position(self) -> int:
        """The end LSN up to which everything was returned; 0 at the beginning."""

    @property
    def unfinished(self) -> bool:
        """Whether the source so far ends inside a frame or a transaction."""

    @property
    def server_error(self) -> str | None:
        """The SQLSTATE of the server error that ended the stream."""

    @property
    def unprepared_commits(self) -> int:
        """Number of COMMIT PREPARED without earlier messages of their transactions.

        These transactions changed nothing, or were prepared before the stream begins.
        Their rows in `walrow.transactions` have no `prepare_lsn`.
        """

    @property
    def unresolved_types(self) -> list[int]:
        """OIDs of unknown types, neither built in nor in the catalog; values are text.

        These are the types of columns, and the types inside an array, a composite type,
        a domain or a range in the catalog.
        """

    @property
    def nulled(self) -> dict[str, int]:
        """As in `Batch`, by `schema.table.column`, over all returned batches."""

    @property
    def dropped_bounds(self) -> dict[str, int]:
        """As in `Batch`, by `schema.table.column`, over all returned batches."""

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
    """Iterates over the frames of a stream; `walrow.messages` returns it."""

    def __new__(cls, chunks: Iterable[Any], /, framing: Framing = "wire") -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Frame: ...
    @property
    def unfinished(self) -> bool:
        """Whether the source so far ends inside a frame."""

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
        """The frame's fields. LSNs are numbers, clocks are microseconds since 2000."""

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
        """The fields in the manual. LSNs are numbers, times are microseconds since 2000.

        Rows (`key`, `old`, `new`) are lists with one value per column: None for NULL,
        `UNCHANGED` for a value that was not sent, a string (or bytes, if not UTF-8) for
        a text value, and bytes for a binary value.
        """

    def __getattribute__(self, name: str, /) -> Any: ...
    def __dir__(self) -> list[str]: ...

@final
class Catalog:
    """Definitions of types and tables that a stream lacks: a value, read from a server.

    Raises:
        OptionError: The text is not a catalog: it contains an unknown key, an OID
            twice, or an invalid array delimiter. The error names the entry by its OID.
    """

    def __new__(cls, json: str | None = None) -> Self: ...
    @classmethod
    def from_json(cls, json: str) -> Self:
        """Reads a catalog from JSON."""

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
    def metadata(self) -> dict[str, str]:
        """The table's metadata: `pg.schema`, `pg.table`, `pg.key_columns`, ...."""

    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __arrow_c_schema__(self) -> object:
        """Exports the schema, for Arrow consumers."""

def catalog_schema(
    catalog: Catalog,
    table: TableName,
    *,
    schema: ArrowSchemaExportable | None = None,
    profile: Profile = "arrow",
    types: Mapping[str, ArrowSchemaExportable | str] | None = None,
    unrepresentable: Policy | Mapping[str, Policy] = "error",
    metadata: Sequence[str] | None = None,
    metadata_prefix: str = "_",
    envelope: bool = False,
) -> Schema: ...

@final
class Counts:
    """Counts frames, messages and cells by kind."""

    def __new__(cls, framing: Framing = "wire") -> Self: ...
    def feed(self, data: bytes) -> None:
        """Counts a block or, with framings other than `wire`, a chunk."""

    @property
    def unfinished(self) -> bool:
        """Whether the input so far ends inside a frame."""

    def result(self) -> dict[str, dict[str, int]]:
        """The counts: `frames`, `messages` and `cells`, by their letter."""
