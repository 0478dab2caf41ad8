"""One Spark session for all tests, and the golden captures."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

HERE = Path(__file__).resolve().parent
DATA = HERE.parent / "data" / "18"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before 4.3, PySpark leaves its sockets to the garbage collector."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(
                pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
            )


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    pytest.importorskip(
        "pyspark", reason="needs PySpark and Java: pip install pyspark==4.1.1"
    )
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master("local[2]")
        .appName("walrow")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def data() -> Path:
    return DATA
