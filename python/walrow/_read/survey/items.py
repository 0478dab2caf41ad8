"""What `walrow.tables` returns: the tables of a stream, their versions and what they changed."""

from __future__ import annotations

import datetime as dt
import difflib
from collections.abc import Iterator
from typing import Any

from walrow._lsn import Lsn
from walrow._results import Result, aligned, as_json, counted, html_table, result


@result
class Column(Result):
    """A column of one version of a table.

    Attributes:
        name: Its name.
        type: Its PostgreSQL type, as `numeric(12,2)`. None if the stream and the catalog
            do not contain the type's name.
        type_oid: The OID of the type.
        arrow_type: The Arrow type of its values in batches. None if the type is too large.
        key: Whether it is part of the replica identity.
        unresolved: The OIDs of unknown types that it consists of. Its values are text.
        number: Its attribute number, which stays the same when it is renamed. None if the
            stream has neither a receiver's catalog nor the messages of
            `walrow.postgres.ddl_trigger`.
    """

    name: str
    type: str | None
    type_oid: int
    arrow_type: str | None
    key: bool
    unresolved: tuple[int, ...]
    number: int | None = None


@result
class Commit(Result):
    """The commit of a transaction.

    Attributes:
        lsn: Where the commit record starts, as in `_commit_lsn`.
        time: When it was committed. None if Python has no such time.
    """

    lsn: Lsn
    time: dt.datetime | None


@result
class Ddl(Result):
    """A command that changed a table's definition: see `walrow.postgres.ddl_trigger`.

    Attributes:
        command: Its tag, such as `ALTER TABLE`.
        commit: Its transaction.
    """

    command: str
    commit: Commit


@result
class Version(Result):
    """A table with one set of columns, and its changes.

    Attributes:
        name: The table, as `schema.name`.
        replica_identity: `default`, `nothing`, `full` or `index`.
        columns: Its columns.
        inserts: The number of inserted rows.
        updates: The number of updated rows.
        deletes: The number of deleted rows.
        truncates: The number of TRUNCATEs.
        loads: The number of loads. Each load replaces all rows. Only a log has loads.
        loaded: The number of rows of loads. They are no inserts.
        inserts_with_unsent: Inserts with values that were not sent.
        updates_with_unsent: Updates with values that neither the new nor the old row
            contains.
        first: The first transaction that changed the table. None without changes.
        last: The last one.
    """

    name: str
    replica_identity: str
    columns: tuple[Column, ...]
    inserts: int
    updates: int
    deletes: int
    truncates: int
    loads: int
    loaded: int
    inserts_with_unsent: int
    updates_with_unsent: int
    first: Commit | None
    last: Commit | None

    @property
    def key_columns(self) -> list[str]:
        """The columns of the replica identity."""
        return [column.name for column in self.columns if column.key]


@result
class Note(Result):
    """Something that a fold of the table's changes must know: see docs/fold.md.

    Attributes:
        code: A word for programs, such as `column-added`.
        text: The problem and the remedy.
    """

    code: str
    text: str


