"""Messages of the event trigger of `walrow.postgres.ddl_trigger`, and what a receiver knows of them.

Each role can write such a message. Only `walrow._receive.told` judges them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, TypeAlias

from walrow._lsn import Lsn


class TableTold(NamedTuple):
    """A table as it was after a command."""

    oid: int
    is_partitioned: bool
    #: The name, type and type modifier of each column, by its number.
    columns: dict[int, tuple[str, int, int]]
    #: Its ancestors, if it is a partition.
    roots: frozenset[int]
    #: The tables that inherit from it, or are its partitions, without partitioned ones.
    parts: frozenset[int]
    publications: frozenset[int]


class Rewritten(NamedTuple):
    """A table was rewritten, with new values."""

    oid: int
    roots: frozenset[int]


class TypeTold(NamedTuple):
    """The labels and attributes of a type after a command, as `PublishedTable.definitions`."""

    definitions: dict[str, str]


class PublicationTold(NamedTuple):
    """A publication after a command: the transaction of its row, and its options."""

    oid: int
    xmin: str
    options: str


class Before(NamedTuple):
    """The transactions of the rows of all publications before a command."""

    xmins: dict[int, str]


Told: TypeAlias = TableTold | Rewritten | TypeTold | PublicationTold | Before


class Message(NamedTuple):
    """A message in a log, with the LSN at which the commit of its transaction begins."""

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
    #: Whether only messages can tell that a publication has not published less meanwhile.
    asks: bool = False
    #: Whether a message was about it.
    is_told: bool = False


class Hearing(NamedTuple):
    """What a receiver knows of the event trigger, and of its messages."""

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
    #: What has moved, by OID. 0 stands for each table that is not published.
    moved: dict[int, Moved]


def told_by(content: bytes) -> Told | None:
    """Reads a message. None if it says nothing that is known, or is no such message."""
    try:
        found = json.loads(content)
        return next((read(found) for key, read in _KINDS.items() if key in found), None)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError):
        return None


def _table(found: Any) -> TableTold | None:
    if found["columns"] is None:
        # It was dropped, and is in no later look.
        return None
    columns = {
        int(it["number"]): (str(it["name"]), int(it["type"]), int(it["type_modifier"]))
        for it in found["columns"]
    }
    return TableTold(
        int(found["oid"]),
        bool(found["is_partitioned"]),
        columns,
        _oids(found["roots"]),
        _oids(found["parts"]),
        _oids(found["publications"]),
    )


def _oids(found: Iterable[Any]) -> frozenset[int]:
    return frozenset(int(oid) for oid in found)


def _texts(found: Any, key: Callable[[Any], Any]) -> dict[Any, str]:
    return {key(it): str(text) for it, text in dict(found).items()}


#: The prefix of these messages.
PREFIX = "walrow.ddl"
#: AT_REWRITE_DEFAULT_VAL and AT_REWRITE_COLUMN_REWRITE of PostgreSQL. Without them, a table has the
#: same values in another file.
_NEW_VALUES = 0x02 | 0x04
#: How messages are read, by a key that only messages of a kind have.
_KINDS: Mapping[str, Callable[[Any], Told | None]] = {
    "publication": lambda it: PublicationTold(
        int(it["publication"]), str(it["xmin"]), str(it["options"])
    ),
    "before": lambda it: Before(_texts(it["before"], int)),
    "definitions": lambda it: TypeTold(_texts(it["definitions"], str)),
    "rewritten": lambda it: (
        Rewritten(int(it["rewritten"]), _oids(it["roots"]))
        if int(it["reason"]) & _NEW_VALUES
        else None
    ),
    "columns": _table,
}
