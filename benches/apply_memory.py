"""Peak memory of `walrow.delta`: apply_memory.py [DIR] [ROWS] [CHANGES].

A load of ROWS (default: 10,000,000) short rows, as a receiver writes it, and then CHANGES (default:
1,000,000) in transactions of 10,000: 60 % updates all over the keys, 30 % inserts, 10 % deletes. A separate
process applies them, with the default `memory=`. The program prints the peak memory of the process, its
time and its commits, and first the memory of a process that only imports the packages. The log and the
table lie in DIR, target/bench-data by default, until the program ends.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import walrow

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import streams
from local_delta.written_log import TYPES, WrittenLog

if TYPE_CHECKING:
    from collections.abc import Iterator

TRANSACTION = 10_000
APPLY = """
import sys, time
import deltalake, pyarrow, walrow.delta
log, target = sys.argv[1:]
began = time.monotonic()
if log:
    done = walrow.delta.apply_changes(log, table="public.t", target=target)
    rows = done.net_rows
else:
    rows = 0
took = time.monotonic() - began
# `ru_maxrss` would have what the parent had.
with open("/proc/self/status") as status:
    (peak,) = (int(it.split()[1]) >> 10 for it in status if it.startswith("VmHWM"))
commits = deltalake.DeltaTable(target.partition(":")[2]).version() if log else 0
print(f"{peak:6} MiB, {took:6.1f} s, {rows:10,} net rows, version {commits}")
"""


def main() -> None:
    """Prints a line for each process."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", nargs="?", type=Path, default=root / "target/bench-data")
    parser.add_argument("rows", nargs="?", type=int, default=10_000_000)
    parser.add_argument("changes", nargs="?", type=int, default=1_000_000)
    options = parser.parse_args()
    rows, changes = options.rows, options.changes
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        log = WrittenLog(Path(folder), id="bigint", v="text", n="float")
        apply("imports", "", log.target)
        load_of(log, rows)
        apply("load", str(log.path), log.target)
        source = random.Random(1)  # noqa: S311
        for first in range(0, changes, TRANSACTION):
            log.append(*changed(source, rows, first))
        log.publish()
        apply("changes", str(log.path), log.target)


def load_of(log: WrittenLog, rows: int) -> None:
    """Loads the table."""
    columns = [
        {"name": name, "type": TYPES[kind], "type_modifier": -1, "key": name == "id"}
        for name, kind in log.columns.items()
    ]
    table = {"schema": "public", "name": "t", "oid": streams.TABLE, "columns": columns}
    catalog = walrow.Catalog.from_json(json.dumps({"types": [], "tables": [table]}))
    log.lsn += 0x100
    load = log.writer.begin_load(log.lsn, 0, catalog, [(streams.TABLE, "d")])
    copy = load.copy(0, binary=False)
    for first in range(0, rows, TRANSACTION):
        numbers = range(first, min(first + TRANSACTION, rows))
        copy.append(b"".join(b"%d\tvalue %d\t1.5\n" % (it, it) for it in numbers))
    log.lsn += 0x100
    log.writer.advance(log.lsn)
    log.writer.sync()
    log.writer.end_load(load)
    log.writer.publish()


def changed(source: random.Random, rows: int, first: int) -> Iterator[bytes]:
    """The changes of a transaction."""
    for number in range(first, first + TRANSACTION):
        kind, key = number % 10, str(source.randrange(rows))
        if kind < 6:  # noqa: PLR2004
            yield streams.update([key, f"new {number}", "2.5"])
        elif kind < 9:  # noqa: PLR2004
            yield streams.insert([str(rows + number), "inserted", "3.5"])
        else:
            yield streams.delete([key, None, None])


def apply(name: str, log: str, target: str) -> None:
    """Applies what the log has, in a separate process."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", APPLY, log, target],
        capture_output=True,
        check=True,
        text=True,
    )
    print(f"{name:8} {done.stdout}", end="", flush=True)


if __name__ == "__main__":
    main()
