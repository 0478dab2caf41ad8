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
    from collections.abc import Callable
    from pathlib import Path

__all__ = [
    "incomplete_tables",
    "read_published",
    "write_published",
]


def incomplete_tables(read: Callable[[str], bytes]) -> dict[int, list[Mark]]:
    """When the tables of a log were not whole, by OID.

    Args:
        read: Reads an object of the log, as `Log.read_object`.
    """
    return read_published(read).marks


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
                        None
                        if mark["accepted"] is None
                        else dt.datetime.fromisoformat(mark["accepted"]),
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
                    "accepted": None
                    if mark.accepted is None
                    else mark.accepted.isoformat(),
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
