"""`walrow.Log`: what is read of a log is what is read of its capture."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import walrow
from captures import Capture, with_sides
from logs import SEALABLE, Publisher, contents, log_of, sampled, transactions

WAYS: dict[str, dict[str, Any]] = {
    "arrow": {"unrepresentable": "null"},
    "spark": {"profile": "spark", "unrepresentable": "null"},
    "text": {"profile": "text"},
    "envelope": {"envelope": True},
}
SIDES = "transactions", "messages", "truncates"


@pytest.mark.parametrize("capture", sampled(SEALABLE), ids=str)
def test_a_log_gives_the_rows_of_its_capture(capture: Capture, tmp_path: Path) -> None:
    logs = [log_of(tmp_path / str(size), capture, size) for size in (1, 700, 64 << 20)]
    sides = {
        "tables": with_sides(capture.path, *SIDES),
        "missing_table": "ignore",
    }
    for way, own in {**WAYS, "sides": sides}.items():
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
        assert log.verify() == []


def changes(tables: Any) -> list[Any]:
    """The changes of each table that has any."""
    return sorted(
        (it.oid, it.name, it.inserts, it.updates, it.deletes, it.truncates)
        for it in tables
        if it.inserts or it.updates or it.deletes or it.truncates
    )


def reached(folder: Path) -> tuple[Any, ...]:
    found = walrow.Log(folder)._log.reached()
    assert found is not None
    return found


def test_a_log_of_a_quiet_database_reaches_what_its_journal_says(
    tmp_path: Path,
) -> None:
    with Publisher(tmp_path) as publisher:
        publisher.publish(*transactions(2))
        assert reached(tmp_path) == (walrow.Lsn(0x2000), False, None)
        publisher.writer.set_timeline(2, 0x1800)
        for lsn in (0x2100, 0x2300):
            publisher.writer.advance(lsn)
            publisher.writer.sync()
        whole = (walrow.Lsn(0x2300), False, (2, walrow.Lsn(0x1800)))
        assert reached(tmp_path) == whole
        journal = (tmp_path / "_open").read_bytes()
        # The data after a transaction is not known to be without changes.
        publisher.writer.append(transactions(3)[2])
        publisher.writer.advance(0x3100)
        publisher.writer.sync()
        position, has_more, _ = reached(tmp_path)
        assert (position, has_more) == (walrow.Lsn(0x2300), True)
        assert publisher.writer.publish()
        assert reached(tmp_path)[:2] == (walrow.Lsn(0x3100), False)
        # A log that was opened before cannot know.
        before = walrow.Log(tmp_path)
        publisher.publish(transactions(4)[3])
        publisher.writer.advance(0x4100)
        publisher.writer.sync()
        assert before._log.reached() is None
    # A copy, and a journal that is cut anywhere.
    with Publisher(tmp_path / "copy") as publisher:
        publisher.publish(*transactions(2))
    places = set()
    for size in range(len(journal) + 1):
        (tmp_path / "copy" / "_open").write_bytes(journal[:size])
        position, has_more, timeline = reached(tmp_path / "copy")
        assert not has_more
        places.add(int(position))
        assert timeline in (None, whole[2])
    assert places == {0x2000, 0x2100, 0x2300}
    assert reached(tmp_path / "copy") == whole
    (tmp_path / "copy" / "_open").unlink()
    assert reached(tmp_path / "copy") == (walrow.Lsn(0x2000), False, None)


def test_a_notebook_shows_tables_as_their_log() -> None:
    log = walrow.Log("tests/data/log-2/log")
    shown = log.tables()._repr_html_()
    assert shown.startswith("<table><caption>2 tables</caption>")
    heads = re.findall("<th>(.*?)</th>", shown)
    assert heads[:3] == ["table", "versions", "rows changed"]
    assert heads[3:] == ["truncates", "loaded", "needs a load", "left"]
    cells = [
        re.findall("<td>(.*?)</td>", row) for row in re.findall("<tr>(.+?)</tr>", shown)
    ]
    assert cells[1:] == [
        ["public.t", "1", "69", "0", "", "", ""],
        ["public.loaded", "1", "90", "1", "0/4800", "", ""],
    ]
