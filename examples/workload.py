"""The demo's tables, and what an application does with them."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    import threading

    from server import Server


def make_tables(server: Server) -> None:
    """Makes tables with rows, and those of pgbench."""
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(_TABLES)
    pgbench = server.bin / "pgbench"
    if pgbench.exists():
        make = [str(pgbench), "-i", "-q", server.dsn]
        subprocess.run(make, check=True, capture_output=True)  # noqa: S603


def workload(server: Server, stop: threading.Event) -> None:
    """Runs typical statements of applications, and some unusual ones, until it is stopped."""
    pgbench = server.bin / "pgbench"
    ours: subprocess.Popen[bytes] | None = None
    if pgbench.exists():
        # A limit, in case that nobody stops it.
        run = [str(pgbench), "-n", "-c", "2", "-R", "100", "-T", "600", server.dsn]
        ours = subprocess.Popen(  # noqa: S603
            run, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
    try:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            number = 0
            while not stop.wait(_PAUSE):
                number += 1
                for kind, statements in _ROUND.items():
                    if kind == "sometimes" and number % 10:
                        continue
                    with connection.transaction() as transaction:
                        for statement in statements:
                            connection.execute(statement, {"n": number})
                        if kind == "never":
                            raise psycopg.Rollback(transaction)
                if ours is not None and ours.poll() is not None:
                    msg = f"pgbench failed with {ours.returncode}"
                    raise RuntimeError(msg)
    finally:
        if ours is not None and ours.poll() is None:
            ours.kill()
            ours.wait()


#: Between two rounds, in seconds.
_PAUSE = 0.5

_TABLES = """
CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL, email varchar(80),
    joined date, active bool, balance numeric(12,2), address jsonb);
CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, customer int,
    total numeric(12,2), placed timestamptz, token uuid, details jsonb, tags text[],
    status varchar(20));
CREATE TABLE events (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, at timestamp,
    payload bytea, reading float8, day date, level int2, clock time, ratio real);
-- Bodies are stored out of line: an update of the title does not send them.
CREATE TABLE documents (id int PRIMARY KEY, title text, revision int, body text);
ALTER TABLE documents ALTER COLUMN body SET STORAGE EXTERNAL;
-- No key, and equal rows: the server sends complete old rows.
CREATE TABLE stock (shelf text, product text, quantity int, note text);
ALTER TABLE stock REPLICA IDENTITY FULL;
ALTER TABLE stock ALTER COLUMN note SET STORAGE EXTERNAL;
INSERT INTO customers SELECT n, 'Customer ' || n || ' Ünïcode ☃',
    CASE WHEN n % 4 > 0 THEN 'c' || n || '@example.org' END, date '2020-01-01' + n,
    n % 3 = 0, n * 1.25, jsonb_build_object('city', 'No. ' || n, 'zip', n)
    FROM generate_series(1, 200) AS n;
INSERT INTO documents SELECT n, 'Title ' || n, 1, repeat(md5(n::text), 200)
    FROM generate_series(1, 100) AS n;
INSERT INTO stock SELECT 'shelf ' || n % 20, 'product ' || n % 50, n % 7,
    CASE WHEN n % 5 = 0 THEN repeat(md5(n::text), 100) END
    FROM generate_series(1, 300) AS n;
"""

# Each list is one transaction.
_ROUND: dict[str, list[str]] = {
    "orders": [
        """
        INSERT INTO orders (customer, total, placed, token, details, tags, status)
        SELECT 1 + (random() * 199)::int, (random() * 10000)::numeric(12,2),
            clock_timestamp(), gen_random_uuid(),
            jsonb_build_object('items', n, 'gift', n %% 2 = 0, 'price', 0.1::numeric),
            CASE n %% 4 WHEN 0 THEN NULL WHEN 1 THEN '{}'::text[]
                ELSE ARRAY['new', NULL, 'a "quoted" \\ one', 'NULL', 'ü'] END,
            'open'
        FROM generate_series(1, 40) AS n, (SELECT %(n)s) AS once
        """,
        "UPDATE orders SET status = 'sent' WHERE id > %(n)s * 40 - 80 AND id %% 3 = 0",
        "DELETE FROM orders WHERE id > %(n)s * 40 - 400 AND id %% 17 = %(n)s %% 17",
        "UPDATE customers SET balance = balance - 1.01 WHERE id %% 50 = %(n)s %% 50",
    ],
    "documents": [
        "UPDATE documents SET title = 'Title ' || %(n)s::int, revision = revision + 1"
        " WHERE id %% 10 = %(n)s %% 10",
        "UPDATE documents SET body = repeat(md5(title), 150) WHERE id = %(n)s %% 100",
    ],
    "stock": [
        "UPDATE stock SET quantity = quantity + 1 WHERE shelf = 'shelf ' || %(n)s %% 20",
        "DELETE FROM stock WHERE ctid IN"
        " (SELECT ctid FROM stock WHERE product = 'product ' || %(n)s %% 50 LIMIT 1)",
        "INSERT INTO stock SELECT 'shelf 1', 'product ' || %(n)s %% 50, 1, NULL"
        " FROM generate_series(1, 2)",
    ],
    "events": [
        """
        INSERT INTO events (at, payload, reading, day, level, clock, ratio)
        SELECT clock_timestamp() AT TIME ZONE 'UTC', decode(md5(n::text), 'hex'),
            CASE n %% 9 WHEN 0 THEN 'NaN' WHEN 1 THEN '-Infinity' WHEN 2 THEN NULL
                ELSE random() END,
            date '0044-03-15 BC' + n * 9999, n, time '00:00' + n * interval '1.000001 s',
            n / 3.0
        FROM generate_series(1, 20) AS n, (SELECT %(n)s) AS once
        """
    ],
    "never": ["DELETE FROM customers", "UPDATE orders SET total = %(n)s"],
    "sometimes": [
        "TRUNCATE events",
        # Changes the key.
        "UPDATE customers SET id = id + 1000 WHERE id = %(n)s",
        "UPDATE customers SET id = id - 1000 WHERE id = 1000 + %(n)s / 2",
    ],
}
