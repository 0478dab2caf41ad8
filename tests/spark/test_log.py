"""`walrow.spark` with logs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import walrow
import walrow.spark

pytestmark = pytest.mark.spark


def test_logs_and_their_segments_are_decoded_like_captures(
    spark: SparkSession, data: Path, tmp_path: Path
) -> None:
    capture = data / "rows.text.wire"
    walrow.seal(capture, log=tmp_path / "log", segment_size=200)
    log = walrow.Log(tmp_path / "log")
    schema = walrow.spark.schema(log.path, "public.item")
    assert schema == walrow.spark.schema(capture, "public.item")
    assert schema == walrow.spark.schema(log, "public.item")
    decode = walrow.spark.decode(table="public.item", schema=schema)
    places = {
        "capture": [str(capture)],
        "log": [str(log.path)],
        "segments": [str(it.path) for it in log.segments() if not it.continues],
    }
    rows = {}
    for name, paths in places.items():
        frame = spark.createDataFrame([(path,) for path in paths], "p string")
        found = frame.mapInArrow(decode, schema).collect()
        rows[name] = sorted(map(str, found))
    assert rows["log"] == rows["capture"]
    assert len(rows["capture"]) > 5
    # A segment can be decoded alone, unless it is a part of a large transaction.
    if len(places["segments"]) == len(log.segments()):
        assert rows["segments"] == rows["capture"]
