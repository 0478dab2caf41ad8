"""`walrow.delta.apply_changes` against a model, for as long as you like, with kills.

```sh
PYTHONPATH=tests:examples python -m targets.modelled_rounds --seconds 3600
```

A round is one table with random changes, loads and truncates. After each batch, its target is compared
with the model. Before some batches are applied, a process that applies them is killed with SIGKILL at any
time. With `--engine both`, Spark and deltalake apply by turns, and both read the target. The
seed of each round is printed: `--seed` repeats it.
"""

# ruff: noqa: T201  (the program prints its results)

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa

import walrow
import walrow.delta
from spark.modelled import SHAPES, TYPES, Expected, Model, ModelLog, Moments
from spark.modelled_history import changes_problem, history_problem, state_problem
from walrow._apply import keys, version_parts
from walrow._apply.load_versions import compared
from walrow.delta import histories

#: The column that soft deletes set.
MARK = "_is_deleted"
#: Applies the given changes, in a process that is killed.
VICTIM = """
import json, sys
import walrow.delta
print("ready", flush=True)
log, given = json.loads(sys.argv[1])
walrow.delta.apply_changes(log, **given)
"""
#: By name: applies, and reads a target at a path.
Engines = dict[
    str, tuple["Callable[..., Any]", "Callable[[str], list[dict[str, Any]]]"]
]


def rows_of(place: str) -> list[dict[str, Any]]:
    """The rows of a target."""
    rows: list[dict[str, Any]] = pa.table(
        deltalake.DeltaTable(place).scan()
    ).to_pylist()
    return rows


#: Without Spark.
LOCAL: Engines = {"delta": (walrow.delta.apply_changes, rows_of)}


def one_round(
    folder: Path,
    seed: int,
    *,
    batches: int = 5,
    engines: Engines = LOCAL,
    kills: float = 0.0,
    mode: str = "current",
) -> int:
    """Some batches of one table, each applied by an engine, and compared by all.

    Args:
        folder: A new folder.
        seed: It determines everything.
        batches: So many.
        engines: The engines.
        kills: How often a process is killed before.
        mode: The kind of target.

    Returns:
        The number of kills.
    """
    source = random.Random(seed)  # noqa: S311
    name = list(SHAPES)[seed % len(SHAPES)]
    shape = SHAPES[name]
    model = Model(source, shape, 16_400, "t", keys=source.choice((8, 40)))
    deletes = source.choice(("apply", "apply", "soft", "ignore"))
    if mode != "current":
        deletes = "apply"
    expected = Expected(model, deletes)
    log = ModelLog(folder / "log")
    if mode == "history":
        log.moments = Moments()
    place = str(folder / "t")
    given: dict[str, Any] = {
        "table": "public.t",
        "target": f"delta:{place}",
        "keys": list(shape.keys),
        "deletes": deletes,
        "types": TYPES if "n" in model.columns else {},
        "mode": mode,
    }
    if mode == "changes":
        del given["keys"]
    killed = 0
    # Small parts have their commits, as large ones do.
    version_parts._ROW_BYTES = source.choice((400, 1 << 18))
    keys._GROWTH = source.choice((8, 1 << 17))
    # The differences of a load fit into the memory, or do not.
    histories.compared = source.choice((compared, none_fits))  # type: ignore[attr-defined]
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
        if source.random() < kills:
            kill(str(log.path), given, source.uniform(0, 0.4))
            killed += 1
        chosen = source.choice(list(engines))
        apply, _ = engines[chosen]
        done = apply(str(log.path), **given)
        for reader, (_, read) in engines.items():
            rows = read(place)
            if mode == "current":
                problem = expected.problem(rows, MARK)
            elif log.moments is not None:
                moments = log.moments.of.get(model.oid, [])
                since = json.loads(done.token)["since"]
                problem = history_problem(rows, model, moments) or state_problem(
                    rows, model, log.path, since, source
                )
            else:
                problem = changes_problem(rows, model, log.path)
            assert problem is None, (seed, name, deletes, chosen, reader, problem)
    log.close()
    return killed


def none_fits(*given: Any, **options: Any) -> Any:
    """The differences of a load, as if the memory had no room for any."""
    return compared(*given, **options | {"limit": 0})


def kill(log: str, given: dict[str, Any], after: float) -> None:
    """Kills a process that applies, so many seconds after its start."""
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", VICTIM, json.dumps([log, given])],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert process.stdout is not None
    process.stdout.readline()
    time.sleep(after)
    process.kill()
    process.wait()
    process.stdout.close()


def with_spark(spark: Any) -> Engines:
    """Both engines."""
    import walrow.spark

    def apply(log: str, **given: Any) -> Any:
        return walrow.spark.apply_changes(spark, log, **given)

    def read(place: str) -> list[dict[str, Any]]:
        return [row.asDict() for row in spark.table(f"delta.`{place}`").collect()]

    return LOCAL | {"spark": (apply, read)}


def main() -> None:
    """Plays rounds, and says how many there were."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--engine", choices=("delta", "both"), default="delta")
    parser.add_argument(
        "--mode", choices=("current", "history", "changes"), default="current"
    )
    parser.add_argument("--kills", type=float, default=0.1, help="before a batch")
    options = parser.parse_args()
    engines = LOCAL
    if options.engine == "both":
        from spark.modelled_batches import session

        engines = with_spark(session(Path(tempfile.mkdtemp()), "local[2]"))
    began, seed, killed = time.monotonic(), options.seed, 0
    while time.monotonic() - began < options.seconds:
        with tempfile.TemporaryDirectory() as folder:
            killed += one_round(
                Path(folder),
                seed,
                batches=8,
                engines=engines,
                kills=options.kills,
                mode=options.mode,
            )
        seed += 1
        print(f"--seed {seed - 1}: {seed - options.seed} rounds agree", flush=True)
    print(f"{seed - options.seed} rounds agree, and {killed} kills changed nothing")


if __name__ == "__main__":
    main()
