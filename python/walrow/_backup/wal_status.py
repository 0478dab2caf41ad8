"""The reports of a receiver of WAL: its state while it runs, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from walrow._lsn import Lsn

__all__ = ["ReceivedWal", "WalStatus"]


@dataclass(frozen=True)
class WalStatus:
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

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON has them: LSNs are texts."""
        return {
            **self.__dict__,
            "written": _text(self.written),
            "flushed": _text(self.flushed),
        }


@dataclass(frozen=True)
class ReceivedWal:
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

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON has them: LSNs are texts."""
        return {**self.__dict__, "start": _text(self.start), "end": _text(self.end)}


def _text(lsn: Lsn | None) -> str | None:
    return None if lsn is None else str(lsn)
