"""The file of `walrow run` as frozen values: its keys, with types and defaults.

A key that is an option of `receive` or `apply_changes` is declared there, and named here. The reader of
the file, its JSON schema and the tables of docs/running.md follow from these classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal

from walrow._apply.options import ApplyOptions, DeltaApplyOptions, SparkApplyOptions
from walrow._log.retention import Retention
from walrow._options import (
    DURATION,
    FLAG,
    MAPPING,
    NAMES,
    NUMBER,
    SIZE,
    TEXT,
    Kind,
    Option,
    Value,
    declared,
    options,
)
from walrow._receive.options import ReceiveOptions
from walrow.typing import Duration


@options
class Source:
    """The server, and the options of its stream."""

    _: KW_ONLY
    slot = ReceiveOptions.slot
    publications = ReceiveOptions.publications.but(
        "One publication or several. They must exist."
    )
    dsn: Value[str] = Option(
        "A connection string without a password. Environment variables, such as PGHOST and "
        "PGPASSFILE, supply missing parameters.",
        default="",
    )
    create = ReceiveOptions.create.but("Creates the slot if it does not exist.")
    snapshot = ReceiveOptions.snapshot
    failover = ReceiveOptions.failover
    two_phase = ReceiveOptions.two_phase
    binary = ReceiveOptions.binary
    messages = ReceiveOptions.messages
    streaming = ReceiveOptions.streaming
    origin = ReceiveOptions.origin
    jobs = ReceiveOptions.jobs
    on_gap: Value[Literal["error", "snapshot"]] = Option(
        "If changes are lost: an error, or the log continues behind them and loads all tables "
        '("snapshot").',
        default="error",
    )
    start_within = ReceiveOptions.start_within.but(
        "The time within which a server must be reached for the first time. Default: 10 minutes "
        "with `--once`, otherwise without end."
    )


@options
class LogPart:
    """The log."""

    _: KW_ONLY
    path: Value[str] = Option(
        "Its directory. A relative path begins at the directory of this file."
    )
    retain_age = Retention.age.but("How long transactions are kept. Default: for ever.")
    retain_size = Retention.bytes.but(
        "How many bytes of segments are kept. With `retain_age` too, segments beyond either limit "
        "are removed. Default: all."
    )
    forget_after = Retention.forget_after
    publish_after = ReceiveOptions.publish_after
    segment_size = ReceiveOptions.segment_size
    compact = ReceiveOptions.compact
    spool_memory = ReceiveOptions.spool_memory
    group_access = ReceiveOptions.group_access


@options
class Target:
    """Targets of the tables that match patterns."""

    _: KW_ONLY
    tables: Option[Sequence[str], tuple[str, ...]] = Option(
        "Patterns of published tables, as schema.table with * and ?. A schema's own dot is [.]."
    )
    to: Value[str] = Option(
        "The target of each table: delta:PATH, delta:NAME or iceberg:NAME. {schema} and {table} "
        "become the names of the table. A relative path begins at the directory of this file."
    )
    exclude: Option[Sequence[str], tuple[str, ...]] = Option(
        "Patterns of tables that are not meant.", default=()
    )
    engine: Value[Literal["auto", "delta", "spark"]] = Option(
        'The library that writes the target. With "auto", deltalake if it is installed for '
        "delta:PATH, and Spark for others.",
        default="auto",
    )
    mode = ApplyOptions.mode
    every: Option[Duration, float] = Option(
        "The pause between two looks at the log.", default="10s"
    )
    keys = ApplyOptions.keys
    deletes = ApplyOptions.deletes
    deleted_column = ApplyOptions.deleted_column
    truncates = ApplyOptions.truncates
    never_sent = ApplyOptions.never_sent
    partition_by = ApplyOptions.partition_by
    cluster_by = SparkApplyOptions.cluster_by.but(
        "A new target is clustered, or in Iceberg, sorted, by these columns. Only with Spark."
    )
    widen_types = SparkApplyOptions.widen_types.but(
        "Whether columns of Delta tables get wider types when the table's columns do. Only with "
        "Spark, which is then the only writer."
    )
    storage_options = DeltaApplyOptions.storage_options.but(
        "Options of the object store, as deltalake takes them. Keep secrets in the environment."
    )
    columns = ApplyOptions.columns
    types: Value[Mapping[str, str] | None] = Option(
        "The Arrow type for a column or a PostgreSQL type.", default=None
    )
    unrepresentable: Value[Literal["error", "null"]] = Option(
        "The policy for values that the Arrow type cannot hold.", default="error"
    )
    load: Value[Literal["auto", "ask"]] = Option(
        'Whether a table that needs a load gets one by itself ("auto"), or `walrow status` names '
        'it ("ask").',
        default="auto",
    )
    memory = DeltaApplyOptions.memory.but("About how much memory deltalake takes.")


SPARK: Value[Mapping[str, str] | None] = Option.of(
    "spark",
    "Mapping[str, str]",
    text='Settings of Spark\'s session, such as "spark.jars.packages". Names are in quotes.',
)


def shared(part: Source | LogPart | Target, function: Any) -> dict[str, Any]:
    """The values of the keys that are options of a function, too."""
    known = declared(function)
    return {it: getattr(part, it) for it in declared(type(part)) if it in known}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFile:
    """The whole file."""

    source: Source
    log: LogPart
    target: tuple[Target, ...]
    spark: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A file that was read, and where it was.

    Attributes:
        lines: The line of each [[target]].
        ignoring_case: The targets whose file system ignores case.
    """

    file: RunFile
    path: Path
    text: str
    lines: Mapping[int, int]
    ignoring_case: frozenset[int] = frozenset()

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


def json_schema() -> dict[str, Any]:
    """The JSON schema of the file.

    >>> json_schema()["properties"]["source"]["required"]
    ['slot', 'publications']
    """
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "The file of `walrow run`",
        "type": "object",
        "properties": {
            "source": {"description": "The server.", **_table(Source)},
            "log": {"description": "The log.", **_table(LogPart)},
            "target": {
                "description": "The targets.",
                "type": "array",
                "items": _table(Target),
            },
            "spark": _key(SPARK),
        },
        "required": ["source", "log", "target"],
        "additionalProperties": False,
    }


def _table(part: Any) -> dict[str, Any]:
    known = declared(part)
    return {
        "type": "object",
        "properties": {name: _key(each) for name, each in known.items()},
        "required": [name for name, each in known.items() if each.is_required],
        "additionalProperties": False,
    }


def _key(option: Option[Any, Any]) -> dict[str, Any]:
    kind = option.kind
    values = {"enum": list(kind.choices)} if kind.choices else _VALUES[kind]
    found = {"description": option.text, **values}
    if not option.is_required and option.default not in (None, ()):
        found["default"] = option.default
    return found


def _amount(type_: str, pattern: str) -> dict[str, Any]:
    return {
        "anyOf": [
            {"type": type_, "minimum": 0},
            {"type": "string", "pattern": pattern},
        ]
    }


_VALUES: dict[Kind, dict[str, Any]] = {
    TEXT: {"type": "string"},
    FLAG: {"type": "boolean"},
    NUMBER: {"type": "integer"},
    NAMES: {"type": "array", "items": {"type": "string"}},
    MAPPING: {"type": "object", "additionalProperties": {"type": "string"}},
    DURATION: _amount("number", r"^(\d+(\.\d+)? ?[sSmMhHdDwW]?|inf)$"),
    SIZE: _amount("integer", r"^(\d+(\.\d+)? ?([kKmMgGtT]([iI]?[bB])?|[bB])|0)$"),
}
