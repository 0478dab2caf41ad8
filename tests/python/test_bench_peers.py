"""The driver of `make bench-peers`, with harnesses of a few lines instead of parsers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import peer_table
from peer_harness import Harness, HarnessError, differences
from peer_page import page
from peer_rounds import CountsDifferError, Measured, compare_counts, measure
from peer_table import PEERS, BuildError, Family

PEERS_FOLDER = Path(__file__).parents[2] / "benches" / "peers"

#: Answers `count` and `pass` with the size of the file; `more` is added to the cells.
TINY = """
import json, sys
more = int(sys.argv[1])
for line in sys.stdin:
    word, _, path = line.strip().partition(" ")
    if word == "load":
        size = len(open(path, "rb").read())
        answer = {}
    elif word == "count" and size == 0:
        answer = {"error": "nothing to read"}
    elif word == "count":
        answer = {"messages": {"I": size}, "cells": size + more}
    else:
        answer = {"ns": 1000 + more, "items": size}
    print(json.dumps(answer), flush=True)
"""


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "five.wire"
    path.write_bytes(b"bytes")
    return path


def tiny(name: str, more: int = 0) -> Harness:
    return Harness(name, [sys.executable, "-c", TINY, str(more)])


def test_parsers_that_count_alike_have_their_turns(capture: Path) -> None:
    with tiny("one") as one, tiny("two") as two:
        counts, failed = compare_counts(capture, {"one": one, "two": two}, "one")
        assert counts["two"] == {"messages": {"I": 5}, "cells": 5}
        assert failed == {}
        measured = measure([one, two], rounds=2, passes=3)
    assert measured["two"].rounds == [[1000] * 3] * 2


def test_a_difference_of_counts_names_both_parsers(capture: Path) -> None:
    with tiny("one") as one, tiny("two", 1) as two:
        names = r"five.wire: cells: one counts 5, two counts 6"
        with pytest.raises(CountsDifferError, match=names):
            compare_counts(capture, {"one": one, "two": two}, "one")


def test_only_what_both_tell_is_compared() -> None:
    own = {"messages": {"I": 2, "R": 1}, "cells": 4, "nulls": 0}
    assert differences("a", own, "b", {"messages": {"I": 2}, "nulls": 0}) == []
    assert differences("a", own, "b", {"messages": {"I": 3}, "nulls": 1}) == [
        "nulls: a counts 0, b counts 1",
        "I: a counts 2, b counts 3",
    ]


def test_a_parser_that_cannot_read_a_capture_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.wire"
    empty.touch()
    with tiny("one") as one, tiny("two") as two:
        with pytest.raises(HarnessError, match="one cannot count: nothing to read"):
            compare_counts(empty, {"one": one}, "one")
        empty.write_bytes(b"1")
        one.load(empty)
        with Harness("gone", ["true"]) as gone:
            all_three = {"one": one, "gone": gone, "two": two}
            counts, failed = compare_counts(empty, all_three, "one")
    assert set(counts) == {"one", "two"}
    assert failed["gone"].startswith("gone ended at 'load ")


def test_a_pass_with_other_results_is_refused(capture: Path) -> None:
    with tiny("one") as one:
        one.load(capture)
        other = capture.with_name("other.wire")
        other.write_bytes(b"other bytes")
        first = one.run

        def run() -> object:
            answer = first()
            one.load(other)
            return answer

        one.run = run  # type: ignore[method-assign, assignment]
        with pytest.raises(HarnessError, match="one gave 11 results after 5"):
            measure([one], rounds=1, passes=1)


def test_a_program_that_is_missing_does_not_start() -> None:
    with pytest.raises(HarnessError, match=r"^none does not start: "):
        Harness("none", ["/no/such/program"])


def test_a_missing_toolchain_and_a_failed_build_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fails() -> None:
        message = "`go build` failed: see build.log"
        raise BuildError(message)

    families = {
        "missing": Family(("no-such-tool", "nor-this"), fails, ()),
        "fails": Family((), fails, ()),
        "works": Family((), lambda: None, ()),
    }
    monkeypatch.setattr(peer_table, "FAMILIES", families)
    assert peer_table.build(families) == {
        "missing": "no no-such-tool and no nor-this",
        "fails": "`go build` failed: see build.log",
    }


def test_each_parser_has_a_build_and_a_name_of_its_own() -> None:
    assert {peer.family for peer in PEERS} == set(peer_table.FAMILIES)
    assert len({peer.name for peer in PEERS}) == len(PEERS)


def test_ratios_are_those_of_minima_and_of_rounds() -> None:
    base = Measured([[10, 30], [20, 40]])
    own = Measured([[20, 25], [80, 90]])
    assert own.ratio_of_minima(base) == 2.0
    assert own.median_ratio(base) == 3.0  # of 2 and 4
    assert base.median == 25.0


# The same lines go to every harness: the two that need no build answer them.
@pytest.mark.parametrize("script", ["by_hand_peer.py", "walrow_peer.py"])
def test_a_harness_runs_alone(script: str) -> None:
    golden = PEERS_FOLDER.parents[1] / "tests/data/18/rows.text.wire"
    lines = f"load {golden}\ncount\npass\nnonsense\n"
    said = subprocess.run(  # noqa: S603
        [sys.executable, PEERS_FOLDER / "python" / script],
        input=lines,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert said[0] == "{}"
    assert '"messages": {' in said[1]
    assert '"items": ' in said[2]
    assert said[3] == '{"error": "unknown line: load FILE, count or pass"}'


def test_a_page_says_what_was_reached_and_what_was_missed() -> None:
    def times(ns: float, ratio: float) -> dict[str, float]:
        each = {"min_ns": ns, "median_ns": ns, "ratio_min": ratio}
        return {**each, "ratio_median": ratio}

    results = {
        "date": "2026-11-27",
        "machine": {"cpu": "a processor", "cores": 2, "os": "Linux", "python": "3.11"},
        "rounds": 9,
        "peers": [
            {"name": "walrow, RecordBatches", "language": "Rust", "makes": "columns"},
            {"name": "walrow, messages", "language": "Rust", "makes": "visits"},
            {"name": "floor, rows", "language": "Rust", "makes": "columns"},
            {"name": "walrow.read", "language": "Python", "makes": "columns"},
            {"name": "other 1.0", "language": "Go", "makes": "texts"},
            {"name": "lost 1.0", "language": "Java", "makes": "values"},
        ],
        "absent": {"a fork": "in no registry"},
        "skipped": [{"peer": "lost 1.0", "reason": "no mvn"}],
        "captures": {
            "narrow": {
                "bytes": 22_000_000,
                "rows": 200_000,
                "transactions": 200,
                "skipped": {},
                "load": 0.5,
                "times": {
                    "walrow, RecordBatches": times(120.0, 1.0),
                    "walrow, messages": times(20.0, 0.17),
                    "floor, rows": times(60.0, 0.5),
                    "walrow.read": times(122.0, 1.02),
                    "other 1.0": times(100.0, 0.83),
                },
            }
        },
    }
    text = page(results)
    assert "| other 1.0 | Go | texts | **100** / 100 / 0.83 |" in text
    # 120 / 60, 120 / 100 and 100 / 20, by hand.
    assert "| narrow: RecordBatches / floor | ≤ 1.5 | 2.00 | **missed** |" in text
    assert (
        "| narrow: RecordBatches / fastest peer's parsing (other 1.0) | < 1 | 1.20 | **missed** |"
        in text
    )
    assert "| narrow: best peer (other 1.0) / messages | ≥ 4 | 5.00 | reached |" in text
    assert "| narrow: walrow.read / RecordBatches | ≤ 1.03 | 1.02 | reached |" in text
    assert "- lost 1.0: no mvn" in text
    assert "- a fork: in no registry" in text
