"""`walrow.spark.apply_changes` on clusters: executors that die, Connect, streams, the command."""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

import walrow
import walrow.spark
from servers.live_log import History
from spark.lakes import Lake

pytestmark = [
    pytest.mark.spark,
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(580),
]

HOME = Path(pyspark.__file__).parent
#: Opens a session with both formats, and prints the rows of targets at the end.
SESSION = """
import json, os, signal, subprocess, sys, time, traceback
from pathlib import Path
from pyspark.sql import SparkSession
import walrow.spark

given = json.loads(sys.argv[1])
builder = SparkSession.builder
for name, value in given["settings"].items():
    builder = builder.config(name, value)
spark = getattr(builder, given["way"])(given["master"]).getOrCreate()
log, targets = given["log"], given["targets"]

def show():
    for name, table in given["tables"].items():
        rows = spark.table(table).where(given.get("where", "true"))
        for row in rows.select("id", "n", "big").collect():
            print(json.dumps([name, *row]))
    sys.stdout.flush()
    # Under Connect, PySpark would ask a server that has ended for minutes.
    os._exit(0)
"""
CONNECT = """
import gc
from pyspark import SparkContext
from pyspark.sql.connect.client import SparkConnectClient
assert "connect" in type(spark).__module__

def sessions():
    package = SparkContext._active_spark_context._jvm.org.apache.spark.sql.connect.service
    server = getattr(getattr(package, "SparkConnectService$"), "MODULE$")
    return server.sessionManager().listActiveSessions().size()

def clients():
    gc.collect()
    return sum(isinstance(it, SparkConnectClient) for it in gc.get_objects())

spark.range(1).collect()
assert sessions() == 1
for each in (1, 2):
    done = walrow.spark.apply_all(spark, log, targets)
    if done.failed:
        for error in done.failed.values():
            traceback.print_exception(error)
        sys.stderr.flush()
        os._exit(1)
    print(json.dumps([[it.committed, it.rows] for it in done.applied.values()]))
for table, target in targets.items():
    again = walrow.spark.apply_changes(spark, log, table=table, target=target)
    assert not again.committed
try:
    walrow.spark.apply_changes(
        spark, log, table="public.a", target="delta:" + given["refused"], partition_by=["x"]
    )
except walrow.errors.SchemaError:
    pass
print(json.dumps([sessions(), clients()]))
show()
"""
#: A worker starts another executor when one dies. What the dead one held is gone.
DEATHS = """
from walrow.spark.targets.delta import DeltaTarget
from walrow.spark.targets.iceberg import IcebergTarget

def executors():
    name = spark.sparkContext.applicationId
    found = []
    for place in Path("/proc").iterdir():
        try:
            if place.name.isdigit():
                words = (place / "cmdline").read_bytes().split(b"\\0")
                if b"--app-id" in words and name.encode() in words:
                    found.append(int(place.name))
        except OSError:
            pass
    return found

deadline = time.monotonic() + 60
while len(executors()) < 2 and time.monotonic() < deadline:
    time.sleep(0.2)
killed = []
def dying(commit):
    def run(*arguments):
        if len(killed) < given["deaths"]:
            # After the fold, whose rows an executor may hold, and before the MERGE.
            victim = min(executors())
            os.kill(victim, signal.SIGKILL)
            killed.append(victim)
        return commit(*arguments)
    return run

for table, target in targets.items():
    if given["mode"] == "history":
        walrow.spark.apply_changes(
            spark, log, table=table, target=target, mode="history", end=given["end"]
        )
for kind in (DeltaTarget, IcebergTarget):
    kind.commit = dying(kind.commit)
for table, target in targets.items():
    while True:
        try:
            done = walrow.spark.apply_changes(
                spark, log, table=table, target=target, mode=given["mode"]
            )
            break
        except Exception as error:
            print("again:", table, str(error).splitlines()[0], file=sys.stderr)
            assert len(killed) < 9
    assert not walrow.spark.apply_changes(
        spark, log, table=table, target=target, mode=given["mode"]
    ).committed
print(json.dumps(len(killed)))
show()
"""


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """Settings for a session of its own with both formats."""
    pytest.importorskip("delta", reason="needs Delta and Iceberg")
    from table_formats import table_formats

    return {
        **table_formats(tmp_path / "warehouse"),
        "spark.sql.warehouse.dir": str(tmp_path / "warehouse/spark"),
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path[1:]),
        "spark.executorEnv.PYSPARK_PYTHON": sys.executable,
    }


