"""The blocks of a live slot, as the source of a `walrow.Reader`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeAlias

from walrow._core import is_keepalives
from walrow._lsn import Lsn
from walrow._postgres.replication import ReplicationStream
from walrow.errors import ConnectionLostError

Until: TypeAlias = Literal["now"] | float | None


class LiveBlocks:
    """Starts a slot's stream with the first block, and ends it as `until` says.

    An empty block says that nothing more came for now, so that the reader returns the rows that it
    has. `goal` returns the position of now, and is called with the first block. All that arrived of
    a temporary slot is confirmed: no other client needs it. `close` is called at the end, and after
    an error.
    """

    def __init__(
        self,
        stream: ReplicationStream,
        start: Callable[[], None],
        *,
        until: Until,
        goal: Callable[[], Lsn],
        is_temporary: bool,
        close: Callable[[], Any],
    ) -> None:
        self.close = close
        self._stream = stream
        self._start = start
        self._until = until
        self._goal = goal
        self._is_temporary = is_temporary
        self._blocks = self._receive()
        #: Whether the reader has returned everything that arrived.
        self._is_delivered = True
        #: How many batches it has returned. None if nobody counts them.
        self.returned: int | None = 0
        #: How many of them are confirmed.
        self._confirmed: int | None = -1

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._blocks)
        except BaseException:
            self.close()
            raise

    def confirm(self, position: Lsn, *, is_everything: bool) -> None:
        """Confirms a position. Later ones without changes follow if all batches end there."""
        self._confirmed = self.returned if is_everything else -1
        self._stream.confirm(position)

    def _receive(self) -> Iterator[bytes]:
        stream, until = self._stream, self._until
        goal = self._goal() if until == "now" else None
        ends = None
        if isinstance(until, int | float):
            ends = time.monotonic() + until
        self._start()
        asked = flushed = 0.0
        while goal is None or stream.server_lsn < goal:
            now = time.monotonic()
            if ends is not None and now >= ends:
                return
            if goal is not None and now >= asked + _ASK_SECONDS:
                # An idle server does not say by itself how far it has read.
                stream.confirm(stream.flushed, reply=True)
                asked = now
            patience = _WAIT_SECONDS if self._is_delivered else _IDLE_SECONDS
            if goal is not None:
                patience = min(patience, _ASK_SECONDS)
            if ends is not None:
                patience = min(patience, ends - now)
            block = stream.receive(patience)
            if block is None:
                text = "the server was shut down: connect again"
                raise ConnectionLostError(text)
            now = time.monotonic()
            if block:
                if self._is_delivered and not is_keepalives(block):
                    self._is_delivered = False
                    flushed = now
                yield block
            if not self._is_delivered and (
                not block or now >= flushed + _FLUSH_SECONDS
            ):
                yield b""
                flushed = now
                # The reader asks for the next block when it has returned all rows.
                self._is_delivered = not block
            self._confirm_received()

    def _confirm_received(self) -> None:
        """Confirms what needs no caller, so that the server can remove its WAL."""
        stream = self._stream
        is_free = self._is_temporary or (
            self._is_delivered
            and self.returned is not None
            and self.returned == self._confirmed
        )
        if is_free and stream.server_lsn > stream.flushed:
            stream.confirm(stream.server_lsn)


#: How long rows wait for more of them: a pause of the server, and at most.
_IDLE_SECONDS = 0.05
_FLUSH_SECONDS = 0.5
_ASK_SECONDS = 0.2
_WAIT_SECONDS = 1.0
