"""One server of each version for all tests, and others that the tests of a file may stop."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import EmbeddedServer
    from servers.receiving import Feed
    from servers.wal import SmallSegments
    from servers.world import World

#: The versions of PostgreSQL that are fetched, as `servers.fetched` has them.
FETCHED = (14, 15, 16, 17, 18, 19)

#: Each process collects all tests. So tests on fetched servers are made only if they run.
SERVERS = [
    *(
        pytest.param(("EmbeddedServer", major), id=f"embedded-{major}")
        for major in (16, 18)
    ),
    *(
        pytest.param(
            ("FetchedServer", major), marks=pytest.mark.slow, id=f"fetched-{major}"
        )
        for major in FETCHED
        if os.environ.get("WALROW_SLOW")
    ),
]


@pytest.fixture(
    # The widest scope comes first in the order: every server starts once.
    scope="session",
    params=SERVERS,
)
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    import servers

    make, major = request.param
    with getattr(servers, make)(major, logical_decoding_work_mem="64kB") as running:
        yield running


@pytest.fixture(
    scope="module",
    params=SERVERS,
)
def own(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    """A server that the tests of one file may stop, and which is impatient."""
    import servers

    make, major = request.param
    options = {
        "logical_decoding_work_mem": "64kB",
        "settings": {"max_slot_wal_keep_size": "64MB", "wal_sender_timeout": "2s"},
    }
    with getattr(servers, make)(major, **options) as running:
        yield running


@pytest.fixture
def feed(server: EmbeddedServer, tmp_path: Path) -> Iterator[Feed]:
    """A slot before the empty tables of `Load`, and no log yet."""
    from servers.receiving import Feed, slot_for_load

    with slot_for_load(server) as slot:
        yield Feed(server, slot, tmp_path / "log")


@pytest.fixture
def filled(feed: Feed) -> Feed:
    """The tables of `Load` with rows, and neither a slot nor a log."""
    feed.execute(
        f"SELECT pg_drop_replication_slot('{feed.slot}')",
        "INSERT INTO item SELECT g, g, 'before ' || g FROM generate_series(1, 30) g",
        "INSERT INTO audit SELECT now(), g, E'a\\tb\\nc\\\\N' FROM generate_series(1, 20000) g",
        "INSERT INTO wide SELECT g, repeat('w', 5000) FROM generate_series(1, 50) g",
    )
    return feed


@pytest.fixture(scope="module")
def small() -> Iterator[SmallSegments]:
    """A server with small segments, which is impatient and keeps no old WAL."""
    from servers.wal import SmallSegments

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
    from servers.receiving import execute
    from servers.wal import until_unused

    name = "kept"
    execute(small.dsn, f"SELECT pg_create_physical_replication_slot('{name}', true)")
    yield name
    until_unused(small)
    execute(small.dsn, f"SELECT pg_drop_replication_slot('{name}')")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file whose tests all need a server is not imported for `-m 'not live'`."""
    if "not live" not in config.option.markexpr or collection_path.suffix != ".py":
        return None
    text = collection_path.read_text("utf-8")
    return (
        True if re.search(r"^pytestmark = [^@]*?\.live\b", text, re.MULTILINE) else None
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what needs a server, and what is run on one server for each change.

    Tests with a server come first: see the Makefile. In make test-all, each runs on all servers.
    """
    for item in items:
        if not _SERVERS.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.live)
        if item.path.name.startswith(_LONG) and "[embedded-16" in item.name:
            item.add_marker(pytest.mark.slow)
    items.sort(key=lambda item: item.get_closest_marker("live") is None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A server refuses to start in a test that is not marked with `live`."""
    if item.get_closest_marker("live"):
        os.environ.pop("WALROW_NO_SERVER", None)
    else:
        os.environ["WALROW_NO_SERVER"] = item.nodeid
    return (yield)


#: The fixtures that start a server, also those of single folders and files.
_SERVERS = {"server", "own", "small", "shop"}
#: Faults of receivers and loads take seconds each, and types have thousands of tests.
_LONG = (
    "test_backup",
    "test_physical",
    "test_receiver",
    "test_run",
    "test_protocols",
    "test_load",
    "test_completeness",
    "test_first_look",
    "test_first_loads",
    "test_looks",
    "test_left",
    "test_before_a_load",
    "test_open_transactions",
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


@pytest.fixture
def world(server: EmbeddedServer, tmp_path: Path) -> Iterator[World]:
    """A database of its own, and no log yet."""
    from servers.world import World

    with server.database("world") as database:
        found = World(server.dsn_of(database), tmp_path / "log", f"s_{database}")
        yield found
        found.close()
