"""New files of tables: TRUNCATE makes them, and so does a rewrite.

A TRUNCATE is in the log. The catalog shows which transactions may have made a file by TRUNCATE.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Self

from walrow._lsn import Lsn


class Pending(NamedTuple):
    """A look that waits until readers of the log see all changes before it."""

    #: Where the log ended when the receiver looked last before.
    since: Lsn
    #: The server's position at the look. The log may reach it later.
    seen: Lsn
    #: The number of looks since the log's writer reached `seen`.
    looks: int = 0

    def later(self, published: Lsn, durable: Lsn) -> Self | None:
        """The value for the next look. None once nothing more can come."""
        if published >= self.seen or self.looks == _LOOKS:
            return None
        return self._replace(looks=self.looks + (durable >= self.seen))


class NewFiles(NamedTuple):
    """New files of a table or its partitions, by OID.

    Each is the text of `TablePart.truncates`. A record of an older version has a list in its place,
    whose text proves nothing.
    """

    pending: Pending
    files: dict[int, str]


def is_explained(files: Mapping[int, str], truncates: Sequence[int]) -> bool:
    """Whether transactions with a TRUNCATE of a table have made its files."""
    known = {str(xid) for xid in truncates}
    return all(known.intersection(file.split(" ")) for file in files.values())


#: Durable changes are published long before this many looks.
_LOOKS = 2
