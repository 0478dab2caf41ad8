"""The events of a receiver, and its actions: frozen values.

`disk_states.py` and `orders.py` have the events and orders of the log's thread, and `load.py` has the events and actions of loads.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walrow._receive import load
from walrow._receive.disk_states import LandingEvent, ReadCatalog
from walrow._receive.orders import Order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walrow._core import Catalog
    from walrow._log.marks import Gap
    from walrow._lsn import Lsn
    from walrow._postgres.commands import IdentifySystem
    from walrow._postgres.preflight import Finding
    from walrow._receive.orders import LogState, Session
    from walrow._receive.resuming import SlotFound, SlotStart, XidStatus
    from walrow._receive.same_server import Last
    from walrow._receive.status import State as Word
    from walrow.errors import Error


# Events of the connection.


@dataclass(frozen=True, slots=True)
class Linked:
    """A connection is made to this server."""

    number: int
    system: IdentifySystem


@dataclass(frozen=True, slots=True)
class LogOpened:
    """The log is open, for a connection. Its end is on `timeline`, which began at `timeline_start`.

    The definitions that were read from the server before are `found`, or not, for a `failure`.
    """

    number: int
    log: LogState
    known: Catalog
    found: Catalog | None
    failure: Error | None
    timeline: int | None
    timeline_start: Lsn | None


@dataclass(frozen=True, slots=True)
class Found:
    """The state of a server and of the slot, which is None if it does not exist.

    `history` are the ends of its earlier timelines, or why they cannot be read. `status` is the outcome of
    the log's last transaction, if the slot does not send that again. With `has_other_positions`, its
    SQL functions return other LSNs than its stream has. The published tables have about `table_bytes`.
    """

    number: int
    system: IdentifySystem
    history: Sequence[Any] | Error
    is_standby: bool
    slot: SlotFound | None
    status: XidStatus | None
    has_other_positions: bool = False
    has_trigger: bool = False
    table_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Made:
    """The slot and the publication exist. A new slot begins there."""

    number: int
    start: SlotStart | None


@dataclass(frozen=True, slots=True)
class Checked:
    """The results of checks.

    An empty log begins at `slot_start`. An error prevents the preflight's `findings`. `goal` is a
    position after all transactions that are committed by now.
    """

    number: int
    notes: tuple[str, ...] = ()
    slot_start: SlotStart | None = None
    findings: tuple[Finding, ...] | Error | None = None
    goal: Lsn | None = None


@dataclass(frozen=True, slots=True)
class Started:
    """The stream comes."""

    number: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The connection is lost, or a step of it has failed."""

    number: int
    error: BaseException


@dataclass(frozen=True, slots=True)
class Heard:
    """The server has answered in a step that takes long. The note says why it waits."""

    note: str | None = None


@dataclass(frozen=True, slots=True)
class TimelineSeen:
    """The server's timeline now, if it is a standby that has said so."""

    timeline: int | None


@dataclass(frozen=True, slots=True)
class Judged:
    """Up to where the slot is confirmed now. None if it is gone."""

    confirmed: Lsn | Error | None


@dataclass(frozen=True, slots=True)
class StopRecorded:
    """It is recorded that the log must not go on, or why that is not possible."""

    note: str | None


@dataclass(frozen=True, slots=True)
class TriggerSeen:
    """A look shows whether the database has an event trigger of walrow."""

    is_there: bool


#: The server has said something.
ANSWERS = (Linked, Found, Made, Checked, Started, Heard)

LinkEvent = (
    Linked
    | LogOpened
    | Found
    | Made
    | Checked
    | Started
    | Failed
    | Heard
    | TimelineSeen
    | Judged
    | StopRecorded
    | TriggerSeen
)


# Other events.


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed."""


@dataclass(frozen=True, slots=True)
class StopWanted:
    """Somebody wants the end. From now on, that may take so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class CatalogAged:
    """A type was altered: the log needs the catalog again."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The tables were looked at, and what the look has seen was committed before this position.

    Or it has failed.
    """

    position: Lsn | BaseException


@dataclass(frozen=True, slots=True)
class EndSeen:
    """The end of the server's WAL, as a primary or a standby has it. 0/0 if it did not answer."""

    end: Lsn
    is_primary: bool = False


@dataclass(frozen=True, slots=True)
class LastAnswered:
    """The last questions before the end are answered, or why the log was not compared."""

    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class SlotDropped:
    """A useless slot is dropped, or not."""

    error: BaseException | None


