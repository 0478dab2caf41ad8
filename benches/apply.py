"""`walrow.spark.apply_changes` beside a MERGE of the same net rows: apply.py [DIR] [--rows N] ...

Updates of some keys of a target, a fifth of which do not send one column, in three ways:

    apply   walrow.spark.apply_changes: reads the log, folds, merges, and keeps its record
    merge   MERGE of the net rows, ready-made as Parquet
    json    the changes as Debezium's JSON: from_json, the last one of each key, MERGE

Each way runs on the same table, which is set back before, and its last turn counts. For each way
there are elapsed seconds and the CPU's, which tell more on a machine that does other work, too.
`*` marks what misses its aim. The log and the tables stay in DIR for the next run. Needs Spark with
Delta and Iceberg: pip install pyspark==4.1.1 delta-spark==4.4.0.
"""

# ruff: noqa: S608  (statements are put together here, from names of its own)

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import walrow
import walrow.spark

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

OID = 16_400
#: Changes of a transaction.
TRANSACTION = 100
#: The part of the updates that do not send the last column.
UNSENT = 0.2
#: At most this many times as long as the MERGE, and at least this many times as fast as JSON.
AIMS = (1.3, 5.0)
COLUMNS = {"id": 20, "customer": 23, "note": 25, "total": 701, "body": 25}
SCHEMA = "id bigint, customer int, note string, total double, body string"
#: What Debezium writes for a value that was not sent.
UNAVAILABLE = "__debezium_unavailable_value"
FORMATS = ("delta", "iceberg")
WAYS = ("apply", "merge", "json")


class Change(NamedTuple):
    """An update: its transaction's LSN, its place there, the new row, and whether all is sent."""

    lsn: int
    seq: int
    row: tuple[int, int, str, float, str]
    is_whole: bool


