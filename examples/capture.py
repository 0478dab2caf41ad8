"""Captures the stream of a replication slot, as a file that walrow reads.

with open("stream.wire", "wb") as sink:
    for captured in capture("dbname=shop", "slot", "publication", sink):
        if captured.position >= enough:
            break
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO

import walrow
from walrow.postgres import ReplicationStream

if TYPE_CHECKING:
    from collections.abc import Generator


@dataclass
class Captured:
    """What is in the file: everything that committed up to `position`."""

    bytes: int = 0
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

    Nothing is confirmed, so the slot stays where it is.
    """
    captured = Captured()
    with ReplicationStream.connect(conninfo) as stream:
        stream.start(slot, publications=publication, protocol_version=1, binary=binary)
        while (block := stream.receive(0.02)) is not None:
            sink.write(block)
            captured.bytes += len(block)
            captured.position = stream.server_lsn
            yield captured
            if not block:
                # A quiet server does not say by itself how far it has read: it is asked.
                stream.confirm(stream.flushed, reply=True)
    text = "the server was shut down"
    raise walrow.errors.ConnectionLostError(text)
