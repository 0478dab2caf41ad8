"""The tables of a log that are incomplete until they are loaded again.

The receiver writes them in the log's directory, into `_gaps`: the marks of tables, the gaps of all
tables, and the tables that left. `_load-needed` has what publications had when it looked last.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from walrow._core import LogObjects
from walrow._log.left import Absence, Left, Ruling
from walrow._log.marks import Mark
from walrow._log.published import Published
from walrow._log.values import value_of, values_of
from walrow._lsn import Lsn
from walrow._results import Result
from walrow.errors import LogError


def read_record(read: Callable[[str], bytes]) -> Published:
    """Reads the record of the published tables at the last look, with the accepted marks."""
    # The accepted marks have their own file, as the receiver writes the record.
    record, accepted = read_published(read), _read_accepted(read)
    marks = {
        oid: [
            replace(mark, accepted=accepted.get(key))
            for key, mark in _keyed(oid, marks)
        ]
        for oid, marks in record.marks.items()
    }
    left = {
        oid: replace(it, ruling=_ruling(oid, it, accepted))
        for oid, it in record.left.items()
    }
    return record._replace(marks=marks, left=left)


def _ruling(oid: int, left: Left, accepted: Collection[_Key]) -> Ruling:
    if _key(oid, left, Ruling.FORGOTTEN) in accepted:
        return Ruling.FORGOTTEN
    is_accepted = _key(oid, left, left.why) in accepted
    return Ruling.ACCEPTED if is_accepted else Ruling.OPEN


def _key(oid: int, left: Left, code: Absence | Ruling) -> _Key:
    """The identity of a decision about a table that left."""
    return (oid, None, code.value, str(left.since))


def decide(log: Path, oid: int, ruling: Ruling, now: dt.datetime) -> None:
    """Records what a user decides about a table that left."""
    objects, read = _opened(log)
    with objects.lock():
        left = read_record(read).left.get(oid)
        if left is not None:
            code = left.why if ruling is Ruling.ACCEPTED else ruling
            _write_accepted(
                objects, _read_accepted(read) | {_key(oid, left, code): now}
            )


def accept(log: Path, oid: int, code: str, now: dt.datetime) -> list[Mark]:
    """Records that somebody accepts the open marks of a table with a code, and returns them.

    Later marks are not accepted by that.
    """
    objects, read = _opened(log)
    with objects.lock():
        marks = read_record(read).marks.get(oid, [])
        new = {
            key: replace(mark, accepted=now)
            for key, mark in _keyed(oid, marks)
            if mark.code == code and mark.is_open
        }
        _write_accepted(objects, _read_accepted(read) | dict.fromkeys(new, now))
    return list(new.values())


def _opened(log: Path) -> tuple[LogObjects, Callable[[str], bytes]]:
    objects = LogObjects(log)
    return objects, lambda name: objects.read(name)[0]


def _write_accepted(objects: LogObjects, found: Mapping[_Key, dt.datetime]) -> None:
    record = [[*key, time.isoformat()] for key, time in found.items()]
    objects.replace(_ACCEPTED, json.dumps(record).encode())


def _keyed(oid: int, marks: Sequence[Mark]) -> Iterator[tuple[_Key, Mark]]:
    """Marks with what identifies them. Two of one reason may begin at one LSN."""
    for at, mark in enumerate(marks):
        yield (oid, at, mark.code.value, str(mark.since)), mark


def _read_accepted(read: Callable[[str], bytes]) -> dict[_Key, dt.datetime]:
    try:
        pairs = [(key, time) for *key, time in json.loads(read(_ACCEPTED))]
        return dict(value_of(dict[_Key, dt.datetime], pairs))
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, RecursionError):
        text = "the record of accepted marks is damaged: remove the file, and accept them again"
        raise LogError(text, code="damaged", file=_ACCEPTED) from None


def read_published(read: Callable[[str], bytes]) -> Published:
    """Reads the published tables of the receiver's last look. A damaged file is a LogError."""
    try:
        # The look comes first: a reader may see newer marks, and never older ones.
        found = _object(read, _NEEDED) | _object(read, _GAPS)
        if not found:
            return Published(None, Lsn(0))
        found = {"published": None, "position": "0/0"} | found
        names = {key: name for name, key in _KEYS.items()}
        renamed = {names.get(key, key): it for key, it in found.items()}
        return Published(**values_of(Published, renamed))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        text = (
            "the record of what is published is damaged: remove the file, and load all "
            "tables again"
        )
        raise LogError(text, code="damaged", file=_NEEDED) from None


def _object(read: Callable[[str], bytes], name: str) -> dict[str, Any]:
    try:
        return {**json.loads(read(name))}
    except FileNotFoundError:
        return {}


def write_published(log: Path, value: Published) -> None:
    """Replaces the files in the log's directory. A crash between them leaves the new marks."""
    found = value._asdict() | {"owners": list(value.owners.items())}
    record = {_KEYS.get(name, name): it for name, it in found.items()}
    gaps = {name: record.pop(name) for name in _OF_GAPS}
    for name, each in ((_GAPS, gaps), (_NEEDED, record)):
        LogObjects(log).replace(name, json.dumps(each, default=_plain).encode())


def _plain(it: Any) -> dict[Any, Any]:
    return it.to_dict() if isinstance(it, Result) else dict(it)


#: The keys of the record that are not the names of the fields.
_KEYS = {"tables": "published", "marks": "incomplete"}
#: What readers ask for.
_OF_GAPS = ("incomplete", "gaps", "left")
_GAPS = "_gaps"
_NEEDED = "_load-needed"
_ACCEPTED = "_load-accepted"
#: A table, the place of its mark, the code, and the LSN. Without a place, the table left.
_Key: TypeAlias = tuple[int, int | None, str, str]
