"""`walrow.Log`: what is read of a log is what is read of its capture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import walrow
from logs import SEALABLE, contents, log_of, sampled

if TYPE_CHECKING:
    from pathlib import Path

    from captures import Capture

WAYS: dict[str, dict[str, Any]] = {
    "arrow": {"unrepresentable": "null"},
    "spark": {"profile": "spark", "unrepresentable": "null"},
    "text": {"profile": "text"},
    "envelope": {"envelope": True},
    "sides": {"side_tables": ["transactions", "messages", "truncates"], "tables": None},
}


@pytest.mark.parametrize("capture", sampled(SEALABLE), ids=str)
def test_a_log_gives_the_rows_of_its_capture(capture: Capture, tmp_path: Path) -> None:
    logs = [log_of(tmp_path / str(size), capture, size) for size in (1, 700, 64 << 20)]
    for way, own in WAYS.items():
        options = {"unfinished": "ignore"} | own
        expected = contents(walrow.read(capture.path, **options))
        for log in logs:
            assert contents(log.read(**options)) == expected, (way, len(log.segments()))
    expected = changes(walrow.tables(capture.path))
    for log in logs:
        assert changes(walrow.tables(log)) == expected
        assert {(it.oid, it.name, it.rows, it.truncates) for it in log.tables()} == {
            (oid, name, sum(rows), truncates)
            for oid, name, *rows, truncates in expected
        }
        assert log.verify() == len(log.segments())


def changes(tables: Any) -> list[Any]:
    """The changes of each table that has any."""
    return sorted(
        (it.oid, it.name, it.inserts, it.updates, it.deletes, it.truncates)
        for it in tables
        if it.inserts or it.updates or it.deletes or it.truncates
    )
