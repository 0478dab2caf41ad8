"""The thread that writes a log, and how others give it the data.

```text
connection ─► Disk decides ─► order ─► LogThread: append ─► sync (durable) ─► publish (visible)
     ▲                                                        │
     └──────────────────────── confirm ◄──────────────────────┘
```
The connection goes on whatever the disk does: it waits at most for room in the queue.
"""

from __future__ import annotations

import contextlib
import threading
import time
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from walrow._receive.disk import Disk
from walrow._receive.disk_states import (
    Arrived,
    CatalogRead,
    Closed,
    Did,
    ReadCatalog,
    Refused,
)
from walrow._receive.log_thread import LogThread
from walrow._receive.orders import BeginLoad, Close, Order, PlanLoad
from walrow._workers import Worker
from walrow.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from walrow._core import Catalog, LogLoad, LogWriter
    from walrow._lsn import Lsn
    from walrow._receive.disk_states import LandingEvent
    from walrow._receive.orders import Counts, Session
    from walrow._receive.same_server import Last
    from walrow.errors import Error

__all__ = ["Landing"]


class Landing:
    """A log that is written in a separate thread. `Disk` makes the decisions.

    Somebody calls `tick` at its `deadline`.
    """

    def __init__(
        self,
        writer: LogWriter,
        *,
        age: float,
        give_up_after: float,
        read_catalog: Callable[[], Future[Catalog]],
        found: Catalog | None,
        catalog_failure: Error | None,
        wake: Callable[[], None],
        earlier: Counts,
    ) -> None:
        """Stores the arguments.

        Args:
            writer: The log. It is closed at the end.
            age: Transactions are published after these seconds.
            give_up_after: After these seconds, a refusal of the file system is final.
            read_catalog: Begins to read the definitions of types and tables.
            found: The definitions that were read at the start.
            catalog_failure: Why they could not be read at the start.
            wake: Is called when something has changed.
            earlier: The counts of an earlier writer.
        """
        self._thread = LogThread(writer)
        self._log = self._thread.state()
        self._disk = Disk(
            self._log,
            writer.catalog,
            age=age,
            give_up_after=give_up_after,
            found=found,
            catalog_failure=catalog_failure,
            earlier=earlier,
            now=time.monotonic(),
        )
        self._read_catalog = read_catalog
        self._wake = wake
        self._changed = threading.Condition()
        self._answers: dict[int, Future[Any]] = {}
        self._loads = 0
        self._worker = Worker("walrow-landing")

    # The facts about it.

    @property
    def durable(self) -> Lsn:
        """Up to where everything is durable."""
        return self._disk.durable

    @property
    def last(self) -> Last | None:
        """The last transaction or message that the log took, or an earlier one."""
        return self._disk.last

    @property
    def asked(self) -> dict[str, str]:
        """The options of the stream that it was received with. Empty if they are not known."""
        return self._disk.asked

    @property
    def trouble(self) -> str | None:
        """The refusal of the file system or the catalog, while it is tried again."""
        return self._disk.trouble

    @property
    def catalog_trouble(self) -> str | None:
        """Why the catalog cannot be read, until it can."""
        return self._disk.definitions.trouble

    @property
    def catalog_times(self) -> int:
        """How often the catalog was read."""
        return self._disk.definitions.times

    @property
    def failure(self) -> BaseException | None:
        """The error that ended it."""
        return self._disk.failure

    @property
    def has_given_up(self) -> bool:
        """Whether the file system has refused it for too long."""
        return self._disk.has_given_up

    @property
    def counts(self) -> Counts:
        """Counts of the landed changes."""
        return self._disk.counts

    @property
    def has_load(self) -> bool:
        """Whether a load was begun, and has no place yet."""
        return self._disk.load is not None

    @property
    def lacks_first_load(self) -> bool:
        """Whether the log lacks the load that it begins with."""
        return self._disk.lacks_first_load

    @property
    def is_full(self) -> bool:
        """Whether the queue has no room."""
        return self._disk.is_full

    @property
    def is_compared(self) -> bool:
        """Whether the server of the session has sent everything up to the log's end, and is the same."""
        return self._disk.is_compared

    @property
    def confirmable(self) -> Lsn:
        """Up to where the server may forget the changes that it has sent."""
        return self._disk.confirmable

    @property
    def held_bytes(self) -> int:
        """Bytes of the stream since a load began, which readers see after it."""
        return self._disk.held_bytes

    @property
    def deadline(self) -> float:
        """When `tick` has something to do."""
        return self._disk.deadline

    @property
    def is_closed(self) -> bool:
        """Whether the log is closed."""
        return isinstance(self._disk.state, Closed)

    # The requests to it.

    def tick(self) -> None:
        """Does the work that is due."""
        if time.monotonic() >= self._disk.deadline:
            self._tell(lambda _: None)

    def begin_session(self, session: Session) -> None:
        """Begins a session of the server, at the durable position by then."""
        self._tell(lambda disk: disk.begin_session(session))

    def promote(self, timeline: int) -> None:
        """Notes that the server of the session was promoted."""
        self._tell(lambda disk: disk.promote(timeline))

    def put(self, block: bytes, server_lsn: Lsn) -> None:
        """Queues a block. The server has decoded everything up to the position after it."""
        self._on(Arrived(block, server_lsn))

    def ask_for_catalog(self) -> None:
        """Has the catalog read again, as soon as it is time."""
        self._tell(lambda disk: disk.definitions.ask())

    def settle(self, check: Callable[[], None]) -> Lsn:
        """Waits until everything that is queued is durable. A full disk may take for ever.

        Args:
            check: Is called meanwhile. Its error ends the wait.

        Returns:
            Up to where that is. If the log is closed, up to where it came.
        """
        self._wait_for(lambda: self._disk.is_settled, check)
        return self.durable

    @contextlib.contextmanager
    def paused(self, check: Callable[[], None]) -> Iterator[None]:
        """Appends nothing meanwhile. An error of `check` ends the wait for that."""
        self._tell(lambda disk: disk.pause())
        try:
            self._wait_for(lambda: self._disk.is_paused or self.is_closed, check)
            yield
        finally:
            self._tell(lambda disk: disk.resume())

    def plan_first_load(self, check: Callable[[], None]) -> None:
        """Records that the log begins with a load, before its slot is created.

        An error of `check` ends the wait for that.
        """
        self._call(PlanLoad(), check)

    def begin_load(
        self,
        point: Lsn,
        micros: int,
        catalog: Catalog,
        tables: Sequence[tuple[int, str]],
        check: Callable[[], None],
    ) -> LogLoad:
        """Begins a load. See `LogWriter.begin_load`. An error of `check` ends the wait for that."""
        self._loads += 1
        order = BeginLoad(self._loads, point, micros, catalog, tables)
        load: LogLoad = self._call(order, check)
        return load

    def end_load(self) -> None:
        """Gives the load its place, as soon as everything before it has landed."""
        self._tell(lambda disk: disk.end_load())

    def give_up_load(self) -> None:
        """Gives the load up, as soon as the thread can: the log goes on without it."""
        now, number = time.monotonic(), self._loads
        self._tell(lambda disk: disk.give_up_load(number, now))

    def wait_for_room(self, seconds: float, is_stopped: Callable[[], bool]) -> None:
        """Waits until the queue has room again, at most so long or until a stop."""
        self._wait(
            seconds,
            lambda: not self.is_full or self.failure is not None or is_stopped(),
        )

    def finish(
        self, seconds: float, is_stopped: Callable[[], bool] | None = None
    ) -> bool:
        """Lands the queued blocks, as far as the time allows, and publishes them.

        Args:
            seconds: How long it may take.
            is_stopped: Ends the wait, and not the thread.

        Returns:
            Whether the log is closed.
        """
        deadline = time.monotonic() + seconds / 2
        self._tell(lambda disk: disk.finish(deadline))
        return self.wait(seconds, is_stopped)

    def wait(
        self, seconds: float, is_stopped: Callable[[], bool] | None = None
    ) -> bool:
        """Waits until the log is closed, after `finish`.

        Args:
            seconds: How long it waits.
            is_stopped: Ends the wait.

        Returns:
            Whether the log is closed, and its thread has ended.
        """
        self._wait(
            seconds,
            lambda: self.is_closed or (is_stopped is not None and is_stopped()),
        )
        return self.is_closed and self._worker.join(_STOP_SECONDS)

    def _wait_for(self, is_so: Callable[[], bool], check: Callable[[], None]) -> None:
        while not self._wait(_STOP_SECONDS, is_so):
            check()

    def _wait(self, seconds: float, is_so: Callable[[], bool]) -> bool:
        """Waits until something is so, at most so long. Does the work that is due meanwhile."""
        end = time.monotonic() + seconds
        while not is_so():
            self.tick()
            with self._changed:
                until = min(end, self._disk.deadline)
                left = min(until - time.monotonic(), _STOP_SECONDS)
                if left > 0 and not is_so():
                    self._changed.wait(left)
            if time.monotonic() >= end:
                return is_so()
        return True

    def _call(self, order: PlanLoad | BeginLoad, check: Callable[[], None]) -> Any:
        """Does something with the writer, between two blocks."""
        answer: Future[Any] = Future()
        self._answers[id(order)] = answer
        try:
            self._tell(lambda disk: disk.ask(order))
            try:
                self._wait_for(lambda: answer.done() or self.is_closed, check)
            except BaseException:
                self._tell(lambda disk: disk.withdraw(order, time.monotonic()))
                raise
            if not answer.done():
                text = "the log is closed"
                raise self.failure or LogError(text)
            return answer.result()
        finally:
            self._answers.pop(id(order), None)

    # How it is done.

    def _tell(self, want: Callable[[Disk], None]) -> None:
        with self._changed:
            want(self._disk)
            actions = self._disk.advance(time.monotonic())
            self._changed.notify_all()
        self._perform(actions)

    def _on(self, event: LandingEvent) -> None:
        with self._changed:
            before, due = self._news(), self._disk.deadline
            actions = self._disk.on(event, time.monotonic())
            is_news = self._news() != before or self._disk.deadline < due
            self._changed.notify_all()
        self._perform(actions)
        if is_news:
            self._wake()

    def _news(self) -> tuple[object, ...]:
        """The values that the receiver waits for."""
        disk = self._disk
        return (
            disk.confirmable,
            disk.is_compared,
            disk.trouble,
            disk.failure,
            disk.load,
            isinstance(disk.state, Closed),
        )

    def _perform(self, actions: Sequence[Order | ReadCatalog]) -> None:
        for action in actions:
            if isinstance(action, ReadCatalog):
                self._read_catalog().add_done_callback(self._catalog_is_read)
            else:
                self._worker.do(partial(self._carry_out, action))

    def _catalog_is_read(self, answer: Future[Catalog]) -> None:
        self._on(CatalogRead(answer.exception() or answer.result()))

    def _carry_out(self, order: Order) -> None:
        event: Did | Refused
        try:
            found = self._thread.carry_out(order)
            if not isinstance(order, Close):
                self._log = self._thread.state()
            event = Did(order, self._log, found)
        except BaseException as error:
            event = Refused(order, error)
        self._on(event)
        # Only now: whoever waits for it looks at the load in the log.
        answer = self._answers.get(id(order))
        if answer is not None:
            if isinstance(event, Did):
                answer.set_result(event.answer)
            else:
                answer.set_exception(event.error)
            with self._changed:
                self._changed.notify_all()
        if self.is_closed:
            self._worker.close()


_STOP_SECONDS = 0.1
