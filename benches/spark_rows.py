"""Spark beside the same work without decoding: spark_rows.py [DIR] [TRANSACTIONS].

One table of 20 columns, as a log. The same batches are decoded in `mapInArrow` from the paths
of segments, by the data source, and handed over ready-made, from files of Arrow that the tasks
map. All go into the sink `noop`. Times are the best of some turns, each beside the others in
one turn. Then the time from the call of the function until its first batch, in workers that have
decoded before. `*` marks what misses its aim.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import SparkSession

import walrow
import walrow.spark

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import streams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    Decode = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

TURNS = 3
#: Seconds.
FIRST_AIM = 0.1
TRANSACTIONS = 80
ROWS = 25_000
TABLE = "public.t"
#: Name, type, type modifier, and a value of each.
COLUMNS = [
    *((f"i{n}", 23, -1, "123456789") for n in range(6)),
    *((f"l{n}", 20, -1, "1234567890123") for n in range(4)),
    *((f"s{n}", 25, -1, "a text of some words") for n in range(5)),
    *((f"n{n}", 1700, (12 << 16 | 2) + 4, "1234567.89") for n in range(3)),
    *((f"z{n}", 1184, -1, "2024-02-29 12:34:56.789012+00") for n in range(2)),
]


def main() -> None:
    """Prints a line for each aim."""
    root = Path(__file__).resolve().parent.parent
    defaults = [str(root / "target/bench-data"), str(TRANSACTIONS)]
    given = sys.argv[1:]
    place, transactions = [*given, *defaults[len(given) :]]
    directory = Path(place)
    directory.mkdir(parents=True, exist_ok=True)
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    try:
        # The files lie beside the captures, as the directory for temporary files may be memory.
        with tempfile.TemporaryDirectory(dir=directory) as folder:
            measure(spark, Path(folder), int(transactions))
    finally:
        spark.stop()


def measure(spark: SparkSession, folder: Path, transactions: int) -> None:
    """Prints the lines."""
    walrow.seal(stream(transactions), log=folder / "log")
    log = walrow.Log(folder / "log")
    schema = walrow.spark.schema(log, TABLE)
    segments = [str(segment.path) for segment in log.segments()]
    ready = [materialised(path, folder) for path in segments]
    decode = walrow.spark.decode(table=TABLE, schema=schema)
    source = spark.read.format("walrow").option("table", TABLE)
    frames = {
        "ready": over(spark, ready).mapInArrow(mapped, schema),
        "decoded": over(spark, segments).mapInArrow(decode, schema),
        "source": source.load(str(log.path)),
        "two": source.schema("i0 int, s0 string").load(str(log.path)),
    }
    times = best({name: written(frame) for name, frame in frames.items()})
    rows = transactions * ROWS
    shown = ", ".join(f"{name} {rows / it / 1e6:.2f}" for name, it in times.items())
    print(f"{len(segments)} segments; million rows/s: {shown}")
    report("decode, of ready-made", times["ready"] / times["decoded"], 0.8)
    report("data source, of mapInArrow", times["decoded"] / times["source"], 0.9)
    report("2 of 20 columns, of all", times["source"] / times["two"], 2.5)
    waits = first_batches(over(spark, segments), decode)
    slow = "" if median(waits) <= FIRST_AIM else "*"
    print(
        f"first batch in a warm worker     {median(waits) * 1e3:>6.0f} <= {FIRST_AIM * 1e3:.0f} ms{slow}"
        f" (at most {max(waits) * 1e3:.0f})"
    )


def first_batches(paths: DataFrame, decode: Decode) -> list[float]:
    """Seconds from a call of the function until its first batch, in each task."""

    def timed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        began = time.perf_counter()
        next(decode(batches))
        seconds = [time.perf_counter() - began]
        yield pa.record_batch([pa.array(seconds)], ["seconds"])

    rows = paths.mapInArrow(timed, "seconds double").collect()
    return [row.seconds for row in rows]


def report(what: str, ratio: float, aim: float) -> None:
    """Prints a ratio of speeds beside its aim."""
    print(f"{what:<33}{ratio:>6.2f} >= {aim}{'' if ratio >= aim else '*'}")


def best(runs: dict[str, Callable[[], None]]) -> dict[str, float]:
    """The least time of each, of some turns. The first turn starts workers."""
    times = dict.fromkeys(runs, float("inf"))
    for turn in range(TURNS + 1):
        for name, run in runs.items():
            begin = time.perf_counter()
            run()
            if turn:
                times[name] = min(times[name], time.perf_counter() - begin)
    return times


def written(frame: DataFrame) -> Callable[[], None]:
    """Writes all rows to nowhere."""
    save: Callable[[], None] = frame.write.format("noop").mode("overwrite").save
    return save


def over(spark: SparkSession, paths: list[str]) -> DataFrame:
    """The paths, one in a partition: the data source packs smaller segments."""
    rows = [(path,) for path in paths]
    parts = spark.sparkContext.parallelize(rows, len(rows))
    return spark.createDataFrame(parts, "path string")


def materialised(path: str, folder: Path) -> str:
    """The batches of a segment, as a file of Arrow."""
    reader = walrow.read(path, table=TABLE, profile="spark")
    target = folder / f"{Path(path).name}.arrow"
    batches = [pa.record_batch(batch) for batch in reader]
    with pa.ipc.new_file(target, batches[0].schema) as file:
        for batch in batches:
            file.write_batch(batch)
    return str(target)


def mapped(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns the batches of files, for `mapInArrow`."""
    for batch in batches:
        for path in batch.column("path").to_pylist():
            file = pa.ipc.open_file(pa.memory_map(path))
            for number in range(file.num_record_batches):
                yield file.get_batch(number)


def stream(transactions: int) -> Iterator[bytes]:
    """Transactions of many equal inserts, as a connection's bytes."""
    columns = [
        streams.Column(name, oid, typmod, is_key=at == 0)
        for at, (name, oid, typmod, _) in enumerate(COLUMNS)
    ]
    relation = streams.wired(streams.relation(columns))
    rows = streams.wired(streams.insert([value for *_, value in COLUMNS])) * ROWS
    yield streams.SESSION
    for number in range(1, transactions + 1):
        end = number << 24
        yield streams.wired(streams.begin(number, end - 8)) + relation
        yield rows
        yield streams.wired(streams.commit(end - 8))


if __name__ == "__main__":
    main()
