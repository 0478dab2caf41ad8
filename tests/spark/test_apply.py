"""`walrow.spark.apply_changes`: targets have the rows of the server's tables."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="needs PySpark: pip install pyspark==4.1.1")
pytest.importorskip("psycopg")

import walrow  # noqa: E402
import walrow.spark  # noqa: E402
from spark.histories import history  # noqa: E402
from servers import EmbeddedServer  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from spark.histories import History
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.live,
    pytest.mark.timeout(300),
    # PySpark 4.1 leaves it to the garbage collector to close a socket of each result.
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="session")
def server() -> Iterator[EmbeddedServer]:
    with EmbeddedServer(18) as running:
        yield running


@pytest.fixture
def source(server: EmbeddedServer, tmp_path: Path) -> Iterator[History]:
    with history(server, tmp_path / "log") as made:
        yield made


class Lake:
    """A target for one table, and its rows."""

    def __init__(self, spark: SparkSession, kind: str, path: Path) -> None:
        self.spark = spark
        self.kind = kind
        name = f"t_{uuid.uuid4().hex[:8]}"
        if kind == "delta":
            self.name = f"delta:{path / name}"
            self.table = f"delta.`{path / name}`"
        else:
            self.name = f"iceberg:ice.db.{name}"
            self.table = f"ice.db.{name}"

    def apply(self, source: Any, table: str = "t", **options: Any) -> Any:
        log = getattr(source, "path", source)
        return walrow.spark.apply_changes(
            self.spark, log, table=f"public.{table}", target=self.name, **options
        )

    def rows(self, *columns: str) -> Counter[tuple[Any, ...]]:
        frame = self.spark.sql(f"SELECT {', '.join(columns) or '*'} FROM {self.table}")  # noqa: S608
        return Counter(map(tuple, frame.collect()))

    def sql(self, text: str) -> list[Any]:
        rows: list[Any] = self.spark.sql(text.format(t=self.table)).collect()
        return rows


@pytest.fixture(params=["delta", "iceberg"])
def lake(
    request: pytest.FixtureRequest, lakehouse: SparkSession, tmp_path: Path
) -> Lake:
    return Lake(lakehouse, request.param, tmp_path)


BIG = "repeat('{}', 3000)"
TABLE = (
    "CREATE TABLE t (id int PRIMARY KEY, n int, big text)",
    "ALTER TABLE t ALTER big SET STORAGE EXTERNAL",
)


def test_changes_of_every_kind(source: History, lake: Lake) -> None:
    source.sql(
        *TABLE,
        *(f"INSERT INTO t VALUES ({i}, {i}, {BIG.format(i)})" for i in range(1, 7)),
    )
    first = lake.apply(source.take())
    assert (first.committed, first.overwritten, first.net_rows) == (True, False, 6)
    assert lake.rows() == source.rows("t")
    source.sql(
        "UPDATE t SET n = 10 WHERE id = 1",  # big is not sent
        "UPDATE t SET n = NULL, big = NULL WHERE id = 2",
        "DELETE FROM t WHERE id = 3",
        "DELETE FROM t WHERE id = 4",
        "INSERT INTO t VALUES (4, 40, NULL)",  # nothing of the old row
        "INSERT INTO t VALUES (7, 7, 'x')",
        "UPDATE t SET n = 70 WHERE id = 7",
        "INSERT INTO t VALUES (8, 8, 'x')",
        "DELETE FROM t WHERE id = 8",
        f"INSERT INTO t VALUES (9, 9, {BIG.format('n')})",
        "UPDATE t SET n = 90 WHERE id = 9",  # big only in the insert
    )
    second = lake.apply(source.take())
    expected = {1, 2, 4, 5, 6, 7, 9}
    assert {row[0] for row in lake.rows("id")} == expected
    assert lake.rows() == source.rows("t")
    assert second.start == first.end
    assert (second.rows, second.net_rows) == (11, 7)
    if lake.kind == "delta":
        assert (second.inserted, second.updated, second.deleted) == (2, 3, 1)
    # The same range again, and the same log again.
    assert not lake.apply(source).committed
    assert lake.rows() == source.rows("t")
