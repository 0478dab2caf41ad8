"""Targets of `walrow run` that Spark writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("psycopg")
pytest.importorskip("pyspark", reason="needs PySpark: pip install pyspark")

from local_delta.written_tables import WrittenTables
from table_formats import table_formats
from walrow._run.applier import Applier, Report
from walrow._run.engines import Tables, spark_tables
from walrow._run.reading import parse
from walrow._run.status import status_of
from walrow.cli.apply_spark import without_text

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

FILE = """\
[source]
slot = "s"
publications = ["p"]
[log]
path = "log"
{spark}
[[target]]
tables = ["sales.*"]
exclude = ["sales.t3"]
to = "delta:lake/{{table}}"
engine = "spark"
every = 0.001
cluster_by = ["id"]
{more}
"""


def test_tables_share_a_session(lakehouse: SparkSession, tmp_path: Path) -> None:
    log = WrittenTables(tmp_path / "log")
    log.insert(1, 2, 3)
    # Rows that walrow did not write.
    foreign = tmp_path / "lake" / "t2"
    lakehouse.sql("SELECT 1 id, 1 n").write.format("delta").save(str(foreign))
    loaded = parse(
        FILE.format(spark="", more=""), tmp_path / "shop.toml", is_private=True
    )
    stop, said, started = threading.Event(), list[Report](), list[int]()

    def spark() -> Tables:
        started.append(1)
        return spark_tables(
            lakehouse,
            stop,
            lambda error, target: without_text(error, lakehouse, target),
        )

    applier = Applier(loaded, stop=stop, spark=spark, listener=said.append)
    problems = {it.table: it.problem for it in applier.round().reports}
    assert problems["sales.t1"] is None
    assert "does not record which changes they have" in (problems["sales.t2"] or "")
    log.insert(1, row=("2", "2"))
    time.sleep(0.002)
    applier.round()
    assert started == [1]
    path = tmp_path / "lake" / "t1"
    rows = lakehouse.read.format("delta").load(str(path)).orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, 1), (2, 2)]
    found = {it.table: it for it in status_of(log.path).targets}
    assert (found["sales.t1"].engine, found["sales.t1"].is_current) == ("spark", True)
    assert found["sales.t2"].error is not None


def test_a_process_with_settings_of_the_file(
    lakehouse: SparkSession, tmp_path: Path
) -> None:
    del lakehouse  # It has fetched the jars.
    log = WrittenTables(tmp_path / "log")
    log.insert(1, 2, 3)
    log.writer.close()
    settings = {
        **table_formats(tmp_path / "warehouse"),
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    lines = [f"{json.dumps(key)} = {json.dumps(it)}" for key, it in settings.items()]
    more = '[[target]]\ntables = ["sales.t3"]\nto = "delta:other/{table}"\nengine = "delta"'
    file = tmp_path / "shop.toml"
    file.write_text(FILE.format(spark="\n".join(["[spark]", *lines]), more=more))
    done = subprocess.run(  # noqa: S603
        [
            *(sys.executable, "-m", "walrow", "apply"),
            *("--config", str(file), "--once", "--json"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    last = json.loads(done.stdout.splitlines()[-1])
    assert last["is_current"]
    assert sorted((it["table"], it["engine"]) for it in last["tables"]) == [
        ("sales.t1", "spark"),
        ("sales.t2", "spark"),
        ("sales.t3", "delta"),
    ]
