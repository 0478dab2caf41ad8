"""Connections to a server, and names of slots that a test may leave."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from servers import EmbeddedServer
from servers.receiving import drop_if_there


@pytest.fixture
def sql(server: EmbeddedServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        yield conn


@pytest.fixture
def name(server: EmbeddedServer, sql: psycopg.Connection[Any]) -> Iterator[str]:
    """A slot's name. The test may leave the slot, and its client may still be leaving."""
    name = f"s_{uuid.uuid4().hex[:12]}"
    yield name
    # A temporary slot ends with its connection.
    query = "SELECT FROM pg_replication_slots WHERE slot_name = %s AND NOT temporary"
    if sql.execute(query, [name]).fetchall():
        drop_if_there(server.dsn, name)
