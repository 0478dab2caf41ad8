"""`walrow.spark.apply_changes` beside a MERGE of the same net rows: apply.py [DIR] [--rows N] ...

A load of all rows into a new target, and then updates of some keys. A fifth of the updates do not
send one column. There are three ways:

    apply   walrow.spark.apply_changes: reads the log, folds, merges, and keeps its record
    merge   MERGE of the net rows, ready-made as Parquet
    json    the changes as Debezium's JSON: from_json, the last one of each key, MERGE

Each way runs on the same table, which is set back before. The ways take turns, and ratios are the
medians of all turns but the first, when the JVM is cold. For each way there are elapsed seconds
and the CPU's, which tell more on a machine that does other work, too. For `apply`, there are also the
largest memory of a Python worker, and the number of Spark's jobs. `*` marks what misses its aim. The
log and the tables stay in DIR for the next run. Needs Spark with Delta and Iceberg:
pip install pyspark==4.1.1 delta-spark==4.4.0.
"""

# ruff: noqa: S608  (statements are put together here, from names of its own)

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import walrow
import walrow.spark
from walrow._core import LogWriter

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
#: At most this many times as long as the MERGE: of changes, and of a load.
AIMS = {"changes": 1.2, "load": 1.3}
#: At least this many times as fast as JSON.
JSON_AIM = 5.0
#: The largest memory of a Python worker, in MiB.
MEMORY_AIM = 256
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
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS)
    parser.add_argument("--cases", nargs="+", choices=AIMS, default=list(AIMS))
    options = parser.parse_args()
    from table_formats import has_delta

    if not has_delta():
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
        if "load" in options.cases:
            load = folder / "load"
            if not load.exists():
                prepare_load(load, options.rows)
            Load(spark, kind, base, load).run(options.ways, options.turns)
        if "changes" in options.cases:
            Changes(spark, kind, base, made).run(options.ways, options.turns)
    spark.stop()


