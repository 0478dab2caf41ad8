"""The file of `walrow run` as frozen values: its keys, with types and defaults.

The reader of the file, its JSON schema and docs/running.md follow from these classes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Literal

# They are looked up when the annotations are read.
from walrow.typing import Deletes, NeverSent, Truncates  # noqa: TC001

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = [
    "Amount",
    "Bytes",
    "Loaded",
    "LogPart",
    "Options",
    "RunFile",
    "Seconds",
    "Source",
    "Target",
]


class Amount(Enum):
    """An amount that is written with its unit, or as a number."""

    DURATION = "duration"
    SIZE = "size"


Seconds = Annotated[float, Amount.DURATION]
Bytes = Annotated[int, Amount.SIZE]
#: Names of columns with texts, or of Spark's settings.
Options = dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The server, and the options of its stream.

    Attributes:
        dsn: A connection string without a password. Environment variables, such as PGHOST and
            PGPASSFILE, supply missing parameters.
        slot: A logical slot for pgoutput. Only this receiver may use it.
        publications: One publication or several. They must exist.
        create: Whether the slot is created if it does not exist.
        snapshot: With create, whether the log begins with the rows of all published tables.
        failover: Whether the slot is copied to standbys. From server 17.
        two_phase: Whether prepared transactions come at PREPARE.
        binary: Whether values come in binary.
        messages: Whether logical messages come.
        streaming: Whether large transactions come before their commit. Default: yes, but not with
            messages.
        origin: With "none", transactions that came to the server by replication are skipped.
        jobs: The number of connections that copy tables for a load.
        max_hold: Cancels a load when more bytes of the stream wait for it.
        start_within: How long the server may be away at the start. Default: without end, and 10
            minutes with --once.
    """

    slot: str
    publications: tuple[str, ...]
    dsn: str = ""
    create: bool = False
    snapshot: bool = False
    failover: bool = False
    two_phase: bool = False
    binary: bool = False
    messages: bool = False
    streaming: bool | None = None
    origin: Literal["any", "none"] | None = None
    jobs: int = 4
    max_hold: Bytes | None = None
    start_within: Seconds | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """The log.

    Attributes:
        path: Its directory. A relative path begins at the directory of this file.
        retain_age: How long transactions are kept. Default: for ever.
        retain_size: How many bytes of segments are kept. Default: all.
        forget_after: Readers that were not used for so long are forgotten.
        publish_after: Transactions are published for readers after this time.
        segment_size: A segment ends at this size of the stream.
        compression_level: The level of zstd. 0 stores the stream as it is.
        spool_memory: The memory of open transactions. Beyond it, they wait in files.
        group_access: Whether the owner's group may read the log.
        give_up_after: How long a full disk, for example, may last.
    """

    path: str
    retain_age: Seconds | None = None
    retain_size: Bytes | None = None
    forget_after: Seconds | None = None
    publish_after: Seconds = 10.0
    segment_size: Bytes = 64 << 20
    compression_level: int = 1
    spool_memory: Bytes = 64 << 20
    group_access: bool = False
    give_up_after: Seconds = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """Targets of the tables that match patterns.

    Attributes:
        tables: Patterns of published tables, as schema.table with * and ?.
        exclude: Patterns of tables that are not meant.
        to: The target of each table: delta:PATH, delta:NAME or iceberg:NAME. {schema} and {table}
            become the names of the table. A relative path begins at the directory of this file.
        engine: The library that writes the target. With "auto", deltalake if it is installed for delta:PATH,
            and Spark for others.
        mode: The kind of target: "current" rows, their "history", or all "changes".
        every: The pause between two looks at the log.
        keys: The columns that identify a row. Default: the replica identity.
        deletes: The effect of deletes: remove rows, mark them, or ignore the delete.
        deleted_column: The column that marks deleted rows.
        truncates: The effect of truncates.
        never_sent: The policy for a value of a new row that was never sent.
        partition_by: New targets are partitioned by these columns.
        cluster_by: New targets are clustered by these columns. Only with Spark.
        widen_types: Whether columns of Delta tables get wider types when the table's columns do. Only
            with Spark, which is then the only writer.
        storage_options: Options of the object store, as deltalake takes them. Keep secrets in the
            environment.
        columns: Only these columns. Default: all.
        types: The Arrow type for a column or a PostgreSQL type.
        unrepresentable: The policy for values that the Arrow type cannot hold.
        load: Whether a table that needs a load gets one by itself ("auto"), or `walrow status` names
            it ("ask").
        memory: About how much memory deltalake takes.
    """

    tables: tuple[str, ...]
    to: str
    exclude: tuple[str, ...] = ()
    engine: Literal["auto", "delta", "spark"] = "auto"
    mode: Literal["current", "history", "changes"] = "current"
    every: Seconds = 10.0
    keys: tuple[str, ...] = ()
    deletes: Deletes = "apply"
    deleted_column: str = "_is_deleted"
    truncates: Truncates = "apply"
    never_sent: NeverSent = "error"
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    widen_types: bool = False
    storage_options: Options = field(default_factory=dict)
    columns: tuple[str, ...] = ()
    types: Options = field(default_factory=dict)
    unrepresentable: Literal["error", "null"] = "error"
    load: Literal["auto", "ask"] = "auto"
    memory: Bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """The whole file.

    Attributes:
        source: The server.
        log: The log.
        target: The targets.
        spark: Settings of Spark's session, such as "spark.jars.packages". Names are in quotes.
    """

    source: Source
    log: LogPart
    target: tuple[Target, ...]
    spark: Options = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A file that was read, and where it was.

    Attributes:
        file: Its contents.
        path: Its absolute path.
        text: Its text.
        lines: The line of each [[target]].
    """

    file: RunFile
    path: Path
    text: str
    lines: Mapping[int, int]

    @property
    def folder(self) -> Path:
        """The directory where relative paths begin."""
        return self.path.parent

    @property
    def log(self) -> Path:
        """The log's directory."""
        return self.folder / self.file.log.path

    def names(self, at: int) -> str:
        """A target's place in the file, for a message."""
        line = self.lines.get(at)
        where = "" if line is None else f" (line {line})"
        return f"target {at + 1}{where}"
