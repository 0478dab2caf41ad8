"""The key of the rows of a log's table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from weakref import WeakKeyDictionary

from walrow._log.items import LogColumn, LogTable, LogVersion
from walrow._log.needs import read_record
from walrow._log.published import Published
from walrow._lsn import Lsn
from walrow._read.reading import frames
from walrow._sources.logs import OpenedLog
from walrow.errors import Remedy, SchemaError

#: The records of logs, as they were when a key was first looked for in them. They may be large.
_LOOKS: WeakKeyDictionary[OpenedLog, Published] = WeakKeyDictionary()
#: The remedy: another key.
KEYS = Remedy("keys", code="[...]")


def begin_of(log: OpenedLog, table: LogTable, end: Lsn) -> Lsn:
    """Where the rows of a table up to an LSN begin: the LSN before its last load, or 0/0.

    Earlier keys and types have no effect on these rows.
    """
    load = table.loaded
    if load is not None and load > end:
        load = log._log.last_load(table.oid, 0, end)
    return Lsn(0 if load is None else load - 1)


def between(log: OpenedLog, table: LogTable, start: int, end: int) -> LogTable:
    """A table with the versions that its changes between two LSNs use."""
    if len(table.versions) <= 1:
        return table
    known = log._log.versions()
    versions = []
    for number in log._log.versions_between(table.oid, start, end):
        _, schema, name, columns, identity = known[number]
        own = tuple(LogColumn(*column) for column in columns)
        versions.append(LogVersion(f"{schema}.{name}", own, identity, 0, 0, 0, schema))
    # All changes may come after the end.
    return replace(table, versions=tuple(versions) or table.versions[:1])


def keys_of(
    log: OpenedLog, table: LogTable, keys: Sequence[str] | None
) -> tuple[str, ...]:
    """The columns that identify a row. It is a SchemaError if a table lacks them, or an old image does.

    The caller gives them, or they are the columns of the replica identity. Under REPLICA IDENTITY
    FULL, the log has recorded the primary key. A key that came after the last change was seen by
    the receiver's last look.
    """
    if not table.versions:
        late = keys or _late_key(log, table)
        if late and table.oid in log._log.removed():
            return tuple(late)
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
                    f"lacks; its columns are {', '.join(it.name for it in latest.columns)}"
                    if unknown
                    else f"{table.name}: the key has no columns"
                )
                raise SchemaError(text, table=table.name)
    elif _is_full(latest):
        chosen = _primary_key(log, table) or _late_key(log, table)
        if not chosen:
            text = (
                f"{table.name} has REPLICA IDENTITY FULL and no recorded primary key, so "
                f"nothing says which row a change is about: ALTER TABLE {table.name} ADD "
                "PRIMARY KEY (...), and load the table again"
            )
            raise _without_key(text, table)
    else:
        chosen = tuple(column.name for column in latest.columns if column.key)
        chosen = chosen or _late_key(log, table)
        if not chosen:
            text = (
                f"{table.name} has no replica identity, so nothing says which row a change "
                f"is about: ALTER TABLE {table.name} ADD PRIMARY KEY (...), or ALTER TABLE "
                f"{table.name} REPLICA IDENTITY USING INDEX ..."
            )
            raise _without_key(text, table)
    for version in table.versions:
        known = identity(version)
        if known and not set(chosen) <= known:
            # A load leaves the versions before it without an effect.
            is_past = set(chosen) <= (identity(latest) or known)
            full = f"ALTER TABLE {table.name} REPLICA IDENTITY FULL, and "
            raise SchemaError(
                f"{table.name}: the replica identity {'was' if is_past else 'is'} "
                f"({', '.join(sorted(known))}), so old images lack the key "
                f"({', '.join(chosen)}): {'' if is_past else full}load the table: walrow load "
                f"LOG {table.name}",
                table=table.name,
                advice="; or choose columns that all versions have with ",
                remedies=(KEYS,),
            )
    return chosen


def key_columns(log: OpenedLog, table: LogTable) -> list[str]:
    """The columns of all replica identities of a table, and under FULL, of the primary key."""
    found = {
        it for each in table.versions if not _is_full(each) for it in identity(each)
    }
    if any(map(_is_full, table.versions)):
        found.update(_primary_key(log, table))
    return sorted(found)


def are_unique(
    log: OpenedLog,
    table: LogTable,
    keys: Sequence[str],
) -> bool:
    """Whether the server keeps these keys unique and not NULL, in all versions of a table."""
    own = set(keys)
    if any(identity(it) != own for it in table.versions if not _is_full(it)):
        return False
    is_full = any(map(_is_full, table.versions))
    return not is_full or own == set(_primary_key(log, table))


def _without_key(text: str, table: LogTable) -> SchemaError:
    advice = "; or choose columns that are unique and never NULL with "
    return SchemaError(text, table=table.name, advice=advice, remedies=(KEYS,))


def identity(version: LogVersion) -> set[str]:
    """The names of the columns in its replica identity."""
    return {column.name for column in version.columns if column.key}


def _is_full(version: LogVersion) -> bool:
    # All columns are in an identity by an index, too, if it is over all of them.
    return version.replica_identity == "full" and len(version.columns) > 0


def _primary_key(log: OpenedLog, table: LogTable) -> tuple[str, ...]:
    """The primary key, as the last catalog in the log has it."""
    found = log._log
    versions = found.versions()
    for place in reversed(range(len(found))):
        segment = found.segment(place) or {"tables": []}
        if table.oid not in {versions[number][0] for number, *_ in segment["tables"]}:
            continue
        for frame in frames(found.open(start=segment["start"], end=segment["end"])):
            message = frame.message
            if message is None:
                continue
            if message.name in ("Relation", "Begin"):
                break
            fields = message.fields
            if message.name != "Message" or fields["prefix"] != "walrow":
                continue
            fact = json.loads(bytes(fields["content"]))
            for known in fact.get("tables", ()) if fact["fact"] == "catalog" else ():
                if known["oid"] == table.oid:
                    return tuple(known.get("primary_key", ()))
    return ()


def _late_key(log: OpenedLog, table: LogTable) -> tuple[str, ...]:
    """The primary key at the receiver's last look, if that was after the last change."""
    if (record := _LOOKS.get(log)) is None:
        record = _LOOKS[log] = read_record(log._log.read_object)
    if table.last > record.position:
        return ()
    key = (record.tables or {}).get(table.oid, {}).get("primary_key", ())
    columns = {it.name for version in table.versions[-1:] for it in version.columns}
    return tuple(key) if columns.issuperset(key) or not columns else ()
