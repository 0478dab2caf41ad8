"""Delta tables: the token is a commit's metadata, beside Delta's own transaction identifier.

Delta refuses a version of an application that a table has already, and a commit whose
application has committed meanwhile. The metadata explains the version, and history
shows later operations.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from walrow._apply.features import only_spark
from walrow._apply.history import FEW, Entry, recorded, token_of
from walrow._apply.statistics import statistics
from walrow._apply.targets import Commit, Conflict, Found
from walrow.spark.schemas import arrow_schema
from walrow.spark.targets.sql import (
    Appending,
    Merging,
    Target,
    condition_of,
    defined,
    name_parts,
    quoted,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walrow._apply.items import Token
    from walrow.spark.targets.sql import Replacing, Writing


class DeltaTarget(Target):
    """A Delta table, by its path or its name in a catalog."""

    conflicts = (
        "DELTA_CONCURRENT|DELTA_(METADATA|PROTOCOL)_CHANGED"
        "|Concurrent(Transaction|Append|Delete|Write)|(Metadata|Protocol)Changed"
    )
    # The columns that its MERGE adds to rows.
    reserved = frozenset(
        {
            "_file_name_",
            "_row_dropped_",
            "_row_id_",
            "_source_row_present_",
            "_target_row_present_",
        }
    )
    fed = frozenset({"_change_type", "_commit_timestamp", "_commit_version"})
    has_path_values = True

    def __init__(self, session: Any, name: str, place: str) -> None:
        self.session = session
        self.name = name
        is_path = "/" in place or "\\" in place
        self.table = quoted(*(("delta", place) if is_path else name_parts(place)))

    def look(self) -> Found | None:
        """Reads the record of its last batch. None if it does not exist."""
        try:
            return self.find()
        except Exception as error:
            if re.search(_MISSING, condition_of(error)):
                return None
            raise

    def create(
        self,
        fields: Sequence[Any],
        partition_by: Sequence[str],
        cluster_by: Sequence[str],
    ) -> None:
        """Creates it without rows, with deletion vectors."""
        from pyspark.sql.types import StructType

        properties = {"delta.enableDeletionVectors": "true"}
        if any(_SPECIAL.search(field.name) for field in fields):
            properties["delta.columnMapping.mode"] = "name"
        schema = arrow_schema(StructType(list(fields)))
        properties |= statistics(schema, partition_by)
        parts = f"PARTITIONED BY ({_names(partition_by)})" if partition_by else ""
        cluster = f"CLUSTER BY ({_names(cluster_by)})" if cluster_by else ""
        self.session.sql(
            f"CREATE TABLE IF NOT EXISTS {self.table} ({defined(fields)}) USING delta "
            f"{parts} {cluster} TBLPROPERTIES ({_properties(properties)})"
        )

    def find(self) -> Found:
        """Reads the last token from the history, and the later operations."""
        token, version, refusal = recorded(self._history)
        is_empty = token is None and not self.has_rows()
        return Found(token, str(version), is_empty, refusal)

    def partitions(self) -> list[str]:
        """The columns whose values become parts of paths."""
        # Without a job. How partitions are described depends on Spark, so it is only seen if any are.
        described = self.session.sql(f"DESCRIBE TABLE {self.table}").collect()
        if not any(row.col_name.startswith("# Part") for row in described):
            return []
        columns = self.session.catalog.listColumns(self.table)
        return [column.name for column in columns if column.isPartition]

    def features(self) -> tuple[str, ...]:
        """Its features that only Spark writes, and deltalake does not."""
        prefix = "delta.feature."
        named = (it for it in self._properties() if it.startswith(prefix))
        return only_spark(it.removeprefix(prefix) for it in named)

    def is_widened(self) -> bool:
        """Whether somebody has switched on type widening."""
        return self._properties().get(_WIDENING, "false").lower() == "true"

    def _properties(self) -> dict[str, str]:
        rows = self.session.sql(f"SHOW TBLPROPERTIES {self.table}").collect()
        return {row.key: row.value for row in rows}

    def _history(self, limit: int | None) -> list[Entry]:
        """The last commits, the newest first."""
        more = "" if limit is None else f" LIMIT {limit}"
        # As it is: to choose columns would be another job.
        rows = self.session.sql(f"DESCRIBE HISTORY {self.table}{more}").collect()
        rows = sorted(rows, key=lambda row: -row.version)
        return [Entry(row.version, row.operation, row.userMetadata) for row in rows]

    def widen(self, column: str, kind: str) -> None:
        """Changes the type of a column, by type widening."""
        self.session.sql(
            f"ALTER TABLE {self.table} SET TBLPROPERTIES ('{_WIDENING}' = 'true')"
        )
        self.session.sql(
            f"ALTER TABLE {self.table} ALTER COLUMN {quoted(column)} TYPE {kind}"
        )

    def commit(self, writing: Writing, token: Token, found: Found) -> Commit:
        """Writes rows and the token, in one commit."""
        if str(self._history(1)[0].version) != found.version:
            # Delta itself would only refuse an older batch, and accept a RESTORE in between.
            now = self.find()
            if (now.token, now.refusal) != (found.token, found.refusal):
                raise Conflict
        settings = {
            "spark.databricks.delta.write.txnAppId": token.application,
            "spark.databricks.delta.write.txnVersion": str(int(token.end)),
            "spark.databricks.delta.commitInfo.userMetadata": token.to_json(),
            # The source is deterministic and stored already.
            "spark.databricks.delta.merge.materializeSource": "none",
            # Delta counts the rows of its source twice, and Bloom filters read some of them again.
            "spark.databricks.delta.merge.failIfSourceChanged": "false",
        }
        try:
            for name, value in settings.items():
                self.session.conf.set(name, value)
            if not isinstance(writing, Merging):
                return self._write(writing, token)
            counts = self.session.sql(writing.statement(self.table)).collect()
        except Exception as error:
            if self.is_conflict(error):
                raise Conflict from error
            raise
        finally:
            # Another commit of this session must not claim what this one has.
            for name in settings:
                self.session.conf.unset(name)
        if not counts:
            # The table has this version of the application.
            return Commit(is_first=False)
        row = counts[0]
        return Commit(
            True,
            row["num_inserted_rows"],
            row["num_updated_rows"],
            row["num_deleted_rows"],
        )

    def _write(self, writing: Replacing | Appending, token: Token) -> Commit:
        from pyspark.sql.functions import lit

        rows = self.session.table(writing.view).writeTo(self.table)
        if isinstance(writing, Appending):
            rows.append()
        else:
            # Without a predicate, Delta takes it for a new table, which is not clustered.
            rows.option("replaceWhere", "true").overwrite(lit(True))
        runs = (it.run for it in map(token_of, self._history(FEW)) if it is not None)
        return Commit(is_first=token.run in runs)


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(quoted, names))


def _properties(properties: dict[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())


_WIDENING = "delta.enableTypeWidening"
_MISSING = (
    "TABLE_OR_VIEW_NOT_FOUND|DELTA_MISSING_DELTA_TABLE|DELTA_TABLE_NOT_FOUND"
    "|DELTA_PATH_DOES_NOT_EXIST|PATH_NOT_FOUND|is not a Delta table|doesn't exist"
)
_SPECIAL = re.compile(r"[ ,;{}()\n\t=]")
