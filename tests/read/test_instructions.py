"""walrow takes as many instructions as it did, as a ratio to the floor program of benches/floor."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benches" / "instructions.py"
_spec = importlib.util.spec_from_file_location("instructions", PROGRAM)
assert _spec is not None
assert _spec.loader is not None
instructions = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(instructions)


@pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("cargo") is None,
    reason="counts instructions by valgrind, of a program that cargo builds: install both, "
    "then run pytest tests/read/test_instructions.py",
)
@pytest.mark.builds
@pytest.mark.timeout(600)
def test_no_workload_takes_more_instructions_than_before() -> None:
    done = subprocess.run(  # noqa: S603
        [sys.executable, str(PROGRAM), "--check"],
        check=False,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "segments" in done.stdout


def written(**ratios: float) -> dict[str, object]:
    return {"compiler": "rustc 1.95.0", "ratios": counted(**ratios)}


def counted(**ratios: float) -> dict[str, dict[str, float]]:
    return {name: {"all": ratio, "no copies": ratio} for name, ratio in ratios.items()}


def test_both_more_and_fewer_instructions_are_a_difference() -> None:
    before = written(narrow=1.5, wide=2.0)
    of = instructions.differences
    assert of(counted(narrow=1.52, wide=1.97), before, "rustc 1.95.0") == []
    more, advice = of(counted(narrow=1.54, wide=2.0), before, "rustc 1.95.0")
    assert more.startswith(
        "narrow (no copies): 1.540 times the floor's instructions, 1.500 before"
    )
    assert "2.7% more" in more
    assert "--write" in advice
    fewer, _ = of(counted(narrow=1.5, wide=1.95), before, "rustc 1.95.0")
    assert "2.5% fewer. Write them down" in fewer


def test_another_compiler_has_more_room() -> None:
    before = written(narrow=1.5)
    of = instructions.differences
    assert of(counted(narrow=1.6), before, "rustc 1.96.0") == []
    assert of(counted(narrow=1.7), before, "rustc 1.96.0") != []
    assert of(counted(narrow=1.54), before, "rustc 1.95.0") != []


def test_copies_have_more_room() -> None:
    before = written(toast=1.5)
    of = instructions.differences
    now = {"toast": {"all": 1.9, "no copies": 1.5}}
    assert of(now, before, "rustc 1.95.0") == []
    now = {"toast": {"all": 2.0, "no copies": 1.5}}
    more, _ = of(now, before, "rustc 1.95.0")
    assert more.startswith("toast (all): 2.000 times")


def test_a_capture_that_is_only_written_or_only_counted_is_a_difference() -> None:
    found = instructions.differences(
        counted(wide=1.5), written(narrow=1.5), "rustc 1.95.0"
    )
    assert found[:2] == ["narrow: only written", "wide: only counted"]


def test_copies_are_counted_apart_and_calls_only_once() -> None:
    lines = """fn=decode
+3 40
calls=1 0
* 1000
-1 2
fn=__memcpy_avx_unaligned_erms
7 100
totals: 142"""
    assert instructions._parsed(lines.splitlines()) == instructions.Instructions(
        142, 100
    )
