"""The schema of a table that is applied. For types that are built in, the log's index gives it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import walrow
from captures import Capture, captures
from walrow._apply import tables
from walrow._apply.tables import AppliedTable
from walrow._log.items import LogTable
from walrow._sources.logs import find_log
from walrow.errors import SchemaError

#: Histories with several versions of tables, other identities, and other types.
NAMES = {
    "alter-columns",
    "alter-names",
    "identity-change",
    "identity-full",
    "identity-index",
    "identity-nothing",
    "rows",
    "schemas",
    "types-alter",
    "types-array",
    "types-numeric",
    "types-other",
    "types-time",
    "types-user",
}
HISTORIES = [
    it for it in captures("text", "binary") if it.major == 18 and it.name in NAMES
]


def schema_of(log: walrow.Log, table: LogTable) -> pa.Schema | None:
    """The schema. None if no type holds all values of a column."""
    try:
        return AppliedTable.of(log, table, None, {}, "changes").schema
    except SchemaError:
        return None


@pytest.mark.parametrize("history", HISTORIES, ids=str)
def test_the_index_gives_the_schema_that_the_stream_gives(
    history: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walrow.seal(history.path, log=tmp_path / "log")
    log = walrow.Log(tmp_path / "log")
    found = {it.oid: schema_of(log, it) for it in log.tables()}
    assert found
    monkeypatch.setattr(tables, "_BUILT_IN", set())
    for table in log.tables():
        read, known = schema_of(log, table), found[table.oid]
        assert (read is None) == (known is None)
        assert read is None or read.equals(known, check_metadata=True)


def test_a_segment_is_read_only_for_what_the_index_does_not_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = []

    def noted(source: Any) -> Any:
        reads.append(source)
        return find_log(source)

    monkeypatch.setattr("walrow._read.schemas.find_log", noted)
    for name, is_read in {
        "rows": False,
        "identity-full": True,
        "types-user": True,
    }.items():
        (history,) = (it for it in HISTORIES if (it.name, it.record) == (name, "text"))
        walrow.seal(history.path, log=tmp_path / name)
        log = walrow.Log(tmp_path / name)
        reads.clear()
        for table in log.tables():
            schema_of(log, table)
        assert bool(reads) == is_read
