"""Two threads beside one, over captures and over logs of them: threads.py [DIR].

Each round decodes with one thread and then with two, so both meet the same machine. A line has the
median of the rounds' ratios, the ratio of the shortest times, and the CPU time of two threads as
a ratio to one. `*` marks what misses its aim.

A capture is read from memory and from its file. A log has segments of 2 MiB: one thread reads and decompresses
its frames, and the other one decodes.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import walrow

ROUNDS = int(os.environ.get("WALROW_BENCH_ROUNDS", "11"))
THREADS = 2
#: The least speed-up of a capture and of a log.
AIMS = {"memory": 1.4, "file": 1.4, "log": 1.7}


def main() -> None:
    """Prints a line for each source."""
    root = Path(__file__).resolve().parent.parent
    directory = Path(next(iter(sys.argv[1:]), root / "target/bench-data"))
    print(f"{'':<18}{'median':>8}{'best':>7}{'aim':>6}{'CPU':>7}{'ns a row':>10}")
    for name in ("narrow", "pgbench", "wide", "mixed", "tiny"):
        path = directory / f"{name}.wire"
        if not path.exists():
            print(f"{name}: no {path}; benches/captures.py makes it")
            continue
        with tempfile.TemporaryDirectory() as folder:
            walrow.seal(path, log=folder, segment_size=2 << 20)
            measure(name, "memory", path.read_bytes())
            measure(name, "file", path)
            measure(name, "log", walrow.Log(folder))
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def measure(name: str, kind: str, source: Any) -> None:
    """Prints a line."""
    rows = decode(source, 1)
    if decode(source, THREADS) != rows:
        text = f"{name}: another number of rows with {THREADS} threads"
        raise AssertionError(text)
    rounds = [(timed(source, 1), timed(source, THREADS)) for _ in range(ROUNDS)]
    ratios = [one[0] / several[0] for one, several in rounds]
    walls = [min(each[place][0] for each in rounds) for place in (0, 1)]
    costs = [min(each[place][1] for each in rounds) for place in (0, 1)]
    median, best = statistics.median(ratios), walls[0] / walls[1]
    mark = " " if median >= AIMS[kind] else "*"
    print(
        f"{name:<10}{kind:<8}{median:>8.2f}{best:>7.2f}{AIMS[kind]:>5.1f}{mark}"
        f"{costs[1] / costs[0]:>7.2f}{walls[1] / rows * 1e9:>10.1f}"
    )


def timed(source: Any, threads: int) -> tuple[float, float]:
    """The wall and the CPU time of all threads."""
    wall, cpu = time.perf_counter(), time.process_time()
    decode(source, threads)
    return time.perf_counter() - wall, time.process_time() - cpu


def decode(source: Any, threads: int) -> int:
    """The number of rows. Each batch is dropped when the next one comes."""
    return sum(batch.num_rows for batch in walrow.read(source, threads=threads))


if __name__ == "__main__":
    main()
