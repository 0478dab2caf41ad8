"""Spark's settings for Delta and Iceberg, for tests and benches."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from small_spark import IVY, with_fetched_jars

# From the example, which has what Delta needs.
from stream_to_delta import DELTA

#: `make` fetches them.
PACKAGES = (
    f"{DELTA['spark.jars.packages']},"
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
)


def has_delta() -> bool:
    """Whether delta-spark is installed. A folder of the same name is no package of it."""
    found = importlib.util.find_spec("delta")
    return found is not None and found.origin is not None


def table_formats(warehouse: Path | None = None) -> dict[str, str]:
    """Settings with Delta, as the example has it, and with Iceberg in the catalog `ice`."""
    settings = {
        **DELTA,
        "spark.jars.packages": PACKAGES,
        "spark.sql.extensions": f"{DELTA['spark.sql.extensions']},"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.jars.ivy": str(IVY),
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        # Delta's defaults are for large tables.
        "spark.databricks.delta.snapshotPartitions": "2",
    }
    if warehouse is not None:
        settings["spark.sql.catalog.ice.warehouse"] = str(warehouse)
    return with_fetched_jars(settings)
