"""Delta tables that follow a log by `walrow.spark.apply_changes`."""

from __future__ import annotations

import shutil
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import walrow
from campaign.oracle import published, server_rows
from campaign.target import compare_with_server

if TYPE_CHECKING:
    from pathlib import Path

    from campaign.day import Day


#: Spark's type for each type that the server's tables begin with.
_TYPES = {"integer": "int", "bigint": "bigint", "text": "string"}


@dataclass
class DeltaTarget:
    """A Delta table that has a log's changes, as its own record says.

    Attributes:
        oid: The table on the server.
        path: The Delta table's directory.
        spark: The session.
        resume_from: Up to where a user's copy has the changes, as long as it has no record.
        is_copied: Whether it began with a user's copy.
    """

    oid: int
    path: Path
    spark: Any
    resume_from: walrow.Lsn | None = None
    is_copied: bool = False

    @classmethod
    def of(cls, day: Day, name: str, *, is_copied: bool) -> Self:
        """A copy of the server's rows at the slot's start, or no table yet."""
        oid, full, columns, where = next(
            it for it in published(day) if it[1] == f"public.{name}"
        )
        path = day.directory / f"delta-{name}-{uuid.uuid4().hex[:8]}"
        target = cls(oid, path, day.spark, is_copied=is_copied)
        if is_copied:
            types = dict(
                day.sql(
                    "SELECT attname, format_type(atttypid, NULL) FROM pg_attribute "  # noqa: S608
                    f"WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped"
                )
            )
            rows = [dict(it) for it in server_rows(day, full, columns, where)]
            frame = day.spark.createDataFrame(
                [tuple(row[it] for it in columns) for row in rows],
                ", ".join(f"{it} string" for it in columns),
            ).selectExpr(*(f"CAST({it} AS {_TYPES[types[it]]}) {it}" for it in columns))
            frame.write.format("delta").save(str(path))
            target.resume_from = walrow.Log(day.log).slot_start
        return target

    def apply(self, log: walrow.Log) -> bool:
        """Takes the new changes. False if it is refused."""
        import walrow.spark

        try:
            walrow.spark.apply_changes(
                self.spark,
                log,
                table=self.oid,
                target=f"delta:{self.path}",
                resume_from=self.resume_from,
            )
        except walrow.Error:
            return False
        return True

    def restore(self) -> None:
        """Somebody restores the table's first version."""
        if self.path.exists():
            self.spark.sql(
                f"RESTORE TABLE delta.`{self.path}` TO VERSION AS OF 0"
            ).collect()

    def lose(self) -> None:
        """Somebody removes it."""
        if not self.is_copied:
            shutil.rmtree(self.path, ignore_errors=True)

    def compare(self, day: Day) -> None:
        """Compares it with the server, by the columns that the server has.

        Raises:
            Fault: It is another.
        """
        if not self.path.exists():
            return
        frame = self.spark.read.format("delta").load(str(self.path))
        texts = [f"CAST(`{it}` AS string) `{it}`" for it in frame.columns]
        rows = [row.asDict() for row in frame.selectExpr(*texts).collect()]
        compare_with_server(day, self.oid, rows)
