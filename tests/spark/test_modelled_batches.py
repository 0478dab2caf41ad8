"""Some batches of `modelled_batches`, which runs thousands by hand: see there."""

from __future__ import annotations

import os
import time

import pytest
from pyspark.sql import SparkSession

from spark.modelled_batches import batches, kills

SEED = int(os.environ.get("WALROW_SEED") or time.time())

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]


def test_batches_give_the_rows_of_the_model(lakehouse: SparkSession) -> None:
    assert batches(lakehouse, 40, SEED) >= 40


@pytest.mark.usefixtures("lakehouse")
def test_kills_change_nothing() -> None:
    assert kills(6, SEED) >= 6