@pytest.fixture
def work(tmp_path: Path, source: History, settings: dict[str, str]) -> dict[str, Any]:
    """A log with changes of two tables, and a target of each format."""
    for name in "ab":
        source.sql(
            f"CREATE TABLE {name} (id int PRIMARY KEY, n int, big text)",
            f"ALTER TABLE {name} ALTER big SET STORAGE EXTERNAL",
            f"INSERT INTO {name} SELECT g, g, repeat('x', 3000) FROM generate_series(1, 50) g",
            f"UPDATE {name} SET n = n + 1 WHERE id % 2 = 0",
            f"UPDATE {name} SET id = id + 100 WHERE id % 10 = 0",
            f"DELETE FROM {name} WHERE id % 7 = 0",
        )
    source.take()
    return {
        "settings": settings,
        "way": "master",
        "log": str(source.path),
        "targets": {
            "public.a": f"delta:{tmp_path / 'a'}",
            "public.b": "iceberg:ice.db.b",
        },
        "tables": {"a": f"delta.`{tmp_path / 'a'}`", "b": "ice.db.b"},
    }


def run(code: str, given: dict[str, Any]) -> list[Any]:
    """Runs code in a process with a session of its own, and returns what it prints."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", SESSION + code, json.dumps(given)],
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
        env=os.environ
        | {
            "PYSPARK_PYTHON": sys.executable,
            "PYTHONPATH": os.pathsep.join(sys.path[1:]),
            # The Connect server takes a free port.
            "SPARK_TESTING": "1",
        },
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [
        json.loads(it) for it in done.stdout.splitlines() if it[:1] in "[0123456789"
    ]


def expected(source: History) -> Counter[tuple[Any, ...]]:
    return Counter(
        (name, *row) for name in "ab" for row in source.rows(name).elements()
    )


@contextlib.contextmanager
def standalone(path: Path, workers: int) -> Iterator[str]:
    """A master and workers, each in a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    deploy = "org.apache.spark.deploy"
    commands = [
        (f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port)),
        *(
            (
                *(f"{deploy}.worker.Worker", "--host", "127.0.0.1", "--cores", "1"),
                *("--memory", "1g", "--work-dir", str(path / f"worker{number}")),
                master,
            )
            for number in range(workers)
        ),
    ]
    processes = []
    with contextlib.ExitStack() as stack:
        for number, command in enumerate(commands):
            log = stack.enter_context((path / f"process{number}.log").open("w"))
            processes.append(
                subprocess.Popen(  # noqa: S603
                    [HOME / "bin/spark-class", *command, "--webui-port", "0"],
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=os.environ | {"SPARK_HOME": str(HOME)},
                )
            )
        try:
            deadline = time.monotonic() + 120
            while (path / "process0.log").read_text().count(
                "Registering worker"
            ) < workers:
                assert time.monotonic() < deadline, (path / "process0.log").read_text()
                time.sleep(0.3)
            yield master
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(60)


@pytest.mark.parametrize("mode", ["current", "history"])
def test_executors_that_die_between_the_fold_and_the_merge(
    source: History, work: dict[str, Any], tmp_path: Path, mode: str
) -> None:
    if mode == "history":
        # Executors compare the rows of a load with the open versions.
        work |= {"where": "_is_current", "end": str(walrow.Log(source.path).end)}
        for name in "ab":
            source.sql(f"UPDATE {name} SET n = 0 WHERE id < 5")
        source.load("a", "b")
    with standalone(tmp_path, 2) as master:
        given = work | {"master": master, "deaths": 2, "mode": mode}
        killed, *rows = run(DEATHS, given)
    assert killed == 2
    assert Counter(map(tuple, rows)) == expected(source)


