"""`Log.state` is the table of a server as of every point where the server was asked.

A seed determines a random workload of one connection. At many points its tables are read with
SELECT, and compared with the states of the log as of these points. The log has text and binary
rows in turn, and loads between them.

A failure names the seed. `WALROW_SEED=NUMBER` sets the seed of the random workload.
"""

# ruff: noqa: S608  (statements are put together here, from parts of its own)

from __future__ import annotations

import contextlib
import os
import random
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import psycopg
import pytest

import walrow
from servers.receiving import ReceiverProcess
from walrow import postgres
from walrow._core import LogWriter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import EmbeddedServer

pa = pytest.importorskip("pyarrow")
pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

_RUN = random.Random(os.environ.get("PYTEST_XDIST_TESTRUNUID"))  # noqa: S311
SEEDS = [1, 2, int(os.environ.get("WALROW_SEED") or _RUN.randrange(1 << 32))]

COLUMNS = "a int, b text, n numeric, w timestamptz, f float8, d bytea, big text"
#: Tables: what comes after their columns, and their replica identity.
TABLES = {
    "key": ("id int PRIMARY KEY", "DEFAULT"),
    "pair": ("id int, k numeric, t timestamptz, PRIMARY KEY (k, id, t)", "DEFAULT"),
    "chosen": ("id int PRIMARY KEY, c text NOT NULL", "USING INDEX chosen_c"),
    "whole": ("id int", "FULL"),
    "late": ("id int PRIMARY KEY DEFERRABLE INITIALLY DEFERRED", "FULL"),
    "adds": ("id int", "NOTHING"),
}
#: Values of the columns, which repeat: rows without a key may be equal.
VALUES = {
    "a": "floor(random() * 3)::int",
    "b": "(ARRAY['x', 'y', NULL, E'\\\\n\\'\"'])[floor(random() * 4) + 1]",
    "n": "(ARRAY[1.0, 1.00, -7, NULL, 'NaN'])[floor(random() * 5) + 1]",
    "w": "(ARRAY['2024-02-29 12:00+00', 'infinity', NULL])[floor(random() * 3) + 1]::timestamptz",
    "f": "(ARRAY[0.1, '-0', 'NaN', NULL])[floor(random() * 4) + 1]::float8",
    "d": "(ARRAY['\\x00ff', '', NULL])[floor(random() * 3) + 1]::bytea",
    # Too large for its row, and not compressed: it is only sent if it changes.
    "big": "repeat((ARRAY['p', 'q', NULL])[floor(random() * 3) + 1], 2500)",
}


class Table(NamedTuple):
    """A table as SELECT found it."""

    oid: int
    columns: list[str]
    rows: Counter[tuple[str | None, ...]]


