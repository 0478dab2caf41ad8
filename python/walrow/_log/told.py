"""Messages of the event trigger of `walrow.postgres.ddl_trigger`, and what a receiver knows of them.

Each role can write such a message. Only `walrow._receive.told` judges them.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeAlias, get_args

from walrow._log.values import value_of
from walrow._lsn import Lsn


class ColumnTold(NamedTuple):
    """A column in a message."""

    number: int
    name: str
    type: int
    type_modifier: int


class TableTold(NamedTuple):
    """A table as it was after a command."""

    oid: int
    is_partitioned: bool
    columns: list[ColumnTold]
    #: Its ancestors, if it is a partition.
    roots: list[int]
    #: The tables that inherit from it, or are its partitions, without partitioned ones.
    parts: list[int]
    publications: list[int]


class Rewritten(NamedTuple):
    """A table was rewritten, for some of the reasons in a mask."""

    rewritten: int
    roots: list[int]
    reason: int

    @property
    def has_new_values(self) -> bool:
        """Whether it was for AT_REWRITE_DEFAULT_VAL or AT_REWRITE_COLUMN_REWRITE of PostgreSQL."""
        return bool(self.reason & (0x02 | 0x04))


class TypeTold(NamedTuple):
    """The labels and attributes of a type after a command, as `PublishedTable.definitions`."""

    definitions: dict[str, str]


class PublicationTold(NamedTuple):
    """A publication after a command: the transaction of its row, and its options."""

    publication: int
    name: str
    xmin: str
    options: str


class Before(NamedTuple):
    """The transactions of the rows of all publications before a command."""

    before: dict[int, str]


Told: TypeAlias = TableTold | Rewritten | TypeTold | PublicationTold | Before


class Message(NamedTuple):
    """A message in a log."""

    #: Where the commit of its transaction begins.
    lsn: Lsn
    xid: int
    #: Whether it is certain that it was not rolled back with a savepoint.
    is_certain: bool
    told: Told


class Moved(NamedTuple):
    """A table has moved between two looks: its catalog rows are others."""

    #: Where the log ended at the look before.
    since: Lsn
    #: The server's position after the last look that saw it move.
    seen: Lsn
    #: The table at the look before. None if it was not published.
    was: dict[str, Any] | None
    #: Whether only messages can show that a publication has not published less meanwhile.
    asks: bool = False
    #: Whether a message was about it.
    is_told: bool = False


class Hearing(NamedTuple):
    """A receiver's knowledge of the event trigger and its messages."""

    #: Messages of transactions before it were read.
    place: Lsn
    #: Where the log ended at the last look: it has seen all that messages before it say.
    seen: Lsn
    #: The greatest OIDs of a table at the last looks. Tables that messages show, and the looks do
    #: not, have greater ones than the first.
    oids: list[int]
    #: The stamp of the trigger at the last look. None if it did not work.
    trigger: str | None
    #: The sum of the stamps of all tables that were not published then.
    others: int
    #: The moved tables, by OID. 0 means each table that is not published.
    moved: dict[int, Moved]


def told_by(content: bytes) -> Told | None:
    """Reads a message. None if it is not of the event trigger, or unknown."""
    try:
        found = json.loads(content)
        for kind in get_args(Told):
            if isinstance(found, dict) and found.keys() >= {*kind._fields}:
                told: Told = value_of(kind, found)
                return told
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        # A table without columns was dropped, and is in no later look.
        pass
    return None


#: The prefix of these messages.
PREFIX = "walrow.ddl"
