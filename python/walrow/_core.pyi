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
    """The type of `UNCHANGED`: a value that was not sent, because it is unchanged."""

    def __reduce__(self) -> str: ...

@final
class Batch:
    """Change rows of one version of one table: its own columns, then metadata columns.

    Whatever takes the Arrow PyCapsule interface takes it without a copy:
    `pa.record_batch(batch)`, `pl.DataFrame(batch)`.
    """

    @property
    def table(self) -> str:
        """Schema and name, joined and not quoted: `public.orders`."""

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
        """How many rows it has; also `len`."""

    @property
    def num_columns(self) -> int:
        """How many columns it has, metadata columns included."""

    @property
    def column_names(self) -> list[str]:
        """The columns' names, metadata columns last."""

    @property
    def schema(self) -> Schema:
        """Its Arrow schema."""

    @property
    def nulled(self) -> dict[str, int]:
        """How many values became null by `unrepresentable="null"`, by column."""

    @property
    def dropped_bounds(self) -> dict[str, int]:
        """How many arrays lost a first subscript other than 1, by column."""

    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> object:
        """Exports the schema, for Arrow consumers."""

    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[object, object]:
        """Exports the rows, for Arrow consumers; a requested schema is ignored."""

@final
class BatchIterator:
    """An iterator over the batches of what a `Decoder` was fed."""

    def __iter__(self) -> Self: ...
    def __next__(self) -> Batch: ...

@final
class Decoder:
    """Turns a stream into batches as its bytes come in.

    What it is fed is queued and decoded, without the interpreter lock, as the iterators
    run. A later iterator first works off what is queued, so nothing is lost where one is
    dropped. Batches that came before an error are handed out, then the error is raised,
    and raised again by whatever follows.

    The options are those of `walrow.read`.

    Example:
        decoder = walrow.Decoder(framing="copydata")
        for batch in decoder.feed(payloads):
            ...
        for batch in decoder.flush():
            ...
        confirm(decoder.position)

    Raises:
        OptionError: The options contradict each other or name what there is not.
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
        """Queues a block, or an iterable of chunks; gives the batches that get full.

        Args:
            data: Bytes, which are not copied; another buffer, which is copied once; or an
                iterable of such, each one a chunk of the decoder's framing.

        Raises:
            TypeError: Neither.
            RuntimeError: Another thread uses the decoder.
        """

    def flush(self) -> BatchIterator:
        """Gives batches of all rows up to the last commit."""

    def finish(self) -> BatchIterator:
        """Ends the stream: as `flush`; a chosen table that never came is a SchemaError."""

    def new_session(self) -> None:
        """Begins a new server session: open transactions and relations are dropped.

        What is prepared stays.
        """

    @property
    def prepared(self) -> list[dict[str, Any]]:
        """The prepared transactions whose end the stream did not tell yet.

        Of each `gid`, `xid`, `prepare_lsn` and `prepare_end_lsn`.
        """

    def prepared_state(self) -> bytes:
        """Gives them as bytes, for `restore_prepared` of another decoder.

        They belong to `position`: from there on a stream tells how they end, and their
        rows only if it lies before their prepare. So `flush` before, and take all batches.

        Raises:
            RuntimeError: What was fed is not worked off.
            OptionError: Rows were not handed out.
            Error: What stopped the decoder: the state that was saved last counts then,
                with its position.
            SpoolError: They cannot be read from disk.
        """

    def restore_prepared(self, state: bytes) -> None:
        """Takes in what `prepared_state` gave.

        Raises:
            DecodeError: The bytes are no such state, or cut short; none of it is taken in.
        """

    @property
    def schema(self) -> Schema | None:
        """The chosen table's schema, once it has appeared."""

    @property
    def position(self) -> int:
        """The end LSN up to which everything was handed out; 0 before the first."""

    @property
    def unfinished(self) -> bool:
        """Whether the input so far ends inside a frame or a transaction."""

    @property
    def server_error(self) -> str | None:
        """The SQLSTATE of the error with which the server ended the stream."""

    @property
    def unprepared_commits(self) -> int:
        """How many COMMIT PREPARED came without anything else of their transactions.

        They changed nothing, or were prepared before the stream begins; their rows of
        `walrow.transactions` have no `prepare_lsn`.
        """

    @property
    def unresolved_types(self) -> list[int]:
        """OIDs of types neither built in nor in the catalog, whose values are text.

        Of columns, and of what an array, a composite type, a domain or a range in the
        catalog consists of.
        """

    @property
    def nulled(self) -> dict[str, int]:
        """As in `Batch`, by `schema.table.column`, over all batches handed out."""

    @property
    def dropped_bounds(self) -> dict[str, int]:
        """As in `Batch`, by `schema.table.column`, over all batches handed out."""