class World:
    """The tables of a server, a log of their changes, and what SELECT found at which point."""

    def __init__(self, conn: psycopg.Connection[Any], seed: int, log: Path) -> None:
        self.conn = conn
        self.random = random.Random(seed)  # noqa: S311
        self.log = log
        self.writer = LogWriter(
            log,
            segment_bytes=20_000,
            level=1,
            spool_memory=1 << 20,
            framing="message",
            syncs=False,
        )
        self.next_id = 0
        self.binary = False
        self.added: dict[str, list[str]] = {name: [] for name in TABLES}
        self.points: list[tuple[walrow.Lsn, dict[str, Table]]] = []
        #: The points of each table's loads, by OID.
        self.loads: dict[int, list[walrow.Lsn]] = {}
        conn.execute(f"SELECT setseed({self.random.random()})")
        for name in TABLES:
            self.create(name)
        conn.execute("CREATE PUBLICATION states FOR ALL TABLES")
        conn.execute("SELECT pg_create_logical_replication_slot('states', 'pgoutput')")

    def execute(self, statement: str) -> None:
        self.conn.execute(statement.encode())

    def create(self, name: str) -> None:
        more, identity = TABLES[name]
        self.execute(f"CREATE TABLE {name} ({more}, {COLUMNS})")
        self.execute(f"ALTER TABLE {name} ALTER big SET STORAGE EXTERNAL")
        if name == "chosen":
            self.execute("CREATE UNIQUE INDEX chosen_c ON chosen (c)")
        self.execute(f"ALTER TABLE {name} REPLICA IDENTITY {identity}")
        self.added[name] = []

    # ------------------------------------------------------------------ changes

    def transaction(self) -> None:
        self.execute("BEGIN")
        for _ in range(self.random.randint(1, 8)):
            if self.random.random() < 0.15:
                self.execute("SAVEPOINT one")
                self.change()
                if self.random.random() < 0.6:
                    self.execute("ROLLBACK TO one")
                else:
                    self.execute("RELEASE one")
            else:
                self.change()
        self.execute("ROLLBACK" if self.random.random() < 0.1 else "COMMIT")

    def change(self) -> None:
        name = self.random.choice(list(TABLES))
        if name == "adds":
            self.random.choice([self.insert, self.insert, self.truncate])(name)
            return
        kinds = {
            self.insert: 30,
            self.update: 30,
            self.update_key: 15,
            self.delete: 10,
            self.truncate: 1,
        }
        (kind,) = self.random.choices(list(kinds), list(kinds.values()))
        kind(name)

    def insert(self, name: str) -> None:
        columns = [*VALUES, "id", *self.added[name]]
        for _ in range(self.random.randint(1, 4)):
            self.next_id += 1
            values = [*VALUES.values(), str(self.next_id)]
            if name == "whole":
                values[-1] = "1"
            values += ["'new'"] * len(self.added[name])
            keys = {
                "pair": {
                    "k": f"{self.next_id % 7}.50",
                    "t": "'2024-01-01'::timestamptz",
                },
                "chosen": {"c": f"'c{self.next_id}'"},
            }.get(name, {})
            self.execute(
                f"INSERT INTO {name} ({', '.join([*columns, *keys])}) VALUES "
                f"({', '.join([*values, *keys.values()])})"
            )

    def some(self, name: str) -> str:
        return (
            f"ctid IN (SELECT ctid FROM {name} ORDER BY random() "
            f"LIMIT {self.random.randint(1, 3)})"
        )

    def update(self, name: str) -> None:
        columns = self.random.sample(list(VALUES), self.random.randint(1, 3))
        sets = ", ".join(f"{column} = {VALUES[column]}" for column in columns)
        self.execute(f"UPDATE {name} SET {sets} WHERE {self.some(name)}")

    def update_key(self, name: str) -> None:
        """Moves one key, swaps two, or moves all by one."""
        self.next_id += 1
        free = 1_000_000 + self.next_id
        if name == "late":
            # Two rows have one key until the end of the transaction.
            self.execute("UPDATE late SET id = id + 1")
        elif name == "chosen":
            self.execute(
                "UPDATE chosen SET c = c || '+' WHERE length(c) < 40 AND "
                + self.some(name)
            )
        elif name == "key" and self.random.random() < 0.5:
            self.execute(
                f"UPDATE key SET id = -{free} WHERE id = (SELECT min(id) FROM key)"
            )
            self.execute(
                "UPDATE key SET id = id - 1 WHERE id = (SELECT max(id) FROM key) "
                "AND NOT EXISTS (SELECT FROM key k WHERE k.id = key.id - 1)"
            )
            self.execute(f"UPDATE key SET id = {free} WHERE id = -{free}")
        elif name == "pair":
            # The same number with other digits is another key to replication.
            self.execute(
                f"UPDATE pair SET k = k + 0.000, t = t + '1 s' WHERE {self.some(name)}"
            )
        else:
            one = (
                self.some(name)
                .replace("LIMIT 2", "LIMIT 1")
                .replace("LIMIT 3", "LIMIT 1")
            )
            self.execute(f"UPDATE {name} SET id = {free} WHERE {one}")

    def delete(self, name: str) -> None:
        self.execute(f"DELETE FROM {name} WHERE {self.some(name)}")

    def truncate(self, name: str) -> None:
        # The server refuses it while a deferred constraint is still to be checked.
        with (
            contextlib.suppress(psycopg.errors.ObjectInUse),
            self.conn.transaction(),
        ):
            self.execute(f"TRUNCATE {name}")

    def alter(self) -> None:
        """Changes a definition. A row after it tells the stream."""
        name = self.random.choice([each for each in TABLES if each != "adds"])
        added = self.added[name]
        kind = self.random.choice(["add", "add", "drop", "identity", "recreate"])
        self.execute("BEGIN")
        if kind == "add":
            self.next_id += 1
            added.append(f"x{self.next_id}")
            self.execute(f"ALTER TABLE {name} ADD COLUMN {added[-1]} text")
        elif kind == "drop" and added:
            self.execute(f"ALTER TABLE {name} DROP COLUMN {added.pop(0)}")
        elif kind == "identity" and name in {"key", "pair", "chosen"}:
            other = self.random.choice(["FULL", TABLES[name][1]])
            self.execute(f"ALTER TABLE {name} REPLICA IDENTITY {other}")
        elif kind == "recreate":
            self.execute(f"DROP TABLE {name}")
            self.create(name)
        self.insert(name)
        self.execute("COMMIT")

    # ------------------------------------------------------------- log and points

    def lsn(self) -> walrow.Lsn:
        found = self.conn.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert found is not None
        return walrow.Lsn(found[0])

    def take(self) -> None:
        """Takes the changes so far into the log."""
        self.binary = not self.binary
        rows = self.conn.execute(
            "SELECT lsn, xid, data FROM pg_logical_slot_get_binary_changes('states', "
            "NULL, NULL, 'proto_version', '1', 'publication_names', 'states', "
            "'binary', %s)",
            [str(self.binary).lower()],
        )
        self.writer.next_session()
        for row in rows:
            self.writer.append(row)
            if self.writer.is_full:
                self.writer.publish()
        self.writer.sync()
        if self.random.random() < 0.5:
            self.writer.publish()

    def load(self) -> None:
        """Loads some tables."""
        self.take()
        self.conn.execute("SELECT pg_logical_emit_message(false, '', '')")
        point = self.lsn()
        names = self.random.sample(list(TABLES), 2)
        known = {
            name: (oid, letter)
            for name, oid, letter in self.conn.execute(
                "SELECT relname, oid, relreplident FROM pg_class"
            )
        }
        catalog = postgres.catalog(self.conn)
        tables = [known[name] for name in names]
        load = self.writer.begin_load(point, 0, catalog, tables)
        for place, name in enumerate(names):
            binary = self.random.random() < 0.5
            copy = load.copy(place, binary=binary)
            form = "WITH (FORMAT binary)" if binary else ""
            with self.conn.cursor().copy(f"COPY {name} TO STDOUT {form}") as data:
                for chunk in data:
                    copy.append(bytes(chunk))
        self.point(point)
        # What comes while tables are copied.
        self.transaction()
        self.point()
        self.take()
        while not self.writer.end_load(load):
            self.transaction()
            self.take()
        for oid, _ in tables:
            self.loads.setdefault(oid, []).append(point)

    def point(self, lsn: walrow.Lsn | None = None) -> None:
        """Reads the tables."""
        lsn = lsn or self.lsn()
        oids: dict[str, int] = dict(
            self.conn.execute("SELECT relname, oid FROM pg_class").fetchall()
        )
        tables = {}
        for name in TABLES:
            cursor = self.conn.execute(f"SELECT * FROM {name} LIMIT 0")
            columns = [column.name for column in cursor.description or ()]
            texts = ", ".join(f"{column}::text" for column in columns)
            rows = self.conn.execute(f"SELECT {texts} FROM {name}")
            tables[name] = Table(oids[name], columns, Counter(map(tuple, rows)))
        self.points.append((lsn, tables))

    def run(self, steps: int) -> None:
        for step in range(steps):
            self.transaction()
            chance = self.random.random()
            if chance < 0.15:
                self.alter()
            if chance < 0.4:
                self.point()
            if 0.5 < chance < 0.7:
                self.take()
            if step > steps // 3 and 0.8 < chance < 0.88:
                self.load()
        self.point()
        self.take()
        self.writer.publish()
        self.writer.close()


