"""The tables of a stream: the public function `tables`."""

from __future__ import annotations

import datetime as dt
import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from walrow._core import Catalog, Survey
from walrow._lsn import Lsn
from walrow._read.survey.items import (
    Column,
    Commit,
    Ddl,
    Note,
    Table,
    Tables,
    Version,
)
from walrow._results import counted
from walrow._sources.chunks import Chunks
from walrow.typing import Source


def tables(
    source: Source,
    *,
    catalog: Catalog | str | os.PathLike[str] | None = None,
) -> Tables:
    """Returns the tables of a stream: versions, columns, changes and first and last commit.

    Only committed changes count. Values are not decoded, so this is fast.

    >>> import walrow
    >>> tables = walrow.tables("tests/data/18/rows.text.wire")
    >>> for table in tables:
    ...     print(table.name, table.inserts, table.updates, table.deletes)
    public.item 4 3 2
    public.stock 3 2 1
    >>> [column.type for column in tables.find("item").versions[0].columns]
    ['int4', 'text', 'numeric(12,2)']

    Args:
        source: As in `read`.
        catalog: As in `read`: it defines types that the stream does not.

    Raises:
        DecodeError: Bytes do not follow the protocol.
    """
    return survey_of(Chunks(source), catalog=catalog)


def survey_of(
    chunks: Any, *, catalog: Catalog | str | os.PathLike[str] | None = None
) -> Tables:
    """Returns the tables in the chunks of a source, `Chunks` or `Blocks`."""
    survey = Survey(chunks.begin(), catalog=catalog)
    for chunk in chunks:
        survey.feed(chunk)
    survey.finish()
    return _tables(survey)


def _tables(survey: Survey) -> Tables:
    versions: dict[int, list[Version]] = {}
    for each in survey.versions():
        versions.setdefault(each["oid"], []).append(_version(each))
    ddl: dict[int, list[Ddl]] = {}
    for oid, command, (lsn, micros) in survey.ddl():
        ddl.setdefault(oid, []).append(Ddl(command, _commit_of(lsn, micros)))
    bare = [
        Table(oid, tuple(found), ddl=tuple(ddl.get(oid, ())))
        for oid, found in versions.items()
    ]
    # Only tables that share a name are compared.
    by_name: dict[str, list[Table]] = {}
    for table in bare:
        for name in {version.name for version in table.versions}:
            by_name.setdefault(name, []).append(table)
    tables = Tables(replace(table, notes=_all_notes(table, by_name)) for table in bare)
    tables.unfinished = survey.unfinished
    tables.server_error = survey.server_error
    return tables


def _all_notes(table: Table, by_name: dict[str, list[Table]]) -> tuple[Note, ...]:
    names = dict.fromkeys(version.name for version in table.versions)
    others = [
        Note(*reused(name, other))
        for name in names
        for other in by_name[name]
        if other is not table
    ]
    return (*(Note(*each) for each in notes_on(table)), *others)


def _version(version: dict[str, Any]) -> Version:
    own = {name: it for name, it in version.items() if name in Version.__slots__}
    own |= {
        "name": f"{version['schema_name']}.{version['table_name']}",
        "columns": tuple(map(_column, version["columns"])),
        "first": _commit(version["first"]),
        "last": _commit(version["last"]),
    }
    return Version(**own)


def _column(column: dict[str, Any]) -> Column:
    type_ = _type(column.pop("type_name"), column.pop("type_modifier"))
    unresolved = tuple(column.pop("unresolved"))
    return Column(type=type_, unresolved=unresolved, **column)


def _commit(commit: tuple[Lsn, int | None] | None) -> Commit | None:
    return None if commit is None else _commit_of(*commit)


def _commit_of(lsn: Lsn, micros: int | None) -> Commit:
    try:
        time = None if micros is None else _EPOCH + dt.timedelta(microseconds=micros)
    except OverflowError:
        time = None
    return Commit(lsn, time)


_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _type(name: str | None, modifier: int) -> str | None:
    """Writes a type with its modifier, as `format_type` does."""
    if name is None or modifier < 0:
        return name
    item = name.removeprefix("_")
    if item == "numeric" and modifier >= _HEADER:
        # The scale has 11 bits. The highest bit is its sign.
        scale = (((modifier - _HEADER) & 0x7FF) ^ 1024) - 1024
        return f"{name}({(modifier - _HEADER) >> 16 & 0xFFFF},{scale})"
    if item in {"varchar", "bpchar"} and modifier >= _HEADER:
        return f"{name}({modifier - _HEADER})"
    if item in {"bit", "varbit", "time", "timetz", "timestamp", "timestamptz"}:
        return f"{name}({modifier})"
    return name


