"""How `walrow.delta.maintain` keeps merges fast over many small batches: maintain.py [DIR] [BATCHES] ...

Each batch updates 5 rows and inserts 5 rows, with keys in no order, such as UUIDs, and is applied
alone: a MERGE then looks into all files. The table has ROWS rows before (default: 100,000). The target is maintained after EVERY
batches (default: 100), or with 0, never. For each tenth of the BATCHES (default: 2,000), the program prints
the medians of a call, and of its MERGE alone, in CPU time of this process, and the greatest number of files.
The last line compares the last tenth with the first one: the aim is at most 1.5 times. The log and the table
lie in DIR, target/bench-data by default, until the program ends. BATCHES, EVERY and ROWS come after it.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import deltalake

import walrow
import walrow.delta
from walrow.delta import snapshots

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import streams
from local_delta.written_log import WrittenLog

#: The rows that a batch updates, and as many that it inserts.
CHANGES = 5
AIM = 1.5
#: Segments are merged after so many batches, as a receiver does.
MERGED = 50


class Merges:
    """The CPU time of each MERGE."""

    def __init__(self) -> None:
        """Measures from now on."""
        self.times: list[float] = []
        self._merge = snapshots.Snapshot.merge

        def timed(snapshot: snapshots.Snapshot, *given: Any, **options: Any) -> Any:
            began = time.process_time()
            found = self._merge(snapshot, *given, **options)
            self.times.append(time.process_time() - began)
            return found

        snapshots.Snapshot.merge = timed  # type: ignore[method-assign]


def main() -> None:
    """Prints a line for each tenth."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", nargs="?", type=Path, default=root / "target/bench-data")
    parser.add_argument("batches", nargs="?", type=int, default=2000)
    parser.add_argument("every", nargs="?", type=int, default=100)
    parser.add_argument("rows", nargs="?", type=int, default=100_000)
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        measure(Path(folder), options.batches, options.every, options.rows)


def measure(folder: Path, batches: int, every: int, rows: int) -> None:
    """Applies batches one after the other."""
    source = random.Random(1)  # noqa: S311
    log = WrittenLog(folder, id="bigint", n="int", v="text")
    for first in range(0, rows, 10_000):
        keys = map(_mixed, range(first, first + 10_000))
        log.insert(*([str(it), "0", "x" * 50] for it in keys))
    log.apply()
    place = log.target.partition(":")[2]
    merges, calls, maintained = Merges(), [], []
    tenth, medians, files = max(batches // 10, 1), [], 0
    for number in range(1, batches + 1):
        keys = source.sample(range(number << 40, (number + 1) << 40), CHANGES)
        new = [[str(_mixed(it)), str(number), "y" * 50] for it in keys]
        old = map(_mixed, source.sample(range(rows), CHANGES))
        updated = ([str(it), str(number), "z" * 50] for it in old)
        log.take(*map(streams.insert, new), *map(streams.update, updated))
        if number % MERGED == 0:
            walrow.Log(log.path).compact()
        began = time.process_time()
        log.apply()
        calls.append(time.process_time() - began)
        if number % 10 == 0:
            files = max(files, len(deltalake.DeltaTable(place).file_uris()))
        if every and number % every == 0:
            began = time.process_time()
            walrow.delta.maintain(log.target)
            maintained.append(time.process_time() - began)
        if number % tenth == 0:
            merge, call = (
                statistics.median(it[-tenth:]) for it in (merges.times, calls)
            )
            medians.append(merge)
            print(
                f"{number:6} batches: MERGE {merge * 1e3:6.1f} ms, call {call * 1e3:6.1f} ms, "
                f"{files} files",
                flush=True,
            )
            files = 0
    if len(log.rows("id")) != rows + batches * CHANGES:
        sys.exit("rows are missing, or are there twice")
    spent = sum(maintained) * 1e3 / max(len(maintained), 1)
    times = medians[-1] / medians[0]
    mark = "*" if times > AIM else ""
    print(f"last / first: {times:.2f}{mark}; maintain: {spent:.0f} ms each")


def _mixed(number: int) -> int:
    """A key for a number: no two have the same, and they are in no order."""
    return (number * 0x9E37_79B9_7F4A_7C15) % (1 << 63)


if __name__ == "__main__":
    main()
