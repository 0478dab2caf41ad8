"""Decodes captures in Spark: `python examples/spark_map_in_arrow.py`.

Each input row contains the path of a file. The tasks open and decode these files.
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import walrow.spark

DATA = Path(__file__).resolve().parent.parent / "tests" / "data" / "18"
captures = [str(DATA / "rows.text.wire"), str(DATA / "rows.binary.wire")]

# Tasks must use the Python that has walrow installed.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()
)

# The schema comes from the same code as the rows.
schema = walrow.spark.schema(captures[0], "public.item")
paths = spark.createDataFrame([(path,) for path in captures], "path string")
changes = paths.mapInArrow(
    walrow.spark.decode(table="public.item", schema=schema), schema
)
changes.groupBy("_change_type").count().orderBy("_change_type").show()
spark.stop()
