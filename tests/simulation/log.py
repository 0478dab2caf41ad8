"""The log of a simulation: what a writer promises, and a disk that is full or slow."""

from __future__ import annotations

import errno
import itertools
import json
from collections.abc import Sequence
from typing import Any, assert_never

from walrow import Lsn
from walrow._receive.orders import (
    Append,
    BeginLoad,
    Close,
    Counts,
    EndLoad,
    ExtendCatalog,
    Fill,
    GiveUpLoad,
    LogState,
    NewSession,
    Order,
    PlanLoad,
    Publish,
    Relation,
    SetTimeline,
    Sync,
)
from walrow._receive.same_server import Comparison, Last
from walrow.errors import LogError


class Definitions:
    """A catalog: the OIDs of relations that are described, and how many loads came before it."""

    def __init__(self, oids: frozenset[int], loads: int = 0) -> None:
        self.oids, self.loads = oids, loads

    def to_json(self) -> str:
        columns: list[dict[str, int]] = []
        tables = [
            {"oid": oid, "schema": "s", "name": f"t{oid}", "columns": columns}
            for oid in sorted(self.oids)
        ]
        return json.dumps({"tables": tables})


def block_of(lsns: list[int], branches: Sequence[int] = ()) -> bytes:
    """A block of the stream: transactions, by their LSNs, and the servers that have committed them."""
    pairs = itertools.zip_longest(lsns, branches, fillvalue=1)
    return b"".join((branch << 32 | lsn).to_bytes(8, "big") for lsn, branch in pairs)


