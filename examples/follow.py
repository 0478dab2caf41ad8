"""Follows a table of a running server: prints its changes, and confirms what it printed.

    python follow.py CONNINFO SLOT PUBLICATION TABLE

It reads the replication connection with psycopg and decodes it with `walrow.Decoder`.
"""

from __future__ import annotations

import select
import struct
import sys
import time

import psycopg
import pyarrow as pa
from psycopg import pq
from psycopg.conninfo import make_conninfo

import walrow
import walrow.postgres

#: PostgreSQL counts microseconds from 2000-01-01, Unix counts seconds from 1970.
EPOCH_2000 = 946_684_800
#: Shorter than `wal_sender_timeout`, which is 60 s by default.
STATUS_SECONDS = 10


def main(conninfo: str, slot: str, publication: str, table: str) -> None:
    """Prints changes until it is interrupted."""
    info = make_conninfo(
        conninfo, replication="database", options=walrow.postgres.options()
    )
    connection = pq.PGconn.connect(info.encode())
    command = (
        f"START_REPLICATION SLOT {slot} LOGICAL 0/0"
        f" (proto_version '1', publication_names '{publication}')"
    )
    result = connection.exec_(command.encode())
    if result.status != pq.ExecStatus.COPY_BOTH:
        raise psycopg.OperationalError(connection.get_error_message())

    decoder = walrow.Decoder(framing="copydata", table=table)
    confirmed, status_due = 0, time.monotonic() + STATUS_SECONDS
    while True:
        server_end, reply = 0, False
        while (message := connection.get_copy_data(1))[0] > 0:
            payload = message[1]
            if payload[0] == ord(
                "k"
            ):  # keepalive: the server's position, and a question
                server_end, reply = int.from_bytes(payload[1:9]), payload[17] == 1
            for batch in decoder.feed(payload):
                show(batch)
        if message[0] < 0:
            connection.get_result()
            raise psycopg.OperationalError(connection.get_error_message())

        for batch in decoder.flush():
            show(batch)
        # Everything up to here is printed: the server may now forget it. After a
        # keepalive between transactions, this includes changes of other tables.
        confirmed = max(confirmed, decoder.position)
        if not decoder.unfinished and not decoder.prepared:
            confirmed = max(confirmed, server_end)
        if reply or time.monotonic() > status_due:
            now = int((time.time() - EPOCH_2000) * 1_000_000)
            status = struct.pack(
                "!cQQQqB", b"r", confirmed, confirmed, confirmed, now, 0
            )
            connection.put_copy_data(status)
            connection.flush()
            status_due = time.monotonic() + STATUS_SECONDS

        select.select([connection.socket], [], [], 1)
        connection.consume_input()


def show(batch: walrow.Batch) -> None:
    """Prints the rows of a batch."""
    for row in pa.record_batch(batch).to_pylist():
        print(row, flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
