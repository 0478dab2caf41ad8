"""The possible events of a log that is written, and its possible states: frozen values."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._receive.orders import NewSession, SetTimeline
from walrow.errors import LogError, SpoolError

if TYPE_CHECKING:
    from walrow._core import Catalog
    from walrow._lsn import Lsn
    from walrow._receive.orders import LogState, Order


@dataclass(frozen=True, slots=True)
class Arrived:
    """A block has come. The server has decoded everything up to the position after it."""

    block: bytes
    server_lsn: Lsn


@dataclass(frozen=True, slots=True)
class Did:
    """An order is carried out, with this answer. The log is this now."""

    order: Order
    log: LogState
    answer: Any = None


@dataclass(frozen=True, slots=True)
class Refused:
    """An order has failed."""

    order: Order
    error: BaseException


@dataclass(frozen=True, slots=True)
class CatalogRead:
    """The catalog was read, or could not be."""

    found: Catalog | BaseException


LandingEvent = Arrived | Did | Refused | CatalogRead


@dataclass(frozen=True, slots=True)
class ReadCatalog:
    """Asks the server for the catalog."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """The file system refuses an order, and it is tried again."""

    order: Order
    error: BaseException
    since: float


class LogEnds(NamedTuple):
    """The ends of a log."""

    durable: Lsn
    #: The end of the changes that readers see. 0/0 if it is not known.
    readable: Lsn
    #: The last transaction or message up to `durable`.
    last: Lsn
    #: The last transaction with a logical message that the log took in this process.
    message: Lsn | None = None


@dataclass(frozen=True, slots=True)
class Idle:
    """The thread has nothing to do."""


@dataclass(frozen=True, slots=True)
class Working:
    """The thread has an order since then, or since the trouble of an earlier order or attempt began."""

    order: Order
    trouble: Trouble | None
    since: float


@dataclass(frozen=True, slots=True)
class Stuck:
    """The thread waits before another attempt."""

    trouble: Trouble
    retry: float


@dataclass(frozen=True, slots=True)
class Closed:
    """The thread has let go of the log."""


State = Idle | Working | Stuck | Closed


@dataclass(frozen=True, slots=True)
class Placed:
    """A load that was begun after so many bytes of the stream, and has no place yet."""

    number: int
    began: int


class Loading(Placed):
    """Its rows come."""


class Ending(Placed):
    """It gets its place as soon as everything before it has come."""


class GivingUp(Placed):
    """Nobody wants it any more."""


Load = Loading | Ending | GivingUp


@dataclass(frozen=True, slots=True)
class Finishing:
    """The log is to be closed, after the queued items or at the latest time."""


@dataclass(frozen=True, slots=True)
class Last:
    """The orders that are left before the log is closed. After a failure, only that counts."""

    orders: tuple[Order, ...]
    failure: BaseException | None = None


Ends = Finishing | Last | None


def is_refusal(error: BaseException) -> bool:
    """Whether a file system failed in a way that may be temporary, such as a full disk."""
    if isinstance(error, LogError) and error.code not in {"store", "not_synced"}:
        return False
    return isinstance(error, (LogError, SpoolError)) and error.errno not in _FINAL


def may_pass(order: Order, error: BaseException) -> bool:
    """Whether another attempt at an order may succeed."""
    if isinstance(order, (NewSession, SetTimeline)):
        return False
    is_of_store = isinstance(error, LogError) and error.code == "store"
    return is_of_store and is_refusal(error)


#: These need somebody: another attempt does not help.
_FINAL = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR}
