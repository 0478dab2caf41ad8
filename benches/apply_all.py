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
import struct
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from apply import session, timed

import walrow
import walrow.spark

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
COLUMNS = {"id": 20, "customer": 23, "note": 25, "body": 25}


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
        segment_bytes=8 << 20,
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
            yield b"B" + struct.pack("!QqI", lsn, 0, 700)
            if first == 0:
                yield relation(oid, f"t{table}")
            head = kind.encode() + struct.pack("!I", oid) + b"N"
            for key in range(first, min(first + TRANSACTION, rows)):
                yield head + row(key, kind)
            yield b"C\0" + struct.pack("!QQq", lsn, lsn + 48, 0)


def relation(oid: int, name: str) -> bytes:
    """A table, whose key is its first column."""
    head = b"\0".join([b"public", name.encode(), b"d"]) + struct.pack(
        "!H", len(COLUMNS)
    )
    fields = (
        bytes([column == "id"]) + column.encode() + b"\0" + struct.pack("!Ii", kind, -1)
        for column, kind in COLUMNS.items()
    )
    return b"R" + struct.pack("!I", oid) + head + b"".join(fields)


def row(key: int, kind: str) -> bytes:
    """A row as text."""
    values = (b"%d" % key, b"%d" % (key % 1000), kind.encode(), b"%x" % key * 16)
    cells = (b"t" + struct.pack("!I", len(value)) + value for value in values)
    return struct.pack("!H", len(values)) + b"".join(cells)


if __name__ == "__main__":
    main()
