"""The tables of a log that are incomplete until they are loaded again.

The receiver writes it in the log's directory, into `_load-needed`, with what publications had when
it looked last.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from walrow._core import LogObjects
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
    return record._replace(marks=marks)


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
        found = _read_accepted(read) | dict.fromkeys(new, now)
        record = [[*key, time.isoformat()] for key, time in found.items()]
        objects.replace(_ACCEPTED, json.dumps(record).encode())
    return list(new.values())


def _keyed(oid: int, marks: Sequence[Mark]) -> Iterator[tuple[_Key, Mark]]:
    """Marks with what identifies them. Two of one reason may begin at one LSN."""
    for at, mark in enumerate(marks):
        yield (oid, at, mark.code.value, str(mark.since)), mark


def _read_accepted(
    read: Callable[[str], bytes],
) -> dict[_Key, dt.datetime]:
    try:
        return {
            (int(oid), int(at), str(code), str(since)): dt.datetime.fromisoformat(it)
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
        "told": None if value.told is None else value.told.record(),
    }
    LogObjects(log).replace(_NEEDED, json.dumps(record).encode())


_NEEDED = "_load-needed"
_ACCEPTED = "_load-accepted"
#: A table, the place of its mark, the mark's code, and its LSN.
_Key: TypeAlias = tuple[int, int, str, str]
