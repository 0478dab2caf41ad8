"""The published tables at a receiver's last look: a plain value. `needs.py` reads and writes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from walrow._log.left import Left, Owner, split
from walrow._log.marks import Gap, Mark
from walrow._log.new_files import NewFiles
from walrow._log.told import Hearing
from walrow._log.young_tables import YoungTable
from walrow._lsn import Lsn


class Published(NamedTuple):
    """The published tables at the receiver's last look."""

    #: By OID. None if it never looked.
    tables: dict[int, dict[str, Any]] | None
    #: Where the log ended.
    position: Lsn
    #: The stream's publications. None if the record lacks them.
    publications: Sequence[str] | None = None
    #: When tables were not whole.
    marks: Mapping[int, list[Mark]] = MappingProxyType({})
    #: Tables that may have been altered before they were first looked at.
    young: Mapping[int, YoungTable] = MappingProxyType({})
    #: Tables that were truncated or rewritten.
    new_files: Mapping[int, NewFiles] = MappingProxyType({})
    #: Tables that are not whole: a TRUNCATE after this LSN makes them whole.
    noticed: Mapping[int, Lsn] = MappingProxyType({})
    #: Looks have checked the definitions in the log up to this LSN.
    compared: Lsn | None = None
    #: The hashes of names that values contain, by type and OID: see `printed_names`.
    names: Mapping[str, Mapping[str, int]] = MappingProxyType({})
    #: The last transaction or message before `position`. A reader that does not see it is at an
    #: earlier place than the look.
    last: Lsn = Lsn(0)
    #: The tables that left, by OID.
    left: Mapping[int, Left] = MappingProxyType({})
    #: The tables that had a name, in the order of the looks: of names that another table had
    #: before, or that no table has any more.
    owners: Mapping[tuple[str, str], list[Owner]] = MappingProxyType({})
    #: A position of the server after the last look at the tables.
    seen: Lsn = Lsn(0)
    #: The state of the event trigger. None if no look has asked for it.
    told: Hearing | None = None
    #: The next transaction ID after the last look at the tables. None if a load came later.
    next_xid: int | None = None
    #: The oldest transaction that can have changed the catalog after the last look, or before the first
    #: one, after the beginning of the log.
    horizon: int | None = None
    #: The ranges of LSNs of which the server sent nothing.
    gaps: Sequence[Gap] = ()

    def marks_of(self, oid: int) -> list[Mark]:
        """The marks of a table. A gap is one of each table, until a look has marked them."""
        marks = self.marks.get(oid, [])
        for gap in self.gaps:
            if not gap.has_marks:
                marks = gap.added_to(marks)
        return [*marks]

    def parts(self) -> dict[tuple[int, int], int]:
        """The files of the tables that have the rows of tables, by the OIDs of both."""
        tables = (self.tables or {}).items()
        return {(oid, it[0]): it[1] for oid, table in tables for it in table["parts"]}

    def entries(self) -> set[str]:
        """The publications and their entries at the last look, each as its OID and its xmin."""
        found = set()
        for picture in (self.tables or {}).values():
            for place, publication, _ in picture["memberships"]:
                oid, _, *entry = place.split()
                found |= {f"{oid} {publication.split(' ')[0]}", " ".join(entry[:2])}
        return found

    def pair_of(self, oid: int) -> tuple[str, str]:
        """The schema and the name of a published table, as the last look saw them."""
        picture = (self.tables or {})[oid]
        return split(picture["name"], picture.get("namespace"))
