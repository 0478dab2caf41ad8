"""Notes for a fold of a table's changes: see docs/fold.md."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from walrow._read.survey.items import Column, Table, Version
from walrow._results import counted


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
