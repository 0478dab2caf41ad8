"""A look at the published tables: a plain value, which `marks` and `told` compare with others."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from walrow._lsn import Lsn

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from walrow._postgres.published import PublishedTable, Remains


def with_parts(types: Iterable[str]) -> set[str]:
    """Types whose values are names of objects, with the types of the parts of these names.

    They are the names of schemas, and of arguments.
    """
    found = {*types}
    if found & {"regprocedure", "regoperator"}:
        found.add("regtype")
    if found - {"regrole", "aclitem", "regdatabase"}:
        found.add("regnamespace")
    return found


class Look(NamedTuple):
    """A look at the tables of the publications of a stream."""

    tables: Sequence[PublishedTable]
    publications: Sequence[str]
    #: Where the log ended before.
    durable: Lsn
    #: The server's position after.
    seen: Lsn
    #: The OIDs of the tables that may differ from the last look. None: all.
    moved: Collection[int] | None = None
    #: The catalog's facts about tables that are unpublished now. None if one does not exist.
    remains: Mapping[int, Remains | None] = MappingProxyType({})
    #: The schema, the name and the end of the last change of each table in the log.
    logged: Mapping[int, tuple[str, str, Lsn]] = MappingProxyType({})
    #: The greatest OID of a table, also of unpublished ones.
    last_oid: int = 0
    #: The stamp of the event trigger. None if it does not work.
    trigger: str | None = None
    #: The sum of the stamps of all tables that were not published at the last look.
    others: int = 0
    #: The OIDs of tables that an open transaction may have truncated.
    truncated: Collection[int] = ()
    #: The next transaction ID after it.
    next_xid: int | None = None
    #: See `Published`.
    horizon: int | None = None

    def joined(self, before: Look) -> Look:
        """The look with the tables that have not moved since another look."""
        if self.moved is None:
            return self
        kept = [table for table in before.tables if table.oid not in self.moved]
        return self._replace(tables=[*kept, *self.tables], moved=None)
