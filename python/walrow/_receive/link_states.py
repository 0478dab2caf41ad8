"""The possible states of a receiver's connection, and its options: frozen values."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._lsn import Lsn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from walrow._postgres.commands import IdentifySystem
    from walrow._receive.events import Found
    from walrow._receive.same_server import Comparison, Last
    from walrow.errors import LogError, ReplicationError


class Step(enum.Enum):
    """The step of a connection that its server is asked for."""

    CONNECTING = enum.auto()
    INSPECTING = enum.auto()
    MAKING = enum.auto()
    CHECKING = enum.auto()
    STARTING = enum.auto()


@dataclass(frozen=True, slots=True)
class Away:
    """There is no connection. The next attempt is due then."""

    until: float


@dataclass(frozen=True, slots=True)
class Preparing:
    """A step of the connection. The server has answered last then."""

    number: int
    answered: float
    step: Step


@dataclass(frozen=True, slots=True)
class Opening:
    """The log is opened, and the server is not asked meanwhile: a large log takes long."""

    number: int
    system: IdentifySystem


@dataclass(frozen=True, slots=True)
class Settling:
    """The server has another timeline: changes of the old timeline become durable first."""

    number: int
    answered: float
    found: Found


@dataclass(frozen=True, slots=True)
class Streams:
    """The stream comes, for this purpose."""

    number: int
    purpose: Comparison


@dataclass(frozen=True, slots=True)
class Judging:
    """The log has refused what the server sent. Is the slot still where it was?"""

    answered: float
    failure: LogError


@dataclass(frozen=True, slots=True)
class Stopping:
    """This is another server. That is recorded: the log must not go on."""

    since: float
    error: ReplicationError


@dataclass(frozen=True, slots=True)
class Ended:
    """Another attempt would not help."""

    error: BaseException


State = Away | Preparing | Opening | Settling | Streams | Judging | Stopping | Ended


class Wishes(NamedTuple):
    """The options of a receiver's caller. `way_out` is advice for a log of another server."""

    slot: str
    publications: Sequence[str]
    tables: Sequence[Any] | None
    stream_options: Mapping[str, Any]
    way_out: str
    wanted: frozenset[Want]


class Want(enum.Enum):
    """A wish of a caller.

    Attributes:
        CREATE: The slot, and maybe its publication, are created.
        FAILOVER: The server copies the slot to standbys.
        SNAPSHOT: The log begins with a load.
        GOAL: The receiver ends when it has everything that is committed by now.
        STREAMING: Large transactions come before their commit.
        CROSS_GAP: If changes are lost, the log continues behind them, with a snapshot of all tables.
    """

    CREATE = enum.auto()
    FAILOVER = enum.auto()
    SNAPSHOT = enum.auto()
    GOAL = enum.auto()
    STREAMING = enum.auto()
    CROSS_GAP = enum.auto()


class LogSeen(NamedTuple):
    """The facts about the log and its loads. Without a log, its last end.

    It is free once no earlier attempt writes to it, and settled if everything that is queued is
    durable. The last gap ends at `gap_end`. A transaction commits at `open_commit` whose end has not
    come. With `lacks_first_load`, the load that it begins with was given up. `is_pending` is whether
    something is still to be loaded.
    """

    durable: Lsn = Lsn(0)
    last: Last | None = None
    gap_end: Lsn = Lsn(0)
    open_commit: Lsn | None = None
    asked: Mapping[str, str] = {}
    is_open: bool = False
    is_free: bool = True
    is_settled: bool = True
    is_compared: bool = False
    lacks_first_load: bool = False
    is_pending: bool = False
    has_load: bool = False
    has_given_up: bool = False


class Doubt(enum.Enum):
    """Whether it is known where an empty log begins."""

    OPEN = enum.auto()
    SAID = enum.auto()
    NONE = enum.auto()