@result
class Table(Result):
    """A table of a stream.

    Attributes:
        oid: Its OID.
        versions: Its versions, in the order of their appearance.
        notes: Notes for a fold, and the columns that cannot be folded.
        ddl: The commands that changed its definition, if an event trigger wrote them.
    """

    oid: int
    versions: tuple[Version, ...]
    notes: tuple[Note, ...] = ()
    ddl: tuple[Ddl, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON has them, with the sums over its versions."""
        sums = "name", "replica_identity", *CHANGES, "first", "last"
        found = {name: as_json(getattr(self, name)) for name in sums}
        return {"oid": self.oid} | found | Result.to_dict(self)

    def __repr__(self) -> str:
        changes = ", ".join(
            f"{getattr(self, what)} {what}"
            for what in ("inserts", "updates", "deletes", "truncates")
        )
        if self.loads:
            changes += (
                f", {counted(self.loads, 'load')} of {counted(self.loaded, 'row')}"
            )
        versions = counted(len(self.versions), "version")
        return f"<walrow.Table {_printable(self.name)}: {versions}, {changes}>"

    @property
    def _latest(self) -> Version:
        """The version of the last changes. A table may have an earlier version again."""

        def last(place: int) -> tuple[int, int]:
            commit = self.versions[place].last
            return (commit.lsn if commit else 0, place)

        return self.versions[max(range(len(self.versions)), key=last)]

    @property
    def name(self) -> str:
        """Its last name, as `schema.name`."""
        return self._latest.name

    @property
    def inserts(self) -> int:
        """The number of inserted rows."""
        return sum(version.inserts for version in self.versions)

    @property
    def updates(self) -> int:
        """The number of updated rows."""
        return sum(version.updates for version in self.versions)

    @property
    def deletes(self) -> int:
        """The number of deleted rows."""
        return sum(version.deletes for version in self.versions)

    @property
    def truncates(self) -> int:
        """The number of TRUNCATEs."""
        return sum(version.truncates for version in self.versions)

    @property
    def loads(self) -> int:
        """The number of loads. Each load replaces all rows."""
        return sum(version.loads for version in self.versions)

    @property
    def loaded(self) -> int:
        """The number of rows of loads."""
        return sum(version.loaded for version in self.versions)

    @property
    def replica_identity(self) -> str:
        """The last replica identity: `default`, `nothing`, `full` or `index`."""
        return self._latest.replica_identity

    @property
    def first(self) -> Commit | None:
        """The first transaction that changed it. None without changes."""
        commits = [version.first for version in self.versions if version.first]
        return min(commits, key=lambda commit: commit.lsn, default=None)

    @property
    def last(self) -> Commit | None:
        """The last transaction that changed it. None without changes."""
        commits = [version.last for version in self.versions if version.last]
        return max(commits, key=lambda commit: commit.lsn, default=None)

    @property
    def unresolved(self) -> list[Column]:
        """Columns with unknown types. Their values are text, unless a catalog has the types."""
        columns = [column for version in self.versions for column in version.columns]
        return list(dict.fromkeys(column for column in columns if column.unresolved))


class Tables(tuple[Table, ...]):
    """The tables of a stream, in the order of their appearance.

    Attributes:
        unfinished: Whether the stream ends inside a frame or a transaction, or one of its
            sessions does and the rest never came.
        server_error: The SQLSTATE of the server error that ended the stream.
    """

    unfinished: bool
    server_error: str | None

    def find(self, name: str | int) -> Table:
        """Returns the table with this name or OID.

        Raises:
            LookupError: There is no such table, or several of this name.
        """
        found = [
            table
            for table in self
            if table.oid == name
            or any(name in {each.name, _bare(each.name)} for each in table.versions)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            oids = ", ".join(f"{table.name} has OID {table.oid}" for table in found)
            text = f"{name} names several tables: {oids}"
        else:
            text = f"no table {name}{_suggestion(str(name), self)}"
        raise LookupError(text)

    def __repr__(self) -> str:
        """Returns the tables as lines of text."""
        return "\n".join(aligned([HEADS, *lines_of(self)], NUMBERS))

    def _repr_html_(self) -> str:
        caption = f"<b>{counted(len(self), 'table')}</b>"
        return html_table(caption, HEADS, lines_of(self))


CHANGES = "inserts", "updates", "deletes", "truncates", "loads", "loaded"
HEADS = [
    "table",
    "versions",
    "identity",
    "inserts",
    "updates",
    "deletes",
    "truncates",
    "loads",
    "loaded",
    "last commit",
    "notes",
]
#: The columns that are numbers.
NUMBERS = {1, 3, 4, 5, 6, 7, 8}


def lines_of(tables: Tables) -> Iterator[list[str]]:
    """The tables as rows of text, under `HEADS`."""
    for table in tables:
        last = table.last
        yield [
            _printable(table.name),
            str(len(table.versions)),
            table.replica_identity,
            f"{table.inserts:,}",
            f"{table.updates:,}",
            f"{table.deletes:,}",
            f"{table.truncates:,}",
            f"{table.loads:,}",
            f"{table.loaded:,}",
            "" if last is None else f"{last.lsn} {_seconds(last.time)}".strip(),
            ", ".join(dict.fromkeys(note.code for note in table.notes)),
        ]


def _seconds(time: dt.datetime | None) -> str:
    return "" if time is None else f"{time:%Y-%m-%dT%H:%M:%SZ}"


def _printable(text: str) -> str:
    return text if text.isprintable() else ascii(text)[1:-1]


def _bare(name: str) -> str:
    return name.partition(".")[2]


def _suggestion(name: str, tables: Tables) -> str:
    names = {table.name for table in tables}
    by_name = {_bare(each): each for each in names} | {each: each for each in names}
    close = difflib.get_close_matches(name, by_name, n=1)
    return f"; did you mean {by_name[close[0]]}?" if close else ""
