"""The tables of a stream: the public function `tables`."""

from __future__ import annotations

import datetime as dt
import os
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
from walrow._read.survey.notes import notes_on, reused
from walrow._sources.chunks import Chunks
from walrow.typing import Source

__all__ = ["Column", "Commit", "Ddl", "Note", "Table", "Tables", "Version", "tables"]


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
