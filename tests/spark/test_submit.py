"""examples/submit.sh, on a standalone cluster with two workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

import walrow

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parent.parent.parent
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """The URL of a master."""
    started: list[subprocess.Popen[bytes]] = []
    said = tmp_path / "cluster.log"

    def start(*words: str) -> None:
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        with said.open("ab") as log:
            started.append(
                subprocess.Popen(  # noqa: S603
                    [program, *words],
                    stdout=log,
                    stderr=log,
                    env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
                    start_new_session=True,
                )
            )

    def wait(pattern: str, count: int = 1) -> str:
        for _ in range(600):
            if len(found := re.findall(pattern, said.read_text("utf-8"))) >= count:
                return str(found[0])
            time.sleep(0.1)
        pytest.fail(said.read_text("utf-8")[-3000:])

    try:
        start(MASTER, "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = wait(r"Starting Spark master at (spark://\S+)")
        for number in (1, 2):
            work = str(tmp_path / f"work{number}")
            start(WORKER, "--cores", "1", "--memory", "1g", "--work-dir", work, url)
        wait("Registering worker", 2)
        yield url
    finally:
        for process in started:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_the_example_follows_a_log_on_a_cluster(cluster: str, tmp_path: Path) -> None:
    log, lake = tmp_path / "log", tmp_path / "lake"
    walrow.seal(ROOT / "tests/data/18/rows.text.wire", log=log)
    lake.mkdir()
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.jars.ivy {ROOT / 'target' / 'ivy'}\n"
        "spark.sql.shuffle.partitions 2\n"
        "spark.executor.memory 1g\n"
        "spark.ui.enabled false\n"
    )
    # A Python without walrow: it is in the archive.
    environment = {
        **{name: it for name, it in os.environ.items() if name != "PYTHONPATH"},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": f"{sys.base_prefix}/bin/python3",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_CONF_DIR": str(tmp_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "WALROW": str(ROOT),
    }
    script = ROOT / "examples" / "submit.sh"
    with (
        (tmp_path / "submit.log").open("wb") as errors,
        subprocess.Popen(  # noqa: S603
            [script, cluster, log, lake, "public.item"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment,
            start_new_session=True,
        ) as submitted,
    ):
        try:
            said = []
            for line in submitted.stdout or ():
                said.append(line.strip())
                if line.startswith("up to"):
                    break
        finally:
            os.killpg(submitted.pid, signal.SIGKILL)
    assert said == [
        "public.item: 5 rows of 10 changes",
        f"up to {walrow.Log(log).end}",
    ], "\n".join([*said, (tmp_path / "submit.log").read_text("utf-8")[-3000:]])
    assert list((tmp_path / "work1").iterdir())
    assert list((tmp_path / "work2").iterdir())