class Comparison:
    """The ways to bring one table up to date."""

    case: str

    def __init__(self, spark: Any, kind: str, name: str, made: Path) -> None:
        self.spark = spark
        self.kind = kind
        self.base = self.table = name
        self.made = made
        self.net = made / f"net-{kind}"

    def run(self, ways: list[str], turns: int) -> None:
        """Prints how long the ways take."""
        ways = [way for way in ways if hasattr(self, way)]
        if not self.net.exists() and "merge" in ways:
            self.write_net()
        seconds: dict[str, list[tuple[float, float]]] = {way: [] for way in ways}
        sums = {}
        memory = jobs = 0
        for turn in range(turns):
            for way in ways:
                self.reset()
                began = job_count(self.spark)
                seconds[way].append(timed(getattr(self, way)))
                if way == "apply":
                    jobs = job_count(self.spark) - began
                    memory = max(memory, worker_memory())
                if turn == 0:
                    sums[way] = self.checksum()
        parts = [f"{self.kind:<8}{self.case:<8}"]
        for way, each in seconds.items():
            elapsed, cpu = map(median, zip(*_warm(each), strict=True))
            parts.append(f"{way}{elapsed:>7.1f} s ({cpu:.1f} s of CPU)")
        if {"apply", "merge"} <= seconds.keys():
            aim = AIMS[self.case]
            parts.append(f"apply/merge{_ratio(seconds, 'apply', 'merge', aim)}")
            if sums["apply"] != sums["merge"]:
                parts.append("THE ROWS DIFFER")
        if {"apply", "json"} <= seconds.keys():
            parts.append(f"json/apply{_ratio(seconds, 'json', 'apply', -JSON_AIM)}")
        if "apply" in seconds:
            misses = "*" if memory > MEMORY_AIM else ""
            parts.append(f"{memory} MiB{misses} a worker, {jobs} jobs")
        print("  ".join(parts), flush=True)

    def write_net(self) -> None:
        """Writes the net rows, ready-made for the MERGE."""
        raise NotImplementedError

    def apply(self) -> None:
        """Applies the log."""
        raise NotImplementedError

    def apply_log(self, **options: Any) -> None:
        """Applies the log."""
        place = self.table if self.kind == "iceberg" else self.table.split("`")[1]
        walrow.spark.apply_changes(
            self.spark,
            self.made / "log",
            table="public.orders",
            target=f"{self.kind}:{place}",
            **options,
        )

    def merge(self) -> None:
        """Merges what is net already."""
        self.spark.read.parquet(str(self.net)).createOrReplaceTempView("net")
        self.spark.sql(
            f"MERGE INTO {self.table} t USING net s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    def checksum(self) -> Any:
        """What rows have in common that are the same."""
        columns = ", ".join(COLUMNS)
        return self.spark.sql(
            f"SELECT count(*), sum(CAST(xxhash64({columns}) AS decimal(38))) FROM {self.table}"
        ).collect()

    def reset(self) -> None:
        """Sets the table back to what it was first."""
        raise NotImplementedError


class Load(Comparison):
    """All rows of a table, into a target that is not there yet."""

    case = "load"

    def __init__(self, spark: Any, kind: str, name: str, made: Path) -> None:
        super().__init__(spark, kind, name, made)
        self.table = name.replace("base", "loaded")

    def write_net(self) -> None:
        """Writes the rows of the load."""
        rows = self.spark.sql(f"SELECT * FROM {self.base} WHERE note = 'base'")
        rows.write.mode("overwrite").parquet(str(self.net))

    def reset(self) -> None:
        """Removes the table."""
        self.spark.sql(f"DROP TABLE IF EXISTS {self.table}")
        if self.kind == "delta":
            shutil.rmtree(self.table.split("`")[1], ignore_errors=True)

    def apply(self) -> None:
        """Applies the load."""
        self.apply_log()

    def merge(self) -> None:
        """Creates the table, and merges the rows."""
        create(self.spark, self.kind, self.table)
        super().merge()


class Changes(Comparison):
    """Updates of some keys of a table."""

    case = "changes"

    def write_net(self) -> None:
        """Writes the rows that changes give."""
        self.reset()
        self.apply()
        rows = self.spark.sql(f"SELECT * FROM {self.table} WHERE note <> 'base'")
        rows.write.mode("overwrite").parquet(str(self.net))

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

    def apply(self) -> None:
        """Applies the changes."""
        self.apply_log(resume_from="0/1")

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


def _warm(turns: list[Any]) -> list[Any]:
    """All turns but the first, if there are more."""
    return turns[1:] or turns


def _ratio(
    seconds: dict[str, list[tuple[float, float]]], one: str, other: str, aim: float
) -> str:
    """How many times as long one way takes, beside its aim: at most, or if negative, at least."""
    pairs = zip(_warm(seconds[one]), _warm(seconds[other]), strict=True)
    ratios = [[a / b for a, b in zip(*pair, strict=True)] for pair in pairs]
    ratio, of_cpu = map(median, zip(*ratios, strict=True))
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
    return sum(own_processes().values()) / os.sysconf("SC_CLK_TCK")


def own_processes() -> dict[int, int]:
    """This process and all that it has started, with the ticks of the CPU that each has used."""
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
    return {pid: ticks[pid] for pid in own if pid in ticks}


def worker_memory() -> int:
    """The largest memory that a Python worker of this process has had, in MiB."""
    found = [0]
    for pid in own_processes():
        place = Path(f"/proc/{pid}")
        try:
            if b"pyspark.daemon" in (place / "cmdline").read_bytes():
                status = (place / "status").read_text()
                found.append(int(status.partition("VmHWM:")[2].split()[0]) >> 10)
        except (OSError, IndexError):
            continue
    return max(found)


def job_count(spark: Any) -> int:
    """How many jobs Spark has begun."""
    return int(spark.sparkContext._jsc.sc().statusStore().jobsList(None).size())


def create(spark: Any, kind: str, name: str, rows: str = "") -> None:
    """Creates a table as apply_changes does."""
    properties = {
        "delta": "'delta.enableDeletionVectors' = 'true'",
        "iceberg": "'format-version' = '2', 'write.merge.mode' = 'merge-on-read'",
    }[kind]
    columns = "" if rows else f"({SCHEMA})"
    spark.sql(
        f"CREATE TABLE {name} {columns} USING {kind} TBLPROPERTIES ({properties}) {rows}"
    )


def table(spark: Any, kind: str, folder: Path, rows: int) -> str:
    """A table as apply_changes creates it, with rows."""
    name = {"delta": f"delta.`{folder}/base`", "iceberg": "ice.db.base"}[kind]
    place = {
        "delta": folder / "base/_delta_log",
        "iceberg": folder / "warehouse/db/base",
    }
    if not place[kind].exists():
        create(
            spark,
            kind,
            name,
            "AS SELECT id, CAST(id % 100000 AS int) customer, 'base' note, id / 7D total, "
            f"repeat(hex(id), 8) body FROM range({rows})",
        )
    return name


def prepare_load(made: Path, rows: int) -> None:
    """Writes a log of a load of the table's rows."""
    partial = made.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    columns = [
        {"name": name, "type": oid, "type_modifier": -1, "key": name == "id"}
        for name, oid in COLUMNS.items()
    ]
    found = {"schema": "public", "name": "orders", "oid": OID, "columns": columns}
    catalog = walrow.Catalog.from_json(json.dumps({"types": [], "tables": [found]}))
    writer = LogWriter(
        partial / "log", segment_bytes=8 << 20, level=1, spool_memory=64 << 20
    )
    load = writer.begin_load(1 << 24, 0, catalog, [(OID, "d")])
    copy = load.copy(0, binary=False)
    for first in range(0, rows, 1000):
        lines = (
            f"{it}\t{it % 100_000}\tbase\t{_text(it / 7)}\t{f'{it:X}' * 8}\n"
            for it in range(first, min(first + 1000, rows))
        )
        copy.append("".join(lines).encode())
    writer.advance((1 << 24) + 8)
    writer.sync()
    writer.end_load(load)
    writer.publish()
    writer.close()
    partial.rename(made)


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
        segment_size=8 << 20,
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


def _text(value: float) -> str:
    """A number as the server writes it."""
    return str(int(value)) if value.is_integer() else repr(value)


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