@final
class Reader:
    """Reads a stream to its end: an iterator over its batches.

    Made by `walrow.read`. With `table` it is an Arrow stream, which decodes as it is
    consumed. It can be read once. As a context manager it closes its source.
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
        """Closes the source, as an error does; no batches come any more."""

    @property
    def schema(self) -> Schema:
        """The chosen table's schema; reads on until the table appears.

        Raises:
            TypeError: No table was chosen.
            SchemaError: The table never appeared.
        """

    @property
    def position(self) -> int:
        """The end LSN up to which everything was handed out; 0 before the first."""

    @property
    def unfinished(self) -> bool:
        """Whether the source so far ends inside a frame or a transaction."""

    @property
    def server_error(self) -> str | None:
        """The SQLSTATE of the error with which the server ended the stream."""

    @property
    def unprepared_commits(self) -> int:
        """How many COMMIT PREPARED came without anything else of their transactions.

        They changed nothing, or were prepared before the stream begins; their rows of
        `walrow.transactions` have no `prepare_lsn`.
        """

    @property
    def unresolved_types(self) -> list[int]:
        """OIDs of types neither built in nor in the catalog, whose values are text.

        Of columns, and of what an array, a composite type, a domain or a range in the
        catalog consists of.
        """

    @property
    def nulled(self) -> dict[str, int]:
        """As in `Batch`, by `schema.table.column`, over all batches handed out."""

    @property
    def dropped_bounds(self) -> dict[str, int]:
        """As in `Batch`, by `schema.table.column`, over all batches handed out."""

    def __arrow_c_schema__(self) -> object:
        """Exports the schema, for Arrow consumers; only with a table."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Exports the batches, for Arrow consumers; a requested schema is ignored.

        Raises:
            TypeError: No table was chosen.
            SchemaError: The table never appeared.
        """

@final
class Frames:
    """An iterator over the frames of a stream, made by `walrow.messages`."""

    def __new__(cls, chunks: Iterable[Any], /, framing: Framing = "wire") -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Frame: ...
    @property
    def unfinished(self) -> bool:
        """Whether what was read so far ends inside a frame."""

@final
class Frame:
    """One message of the server; of CopyData, its payload."""

    @property
    def kind(self) -> str:
        """`w` or `k` of CopyData, else the message's type letter."""

    @property
    def name(self) -> str:
        """`XLogData`, `PrimaryKeepalive`, `CopyBothResponse`, ...."""

    @property
    def offset(self) -> int:
        """Bytes of the stream before it."""

    @property
    def size(self) -> int:
        """Its size in bytes."""

    @property
    def message(self) -> Message | None:
        """The pgoutput message of XLogData."""

    @property
    def fields(self) -> dict[str, Any]:
        """Its own fields; LSNs as numbers, clocks as microseconds since 2000."""

    def to_bytes(self) -> bytes:
        """Writes it again, from what was read: exactly the bytes it came in."""

@final
class Message:
    """One message of pgoutput. Its fields are attributes, but for `name` and `kind`."""

    @property
    def kind(self) -> str:
        """The message's letter: `I`."""

    @property
    def name(self) -> str:
        """The message's name in the manual: `Insert`. A relation's is in `fields`."""

    @property
    def fields(self) -> dict[str, Any]:
        """The manual's fields. LSNs are numbers, times microseconds since 2000.

        Rows (`key`, `old`, `new`) are lists of a value a column: None for NULL, `UNCHANGED`
        for a value that was not sent, a string (bytes, if not UTF-8) for text, and bytes
        for binary.
        """

    def __getattribute__(self, name: str, /) -> Any: ...
    def __dir__(self) -> list[str]: ...

@final
class Catalog:
    """What a stream does not say of types and tables: a value, read once from a server.

    Raises:
        OptionError: The text is not a catalog: has a key that is none, one OID twice, or a
            delimiter that arrays cannot have; names the entry by its OID.
    """

    def __new__(cls, json: str | None = None) -> Self: ...
    @classmethod
    def from_json(cls, json: str) -> Self:
        """Reads a catalog from JSON."""

    def to_json(self) -> str:
        """Writes it as JSON."""

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
        """The columns' names."""

    @property
    def metadata(self) -> dict[str, str]:
        """What is known of the table: `pg.schema`, `pg.table`, `pg.key_columns`, ...."""

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
        """Counts a block; in other framings than `wire` a chunk."""

    @property
    def unfinished(self) -> bool:
        """Whether the input so far ends inside a frame."""

    def result(self) -> dict[str, dict[str, int]]:
        """The counts: `frames`, `messages` and `cells` by their letter."""
