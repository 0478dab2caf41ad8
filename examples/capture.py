"""Captures the stream of a replication slot with psycopg, as a file that walrow reads.

with open("stream.wire", "wb") as sink:
    for captured in capture("dbname=shop", "slot", "publication", sink):
        if captured.position >= enough:
            break
"""

from __future__ import annotations

import select
import struct
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

import walrow.postgres

if TYPE_CHECKING:
    from collections.abc import Generator


@dataclass
class Captured:
    """What is in the file: everything that committed up to `position`."""

    bytes: int = 0
    transactions: int = 0
    position: int = 0


def capture(
    conninfo: str,
    slot: str,
    publication: str,
    sink: BinaryIO,
    *,
    binary: bool = False,
) -> Generator[Captured]:
    """Writes what a slot sends, and says again and again how far it is, without end.

    Nothing is confirmed, so the slot stays where it is. Both names go into a command as
    they are.
    """
    options = walrow.postgres.options()
    info = make_conninfo(conninfo, replication="database", options=options)
    connection = pq.PGconn.connect(info.encode())
    captured = Captured()
    try:
        result = connection.exec_(
            f"START_REPLICATION SLOT {slot} LOGICAL 0/0"
            f" (proto_version '1', publication_names '{publication}',"
            f" binary '{binary}')".encode()
        )
        if result.status != pq.ExecStatus.COPY_BOTH:
            raise psycopg.OperationalError(connection.get_error_message())
        while True:
            is_asked = False
            while (message := connection.get_copy_data(1))[0] > 0:
                size, payload = message
                sink.write(struct.pack("!cI", b"d", size + 4) + payload)
                captured.bytes += size + 5
                end = 0
                if payload[0] == ord("k"):
                    end = int.from_bytes(payload[1:9])
                    is_asked = is_asked or payload[17] == 1
                elif payload[25] == ord("C"):
                    end = int.from_bytes(payload[35:43])
                    captured.transactions += 1
                captured.position = max(captured.position, end)
            if message[0] < 0:
                connection.get_result()
                raise psycopg.OperationalError(connection.get_error_message())
            yield captured
            is_quiet = not select.select([connection.socket], [], [], 0.02)[0]
            if is_asked or is_quiet:
                # A quiet server does not say by itself how far it has read: it is asked.
                # Flushed and applied is nothing; the time counts from 2000.
                now = int((time.time() - 946_684_800) * 1_000_000)
                status = captured.position, 0, 0, now, is_quiet
                connection.put_copy_data(struct.pack("!cQQQqB", b"r", *status))
                connection.flush()
            connection.consume_input()
    finally:
        connection.finish()
