"""Which tables of a log are incomplete until they are loaded again.

The receiver writes it in the log's directory, into `_load-needed`, with what publications had when
it looked last.
"""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING

from walrow.errors import LogError
from walrow.log_files import write_json
from walrow.looks import NewFiles, Published
from walrow.lsn import Lsn
from walrow.marks import Mark, Why
from walrow.young_tables import YoungTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

__all__ = [
    "accept",
    "incomplete_tables",
    "read_published",
    "with_accepted",
    "write_published",
]


def incomplete_tables(read: Callable[[str], bytes]) -> dict[int, list[Mark]]:
    """When the tables of a log were not whole, by OID.

    Args:
        read: Reads an object of the log, as `Log.read_object`.
    """
    return with_accepted(read_published(read), read).marks


def with_accepted(record: Published, read: Callable[[str], bytes]) -> Published:
    """A record with what somebody has accepted: a file of its own, as the receiver writes the record.

    Raises:
        LogError: The file is damaged.
    """
    accepted = _read_accepted(read)
    marks = {
        oid: [mark._replace(accepted=accepted.get(_key(oid, mark))) for mark in marks]
        for oid, marks in record.marks.items()
    }
    return record._replace(marks=marks)


def accept(log: Path, oid: int, marks: Iterable[Mark], now: dt.datetime) -> None:
    """Records that somebody accepts marks of a table. Later marks are not accepted by that.

    Raises:
        OSError: The file cannot be written.
    """
    found = _read_accepted(lambda name: (log / name).read_bytes())
    found |= {_key(oid, mark): now for mark in marks}
    temporary = log / f".walrow-{_ACCEPTED}"
    record = [[*key, time.isoformat()] for key, time in found.items()]
    write_json(temporary, record)
    temporary.replace(log / _ACCEPTED)


def _key(oid: int, mark: Mark) -> tuple[int, str, str, str]:
    return oid, mark.code.value, mark.reason, str(mark.since)


def _read_accepted(
    read: Callable[[str], bytes],
) -> dict[tuple[int, str, str, str], dt.datetime]:
    try:
        return {
            (int(oid), str(code), str(reason), str(since)): dt.datetime.fromisoformat(
                it
            )
            for oid, code, reason, since, it in json.loads(read(_ACCEPTED))
        }
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, RecursionError):
        text = "the record of accepted marks is damaged: remove the file, and accept them again"
        raise LogError(text, code="damaged", file=_ACCEPTED) from None


def read_published(read: Callable[[str], bytes]) -> Published:
    """Reads what was published when the receiver looked last.

    Raises:
        LogError: The file is damaged.
    """
    try:
        found = json.loads(read(_NEEDED))
        return Published(
            {int(oid): table for oid, table in found["published"].items()},
            Lsn(found["position"]),
            int(found["last_oid"]),
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
                int(oid): NewFiles(Lsn(each["since"]), Lsn(each["seen"]), each["looks"])
                for oid, each in found["new_files"].items()
            },
        )
    except FileNotFoundError:
        return Published(None, Lsn(0), 0, {}, {}, {})
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        text = (
            "the record of what is published is damaged: remove the file, and load all "
            "tables again"
        )
        raise LogError(text, code="damaged", file=_NEEDED) from None


def write_published(log: Path, value: Published) -> None:
    """Replaces the file in the log's directory."""
    temporary = log / f".walrow-{_NEEDED}"
    record = {
        "published": value.tables,
        "position": str(value.position),
        "last_oid": value.last_oid,
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
            oid: each._asdict() | {"since": str(each.since), "seen": str(each.seen)}
            for oid, each in value.new_files.items()
        },
    }
    write_json(temporary, record)
    temporary.replace(log / _NEEDED)


_NEEDED = "_load-needed"
_ACCEPTED = "_load-accepted"
