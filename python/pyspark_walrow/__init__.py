"""The data source `walrow`, where Spark finds it: `spark.read.format("walrow")`.

Spark looks for top-level modules whose names begin with `pyspark_`, in the Python of the
driver or of the Connect server. See `walrow.spark.data_source`.
"""

from __future__ import annotations

from walrow.spark.data_source import WalrowDataSource as DefaultSource

__all__ = ["DefaultSource"]
