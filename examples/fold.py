"""Folds changes into tables: rebuilds PostgreSQL's tables from the stream alone.

    tables = fold(walrow.read("stream.wire"))
    tables["public.orders"].rows()

This is plain Python on purpose. It shows the rules, row by row, that every engine must follow.

1. Apply the changes of a table in the order of `_commit_lsn` and `_seq`, as in the batches.
2. Find the row of a change by the replica identity: by the old image if there is one (the
   key changed, or the identity is FULL), otherwise by the new row's key.
3. A column in `_unsent` has no value in this row: keep the old row's value. It is not NULL.
4. If `_key_only` is true, only the columns of the replica identity have values.
5. A truncate removes all rows.
6. Old rows have NULL in a new column, unless another column disappeared: it may be the same
   column, renamed, with its values. The stream does not show this; `renamed` does.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import walrow

Row = dict[str, Any]


class Table:
    """The rows of one table, indexed by their replica identity."""

    def __init__(self) -> None:
        """Creates an empty table."""
        self.columns: list[str] = []
        self.key: list[str] = []
        self.changes = 0
        # Each entry is a list. Without a key, a table may contain equal rows. While a
        # statement moves keys (id = id + 1), two rows may temporarily share one.
        self._rows: defaultdict[tuple[Any, ...], list[Row]] = defaultdict(list)
        # The identity in a pre-image whose post-image has not been applied yet.
        self._old: tuple[Any, ...] | None = None

    def rows(self) -> Iterator[Row]:
        """Yields the rows, in no order."""
        for rows in self._rows.values():
            yield from rows

    def __len__(self) -> int:
        """Counts the rows."""
        return sum(len(rows) for rows in self._rows.values())

    def apply(
        self, batch: walrow.Batch, renamed: Mapping[str, str] | None = None
    ) -> None:
        """Applies the changes of one batch."""
        records = pa.record_batch(batch)
        columns = [name for name in records.schema.names if name not in _METADATA]
        went = [name for name in self.columns if name not in columns]
        came = [name for name in columns if name not in self.columns]
        if went and came and renamed is None and len(self):
            msg = (
                f"{batch.table}: columns {', '.join(went)} disappeared and "
                f"{', '.join(came)} are new: renamed, or dropped and added? the stream "
                "does not show it; read the table again, or pass renamed= to fold"
            )
            raise LookupError(msg)
        was = {new: old for old, new in (renamed or {}).items() if new in came}
        self._describe(columns, list(batch.key_columns) or columns, was)
        for row in records.to_pylist():
            meta = {name: row.pop(name) for name in _METADATA}
            self.changes += 1
            match meta["_change_type"]:
                case "insert":
                    self._put(row)
                case "update_preimage":
                    # The next row is its new row.
                    self._old = self._identity(row)
                case "update_postimage":
                    before = self._take(self._old or self._identity(row))
                    for name in meta["_unsent"] or ():
                        row[name] = before[name]
                    self._put(row)
                    self._old = None
                case "delete":
                    self._take(self._identity(row))
                case "truncate":
                    self._rows.clear()

    def _describe(
        self, columns: list[str], key: list[str], was: Mapping[str, str]
    ) -> None:
        """Applies ALTER TABLE: the columns and the replica identity may change."""
        if (columns, key) == (self.columns, self.key):
            return
        rows = [
            {name: row.get(was.get(name, name)) for name in columns}
            for row in self.rows()
        ]
        self.columns, self.key = columns, key
        self._rows.clear()
        for row in rows:
            self._put(row)

    def _identity(self, row: Row) -> tuple[Any, ...]:
        return tuple(_hashable(row[name]) for name in self.key)

    def _put(self, row: Row) -> None:
        self._rows[self._identity(row)].append(row)

    def _take(self, identity: tuple[Any, ...]) -> Row:
        """Removes the row with this identity, the oldest if there are several."""
        rows = self._rows.get(identity)
        if not rows:
            msg = "a changed row does not exist: did the stream begin later?"
            raise LookupError(msg)
        row = rows.pop(0)
        if not rows:
            del self._rows[identity]
        return row


def fold(
    batches: Iterable[walrow.Batch],
    renamed: Mapping[str, Mapping[str, str]] | None = None,
) -> dict[str, Table]:
    """Returns the tables after all changes, by `schema.name`.

    Args:
        batches: What `walrow.read` yields.
        renamed: For tables where columns disappear and new ones appear together, a map of
            old names to new names of the renamed columns: `{"public.t": {"v": "w"}}`. Other
            columns are dropped or added.

    Raises:
        LookupError: A row does not exist, or a column may be renamed and `renamed` does not
            contain its table.
    """
    # By OID: a renamed table is the same table; a recreated table is a different one.
    tables: defaultdict[int, Table] = defaultdict(Table)
    names: dict[str, int] = {}
    for batch in batches:
        tables[batch.relation_oid].apply(batch, (renamed or {}).get(batch.table))
        names = {name: oid for name, oid in names.items() if oid != batch.relation_oid}
        names[batch.table] = batch.relation_oid
    return {name: tables[oid] for name, oid in names.items()}


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, _hashable(item)) for name, item in value.items())
    if isinstance(value, float) and value != value:  # noqa: PLR0124
        return "NaN"  # which equals itself in PostgreSQL
    return value


_METADATA = (
    "_change_type",
    "_commit_lsn",
    "_seq",
    "_commit_timestamp",
    "_xid",
    "_key_only",
    "_unsent",
)
