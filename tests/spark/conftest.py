"""One Spark session for all tests, and the golden captures."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from servers import EmbeddedServer
    from servers.live_log import History
    from spark.lakes import Lake

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data" / "18"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs a session. Before 4.3, PySpark leaves its sockets to the garbage collector."""
    for item in items:
        if item.path.is_relative_to(HERE):
            if "spark" in getattr(item, "fixturenames", ()):
                item.add_marker(pytest.mark.spark)
            item.add_marker(
                pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
            )


@pytest.fixture(scope="session", autouse=True)
def quick_java() -> None:
    """Starts each Java of a test quickly, also in other processes."""
    from small_spark import JAVA

    os.environ.setdefault("JDK_JAVA_OPTIONS", JAVA)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    pytest.importorskip("pyspark", reason="needs PySpark and Java: pip install pyspark")
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    paths = [str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("walrow")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        # Spark does not take it for its own UTC: what depends on the zone's name is seen.
        .config("spark.sql.session.timeZone", "Etc/UTC")
        .config("spark.python.daemon.module", "worker_daemon")
    )
    if _has_table_formats():
        # It needs PySpark.
        from table_formats import table_formats

        # One session for all: a second one would not load other jars.
        warehouse = tmp_path_factory.mktemp("warehouse")
        for key, value in {
            **table_formats(warehouse),
            "spark.sql.warehouse.dir": str(warehouse / "spark"),
        }.items():
            builder = builder.config(key, value)
    # Ivy's cache is not made for two processes that fill it.
    with (tmp_path_factory.getbasetemp().parent / "ivy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def lakehouse(spark: SparkSession) -> SparkSession:
    """The session, if it has Delta as `spark_catalog` and Iceberg as `ice`."""
    if not _has_table_formats():
        pytest.skip(
            "needs Delta and Iceberg, which are there for Spark 4.1: "
            "pip install pyspark==4.1.1 delta-spark==4.4.0"
        )
    return spark


@pytest.fixture(params=["delta", "iceberg"])
def lake(
    request: pytest.FixtureRequest, lakehouse: SparkSession, tmp_path: Path
) -> Lake:
    """A target, which does not exist yet."""
    from spark.lakes import Lake

    return Lake(lakehouse, request.param, tmp_path)


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    from servers import EmbeddedServer

    with EmbeddedServer(18) as running:
        yield running


@pytest.fixture
def source(server: EmbeddedServer, tmp_path: Path) -> Iterator[History]:
    """A database of its own, and the log of its changes."""
    from servers.live_log import history

    with history(server, tmp_path / "log") as made:
        yield made


def _has_table_formats() -> bool:
    import pyspark

    # It needs PySpark.
    from table_formats import has_delta

    return pyspark.__version__.startswith("4.1.") and has_delta()


@pytest.fixture(scope="session")
def data() -> Path:
    return DATA