def main() -> None:
    """Prints a line for each format."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", nargs="?", type=Path, default=root / "target/bench-data")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the target")
    parser.add_argument("--changes", type=int, default=200_000)
    parser.add_argument("--keys", type=int, help="that are changed; half of --changes")
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    options = parser.parse_args()
    if importlib.util.find_spec("delta") is None:
        print(
            "no Delta and Iceberg here: pip install pyspark==4.1.1 delta-spark==4.4.0"
        )
        return
    keys = options.keys or options.changes // 2
    folder = options.dir.resolve() / f"apply-{options.rows}"
    spark = session(folder)
    case = f"{options.changes}-{keys}"
    made = Path(folder) / case
    if not made.exists():
        prepare(made, options.rows, options.changes, keys)
    print(f"{options.rows:,} rows, {options.changes:,} changes of {keys:,} keys")
    for kind in options.formats:
        base = table(spark, kind, folder, options.rows)
        Comparison(spark, kind, base, made).run(options.ways, options.turns)
    spark.stop()


class Comparison:
    """The ways to bring one table up to date."""

    def __init__(self, spark: Any, kind: str, name: str, made: Path) -> None:
        self.spark = spark
        self.kind = kind
        self.table = name
        self.made = made
        self.net = made / f"net-{kind}"

    def run(self, ways: list[str], turns: int) -> None:
        """Prints how long the ways take."""
        if not self.net.exists() and "merge" in ways:
            self.reset()
            self.apply()
            rows = self.spark.sql(f"SELECT * FROM {self.table} WHERE note <> 'base'")
            rows.write.mode("overwrite").parquet(str(self.net))
        seconds: dict[str, tuple[float, float]] = {}
        sums = {}
        for turn in range(turns):
            for way in ways:
                self.reset()
                seconds[way] = timed(getattr(self, way))
                if turn == 0:
                    sums[way] = self.checksum()
        parts = [f"{self.kind:<8}"]
        for way, (elapsed, cpu) in seconds.items():
            parts.append(f"{way}{elapsed:>7.1f} s ({cpu:.1f} s of CPU)")
        if {"apply", "merge"} <= seconds.keys():
            parts.append(f"apply/merge{_ratio(seconds, 'apply', 'merge', AIMS[0])}")
            if sums["apply"] != sums["merge"]:
                parts.append("THE ROWS DIFFER")
        if {"apply", "json"} <= seconds.keys():
            parts.append(f"json/apply{_ratio(seconds, 'json', 'apply', -AIMS[1])}")
        print("  ".join(parts), flush=True)

    def reset(self) -> None:
        """Sets the table back to what it was first."""
        if self.kind == "delta":
            self.spark.sql(f"RESTORE TABLE {self.table} TO VERSION AS OF 0")
            return
        (first,) = self.spark.sql(
            f"SELECT snapshot_id FROM {self.table}.snapshots ORDER BY committed_at LIMIT 1"
        ).collect()
        name = self.table.partition(".")[2]
        self.spark.sql(
            f"CALL ice.system.rollback_to_snapshot('{name}', {first.snapshot_id})"
        )

    def checksum(self) -> Any:
        """What rows have in common that are the same."""
        columns = ", ".join(COLUMNS)
        return self.spark.sql(
            f"SELECT count(*), sum(CAST(xxhash64({columns}) AS decimal(38))) FROM {self.table}"
        ).collect()

    def apply(self) -> None:
        """Applies the log."""
        place = self.table if self.kind == "iceberg" else self.table.split("`")[1]
        walrow.spark.apply_changes(
            self.spark,
            self.made / "log",
            table="public.orders",
            target=f"{self.kind}:{place}",
            resume_from="0/1",
        )

    def merge(self) -> None:
        """Merges what is net already."""
        self.spark.read.parquet(str(self.net)).createOrReplaceTempView("net")
        self.spark.sql(
            f"MERGE INTO {self.table} t USING net s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    def json(self) -> None:
        """Takes the last JSON of each key. What only an earlier one has is lost, as usual."""
        self.spark.read.parquet(str(self.made / "json")).createOrReplaceTempView("raw")
        sets = ", ".join(f"t.{it} = s.{it}" for it in COLUMNS if it != "body")
        names = ", ".join(f"s.{it}" for it in COLUMNS)
        self.spark.sql(
            f"""
            MERGE INTO {self.table} t USING (
              SELECT *, coalesce(after.id, before.id) AS id, after.customer, after.note,
                after.total, after.body
              FROM (
                SELECT *, row_number() OVER (
                  PARTITION BY coalesce(after.id, before.id)
                  ORDER BY source.lsn DESC, source.seq DESC) AS place
                FROM (
                  SELECT inline(array(from_json(value, 'before struct<{_struct()}>,
                    after struct<{_struct()}>, op string,
                    source struct<lsn: bigint, seq: bigint>'))) FROM raw
                )
              ) WHERE place = 1
            ) s ON t.id = s.id
            WHEN MATCHED AND s.op = 'd' THEN DELETE
            WHEN MATCHED THEN UPDATE SET {sets}, t.body =
              CASE WHEN s.body = '{UNAVAILABLE}' THEN t.body ELSE s.body END
            WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({", ".join(COLUMNS)}) VALUES ({names})
            """
        ).collect()


def _struct() -> str:
    return SCHEMA.replace(" ", ": ").replace(",: ", ", ")


def _ratio(
    seconds: dict[str, tuple[float, float]], one: str, other: str, aim: float
) -> str:
    """How many times as long one way takes, beside its aim: at most, or if negative, at least."""
    ratio, of_cpu = (a / b for a, b in zip(seconds[one], seconds[other], strict=True))
    misses = ratio > aim if aim > 0 else ratio < -aim
    bound = "<=" if aim > 0 else ">="
    return (
        f"{ratio:>6.2f}{'*' if misses else ''} ({of_cpu:.2f}; aim {bound} {abs(aim)})"
    )


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """The seconds of a call, and those of the CPU, in this process and all that it has started."""
    cpu, began = cpu_seconds(), time.perf_counter()
    call()
    return time.perf_counter() - began, cpu_seconds() - cpu


def cpu_seconds() -> float:
    """What all processes that descend from this one have used."""
    parents: dict[int, int] = {}
    ticks: dict[int, int] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        pid = int(place.parent.name)
        parents[pid] = int(fields[1])
        # With the children that have ended.
        ticks[pid] = sum(map(int, fields[11:15]))
    own = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in own} - own:
        own |= more
    return sum(ticks[pid] for pid in own if pid in ticks) / os.sysconf("SC_CLK_TCK")


def table(spark: Any, kind: str, folder: Path, rows: int) -> str:
    """A table as apply_changes creates it, with rows."""
    name, properties = {
        "delta": (
            f"delta.`{folder}/base`",
            "'delta.enableDeletionVectors' = 'true'",
        ),
        "iceberg": (
            "ice.db.base",
            "'format-version' = '2', 'write.merge.mode' = 'merge-on-read'",
        ),
    }[kind]
    place = {
        "delta": folder / "base/_delta_log",
        "iceberg": folder / "warehouse/db/base",
    }
    if not place[kind].exists():
        spark.sql(
            f"CREATE TABLE {name} USING {kind} TBLPROPERTIES ({properties}) AS "
            "SELECT id, CAST(id % 100000 AS int) customer, 'base' note, id / 7D total, "
            f"repeat(hex(id), 8) body FROM range({rows})"
        )
    return name


def prepare(made: Path, rows: int, changes: int, keys: int) -> None:
    """Writes the changes as a log, and as JSON."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    partial = made.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    (partial / "json").mkdir(parents=True)
    walrow.seal(
        messages(history(rows, changes, keys)),
        log=partial / "log",
        framing="message",
        segment_bytes=8 << 20,
    )
    batch: list[str] = []
    number = 0
    for change in history(rows, changes, keys):
        batch.append(as_json(change))
        if len(batch) == JSON_ROWS or number + len(batch) == changes:
            pq.write_table(
                pa.table({"value": batch}), partial / f"json/{number:09}.parquet"
            )
            number += len(batch)
            batch = []
    partial.rename(made)


def history(rows: int, changes: int, keys: int) -> Iterator[Change]:
    """Updates of some keys, each as often as the others."""
    source = random.Random(1)  # noqa: S311
    chosen = source.sample(range(rows), keys)
    for number in range(changes):
        row = (
            chosen[number % keys],
            source.randrange(100_000),
            f"n{source.getrandbits(source.choice((32, 64, 256))):x}",
            source.randrange(1000) + 0.25,
            f"{source.getrandbits(256):x}",
        )
        transaction, seq = divmod(number, TRANSACTION)
        lsn = (1 << 24) + (transaction << 16)
        yield Change(lsn, seq, row, source.random() >= UNSENT)


def messages(changes: Iterator[Change]) -> Iterator[bytes]:
    """Changes as the server sends them."""
    columns = [
        streams.Column(name, oid, is_key=name == "id") for name, oid in COLUMNS.items()
    ]
    lsn = None
    for change in changes:
        if change.lsn != lsn:
            if lsn is not None:
                yield streams.commit(lsn)
            yield streams.begin(lsn=change.lsn)
            if lsn is None:
                yield streams.relation(columns, OID, "orders")
            lsn = change.lsn
        values: list[streams.Cell] = [str(it) for it in change.row]
        if not change.is_whole:
            values[-1] = streams.UNSENT
        yield streams.update(values, OID)
    if lsn is not None:
        yield streams.commit(lsn)


def as_json(change: Change) -> str:
    """A change as Debezium writes it, without a schema."""
    after: dict[str, Any] = dict(zip(COLUMNS, change.row, strict=True))
    if not change.is_whole:
        after["body"] = UNAVAILABLE
    source = {
        "version": "3.2.0.Final",
        "connector": "postgresql",
        "name": "shop",
        "ts_ms": 1_750_000_000_000,
        "snapshot": "false",
        "db": "shop",
        "sequence": f'["{change.lsn - 1}","{change.lsn}"]',
        "schema": "public",
        "table": "orders",
        "txId": 700,
        "lsn": change.lsn,
        "seq": change.seq,
        "xmin": None,
    }
    return json.dumps(
        {
            "before": None,
            "after": after,
            "source": source,
            "op": "u",
            "ts_ms": 1_750_000_000_500,
            "transaction": None,
        },
        separators=(",", ":"),
    )


def session(folder: Path) -> Any:
    """A Spark session with both formats."""
    from pyspark.sql import SparkSession

    from table_formats import table_formats

    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {
        **table_formats(folder / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "4",
    }
    builder = SparkSession.builder.master("local[2]").appName("walrow")
    for name, value in options.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return session


#: In a file of JSON.
JSON_ROWS = 100_000


if __name__ == "__main__":
    main()
