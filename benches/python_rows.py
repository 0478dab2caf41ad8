"""The same captures through Python, and through mapInArrow: python_rows.py [DIR].

Python decodes bytes that lie in memory, as the Rust benches do. Its nanoseconds a row, of elapsed
time and of CPU time, are printed beside Rust's elapsed time of the same minute: each capture is
measured by Rust and then by Python. mapInArrow decodes files by path; it is printed beside an
identity mapInArrow over the same bytes. `--no-spark` leaves it out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import walrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TURNS = 15


def main() -> None:
    """Prints a line a capture."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", nargs="?", type=Path, default=root / "target/bench-data")
    parser.add_argument("--no-spark", action="store_true", help="walrow.read alone")
    options = parser.parse_args()
    captures = {
        name: path
        for name in ("narrow", "wide", "mixed", "pgbench", "tiny")
        if (path := options.dir / f"{name}.wire").exists()
    }
    print(
        f"{'capture':<10}{'Rust':>12}{'Python':>12}{'ratio':>8}{'CPU':>12}{'ratio':>8}"
        f"{'stream':>12}"
    )
    for name, path in captures.items():
        # Both in the same minute, since the speed of a machine changes.
        own = rust_row(root, name, options.dir)
        data = path.read_bytes()
        tables = dict.fromkeys(batch.table for batch in walrow.read(data))
        rows = sum(len(batch) for batch in walrow.read(data))
        python, cpu = best(lambda data=data: sum(map(len, walrow.read(data))))
        line = f"{name:<10}{own:>9.1f} ns"
        for nanos in (python / rows, cpu / rows):
            line += f"{nanos:>9.1f} ns{nanos / own:>8.2f}"
        if len(tables) == 1:
            (table,) = tables
            stream, _ = best(lambda data=data, table=table: drain(data, table))
            line += f"{stream / rows:>9.1f} ns"
        print(line, flush=True)
    if not options.no_spark:
        spark_rows(captures)


def rust_row(root: Path, name: str, directory: Path) -> float:
    """Runs the Rust bench of a capture and takes its nanoseconds a row."""
    command = ["cargo", "bench", "-q", "-p", "walrow-benches", "--features", "csv"]
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder, "ratios.json")
        subprocess.run(  # noqa: S603
            [*command, "--bench", "ratios", "--", f"--json={figures}", name],
            cwd=root,
            env={**os.environ, "WALROW_BENCH_DATA": str(directory.resolve())},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        found = json.loads(figures.read_text())
    (own,) = (it for it in found if it["name"] == name)
    return float(own["readers"]["walrow"]["ns"]["least"])


def drain(data: bytes, table: str) -> None:
    """Pulls the exported stream as pyarrow does."""
    reader = walrow.read(data, table=table)
    for batch in pa.RecordBatchReader.from_stream(reader):
        del batch


def best(call: Callable[[], object], turns: int = TURNS) -> tuple[float, float]:
    """Nanoseconds of the fastest turn, elapsed and of the CPU: noise only ever adds."""
    elapsed = cpu = float("inf")
    for _ in range(turns):
        start, used = time.perf_counter_ns(), time.process_time_ns()
        call()
        cpu = min(cpu, time.process_time_ns() - used)
        elapsed = min(elapsed, time.perf_counter_ns() - start)
    return elapsed, cpu


def spark_rows(captures: dict[str, Path]) -> None:
    """Compares mapInArrow with an identity over the same bytes."""
    from pyspark.sql import SparkSession

    import walrow.spark

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )

    def identity(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    print(f"\n{'capture':<10}{'decode':>10}{'identity':>12}{'ratio':>8}")
    for name, path in captures.items():
        # The same file again and again, as a directory of captures would be.
        copies = [(str(path),)] * 8
        size = path.stat().st_size * len(copies) / 1e6
        table = next(iter(walrow.read(path))).table
        schema = walrow.spark.schema(path, table)
        paths = spark.createDataFrame(copies, "path string").repartition(2)
        decoded = paths.mapInArrow(
            walrow.spark.decode(table=table, schema=schema), schema
        )
        content = spark.read.format("binaryFile").load([str(path)] * len(copies))
        bytes_only = content.select("content")
        same = bytes_only.mapInArrow(identity, bytes_only.schema)

        def run(frame: object) -> None:
            frame.write.format("noop").mode("overwrite").save()  # type: ignore[attr-defined]

        seconds = [
            best(lambda f=frame: run(f), 3)[0] / 1e9 for frame in (decoded, same)
        ]
        rates = [size / second for second in seconds]
        print(
            f"{name:<10}{rates[0]:>5.0f} MB/s{rates[1]:>7.0f} MB/s"
            f"{seconds[0] / seconds[1]:>8.2f}"
        )
    spark.stop()


if __name__ == "__main__":
    main()
