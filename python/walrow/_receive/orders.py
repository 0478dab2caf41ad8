"""The orders for a log's thread, and its answers: frozen values.

The thread has one order at a time. Each answer has the log's state after it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walrow._core import Catalog
    from walrow._log.marks import Gap
    from walrow._lsn import Lsn
    from walrow._receive.resuming import SlotStart
    from walrow._receive.same_server import Comparison, Last


class Counts(NamedTuple):
    """Counts of the landed changes. `last_commit_time` is in microseconds since 1970.

    `last_message` is the commit LSN of the last transaction with a logical message.
    """

    transactions: int = 0
    rows: int = 0
    bytes: int = 0
    segments: int = 0
    last_commit_time: int | None = None
    last_message: Lsn | None = None

    def after(self, earlier: Counts) -> Counts:
        """These counts and the counts of an earlier writer."""
        return Counts(
            earlier.transactions + self.transactions,
            earlier.rows + self.rows,
            earlier.bytes + self.bytes,
            earlier.segments + self.segments,
            self.last_commit_time or earlier.last_commit_time,
            self.last_message or earlier.last_message,
        )


class Session(NamedTuple):
    """A session of the server. `timeline_start` is None if it is not known.

    The slot was confirmed up to `confirmed`. An empty log begins at `slot_start`. A log that ends
    before the slot's changes begin crosses a `gap` first.
    """

    timeline: int
    timeline_start: Lsn | None
    slot_start: SlotStart | None
    confirmed: Lsn
    comparison: Comparison
    asked: dict[str, str]
    gap: Gap | None = None


class Relation(NamedTuple):
    """A relation version of the stream, with the OIDs of its columns' types."""

    oid: int
    schema: str
    name: str
    types: list[int]


@dataclass(frozen=True, slots=True)
class LogState:
    """The state of a log, as its writer knows it. Everything up to `position` is durable.

    `gap_end` is where the last gap ends, and `open_commit` where a transaction commits whose end has
    not come. It is compared once the server has sent everything up to it. It is full if the unpublished
    changes fill a segment. `relations` are new, and empty before the server is compared: they may
    be another server's.
    """

    position: Lsn
    is_compared: bool
    last: Last | None
    asked: dict[str, str]
    lacks_first_load: bool
    is_full: bool
    has_changes: bool
    counts: Counts
    relations: tuple[Relation, ...] = ()
    gap_end: Lsn | None = None
    open_commit: Lsn | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """Appends bytes of the stream. The server has decoded everything up to the position after them."""

    block: bytes
    end: Lsn


@dataclass(frozen=True, slots=True)
class NewSession:
    """Begins a session of the server. Everything before it is durable."""

    number: int
    session: Session


@dataclass(frozen=True, slots=True)
class SetTimeline:
    """The data that comes next is of this timeline."""

    timeline: int


@dataclass(frozen=True, slots=True)
class Sync:
    """Makes everything durable."""


@dataclass(frozen=True, slots=True)
class ExtendCatalog:
    """Adds definitions. The answer is what the log has then."""

    catalog: Catalog


@dataclass(frozen=True, slots=True)
class Fill:
    """Gives what fills blocks to the next segment."""


@dataclass(frozen=True, slots=True)
class Publish:
    """Publishes all transactions."""


@dataclass(frozen=True, slots=True)
class PlanLoad:
    """Records that the log begins with a load, before its slot is created."""


@dataclass(frozen=True, slots=True)
class BeginLoad:
    """Begins a load at its consistent point. The answer is the load.

    `micros` is its time, in microseconds since 1970. `tables` are OIDs and replica identities.
    """

    number: int
    point: Lsn
    micros: int
    catalog: Catalog
    tables: Sequence[tuple[int, str]]


@dataclass(frozen=True, slots=True)
class EndLoad:
    """Gives a load its place. The answer is whether everything before it has come."""

    number: int


@dataclass(frozen=True, slots=True)
class GiveUpLoad:
    """Cancels a load: the log goes on without it."""

    number: int


@dataclass(frozen=True, slots=True)
class Close:
    """Closes the log, so that others can write to it."""


Order = (
    Append
    | NewSession
    | SetTimeline
    | Sync
    | ExtendCatalog
    | Fill
    | Publish
    | PlanLoad
    | BeginLoad
    | EndLoad
    | GiveUpLoad
    | Close
)
