"""A loop around libpq that drops each message: drain.py DSN SLOT.

This is the least that a client in Python does: no reader of a slot through psycopg is cheaper.
"""

from __future__ import annotations

import select
import sys
from contextlib import closing
from typing import TYPE_CHECKING

import psycopg

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn


def drain(dsn: str, slot: str) -> None:
    """Takes everything that is committed by now."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT pg_current_wal_lsn() - '0/0'").fetchone()
    end = int(row[0]) if row else 0
    stream = psycopg.connect(f"{dsn} replication=database", autocommit=True)
    with closing(stream):
        pgconn = stream.pgconn
        start = (
            f"START_REPLICATION SLOT {slot} LOGICAL 0/0"
            " (proto_version '4', streaming 'parallel', publication_names 'p')"
        )
        pgconn.send_query(start.encode())
        position = 0
        while pgconn.is_busy():
            wait(pgconn)
        pgconn.get_result()
        while position < end:
            size, payload = pgconn.get_copy_data(1)
            if size == 0:
                wait(pgconn)
            elif payload[0] == ord("k"):
                position = int.from_bytes(payload[1:9])


def wait(pgconn: PGconn) -> None:
    """Reads what arrives."""
    select.select([pgconn.socket], [], [])
    pgconn.consume_input()


if __name__ == "__main__":
    drain(*sys.argv[1:])
