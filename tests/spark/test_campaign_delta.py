"""Days of a user whose lake has Delta tables: each is PostgreSQL's table, or refused by name."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import pytest

from campaign.hunt import Found, campaign_server, hunt, replay
from campaign.steps import parsed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECONDS = float(os.environ.get("WALROW_CAMPAIGN_SECONDS", "900"))
SEED = int(os.environ.get("WALROW_CAMPAIGN_SEED", str(int(time.time()))))
THEMES = ("copies", "lake", "columns", "tables", "publications", "loads")

pytestmark = [
    pytest.mark.live,
    pytest.mark.slow,
    pytest.mark.timeout(SECONDS + 600),
]


def test_drawn_days_with_delta_tables(lakehouse: SparkSession) -> None:
    print(f"WALROW_CAMPAIGN_SEED={SEED}")  # noqa: T201
    with campaign_server() as server:
        steps = os.environ.get("WALROW_CAMPAIGN_REPLAY")
        if steps:
            replay(server, parsed(steps), lakehouse)
            return
        found = hunt(
            server,
            seconds=SECONDS,
            seed=SEED,
            themes=THEMES,
            shrink_seconds=120,
            spark=lakehouse,
        )
    assert not isinstance(found, Found), str(found)
    print(f"{found} days")  # noqa: T201
