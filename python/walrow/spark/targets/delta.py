"""Delta tables: the token is a commit's metadata, beside Delta's own transaction identifier.

Delta refuses a version of an application that a table has already, and a commit whose
application has committed meanwhile. The metadata explains the version, and history
shows later operations.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from typing import Any

from walrow._apply.engines import only_spark
from walrow._apply.history import FEW, Entry, recorded, token_of
from walrow._apply.items import Token
from walrow._apply.statistics import statistics
from walrow._apply.targets import Commit, Conflict, Found
from walrow._late import f, types
from walrow.errors import OptionError
from walrow.spark.schemas import arrow_schema
from walrow.spark.targets.sql import (
    Appending,
    Merging,
    Replacing,
    Target,
    Writing,
    condition_of,
    defined,
    full_parts,
    quoted,
)


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

    def __init__(self, session: Any, name: str, place: str, caller: Any) -> None:
        self.session = session
        self.name = name
        is_path = "/" in place or "\\" in place
        self._path = place if is_path else None
        self.parts = ("delta", place) if is_path else full_parts(caller, place)

    def look(self) -> Found | None:
        """Reads the record of its last batch. None if it does not exist.

        Raises:
            OptionError: The session lacks Delta's SQL extension or its catalog, or it is not a
                Delta table.
        """
        try:
            return self.find()
        except Exception as error:
            text = condition_of(error)
            if re.search(_UNKNOWN, text):
                raise OptionError(
                    f"{self.name}: the session lacks Delta: start it with {_SETTINGS}"
                ) from None
            if re.search(_MISSING, text) and not self._has_files():
                return None
            if re.search(_OTHER, text):
                raise self.other_kind() from error
            raise

    def _has_files(self) -> bool:
        """Whether its path has files."""
        files = self.session.read.format("binaryFile")
        with contextlib.suppress(Exception):
            found = files.option("recursiveFileLookup", "true").load(self._path)
            return self._path is not None and bool(found.inputFiles())
        return False

    def create(
        self,
        fields: Sequence[Any],
        partition_by: Sequence[str],
        cluster_by: Sequence[str],
    ) -> None:
        """Creates it without rows, with deletion vectors."""
        properties = {"delta.enableDeletionVectors": "true"}
        if any(_SPECIAL.search(field.name) for field in fields):
            properties["delta.columnMapping.mode"] = "name"
        schema = arrow_schema(types.StructType(list(fields)))
        properties |= statistics(schema, partition_by)
        parts = f"PARTITIONED BY ({_names(partition_by)})" if partition_by else ""
        cluster = f"CLUSTER BY ({_names(cluster_by)})" if cluster_by else ""
        self.session.sql(
            f"CREATE TABLE IF NOT EXISTS {self.table} ({defined(fields)}) USING delta "
            f"{parts} {cluster} TBLPROPERTIES ({_properties(properties)})"
        )

    def trial(self) -> Target | None:
        """A table like this one, which is dropped again. None if it could not be."""
        # Under Connect, nothing removes the files of a path.
        is_possible = self._path is None or hasattr(self.session, "_jsparkSession")
        return super().trial() if is_possible else None

    def drop(self) -> None:
        """Drops it. If it has a path, Spark's statement would leave the files."""
        if self._path is None:
            super().drop()
            return
        session = self.session
        path = session._jvm.org.apache.hadoop.fs.Path(self.parts[-1])
        settings = session._jsparkSession.sessionState().newHadoopConf()
        path.getFileSystem(settings).delete(path, True)

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
        super().widen(column, kind)

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
        rows = self.session.table(writing.view).writeTo(self.table)
        if isinstance(writing, Appending):
            rows.append()
        else:
            # Without a predicate, Delta takes it for a new table, which is not clustered.
            rows.option("replaceWhere", "true").overwrite(f.lit(True))
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
#: A session that has no such statement, or cannot execute it.
_UNKNOWN = "PARSE_SYNTAX_ERROR|DELTA_CONFIGURE_SPARK_SESSION"
_SETTINGS = (
    "spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and spark.sql.catalog."
    "spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog"
)
#: A table of another format, a view, or other files.
_OTHER = "DELTA_ONLY_OPERATION|EXPECT_TABLE_NOT_VIEW|is not a Delta table"
_SPECIAL = re.compile(r"[ ,;{}()\n\t=]")