Event = (
    LinkEvent
    | LandingEvent
    | load.Event
    | Ticked
    | StopWanted
    | CatalogAged
    | Looked
    | EndSeen
    | LastAnswered
    | SlotDropped
)


# Actions for the connection.


class Part(enum.Enum):
    """A part of making or checking."""

    DROP = enum.auto()
    PUBLICATION = enum.auto()
    SLOT = enum.auto()
    FAILOVER = enum.auto()
    SLOT_START = enum.auto()
    PREFLIGHT = enum.auto()
    GOAL = enum.auto()


@dataclass(frozen=True, slots=True)
class Connect:
    """Connects. The answer is `Linked` or `Failed`, as for the other steps."""

    number: int


@dataclass(frozen=True, slots=True)
class OpenLog:
    """Opens the log, which comes from this server. The answer is `LogOpened` or `Failed`."""

    number: int
    system: IdentifySystem


@dataclass(frozen=True, slots=True)
class Inspect:
    """Reads what shows whether the server and the slot continue the log. The answer is `Found`."""

    number: int
    system: IdentifySystem
    last: Last | None


@dataclass(frozen=True, slots=True)
class Make:
    """Drops the slot, creates the publication, creates the slot. The answer is `Made`."""

    number: int
    parts: frozenset[Part]


@dataclass(frozen=True, slots=True)
class Check:
    """Checks what would fail later, and finds the goal. The answer is `Checked`.

    Before it, the marks of a `gap` are recorded.
    """

    number: int
    parts: frozenset[Part]
    confirmed: Lsn
    gap: Gap | None = None


@dataclass(frozen=True, slots=True)
class StartStream:
    """Starts the stream. The answer is `Started`."""

    number: int
    start: Lsn
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class WatchServer:
    """Notices a promotion of this connection's server, and its shutdown."""

    number: int


@dataclass(frozen=True, slots=True)
class LookAtTimeline:
    """Asks a standby once more for its timeline, for a moment only. The answer is `TimelineSeen`."""


@dataclass(frozen=True, slots=True)
class Confirm:
    """Confirms a position to the server. It may be asked for an answer, too."""

    position: Lsn
    reply: bool = False


@dataclass(frozen=True, slots=True)
class HangUp:
    """Ends a stream in order."""

    number: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Waits for a connection no more. Its thread closes it."""

    number: int


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks where the slot is confirmed now. The answer is `Judged`."""


@dataclass(frozen=True, slots=True)
class RecordStop:
    """Records why the log must not go on. The answer is `StopRecorded`."""

    reason: str


@dataclass(frozen=True, slots=True)
class DropSlot:
    """Drops the slot. The answer is `SlotDropped`."""


@dataclass(frozen=True, slots=True)
class LookLast:
    """Looks at the published tables before the end. The answer is `Looked`."""


@dataclass(frozen=True, slots=True)
class AskEnd:
    """Asks for the end of the server's WAL. The answer is `EndSeen`."""


@dataclass(frozen=True, slots=True)
class AskLast:
    """Asks for open work, and compares the looks with the log. The answer is `LastAnswered`."""


@dataclass(frozen=True, slots=True)
class Say:
    """Reports a new state at once."""

    word: Word
    note: str | None = None


# Actions of the core for the log and the loads.


@dataclass(frozen=True, slots=True)
class BeginSession:
    """The log gets a session of the server."""

    session: Session


@dataclass(frozen=True, slots=True)
class Promote:
    """The server of the session was promoted."""

    timeline: int


@dataclass(frozen=True, slots=True)
class AbandonLog:
    """Closes the log without another try. It is opened again later."""


@dataclass(frozen=True, slots=True)
class BeginFirst:
    """Begins the load that the log begins with."""


@dataclass(frozen=True, slots=True)
class RequestAll:
    """Loads all published tables as soon as the stream runs."""


#: The core does these itself.
Wish = BeginSession | Promote | AbandonLog | BeginFirst | RequestAll

#: The driver does these over the connection.
Use = Inspect | Make | Check | StartStream | WatchServer | Confirm
#: All that the driver does.
Action = (
    Use
    | Connect
    | OpenLog
    | LookAtTimeline
    | HangUp
    | Leave
    | Judge
    | RecordStop
    | DropSlot
    | LookLast
    | AskEnd
    | AskLast
    | Say
    | ReadCatalog
    | Order
    | load.Action
)
