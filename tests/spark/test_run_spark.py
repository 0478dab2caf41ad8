"""Targets of `walrow run` that Spark writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from servers import EmbeddedServer

pytest.importorskip("deltalake", reason="needs deltalake: pip install deltalake")

from servers.receiving import drop_if_there, until
from servers.shop import Running, Shop, children, processes
from table_formats import table_formats
from targets.written_tables import WrittenTables
from walrow._log.status_record import Part, StatusFile
from walrow._run.applier import Applier, Report
from walrow._run.engines import Tables, spark_tables
from walrow._run.reading import parse
from walrow._run.status import status_of
from walrow.cli.apply_spark import without_text

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

    status = StatusFile(loaded.log, Part.APPLY)
    applier = Applier(
        loaded, stop=stop, spark=spark, listener=said.append, status=status
    )
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
    applier.end(None)
    found = {it.table: it for it in status_of(log.path).targets}
    assert (found["sales.t1"].engine, found["sales.t1"].has_all) == ("spark", True)
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


def has_ended(running: Running, times: int) -> bool:
    """Whether the applier has ended with an error so often."""
    return running.said.count("apply has ended with code 1") >= times


@pytest.mark.timeout(1500)
def test_java_that_is_killed_loses_nothing(
    lakehouse: SparkSession, server: EmbeddedServer, tmp_path: Path
) -> None:
    del lakehouse  # It has fetched the jars.
    settings = {
        **table_formats(tmp_path / "warehouse"),
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    lines = [f"{json.dumps(key)} = {json.dumps(it)}" for key, it in settings.items()]
    slot = f"java_{time.monotonic_ns()}"
    with server.database("java") as name:
        shop = Shop(server.dsn_of(name), tmp_path, slot)
        shop.write(target="\n".join(['engine = "spark"', "[spark]", *lines]))
        shop.sql(
            "CREATE SCHEMA sales",
            "CREATE TABLE sales.orders (id int PRIMARY KEY, n int)",
            "INSERT INTO sales.orders SELECT g, g FROM generate_series(1, 50) g",
            "CREATE PUBLICATION shop FOR TABLE sales.orders",
        )
        try:
            with Running(shop) as running:
                until(lambda: shop.is_current("orders"), 300)
                for number in range(2):
                    applier = processes(shop)["apply"]
                    (java,) = children(applier, "java")
                    for each in range(5):
                        key = 100 + 10 * number + each
                        shop.sql(
                            f"INSERT INTO sales.orders VALUES ({key}, 0)",  # noqa: S608
                            f"UPDATE sales.orders SET n = n + 1 WHERE id <= {each}",  # noqa: S608
                        )
                        # The last one may be in the middle of a commit.
                        time.sleep(0.3)
                    os.kill(java, signal.SIGKILL)
                    until(partial(has_ended, running, number + 1), 120)
                    until(lambda: shop.is_current("orders"), 300)
                assert has_ended(running, 2)
                assert not has_ended(running, 3)
                assert "its Java process is gone" in running.said
                until(lambda: status_of(shop.log).reasons == (), 30)
                # Java ends after an applier that is killed, too.
                applier = processes(shop)["apply"]
                (java,) = children(applier, "java")
                os.kill(applier, signal.SIGKILL)
                until(lambda: not Path(f"/proc/{java}").exists(), 30)
                shop.sql("DELETE FROM sales.orders WHERE id < 10")
                until(lambda: shop.is_current("orders"), 300)
                running.stop()
            shop.check_commits("orders")
        finally:
            drop_if_there(shop.dsn, slot)
