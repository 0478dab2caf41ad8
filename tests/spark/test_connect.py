"""The data source under Spark Connect, with a server in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="needs PySpark: pip install pyspark")
pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")

from logs import published, transactions

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

CODE = """
import sys
from pyspark.sql import SparkSession

path, target, checkpoint = sys.argv[1:]
spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert "connect" in type(spark).__module__
frame = spark.read.format("walrow").option("table", "t").load(path)
print(*[row.id for row in frame.collect()])
try:
    spark.read.format("walrow").option("tabel", "t").load(path).collect()
except Exception as error:
    print("tabel is not an option of the data source walrow" in str(error))
query = (
    spark.readStream.format("walrow").option("table", "t").load(path)
    .writeStream.format("parquet").option("checkpointLocation", checkpoint)
    .trigger(availableNow=True).start(target)
)
query.awaitTermination(60)
print(spark.read.parquet(target).count())
spark.stop()
"""


def test_a_connect_server_finds_the_source(tmp_path: Path) -> None:
    log = tmp_path / "log"
    published(log, transactions(3))
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", CODE, log, tmp_path / "target", tmp_path / "checkpoint"],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        # With it, PySpark takes a free port for the server.
        env=os.environ
        | {
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_TESTING": "1",
            # As the other sessions have it.
            "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    ids, refused, count = done.stdout.split("\n")[-4:-1]
    assert ids == "100 101 102 200 201 202 300 301 302"
    assert refused == "True"
    assert count == "9"
