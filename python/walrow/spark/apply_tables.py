"""Which table of a log is applied, by which key its rows are found, and what it has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import walrow
from walrow.errors import ApplyError, Remedy, SchemaError
from walrow.log_tables import find_table, identity, keys_of
from walrow.marks import Why
from walrow.spark.apply_items import COLUMNS
from walrow.spark.change_rows import METADATA, PREFIX, Events
from walrow.spark.folding import Fold
from walrow.spark.schemas import spark_schema

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from walrow.log_items import LogTable
    from walrow.lsn import Lsn
    from walrow.marks import Mark
    from walrow.spark.apply_items import Rules
    from walrow.spark.apply_units import Batch

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
            any(set(found) < identity(version) for version in table.versions),
            options,
        )


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
