"""`Log.state` is the table of a server as of every point where the server was asked.

A seed determines a random workload of one connection. At many points its tables are read with
SELECT, and compared with the states of the log as of these points. The log has text and binary
rows in turn, and loads between them.

A failure names the seed. `WALROW_SEED=NUMBER` sets the seed of the random workload.
"""

# ruff: noqa: S608  (the statements have only the test's own parts)

from __future__ import annotations

import os
import random
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import psycopg
import pytest

import walrow
from servers import EmbeddedServer
from servers.churn import Churn
from servers.live_log import History, history
from servers.receiving import ReceiverProcess, execute

pa = pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

_RUN = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))  # noqa: S311
SEEDS = [1, 2, int(os.environ.get("WALROW_SEED") or _RUN.randrange(1 << 32))]


class Table(NamedTuple):
    """A table as SELECT found it."""

    oid: int
    columns: list[str]
    rows: Counter[tuple[str | None, ...]]


class World:
    """The log of a random workload, and what SELECT found at which point."""

    def __init__(self, source: History, seed: int) -> None:
        self.source = source
        self.churn = Churn(source, seed, for_spark=False)
        self.random = self.churn.random
        self.binary = False
        self.points: list[tuple[walrow.Lsn, dict[str, Table]]] = []
        #: The points of each table's loads, by OID.
        self.loads: dict[int, list[walrow.Lsn]] = {}

    def take(self, *, publish: bool) -> None:
        """Takes the changes so far into the log."""
        self.binary = not self.binary
        self.source.take(binary=self.binary, publish=publish)

    def load(self) -> None:
        """Loads some tables."""
        names = self.random.sample(list(self.churn.tables), 2)
        points: list[walrow.Lsn] = []

        def meanwhile(point: walrow.Lsn) -> None:
            if not points:
                points.append(point)
                self.look(point)
            # What comes while tables are copied.
            self.churn.transaction()
            self.look()

        binary = self.random.random() < 0.5
        self.source.load(*names, binary=binary, meanwhile=meanwhile)
        _, tables = next(it for it in self.points if it[0] == points[0])
        for name in names:
            self.loads.setdefault(tables[name].oid, []).append(points[0])

    def look(self, lsn: walrow.Lsn | None = None) -> None:
        """Reads the tables."""
        conn = self.source.conn
        lsn = lsn or self.source.lsn()
        oids: dict[str, int] = dict(
            conn.execute("SELECT relname, oid FROM pg_class").fetchall()
        )
        tables = {}
        for name in self.churn.tables:
            cursor = conn.execute(f"SELECT * FROM {name} LIMIT 0")
            columns = [column.name for column in cursor.description or ()]
            rows = self.source.texts(name, columns)
            tables[name] = Table(oids[name], columns, rows)
        self.points.append((lsn, tables))

    def run(self, steps: int) -> None:
        for step in range(steps):
            self.churn.transaction()
            chance = self.random.random()
            if chance < 0.15:
                self.churn.alter()
            if chance < 0.4:
                self.look()
            if 0.5 < chance < 0.7:
                self.take(publish=self.random.random() < 0.5)
            if step > steps // 3 and 0.8 < chance < 0.88:
                self.load()
        self.look()
        self.take(publish=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_states_are_the_tables_of_the_server(
    server: EmbeddedServer, tmp_path: Path, seed: int
) -> None:
    with history(server, tmp_path / "log") as source:
        world = World(source, seed)
        world.run(120)
    log = walrow.Log(tmp_path / "log")
    compared = refused = 0
    for lsn, tables in world.points:
        for name, (oid, columns, expected) in tables.items():
            loads = world.loads.get(oid, [])
            if loads and lsn < loads[0]:
                with pytest.raises(walrow.errors.LogError) as raised:
                    log.state(f"public.{name}", as_of=lsn)
                assert (raised.value.code, raised.value.lsn) == ("too_early", loads[0])
                refused += 1
                continue
            try:
                state = log.state(f"public.{name}", as_of=lsn, profile="text")
                found = state.to_pyarrow()
            except walrow.errors.LogError as error:
                # The stream has no change of the table yet.
                if error.code != "too_early" or loads or expected:
                    raise
                continue
            assert found.column_names == columns, (name, lsn)
            rows = Counter(tuple(row.values()) for row in found.to_pylist())
            assert rows == expected, (name, lsn)
            compared += sum(expected.values())
    assert compared > 1000
    assert refused


class Busy:
    """A table that two connections change, and what SELECT found at which point."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.points: list[tuple[walrow.Lsn, Counter[Any]]] = []
        self.stop = threading.Event()
        self.threads = [
            threading.Thread(target=self.change, args=(1,)),
            threading.Thread(target=self.change, args=(2,)),
            threading.Thread(target=self.look),
        ]

    def __enter__(self) -> Self:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def change(self, seed: int) -> None:
        source = random.Random(seed)  # noqa: S311
        statements = (
            "UPDATE busy SET n = n + 1 WHERE id = %(row)s",
            "UPDATE busy SET big = repeat('y', 2600) WHERE id = %(row)s",
            "UPDATE busy SET id = %(free)s WHERE id = %(row)s",
            "INSERT INTO busy VALUES (%(row)s, 0, 'new') ON CONFLICT DO NOTHING",
            "DELETE FROM busy WHERE id = %(row)s",
        )
        with psycopg.connect(self.dsn, autocommit=True) as writer:
            while not self.stop.is_set():
                numbers = {
                    "row": source.randrange(1, 900),
                    "free": source.randrange(10**6, 10**9),
                }
                writer.execute(source.choice(statements), numbers)

    def look(self) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as reader:
            while not self.stop.wait(0.1):
                with reader.transaction():
                    # All transactions that changed it are committed.
                    reader.execute("LOCK TABLE busy IN SHARE MODE")
                    rows = Counter(reader.execute("SELECT * FROM busy").fetchall())
                    ((lsn,),) = reader.execute(
                        "SELECT pg_current_wal_insert_lsn()::text"
                    ).fetchall()
                self.points.append((walrow.Lsn(lsn), rows))


@pytest.fixture
def states(server: EmbeddedServer) -> Iterator[str]:
    with server.database("states") as name:
        yield server.dsn_of(name)
        execute(server.dsn_of(name), "SELECT pg_drop_replication_slot('states')")


def test_states_of_a_receiver_that_loads_beside_changes(
    states: str, tmp_path: Path
) -> None:
    execute(
        states,
        "CREATE TABLE busy (id int PRIMARY KEY, n int, big text)",
        "ALTER TABLE busy ALTER big SET STORAGE EXTERNAL",
        "INSERT INTO busy SELECT id, 0, repeat('x', 2500) FROM generate_series(1, 900) id",
        "CREATE PUBLICATION states FOR TABLE busy",
    )
    dsn, log = states, tmp_path / "log"
    options: dict[str, Any] = {"log": log, "slot": "states", "publications": "states"}
    with Busy(dsn) as busy:
        busy.stop.wait(0.5)
        walrow.receive(dsn, create=True, snapshot=True, until="now", **options)
        process = ReceiverProcess(
            dsn, log, "--publish-after", "0.2", slot="states", publication="states"
        )
        with process as receiver:
            receiver.until_streaming()
            walrow.load(["public.busy"], log=log, timeout=60)
            busy.stop.wait(1)
            receiver.stop()
    walrow.receive(dsn, until="now", **options)
    found = walrow.Log(log)
    first, compared = walrow.Lsn(0), 0
    for lsn, rows in busy.points:
        try:
            state = found.state("busy", as_of=lsn).to_pyarrow()
        except walrow.errors.LogError as error:
            if error.code != "too_early" or error.lsn is None or error.lsn <= lsn:
                raise
            first = error.lsn
            continue
        assert Counter(tuple(row.values()) for row in state.to_pylist()) == rows, lsn
        compared += 1
    assert compared > 5
    (table,) = found.tables()
    assert table.loaded is not None
    assert table.loaded > first > 0, "there were two loads"
