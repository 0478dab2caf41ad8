"""Histories are the tables of a server as of every time when the server was asked.

The seed of a random workload is in the name of the test; `WALROW_SEED=NUMBER` sets one. `live_rounds` plays
thousands by hand: see there.
"""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import deltalake
import pytest

import walrow.delta
from servers import EmbeddedServer
from targets.live_rounds import LiveRound
from targets.modelled_rounds import LOCAL, Engines

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

_RUN = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))  # noqa: S311
SEED = int(os.environ.get("WALROW_SEED") or _RUN.randrange(1 << 32))


def readers() -> Engines:
    """deltalake writes, and other programs read, too."""
    duckdb = pytest.importorskip("duckdb")
    polars = pytest.importorskip("polars")

    def by_polars(place: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = polars.scan_delta(place).collect().to_dicts()
        return rows

    def by_duckdb(place: str) -> list[dict[str, Any]]:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.register("target", deltalake.DeltaTable(place).scan())
            rows: list[dict[str, Any]] = (
                connection.sql("FROM target").to_arrow_table().to_pylist()
            )
            return rows

    apply = walrow.delta.apply_changes
    return LOCAL | {"polars": (apply, by_polars), "duckdb": (apply, by_duckdb)}


@pytest.mark.parametrize("seed", [SEED])
def test_histories_are_the_tables_of_the_server(
    server: EmbeddedServer, tmp_path: Path, seed: int
) -> None:
    made = LiveRound(server, tmp_path, seed, engines=readers())
    assert made.compared > 3000


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED + at for at in range(1, 5)])
def test_definitions_change_and_processes_are_killed(
    server: EmbeddedServer, tmp_path: Path, seed: int
) -> None:
    made = LiveRound(server, tmp_path, seed, kill_share=0.3, alters=True)
    assert made.compared > 1000
