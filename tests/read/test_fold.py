"""Folded change rows are the tables of the server."""

from __future__ import annotations

from typing import Any

import pytest

import walrow
from captures import Capture, captures

pa = pytest.importorskip("pyarrow")

FOLDABLE = [capture for capture in captures("text", "v1") if capture.meta["foldable"]]


METADATA = {
    "_change_type",
    "_commit_lsn",
    "_seq",
    "_commit_timestamp",
    "_xid",
    "_key_only",
    "_unsent",
}


class Table:
    """A table's rows while changes are applied to it."""

    def __init__(self) -> None:
        self.columns: list[str] = []
        self.rows: list[dict[str, Any]] = []
        #: The row of the pre-image. Its post-image may be in another batch.
        self.before: dict[str, Any] | None = None

    def apply(self, batch: walrow.Batch) -> None:
        columns = [name for name in batch.column_names if name not in METADATA]
        if columns != self.columns:
            self.columns = columns
            self.rows = [{name: row.get(name) for name in columns} for row in self.rows]
        last = (0, -1)
        for change in pa.record_batch(batch).to_pylist():
            order = (change["_commit_lsn"], change["_seq"])
            assert order >= last, "changes of a table come in order"
            last = order
            row = {name: change[name] for name in self.columns}
            unsent = change["_unsent"] or []
            assert all(row[name] is None for name in unsent)
            match change["_change_type"]:
                case "truncate":
                    self.rows.clear()
                case "insert":
                    assert not unsent
                    self.rows.append(row)
                case "delete":
                    self.rows.remove(
                        self.find(row, batch, key_only=change["_key_only"])
                    )
                case "update_preimage":
                    self.before = self.find(row, batch, key_only=change["_key_only"])
                case "update_postimage":
                    found = self.before or self.find(row, batch, key_only=True)
                    found.update({k: v for k, v in row.items() if k not in unsent})
                    self.before = None

    def find(
        self, row: dict[str, Any], batch: walrow.Batch, *, key_only: bool
    ) -> dict[str, Any]:
        names = batch.key_columns if key_only else self.columns
        assert names, "something identifies the row"
        for candidate in self.rows:
            if all(candidate[name] == row[name] for name in names):
                return candidate
        msg = f"{batch.table} has no such row"
        raise LookupError(msg)

    def sorted_rows(self) -> list[list[Any]]:
        rows = [list(row.values()) for row in self.rows]
        return sorted(rows, key=lambda row: [(c is not None, c or "") for c in row])


@pytest.mark.parametrize("capture", FOLDABLE, ids=str)
@pytest.mark.parametrize("batch_rows", [1, 16384])
def test_folded_changes_are_the_tables_of_the_server(
    capture: Capture, batch_rows: int
) -> None:
    tables: dict[int, Table] = {}
    for batch in walrow.read(capture.path, profile="text", batch_rows=batch_rows):
        tables.setdefault(batch.relation_oid, Table()).apply(batch)
    assert capture.tables
    for table in capture.tables.values():
        found = tables.pop(table["oid"], Table())
        if found.columns:
            assert found.columns == [column["name"] for column in table["columns"]]
        assert found.sorted_rows() == table["rows"]


def test_enough_captures_are_folded() -> None:
    assert len(FOLDABLE) > 70
