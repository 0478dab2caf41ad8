"""The rows of a table from its changes, beside two engines: state.py [DIR] [CHANGES].

A million changes of one table: inserts, updates (some with a new key), deletes. `Log.state` is
compared with DuckDB and polars, which get the changes as Arrow and keep the last one of each
key. They do less: no values that were not sent, no truncates, no new columns. Each runs in a
process of its own, for its memory. `*` marks what misses its aim: 5 seconds for a million changes.
"""

from __future__ import annotations

import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import walrow

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OID = 16_400
#: Changes of a transaction.
TRANSACTION = 50
#: Their parts. The rest are deletes.
INSERTS, UPDATES, MOVES = 0.4, 0.4, 0.05
#: Seconds for a million changes.
AIM = 5.0


def main() -> None:
    """Prints a line for each way."""
    root = Path(__file__).resolve().parent.parent
    defaults = [str(root / "target/bench-data"), "1000000"]
    given = sys.argv[1:]
    place, number = [*given, *defaults[len(given) :]]
    directory, changes = Path(place), int(number)
    directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=directory) as folder:
        log = Path(folder) / "log"
        walrow.seal(history(changes), log=log)
        rows = set()
        for name in WAYS:
            command = [sys.executable, __file__, name, str(log)]
            found = json.loads(subprocess.check_output(command))  # noqa: S603
            rows.add(found["rows"])
            is_met = found["seconds"] <= AIM * changes / 1e6 or not name.startswith(
                "state"
            )
            print(
                f"{name:<20}{found['seconds']:>7.2f} s{' ' if is_met else '*'}"
                f"{found['mib']:>7.0f} MiB{found['rows']:>11,} rows"
            )
        if len(rows) > 1:
            print("the ways give different rows")


def history(changes: int) -> Iterator[bytes]:
    """The messages of a table's changes."""
    source = random.Random(1)  # noqa: S311
    keys: list[int] = []
    next_key, done, lsn = 0, 0, 1 << 24
    while done < changes:
        lsn += 1 << 12
        yield streams.begin(lsn=lsn)
        if done == 0:
            yield streams.relation(COLUMNS, OID, "orders")
        for _ in range(TRANSACTION):
            done += 1
            kind = source.random()
            place = source.randrange(len(keys)) if keys else 0
            if kind < INSERTS or not keys:
                next_key += 1
                keys.append(next_key)
                yield streams.insert(row(next_key, source), OID)
            elif kind < INSERTS + UPDATES:
                yield streams.update(row(keys[place], source), OID)
            elif kind < INSERTS + UPDATES + MOVES:
                next_key += 1
                old, keys[place] = keys[place], next_key
                yield streams.update(row(next_key, source), OID, key(old))
            else:
                keys[place], keys[-1] = keys[-1], keys[place]
                yield streams.delete(key(keys.pop()), OID)
        yield streams.commit(lsn)


TYPES = {"id": 20, "customer": 23, "note": 25, "total": 1700, "placed": 1184}
COLUMNS = [
    streams.Column(name, oid, is_key=name == "id") for name, oid in TYPES.items()
]


def row(number: int, source: random.Random) -> list[str]:
    """A row."""
    return [
        str(number),
        str(source.randrange(100_000)),
        f"{source.getrandbits(source.choice((32, 64, 256))):x}",
        f"{source.randrange(1000)}.{source.randrange(100):02}",
        f"2024-02-29 12:{number % 60:02}:{number % 59:02}.123456+00",
    ]


def key(number: int) -> list[str | None]:
    """A key, and nothing else."""
    return [str(number), *[None] * (len(COLUMNS) - 1)]


# --------------------------------------------------------------------------- ways


def state(log: Path) -> int:
    """With walrow."""
    return sum(len(batch) for batch in walrow.Log(log).state("public.orders"))


def state_in_a_file(log: Path) -> int:
    """With walrow, and 16 MiB of rows in memory."""
    reader = walrow.Log(log).state("public.orders", spool_memory=16 << 20)
    return sum(len(batch) for batch in reader)


LAST = """
SELECT count(*) FROM (
  SELECT id, arg_max(struct_pack(t := _change_type, customer, note, total, placed), _place) AS last
  FROM (SELECT *, _commit_lsn::hugeint * 4294967296 + _seq * 2
          + CASE _change_type WHEN 'update_postimage' THEN 1 ELSE 0 END AS _place FROM changes)
  GROUP BY id
) WHERE last.t IN ('insert', 'update_postimage')
"""


def duckdb(log: Path) -> int:
    """DuckDB: the last change of each key."""
    import duckdb
    import pyarrow as pa

    changes = pa.RecordBatchReader.from_stream(
        walrow.Log(log).read(table="public.orders")
    )
    connection = duckdb.connect()
    connection.register("changes", changes)
    ((rows,),) = connection.execute(LAST).fetchall()
    return int(rows)


def polars(log: Path) -> int:
    """polars: the last change of each key."""
    import polars as pl

    changes = walrow.Log(log).read(table="public.orders").to_polars()
    last = changes.group_by("id").last()
    is_there = pl.col("_change_type").is_in(["insert", "update_postimage"])
    return last.filter(is_there).height


WAYS: dict[str, Callable[[Path], int]] = {
    "state": state,
    "state in a file": state_in_a_file,
    "duckdb": duckdb,
    "polars": polars,
}


def measure(name: str, log: Path) -> None:
    """Prints seconds, memory and rows of one way, as JSON."""
    began = time.perf_counter()
    rows = WAYS[name](log)
    seconds = time.perf_counter() - began
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"seconds": seconds, "mib": mib, "rows": rows}))


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1] in WAYS:
        measure(sys.argv[1], Path(sys.argv[2]))
    else:
        main()
