"""Marks: why a table of a log is not whole, and since when."""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Iterable
from dataclasses import replace
from enum import StrEnum
from typing import NamedTuple

from walrow._lsn import Lsn
from walrow._results import Result, result


class Why(StrEnum):
    """The code of an event that changes a table without a message in the stream."""

    GAP = "gap"
    HAD_ROWS = "had_rows"
    NEW = "new_in_publication"
    LEFT = "left_publication"
    FILTER = "row_filter"
    PARTITIONS = "partitions"
    TYPE = "type_altered"
    RENAMED = "column_renamed"
    RETYPED = "column_type"
    COLUMN = "column_added"
    RETURNED = "column_returned"
    DEFAULT = "column_default"
    EXPRESSION = "generated_column"
    REWRITTEN = "rewritten"
    PUBLISHES = "publication_changed"
    IDENTITY = "partition_identity"
    UNLOGGED = "partition_unlogged"
    NAMES = "names_changed"
    INHERITED = "inherited"

    @property
    def needs_load(self) -> bool:
        """Whether a load makes the table whole again. Otherwise, a user has to accept the mark."""
        return self is not Why.INHERITED


def accept_command(log: str, table: str, code: StrEnum) -> str:
    """The command that accepts a table with the rows that the log has."""
    command = ["walrow", "log", "accept", log, table, "--reason", code.value]
    return shlex.join(command)


class Reason(NamedTuple):
    """A reason that a look has found."""

    code: Why
    text: str


@result
class Mark(Result):
    """Why a table is not whole.

    Attributes:
        since: Where the log ended when the receiver looked last before. It happened later.
        until: The end of the load, or the TRUNCATE, that made the table whole again. None before.
        accepted: When somebody accepted it. None if nobody did.
        seen: A load that begins here or later ends it: the event, or the last of several, may
            be later than an earlier load. None: `since`, as the receiver compares the table
            with the load.
    """

    code: Why
    reason: str
    since: Lsn
    until: Lsn | None = None
    accepted: dt.datetime | None = None
    seen: Lsn | None = None

    @property
    def is_open(self) -> bool:
        """Whether the table still needs a load because of it."""
        return self.until is None and self.accepted is None

    def __str__(self) -> str:
        """Returns the reason, with the LSN."""
        return f"{self.reason} (since {self.since})"

    def remedy(self, log: str, table: str) -> str:
        """The command that makes the table whole, or accepts it."""
        if self.code.needs_load:
            return shlex.join(["walrow", "load", log, table])
        return accept_command(log, table, self.code)

    def holds_at(self, position: Lsn, end: Lsn) -> bool:
        """Whether the table is not whole at a position because of it, and it was not accepted.

        The log ends at `end`. Other WAL may have put `since` behind it, and a look that found the end.
        """
        if self.accepted is not None or position < min(self.since, end):
            return False
        if self.code is Why.GAP and position == self.since:
            return False
        if self.until is None or self.code.needs_load:
            return self.until is None or position < self.until
        return position < min(self.until, end)


class Gap(NamedTuple):
    """A range of LSNs of which the server sent no changes, of any table.

    It is a mark of each table, once a look behind it `has_marks`.
    """

    start: Lsn
    end: Lsn
    #: The code of the reason, as the log has it.
    cause: str
    has_marks: bool = False

    @property
    def reason(self) -> Reason:
        """The reason of its marks."""
        text = (
            f"the server did not send the changes between {self.start} and {self.end}"
        )
        return Reason(Why.GAP, text)

    def added_to(self, marks: Iterable[Mark]) -> list[Mark]:
        """The marks of a table, with one for this gap."""
        found = [*marks]
        if any(it.code is Why.GAP and it.since == self.start for it in found):
            return found
        return [*found, Mark(*self.reason, self.start, seen=self.end)]


def marked(
    marks: Iterable[Mark],
    reasons: Iterable[Reason],
    since: Lsn,
    seen: Lsn | None = None,
) -> list[Mark]:
    """Adds a mark for each reason, unless one for the same reason is open."""
    found, new = [*marks], [*dict.fromkeys(reasons)]
    for at, mark in enumerate(found):
        if mark.is_open and (reason := Reason(mark.code, mark.reason)) in new:
            new.remove(reason)
            last = max(mark.since, mark.seen or since, seen or since)
            found[at] = replace(mark, seen=last if last > mark.since else None)
    return [*found, *(Mark(*reason, since, seen=seen) for reason in new)]


def ended(marks: Iterable[Mark], point: Lsn) -> list[Mark]:
    """Ends all marks at a load that begins after their events."""
    return [
        replace(mark, until=point)
        if mark.until is None
        and max(mark.since, mark.seen or mark.since) <= point
        and mark.code.needs_load
        else mark
        for mark in marks
    ]


def emptied(marks: Iterable[Mark], point: Lsn) -> list[Mark]:
    """Ends the marks of a table that a later TRUNCATE has emptied.

    A target may keep the values of its removed rows under the name of a column, and the stream
    still lacks values or changes of partitions.
    """
    return [
        mark
        if mark.until is not None or mark.code in _KEPT
        else replace(mark, until=point)
        for mark in marks
    ]


def unless_emptied(marks: Iterable[Mark], start: Lsn, loaded: Lsn | None) -> list[Mark]:
    """The marks for a target that ignores TRUNCATEs and has all changes up to `start`.

    Only a load ends them.
    """
    whole = max(start, loaded or Lsn(0))
    return [
        replace(mark, until=None) if (mark.until or Lsn(0)) > whole else mark
        for mark in marks
    ]


def needs_of(marks: Iterable[Mark]) -> str | None:
    """Why a table needs a load: the reasons of its open marks. None if it is whole."""
    reasons = (it.reason for it in marks if it.is_open and it.code.needs_load)
    return "; ".join(reasons) or None


def is_unsure(marks: Iterable[Mark]) -> bool:
    """Whether a load may be of no use, so that a person must ask for it.

    ALTER PUBLICATION to the same options looks as if it had published less for a while: a load may
    be of all tables. And as long as the stream lacks values or changes of partitions, the next
    changes need another load.
    """
    codes = {mark.code for mark in marks if mark.is_open and mark.code.needs_load}
    return codes == {Why.PUBLISHES} or bool(codes & LASTING)


#: Codes of facts that a load does not end.
LASTING = frozenset({Why.IDENTITY, Why.UNLOGGED})
_KEPT = {Why.RENAMED, Why.RETURNED, Why.INHERITED, *LASTING}
