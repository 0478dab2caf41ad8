"""The workloads whose streams benches/captures.py records.

Each workload runs in a new database. All values follow from the number of the row, except for the
rows that pgbench chooses: two captures of one workload have the same rows, LSNs and times apart.
"""

# ruff: noqa: S608 -- no query has anything of a user

from __future__ import annotations

import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, LiteralString

import psycopg

if TYPE_CHECKING:
    from collections.abc import Callable

    from servers import EmbeddedServer


@dataclass(frozen=True)
class Workload:
    """Changes of one or more tables, recorded from a server.

    Attributes:
        about: The changes, for people.
        setup: SQL that runs before the slot exists, so that its rows are not in the stream.
            Its `{rows}` is the number of rows.
        changes: Makes the changes of so many rows in a database of a server.
        rows: The rows of the capture that is measured.
        small: The rows of the capture in benches/data.
        streamed: Whether large transactions are sent before their commit.
    """

    about: str
    setup: str
    changes: Callable[[EmbeddedServer, str, int], None]
    rows: int
    small: int
    streamed: bool = False


def _sql(template: str) -> Callable[[EmbeddedServer, str, int], None]:
    """Runs SQL with this number of rows in the place of `{rows}`."""

    def run(server: EmbeddedServer, database: str, rows: int) -> None:
        with _connected(server, database) as connection:
            connection.execute(template.replace("{rows}", str(rows)).encode())

    return run


def _connected(
    server: EmbeddedServer, database: str, *, autocommit: bool = True
) -> psycopg.Connection[Any]:
    return psycopg.connect(server.dsn_of(database), autocommit=autocommit)


def _in_transactions(change: str, size: int) -> Callable[..., None]:
    """Runs a change for the rows `first` to `last` in transactions of this many rows."""
    return _sql(f"""
DO $$
DECLARE first int; last int;
BEGIN
    FOR part IN 0 .. {{rows}} / {size} - 1 LOOP
        first := part * {size} + 1;
        last := (part + 1) * {size};
        {change}
        COMMIT;
    END LOOP;
END $$;
""")


def _inserts(table: str, values: str, size: int = 1_000) -> Callable[..., None]:
    rows = "generate_series(first, last) AS n"
    return _in_transactions(f"INSERT INTO {table} SELECT {values} FROM {rows};", size)


