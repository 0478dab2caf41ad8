"""`walrow.delta.apply_changes`: after each random batch, a target has the rows of a model."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("deltalake", reason="needs deltalake: pip install deltalake")

import deltalake
import pyarrow as pa

import walrow.delta
from spark.modelled import SHAPES, TYPES, Expected, Model, ModelLog

if TYPE_CHECKING:
    from pathlib import Path

MARK = "_is_deleted"
SECONDS = 12


def rows_of(target: str) -> list[dict[str, Any]]:
    """The rows of a target."""
    table = deltalake.DeltaTable(target.partition(":")[2])
    found: list[dict[str, Any]] = pa.table(table.scan()).to_pylist()
    return found


def test_random_batches(tmp_path: Path) -> None:
    began, done, seed = time.monotonic(), 0, 1
    while time.monotonic() - began < SECONDS or seed <= len(SHAPES):
        one_round(tmp_path / str(seed), seed)
        seed += 1
        done += 1
    assert done >= len(SHAPES)


def one_round(folder: Path, seed: int, batches: int = 5) -> None:
    """Some batches of one table, each applied and compared."""
    source = random.Random(seed)  # noqa: S311
    name = list(SHAPES)[seed % len(SHAPES)]
    shape = SHAPES[name]
    model = Model(source, shape, 16_400, "t", keys=source.choice((8, 40)))
    deletes = source.choice(("apply", "apply", "soft", "ignore"))
    expected = Expected(model, deletes)
    log = ModelLog(folder / "log")
    target = f"delta:{folder}/t"
    for _ in range(batches):
        model.is_binary = source.random() < 0.3
        log.take(model, transactions=source.randint(1, 12))
        if source.random() < 0.2:
            log.load(model)
            if source.random() < 0.7:
                log.take(model, transactions=source.randint(1, 6))
        expected.take()
        if not walrow.Log(log.path).tables():
            # By chance, it has no change yet.
            continue
        walrow.delta.apply_changes(
            log.path,
            table="public.t",
            target=target,
            keys=list(shape.keys),
            deletes=deletes,  # type: ignore[arg-type]
            types=TYPES if "n" in model.columns else {},
        )
        problem = expected.problem(rows_of(target), MARK)
        assert problem is None, (seed, name, deletes, problem)
    log.close()