class SimulatedLog:
    """A log in memory. It refuses orders that a writer must not get.

    Attributes:
        entries: Transactions by LSN, and loads as ("load", number), in the order of the log.
        published: How many of them readers see.
        sessions: The last session that was begun.
        is_full: Whether the disk refuses everything.
        fatal: The next append fails with this.
        branches: By LSN, the server that has committed it.
        may_be_ahead: Whether a server has lost what the log has. Its loads may begin too early.
    """

    def __init__(self) -> None:
        self.entries: list[int | tuple[str, int]] = []
        self.published = self.sessions = 0
        self.is_full = False
        self.fatal: LogError | None = None
        self.branches: dict[int, int] = {}
        self.may_be_ahead = False
        self.loads = self.timeline = 0
        self.timeline_start: Lsn | None = None
        self.was_emptied = False
        self.asked: dict[str, str] = {}
        self.is_closed = False
        self.catalog = Definitions(frozenset())
        self.relations: set[int] = set()
        self._told: set[int] = set()
        #: Up to where it has everything, and up to where that is durable.
        self._end = self._durable = 0
        self._sent = 0
        self._pending = b""
        self._begins = False
        self._comparison = Comparison.DONE
        self._is_ready = False
        self._load: tuple[int, int] | None = None
        self._since_sync = self._loads = 0
        self.lacks_first_load = False

    @property
    def position(self) -> int:
        """Up to where everything is durable."""
        return self._durable

    @property
    def is_compared(self) -> bool:
        return self._is_ready and self._sent >= self._durable

    def state(self) -> LogState:
        """Its state, as its writer knows it."""
        relations: set[int] = set()
        if self.is_compared:
            relations = self.relations - self._told
            self._told |= relations
        return LogState(
            position=Lsn(self._durable),
            is_compared=self.is_compared,
            last=self._last(),
            asked=self.asked,
            lacks_first_load=self.lacks_first_load,
            is_full=self._place() - self.published > 2_000,
            has_changes=self._place() > self.published,
            counts=Counts(transactions=len(self.entries)),
            relations=tuple(
                Relation(oid, "s", f"t{oid}", []) for oid in sorted(relations)
            ),
        )

    def _last(self) -> Last:
        """The last transaction. The record of its commit begins before its end."""
        durable = (
            it
            for it in reversed(self.entries)
            if isinstance(it, int) and it <= self._durable
        )
        lsn = next(durable, 0)
        return Last(Lsn(max(0, lsn - 1)), Lsn(0), lsn or None, is_prepare=False)

    def reopen(self) -> None:
        """Opens it again, after a close or a crash: all that is durable is published."""
        self.is_closed, self._load, self._pending = False, None, b""
        self._is_ready, self._since_sync = False, 0
        if self.lacks_first_load:
            self._durable, self.branches, self.was_emptied = 0, {}, True
        self._end = self._durable
        self.entries = [
            it for it in self.entries if isinstance(it, tuple) or it <= self._durable
        ]
        if self.lacks_first_load:
            self.entries = []
        self.branches = {
            lsn: it for lsn, it in self.branches.items() if lsn <= self._durable
        }
        self.published = len(self.entries)
        self._told = set()

    def carry_out(self, order: Order) -> Any:  # noqa: PLR0912, PLR0915
        """Does what a writer would do."""
        assert not self.is_closed, "an order after the end"
        refusable = not isinstance(order, (Close, NewSession, SetTimeline))
        if isinstance(order, Append):
            self._pending += order.block
            if self.fatal is not None and self._is_ready:
                error, self.fatal = self.fatal, None
                raise error
        if self.is_full and refusable:
            text = "no space left"
            raise LogError(text, code="store", errno=errno.ENOSPC)
        self._since_sync += not isinstance(order, NewSession)
        match order:
            case Append(_, end):
                self._append(end)
            case NewSession(number, session):
                self.sessions = number
                assert self._since_sync == 0, "a session begins after a sync"
                self._comparison = session.comparison
                if session.comparison is not Comparison.ONLY:
                    self.asked = session.asked
                self.timeline = session.timeline
                self.timeline_start = session.timeline_start
                self._sent = self._end = self._durable
                self._pending, self._is_ready = b"", True
                start = session.slot_start
                if start is not None:
                    self._sent = start.lsn
                elif session.comparison is not Comparison.DONE:
                    self._sent = session.confirmed
                # A slot that was created begins somewhere.
                self._begins = not self._sent and not self.entries
            case Sync():
                self._sync()
            case ExtendCatalog(catalog):
                return self._extend(catalog)
            case Publish():
                self._sync()
                self.published = self._place()
            case BeginLoad(number, point):
                self._extend(order.catalog)
                if self._end > point:
                    assert self.may_be_ahead, "changes after a load came before it"
                    text = "its snapshot is from before the end of the log"
                    raise LogError(text, code="load")
                assert self._load is None, "two loads at once"
                self._load = number, point
                self._loads = self.catalog.loads
                return number
            case EndLoad(number):
                return self._end_load(number)
            case GiveUpLoad(number):
                assert self._load is not None
                assert self._load[0] == number, "another load is given up"
                self._load = None
            case PlanLoad():
                self.lacks_first_load = True
            case Close():
                self.is_closed = True
            case SetTimeline(timeline):
                self.timeline, self.timeline_start = timeline, None
            case Fill():
                pass
            case _:
                assert_never(order)
        return None

    def _extend(self, catalog: Any) -> Definitions:
        assert catalog.loads >= self.catalog.loads, "an old catalog replaces a new one"
        oids = self.catalog.oids | catalog.oids
        self.catalog = Definitions(oids, catalog.loads)
        return self.catalog

    def _append(self, end: int) -> None:
        pending, self._pending = self._pending, b""
        for place in range(0, len(pending), 8):
            branch, lsn = divmod(
                int.from_bytes(pending[place : place + 8], "big"), 1 << 32
            )
            assert self._is_ready, "a block before its session"
            if self._begins:
                self._sent, self._begins = lsn - 1, False
            assert lsn == self._sent + 1, "the stream has a gap, or comes twice"
            self._sent = lsn
            if self.branches.get(lsn, branch) != branch and lsn <= self._end:
                text = "the server has sent another transaction than before"
                raise LogError(text, code="other_server")
            if lsn > self._end and self._comparison is not Comparison.ONLY:
                self.entries.append(lsn)
                self._end = lsn
                self.branches[lsn] = branch
                self.relations.add(lsn % 7)
        self._sent = max(self._sent, end)
        if self._comparison is not Comparison.ONLY:
            self._end = max(self._end, end)

    def _sync(self) -> None:
        self._since_sync = 0
        if self._comparison is not Comparison.ONLY and self.is_compared:
            self._durable = self._end

    def _end_load(self, number: int) -> bool:
        assert self._load is not None, "a load ends that was not begun"
        begun, point = self._load
        assert begun == number, "another load ends"
        if self._end < point:
            return False
        self.lacks_first_load = False
        self._load = begun, point
        place = self._place()
        self._load = None
        assert place >= self.published, "readers have seen what follows the load"
        self.entries.insert(place, ("load", self._loads))
        return True

    def _place(self) -> int:
        """How many entries readers may see: entries after a load wait for it."""
        if self._load is None:
            return len(self.entries)
        after = (
            index
            for index, it in enumerate(self.entries[self.published :], self.published)
            if isinstance(it, int) and it > self._load[1]
        )
        return next(after, len(self.entries))
