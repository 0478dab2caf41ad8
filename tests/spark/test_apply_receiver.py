"""`walrow.spark.apply_changes` with the log of a receiver, under load."""

from __future__ import annotations

import time
import uuid
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import walrow
import walrow.spark
from servers import EmbeddedServer
from servers.receiving import (
    Load,
    drop_if_there,
    execute,
    receive_all,
)
from spark.lakes import Lake

pytestmark = [
    pytest.mark.spark,
    pytest.mark.live,
    pytest.mark.timeout(300),
]


@pytest.mark.slow
def test_targets_follow_a_server_under_load(
    server: EmbeddedServer, lakehouse: SparkSession, tmp_path: Path
) -> None:
    slot, log = f"s_{uuid.uuid4().hex[:8]}", tmp_path / "log"
    execute(
        server.dsn,
        "DROP TABLE IF EXISTS item, audit, wide",
        Load.SETUP,
        "INSERT INTO item SELECT g, g, 'before' FROM generate_series(1, 30) g",
        "INSERT INTO wide SELECT g, repeat('w', 5000) FROM generate_series(1, 20) g",
        "CREATE PUBLICATION p FOR TABLE item, audit, wide",
    )
    lakes = {
        "item": Lake(lakehouse, "delta", tmp_path),
        # REPLICA IDENTITY FULL: its key is the primary key that the receiver records.
        "wide": Lake(lakehouse, "iceberg", tmp_path),
    }
    targets = {f"public.{name}": lake.name for name, lake in lakes.items()}
    refused = f"delta:{tmp_path}/audit"
    columns = {"item": ("id", "n", "label"), "wide": ("id", "body")}
    try:
        receive_all(server.dsn, log, "--create", "--snapshot", slot=slot)
        for number in range(2):
            with Load(server.dsn, seed=number):
                time.sleep(1.0)
            receive_all(server.dsn, log, slot=slot)
            done = walrow.spark.apply_all(
                lakehouse, log, {**targets, "public.audit": refused}, threads=2
            )
            # Nothing says which of its rows a change would be about.
            assert list(done.failed) == ["public.audit"]
            assert isinstance(done.failed["public.audit"], walrow.errors.SchemaError)
            assert "ADD PRIMARY KEY" in str(done.failed["public.audit"])
            assert done.applied.keys() == targets.keys()
            for name, lake in lakes.items():
                chosen = ", ".join(columns[name])
                rows = execute(server.dsn, f"SELECT {chosen} FROM {name}")  # noqa: S608
                assert lake.rows(*columns[name]) == dict.fromkeys(rows, 1)
    finally:
        drop_if_there(server.dsn, slot)
        execute(
            server.dsn, "DROP PUBLICATION IF EXISTS p", "DROP TABLE item, audit, wide"
        )
