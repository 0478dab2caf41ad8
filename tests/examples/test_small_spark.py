"""The settings for a small machine name the jars that were fetched, and otherwise the packages."""

from __future__ import annotations

from pathlib import Path

import pytest

import small_spark

PACKAGES = "io.delta:delta-spark_4.1_2.13:4.4.0"
SETTINGS = {"spark.jars.packages": PACKAGES, "spark.sql.shuffle.partitions": "2"}
FETCHED = (
    "io.delta_delta-spark_4.1_2.13-4.4.0.jar",
    "io.delta_delta-storage-4.4.0.jar",
    "io.unitycatalog_unitycatalog-client-0.6.0.jar",
    # Spark has its own.
    "org.apache.hadoop_hadoop-client-api-3.4.2.jar",
    # It is of no package here.
    "org.apache.iceberg_iceberg-spark-runtime-4.1_2.13-1.11.0.jar",
)


@pytest.fixture
def ivy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(small_spark, "IVY", tmp_path)
    (tmp_path / "jars").mkdir()
    for name in FETCHED:
        (tmp_path / "jars" / name).touch()
    return tmp_path


def test_fetched_jars_replace_the_packages(ivy: Path) -> None:
    (ivy / ".fetched").touch()
    made = small_spark.with_fetched_jars(SETTINGS)
    place = ":".join(str(ivy / "jars" / name) for name in FETCHED[:3])
    assert made == {
        "spark.jars.packages": "",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraClassPath": place,
        "spark.executor.extraClassPath": place,
    }


def test_iceberg_is_taken_if_it_is_a_package(ivy: Path) -> None:
    (ivy / ".fetched").touch()
    iceberg = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
    made = small_spark.with_fetched_jars(
        {"spark.jars.packages": f"{PACKAGES},{iceberg}"}
    )
    names = [it.rpartition("/")[2] for it in made[PLACE].split(":")]
    assert names == [*FETCHED[:3], FETCHED[4]]


@pytest.mark.usefixtures("ivy")
def test_jars_that_are_not_all_there_are_not_taken() -> None:
    assert small_spark.with_fetched_jars(SETTINGS) == SETTINGS


PLACE = "spark.driver.extraClassPath"