@pytest.fixture
def conn(server: EmbeddedServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server.dsn, autocommit=True) as admin:
        admin.execute("CREATE DATABASE states")
    try:
        with psycopg.connect(server.dsn_of("states"), autocommit=True) as conn:
            conn.execute("SET TimeZone = 'UTC'")
            yield conn
            conn.execute("SELECT pg_drop_replication_slot('states')")
    finally:
        with psycopg.connect(server.dsn, autocommit=True) as admin:
            admin.execute("DROP DATABASE states WITH (FORCE)")


@pytest.mark.parametrize("seed", SEEDS)
def test_states_are_the_tables_of_the_server(
    conn: psycopg.Connection[Any], tmp_path: Path, seed: int
) -> None:
    world = World(conn, seed, tmp_path / "log")
    world.run(120)
    log = walrow.Log(world.log)
    compared = refused = 0
    for lsn, tables in world.points:
        for name, (oid, columns, expected) in tables.items():
            loads = world.loads.get(oid, [])
            if loads and lsn < loads[0]:
                with pytest.raises(walrow.LogError) as raised:
                    log.state(f"public.{name}", as_of=lsn)
                assert (raised.value.code, raised.value.lsn) == ("too_early", loads[0])
                refused += 1
                continue
            try:
                state = log.state(f"public.{name}", as_of=lsn, profile="text")
                found = state.to_pyarrow()
            except walrow.LogError as error:
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


def test_states_of_a_receiver_that_loads_beside_changes(
    conn: psycopg.Connection[Any], server: EmbeddedServer, tmp_path: Path
) -> None:
    conn.execute("CREATE TABLE busy (id int PRIMARY KEY, n int, big text)")
    conn.execute("ALTER TABLE busy ALTER big SET STORAGE EXTERNAL")
    conn.execute(
        "INSERT INTO busy SELECT id, 0, repeat('x', 2500) FROM generate_series(1, 900) id"
    )
    conn.execute("CREATE PUBLICATION states FOR TABLE busy")
    dsn, log = server.dsn_of("states"), tmp_path / "log"
    options: dict[str, Any] = {"log": log, "slot": "states", "publications": "states"}
    with Busy(dsn) as busy:
        busy.stop.wait(0.5)
        walrow.receive(dsn, create=True, snapshot=True, until="now", **options)
        process = ReceiverProcess(
            dsn, log, "--age", "0.2", slot="states", publication="states"
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
        except walrow.LogError as error:
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