def _pgbench(server: EmbeddedServer, database: str, rows: int) -> None:
    """Loads the accounts, half of the rows; then pgbench's own transaction, of four rows."""
    _sql(_PGBENCH_ROWS)(server, database, rows // 2)
    clients = 2
    command = [
        str(server.bin / "pgbench"),
        *("--no-vacuum", "--client", str(clients), "--random-seed", "1"),
        *("--transactions", str(rows // 8 // clients), "--define", f"rows={rows // 2}"),
        *("--file", "/dev/stdin", server.dsn_of(database)),
    ]
    # The built-in script takes a hundred thousand accounts for granted.
    subprocess.run(  # noqa: S603
        command, input=_PGBENCH, check=True, capture_output=True, text=True
    )


def _streamed(server: EmbeddedServer, database: str, rows: int) -> None:
    """Four sessions take turns, so that four transactions are open; one in five savepoints goes."""
    sessions, turns = 4, 10
    size = min(rows // sessions // turns, 250)
    insert: LiteralString = (
        "INSERT INTO items SELECT "
        + _ITEM.replace("%", "%%")
        + " FROM generate_series(%s::int, %s::int) AS n"
    )
    with ExitStack() as stack:
        connections = [
            stack.enter_context(_connected(server, database, autocommit=False))
            for _ in range(sessions)
        ]
        row = 0
        while row < rows:
            for turn in range(turns):
                for connection in connections:
                    connection.execute("SAVEPOINT turn")
                    connection.execute(insert, (row + 1, row + size))
                    if turn % 5 == 3:  # noqa: PLR2004
                        connection.execute("ROLLBACK TO SAVEPOINT turn")
                    connection.execute("RELEASE SAVEPOINT turn")
                    row += size
            for connection in connections:
                connection.commit()


# No random(): the same rows each time. Multiplying by a prime scatters them.
_HISTORY_COLUMNS = (
    "tid int, bid int, aid int, delta int, mtime timestamp, filler char(22)"
)
_HISTORY = """
n % 10 + 1, n % 3 + 1, (n * 7919::int8) % 1000000 + 1, (n * 104729::int8) % 10001 - 5000,
timestamp '2024-01-01' + n * interval '1.234567 s', NULL
"""
_TEXTS = ", ".join(
    f"left(repeat(md5((n * {31 + i})::text), 2), 5 + ((n * {7919 + 2 * i}) % 36)::int)"
    for i in range(20)
)
_MIXED = {
    "id": ("int8", "n"),
    "region": ("int4", "(n * 7919) % 1000"),
    "priority": ("int2", "n % 7"),
    "customer": (
        "int4",
        "CASE WHEN n % 5 > 0 THEN (n * 104729::int8 % 100000)::int4 END",
    ),
    "price": ("numeric(12,2)", "(n * 7919::int8 % 10000000) / 100.0"),
    "tax": ("numeric(12,2)", "CASE WHEN n % 4 > 0 THEN (n * 31 % 100000) / 100.0 END"),
    "quantity": ("numeric(38,10)", "n / 7.0::numeric"),
    "placed": ("timestamptz", "timestamptz '2024-01-01+00' + n * interval '1.23456 s'"),
    "shipped": ("timestamptz", "timestamptz '2024-01-02+00' + n * interval '7 min'"),
    "local": ("timestamp", "timestamp '2023-06-01' + n * interval '1 min'"),
    "due": ("date", "date '2024-01-01' + n % 1000"),
    "at": ("time", "time '00:00' + n * interval '1.5 s'"),
    "token": ("uuid", "md5(n::text)::uuid"),
    "paid": ("bool", "n % 3 = 0"),
    "gift": ("bool", "CASE WHEN n % 5 > 0 THEN n % 2 = 0 END"),
    "status": ("varchar(20)", "(ARRAY['new', 'open', 'sent', 'returned'])[n % 4 + 1]"),
    "note": ("text", "CASE WHEN n % 5 > 0 THEN left(md5(n::text), 5 + n % 28) END"),
    "weight": ("float8", "n / 3.0::float8"),
    "score": ("float4", "(n % 1000)::float4 / 8"),
    "extra": ("jsonb", "jsonb_build_object('n', n, 'tags', ARRAY['a', 'b'])"),
}

_PGBENCH_TABLES = f"""
CREATE TABLE pgbench_history ({_HISTORY_COLUMNS});
CREATE TABLE pgbench_tellers (tid int PRIMARY KEY, bid int, tbalance int,
    filler char(84)) WITH (fillfactor = 100);
CREATE TABLE pgbench_accounts (aid int PRIMARY KEY, bid int, abalance int,
    filler char(84)) WITH (fillfactor = 100);
CREATE TABLE pgbench_branches (bid int PRIMARY KEY, bbalance int,
    filler char(88)) WITH (fillfactor = 100);
"""
_PGBENCH_ROWS = """
BEGIN;
TRUNCATE pgbench_accounts, pgbench_branches, pgbench_history, pgbench_tellers;
INSERT INTO pgbench_branches (bid, bbalance) VALUES (1, 0);
INSERT INTO pgbench_tellers (tid, bid, tbalance) SELECT n, 1, 0 FROM generate_series(1, 10) AS n;
INSERT INTO pgbench_accounts SELECT n, 1, 0, '' FROM generate_series(1, {rows}) AS n;
COMMIT;
"""
_PGBENCH = r"""
\set aid random(1, :rows)
\set bid 1
\set tid random(1, 10)
\set delta random(-5000, 5000)
BEGIN;
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
UPDATE pgbench_tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE pgbench_branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO pgbench_history (tid, bid, aid, delta, mtime)
    VALUES (:tid, :bid, :aid, :delta, CURRENT_TIMESTAMP);
END;
"""

_ITEM = (
    "n, (n * 7919::int8) % 1000, md5(n::text), timestamptz '2024-01-01+00' + n * interval '1 s',"
    " (n * 104729::int8 % 1000000) / 100.0"
)
_ITEM_COLUMNS = (
    "id int PRIMARY KEY, shelf int, name text, seen timestamptz, price numeric(12,2)"
)

# A body of 2,240 bytes lies outside of its row, uncompressed.
_ARTICLES = """
CREATE TABLE articles (id int PRIMARY KEY, views int, score float8, changed timestamptz, title text, body text);
ALTER TABLE articles ALTER body SET STORAGE EXTERNAL, REPLICA IDENTITY {identity};
INSERT INTO articles SELECT n, 0, 0, '2024-01-01+00', 'article ' || n, repeat(md5(n::text), 70)
FROM generate_series(1, {rows} / 2) AS n;
"""
# Each article is updated at most twice: one in sixteen gets another key, and one in sixteen another body.
_ARTICLE_UPDATES = """
UPDATE articles SET views = views + n, score = n / 8.0, changed = changed + n * interval '1.5 s',
    id = CASE WHEN n % 16 = 0 THEN -id ELSE id END,
    body = CASE WHEN n % 16 = 1 THEN repeat(md5((-n)::text), 70) ELSE body END
FROM generate_series(first, last) AS n
WHERE abs(id) = n % ({rows} / 2) + 1;
"""

_COLUMNS = {
    f"{family}{n}": (kind, values.replace("{n}", str(n)))
    for n in range(200)
    for family, kind, values in (
        ("int", "int4", "(n * 7919::int8 + {n}) % 1000000"),
        ("bool", "bool", "(n + {n}) % 3 = 0"),
        ("text", "text", "CASE WHEN (n + {n}) % 5 > 0 THEN 'text ' || {n} END"),
        ("time", "timestamp", "timestamp '2024-01-01' + n * interval '{n}.5 s'"),
    )
}

_TABLES = 1_000


def _table(name: str, columns: dict[str, tuple[str, str]], more: str = "") -> str:
    listed = ", ".join(f"{column} {kind}" for column, (kind, _) in columns.items())
    return f"CREATE TABLE {name} ({listed}{more});"


def _values(columns: dict[str, tuple[str, str]]) -> str:
    return ", ".join(values for _, values in columns.values())


WORKLOADS = {
    "narrow": Workload(
        "pgbench_history: 4 integers, a timestamp and a NULL, 1,000 rows a transaction",
        f"CREATE TABLE pgbench_history ({_HISTORY_COLUMNS});",
        _inserts("pgbench_history", _HISTORY),
        rows=200_000,
        small=5_000,
    ),
    "wide": Workload(
        "20 text columns of 5 to 40 bytes",
        _table("wide", {f"c{i}": ("text", "") for i in range(20)}),
        _inserts("wide", _TEXTS, size=500),
        rows=20_000,
        small=500,
    ),
    "mixed": Workload(
        "20 columns of the usual types, some with NULLs",
        _table("mixed", _MIXED, ", PRIMARY KEY (id)"),
        _inserts("mixed", _values(_MIXED)),
        rows=20_000,
        small=1_000,
    ),
    "pgbench": Workload(
        "pgbench: its accounts are loaded, then each transaction updates three tables and inserts",
        _PGBENCH_TABLES,
        _pgbench,
        rows=200_000,
        small=4_000,
    ),
    "tiny": Workload(
        "the rows of narrow, one row a transaction",
        f"CREATE TABLE pgbench_history ({_HISTORY_COLUMNS});",
        _inserts("pgbench_history", _HISTORY, size=1),
        rows=80_000,
        small=2_000,
    ),
    "updates": Workload(
        "updates of 6 columns with the whole old row (REPLICA IDENTITY FULL)",
        f"CREATE TABLE pgbench_history ({_HISTORY_COLUMNS});"
        " ALTER TABLE pgbench_history REPLICA IDENTITY FULL;"
        f" INSERT INTO pgbench_history SELECT {_HISTORY} FROM generate_series(1, {{rows}}) AS n;"
        " CREATE INDEX ON pgbench_history (mtime);",
        _in_transactions(
            "UPDATE pgbench_history SET delta = delta + 1, bid = bid + 1"
            " WHERE mtime BETWEEN timestamp '2024-01-01' + first * interval '1.234567 s'"
            " AND timestamp '2024-01-01' + last * interval '1.234567 s';",
            1_000,
        ),
        rows=80_000,
        small=3_000,
    ),
    "toast": Workload(
        "updates that keep a large value (not sent), some with an old key",
        _ARTICLES.replace("{identity}", "DEFAULT"),
        _in_transactions(_ARTICLE_UPDATES, 1_000),
        rows=40_000,
        small=2_000,
    ),
    "toast-full": Workload(
        "the same with the whole old row (REPLICA IDENTITY FULL), which has the large value",
        _ARTICLES.replace("{identity}", "FULL"),
        _in_transactions(_ARTICLE_UPDATES, 1_000),
        rows=6_000,
        small=1_000,
    ),
    "streamed": Workload(
        "four large transactions open at a time, streamed, with savepoints, some rolled back",
        f"CREATE TABLE items ({_ITEM_COLUMNS});",
        _streamed,
        rows=80_000,
        small=4_000,
        streamed=True,
    ),
    "columns": Workload(
        "800 columns: integers, booleans, texts, timestamps",
        _table("columns", _COLUMNS),
        _inserts("columns", _values(_COLUMNS), size=50),
        rows=1_000,
        small=50,
    ),
    "tables": Workload(
        "1,000 tables in turn, a row of each in a transaction",
        "DO $$ BEGIN FOR t IN 1 .. 1000 LOOP EXECUTE format("
        f"'CREATE TABLE t%s ({_HISTORY_COLUMNS})', t); COMMIT; END LOOP; END $$;",
        _sql(f"""
DO $$ BEGIN
    FOR part IN 0 .. {{rows}} / {_TABLES} - 1 LOOP
        FOR t IN 1 .. {_TABLES} LOOP
            EXECUTE format('INSERT INTO t%s SELECT {_HISTORY.replace("'", "''").replace("%", "%%")}'
                ' FROM (SELECT $1 AS n)', t) USING part * {_TABLES} + t;
        END LOOP;
        COMMIT;
    END LOOP;
END $$;
"""),
        rows=200_000,
        small=5_000,
    ),
}
