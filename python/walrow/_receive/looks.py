"""A look at the published tables: a plain value, which `marks` and `told` compare with others."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from walrow._lsn import Lsn

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from walrow._postgres.published import PublishedTable, Remains


class Look(NamedTuple):
    """A look at the published tables.

    Attributes:
        tables: The tables.
        publications: The publications of the stream.
        durable: Where the log ended before.
        seen: The server's position after.
        moved: The OIDs of the tables that may differ from the last look. None: all.
        remains: What the server has of the tables that it does not publish now. None for a table
            that does not exist.
        logged: The schema, the name and the end of the last change of each table in the log.
        last_oid: The greatest OID of a table, also of unpublished ones.
        trigger: The stamp of the event trigger. None if it does not work.
        others: The sum of the stamps of all tables that were not published at the last look.
    """

    tables: Sequence[PublishedTable]
    publications: Sequence[str]
    durable: Lsn
    seen: Lsn
    moved: Collection[int] | None = None
    remains: Mapping[int, Remains | None] = MappingProxyType({})
    logged: Mapping[int, tuple[str, str, Lsn]] = MappingProxyType({})
    last_oid: int = 0
    trigger: str | None = None
    others: int = 0

    def joined(self, before: Look) -> Look:
        """The look with the tables that have not moved since another look."""
        if self.moved is None:
            return self
        kept = [table for table in before.tables if table.oid not in self.moved]
        return self._replace(tables=[*kept, *self.tables], moved=None)
