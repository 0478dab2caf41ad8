"""Tables that left: a log still has their earlier rows, and no more changes come."""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import NamedTuple

from walrow._log.marks import accept_command
from walrow._lsn import Lsn
from walrow._results import Result, result


class Absence(StrEnum):
    """Why a table is not published any more."""

    DROPPED = "dropped"
    UNPUBLISHED = "unpublished"
    MOVED = "moved"
    UNLOGGED = "unlogged"
    ATTACHED = "attached"

    @property
    def is_end(self) -> bool:
        """Whether the server has no rows under this name that the log could lack."""
        return self in (Absence.DROPPED, Absence.ATTACHED)


class Ruling(StrEnum):
    """A user's decision about a table that left."""

    OPEN = "open"
    ACCEPTED = "accepted"
    FORGOTTEN = "forgotten"


@result
class Left(Result):
    """A table that left.

    Attributes:
        schema: Its schema, when the receiver saw it last.
        name: Its name, as `schema.name`.
        why: The reason, as a code.
        since: Where the log ended when the table was still published. It left later.
        ruling: The user's decision.
    """

    schema: str
    name: str
    why: Absence
    since: Lsn
    ruling: Ruling = Ruling.OPEN

    @property
    def needs_ruling(self) -> bool:
        """Whether its rows may differ from the server's, and no user has decided about that."""
        return not self.why.is_end and self.ruling is Ruling.OPEN

    def holds_at(self, position: Lsn, end: Lsn) -> bool:
        """Whether its rows may differ from the server's at a position, without a decision.

        Args:
            position: The position.
            end: Where the log ends, which is after the look.
        """
        return self.needs_ruling and (position > self.since or position >= end)

    def __str__(self) -> str:
        """Returns the reason, with the LSN."""
        return f"{_WORDS[self.why]} (since {self.since})"

    def remedy(self, log: str) -> str:
        """The user's choices: text for an error."""
        forget = shlex.join(["walrow", "log", "forget", log, self.name])
        accept = accept_command(log, self.name, self.why)
        return f"publish it again, or: {accept}; or: {forget}"


class Owner(NamedTuple):
    """A table that had a name, as the looks show it."""

    oid: int
    #: The first position where it certainly had the name.
    first: Lsn
    #: The last one. None if it still has it.
    last: Lsn | None


def split(name: str, schema: str | None) -> tuple[str, str]:
    """The schema and the name of a table. Without the schema, it is the part before the first dot."""
    if schema is None:
        schema, _, table = name.partition(".")
        return schema, table
    return schema, name[len(schema) + 1 :]


_WORDS = {
    Absence.DROPPED: "it was dropped",
    Absence.UNPUBLISHED: "it left the publication",
    Absence.MOVED: "it was moved to a schema that is not published",
    Absence.UNLOGGED: "it became unlogged, so that no change of it is sent",
    Absence.ATTACHED: "it became a partition of a published table, which has its changes",
}
