"""The reports of a receiver of WAL: its state while it runs, and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from walrow._results import Result, result

if TYPE_CHECKING:
    from walrow._lsn import Lsn

__all__ = ["ReceivedWal", "WalStatus"]


@result
class WalStatus(Result):
    """The state of a receiver of WAL.

    Attributes:
        state: `connecting`, `streaming` or `stopping`.
        timeline: The timeline that is received. None before the first connection.
        written: Up to where WAL is written.
        flushed: Up to where it is durable, which the server knows.
        note: The problem, in words.
    """

    state: Literal["connecting", "streaming", "stopping"]
    timeline: int | None
    written: Lsn | None
    flushed: Lsn | None
    note: str | None


@result
class ReceivedWal(Result):
    """A summary of the WAL that `receive_wal` has received.

    Attributes:
        segments: How many segments became whole.
        system_identifier: The server's. None, like what follows, if no server was
            reached before a stop.
        segment_size: The size of its segments in bytes.
        timeline: The last timeline.
        start: Where the first connection began.
        end: Up to where WAL of the last timeline is durable.
    """

    segments: int
    system_identifier: str | None
    segment_size: int | None
    timeline: int | None
    start: Lsn | None
    end: Lsn | None
