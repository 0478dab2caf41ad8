"""`Log.compact`: readers see what they saw before."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import walrow
from captures import Capture, with_sides
from logs import SEALABLE, contents, log_of, published, sampled, transactions
from walrow._core import LogDirectory
from walrow.cli.app import cli

pytest.importorskip("pyarrow")


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
