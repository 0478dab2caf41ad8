"""The table of a log that a name means, and the key of its rows."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from walrow._read.reading import frames
from walrow._sources.logs import is_named
from walrow.errors import OptionError, Remedy, SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walrow._core import LogFile
    from walrow._log.items import LogTable, LogVersion
    from walrow._lsn import Lsn
    from walrow._sources.logs import OpenedLog
    from walrow.typing import TableName


#: The remedy: another key.
KEYS = Remedy("keys", code="[...]")


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
    log: OpenedLog, table: LogTable, keys: Sequence[str] | None
) -> tuple[str, ...]:
    """The columns that identify a row.

    The caller gives them, or they are the columns of the replica identity. Under REPLICA
    IDENTITY FULL, the log has recorded the primary key. A key that came after the last change
    was seen by the receiver's last look.

    Raises:
        SchemaError: The table has no key, or old images lack a column of it.
    """
    if not table.versions:
        text = f"{table.name} has no change in the log, and needs a load first"
        raise SchemaError(text, table=table.name)
    latest = table.versions[-1]
    if isinstance(keys, str):
        text = f'keys is a list of names: ["{keys}"]'
        raise OptionError(text)
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
            text = (
                f"{table.name}: the replica identity is ({', '.join(sorted(known))}) in a "
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


def are_unique(
    log: OpenedLog,
    table: LogTable,
    keys: Sequence[str],
) -> bool:
    """Whether the server keeps these keys unique and not NULL, in all versions of a table.

    Args:
        log: The log.
        table: The table.
        keys: The columns of the key.
    """
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
    record = log._last_look
    if table.last > record.position:
        return ()
    key = (record.tables or {}).get(table.oid, {}).get("primary_key", ())
    columns = {column.name for column in table.versions[-1].columns}
    return tuple(key) if columns.issuperset(key) else ()


def named_at(log: OpenedLog, name: TableName, at: Lsn) -> dict[str, int]:
    """The tables that had a name up to an LSN, as its changes show it.

    Returns:
        The OID of the last one, by `schema.name`.
    """
    found: dict[str, int] = {}
    versions = log._log.versions()
    for place in range(len(log._log)):
        segment = log._log.segment(place)
        if segment is None or segment["start"] >= at:
            break
        last: dict[str, tuple[Lsn, int]] = {}
        for number, *_, end, _ in segment["tables"]:
            oid, schema, table, _, _ = versions[number]
            full = f"{schema}.{table}"
            if is_named(name, oid, full):
                last[full] = max((end, oid), last.get(full, (end, oid)))
        if segment["end"] <= at:
            found |= {full: oid for full, (_, oid) in last.items()}
        elif any(found.get(full) != oid for full, (_, oid) in last.items()):
            file = log._log.open(start=segment["start"], end=segment["end"])
            found |= _named_in(file, name, at)
    return found


def _named_in(file: LogFile, name: TableName, at: Lsn) -> dict[str, int]:
    """The same, of the changes of one segment: each definition comes before them."""
    found = {}
    for frame in frames(file):
        message = frame.message
        if message is None:
            continue
        if message.name == "Begin" and message.fields["final_lsn"] >= at:
            break
        if message.name == "Relation":
            fields = message.fields
            full = f"{fields['namespace']}.{fields['name']}"
            if is_named(name, fields["oid"], full):
                found[full] = fields["oid"]
    return found
