"""Erases columns and rows from a log."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from walrow._core import LogDirectory, LogEraser
from walrow._late import pa, pc
from walrow._log.erasures import note_erasure
from walrow._log.left import Ruling
from walrow._log.names import NamedTables, had_name, tables_of
from walrow._log.needs import read_record
from walrow._options import NAMES, listed
from walrow._read.reading import read
from walrow._results import Result, result
from walrow.errors import OptionError, SchemaError
from walrow.typing import TableName


@result
class Erased(Result):
    """What `Log.erase` did.

    Attributes:
        changes: The number of changes that had an erased row.
        segments: The number of segments that were read.
        rewritten: The number of them that were rewritten.
        others: The OIDs of other tables that had the name. Their rows stay: erase them by OID.
    """

    changes: int
    segments: int
    rewritten: int
    others: tuple[int, ...] = ()


def erase(
    path: Path,
    table: TableName,
    columns: Sequence[str],
    keys: Sequence[Mapping[str, str | int | bool]],
    *,
    force: bool,
) -> Erased:
    """Erases columns and rows. See `Log.erase`."""
    columns, wanted = NAMES.parse(columns, "columns"), _keys(keys)
    if not columns and not any(wanted):
        raise OptionError("name a column, or a key with at least one column")
    with contextlib.closing(LogEraser(path)) as eraser:
        # All durable changes are published now.
        log = LogDirectory(path)
        record = read_record(log.read_object)
        # The log has the rows of forgotten tables, too.
        left = {it: replace(at, ruling=Ruling.OPEN) for it, at in record.left.items()}
        record = record._replace(left=left)
        tables = tables_of(log, record)
        oid = NamedTables(tables, record).find(table, takes_ended=True).oid
        known = _names(log, oid)
        for name in [*columns, *(name for key in wanted for name in key)]:
            if name not in known:
                raise SchemaError(
                    f"the log has no column {name!r} of {table}; its columns are "
                    f"{', '.join(sorted(known))}"
                )
        wanted = [key for key in wanted if key]
        _refuse_other_keys(log, oid, wanted)
        rows = _matches(log, oid, wanted)
        # The given columns are noted first: after a crash, another call may not find them.
        last = max((lsn for lsn, *_ in rows), default=None)
        if force or last is None or all(it[1] > last for it in log.readers()):
            # Otherwise, the erasure is refused.
            note_erasure(path, oid, known & {*columns}, int(log.end))
        segments, rewritten = eraser.erase([oid], [*columns], rows, force)
        gone = known - _names(LogDirectory(path), oid)
        note_erasure(path, oid, gone, int(log.end))
    others = [it.oid for it in tables if it.oid != oid and had_name(it, table)]
    return Erased(len(rows), segments, rewritten, tuple(others))


def _keys(given: Any) -> list[dict[str, str]]:
    """The keys, with their values as texts."""
    keys = listed(given)
    if keys is None or not all(isinstance(it, Mapping) for it in keys):
        text = "keys must be a list of keys, each with its columns: [{'id': 5}]"
        raise OptionError(text)
    return [{name: _text(value) for name, value in key.items()} for key in keys]


def _names(log: LogDirectory, table: int) -> set[str]:
    """The columns that the versions of a table have."""
    return {
        name
        for oid, _, _, columns, _ in log.versions()
        if oid == table
        for name, *_ in columns
    }


def _text(value: object) -> str:
    """A value as PostgreSQL writes it."""
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, str | int):
        return str(value)
    text = "keys: a key's values are texts as PostgreSQL writes them, or integers or booleans"
    raise OptionError(text)


def _refuse_other_keys(
    log: LogDirectory, table: int, keys: list[dict[str, str]]
) -> None:
    """Refuses keys that find only some changes of a row: old images have the replica identity only."""
    erased: dict[tuple[str, ...], set[tuple[Any, ...]]] = {
        tuple(column for column, *_, is_key in columns if is_key): set()
        for oid, _, _, columns, identity in log.versions()
        if oid == table and identity != "full"
    }
    erased.pop((), None)
    if all(key.keys() <= set(own) for key in keys for own in erased):
        return
    more = {name for own in erased for name in own}
    for _, records, mask in _images(log, table, keys, more):
        for row in records.filter(mask).to_pylist():
            for own, rows in erased.items():
                rows.add(tuple(map(row.get, own)))
    for batch, records, mask in _images(log, table, keys, more):
        names = tuple(batch.key_columns)
        rows = erased.get(names, set())
        if batch.replica_identity == "full" or not rows:
            continue
        left = records.filter(pc.invert(mask)).select(list(names)).to_pylist()
        if not rows.isdisjoint(tuple(row.values()) for row in left):
            old = ", ".join(names)
            columns = ", ".join(sorted({name for key in keys for name in key}))
            text = (
                f"{batch.table}: a row that ({columns}) finds has other changes, whose old images "
                f"have only ({old}): it would lose some of its changes, and the table would be "
                f"damaged. Find the rows in the database or with walrow.read, and erase them by ({old})"
            )
            raise SchemaError(text, table=batch.table)


def _images(
    log: LogDirectory,
    table: int,
    keys: list[dict[str, str]],
    more: Collection[str] = (),
) -> Iterator[tuple[Any, Any, Any]]:
    """All rows with the columns of keys and more columns, and which of them have a key."""
    columns = sorted({*more, *(name for key in keys for name in key)})
    batches = read(
        log.open(tables=[table], columns=columns),
        tables=[table],
        profile="text",
        columns=columns,
        metadata=["change_type", "commit_lsn", "seq"],
        metadata_prefix=_PREFIX,
        missing_table="ignore",
        gaps="cross",
    )
    for batch in batches:
        records = pa.record_batch(batch)
        any_key = pa.array([False] * len(records))
        for key in keys:
            if not set(key) <= set(records.schema.names):
                continue
            mask = pa.array([True] * len(records))
            for name, value in key.items():
                equal = pc.equal(records[name], pa.scalar(value, records[name].type))
                mask = pc.and_(mask, pc.fill_null(equal, fill_value=False))
            any_key = pc.or_(any_key, mask)
        yield batch, records, any_key


def _matches(
    log: LogDirectory, table: int, keys: list[dict[str, str]]
) -> list[tuple[int, int, bool, bool]]:
    """The rows with a key: commit LSN, seq, and whether they are erased as old and new."""
    images: dict[tuple[int, int], set[bool]] = {}
    for _, records, mask in _images(log, table, keys) if keys else ():
        found = records.filter(mask)
        places = [
            found[f"{_PREFIX}{name}"].to_pylist()
            for name in ("commit_lsn", "seq", "change_type")
        ]
        for lsn, seq, kind in zip(*places, strict=True):
            is_old = kind in {"delete", "update_preimage"}
            images.setdefault((int(lsn), int(seq)), set()).add(is_old)
    return [(*place, True in found, False in found) for place, found in images.items()]


#: Before the names of metadata columns. No column of a table begins with it.
_PREFIX = "walrow "
