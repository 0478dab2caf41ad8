"""A whole receiver in a simulated world: servers, connections, a log, its disk, copies, people, a clock.

Each answer comes later than its act. The process is killed, or stopped, at any effect, and started again.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections.abc import Callable
from functools import partial
from typing import Any

from simulation.log import Definitions, SimulatedLog, block_of
from simulation.server import SimulatedServer
from walrow import Lsn
from walrow._log.requests import LoadRequest
from walrow._postgres.failures import INTERNAL_ERROR, OBJECT_IN_USE
from walrow._receive import events, load
from walrow._receive.core import Core, Limits, Over
from walrow._receive.disk_states import Arrived, CatalogRead, Did, ReadCatalog, Refused
from walrow._receive.link import Link
from walrow._receive.link_states import (
    Away,
    Ended,
    Opening,
    Streams,
    Want,
    Wishes,
)
from walrow._receive.orders import BeginLoad, Close, Publish
from walrow._receive.resuming import SlotStart
from walrow.errors import ConnectionLostError, LogError, ReplicationError


class _KilledError(Exception):
    """The process is killed."""


class ReceiverWorld:
    """A server, a log, and the receivers that write it one after the other.

    Attributes:
        now: The seconds on the clock.
        seen: The pairs of a state and what happened in it.
    """

    def __init__(
        self, seed: int, core: type[Core] = Core, link: type[Link] = Link
    ) -> None:
        self.rng = random.Random(seed)  # noqa: S311
        self.core_type, self.link_type = core, link
        self.now = 1_000.0
        self.server = SimulatedServer(self.rng)
        self.log = SimulatedLog()
        self.log.catalog = Definitions(frozenset(range(7)))
        self.seen: set[tuple[str, str]] = set()
        self.is_disturbed = True
        self.wants_snapshot = self.rng.random() < 0.4
        #: Only some worlds lose what their servers had.
        self.is_unsafe = self.rng.random() < 0.4
        if not self.wants_snapshot and self.rng.random() < 0.5:
            self.server.confirmed = self.rng.randrange(self.server.end + 1)
        #: Where the log begins, once that is known.
        self.open_requests: list[LoadRequest] = []
        self.loaded: list[str] = []
        self.requests = 0
        #: Why the log must not go on.
        self.stopped: str | None = None
        self.numbers = itertools.count(1)
        self.read: list[int | tuple[str, int]] = []

    def play(self) -> None:
        """Plays it: several lives of a receiver, and a quiet one at the end. Checks the result."""
        for _ in range(self.rng.randrange(1, 5)):
            Life(self).live(self.rng.choice([2.0, 20.0, 200.0]))
            self.check()
            self.server.user = 0
            self.now += self.rng.choice([0.1, 5.0])
        self.is_disturbed = False
        self.log.is_full = False
        last = Life(self, is_quiet=True)
        last.live(600.0)
        self.check()
        if self.stopped is not None:
            assert self.server.is_conflicting, (
                f"stopped without a reason: {self.stopped}"
            )
            return
        phase = last.core.phase
        error = getattr(phase, "error", None)
        if error is not None:
            self._check_error(error)
            return
        end = last.core.link.goal or 0
        assert self.log.position >= end, "not everything has come"
        assert self.log.published == len(self.log.entries), "not all is published"
        assert not self.log.lacks_first_load, "it has no first load"
        assert not self.open_requests, "a request waits for ever"
        for lsn, branch in self.log.branches.items():
            assert self.server.branches[lsn - 1] == branch, "another server's changes"

    def _check_error(self, error: BaseException) -> None:
        """A receiver gives up only if there is a reason."""
        text = str(error)
        assert not text.endswith("resume it"), "it is not recorded"
        if "first load of the log was broken off" in text:
            assert not self.wants_snapshot
            return
        assert self.server.is_conflicting or self.server.confirmed is None, text

    def check(self) -> None:
        """The rules that hold at any time."""
        lsns = [it for it in self.log.entries if isinstance(it, int)]
        assert lsns == sorted(set(lsns)), "a transaction comes twice, or not in order"
        if lsns:
            assert lsns == list(range(lsns[0], lsns[-1] + 1)), (
                "a transaction is missing"
            )
        loads = [it for it in self.log.entries if isinstance(it, tuple)]
        assert len(loads) == len(set(loads)), "a load comes twice"

    def disturb(self) -> None:
        """Something happens to the server."""
        server, rng = self.server, self.rng
        if rng.random() < 0.5:
            server.refuses_streaming_at = server.end + rng.randrange(10)
        elif rng.random() < 0.5:
            server.promote()
        elif self.is_unsafe:
            happens: list[Callable[[], None]] = [
                server.set_back,
                server.promote_elsewhere,
                partial(server.promote, rng.randrange(1, 6)),
            ]
            rng.choice(happens)()


class Life:
    """One process of a receiver, from its start to its end or its death."""

    def __init__(self, world: ReceiverWorld, *, is_quiet: bool = False) -> None:
        self.world, self.rng = world, world.rng
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        rng = self.rng
        wanted = {Want.CREATE, Want.STREAMING}
        if world.wants_snapshot:
            wanted.add(Want.SNAPSHOT)
        if is_quiet or rng.random() < 0.2:
            wanted.add(Want.GOAL)
        options = {"messages": rng.random() < 0.3}
        wishes = Wishes("s", ("p",), None, options, "resume it", frozenset(wanted))
        link = world.link_type(wishes, 3_600, math.inf, world.now)
        loads = load.LoadDecisions(
            LoadRequest("", None),
            lambda error: "again" in str(error),
            lambda error: "busy" in str(error),
        )
        self.core = world.core_type(
            link, loads, Limits(1.0, 3_600, math.inf), world.now
        )
        #: It is killed or stopped at this effect, if that is before its end.
        self._effects = 0
        self._fatal = (
            math.inf if is_quiet or rng.random() < 0.2 else rng.randrange(1, 120)
        )
        self._kills = rng.random() < 0.6
        self._stop_due = math.inf
        self._stopped_at = math.inf
        # The connection, and up to where the stream was sent.
        self.connections: set[int] = set()
        self._number = self._sent = 0
        #: The server's end at the last look.
        self._looked: int | None = None
        self._is_streaming = self._may_stream = False
        self._is_dead = False
        self._orders = 0
        self._is_log_open = False
        self._copies = 0
        self._load_slots = 0
        self._turns = 0, 0.0
        self._state, self._since = self.core.link.state, world.now
        #: The core's deadline, which only an event changes.
        self._due = self.core.deadline

    # The clock.

    def later(self, least: float, most: float, do: Callable[[], None]) -> None:
        at = self.world.now + self.rng.uniform(least, most)
        heapq.heappush(self._heap, (at, next(self._count), do))

    def answer(self, event: Any, least: float = 0.001, most: float = 0.3) -> None:
        self.later(least, most, lambda: self.on(event))

    def live(self, seconds: float) -> None:
        """Lives, at most so long: then it is stopped."""
        world = self.world
        if world.stopped is not None:
            # `receive` refuses to begin.
            return
        self._stop_due = world.now + seconds if world.is_disturbed else math.inf
        end = world.now + seconds + 200
        for do in (self._commit, self._send, self._happen, self._want):
            self.later(0, 1, do)
        try:
            self.on(events.Ticked())
            while not self._is_over and world.now < end:
                self._turn()
        except _KilledError:
            self._die()
            return
        assert self._is_over, (
            f"it does not end: {self.core.phase}, {self.core.link.state}, "
            f"{self.core.loads.state}"
        )
        assert not self.connections, "a connection is left"
        self._die()

    @property
    def _is_over(self) -> bool:
        # A core with a fault has its own classes.
        return type(self.core.phase).__name__ == Over.__name__

    def _die(self) -> None:
        """Changes that are not durable are lost."""
        if self._is_log_open:
            self.world.log.is_closed = True

    def _turn(self) -> None:
        world = self.world
        at = self._heap[0][0] if self._heap else math.inf
        due = max(world.now, min(self._due, self._stop_due))
        assert min(at, due) < math.inf, "it waits for ever"
        turns, since = self._turns
        self._turns = (turns + 1, since) if since == world.now else (0, world.now)
        assert turns < 500, f"it turns without an end in {self.core.link.state}"
        if due <= at:
            world.now = due
            if due >= self._stop_due:
                self._stop()
            else:
                self.on(events.Ticked())
        else:
            world.now, _, do = heapq.heappop(self._heap)
            do()
        state = self.core.link.state
        if state is not self._state or isinstance(
            state, (Away, Opening, Streams, Ended)
        ):
            self._state, self._since = state, world.now
        assert world.now < self._since + 91, f"it waits for ever: {state}"
        if not self._is_over:
            late = world.now - self._stopped_at
            assert late < 1.5, f"a stop takes {late:.1f} s: {self.core.phase}"

    def _stop(self) -> None:
        self._stop_due = math.inf
        self._stopped_at = min(self._stopped_at, self.world.now)
        self.on(events.StopWanted(0.7))

    def on(self, event: Any) -> None:
        state = type(self.core.link.state).__name__
        self.world.seen.add((state, type(getattr(event, "order", event)).__name__))
        for action in self.core.on(event, self.world.now):
            self._perform(action)
        self._due = self.core.deadline

    # Actions, as the driver does them.

    def _perform(self, action: Any) -> None:
        self._effects += 1
        is_fatal = self._effects == self._fatal
        if is_fatal and self._kills and self.rng.random() < 0.5:
            raise _KilledError
        name = type(action).__name__
        do = getattr(self, f"_{name.lower()}", None)
        assert do is not None or name in (
            "Note",
            "Say",
            "WatchServer",
            "StopCopies",
        ), name
        if name == "StopCopies":
            self._copies = 0
        elif do is not None:
            do(action)
        if is_fatal and self._kills:
            raise _KilledError
        if is_fatal:
            self._stop_due = self.world.now

    def _fails(self, chance: float = 0.03) -> bool:
        return self.world.is_disturbed and self.rng.random() < chance

    def _step(self, number: int, act: Callable[[], Any]) -> None:
        """A step of the connection: refused, reset, black-holed, or done, and answered later."""

        def do() -> None:
            if number not in self.connections:
                # It was left.
                return
            if self._fails(0.03):
                # A black hole: there is no answer.
                return
            if self._is_dead or self._fails():
                error: Any = ConnectionLostError("reset")
                self.answer(events.Failed(number, error))
                return
            try:
                found = act()
            except (ReplicationError, LogError) as failed:
                self.answer(events.Failed(number, failed))
                return
            self.answer(found)

        self.later(0.001, 0.2, do)

    def _connect(self, action: events.Connect) -> None:
        assert not self.connections, "two connections at once"
        self.connections.add(action.number)
        self._number, self._is_streaming = action.number, False
        self._is_dead = False

        def act() -> Any:
            if self._fails(0.1):
                text = "connection refused"
                raise ReplicationError(text)
            return events.Linked(action.number, self.world.server.identify())

        self._step(action.number, act)

    def _openlog(self, action: events.OpenLog) -> None:
        world = self.world
        assert not self._is_log_open, "the log is opened twice"

        def act() -> None:
            if self._fails(0.05):
                error = LogError("no space left", code="store", errno=28)
                self.answer(events.Failed(action.number, error))
                return
            world.log.reopen()
            self._is_log_open = True
            log, known = world.log.state(), world.log.catalog
            opened = events.LogOpened(
                action.number,
                log,
                known,  # type: ignore[arg-type]
                None,
                None,
                world.log.timeline or None,
                world.log.timeline_start,
            )
            self.answer(opened)

        self.later(0.01, 3.0 if world.is_disturbed else 0.1, act)

    def _inspect(self, action: events.Inspect) -> None:
        server = self.world.server

        def act() -> Any:
            slot, last, status = server.slot(), action.last, None
            if (
                slot is not None
                and last is not None
                and (slot.confirmed or 0) > last.lsn
            ):
                branch = self.world.log.branches.get(last.xid or 0, 0)
                status = server.status(last.xid or 0, branch) if last.xid else None
            return events.Found(
                action.number,
                action.system,
                tuple(server.history),
                is_standby=False,
                slot=slot,
                status=status,
            )

        self._step(action.number, act)

    def _make(self, action: events.Make) -> None:
        server = self.world.server

        def act() -> Any:
            if events.Part.DROP in action.parts:
                server.confirmed = None
            if events.Part.SLOT not in action.parts:
                return events.Made(action.number, None)
            assert server.confirmed is None, "a slot is created twice"
            server.confirmed = server.end
            return events.Made(action.number, SlotStart(Lsn(server.end)))

        self._step(action.number, act)

    def _check(self, action: events.Check) -> None:
        server = self.world.server

        def act() -> Any:
            start = goal = None
            if events.Part.SLOT_START in action.parts:
                start = SlotStart(action.confirmed)
            if events.Part.GOAL in action.parts:
                goal = Lsn(server.end)
            return events.Checked(action.number, (), start, (), goal)

        self._step(action.number, act)

    def _startstream(self, action: events.StartStream) -> None:
        server = self.world.server

        def act() -> Any:
            if server.confirmed is None:
                text = "no such slot"
                raise ReplicationError(text, sqlstate="42704")
            if self._fails(0.05):
                text = "in use"
                raise ReplicationError(text, sqlstate=OBJECT_IN_USE)
            self._sent = max(server.confirmed, int(action.start))
            self._is_streaming = True
            self._may_stream = action.options.get("streaming") is not False
            return events.Started(action.number)

        self._step(action.number, act)

    def _confirm(self, action: events.Confirm) -> None:
        server, log = self.world.server, self.world.log
        assert action.position <= log.position, "what is confirmed is not durable"
        if self._number not in self.connections or self._is_dead:
            return
        if server.confirmed is not None:
            server.confirmed = max(server.confirmed, int(action.position))
        if action.reply and self._is_streaming:
            self.later(0.001, 0.1, self._keepalive)

    def _keepalive(self) -> None:
        if self._is_streaming and self.core.reads and not self._is_dead:
            self.on(Arrived(b"", Lsn(self._sent)))

    def _askend(self, _: events.AskEnd) -> None:
        end = Lsn(max(self._sent, self.world.server.end))
        self.later(0.001, 0.1, lambda: self.on(events.EndSeen(end, is_primary=True)))

    def _hangup(self, action: events.HangUp) -> None:
        self._leave(action)

    def _leave(self, action: events.HangUp | events.Leave) -> None:
        self.connections.remove(action.number)
        self._is_streaming = False

    def _lookattimeline(self, _action: Any) -> None:
        self.answer(events.TimelineSeen(self._timeline()), 0.0, 0.1)

    def _timeline(self) -> int | None:
        return self.world.server.timeline if self.rng.random() < 0.5 else None

    def _judge(self, _action: Any) -> None:
        confirmed = self.world.server.confirmed
        found = None if confirmed is None else Lsn(confirmed)
        self.answer(
            events.Judged(ConnectionLostError("reset") if self._fails() else found)
        )

    def _recordstop(self, action: events.RecordStop) -> None:
        def act() -> None:
            self.world.stopped = action.reason
            self.answer(events.StopRecorded(None))

        self.later(0.001, 0.1, act)

    def _dropslot(self, _action: Any) -> None:
        def act() -> None:
            self.world.server.confirmed = None
            self.answer(events.SlotDropped(None))

        self.later(0.01, 0.5, act)

    def _looklast(self, _action: Any) -> None:
        if self._fails(0.1):
            self.answer(events.Looked(ConnectionLostError("reset")))
            return
        self._looked = self.world.server.end
        self.answer(events.Looked(Lsn(self._looked)))

    def _asklast(self, _action: Any) -> None:
        assert self._looked is not None, "it ends without its last look"
        assert self.world.log.position >= self._looked, "it ends before its last look"
        self.answer(events.LastAnswered())

    def _readcatalog(self, _action: ReadCatalog) -> None:
        log = self.world.log
        read: Any = Definitions(frozenset(log.relations | log.catalog.oids), log.loads)
        if self._fails(0.2):
            read = ReplicationError("a lock")
        self.answer(CatalogRead(read), 0.01, 2.0)

    # The thread of the log.

    def _order(self, order: Any) -> None:
        assert self._is_log_open, f"{order} for a log that is closed"
        assert not self._orders, "two orders at once"
        self._orders += 1
        stalls = self._fails(0.2 if isinstance(order, Close) else 0.01)
        slow = 30.0 if stalls else 0.005
        self.later(slow / 10, slow, partial(self._act, order))

    _append = _newsession = _settimeline = _sync = _extendcatalog = _fill = _order
    _publish = _planload = _beginload = _endload = _giveupload = _close = _order

    def _act(self, order: Any) -> None:
        log = self.world.log
        event: Did | Refused
        log.may_be_ahead = self.world.server.is_conflicting
        try:
            found = log.carry_out(order)
            event = Did(order, log.state(), found)
        except LogError as error:
            event = Refused(order, error)
        if isinstance(order, Publish) and isinstance(event, Did):
            seen = log.entries[: log.published]
            before = self.world.read
            assert seen[: len(before)] == before or log.was_emptied, (
                "readers have seen something else before"
            )
            self.world.read, log.was_emptied = seen, False

        def done() -> None:
            self._orders -= 1
            if isinstance(order, Close):
                self._is_log_open = False
            self.on(event)

        self.later(0.0001, 0.005, done)

    # The copies.

    def _lookforrequest(self, _action: Any) -> None:
        found = [
            it for it in self.world.open_requests if it.key not in self.world.loaded
        ]
        self.answer(load.Found(found[0] if found else None), 0, 0)

    def _lookifwanted(self, action: load.LookIfWanted) -> None:
        is_wanted = action.request in self.world.open_requests
        self.answer(load.StillWanted() if is_wanted else load.Unwanted(), 0, 0)

    def _opencopies(self, action: load.OpenCopies) -> None:
        assert not self._copies, "two loads at once"
        self._copies, self._request = action.number, action.request
        self._of_copies(action.number, lambda: load.Opened(action.number))

    def _of_copies(self, number: int, act: Callable[[], Any]) -> None:
        def do() -> None:
            if self._copies != number:
                return
            if self._fails(0.1):
                text = "again, busy" if self.rng.random() < 0.8 else "no"
                error: Any = LogError(text, code="load")
                if self.rng.random() < 0.5:
                    error = ConnectionLostError("again")
                self.answer(load.Broken(number, error, self._culprits()))
                return
            if (found := act()) is not None:
                self.answer(found)

        self.later(0.01, 1.0, do)

    def _culprits(self) -> load.Culprits:
        """A table of a first load that has broken it, if that is known, or all that are left."""
        # Other worlds go on as without it.
        rng = random.Random(self._copies)  # noqa: S311
        if not isinstance(self._request, load.First) or rng.random() < 0.5:
            return load.NO_CULPRITS
        left = [it for it in ("a", "b", "c") if it not in self._request.apart]
        assert left, "a load of no table"
        count = rng.randrange(1, len(left) + 1)
        return load.Culprits(dict.fromkeys(left[:count], "no"), left[count:])

    def _makeslot(self, action: load.MakeSlot) -> None:
        number, server, log = action.number, self.world.server, self.world.log
        is_first = isinstance(action.request, load.First)

        def act() -> Any:
            if not is_first and self._fails(0.1):
                self.later(1, 5, lambda: self.on(load.Unblocked(number)))
                return load.Blocked(number, None)  # type: ignore[arg-type]
            if is_first and not self.connections:
                return load.Broken(number, ConnectionLostError("reset"))
            point = server.end
            if is_first:
                assert server.confirmed is None, "a slot is created twice"
                server.confirmed = point
            log.loads += 1
            catalog: Any = Definitions(log.catalog.oids, log.loads)
            order = BeginLoad(number, Lsn(point), 0, catalog, ())
            return load.Shared(number, order)

        self._of_copies(number, act)

    def _startcopies(self, action: load.StartCopies) -> None:
        self._of_copies(action.number, lambda: load.Copied(action.number))

    def _record(self, action: load.Record) -> None:
        def act() -> None:
            request = action.request
            if self._fails(0.1):
                self.answer(load.NotRecorded(OSError("full")))
                return
            if isinstance(request, LoadRequest) and request.key:
                self.world.loaded.append(request.key)
                still = [it for it in self.world.open_requests if it.key != request.key]
                self.world.open_requests = still
            self.answer(load.Recorded())

        self.later(0.001, 0.5, act)

    # The others.

    def _commit(self) -> None:
        if self.rng.random() < 0.7:
            self.world.server.commit(self.rng.randrange(1, 10))
        self.later(0.01, self.rng.choice([0.1, 2.0]), self._commit)

    def _send(self) -> None:
        """The walsender sends something, or is lost."""
        self.later(0.001, self.rng.choice([0.02, 0.5]), self._send)
        server, core = self.world.server, self.core
        if not self._is_streaming or self._is_dead or not core.reads:
            return
        at = server.refuses_streaming_at
        if self._may_stream and self._sent < at <= server.end:
            self._lose(ReplicationError("internal", sqlstate=INTERNAL_ERROR))
            return
        if self._fails(0.01):
            self._lose(ConnectionLostError("reset"))
            return
        if self._sent > server.end:
            # It was set back: its processes are gone.
            self._lose(ConnectionLostError("reset"))
            return
        end = min(server.end, self._sent + self.rng.randrange(30))
        lsns = list(range(self._sent + 1, end + 1))
        self._sent = end
        self.on(
            Arrived(
                block_of(lsns, server.branches[lsns[0] - 1 : end] if lsns else ()),
                Lsn(end),
            )
        )

    def _lose(self, error: BaseException) -> None:
        self._is_dead = True
        self.on(events.Failed(self._number, error))

    def _happen(self) -> None:
        """Something happens to the server, whose connections end, or to the disk."""
        if not self.world.is_disturbed:
            return
        self.later(1, 30, self._happen)
        if self.rng.random() < 0.5:
            self.world.log.is_full = True
            self.later(0.1, 8.0, self._free_disk)
            return
        if self._is_dead:
            return
        if self._is_streaming and self.rng.random() < 0.3:
            # A standby is promoted, and its walsender goes on.
            self.world.server.promote()
            self.on(events.TimelineSeen(self.world.server.timeline))
            return
        self.world.disturb()
        if self._is_streaming:
            self._lose(ConnectionLostError("reset"))
        # The next step notices it.
        self._is_dead = True

    def _free_disk(self) -> None:
        self.world.log.is_full = False

    def _want(self) -> None:
        """A person wants a load, or does not want it any more."""
        world = self.world
        if world.is_disturbed:
            self.later(1, 20, self._want)
            if self.rng.random() < 0.2 and world.open_requests:
                world.open_requests.pop(0)
            elif len(world.open_requests) < 2:
                world.requests += 1
                world.open_requests.append(LoadRequest(f"r{world.requests}", ["s.t"]))
