"""Some rounds of `modelled_rounds`, which plays thousands by hand: see there."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from spark.modelled import SHAPES
from targets.modelled_rounds import one_round

SEED = int(os.environ.get("WALROW_SEED") or time.time())
SECONDS = 10


def test_random_batches(tmp_path: Path) -> None:
    began, number = time.monotonic(), 0
    # Each shape of a table once.
    while number < len(SHAPES) or time.monotonic() - began < SECONDS:
        one_round(tmp_path / str(number), SEED + number, kills=0.03)
        number += 1


@pytest.mark.parametrize("mode", ["history", "changes"])
def test_random_batches_of_targets_that_keep_rows(tmp_path: Path, mode: str) -> None:
    began, number = time.monotonic(), 0
    while number < 2 or time.monotonic() - began < SECONDS / 2:
        one_round(tmp_path / str(number), SEED + number, kills=0.03, mode=mode)
        number += 1


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("mode", ["history", "changes"])
def test_random_histories_for_long(tmp_path: Path, mode: str) -> None:
    began, number = time.monotonic(), 0
    while time.monotonic() - began < 200:
        folder = tmp_path / str(number)
        one_round(folder, SEED + number, batches=8, kills=0.1, mode=mode)
        number += 1
    assert number >= len(SHAPES)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_random_batches_for_long(tmp_path: Path) -> None:
    began, number, killed = time.monotonic(), 0, 0
    while time.monotonic() - began < 300:
        folder = tmp_path / str(number)
        killed += one_round(folder, SEED + number, batches=8, kills=0.1)
        number += 1
    assert killed > 10
