"""Folds the row messages of committed plain transactions into final tables.

The latest *sent* value of a column wins: a value that an update does not send stays the
same. The key's values find a row; under FULL, the whole old row does. Supports only text
values, and only protocol 1 without streaming.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from reference import reader

Value: TypeAlias = str | None
Values: TypeAlias = dict[str, Value]


class _Unsent:
    """Marks a value that the server did not send."""

    def __repr__(self) -> str:
        return "UNSENT"


UNSENT = _Unsent()


@dataclass
class Table:
    """One table after the stream.

    Attributes:
        relation: The latest Relation message.
        rows: The values of each row, by column name.
    """

    relation: reader.Relation
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of the columns, in the relation's order."""
        return [column.name for column in self.relation.columns]

    def sorted_rows(self) -> list[list[Any]]:
        """The rows as lists, in the order of the golden tables."""
        rows = [[row.get(name) for name in self.names] for row in self.rows]
        return sorted(rows, key=lambda row: [(c is not None, c or "") for c in row])

    def redefine(self, relation: reader.Relation) -> None:
        """Takes a new definition: removes dropped columns; added ones are NULL in old rows."""
        self.relation = relation
        names = self.names
        self.rows = [{name: row.get(name) for name in names} for row in self.rows]

    def find(self, row: dict[str, Any], *, whole: bool) -> dict[str, Any]:
        """Finds the row that an old row, or the key of a new row, identifies."""
        keys = [c.name for c in self.relation.columns if c.key or whole]
        if not keys:
            msg = f"{self.relation.name} identifies no rows"
            raise LookupError(msg)
        for candidate in self.rows:
            if all(candidate[key] == row[key] for key in keys):
                return candidate
        msg = f"{self.relation.name} has no such row"
        raise LookupError(msg)


def fold(data: bytes) -> dict[int, Table]:
    """Returns the tables after all committed transactions of a recording, by OID.

    Raises:
        LookupError: A changed row does not exist.
        ValueError: The stream cannot be folded.
    """
    tables: dict[int, Table] = {}
    for message in _committed(data):
        match message:
            case reader.Relation():
                if message.oid in tables:
                    tables[message.oid].redefine(message)
                else:
                    tables[message.oid] = Table(message)
            case reader.Truncate():
                for oid in message.relations:
                    tables[oid].rows.clear()
            case reader.Insert() | reader.Update() | reader.Delete():
                _change(tables[message.relation], message)
            case _:
                pass
    return tables


def _committed(data: bytes) -> Iterator[Any]:
    """Yields the messages of transactions that have their Commit.

    A Relation applies from its place on, so it is yielded with its transaction.
    """
    held: list[Any] = []
    for _, message in reader.messages(data):
        match message:
            case None:
                pass
            case reader.StreamStart() | reader.BeginPrepare():
                msg = "only plain transactions can be folded"
                raise ValueError(msg)
            case reader.Begin():
                held.clear()
            case reader.Commit():
                yield from held
                held.clear()
            case _:
                held.append(message)


def _change(
    table: Table, message: reader.Insert | reader.Update | reader.Delete
) -> None:
    if isinstance(message, reader.Insert):
        table.rows.append(_values(table, message.new))
        return
    if isinstance(message, reader.Delete):
        old = _values(table, message.old)
        table.rows.remove(table.find(old, whole=message.old_kind == "O"))
        return
    new = _values(table, message.new)
    known = _values(table, message.old) if message.old_kind else new
    row = table.find(known, whole=message.old_kind == "O")
    row.update({k: v for k, v in new.items() if v is not UNSENT})


def _values(table: Table, row: reader.Row) -> dict[str, Any]:
    if len(row) != len(table.names):
        msg = f"{table.relation.name} has other columns than its row"
        raise ValueError(msg)
    return {name: _value(cell) for name, cell in zip(table.names, row, strict=True)}


def _value(cell: reader.Cell) -> Any:
    match cell.kind:
        case "n":
            return None
        case "u":
            return UNSENT
        case "t":
            return cell.data.decode()
        case _:
            msg = "only text can be folded"
            raise ValueError(msg)
