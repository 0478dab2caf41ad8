"""The data source `walrow`: the changes of a table in a log, as a DataFrame.

```python
changes = spark.read.format("walrow").option("table", "public.orders").load("/data/log")
```

See docs/spark.md.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from walrow.spark.batch_reader import LogBatchReader
from walrow.spark.log_plan import LogPlan
from walrow.spark.projection import Projection, log_schema, projection
from walrow.spark.schemas import spark_schema
from walrow.spark.source_options import SourceOptions, naming_options
from walrow.spark.stream_reader import LogStreamReader


class WalrowDataSource(DataSource):  # type: ignore[misc]
    """Reads a log, as a batch or as a stream. Spark creates it on the driver.

    Args:
        options: The options of the query, as texts.

    Raises:
        OptionError: There is no such option, or a text is not a value of it.
    """

    @naming_options()
    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._options = SourceOptions.of(options)
        # Stays when Spark pickles the object, so that the log is read once for a query.
        self._own: Any = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return "walrow"

    @naming_options()
    def schema(self) -> StructType:
        """The schema of all versions of the table. Spark asks if the user declares none.

        Raises:
            SchemaError: The log does not have the table, or a column that an option names.
            OptionError: The options contradict each other.
            LogError: The directory is not a log, or a segment is damaged.
        """
        self._own = log_schema(self._options)
        return spark_schema(self._own)

    @naming_options()
    def reader(self, schema: StructType) -> LogBatchReader:
        """Returns a reader of the changes that the log has now.

        Raises:
            SchemaError: The schema differs from the log's, or from some of its columns.
        """
        plan = LogPlan(self._options)
        return LogBatchReader(self._projection(plan, schema), plan)

    @naming_options()
    def streamReader(self, schema: StructType) -> LogStreamReader:  # noqa: N802 - Spark's
        """Returns a reader of the changes that the log has now, and of later ones.

        Raises:
            SchemaError: As `reader`.
        """
        plan = LogPlan(self._options)
        return LogStreamReader(self._projection(plan, schema))

    def _projection(self, plan: LogPlan, schema: StructType) -> Projection:
        own = log_schema(self._options) if self._own is None else self._own
        return projection(
            self._options, plan.log.source, schema, own, is_declared=self._own is None
        )
