"""Which table of a log is applied, by which key its rows are found, and what it has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import walrow
from walrow.errors import ApplyError, Remedy, SchemaError
from walrow.marks import Why
from walrow.spark.apply_items import COLUMNS, KEYS
from walrow.spark.apply_units import log_tables
from walrow.spark.change_rows import METADATA, PREFIX, Events
from walrow.spark.folding import Fold
from walrow.spark.schemas import spark_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from walrow.log_items import LogTable, LogVersion
    from walrow.lsn import Lsn
    from walrow.marks import Mark
    from walrow.spark.apply_items import Rules
    from walrow.spark.apply_units import Batch
    from walrow.typing import TableName

__all__ = ["AppliedTable", "find_table", "keys_of", "refuse_incomplete"]


class AppliedTable(NamedTuple):
    """A table of a log, with its columns for Spark.

    Attributes:
        log: The log.
        table: The table.
        keys: The columns by which rows are found.
        schema: The schema of its changes, with metadata columns.
        fields: The columns of the target, as Spark's fields.
        nullable: Columns that some versions lack.
        whole_images: Whether old images may have more than the key: REPLICA IDENTITY FULL.
        options: The options of `walrow.read` for decoding.
    """

    log: walrow.Log
    table: LogTable
    keys: tuple[str, ...]
    schema: pa.Schema
    fields: list[Any]
    nullable: tuple[str, ...]
    whole_images: bool
    options: dict[str, Any]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return [field.name for field in self.fields]

    def events(
        self, batch: Batch, rules: Rules, *, with_old_images: bool = False
    ) -> Events:
        """How executors make events of its changes."""
        return Events(
            self.log,
            self.table.oid,
            self.table.name,
            self.schema,
            self.options,
            batch.units,
            self.keys,
            batch.barrier,
            rules.deletes,
            with_old_images,
        )

    def fold(self, rules: Rules) -> Fold:
        """How executors make net changes of its events."""
        return Fold(self.keys, rules.deletes == "soft", self.whole_images)

    @classmethod
    def of(
        cls,
        log: walrow.Log,
        table: LogTable,
        keys: Sequence[str] | None,
        options: dict[str, Any],
    ) -> AppliedTable:
        """The table with its key and its schema.

        Raises:
            SchemaError: No column or index says which row a change is about, or Spark's
                tables cannot have the columns.
        """
        import pyarrow as pa

        found = keys_of(log, table, keys)
        schema = pa.schema(
            walrow.schema(
                log,
                table.oid,
                profile="spark",
                metadata=METADATA,
                metadata_prefix=PREFIX,
                **options,
            )
        )
        own = pa.schema(list(schema)[: -len(METADATA)])
        _check_columns(table, own, found)
        fields = list(spark_schema(own).fields)
        versions = [{it.name for it in version.columns} for version in table.versions]
        return cls(
            log,
            table,
            found,
            schema,
            fields,
            tuple(it for it in own.names if not all(it in each for each in versions)),
            any(set(found) < _identity(version) for version in table.versions),
            options,
        )


def find_table(tables: Sequence[LogTable], name: TableName) -> LogTable:
    """The last of a log's tables that had this name.

    Raises:
        SchemaError: The log has no such table, or two in different schemas.
    """
    if isinstance(name, int):
        found = [table for table in tables if table.oid == name]
    else:
        wanted = ".".join(name) if isinstance(name, tuple) else name
        found = [table for table in tables if table.name == wanted] or [
            table for table in tables if table.name.partition(".")[2] == wanted
        ]
    if not found:
        names = ", ".join(sorted({table.name for table in tables})) or "none"
        text = f"the log has no table {name!r}; its tables are {names}"
        raise SchemaError(text, table=str(name))
    if len({table.name for table in found}) > 1:
        names = " and ".join(sorted({table.name for table in found}))
        text = f"{name!r} is {names}: name one with its schema"
        raise SchemaError(text, table=str(name))
    return max(found, key=lambda table: table.last)


def keys_of(
    log: walrow.Log, table: LogTable, keys: Sequence[str] | None
) -> tuple[str, ...]:
    """The columns by which rows are found.

    They are those that were given, or those of the replica identity. Under REPLICA IDENTITY
    FULL, they are those of the primary key that the log has recorded.

    Raises:
        SchemaError: There are none, or old images do not have them.
    """
    if not table.versions:
        text = f"{table.name} has no change in the log, and needs a load first"
        raise SchemaError(text, table=table.name)
    latest = table.versions[-1]
    if keys is not None:
        chosen = tuple(keys)
        for version in table.versions:
            unknown = set(chosen) - {column.name for column in version.columns}
            if unknown or not chosen:
                text = (
                    f"{table.name}: the key has a column {min(unknown)}, which the table "
                    "lacks"
                    if unknown
                    else f"{table.name}: the key has no columns"
                )
                raise SchemaError(text, table=table.name)
    elif _is_full(latest):
        chosen = _primary_key(log, table)
        if not chosen:
            text = (
                f"{table.name} has REPLICA IDENTITY FULL and no recorded primary key, so "
                f"nothing says which row a change is about: ALTER TABLE {table.name} ADD "
                "PRIMARY KEY (...), and load the table again"
            )
            raise _without_key(text, table)
    else:
        chosen = tuple(column.name for column in latest.columns if column.key)
        if not chosen:
            text = (
                f"{table.name} has no replica identity, so nothing says which row a change "
                f"is about: ALTER TABLE {table.name} ADD PRIMARY KEY (...), or ALTER TABLE "
                f"{table.name} REPLICA IDENTITY USING INDEX ..."
            )
            raise _without_key(text, table)
    for version in table.versions:
        identity = _identity(version)
        if identity and not set(chosen) <= identity:
            text = (
                f"{table.name}: the replica identity is ({', '.join(sorted(identity))}) in a "
                f"part of the log, so old images lack the key ({', '.join(chosen)}): ALTER "
                f"TABLE {table.name} REPLICA IDENTITY FULL, load the table again, and "
                "prune the log up to the load"
            )
            raise SchemaError(
                text,
                table=table.name,
                advice="; or choose columns that all versions have with ",
                remedies=(KEYS,),
            )
    return chosen


def _without_key(text: str, table: LogTable) -> SchemaError:
    advice = "; or choose columns that are unique and never NULL with "
    return SchemaError(text, table=table.name, advice=advice, remedies=(KEYS,))


def refuse_incomplete(
    log: walrow.Log,
    table: LogTable,
    marks: Sequence[Mark],
    start: Lsn,
    end: Lsn,
) -> None:
    """Refuses a table whose rows the log does not give at this point.

    Args:
        log: The log.
        table: The table.
        marks: When it was not whole.
        start: What the target has. It has the rows from before the slot, too.
        end: The point.

    Raises:
        ApplyError: The receiver has noticed something that only a load makes whole.
    """
    for mark in marks:
        if start and mark.code == Why.HAD_ROWS:
            continue
        if mark.holds_at(end):
            text = (
                f"{table.name} is not whole since {mark.since}, because {mark.reason}: "
                f"walrow load --log {log.location} {table.name}"
            )
            raise ApplyError(text, code="incomplete", table=table.name, lsn=mark.since)


def _identity(version: LogVersion) -> set[str]:
    return {column.name for column in version.columns if column.key}


def _is_full(version: LogVersion) -> bool:
    # All columns are in an identity by an index, too, if it is over all of them.
    return version.replica_identity == "full" and len(version.columns) > 0


def _primary_key(log: walrow.Log, table: LogTable) -> tuple[str, ...]:
    """The primary key, as the last catalog in the log has it."""
    segments = log.segments()
    for place in reversed(range(len(segments))):
        if table.oid not in {oid for oid, *_ in log_tables(log, place)}:
            continue
        start, end = segments[place].start, segments[place].end
        for frame in walrow.frames(log._log.open(start=start, end=end)):
            message = frame.message
            if message is None:
                continue
            if message.name in ("Relation", "Begin"):
                break
            fields = message.fields
            if message.name != "Message" or fields["prefix"] != "walrow":
                continue
            fact = json.loads(bytes(fields["content"]))
            for found in fact.get("tables", ()) if fact["fact"] == "catalog" else ():
                if found["oid"] == table.oid:
                    return tuple(found.get("primary_key", ()))
    return ()


def _check_columns(table: LogTable, own: pa.Schema, keys: Sequence[str]) -> None:
    import pyarrow as pa

    lower: dict[str, str] = {}
    for field in own:
        name = field.name
        other = lower.setdefault(name.lower(), name)
        if other != name:
            text = (
                f"{table.name}: columns {other} and {name} differ by case only, and are one "
                "column to Spark"
            )
            raise SchemaError(
                text,
                table=table.name,
                column=name,
                advice="; leave one out with ",
                remedies=(COLUMNS,),
            )
        if name.startswith(PREFIX):
            text = f"{table.name}: walrow needs names that begin with {PREFIX} itself"
            raise SchemaError(text, table=table.name, column=name)
        if name in keys and pa.types.is_nested(field.type):
            text = (
                f"{table.name}: column {name} of the key is {field.type}, which cannot be "
                "compared"
            )
            remedies = (Remedy("types", name, "string"),)
            raise SchemaError(text, table=table.name, column=name, remedies=remedies)
    if absent := set(keys) - set(own.names):
        text = f"{table.name}: column {min(absent)} of the key is not among the columns"
        raise SchemaError(text, table=table.name, column=min(absent))
