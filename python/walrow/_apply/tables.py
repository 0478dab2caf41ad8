"""The table of a log that is applied, its key, and its columns."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from walrow._apply.items import COLUMNS, PREFIX
from walrow._apply.modes import ANY_RANGE, LSN, NET_METADATA, beside, metadata_of, named
from walrow._apply.net_table import NetTable, Tally
from walrow._apply.options import ApplyOptions
from walrow._apply.targets import never_sent
from walrow._apply.units import Batch
from walrow._core import Catalog
from walrow._late import pa
from walrow._log.items import LogTable
from walrow._log.needs import read_record
from walrow._log.tables import KEYS, are_unique, between, identity, keys_of
from walrow._read import schemas
from walrow.errors import Remedy, SchemaError
from walrow.log import Log
from walrow.typing import Mode


class AppliedTable(NamedTuple):
    """A table of a log, with its columns for a target.

    Attributes:
        log: The log.
        table: The table.
        keys: The key columns.
        schema: The schema of its changes, with metadata columns.
        nullable: Columns that some versions lack.
        options: The options of `walrow.read` for decoding.
        metadata: The metadata columns that are read.
        has_unique_keys: Whether the server keeps the key unique and not NULL. Otherwise, the rows
            of a load must be looked at.
        begin: The LSN where its changes begin. The table has the versions since.
        gaps: Where the gaps of the log end. Only for a target of changes.
    """

    log: Log
    table: LogTable
    keys: tuple[str, ...]
    schema: pa.Schema
    nullable: tuple[str, ...]
    options: dict[str, Any]
    metadata: tuple[str, ...] = NET_METADATA
    has_unique_keys: bool = True
    begin: int = 0
    gaps: tuple[int, ...] = ()

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self.own.names)

    @property
    def own(self) -> pa.Schema:
        """The schema of the columns."""
        return pa.schema(list(self.schema)[: -len(self.metadata)])

    def net_table(self, batch: Batch, rules: ApplyOptions) -> NetTable:
        """The table as what reads its changes needs it, with the rules for them."""
        columns = set(self.columns)
        known = {it.name for version in self.table.versions for it in version.columns}
        return NetTable(
            self.log,
            self.table.oid,
            self.schema,
            self.options,
            batch.units,
            self.keys,
            {
                "deletes": rules.deletes,
                "truncates": rules.truncates,
                "columns": "all",
                "nullable": [*self.nullable, *(known - columns)],
                # The tally counts lost values of the chosen columns. The driver may
                # refuse them.
                "never_sent": "null",
                "text_keys": [it for it in self.keys if _is_text(self.schema, it)],
            },
        )

    @classmethod
    def of(
        cls,
        log: Log,
        table: LogTable,
        keys: Sequence[str] | None,
        options: dict[str, Any],
        mode: Mode = "current",
        *,
        begin: int = 0,
        end: int | None = None,
    ) -> AppliedTable:
        """The table with its key and its schema. A target of changes needs no key.

        The changes begin after `begin`, and end at `end`, or at the end of the log.

        Raises:
            SchemaError: No column or index says which row a change is about, or Spark's
                tables cannot have the columns.
        """
        table = between(log, table, begin, log.end if end is None else end)
        found = () if mode == "changes" else _keys_of(log, table, keys)
        metadata = metadata_of(mode)
        schema = pa.schema(
            schemas.schema(
                log if options.keys() & _NAMING else _catalogs(table) or log,
                table.oid,
                profile="spark",
                metadata=metadata,
                metadata_prefix=PREFIX,
                start=begin,
                **{**options, "_keys": found},
            )
        )
        own = pa.schema(list(schema)[: -len(metadata)])
        _check_columns(table, own, found)
        versions = [{it.name for it in version.columns} for version in table.versions]
        return cls(
            log,
            table,
            found,
            schema,
            tuple(it for it in own.names if not all(it in each for each in versions)),
            options,
            metadata,
            mode == "changes" or are_unique(log, table, found),
            begin,
            tuple(int(it.end) for it in read_record(log.read_object).gaps)
            if mode == "changes"
            else (),
        )

    def changes(self, start: int, end: int) -> Iterator[pa.RecordBatch]:
        """The change rows between two LSNs, as they are. The target begins at `begin`."""
        for batch in self.log.read(
            table=self.table.oid,
            schema=self.schema,
            profile="spark",
            metadata=self.metadata,
            metadata_prefix=PREFIX,
            start=max(start, self.begin),
            end=end,
            **ANY_RANGE,
            **{**self.options, "_keys": self.keys},
        ):
            yield pa.record_batch(batch)


def lost_rows(
    tally: Tally, applied: AppliedTable, rules: ApplyOptions, *, overwrites: bool
) -> int:
    """How many new rows have no value where one was never sent.

    Raises:
        ApplyError: There are some, and they are an error.
    """
    lacking = tally.lacking if tally.lost else frozenset[str]()
    if overwrites:
        # No earlier row exists whose values could be kept.
        lacking |= tally.needed - set(applied.nullable)
    if lacking and rules.never_sent == "error":
        raise never_sent(applied.table.name, min(lacking))
    return tally.lost


def change_rows(
    applied: AppliedTable, start: int, end: int
) -> Iterator[pa.RecordBatch]:
    """The change rows between two LSNs, as a target with `mode="changes"` has them.

    A gap is a row behind the changes before it.
    """
    fields = [*applied.own, *beside("changes")]
    columns = pa.schema([(it.name, it.type) for it in fields])
    gaps = [it for it in applied.gaps if max(start, applied.begin) < it <= end]
    for begin, last in pairwise([start, *gaps, end]):
        for batch in applied.changes(begin, last):
            times = batch.column(named("commit_timestamp"))
            dates = times.cast(pa.date32())
            yield pa.record_batch([*batch.columns, dates], columns.names)
        if last in gaps:
            row = {"_change_type": "gap", LSN: last}
            yield pa.RecordBatch.from_pylist([row], columns)


def _catalogs(table: LogTable) -> list[Catalog]:
    """The versions of a table as catalogs: then no segment is read for its schema.

    Empty if the log says more than the versions: about types that are not built in, and about the
    primary key under REPLICA IDENTITY FULL.
    """
    oids = {it.type_oid for version in table.versions for it in version.columns}
    is_full = any(it.replica_identity == "full" for it in table.versions)
    if is_full or not oids <= _BUILT_IN:
        return []
    found = []
    for version in table.versions:
        schema, _, name = version.name.partition(".")
        columns = [
            {
                "name": it.name,
                "type": it.type_oid,
                "type_modifier": it.type_modifier,
                "key": it.key,
            }
            for it in version.columns
        ]
        described = {"schema": schema, "name": name, "oid": table.oid}
        tables = [{**described, "columns": columns}]
        found.append(Catalog(json.dumps({"types": [], "tables": tables})))
    return found


def _keys_of(log: Log, table: LogTable, keys: Sequence[str] | None) -> tuple[str, ...]:
    """The key of a table. The error of a table without one names other kinds of targets, too."""
    try:
        return keys_of(log, table, keys)
    except SchemaError as error:
        if KEYS not in error.remedies or any(map(identity, table.versions)):
            raise
        raise SchemaError(
            error.reason,
            table=table.name,
            advice=(
                "; or choose columns that are unique and never NULL, for the rows or, with "
                'mode="history", for all their versions, or keep the changes as they are, with '
            ),
            remedies=(KEYS, Remedy("mode", None, "changes")),
        ) from None


def _is_text(schema: pa.Schema, name: str) -> bool:
    from pyarrow import types

    kinds = (types.is_string, types.is_large_string, types.is_string_view)
    return any(fits(schema.field(name).type) for fits in kinds)


def _check_columns(table: LogTable, own: pa.Schema, keys: Sequence[str]) -> None:
    lower: dict[str, str] = {}
    for field in own:
        name = field.name
        other = lower.setdefault(name.lower(), name)
        if other != name:
            raise SchemaError(
                f"{table.name}: columns {other} and {name} differ by case only, and are one "
                "column to Spark",
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


#: Options that may name types.
_NAMING = {"types", "columns"}
#: bool, bytea, "char", name, integers, text, oid, json, floats, char, varchar, dates and times,
#: interval, numeric, uuid and jsonb.
_BUILT_IN = {
    *(16, 17, 18, 19, 20, 21, 23, 25, 26, 114, 700, 701, 1042, 1043),
    *(1082, 1083, 1114, 1184, 1186, 1266, 1700, 2950, 3802),
}
