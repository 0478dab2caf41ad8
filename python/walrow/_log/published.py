"""The published tables at a receiver's last look: a plain value. `needs.py` reads and writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from walrow._log.left import Left, Owner, split
from walrow._log.marks import Mark
from walrow._log.new_files import NewFiles
from walrow._log.told import Hearing
from walrow._log.young_tables import YoungTable
from walrow._lsn import Lsn


class Published(NamedTuple):
    """The published tables at the receiver's last look.

    Attributes:
        tables: The tables, by OID. None if it never looked.
        position: Where the log ended.
        publications: The publications of the stream. None if the record does not have them.
        marks: When tables were not whole.
        young: Tables that may have been altered before they were first looked at.
        new_files: Tables that were truncated or rewritten.
        noticed: Tables that are not whole: a TRUNCATE after this LSN makes them whole.
        compared: The LSN up to which looks have checked the definitions in the log. None if
            the record does not have it.
        names: The hashes of names that values contain, by type and OID: see `printed_names`.
        last: The last transaction or message before `position`. A reader that does not see it is at
            an earlier place than the look.
        left: The tables that left, by OID.
        owners: The tables that had a name, by schema and name, in the order of the looks: of names
            that another table had before, or that no table has any more.
        seen: A position of the server after the last look at the tables.
        told: What is known of the event trigger. None if no look has asked for it.
    """

    tables: dict[int, dict[str, Any]] | None
    position: Lsn
    publications: Sequence[str] | None = None
    marks: Mapping[int, list[Mark]] = MappingProxyType({})
    young: Mapping[int, YoungTable] = MappingProxyType({})
    new_files: Mapping[int, NewFiles] = MappingProxyType({})
    noticed: Mapping[int, Lsn] = MappingProxyType({})
    compared: Lsn | None = None
    names: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    last: Lsn = Lsn(0)
    left: Mapping[int, Left] = MappingProxyType({})
    owners: Mapping[tuple[str, str], list[Owner]] = MappingProxyType({})
    seen: Lsn = Lsn(0)
    told: Hearing | None = None

    def parts(self) -> set[tuple[int, int]]:
        """The tables, each with a table that has its rows, by their OIDs."""
        tables = (self.tables or {}).items()
        return {(oid, part[0]) for oid, table in tables for part in table["parts"]}

    def pair_of(self, oid: int) -> tuple[str, str]:
        """The schema and the name of a published table, as the last look saw them."""
        picture = (self.tables or {})[oid]
        return split(picture["name"], picture.get("namespace"))
