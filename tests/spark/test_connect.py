"""The data source under Spark Connect, with a server in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")

from logs import published, transactions
from table_formats import has_delta

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

#: With names that Spark would substitute, and in a session that lacks what Iceberg needs.
APPLIES = """
import sys
from pyspark.sql import SparkSession
import walrow.spark
from table_formats import table_formats

log, lake = sys.argv[1:]
settings = table_formats(lake + "/warehouse")
settings["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
builder = SparkSession.builder.remote("local[2]")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
try:
    walrow.spark.apply_changes(spark, log, table="t", target="iceberg:ice.db.t")
except walrow.errors.OptionError as error:
    print(error)
print(spark.catalog.tableExists("ice.db.t"))
target = lake + "/${env:HOME}"
applied = walrow.spark.apply_changes(spark, log, table="t", target="delta:" + target)
print(applied.net_rows, spark.read.format("delta").load(target).count())
print(spark.conf.get("spark.sql.variable.substitute"))
spark.stop()
"""


def run(code: str, *arguments: Path) -> list[str]:
    """The lines that a client prints."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        # With it, PySpark takes a free port for the server.
        env=os.environ
        | {
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            "SPARK_TESTING": "1",
        },
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


# Two more JVMs, half a minute.
@pytest.mark.slow
def test_a_connect_server_finds_the_source(tmp_path: Path) -> None:
    log = tmp_path / "log"
    published(log, transactions(3))
    lines = run(CODE, log, tmp_path / "target", tmp_path / "checkpoint")
    ids, refused, count = lines[-3:]
    assert ids == "100 101 102 200 201 202 300 301 302"
    assert refused == "True"
    assert count == "9"


@pytest.mark.slow
@pytest.mark.skipif(not has_delta(), reason="needs Delta and Iceberg")
def test_changes_are_applied_with_names_as_they_are(tmp_path: Path) -> None:
    log = tmp_path / "log"
    published(log, transactions(3))
    *_, refusal, is_made, counts, substitutes = run(APPLIES, log, tmp_path)
    assert refusal.startswith("iceberg:ice.db.t: the session lacks Iceberg's SQL")
    assert refusal.endswith("extensions.IcebergSparkSessionExtensions")
    assert is_made == "False"
    assert counts == "9 9"
    assert (tmp_path / "${env:HOME}").is_dir()
    # The caller's setting.
    assert substitutes == "true"
