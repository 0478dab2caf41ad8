"""Conclusions from facts about a backup and a log: pure functions.

A backup and a log that cannot be compared are refused here, with the reason in words.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from walrow._backup.against_items import LeftOut
from walrow._lsn import Lsn
from walrow.errors import BackupError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from walrow._backup.base_manifest import Manifest, WalRange
    from walrow._backup.scratch_tables import Column, ScratchTable

__all__ = [
    "Absence",
    "BackupEnd",
    "Branch",
    "absence",
    "columns_of",
    "end_of",
    "monetary_locale",
    "parse_history",
    "timeline_problem",
    "unknown_tables",
    "unpublished",
]


class BackupEnd(NamedTuple):
    """Where a backup is complete.

    Attributes:
        ranges: The WAL that it needs, oldest first.
    """

    ranges: tuple[WalRange, ...]

    @property
    def timeline(self) -> int:
        """The timeline where it is complete."""
        return self.ranges[-1].timeline

    @property
    def lsn(self) -> Lsn:
        """The LSN where it is complete."""
        return self.ranges[-1].end


class Branch(NamedTuple):
    """An earlier timeline of a server.

    Attributes:
        timeline: Its number.
        end: Where the next one begins.
    """

    timeline: int
    end: Lsn


#: A table that the log has, and the backup does not.
Absence: TypeAlias = Literal["later", "dropped", "missing"]


def end_of(manifest: Manifest) -> BackupEnd:
    """Where a backup is complete, as its manifest says.

    Raises:
        BackupError: It does not say that.
    """
    if not manifest.wal_ranges:
        text = "cannot use the manifest: it does not say where the backup ends"
        raise BackupError(text, code="manifest")
    by_timeline = sorted(manifest.wal_ranges, key=lambda it: (it.timeline, it.start))
    return BackupEnd(tuple(by_timeline))


def parse_history(text: str) -> list[Branch]:
    r"""The earlier timelines in a .history file, oldest first.

    >>> parse_history("1\t0/3000028\tno recovery target specified\n\n# a comment\n")
    [Branch(timeline=1, end=Lsn('0/3000028'))]
    """
    shapes = (_BRANCH.match(line) for line in text.splitlines())
    return [Branch(int(it[1]), Lsn(it[2])) for it in shapes if it is not None]


def timeline_problem(
    log_timeline: int | None,
    log_start: Lsn | None,
    timeline: int,
    history: Sequence[Branch],
    lsn: Lsn,
) -> str | None:
    """Why a log is not about the same history as a backup. None if it is.

    Args:
        log_timeline: The timeline at the end of the log. None if the log does not know it.
        log_start: The start of that timeline, if the log knows it.
        timeline: The timeline of the backup's end.
        history: The backup's earlier timelines, as far as it has them.
        lsn: Where the backup ends.
    """
    if log_timeline is None:
        return None
    if log_timeline > timeline:
        if log_start is None or log_start >= lsn:
            return None
        return (
            f"the log went on at {log_start} on timeline {log_timeline}, and the backup on "
            f"timeline {timeline} to {lsn}"
        )
    ends = {branch.timeline: branch.end for branch in history}
    if log_timeline < timeline:
        end = ends.get(log_timeline)
        place = "" if end is None else f" at {end}"
        return (
            f"the backup's server went on{place} on timeline {timeline}, and the log was "
            f"received on timeline {log_timeline}"
        )
    start = history[-1].end if history else None
    if start is None or log_start is None or start == log_start:
        return None
    return f"timeline {timeline} began at {log_start} in the log, and at {start} in the backup"


def unpublished(picture: Mapping[str, Any] | None) -> str | None:
    """Why the log does not get all rows of a table, as the receiver's last look shows it.

    Args:
        picture: The log's record of the table. None without one.
    """
    if picture is None:
        return None
    if picture.get("filters"):
        return "the publication has a row filter"
    published = "".join(it[2] for it in picture.get("memberships", ()))
    lacks = [name for letter, name in _OPERATIONS.items() if letter not in published]
    if published and lacks:
        return f"the publication does not publish {' and '.join(lacks)}"
    return None


def absence(
    oid: int, published: Mapping[int, Any] | None, *, is_later: bool, is_replaced: bool
) -> Absence:
    """Classifies a table of the log that the backup does not have.

    Args:
        oid: The table's OID.
        published: The published tables at the receiver's last look. None without one.
        is_later: Whether all that the log has of it is after the end of the backup.
        is_replaced: Whether another table of the backup has a name of it.
    """
    if is_later:
        return "later"
    is_unpublished = published is not None and oid not in published
    return "dropped" if is_replaced or is_unpublished else "missing"


def columns_of(
    log: Sequence[str], backup: Sequence[Column], *, has_money: bool
) -> tuple[list[Column], list[LeftOut]]:
    """The columns that are compared, in the log's order, and the others.

    Args:
        log: The columns in the log.
        backup: The columns in the backup.
        has_money: Whether the text of money is the same on both sides.
    """
    known = {column.name: column for column in backup}
    out = [
        LeftOut(
            it.name,
            "its values are generated"
            if it.is_generated
            else "the log does not have it",
        )
        for it in backup
        if it.name not in log
    ]
    out += [LeftOut(it, "the backup does not have it") for it in log if it not in known]
    compared = [known[name] for name in log if name in known]
    if not has_money:
        reason = "the locale of its text (lc_monetary) is not known here"
        out += [LeftOut(it.name, reason) for it in compared if it.is_money]
        compared = [it for it in compared if not it.is_money]
    return compared, out


def unknown_tables(
    tables: Mapping[int, ScratchTable], logged: Collection[int]
) -> list[str]:
    """The tables of a backup that a log does not have: neither them nor their partitions' roots."""
    found = []
    for table in tables.values():
        ancestor: ScratchTable | None = table
        while ancestor is not None and ancestor.oid not in logged:
            ancestor = None if ancestor.parent is None else tables.get(ancestor.parent)
        # A partitioned table has no rows by itself.
        if ancestor is None and table.kind != "p":
            found.append(table.name)
    return found


def monetary_locale(configurations: Sequence[str]) -> str:
    r"""The last lc_monetary in configuration files, or C.

    >>> monetary_locale(["lc_monetary = 'de_DE.utf8' # for money\n", "port = 1"])
    'de_DE.utf8'
    """
    found = "C"
    for text in configurations:
        for shape in _MONETARY.finditer(text):
            found = shape[1] if shape[1] is not None else shape[2]
    return found


_OPERATIONS = {"i": "insert", "u": "update", "d": "delete", "t": "truncate"}
_BRANCH = re.compile(r"\s*(\d+)\s+([0-9A-Fa-f]+/[0-9A-Fa-f]+)")
_MONETARY = re.compile(
    r"^\s*lc_monetary\s*=?\s*(?:'([^'\n]*)'|([\w.@-]+))", re.MULTILINE | re.IGNORECASE
)
