"""The data of the stream that has come, and waits for the log."""

from __future__ import annotations

from collections import deque

from walrow._lsn import Lsn
from walrow._receive.disk_states import Arrived
from walrow._receive.orders import Append, NewSession, Order, SetTimeline


class Backlog:
    """Blocks of the stream, sessions and timelines, in their order."""

    def __init__(self, age: float) -> None:
        """Has nothing. Its blocks are published after so many seconds."""
        self._patience = min(_GATHER_SECONDS, age / _PARTS)
        self._items: deque[Arrived | NewSession | SetTimeline] = deque()
        self._size = 0
        self._gathered = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether nothing waits."""
        return not self._items

    @property
    def is_full(self) -> bool:
        """Whether there is no room for more blocks."""
        return self._size >= _QUEUE_BYTES

    @property
    def has_session(self) -> bool:
        """Whether a session is first."""
        return bool(self._items) and isinstance(self._items[0], NewSession)

    @property
    def gathered(self) -> float:
        """When the first blocks no longer wait for more: a turn for each block would cost more."""
        is_block = bool(self._items) and isinstance(self._items[0], Arrived)
        return self._gathered if is_block and self._size < _GATHERED_BYTES else 0.0

    def add(self, item: NewSession | SetTimeline) -> None:
        """Adds an item between blocks."""
        self._items.append(item)

    def arrive(self, block: Arrived, now: float) -> None:
        """Adds a block."""
        if self._size == 0:
            self._gathered = now + self._patience
        self._items.append(block)
        self._size += len(block.block)

    def take(self, now: float) -> Order:
        """Takes the first item: several blocks together, but not beyond an item between them."""
        first = self._items.popleft()
        if not isinstance(first, Arrived):
            return first
        blocks, size, end = [first.block], len(first.block), first.server_lsn
        while self._items and size < _JOINED_BYTES:
            item = self._items[0]
            if not isinstance(item, Arrived):
                break
            self._items.popleft()
            blocks.append(item.block)
            size, end = size + len(item.block), item.server_lsn
        self._size -= size
        self._gathered = now + self._patience
        return Append(b"".join(blocks), Lsn(end))


#: Blocks that wait for the disk.
_QUEUE_BYTES = 16 << 20
#: Smaller blocks wait for more, but only for this time.
_GATHERED_BYTES = 1 << 20
_GATHER_SECONDS = 0.01
#: They wait for at most this part of `publish_after`.
_PARTS = 10
#: Blocks that are appended together, at most.
_JOINED_BYTES = 4 << 20
