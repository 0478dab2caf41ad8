"""Backups of random workloads equal the logs of these, with text and binary rows in turn.

A failure names the seed. `WALROW_SEED=NUMBER` sets the seed of the last case.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import walrow
from servers import EmbeddedServer
from servers.churn import Churn
from servers.live_log import History
from walrow import backup as backups
from walrow._core import LogWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.live, pytest.mark.timeout(600), pytest.mark.slow]

_RUN = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))  # noqa: S311
SEEDS = [1, 2, 3, int(os.environ.get("WALROW_SEED") or _RUN.randrange(1 << 32))]


class Identified(History):
    """A history whose log knows its server."""

    def _writer(self) -> LogWriter:
        [(identifier,)] = self.conn.execute(
            "SELECT system_identifier::text FROM pg_control_system()"
        ).fetchall()
        return LogWriter(
            self.path,
            segment_bytes=20_000,
            level=1,
            spool_memory=1 << 20,
            framing="message",
            syncs=False,
            system_identifier=identifier,
            database=self.name,
            slot=self.name,
        )


@pytest.fixture(scope="module", params=[pytest.param(16, marks=pytest.mark.slow), 18])
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(request.param) as running:
        yield running


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_workload(server: EmbeddedServer, seed: int) -> None:
    place = Path(tempfile.mkdtemp(prefix="walrow-against-", dir="/tmp"))
    place.chmod(0o755)
    with server.database("churn") as name:
        source = Identified(server.dsn_of(name), place / "log", name)
        try:
            churn = Churn(source, seed, for_spark=False)
            for step in range(120):
                churn.transaction()
                if churn.random.random() < 0.15:
                    churn.alter()
                if churn.random.random() < 0.2:
                    source.take(binary=step % 2 == 0)
                if step == 40:
                    source.load("key", "whole", binary=seed % 2 == 0)
            where = ("-d", server.dsn, "-D", place / "backup", "-c", "fast")
            subprocess.run(  # noqa: S603
                [server.bin / "pg_basebackup", *where, "--no-sync"], check=True
            )
            churn.run(10)
            source.take()
            found = backups.verify_against(
                place / "backup",
                place / "log",
                bin_dir=server.bin,
                run_as="nobody" if os.geteuid() == 0 else None,
            )
        finally:
            source.close()
            shutil.rmtree(place)
    assert isinstance(found.lsn, walrow.Lsn)
    assert found.equal, found
    assert found.compared >= 4
    for table in found.tables:
        assert table.result == "equal" or table.reason
    assert sum(table.backup_rows or 0 for table in found.tables) > 100
