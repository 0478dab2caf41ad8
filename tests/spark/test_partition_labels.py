"""The labels that place parts of net changes in Spark's shuffle."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from walrow.spark.net_rows import partition_labels

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_labels_are_spread_over_the_partitions_of_spark(spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    for count in (1, 2, 7, 200):
        labels = [(label,) for label in partition_labels(count)]
        rows = (
            spark.createDataFrame(labels, "label int")
            .select("label", f.pmod(f.hash("label"), f.lit(count)).alias("place"))
            .collect()
        )
        assert [row.place for row in rows] == list(range(count))
