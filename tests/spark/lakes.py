"""Targets of both formats, and live sources for them."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import walrow.spark

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


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

    def refresh(self) -> None:
        """Reads the table again, whoever has changed it."""
        if self.kind == "iceberg":
            self.spark.catalog.refreshTable(self.table)
