"""Two tables of a pipeline: all changes of a table, and how many there are of each kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark import pipelines as dp
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

spark = SparkSession.active()


@dp.table
def item_changes() -> DataFrame:
    """Each change of `public.item`, once: a stream that continues where it ended."""
    reader = spark.readStream.format("walrow").option("table", "public.item")
    return reader.load(spark.conf.get("spark.shop.log"))


@dp.materialized_view
def item_counts() -> DataFrame:
    """The number of changes of each kind."""
    return spark.read.table("item_changes").groupBy("_change_type").count()
