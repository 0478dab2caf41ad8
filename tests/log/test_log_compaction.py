"""`Log.compact`: readers see what they saw before."""

from __future__ import annotations

import threading
import time
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import walrow
from captures import Capture, with_sides
from logs import SEALABLE, Publisher, contents, log_of, published, sampled, transactions
from walrow._core import LogDirectory
from walrow.cli.app import cli

pa = pytest.importorskip("pyarrow")


SIDES = "transactions", "messages", "truncates", "relations"


@pytest.mark.parametrize("capture", sampled(SEALABLE), ids=str)
def test_a_merged_log_gives_the_rows_of_its_capture(
    capture: Capture, tmp_path: Path
) -> None:
    log = log_of(tmp_path / "log", capture, 700)
    ways: list[dict[str, Any]] = [
        {"profile": "text"},
        {"tables": with_sides(capture.path, *SIDES), "missing_table": "ignore"},
    ]
    before = [contents(log.read(unfinished="ignore", **way)) for way in ways]
    tables, end = log.tables(), log.end
    stale = LogDirectory(log.path)
    opened = stale.open()
    for size in (2_000, 64 << 20):
        done = log.compact(segment_size=size)
        assert done.merged <= done.segments // 2
        again = walrow.Log(log.path)
        for each in (log, again):
            after = [contents(each.read(unfinished="ignore", **way)) for way in ways]
            assert after == before
            assert (each.tables(), each.end) == (tables, end)
        assert again.verify() == []
    # Planned before, read after.
    stream = b"".join(iter(opened.read, b""))
    assert stream == b"".join(iter(LogDirectory(log.path).open().read, b""))


def test_ranges_of_a_merged_log(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(9))
    lsns = range(0, 0xA000, 0x800)

    def ranges() -> list[Any]:
        opened = walrow.Log(log.path)
        return [
            contents(opened.read(start=start, end=end))
            for start in lsns
            for end in (None, start + 0x1800, 0x4000)
            if end is None or end > start
        ]

    before = ranges()
    assert astuple(log.compact()) == (8, 1, log.segments()[0].bytes)
    assert [it.part for it in log.segments()] == [1_000_000, 0]
    assert ranges() == before


def test_followers_and_a_writer_go_on_while_segments_are_merged(tmp_path: Path) -> None:
    count = 120
    path = tmp_path / "log"
    with Publisher(path) as publisher:
        first, *later = transactions(count, rows=1)
        publisher.publish(first)
        seen: dict[float, list[int]] = {0.001: [], 0.05: [], 0.4: []}

        def follow(interval: float) -> None:
            with walrow.Log(path).follow(poll_interval=interval) as batches:
                for batch in batches:
                    lsns = pa.record_batch(batch)["_commit_lsn"].to_pylist()
                    seen[interval] += lsns
                    if lsns[-1] == 0x1000 * count - 8:
                        return

        threads = [threading.Thread(target=follow, args=(each,)) for each in seen]
        for thread in threads:
            thread.start()
        merged = 0
        log = walrow.Log(path)
        for number, each in enumerate(later):
            publisher.publish(each)
            if number % 4 == 0:
                merged += log.compact(segment_size=20_000).segments
            time.sleep(0.005)
        for thread in threads:
            thread.join(20)
    assert merged > count
    expected = [0x1000 * number - 8 for number in range(1, count + 1)]
    assert list(seen.values()) == [expected] * 3
    assert len(walrow.Log(path).segments()) < 20


def test_a_writer_knows_what_was_merged_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "log"
    later = transactions(20)
    with Publisher(path) as publisher:
        publisher.publish(*later[:9])
        walrow.Log(path).compact()
        publisher.publish(*later[9:15])
        walrow.Log(path).compact()
        publisher.publish(*later[15:])
        # The index has all of them: it is enough to open the log.
        index = (path / "_index").read_bytes()
        for segment in walrow.Log(path).segments():
            assert f'"{segment.start}"'.encode() in index
    assert sum(it.transactions for it in walrow.Log(path).segments()) == 20
    with Publisher(path) as publisher:
        assert publisher.writer.position == 20 * 0x1000


@pytest.mark.parametrize("value", [0, "0", -1, True, "many", 1.5])
def test_sizes_that_no_segment_has(value: Any, tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(1))
    with pytest.raises(walrow.errors.OptionError, match=r"^segment_size "):
        log.compact(segment_size=value)
    with pytest.raises(walrow.errors.OptionError, match=r"^segment_size "):
        walrow.seal(b"", log=tmp_path / "other", segment_size=value)
    assert log.compact(segment_size="1MiB").segments == 0
    words = ["log", "compact", str(log.path), "--segment-size", str(value)]
    done = CliRunner().invoke(cli, words)
    assert (done.exit_code, "--segment-size" in done.output) == (2, True)
