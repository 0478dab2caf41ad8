"""One server of each version, for all tests here."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

import pytest

from servers import EmbeddedServer, NpmServer
from servers.npm import VERSIONS
from servers.receiving import Load, drop_if_there, execute
from servers.wal import SmallSegments, until_unused

if TYPE_CHECKING:
    from collections.abc import Iterator


#: Each process collects all tests. So tests on npm's servers are made only if they run.
SERVERS = [
    *(
        pytest.param((EmbeddedServer, major), id=f"embedded-{major}")
        for major in (16, 18)
    ),
    *(
        pytest.param((NpmServer, major), marks=pytest.mark.slow, id=f"npm-{major}")
        for major in VERSIONS
        if os.environ.get("WALROW_SLOW")
    ),
]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The long ones are on one server for each change, and on all in make test-all."""
    for item in items:
        if item.path.name.startswith(_LONG) and "[embedded-16" in item.name:
            item.add_marker(pytest.mark.slow)


@pytest.fixture(
    # The widest scope comes first in the order: every server starts once.
    scope="session",
    params=SERVERS,
)
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    make, major = request.param
    with make(major, logical_decoding_work_mem="64kB") as running:
        yield running


@pytest.fixture(
    scope="module",
    params=SERVERS,
)
def own(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    """A server that the tests of one file may stop, and which is impatient."""
    make, major = request.param
    settings = {"max_slot_wal_keep_size": "64MB", "wal_sender_timeout": "2s"}
    with make(major, logical_decoding_work_mem="64kB", settings=settings) as running:
        yield running


@pytest.fixture
def slot(server: EmbeddedServer) -> Iterator[str]:
    """The name of a slot that does not exist, beside tables that have rows."""
    name = f"s_{uuid.uuid4().hex[:8]}"
    execute(
        server.dsn,
        "DROP PUBLICATION IF EXISTS p",
        "DROP TABLE IF EXISTS item, audit, wide",
        Load.SETUP,
        "INSERT INTO item SELECT g, g, 'before ' || g FROM generate_series(1, 30) g",
        "INSERT INTO audit SELECT now(), g, E'a\\tb\\nc\\\\N' FROM generate_series(1, 20000) g",
        "INSERT INTO wide SELECT g, repeat('w', 5000) FROM generate_series(1, 50) g",
        "CREATE PUBLICATION p FOR TABLE item, audit, wide",
    )
    yield name
    drop_if_there(server.dsn, name)


@pytest.fixture(scope="module")
def small() -> Iterator[SmallSegments]:
    """A server with small segments, which is impatient and keeps no old WAL."""
    settings = {
        "wal_sender_timeout": "1s",
        "max_wal_size": "2MB",
        "min_wal_size": "2MB",
    }
    with SmallSegments(18, settings=settings) as running:
        yield running


@pytest.fixture
def kept(small: SmallSegments) -> Iterator[str]:
    """A physical slot, which keeps WAL from now on."""
    name = "kept"
    execute(small.dsn, f"SELECT pg_create_physical_replication_slot('{name}', true)")
    yield name
    until_unused(small)
    execute(small.dsn, f"SELECT pg_drop_replication_slot('{name}')")


#: Faults of receivers and loads take seconds each, and types have thousands of tests.
_LONG = (
    "test_backup",
    "test_physical",
    "test_receiver",
    "test_run",
    "test_protocols",
    "test_load",
    "test_completeness",
    "test_type",
    "test_changes",
    "test_slots",
    "test_follow",
    "test_histories",
    "test_preflight",
    "test_recvlogical",
    "test_replication",
    "test_state",
    "test_net",
)
