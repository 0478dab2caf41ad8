"""`walrow.spark.apply_all` beside one table of as many rows: apply_all.py [DIR] [TABLES] [ROWS].

Targets with 200,000 rows in all, in 100 tables and in one: the aim is meant for 1,000, which take
ten times as long. Then half of the rows are updated, each once, in transactions of 100 changes of
one table. What is printed is how long it takes to apply the first rows, these changes, and nothing
new: to all tables, and to one. `*` marks what misses its aim: twice as long as one table.
Needs Spark with Delta and Iceberg: pip install pyspark==4.1.1 delta-spark==4.4.0.
"""

from __future__ import annotations

import importlib.util
import itertools
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import walrow
import walrow.spark
from apply import session, timed

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import streams

if TYPE_CHECKING:
    from collections.abc import Iterator

OID = 16_400
#: Changes of a transaction.
TRANSACTION = 100
THREADS = 4
#: Between the inserts and the updates.
INSERTED = 1 << 40
#: How many times as long as one table.
AIM = 2.0
WHAT = ("first rows", "updates", "nothing new")
TYPES = {"id": 20, "customer": 23, "note": 25, "body": 25}
COLUMNS = [
    streams.Column(name, oid, is_key=name == "id") for name, oid in TYPES.items()
]
WRITERS = {"I": streams.insert, "U": streams.update}


def main() -> None:
    """Prints a line for each format."""
    root = Path(__file__).resolve().parent.parent
    defaults = [str(root / "target/bench-data"), "100", "200000"]
    given = sys.argv[1:]
    place, tables, rows = [*given, *defaults[len(given) :]]
    if importlib.util.find_spec("delta") is None:
        print(
            "no Delta and Iceberg here: pip install pyspark==4.1.1 delta-spark==4.4.0"
        )
        return
    Path(place).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as made:
        folder = Path(made)
        logs = {number: folder / f"log{number}" for number in (int(tables), 1)}
        for number, log in logs.items():
            write(log, number, int(rows) // number)
        spark = session(folder)
        for kind in ("delta", "iceberg"):
            many, one = (
                compare(spark, kind, folder, log=log, tables=number)
                for number, log in logs.items()
            )
            for what, these, those in zip(WHAT, many, one, strict=True):
                ratio, of_cpu = (a / b for a, b in zip(these, those, strict=True))
                misses = "*" if what == "updates" and ratio > AIM else ""
                print(
                    f"{kind:<8}{what:<12}{these[0]:>8.1f} s{tables:>6} tables"
                    f"{those[0]:>7.1f} s one{ratio:>8.1f}{misses} times "
                    f"({of_cpu:.1f} of the CPU's time; aim <= {AIM})",
                    flush=True,
                )
        spark.stop()


def write(log: Path, tables: int, rows: int) -> None:
    """Writes a log of inserts, and updates of half of the rows."""
    walrow.seal(
        itertools.chain(
            changes(1 << 24, tables, rows, "I"),
            changes(INSERTED, tables, rows // 2, "U"),
        ),
        log=log,
        framing="message",
        segment_size=8 << 20,
    )


def compare(
    spark: Any, kind: str, folder: Path, *, log: Path, tables: int
) -> list[tuple[float, float]]:
    """The seconds of the inserts, of the updates, and of nothing new; and the CPU's."""
    place = {"delta": f"delta:{folder}/", "iceberg": "iceberg:ice.db."}[kind]
    targets = {
        f"public.t{number}": f"{place}t{tables}_{number}" for number in range(tables)
    }
    return [
        timed(partial(apply, spark, log, targets, end))
        for end in (INSERTED, None, None)
    ]


def apply(spark: Any, log: Path, targets: dict[str, str], end: int | None) -> None:
    """Applies the changes of all tables."""
    done = walrow.spark.apply_all(spark, log, targets, threads=THREADS, end=end)
    for table, error in done.failed.items():
        print(table, error)


def changes(lsn: int, tables: int, rows: int, kind: str) -> Iterator[bytes]:
    """The messages of changes of the first rows of all tables."""
    for first in range(0, rows, TRANSACTION):
        for table in range(tables):
            oid = OID + table
            lsn += 1 << 12
            yield streams.begin(lsn=lsn)
            if first == 0:
                yield streams.relation(COLUMNS, oid, f"t{table}")
            for key in range(first, min(first + TRANSACTION, rows)):
                yield WRITERS[kind](row(key, kind), oid)
            yield streams.commit(lsn)


def row(key: int, kind: str) -> list[str]:
    """A row."""
    return [str(key), str(key % 1000), kind, f"{key:x}" * 16]


if __name__ == "__main__":
    main()