#: The offset of modifiers that contain a length.
_HEADER = 4


def notes_on(table: Table) -> Iterator[tuple[str, str]]:
    """The notes about a table: codes and texts."""
    yield from _on_keys(table.versions)
    for number, (before, after) in enumerate(itertools.pairwise(table.versions), 2):
        yield from _on_change(f"in version {number}", before, after)
    inserts = sum(version.inserts_with_unsent for version in table.versions)
    if inserts:
        yield (
            "insert-without-values",
            f"{counted(inserts, 'insert')} without all values: a row filter made them from "
            "updates with unchanged TOAST values; set REPLICA IDENTITY FULL",
        )
    updates = sum(version.updates_with_unsent for version in table.versions)
    if updates:
        yield (
            "update-without-values",
            f"{counted(updates, 'update')} without unchanged TOAST values: the fold needs "
            "the rows from before; begin with a copy of the table, or set REPLICA IDENTITY "
            "FULL",
        )
    if table.truncates:
        yield (
            "truncate",
            f"{counted(table.truncates, 'TRUNCATE')}, each of which removed all rows; under "
            "publish_via_partition_root, those of a partition are not in the stream",
        )


def _on_keys(versions: Sequence[Version]) -> Iterator[tuple[str, str]]:
    if any(version.replica_identity == "nothing" for version in versions):
        text = (
            "REPLICA IDENTITY NOTHING: the stream does not identify rows, so only inserts "
            "can be applied; set another replica identity"
        )
        yield "identity-nothing", text
    if any(
        version.replica_identity != "nothing" and not version.key_columns
        for version in versions
    ):
        text = (
            "no primary key and no other replica identity: only inserts can be applied; add "
            "a primary key, or set REPLICA IDENTITY FULL"
        )
        yield "no-key", text
    # Under FULL, all columns are marked as a key: the earlier key stays.
    keys = [
        (number, version.key_columns)
        for number, version in enumerate(versions, 1)
        if version.replica_identity != "full"
    ]
    for (_, before), (number, after) in itertools.pairwise(keys):
        if before != after:
            text = (
                f"the key changed from ({', '.join(before)}) to ({', '.join(after)}) in "
                f"version {number}: earlier rows need the new key"
            )
            yield "key-changed", text


def _on_change(
    where: str, before: Version, after: Version
) -> Iterator[tuple[str, str]]:
    if before.name != after.name:
        text = f"{before.name} became {after.name} {where}; the rows of both belong together"
        yield "table-renamed", text
    was = _before(before, after)
    for name, column in was.items():
        if column is not None and column.name != name:
            yield (
                "column-renamed",
                f"{column.name} became {name} {where}: the values of old rows are under "
                f"{column.name}; rename the column, or read the table again",
            )
    kept = {column.name for column in was.values() if column is not None}
    gone = [column.name for column in before.columns if column.name not in kept]
    added = [name for name, column in was.items() if column is None]
    if gone and added and not _are_numbered(before, after):
        yield (
            "column-renamed",
            f"{', '.join(gone)} disappeared and {', '.join(added)} appeared {where}: if a "
            "column was renamed, old rows keep its values; read the table again",
        )
    else:
        if added:
            yield (
                "column-added",
                f"{', '.join(added)} appeared {where}: old rows have the column's default, "
                "which is not in the stream; if it is not NULL, read the table again",
            )
        if gone:
            yield "column-dropped", f"{', '.join(gone)} disappeared {where}"
    for column in after.columns:
        same = was[column.name] or column
        if (same.type_oid, same.type) != (column.type_oid, column.type):
            yield (
                "type-changed",
                f"the type of {column.name} changed from {_shown(same)} to "
                f"{_shown(column)} {where}: the new values of old rows are not in the "
                "stream; read the table again",
            )


def _before(before: Version, after: Version) -> dict[str, Column | None]:
    """Finds each column's earlier version: by number if it is known, otherwise by name."""
    if _are_numbered(before, after):
        numbers = {column.number: column for column in before.columns}
        return {column.name: numbers.get(column.number) for column in after.columns}
    names = {column.name: column for column in before.columns}
    return {column.name: names.get(column.name) for column in after.columns}


def _are_numbered(*versions: Version) -> bool:
    columns = itertools.chain.from_iterable(version.columns for version in versions)
    return all(column.number is not None for column in columns)


def reused(name: str, other: Table) -> tuple[str, str]:
    """The note on a name that another table has, too."""
    text = f"{name} is also the name of the table with OID {other.oid}, another table"
    return "name-reused", text


def _shown(column: Column) -> str:
    return column.type or f"the type with OID {column.type_oid}"
