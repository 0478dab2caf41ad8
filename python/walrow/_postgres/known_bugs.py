"""Bugs of some minor versions of PostgreSQL that concern logical decoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class KnownBug(NamedTuple):
    """A bug of a server, from its first to its last minor version, by the major version.

    It concerns the tables with an `identity`, or else all slots. It ends the stream with
    `sqlstate`, or else sends wrong rows.
    """

    affected: dict[int, tuple[int, int]]
    text: str
    identity: str | None = None
    sqlstate: str | None = None

    @property
    def versions(self) -> str:
        """The affected versions, and in brackets the fixed versions."""
        return ", ".join(
            f"{major}.{first}{f' to {major}.{last}' if last > first else ''} ({major}.{last + 1})"
            for major, (first, last) in sorted(self.affected.items())
        )


def known_bugs(version: int) -> Iterator[tuple[KnownBug, str]]:
    """The known bugs of a server (`server_version_num`), each with a text for its user.

    >>> [(bug.identity, text[-14:]) for bug, text in known_bugs(160_001)]
    [('full', 'update to 16.2')]
    """
    major, minor = divmod(version, 10_000)
    for bug in BUGS:
        first, last = bug.affected.get(major, (1, 0))
        if first <= minor <= last:
            text = f"a bug of PostgreSQL {major}.{minor}: {bug.text}"
            yield bug, f"{text}; update to {major}.{last + 1}"


BUGS = [
    KnownBug(
        {15: (0, 5), 16: (0, 1)},
        "old rows have NULL in each column that was added with a default after the row,"
        " until the row is updated",
        identity="full",
    ),
    KnownBug(
        {14: (18, 18), 15: (13, 13), 16: (9, 9), 17: (5, 5)},
        "while transactions overlap that change tables, its memory grows until the stream"
        ' ends with "invalid memory alloc request size", for ever',
        sqlstate="XX000",
    ),
]
