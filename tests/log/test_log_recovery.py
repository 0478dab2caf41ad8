"""What a receiver and `verify` say of a log that lacks something: the same."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import streams
import walrow
from logs import Publisher, fault, history, published, transaction, transactions

#: Opens a log as a writer does, and prints the most memory that it had in MiB.
PEAK = """
import resource, sys
from walrow._core import LogWriter

LogWriter(sys.argv[1], segment_bytes=4 << 30, level=None, spool_memory=1 << 20).close()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""


def refusals(path: Path) -> set[tuple[str | None, str | None]]:
    """What each of them says."""
    return {
        fault(lambda: walrow.seal(history(9), log=path)),
        fault(lambda: walrow.Log(path).verify()),
    }


def test_a_missing_newest_segment_is_named(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(4))
    assert log.verify() == []
    log.segments()[-1].path.unlink()
    assert refusals(log.path) == {("missing", None)}
    # What is before it is read.
    assert walrow.Log(log.path).end == 0x3000


def test_verify_says_what_would_be_published_and_changes_nothing(
    tmp_path: Path,
) -> None:
    with Publisher(tmp_path / "log") as publisher:
        publisher.publish(*transactions(2))
        publisher.writer.append(transaction(0x3000, ("1", "x")))
        publisher.writer.sync()
    log = walrow.Log(tmp_path / "log")
    before = {it.name: it.read_bytes() for it in log.path.iterdir()}
    assert log.verify() == ["publish the transactions of the journal, up to 0/3000"]
    assert {it.name: it.read_bytes() for it in log.path.iterdir()} == before
    # A byte of it that was synced, as the block after it says, is damaged.
    with Publisher(log.path) as publisher:
        for number in (4, 5, 6):
            publisher.writer.append(transaction(0x1000 * number, ("1", "x")))
            publisher.writer.sync()
    journal = log.path / "_open"
    whole = bytearray(journal.read_bytes())
    whole[len(whole) // 3] ^= 1
    journal.write_bytes(whole)
    assert refusals(log.path) == {("damaged", "_open")}


@pytest.mark.slow
def test_what_was_not_published_is_recovered_piece_by_piece(tmp_path: Path) -> None:
    row = ("1", "v" * 1_000_000)
    for name, count in (("few", 1), ("many", 300)):
        with Publisher(tmp_path / name, segment_bytes=4 << 30, level=None) as publisher:
            publisher.writer.append(streams.SESSION)
            for number in range(1, count + 1):
                publisher.writer.append(transaction(0x1000 * number, row))
            publisher.writer.sync()
    few, many = (
        int(
            subprocess.run(  # noqa: S603 - this Python
                [sys.executable, "-c", PEAK, tmp_path / name],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        for name in ("few", "many")
    )
    assert many - few < 100, f"{few} MiB, {many} MiB"
