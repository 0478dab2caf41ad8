"""The tables of a log that are incomplete until they are loaded again.

The receiver writes it in the log's directory, into `_load-needed`, with what publications had when
it looked last.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from walrow._core import LogObjects
from walrow._log.left import Absence, Left, Owner, Ruling
from walrow._log.marks import Mark, Why
from walrow._log.new_files import NewFile, NewFiles, Pending
from walrow._log.published import Published
from walrow._log.told import Hearing
from walrow._log.young_tables import YoungTable
from walrow._lsn import Lsn
from walrow.errors import LogError


def incomplete_tables(read: Callable[[str], bytes]) -> dict[int, list[Mark]]:
    """When the tables of a log were not whole, by OID.

    Args:
        read: Reads an object of the log, as `Log.read_object`.
    """
    return read_record(read).marks


def read_record(read: Callable[[str], bytes]) -> Published:
    """Reads the record of the published tables at the last look, with the accepted marks.

    Raises:
        LogError: A file is damaged.
    """
    return _with_accepted(read_published(read), read)


def _with_accepted(record: Published, read: Callable[[str], bytes]) -> Published:
    """Joins a record with the accepted marks. They have their own file, as the receiver writes the record.

    Raises:
        LogError: The file is damaged.
    """
    accepted = _read_accepted(read)
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
    """What identifies a decision about a table that left."""
    return (oid, None, code.value, str(left.since))


def decide(log: Path, oid: int, ruling: Ruling, now: dt.datetime) -> None:
    """Records what a user decides about a table that left.

    Raises:
        LogError: A record is damaged, or cannot be written.
        OSError: The directory cannot be opened.
    """
    objects = LogObjects(log)

    def read(name: str) -> bytes:
        return objects.read(name)[0]

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

    Raises:
        LogError: A record is damaged, or cannot be written.
        OSError: The directory cannot be opened.
    """
    objects = LogObjects(log)

    def read(name: str) -> bytes:
        return objects.read(name)[0]

    with objects.lock():
        marks = incomplete_tables(read).get(oid, [])
        new = {
            key: replace(mark, accepted=now)
            for key, mark in _keyed(oid, marks)
            if mark.code == code and mark.is_open
        }
        _write_accepted(objects, _read_accepted(read) | dict.fromkeys(new, now))
    return list(new.values())


def _write_accepted(objects: LogObjects, found: Mapping[_Key, dt.datetime]) -> None:
    record = [[*key, time.isoformat()] for key, time in found.items()]
    objects.replace(_ACCEPTED, json.dumps(record).encode())


def _keyed(oid: int, marks: Sequence[Mark]) -> Iterator[tuple[_Key, Mark]]:
    """Marks with what identifies them. Two of one reason may begin at one LSN."""
    for at, mark in enumerate(marks):
        yield (oid, at, mark.code.value, str(mark.since)), mark


def _read_accepted(
    read: Callable[[str], bytes],
) -> dict[_Key, dt.datetime]:
    try:
        return {
            (
                int(oid),
                None if at is None else int(at),
                str(code),
                str(since),
            ): dt.datetime.fromisoformat(it)
            for oid, at, code, since, it in json.loads(read(_ACCEPTED))
        }
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, RecursionError):
        text = "the record of accepted marks is damaged: remove the file, and accept them again"
        raise LogError(text, code="damaged", file=_ACCEPTED) from None


def read_published(read: Callable[[str], bytes]) -> Published:
    """Reads the published tables of the receiver's last look.

    Raises:
        LogError: The file is damaged.
    """
    try:
        found = json.loads(read(_NEEDED))
        return Published(
            {int(oid): table for oid, table in found["published"].items()},
            Lsn(found["position"]),
            found.get("publications"),
            {
                int(oid): [
                    Mark(
                        Why(mark["code"]),
                        str(mark["reason"]),
                        Lsn(mark["since"]),
                        None if mark["until"] is None else Lsn(mark["until"]),
                    )
                    for mark in marks
                ]
                for oid, marks in found["incomplete"].items()
            },
            {int(oid): YoungTable.of(table) for oid, table in found["young"].items()},
            {
                int(oid): NewFiles(
                    Pending.of(each["pending"]),
                    {int(it): NewFile(*file) for it, file in each["files"].items()},
                )
                for oid, each in found["new_files"].items()
            },
            {int(oid): Lsn(lsn) for oid, lsn in found.get("noticed", {}).items()},
            Lsn(found["compared"]) if "compared" in found else None,
            dict(found.get("names", {})),
            Lsn(found.get("last", "0/0")),
            {
                int(oid): Left(schema, name, Absence(why), Lsn(since))
                for oid, (schema, name, why, since) in found.get("left", {}).items()
            },
            {
                (str(schema), str(name)): [
                    Owner(int(oid), Lsn(first), None if last is None else Lsn(last))
                    for oid, first, last in owners
                ]
                for schema, name, owners in found.get("owners", ())
            },
            Lsn(found.get("seen", 0)),
            # Earlier versions have not written it.
            None if found.get("told") is None else Hearing.of(found["told"]),
        )
    except FileNotFoundError:
        return Published(None, Lsn(0), None, {}, {}, {}, {})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        text = (
            "the record of what is published is damaged: remove the file, and load all "
            "tables again"
        )
        raise LogError(text, code="damaged", file=_NEEDED) from None


def write_published(log: Path, value: Published) -> None:
    """Replaces the file in the log's directory.

    Raises:
        LogError: It cannot be written.
        OSError: The directory cannot be opened.
    """
    record = {
        "published": value.tables,
        "position": str(value.position),
        "last": str(value.last),
        "publications": value.publications,
        "incomplete": {
            oid: [
                {
                    "code": mark.code,
                    "reason": mark.reason,
                    "since": str(mark.since),
                    "until": None if mark.until is None else str(mark.until),
                }
                for mark in marks
            ]
            for oid, marks in value.marks.items()
            if marks
        },
        "young": {oid: table.record() for oid, table in value.young.items()},
        "new_files": {
            oid: {"pending": each.pending.record(), "files": each.files}
            for oid, each in value.new_files.items()
        },
        "noticed": {oid: str(lsn) for oid, lsn in value.noticed.items()},
        "names": dict(value.names),
        "left": {
            oid: [it.schema, it.name, it.why, str(it.since)]
            for oid, it in value.left.items()
        },
        "owners": [
            [
                *pair,
                [
                    [oid, str(first), None if last is None else str(last)]
                    for oid, first, last in owners
                ],
            ]
            for pair, owners in value.owners.items()
        ],
        "seen": str(value.seen),
        "told": None if value.told is None else value.told._asdict(),
    }
    if value.compared is not None:
        record["compared"] = str(value.compared)
    LogObjects(log).replace(_NEEDED, json.dumps(record).encode())


_NEEDED = "_load-needed"
_ACCEPTED = "_load-accepted"
#: A table, the place of its mark, the code, and the LSN. Without a place, the table left.
_Key: TypeAlias = tuple[int, int | None, str, str]
