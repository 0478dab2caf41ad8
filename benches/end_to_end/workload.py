"""The table, and the transactions that all ways get: the same ones in the same order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = "public.orders"
CREATE = """
CREATE TABLE orders (
    id bigint PRIMARY KEY,
    customer integer NOT NULL,
    status text NOT NULL,
    amount numeric(12,2) NOT NULL,
    placed timestamptz NOT NULL,
    note text
);
CREATE PUBLICATION orders FOR TABLE orders;
"""
#: The columns of the Delta table. walrow takes them from the server.
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("customer", pa.int32()),
        ("status", pa.string()),
        ("amount", pa.decimal128(12, 2)),
        ("placed", pa.timestamp("us", "UTC")),
        ("note", pa.string()),
    ]
)


class Phase(NamedTuple):
    """Transactions. The last one inserts a row whose key is negative: it shows that all are there.

    Attributes:
        name: Its name.
        statements: Their SQL, for a number of rows and a number of changes.
    """

    name: str
    statements: Callable[[int, int], str]


# No random(): the same rows each time. Multiplying by a prime scatters them.
def _inserts(rows: int, _: int) -> str:
    return f"""
DO $$ BEGIN FOR part IN 0 .. {rows // 100 - 1} LOOP
    INSERT INTO orders SELECT n, n * 7919::bigint % 50000, 'new', n % 10000 / 100.0, now(),
        CASE WHEN n % 5 > 0 THEN left(md5(n::text), 5 + n % 28) END
    FROM generate_series(part * 100 + 1, part * 100 + 100) n;
    COMMIT;
END LOOP; END $$
"""  # noqa: S608


def _changes(rows: int, changes: int) -> str:
    # As in pgbench, each transaction has three updates and one insert. In each tenth one, a
    # delete of a newer row is in the place of an update.
    return f"""
DO $$ BEGIN FOR i IN 1 .. {changes // 4} LOOP
    UPDATE orders SET amount = i % 10000 / 100.0, placed = now()
        WHERE id = i * 7919::bigint % {rows} + 1;
    UPDATE orders SET status = 'paid', amount = amount + 1
        WHERE id = i * 104729::bigint % {rows} + 1;
    IF i % 10 = 0 THEN
        DELETE FROM orders WHERE id = {rows} + i - 5;
    ELSE
        UPDATE orders SET status = 'sent', note = 'at the door'
            WHERE id = i * 1299709::bigint % {rows} + 1;
    END IF;
    INSERT INTO orders VALUES ({rows} + i, i % 50000, 'new', i % 10000 / 100.0, now(), NULL);
    COMMIT;
END LOOP; END $$
"""  # noqa: S608


def _nothing(_: int, __: int) -> str:
    return ""


PHASES = (
    Phase("inserts", _inserts),
    Phase("changes", _changes),
    Phase("one row", _nothing),
)


def rows_of(phase: Phase, rows: int, changes: int) -> int:
    """The number of changes of a phase."""
    return {"inserts": rows, "changes": changes // 4 * 4}.get(phase.name, 0) + 1


def last_key(phase: Phase) -> int:
    """The key of the last row of a phase."""
    return -1 - PHASES.index(phase)


def last_row(phase: Phase) -> str:
    """The last transaction of a phase."""
    return f"INSERT INTO orders VALUES ({last_key(phase)}, 0, 'end', 0, now(), NULL)"  # noqa: S608
