"""The changes that a receiver is measured with, as SQL, and the server that makes them."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from server import running_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server import Server

__all__ = ["LOADS", "Load", "loaded_server"]


class Load(NamedTuple):
    """Changes that a server makes by itself.

    Attributes:
        changes: How many rows it inserts or updates for each turn.
        turn: A transaction, in PL/pgSQL. `i` is its number.
    """

    changes: int
    turn: str

    def sql(self, turns: int) -> str:
        """A statement that makes so many transactions."""
        return (
            f"DO $$ BEGIN FOR i IN 1..{turns} LOOP {self.turn} COMMIT; END LOOP; END $$"
        )


TABLES = """
CREATE TABLE narrow (id serial PRIMARY KEY, n int, at timestamptz);
CREATE TABLE wide (id serial PRIMARY KEY, body text);
CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int, filler char(84));
CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int, filler char(84));
CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int, filler char(88));
CREATE TABLE pgbench_history
    (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
INSERT INTO pgbench_accounts SELECT g, g % 10 + 1, 0, '' FROM generate_series(1, 100000) g;
INSERT INTO pgbench_tellers SELECT g, g % 10 + 1, 0, '' FROM generate_series(1, 100) g;
INSERT INTO pgbench_branches SELECT g, 0, '' FROM generate_series(1, 10) g;
CREATE PUBLICATION p FOR ALL TABLES;
"""

LOADS = {
    "pgbench": Load(
        4,
        """
        UPDATE pgbench_accounts SET abalance = abalance + i WHERE aid = i * 7919 % 100000 + 1;
        UPDATE pgbench_tellers SET tbalance = tbalance + i WHERE tid = i % 100 + 1;
        UPDATE pgbench_branches SET bbalance = bbalance + 1 WHERE bid = i % 10 + 1;
        INSERT INTO pgbench_history
            VALUES (i % 100 + 1, i % 10 + 1, i * 7919 % 100000 + 1, i, now());
        """,
    ),
    "narrow, 100 rows a transaction": Load(
        100,
        "INSERT INTO narrow (n, at) SELECT g, now() FROM generate_series(1, 100) g;",
    ),
    "one row a transaction": Load(
        1, "INSERT INTO narrow (n, at) VALUES (i, clock_timestamp());"
    ),
    "wide, 10 rows a transaction": Load(
        10,
        "INSERT INTO wide (body)"
        " SELECT repeat(md5(g::text), 60) FROM generate_series(1, 10) g;",
    ),
}


@contextmanager
def loaded_server() -> Iterator[Server]:
    """Runs a server with the tables, and with the publication `p` of all of them."""
    with running_server() as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            # Its workers would count as walsenders.
            connection.execute("ALTER SYSTEM SET autovacuum = off")
            connection.execute("SELECT pg_reload_conf()")
            connection.execute(TABLES)
        yield server