@pytest.mark.parametrize("is_loaded", [False, True])
def test_connect(
    source: History, work: dict[str, Any], tmp_path: Path, *, is_loaded: bool
) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    if is_loaded:
        # Nothing comes after it: it is written as it is decoded.
        source.load("a", "b")
    given = {"way": "remote", "master": "local[2]", "refused": str(tmp_path / "c")}
    first, second, left, *rows = run(CONNECT, work | given)
    assert [committed for committed, _ in first] == [True, True]
    assert second == [[False, 0], [False, 0]]
    if is_loaded:
        assert [count for _, count in first] == [len(source.rows(it)) for it in "ab"]
    # Clones of the session are gone, here and on the server, also that of a call that failed.
    assert left == [1, 1]
    assert Counter(map(tuple, rows)) == expected(source)


def test_a_stream_whose_checkpoint_is_lost(
    source: History, lake: Lake, tmp_path: Path
) -> None:
    source.sql("CREATE TABLE t (id int PRIMARY KEY, n int)")
    applied: list[Any] = []

    def stream(checkpoint: str) -> list[int]:
        def keep_current(_batch: Any, number: int) -> None:
            applied.append((number, lake.apply(source)))

        applied.clear()
        query = (
            lake.spark.readStream.format("walrow")
            .option("table", "public.t")
            .load(str(source.path))
            .writeStream.foreachBatch(keep_current)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        query.stop()
        lake.refresh()
        return [number for number, it in applied if it.committed]

    source.sql("INSERT INTO t SELECT g, 0 FROM generate_series(1, 20) g")
    source.take()
    assert stream("one") == [0]
    source.sql("UPDATE t SET n = n + 1 WHERE id < 5", "DELETE FROM t WHERE id = 9")
    source.take()
    assert stream("one") == [1]
    assert lake.rows() == source.rows("t")
    # The batches of a new checkpoint have the numbers of those that were applied.
    assert stream("two") == []
    assert applied
    source.sql(
        "UPDATE t SET id = id + 100 WHERE id > 15", "INSERT INTO t VALUES (3000)"
    )
    source.take()
    assert stream("three") == [0]
    assert lake.rows() == source.rows("t")


def test_the_command(
    source: History, work: dict[str, Any], settings: dict[str, str], tmp_path: Path
) -> None:
    confs = [f"--conf={name}={value}" for name, value in settings.items()]

    def command(table: str, *more: str) -> subprocess.CompletedProcess[str]:
        target = work["targets"]["public.a"]
        given = [work["log"], "--table", table, "--target", target, *more]
        return subprocess.run(  # noqa: S603
            [sys.executable, "-m", "walrow", "apply", *given, *confs],
            capture_output=True,
            text=True,
            check=False,
            timeout=250,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path[1:])},
        )

    first, second = (command("public.a", "--json") for _ in range(2))
    assert first.returncode == 0, first.stderr[-3000:]
    assert second.returncode == 0, second.stderr[-3000:]
    found, again = (json.loads(it.stdout.splitlines()[-1]) for it in (first, second))
    end = str(walrow.Log(source.path).end)
    assert (found["committed"], found["end"]) == (True, end)
    assert found["net_rows"] >= source.rows("a").total()
    assert (again["committed"], again["start"], again["net_rows"]) == (False, end, 0)
    assert again["token"] == found["token"]
    wrong = command("public.b")
    assert wrong.returncode == 1
    assert "has the rows of public.a, and not of public.b: use another" in wrong.stderr
    unknown = command("public.nothing")
    assert unknown.returncode == 1
    assert "the log has no table 'public.nothing'" in unknown.stderr
