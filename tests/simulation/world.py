"""Actors around the decisions for a log: a server, a disk, a catalog, a person and a clock.

All numbers come from a seed. Each answer comes later than its act, in any order with what others do.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from simulation.log import Definitions, SimulatedLog, block_of
from walrow import Lsn
from walrow._receive.disk import Disk
from walrow._receive.disk_states import (
    Arrived,
    CatalogRead,
    Closed,
    Did,
    Ending,
    Loading,
    ReadCatalog,
    Refused,
)
from walrow._receive.orders import BeginLoad, Counts, Order, PlanLoad, Publish, Session
from walrow._receive.same_server import Comparison
from walrow.errors import LogError, ReplicationError


class World:
    """One run. `play` plays it, and raises AssertionError if something is wrong.

    Attributes:
        now: The seconds on the clock.
        seen: The pairs of a state and what happened in it.
    """

    def __init__(self, seed: int, disk: type[Disk] = Disk) -> None:
        self.rng = random.Random(seed)  # noqa: S311
        self.now = 1_000.0
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._turns = 0, self.now
        self.log = SimulatedLog()
        self.log.catalog = Definitions(frozenset(range(self.rng.choice([0, 3, 7]))))
        self.disk = disk(
            self.log.state(),
            self.log.catalog,  # type: ignore[arg-type]
            age=AGE,
            give_up_after=self.rng.choice([5.0, 3_600.0]),
            found=None,
            catalog_failure=None,
            earlier=Counts(),
            now=self.now,
        )
        self.seen: set[tuple[str, str]] = set()
        self._tick_at = 0.0
        # The server: its end, where the slot is confirmed, and what this connection has sent.
        self.server_end = self.confirmed = self.sent = 0
        self._only = False
        self._is_connected = False
        self._loads = self._sessions = 0
        #: Many loads, or few.
        self._haste = self.rng.choice([0.05, 1.0])
        #: Loads that nobody waits for, and when the disk has refused something.
        self._left: set[int] = set()
        self._told: set[int] = set()
        self._refusals: list[float] = []
        self._is_disturbed = True
        self._reading: tuple[float, frozenset[int]] | None = None

    def later(self, least: float, most: float, do: Callable[[], None]) -> None:
        """Has something done between these seconds from now."""
        at = self.now + self.rng.uniform(least, most)
        heapq.heappush(self._heap, (at, next(self._count), do))

    def run(self, seconds: float) -> None:
        """Lets the time pass."""
        end = self.now + seconds
        while True:
            at = self._heap[0][0] if self._heap else end
            due = max(self.now, self.disk.deadline)
            if min(at, due) >= end:
                self.now = end
                return
            turns, since = self._turns
            self._turns = (turns + 1, since) if since == self.now else (0, self.now)
            assert turns < MOST_TURNS, f"it turns without an end in {self.disk.state}"
            if due < at:
                self.now = due
                self.perform(self.disk.advance(self.now), "due")
            else:
                self.now, _, do = heapq.heappop(self._heap)
                do()

    # The thread of the log, and the thread that asks.

    def perform(self, actions: Sequence[Order | ReadCatalog], why: str) -> None:
        """Begins what the decisions want."""
        self.seen.add((type(self.disk.state).__name__, why))
        orders = [it for it in actions if not isinstance(it, ReadCatalog)]
        assert len(orders) <= 1, "two orders at once"
        for order in orders:
            assert not self._is_working, "an order before the answer to the one before"
            self._is_working = True
            self._check_order(order)
            self._slowly(partial(self._act, order))
        if len(orders) < len(actions):
            assert self._reading is None, "the catalog is read twice at once"
            self._reading = self.now, frozenset(self._told)
            oids = frozenset(self.log.relations | self.log.catalog.oids)
            read = Definitions(oids, self._loads)
            longest = self.rng.choice([0.1, 3.0])
            self.later(0.01, longest, lambda: self._answer_catalog(read))
        self._confirm()

    _is_working = False
    _speed = (0.0001, 0.005)

    def _slowly(self, do: Callable[[], None]) -> None:
        least, most = self._speed
        self.later(least, most, do)

    def _act(self, order: Order) -> None:
        event: Did | Refused
        try:
            answer = self.log.carry_out(order)
            event = Did(order, self.log.state(), answer)
        except LogError as error:
            event = Refused(order, error)
        self._slowly(lambda: self._answer(event))

    def _answer(self, event: Did | Refused) -> None:
        self._is_working = False
        if isinstance(event, Did):
            self._told |= {it.oid for it in event.log.relations}
        if isinstance(event, Refused):
            self._refusals = [it for it in self._refusals if it > self.now - 1]
            self._refusals.append(self.now)
            assert len(self._refusals) < MOST_REFUSALS, "it does not wait"
        if isinstance(event.order, BeginLoad) and isinstance(event, Did):
            self._copy(event.order.number)
        self.on(event)

    def _answer_catalog(self, read: Definitions) -> None:
        self._reading = None
        found: Any = read
        if self._is_disturbed and self.rng.random() < 0.2:
            found = ReplicationError("a lock")
        self.on(CatalogRead(found))

    def _check_order(self, order: Order) -> None:
        if isinstance(order, Publish) and self.disk.failure is None:
            assert not self.disk._extensions, "rows are published before definitions"
        if isinstance(order, Publish) and self._reading is not None:
            since, told = self._reading
            lacks = bool(told - self.log.catalog.oids)
            is_early = self.now < since + 0.99 and not self._has_failed()
            is_early = is_early and self.disk.definitions.trouble is None
            assert not (lacks and is_early and not self._is_ending), (
                "rows are published before their definitions"
            )

    _is_ending = _is_loading = False

    def on(self, event: Arrived | Did | Refused | CatalogRead) -> None:
        """Reports an event."""
        name = type(getattr(event, "order", event)).__name__
        self.perform(self.disk.on(event, self.now), f"{type(event).__name__} {name}")

    def tell(self, why: str, want: Callable[[Disk], object]) -> None:
        """Reports a request."""
        want(self.disk)
        self.perform(self.disk.advance(self.now), why)

    # The server, and the connection.

    def _confirm(self) -> None:
        found = self.disk.confirmable
        assert found <= self.log.position, "what is confirmed is not durable"
        is_compared = self.log.is_compared and self.log.sessions == self._sessions
        assert not found or is_compared, "a server is confirmed that was not compared"
        self.confirmed = max(self.confirmed, found)
        assert self.disk.durable <= self.log.position

    def connect(self) -> None:
        """Begins a session, at the position that is durable now."""
        if self.disk.failure is not None:
            return
        comparison = Comparison.FIRST
        if self._only:
            comparison, self._only = Comparison.DONE, False
        elif self._is_disturbed and self.rng.random() < 0.2:
            comparison, self._only = Comparison.ONLY, True
        self._comparison = comparison
        if comparison is Comparison.DONE:
            # The receiver has waited for that.
            assert self.disk.is_settled
        self.sent = self.confirmed
        session = Session(1, None, None, Lsn(self.confirmed), comparison, {})
        if comparison is Comparison.DONE:
            self.sent = self.log.position
        self._is_connected = True
        self._sessions += 1
        self.tell("connect", lambda disk: disk.begin_session(session))

    def lose(self) -> None:
        """Loses the connection, and connects again later."""
        self._is_connected = False
        self.later(0.05, 2.0, self._connect_again)

    def _connect_again(self) -> None:
        # Queued items come before the next session.
        if self.disk.is_settled or not self._only:
            self.connect()
        else:
            self.later(0.1, 0.2, self._connect_again)

    def send(self) -> None:
        """Commits transactions, and sends a part of the unsent transactions."""
        if self.rng.random() < 0.7:
            self.server_end += self.rng.randrange(1, 20)
        if self._is_connected:
            if self._only and self.disk.is_compared:
                self.lose()
            else:
                end = min(self.server_end, self.sent + self.rng.randrange(30))
                block = block_of(list(range(self.sent + 1, end + 1)))
                self.sent = end
                self.on(Arrived(block, Lsn(end)))
        if self._is_disturbed and self._is_connected and self.rng.random() < 0.02:
            self.lose()
        if self.rng.random() < 0.02:
            self.tell("promote", lambda disk: disk.promote(2))
        self.later(0.001, self.rng.choice([0.02, 0.5]), self.send)

    # The disk.

    def fill_disk(self) -> None:
        """The disk is full for a while, or slow."""
        if not self._is_disturbed:
            return
        self.log.is_full = True
        seconds = self.rng.choice([0.5, 3.0, 6.0])
        self._speed = self.rng.choice([(0.0001, 0.005), (0.1, 3.0)])
        self.later(seconds, seconds, self._free_disk)
        self.later(5, 20, self.fill_disk)

    def _free_disk(self) -> None:
        self.log.is_full, self._speed = False, (0.0001, 0.005)

    # A person, and the loads.

    def request_load(self) -> None:
        """Begins a load: all appends wait while its slot is made."""
        if self._is_disturbed:
            self.later(3 * self._haste, 20 * self._haste, self.request_load)
            if not self._is_loading and self.disk.load is None:
                self._is_loading = True
                self.tell("pause", lambda disk: disk.pause())
                self._begin_load_if_paused()

    def _begin_load_if_paused(self) -> None:
        if not self.disk.is_paused:
            self.later(0.01, 0.1, self._begin_load_if_paused)
            return
        self._loads += 1
        # The slot's point is now: nothing after it may be appended before.
        oids = frozenset(self.log.relations | self.log.catalog.oids)
        catalog: Any = Definitions(oids, self._loads)
        order = BeginLoad(self._loads, Lsn(self.server_end), 0, catalog, ())
        self.later(0.01, self._haste, lambda: self._begin_load(order))

    def _begin_load(self, order: BeginLoad) -> None:
        if self.rng.random() < 0.1:
            self.tell("plan", lambda disk: disk.ask(PlanLoad()))
        self.tell("begin load", lambda disk: disk.ask(order))
        self._resume(order)

    def _resume(self, order: BeginLoad) -> None:
        load = self.disk.load
        is_begun = load is not None and load.number == order.number
        if is_begun or self.disk.failure is not None or self.rng.random() < 0.2:
            if not is_begun:
                # Nobody waits any more: if it has begun, it is given up.
                self.disk.withdraw(order, self.now)
                self._left.add(order.number)
            self._is_loading = False
            self.tell("resume", lambda disk: disk.resume())
        else:
            self.later(0.01, 0.05, lambda: self._resume(order))

    def _copy(self, number: int) -> None:
        if number in self._left:
            return

        def end() -> None:
            load = self.disk.load
            if load is None or load.number != number:
                return
            if self.rng.random() < 0.3:
                self.tell("give up", lambda disk: disk.give_up_load(number, self.now))
            elif isinstance(load, Loading):
                self.tell("end load", lambda disk: disk.end_load())

        self.later(0.01, 5 * self._haste, end)
        # A person may cancel it while it waits for its place.
        if self.rng.random() < 0.3:
            self.later(0.01, 6 * self._haste, lambda: self._cancel(number))

    def _cancel(self, number: int) -> None:
        load = self.disk.load
        if isinstance(load, (Loading, Ending)) and load.number == number:
            self.tell("cancel", lambda disk: disk.give_up_load(number, self.now))

    def play(self) -> None:
        """Plays it: disturbed, then quiet, then to its end. Checks the result."""
        self.connect()
        self.later(0, 1, self.send)
        self.later(1, 8, self.fill_disk)
        self.later(1, 10, self.request_load)
        if self.rng.random() < 0.1:
            text = "another server"
            error = LogError(text, code=self.rng.choice(["other_server", "damaged"]))
            self.later(1, 20, lambda: setattr(self.log, "fatal", error))
        self.run(self.rng.choice([3.0, 20.0]))
        if self.rng.random() < 0.5:
            self._quiet()
        self._end()

    def _has_failed(self) -> bool:
        return self.disk.failure is not None

    def _quiet(self) -> None:
        """Without faults, everything comes, and soon."""
        self._is_disturbed = False
        self._free_disk()
        relations = set(self.log.relations)
        self.run(10)
        if self.disk.failure is not None:
            return
        before = self.server_end
        self.run(6)
        if self._has_failed():
            return
        end = self.log.position
        assert self.disk.confirmable >= before, "it does not come on"
        assert relations <= self.log.catalog.oids, "a relation is not described"
        load = self.disk.load
        assert load is None or load.number not in self._left, "nobody wants the load"
        assert load is None or isinstance(load, Loading), "the load gets no place"
        if self.disk.load is None:
            self.run(AGE + 1.5)
            if self._has_failed():
                return
            published = [
                it
                for it in self.log.entries[: self.log.published]
                if isinstance(it, int)
            ]
            assert (published or [0])[-1] >= end, "readers do not see what is old"

    def _end(self) -> None:
        """A stop, at any time: the log is closed in time, unless the disk holds it."""
        self._is_ending = True
        is_hurried = self.rng.random() < 0.7
        deadline = (
            self.now + self.rng.choice([0.0, 0.45, 2.0]) if is_hurried else float("inf")
        )
        # The changes after a load that is given up at the end come with the next start.
        is_whole = self.disk.failure is None and self.disk.load is None
        self._is_connected = self._is_disturbed = False
        if not is_hurried:
            self._free_disk()
        self.tell("finish", lambda disk: disk.finish(deadline))
        # An order that was begun while the disk was slow.
        slow = 7 + (self._speed[1] * 2 + 0.1) * 8
        self.run(slow + (deadline - self.now if is_hurried else 60))
        assert isinstance(self.disk.state, Closed), (
            f"it does not end: {self.disk.state}"
        )
        assert self.log.is_closed or self.disk.failure is not None
        assert self.log.is_closed, "the log stays open"
        self._check(is_whole=is_whole and not is_hurried)

    def _check(self, *, is_whole: bool) -> None:
        lsns = [it for it in self.log.entries if isinstance(it, int)]
        assert lsns == list(range(1, len(lsns) + 1)), (
            "not each transaction once, in order"
        )
        assert self.confirmed <= len(lsns), "what is confirmed is lost"
        failure = self.disk.failure
        if failure is None and is_whole:
            assert self.log.published == len(self.log.entries), "not all is published"


AGE = 1.0
MOST_TURNS = 200
MOST_REFUSALS = 8
