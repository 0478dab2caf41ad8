"""`walrow.spark.apply_changes` beside a MERGE of the same net rows: apply.py [DIR] [ROWS] [CHANGES].

A target with a million rows, and 200,000 changes of half as many of its keys: updates, a fifth of
which do not send one column. The MERGE gets the net rows from Parquet, ready-made: what apply
does besides is to read the log, to fold the changes, and to keep its record. Each way runs twice
on copies of one table, and its second time counts. `*` marks what misses its aim: 1.3 times the
MERGE. Needs Spark with Delta and Iceberg: pip install pyspark==4.1.1 delta-spark==4.4.0.
"""

# ruff: noqa: S608  (statements are put together here, from names of its own)

from __future__ import annotations

import importlib.util
import os
import random
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import walrow
import walrow.spark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OID = 16_400
#: Changes of a transaction.
TRANSACTION = 100
#: The part of the updates that do not send the last column.
UNSENT = 0.2
#: How many times as long as the MERGE.
AIM = 1.3
COLUMNS = {"id": 20, "customer": 23, "note": 25, "total": 701, "body": 25}


def main() -> None:
    """Prints a line for each format."""
    root = Path(__file__).resolve().parent.parent
    defaults = [str(root / "target/bench-data"), "1000000", "200000"]
    given = sys.argv[1:]
    place, rows, changes = [*given, *defaults[len(given) :]]
    if importlib.util.find_spec("delta") is None:
        print(
            "no Delta and Iceberg here: pip install pyspark==4.1.1 delta-spark==4.4.0"
        )
        return
    Path(place).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place) as folder:
        log = Path(folder) / "log"
        walrow.seal(
            history(int(rows), int(changes)),
            log=log,
            framing="message",
            segment_bytes=8 << 20,
        )
        spark = session(folder)
        base = spark.sql(
            "SELECT id, CAST(id % 100000 AS int) customer, 'base' note, id / 7D total, "
            f"repeat(hex(id), 8) body FROM range({rows})"
        )
        for kind in ("delta", "iceberg"):
            compare(spark, kind, folder, log, base)
        spark.stop()


def compare(spark: Any, kind: str, folder: str, log: Path, base: Any) -> None:
    """Prints how long both ways take."""
    seconds = {"apply": 0.0, "merge": 0.0}
    net = None
    for number in (1, 2):
        applied, merged = (f"{way}{number}" for way in ("applied", "merged"))
        tables = {name: table(kind, folder, name) for name in (applied, merged)}
        for each in tables.values():
            create(spark, kind, each, base)
        target = (
            f"delta:{folder}/{applied}"
            if kind == "delta"
            else f"iceberg:ice.db.{applied}"
        )
        found, seconds["apply"] = timed(
            lambda target=target: walrow.spark.apply_changes(
                spark, log, table="public.orders", target=target, resume_from="0/1"
            )
        )
        if net is None:
            net = f"{folder}/{kind}.net"
            rows = spark.sql(f"SELECT * FROM {tables[applied]} WHERE note <> 'base'")
            rows.write.parquet(net)
        spark.read.parquet(net).createOrReplaceTempView("net")
        statement = (
            f"MERGE INTO {tables[merged]} t USING net s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        _, seconds["merge"] = timed(lambda sql=statement: spark.sql(sql).collect())
        differ = spark.sql(
            f"SELECT * FROM {tables[applied]} EXCEPT SELECT * FROM {tables[merged]}"
        ).count()
        if differ:
            print(f"{differ} rows differ")
    ratio = seconds["apply"] / seconds["merge"]
    print(
        f"{kind:<10}{found.rows:>10,} changes{found.net_rows:>10,} net rows"
        f"{seconds['apply']:>7.1f} s{seconds['merge']:>7.1f} s MERGE"
        f"{ratio:>6.2f}{'*' if ratio > AIM else ''}",
        flush=True,
    )


def table(kind: str, folder: str, name: str) -> str:
    """The table in SQL."""
    return f"delta.`{folder}/{name}`" if kind == "delta" else f"ice.db.{name}"


def create(spark: Any, kind: str, name: str, base: Any) -> None:
    """Creates a target as apply_changes does, with rows."""
    properties = {
        "delta": "'delta.enableDeletionVectors' = 'true'",
        "iceberg": "'format-version' = '2', 'write.merge.mode' = 'merge-on-read'",
    }[kind]
    base.createOrReplaceTempView("base")
    spark.sql(
        f"CREATE TABLE {name} USING {kind} TBLPROPERTIES ({properties}) "
        "AS SELECT * FROM base"
    )


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """What a call returns, and its seconds."""
    began = time.perf_counter()
    return call(), time.perf_counter() - began


def history(rows: int, changes: int) -> Iterator[bytes]:
    """The messages of updates of half as many keys."""
    source = random.Random(1)  # noqa: S311
    keys = source.sample(range(rows), changes // 2)
    lsn = 1 << 24
    head = b"\0".join([b"public", b"orders", b"d"]) + struct.pack("!H", len(COLUMNS))
    fields = (
        bytes([name == "id"]) + name.encode() + b"\0" + struct.pack("!Ii", oid, -1)
        for name, oid in COLUMNS.items()
    )
    relation = b"R" + struct.pack("!I", OID) + head + b"".join(fields)
    for done in range(0, changes, TRANSACTION):
        lsn += 1 << 12
        yield b"B" + struct.pack("!QqI", lsn, 0, 700)
        if done == 0:
            yield relation
        for number in range(done, done + TRANSACTION):
            # Each key twice.
            key = keys[number % len(keys)]
            yield b"U" + struct.pack("!I", OID) + b"N" + row(key, source)
        yield b"C\0" + struct.pack("!QQq", lsn, lsn + 48, 0)


def row(key: int, source: random.Random) -> bytes:
    """A row as text, at times without its last column."""
    values = [
        b"%d" % key,
        b"%d" % source.randrange(100_000),
        b"n%x" % source.getrandbits(source.choice((32, 64, 256))),
        b"%d.25" % source.randrange(1000),
        b"%x" % source.getrandbits(256),
    ]
    cells = [b"t" + struct.pack("!I", len(value)) + value for value in values]
    if source.random() < UNSENT:
        cells[-1] = b"u"
    return struct.pack("!H", len(values)) + b"".join(cells)


def session(folder: str) -> Any:
    """A Spark session with both formats."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    extensions = (
        "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    )
    options = {
        "spark.jars.packages": "io.delta:delta-spark_4.1_2.13:4.4.0,"
        "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0",
        "spark.sql.extensions": extensions,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": f"{folder}/warehouse",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.shuffle.partitions": "4",
    }
    builder = SparkSession.builder.master("local[2]").appName("walrow")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


if __name__ == "__main__":
    main()
