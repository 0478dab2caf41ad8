"""Bugs of some minor versions of PostgreSQL that concern logical decoding."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from typing import NamedTuple


class Concerns(enum.Enum):
    """What meets a bug.

    Attributes:
        ALL: Each slot.
        FULL: Tables with REPLICA IDENTITY FULL.
    """

    ALL = enum.auto()
    FULL = enum.auto()


class KnownBug(NamedTuple):
    """A bug of a server's minor versions.

    Attributes:
        affected: The first and the last affected minor version, by the major version. The next
            minor version has it fixed.
        concerns: What meets it.
        text: What the server does.
        sqlstate: The error that it ends the stream with. None if it sends wrong rows.
    """

    affected: Mapping[int, tuple[int, int]]
    concerns: Concerns
    text: str
    sqlstate: str | None = None

    def words(self, version: int) -> str:
        """What the server does, and what fixes it.

        Args:
            version: The server's version, as in `server_version_num`.
        """
        major, minor = divmod(version, _MAJOR)
        fixed = self.affected[major][1] + 1
        return f"a bug of PostgreSQL {major}.{minor}: {self.text}; update to {major}.{fixed}"


def known_bugs(version: int) -> Iterator[KnownBug]:
    """The known bugs of a server's version, as in `server_version_num`.

    >>> [bug.concerns.name for bug in known_bugs(160_001)]
    ['FULL']
    >>> list(known_bugs(160_002))
    []
    """
    major, minor = divmod(version, _MAJOR)
    for bug in _BUGS:
        first, last = bug.affected.get(major, (1, 0))
        if first <= minor <= last:
            yield bug


_MAJOR = 10_000
_BUGS = [
    KnownBug(
        {15: (0, 5), 16: (0, 1)},
        Concerns.FULL,
        "old rows have NULL in each column that was added with a default after the row,"
        " until the row is updated",
    ),
    KnownBug(
        {14: (18, 18), 15: (13, 13), 16: (9, 9), 17: (5, 5)},
        Concerns.ALL,
        "while transactions overlap that change tables, its memory grows until the stream"
        ' ends with "invalid memory alloc request size", for ever',
        "XX000",
    ),
]
