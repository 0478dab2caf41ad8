"""Histories are the tables of a server as of every time when the server was asked.

The seed of a random workload is in the name of the test; `WALROW_SEED=NUMBER` sets one. `live_rounds` plays
thousands by hand: see there.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("deltalake", reason="needs deltalake: pip install deltalake")

from local_delta.live_rounds import LiveRound

if TYPE_CHECKING:
    from pathlib import Path

    from servers import EmbeddedServer

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

_RUN = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))  # noqa: S311
SEED = int(os.environ.get("WALROW_SEED") or _RUN.randrange(1 << 32))


@pytest.mark.parametrize("seed", [SEED])
def test_histories_are_the_tables_of_the_server(
    server: EmbeddedServer, tmp_path: Path, seed: int
) -> None:
    assert LiveRound(server, tmp_path, seed).compared > 1000


@pytest.mark.slow
@pytest.mark.parametrize("seed", [SEED + at for at in range(1, 5)])
def test_definitions_change_and_processes_are_killed(
    server: EmbeddedServer, tmp_path: Path, seed: int
) -> None:
    made = LiveRound(server, tmp_path, seed, kill_share=0.3, alters=True)
    assert made.compared > 1000
