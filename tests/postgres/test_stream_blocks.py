"""The blocks of a replication stream, over a connection that brings one message with each read."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from walrow._postgres.copy_both import CopyBoth
from walrow._postgres.physical import PhysicalStream
from walrow._postgres.replication import ReplicationStream

#: XLogData of the message "x": its start, the end of WAL, and a time.
DATA = b"w" + bytes(24) + b"x"
FRAME = b"d" + (4 + len(DATA)).to_bytes(4) + DATA


class Connection:
    """Has one more message after each `consume_input`, up to a number."""

    def __init__(self, number: int) -> None:
        self._left, self._arrived = number, deque[memoryview]()
        self._ends = socket.socketpair()
        # It always has something to read.
        self._ends[1].send(b"x")
        self.socket = self._ends[0].fileno()
        self.ssl_in_use = self.used_gssapi = False
        self.nonblocking = 0

    def consume_input(self) -> None:
        if self._left:
            self._left -= 1
            self._arrived.append(memoryview(DATA))

    def get_copy_data(self, _async: int) -> tuple[int, Any]:
        if not self._arrived:
            return 0, b""
        return len(DATA), self._arrived.popleft()

    def close(self) -> None:
        for end in self._ends:
            end.close()


@pytest.fixture
def pgconn() -> Iterator[Connection]:
    connection = Connection(1_000)
    yield connection
    connection.close()


@contextmanager
def streaming(kind: type[CopyBoth], pgconn: Connection) -> Iterator[Any]:
    connection: Any = SimpleNamespace(pgconn=pgconn, closed=False, close=lambda: None)
    stream = kind(connection, status_interval=60.0, ping_interval=60.0, wakeup_fd=None)
    stream._begin_copy()
    yield stream
    stream._end(None)
    stream.close()


def test_a_block_gathers_what_the_server_sends_on(pgconn: Connection) -> None:
    with streaming(ReplicationStream, pgconn) as stream:
        blocks = [stream.receive(1.0) for _ in range(5)]
    assert all(block == FRAME * (len(block) // len(FRAME)) for block in blocks)
    # Another program may have the processor meanwhile.
    assert max(len(block) for block in blocks) > len(FRAME)


def test_nothing_is_gathered_without_a_timeout(pgconn: Connection) -> None:
    with streaming(ReplicationStream, pgconn) as stream:
        assert [stream.receive(0) for _ in range(5)] == [FRAME] * 5


def test_wal_is_returned_at_once(pgconn: Connection) -> None:
    """A commit may wait until it is durable here."""
    with streaming(PhysicalStream, pgconn) as stream:
        for number in range(5):
            stream._expected = 0
            assert (number, stream.receive(1.0).data) == (number, b"x")
