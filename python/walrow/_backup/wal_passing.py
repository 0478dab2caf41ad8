"""Passes WAL on from a stream to its landing, and reports what became durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow._postgres.physical import TimelineEnd
from walrow.errors import ConnectionLostError

if TYPE_CHECKING:
    import threading

    from walrow._backup.wal_landing import WalLanding
    from walrow._postgres.physical import PhysicalStream, Wal
    from walrow._waiting import Waiter

__all__ = ["confirm", "pass_on"]


def pass_on(
    stream: PhysicalStream,
    landing: WalLanding,
    timeline: int,
    *,
    waiter: Waiter,
    stop: threading.Event,
) -> Wal | TimelineEnd | None:
    """Passes the next WAL on. It returns after a tenth of a second at the latest, or soon after.

    Args:
        stream: The stream.
        landing: The landing.
        timeline: The timeline of the stream.
        waiter: Its descriptor wakes the stream.
        stop: Ends a wait for room.

    Returns:
        The WAL, or the end of the timeline. None if the landing has no room.

    Raises:
        ConnectionLostError: The server has ended the stream.
    """
    is_full = landing.is_full
    confirm(stream, landing, timeline, always=is_full)
    if is_full:
        # The server's questions are not read meanwhile: it gets reports unasked.
        landing.wait_for_room(_ANSWER_SECONDS, stop)
        return None
    event = stream.receive(_LOOK_SECONDS)
    waiter.drain()
    if event is None:
        text = "the server has ended the stream"
        raise ConnectionLostError(text)
    if not isinstance(event, TimelineEnd) and event.data:
        landing.put(event.data)
    return event


def confirm(
    stream: PhysicalStream, landing: WalLanding, timeline: int, *, always: bool = False
) -> None:
    """Reports the durable WAL of the stream's timeline: always, or if there is more."""
    # In this order: WAL is written before it is flushed.
    flushed, written = landing.flushed, landing.written
    if flushed.timeline != timeline:
        # The queue has WAL of the timeline before.
        return
    if always or flushed.lsn > stream.flushed:
        stream.confirm(written=written.lsn, flushed=flushed.lsn)


#: How long a call waits for WAL.
_LOOK_SECONDS = 0.1
#: How long it waits for room in the queue before it reports to the server again.
_ANSWER_SECONDS = 0.5
