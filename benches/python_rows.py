"""The same captures through Python, and through mapInArrow: python_rows.py [DIR].

Python decodes bytes that lie in memory, as the Rust benches do; its nanoseconds a row
are printed beside Rust's of the same minute. mapInArrow decodes files by path; it is
printed beside an identity mapInArrow over the same bytes.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import walrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

TURNS = 15


def main() -> None:
    """Prints a line a capture."""
    root = Path(__file__).resolve().parent.parent
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else root / "target/bench-data")
    captures = {
        name: path
        for name in ("narrow", "wide", "mixed")
        if (path := directory / f"{name}.wire").exists()
    }
    rust = rust_rows(root, captures)
    print(f"{'capture':<10}{'Rust':>12}{'Python':>12}{'ratio':>8}{'stream':>12}")
    for name, path in captures.items():
        data = path.read_bytes()
        rows = sum(len(batch) for batch in walrow.read(data))
        table = next(iter(walrow.read(data))).table
        python = best(lambda data=data: sum(map(len, walrow.read(data)))) / rows
        stream = best(lambda data=data, table=table: drain(data, table)) / rows
        own = rust.get(name, float("nan"))
        print(
            f"{name:<10}{own:>9.1f} ns{python:>9.1f} ns{python / own:>8.2f}"
            f"{stream:>9.1f} ns"
        )
    spark_rows(captures)


def rust_rows(root: Path, names: Iterable[str]) -> dict[str, float]:
    """Runs the Rust bench and takes its nanoseconds a row."""
    command = ["cargo", "bench", "-q", "-p", "walrow-benches", "--features", "csv"]
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder, "ratios.json")
        subprocess.run(  # noqa: S603
            [*command, "--bench", "ratios", "--", f"--json={figures}", *names],
            cwd=root,
            check=True,
        )
        found = json.loads(figures.read_text())
    return {it["name"]: it["readers"]["walrow"]["ns"]["least"] for it in found}


def drain(data: bytes, table: str) -> None:
    """Pulls the exported stream as pyarrow does."""
    reader = walrow.read(data, table=table)
    for batch in pa.RecordBatchReader.from_stream(reader):
        del batch


def best(call: Callable[[], object], turns: int = TURNS) -> float:
    """Nanoseconds of the fastest turn: noise only ever adds."""
    fastest = float("inf")
    for _ in range(turns):
        start = time.perf_counter_ns()
        call()
        fastest = min(fastest, time.perf_counter_ns() - start)
    return fastest


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

        seconds = [best(lambda f=frame: run(f), 3) / 1e9 for frame in (decoded, same)]
        rates = [size / second for second in seconds]
        print(
            f"{name:<10}{rates[0]:>5.0f} MB/s{rates[1]:>7.0f} MB/s"
            f"{seconds[0] / seconds[1]:>8.2f}"
        )
    spark.stop()


if __name__ == "__main__":
    main()
