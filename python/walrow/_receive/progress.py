"""The data of a log that is not durable, not in a segment or not published yet, and since when."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from walrow._receive.orders import Append, Fill, NewSession, Publish, SetTimeline, Sync

if TYPE_CHECKING:
    from walrow._receive.orders import LogState, Order


class Progress:
    """How far a log is with what came: `bytes` of the stream, and how often it has moved on."""

    def __init__(self, now: float) -> None:
        """Begins with an open log, which may have something that is not durable."""
        self.bytes = self.moves = 0
        self._unsynced = self._blocks = self._filled = 0
        #: How many orders were carried out since the last sync.
        self._orders = 1
        self._synced = now
        self._dirty_since = self._changed_since = math.inf

    @property
    def is_durable(self) -> bool:
        """Whether all that came is durable."""
        return self._dirty_since == math.inf

    @property
    def is_just_synced(self) -> bool:
        """Whether no order was done since the last sync."""
        return self._orders == 0

    @property
    def is_filled(self) -> bool:
        """Whether all blocks were given to the next segment, as far as that can be."""
        return self._filled == self._blocks

    def sync_due(self, *, is_idle: bool) -> float:
        """When the next sync is due. Without more blocks, it is soon."""
        if self.is_durable:
            return math.inf
        if self._unsynced >= _SYNC_BYTES:
            return 0.0
        return self._synced + (_IDLE_SECONDS if is_idle else _SYNC_SECONDS)

    def publish_due(self, age: float) -> float:
        """When the unpublished changes have this age."""
        return self._changed_since + age

    def did(self, order: Order, log: LogState, now: float) -> None:
        """Notes an order that was done, and the log's state after it."""
        self._orders += 1
        is_changed = (log.has_changes or log.is_full) and not isinstance(order, Publish)
        since = min(self._changed_since, now)
        self._changed_since = since if is_changed else math.inf
        match order:
            case Append(block):
                self.bytes += len(block)
                self._unsynced += len(block)
                self._blocks += 1
            case Sync():
                self._synced, self._unsynced, self._orders = now, 0, 0
                self._dirty_since = math.inf
            case Fill():
                self._filled = self._blocks
            case _:
                pass
        if isinstance(order, (Append, NewSession, SetTimeline)):
            self.moves += 1
        if isinstance(order, (Append, SetTimeline)):
            self._dirty_since = min(self._dirty_since, now)


#: Without other blocks, the waiting blocks become durable after this time.
_IDLE_SECONDS = 0.02
#: Under load, these many bytes or seconds become durable at once.
_SYNC_BYTES = 16 << 20
_SYNC_SECONDS = 1.0
