"""New files of tables without TOAST: TRUNCATE makes them, and so does a rewrite.

A TRUNCATE is in the log. The catalog shows whether the table was rewritten after it.
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


class NewFile(NamedTuple):
    """A new file of a table or partition, as the catalog describes it."""

    #: The transaction of the `pg_class` row (`xmin`), or its subtransaction.
    changed: int
    #: `pg_class.relfrozenxid`. A new file has the oldest transaction that ran then.
    frozen: int
    #: That transaction changed columns, as `ALTER TABLE` does.
    columns: bool
    #: It changed columns that are older than the last look.
    known_columns: bool


class NewFiles(NamedTuple):
    """New files of a table without TOAST, by the OID of the table or partition."""

    pending: Pending
    files: dict[int, NewFile]


def is_explained(files: Mapping[int, NewFile], truncates: Sequence[int]) -> bool:
    """Whether the last transaction with a TRUNCATE of a table has made its files."""
    return bool(truncates) and all(
        _is_of_truncate(file, truncates) for file in files.values()
    )


def _is_of_truncate(file: NewFile, truncates: Sequence[int]) -> bool:
    if file.changed in truncates:
        # Its transaction may have inserted rows and altered columns after the TRUNCATE.
        return not file.columns
    # A GRANT, or a TRUNCATE after a savepoint, or a rewrite: only that has a file that is younger.
    return not (file.known_columns or is_before(truncates[-1], file.frozen))


def is_before(one: int, other: int) -> bool:
    """Whether a transaction ID is older, although they wrap around."""
    return 0 < (other - one) % (1 << 32) < 1 << 31


#: Durable changes are published long before this many looks.
_LOOKS = 2
