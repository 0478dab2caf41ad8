"""The data source with executors in processes of their own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from logs import published, transactions

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

CODE = """
import os, sys
from pyspark.sql import SparkSession

path, target, checkpoint = sys.argv[1:]
spark = (
    SparkSession.builder.master("local-cluster[2,1,1024]")
    .config("spark.ui.enabled", "false")
    .config("spark.executorEnv.PYTHONPATH", os.pathsep.join(sys.path[1:]))
    .getOrCreate()
)
options = {"table": "t", "partitionBytes": "1"}
frame = spark.read.format("walrow").options(**options).load(path)
print(frame.rdd.getNumPartitions(), frame.count())
query = (
    spark.readStream.format("walrow").options(**options).load(path)
    .writeStream.format("parquet").option("checkpointLocation", checkpoint)
    .trigger(availableNow=True).start(target)
)
query.awaitTermination(60)
print(spark.read.parquet(target).count())
spark.stop()
"""


@pytest.fixture
def workers() -> Iterator[None]:
    """Removes the directories of the workers, which Spark makes beside itself."""
    directory = Path(pyspark.__file__).parent / "work"
    before = set(directory.glob("*"))
    yield
    for added in set(directory.glob("*")) - before:
        shutil.rmtree(added)


@pytest.mark.usefixtures("workers")
def test_executors_open_the_log_themselves(tmp_path: Path) -> None:
    log = tmp_path / "log"
    published(log, transactions(8))
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", CODE, log, tmp_path / "target", tmp_path / "checkpoint"],
        capture_output=True,
        text=True,
        check=False,
        timeout=280,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split("\n")[-3:-1] == ["8 24", "24"]
