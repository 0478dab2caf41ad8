"""Writes a live stream to a log: a thread that appends, syncs and publishes.

```text
connection ─► queue ─► Landing: append ─► sync (durable) ─► publish (visible)
     ▲                                      │
     └──────────── confirm ◄────────────────┘
```
The connection goes on whatever the disk does: it waits at most for room in the queue.
"""

from __future__ import annotations

import contextlib
import errno
import math
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from walrow._lsn import Lsn
from walrow._receive.catalog_reader import CatalogReader
from walrow._receive.same_server import Comparison, Last
from walrow._workers import Worker
from walrow.errors import Error, LogError, SpoolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Future

    from walrow._core import Catalog, LogLoad, LogWriter
    from walrow._receive.resuming import SlotStart

__all__ = ["Counts", "Landing", "Session", "is_refusal"]

T = TypeVar("T")


class Counts(NamedTuple):
    """Counts of the landed changes.

    Attributes:
        transactions: Transactions.
        rows: Rows that were inserted, updated or deleted in them.
        bytes: Bytes of the stream.
        segments: Published segments.
        last_commit_time: When the last transaction was committed, in microseconds since
            1970.
    """

    transactions: int = 0
    rows: int = 0
    bytes: int = 0
    segments: int = 0
    last_commit_time: int | None = None


class Session(NamedTuple):
    """A session of the server.

    Attributes:
        timeline: The server's timeline.
        timeline_start: Where it began, if that is known.
        slot_start: Where the slot is, if the log is empty.
        confirmed: Up to where the slot was confirmed.
        comparison: The purpose of the session.
        asked: The options of its stream that matter for what comes.
    """

    timeline: int
    timeline_start: Lsn | None
    slot_start: SlotStart | None
    confirmed: Lsn
    comparison: Comparison
    asked: dict[str, str]


class _Session(NamedTuple):
    """Marks in the queue that a session of the server begins."""

    number: int
    session: Session


class _Timeline(NamedTuple):
    """Marks in the queue that the server was promoted."""

    timeline: int


class _Mark(NamedTuple):
    """Marks in the queue that everything before it is durable."""

    passed: threading.Event


class _Order:
    """Something that the thread does between two blocks."""

    def __init__(self, do: Callable[[], Any]) -> None:
        self._do = do
        self._lock = threading.Lock()
        self._is_begun = self._is_given_up = False
        self._is_done = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None

    def follow(self) -> None:
        with self._lock:
            self._is_begun = not self._is_given_up
        if self._is_given_up:
            return
        try:
            self._result = self._do()
        except BaseException as error:
            self._error = error
        self._is_done.set()

    def refuse(self, failure: BaseException | None) -> None:
        text = "the log is closed"
        self._error = failure or LogError(text)
        self._is_done.set()

    def wait(self, check: Callable[[], None]) -> Any:
        """Waits until it is followed. An error of `check` gives it up, unless it has begun."""
        while not self._is_done.wait(_STOP_SECONDS):
            try:
                check()
            except BaseException:
                with self._lock:
                    self._is_given_up = not self._is_begun
                if self._is_given_up:
                    raise
        if self._error is not None:
            raise self._error
        return self._result


class Landing:
    """The thread that writes a log.

    Attributes:
        durable: Up to where everything is durable.
        last: The last transaction or message that the log took, or an earlier one.
        asked: The options of the stream that it was received with. Empty if they are not known.
        trouble: The file system's refusal, while the operation is tried again.
        failure: The error that ended the thread.
        has_given_up: Whether the file system has refused it for too long.
        counts: Counts of the landed changes.
        has_load: Whether a load was begun, and has no place yet.
        lacks_first_load: Whether the log lacks the load that it begins with.
        catalog: The reader of the catalog.
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
        """Starts the thread.

        Args:
            writer: The log. The thread closes it at its end.
            age: Transactions are published after these seconds.
            give_up_after: After these seconds, a refusal of the file system is final.
            read_catalog: Begins to read the definitions of types and tables.
            found: The definitions that were read at the start.
            catalog_failure: Why they could not be read at the start.
            wake: Is called when something has changed.
            earlier: The counts of an earlier thread.
        """
        self.durable = writer.position
        self._confirmable = Lsn(0)
        self.last = _last(writer)
        self.asked = writer.asked
        #: Sessions that were begun, and the last one whose server was compared with the log's.
        self._sessions = self._compared = 0
        self._session: _Session | None = None
        self._found = found
        self.trouble: str | None = None
        self.failure: BaseException | None = None
        self.has_given_up = False
        self.counts = self._earlier = earlier
        self._writer = writer
        self._age = age
        self._give_up_after = give_up_after
        self._wake = wake
        self._queue: deque[tuple[bytes | _Session | _Timeline | _Mark, Lsn]] = deque()
        self._queued = 0
        self._bytes = 0
        self._changed = threading.Condition()
        self._deadline: float | None = None
        self.catalog = CatalogReader(
            read_catalog,
            writer.catalog,
            failure=catalog_failure,
            answered=self._nudge,
        )
        self._orders: deque[_Order] = deque()
        self._is_paused = False
        self._load: LogLoad | None = None
        self._is_load_due = False
        self._is_load_given_up = False
        self._has_ended = False
        self._load_began = 0
        self.has_load = False
        # Not asked of the writer later: it may be waiting for a full disk.
        self.lacks_first_load = writer.lacks_first_load
        self._worker = Worker("walrow-landing")
        self._worker.do(self._run)
        self._worker.close()

    @property
    def is_full(self) -> bool:
        """Whether the queue has no room."""
        return self._queued >= _QUEUE_BYTES

    def begin_session(self, session: Session) -> None:
        """Begins a session of the server, at the durable position by then."""
        with self._changed:
            self._sessions += 1
            self._queue.append((_Session(self._sessions, session), Lsn(0)))
            self._changed.notify()

    @property
    def is_compared(self) -> bool:
        """Whether the server of the session has sent everything up to the log's end, and is the same."""
        return self._compared == self._sessions

    @property
    def confirmable(self) -> Lsn:
        """Up to where the server may forget the changes that it has sent.

        That is 0/0 until the stream has passed the log's end: the server may differ from the log's,
        and earlier prepared transactions may not be saved.
        """
        return self._confirmable if self.is_compared else Lsn(0)

    def promote(self, timeline: int) -> None:
        """Notes that the server of the session was promoted.

        The changes that came before the notice are of this timeline, too.
        """
        with self._changed:
            self._queue.append((_Timeline(timeline), Lsn(0)))
            self._changed.notify()

    def settle(self, check: Callable[[], None]) -> Lsn:
        """Waits until everything that is queued is durable. A full disk may take for ever.

        Args:
            check: Is called meanwhile. Its error ends the wait.

        Returns:
            Up to where that is. If the thread has ended, up to where it came.
        """
        mark = _Mark(threading.Event())
        with self._changed:
            self._queue.append((mark, Lsn(0)))
            self._changed.notify()
        while not self._has_ended and not mark.passed.wait(_STOP_SECONDS):
            check()
        return self.durable

    def put(self, block: bytes, server_lsn: Lsn) -> None:
        """Queues a block. The server has decoded everything up to the position after it."""
        with self._changed:
            self._queue.append((block, server_lsn))
            self._queued += len(block)
            self._changed.notify()

    @property
    def held_bytes(self) -> int:
        """Bytes of the stream since a load began, which readers see after it."""
        return self._bytes - self._load_began if self.has_load else 0

    @contextlib.contextmanager
    def paused(self, check: Callable[[], None]) -> Iterator[None]:
        """Appends nothing meanwhile. An error of `check` ends the wait for that."""
        self._call(self._pause_appending, check)
        try:
            yield
        finally:
            # The thread may have ended.
            self._is_paused = False
            self._nudge()

    def plan_first_load(self, check: Callable[[], None]) -> None:
        """Records that the log begins with a load, before its slot is created.

        An error of `check` ends the wait for that.
        """
        self._call(self._writer.plan_first_load, check)
        self.lacks_first_load = True

    def begin_load(
        self,
        point: Lsn,
        micros: int,
        catalog: Catalog,
        tables: Sequence[tuple[int, str]],
        check: Callable[[], None],
    ) -> LogLoad:
        """Begins a load. See `LogWriter.begin_load`. An error of `check` ends the wait for that."""

        def begin() -> LogLoad:
            # An earlier one, and not this one.
            self._give_up_if_due()
            self.catalog.outdate()
            self._writer.extend_catalog(catalog)
            load = self._writer.begin_load(point, micros, catalog, tables)
            self._load, self._load_began = load, self._bytes
            self.has_load, self._is_load_due = True, False
            return load

        return self._call(begin, check)

    def end_load(self) -> None:
        """Gives the load its place, as soon as everything before it has landed."""
        with self._changed:
            self._is_load_due = True
            self._changed.notify_all()

    def give_up_load(self) -> None:
        """Gives the load up, as soon as the thread can: the log goes on without it.

        It does not wait: on a full disk, the load may be what fills it.
        """
        with self._changed:
            self._is_load_given_up = True
            self._changed.notify_all()

    def wait_for_room(self, seconds: float, is_stopped: Callable[[], bool]) -> None:
        """Waits until the queue has room again, at most so long or until a stop."""
        end = time.monotonic() + seconds
        with self._changed:
            while self.is_full and self.failure is None and not is_stopped():
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(left, _STOP_SECONDS))

    def finish(
        self, seconds: float, is_stopped: Callable[[], bool] | None = None
    ) -> bool:
        """Lands the queued blocks, as far as the time allows, and publishes them.

        Args:
            seconds: How long it may take.
            is_stopped: Ends the wait, and not the thread.

        Returns:
            Whether the thread has ended.
        """
        with self._changed:
            self._deadline = time.monotonic() + seconds / 2
            self._changed.notify()
        return self.wait(seconds, is_stopped)

    def wait(
        self, seconds: float, is_stopped: Callable[[], bool] | None = None
    ) -> bool:
        """Waits for the end of the thread, after `finish`: then, the log is closed.

        Args:
            seconds: How long it waits.
            is_stopped: Ends the wait.

        Returns:
            Whether the thread has ended.
        """
        end = time.monotonic() + seconds
        while not self._worker.join(min(end - time.monotonic(), _STOP_SECONDS)):
            is_over = time.monotonic() >= end
            if is_over or (is_stopped is not None and is_stopped()):
                return False
        return True

    def _run(self) -> None:
        try:
            self._land()
        except BaseException as error:
            self.failure = error
            if getattr(error, "code", None) == "other_server":
                # Earlier changes stay readable: no other start publishes them.
                with contextlib.suppress(Error):
                    self._writer.publish()
        finally:
            # Here, as nobody else knows when a disk that stalls has let go of it.
            with contextlib.suppress(RuntimeError):
                self._writer.close()
            with self._changed:
                self._has_ended = True
                orders, self._orders = self._orders, deque()
                self._changed.notify_all()
            for order in orders:
                order.refuse(self.failure)
            self._wake()

    def _call(self, do: Callable[[], T], check: Callable[[], None]) -> T:
        """Does something with the writer, between two blocks."""
        order = _Order(do)
        with self._changed:
            if self._has_ended:
                order.refuse(self.failure)
            else:
                self._orders.append(order)
                self._changed.notify_all()
        result: T = order.wait(check)
        return result

    def _nudge(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _pause_appending(self) -> None:
        self._is_paused = True

    def _give_up_if_due(self) -> None:
        if self._is_load_given_up:
            self._give_up_load()

    def _give_up_load(self) -> None:
        # First, as another attempt looks at it, too.
        self._is_load_given_up = False
        load = self._load
        if load is not None:
            self._try(lambda: self._writer.give_up_load(load))
        self._load, self.has_load = None, False

    def _end_load(self) -> None:
        load = self._load
        if load is None or not self._is_load_due:
            return
        ended: list[bool] = []
        self._try(lambda: ended.append(self._writer.end_load(load)))
        if ended[-1]:
            # In this order: without its first load, a log would be begun again.
            self.lacks_first_load = False
            self._load, self.has_load = None, False
            self._note()
            self._wake()

    def _follow_orders(self) -> None:
        while self._orders:
            self._orders.popleft().follow()

    def _begin(self, begun: _Session) -> None:
        self._sync()
        self._writer.new_session()
        session, self._session = begun.session, begun
        if session.comparison is Comparison.DONE:
            self._writer.assume_compared()
        else:
            only = session.comparison is Comparison.ONLY
            self._writer.compare(session.confirmed, only=only)
        # Until the server is compared, these are not the log's.
        self._writer.set_timeline(session.timeline, session.timeline_start)
        self._writer.set_asked(session.asked)
        self._look_at_comparison()
        if session.slot_start is not None:
            self._writer.set_slot_start(
                session.slot_start.lsn,
                prepared_until=session.slot_start.prepared_until,
                prepared=session.slot_start.prepared,
            )

    def _look_at_comparison(self) -> None:
        session = self._session
        if (
            session is None
            or session.number == self._compared
            or not self._writer.is_compared
        ):
            return
        self._compared = session.number
        self._wake()

    def _take(self, block: bytes | _Session | _Timeline | _Mark, end: Lsn) -> int:
        """Takes an item of the queue. Returns its number of bytes of the stream."""
        if isinstance(block, _Mark):
            self._sync()
            block.passed.set()
        elif isinstance(block, _Session):
            self._begin(block)
        elif isinstance(block, _Timeline):
            self._writer.set_timeline(block.timeline)
        else:
            self._append(block)
            if end > self.durable or not self.is_compared:
                self._writer.advance(end)
            self._look_at_comparison()
            return len(block)
        return 0

    def _land(self) -> None:
        synced = published = time.monotonic()
        unsynced = 0
        is_dirty = False
        while True:
            self._give_up_if_due()
            self._follow_orders()
            item = self._next(published, synced if is_dirty else None)
            if item is not None:
                unsynced += self._take(*item)
                is_dirty = is_dirty or not isinstance(item[0], (_Mark, _Session))
            now = time.monotonic()
            is_idle = self._is_paused or not self._queue
            is_due = now - synced >= (_IDLE_SECONDS if is_idle else _SYNC_SECONDS)
            if is_dirty and (is_due or unsynced >= _SYNC_BYTES):
                self._sync()
                synced, unsynced, is_dirty = time.monotonic(), 0, False
            self._look_at_relations()
            self._end_load()
            if not self._writer.has_changes and not self._writer.is_full:
                published = now
            elif self._writer.is_full or now - published >= self._age:
                self._await_catalog()
                self._try(self._writer.publish)
                self._note()
                published = now
            elif not self.catalog.is_awaited:
                self._try(self._writer.fill)
            if self._deadline is not None and (is_idle or now >= self._deadline):
                self._sync()
                self._await_catalog()
                self._try(self._writer.publish)
                if self._load is not None and not self._writer.lacks_first_load:
                    self._give_up_load()
                self._note()
                return

    def _next(
        self, published: float, synced: float | None
    ) -> tuple[bytes | _Session | _Timeline | _Mark, Lsn] | None:
        """The queued blocks, up to a session or a mark. None if another step is due.

        `synced` is when blocks were synced last, if there are others since.
        """
        with self._changed:
            is_idle = self._is_paused or not self._queue
            if is_idle and not self._orders and self._deadline is None:
                now = time.monotonic()
                due = self._age if synced is None else synced + _IDLE_SECONDS - now
                if self._writer.has_changes:
                    due = min(due, published + self._age - now)
                due = min(due, self.catalog.due - now)
                self._changed.wait(max(0.0, due))
        if self._is_paused:
            return None
        if 0 < self._queued < _GATHERED_BYTES and self._deadline is None:
            # A turn for each small block would cost more than the blocks.
            time.sleep(_GATHER_SECONDS)
        with self._changed:
            blocks: list[bytes] = []
            size, position = 0, Lsn(0)
            while self._queue and size < _JOINED_BYTES:
                block, server_lsn = self._queue[0]
                if not isinstance(block, bytes):
                    if not blocks:
                        return self._queue.popleft()
                    break
                self._queue.popleft()
                blocks.append(block)
                size, position = size + len(block), server_lsn
            self._queued -= size
            self._changed.notify_all()
            return (b"".join(blocks), position) if blocks else None

    def _append(self, block: bytes) -> None:
        rest = [block]

        def append() -> None:
            # After a failure, the writer has the block.
            self._writer.append(rest.pop() if rest else b"")

        self._try(append)
        self._bytes += len(block)
        self._note()

    def _sync(self) -> None:
        self._try(self._writer.sync)
        position = self._writer.position
        begun = self._session
        if (
            begun is not None
            and begun.session.comparison is not Comparison.ONLY
            and self._writer.is_compared
        ):
            is_new = position > self._confirmable
            self.last, self.asked = _last(self._writer), self._writer.asked
            self.durable = self._confirmable = position
            if is_new:
                self._wake()

    def _note(self) -> None:
        counts = self._writer.counts
        earlier = self._earlier
        self.counts = Counts(
            earlier.transactions + counts["transactions"],
            earlier.rows + counts["rows"],
            earlier.bytes + self._bytes,
            earlier.segments + counts["segments"],
            counts["last_commit_time"] or earlier.last_commit_time,
        )

    def _try(self, operation: Callable[[], object]) -> None:
        """Does something with the log. Tries again while the file system refuses it."""
        begin: float | None = None
        while True:
            try:
                operation()
            except LogError as error:
                if error.code != "store" or not is_refusal(error):
                    raise
                begin = begin or time.monotonic()
                now = time.monotonic()
                self.has_given_up = now >= begin + self._give_up_after
                if self.has_given_up or now >= self._end:
                    raise
                self.trouble = str(error)
                self._wake()
                self._give_up_if_due()
                self._pause()
            else:
                if begin is not None:
                    self.trouble = None
                    self._wake()
                return

    @property
    def _end(self) -> float:
        return math.inf if self._deadline is None else self._deadline

    def _pause(self) -> None:
        """Waits before another attempt. Blocks that arrive meanwhile do not end it."""
        until = time.monotonic() + _RETRY_SECONDS
        with self._changed:
            while (left := min(until, self._end) - time.monotonic()) > 0:
                self._changed.wait(left)

    def _look_at_relations(self) -> None:
        """Has the catalog read again for relations that it may not describe."""
        if not self._writer.is_compared:
            # It may be another server's.
            return
        if self._session is not None and self._found is not None:
            first, self._found = self._found, None
            self._try(lambda: self._writer.extend_catalog(first))
            self.catalog.know(self._writer.catalog, is_first=True)
        self.catalog.see(self._writer.new_relations())
        found = self.catalog.take()
        if found is not None:
            self._try(lambda: self._writer.extend_catalog(found))
            self.catalog.know(self._writer.catalog)
        self.catalog.begin_if_due(is_ending=self._deadline is not None)

    def _await_catalog(self) -> None:
        """Waits for definitions, but not for long: then they come before their first rows."""
        while True:
            # Nobody waits for an end that was not asked for by a stop.
            seconds = math.inf if self._deadline == math.inf else _DEFINITION_SECONDS
            with self._changed:
                end = min(self.catalog.awaited_until(seconds), self._end)
                left = end - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(min(left, _STOP_SECONDS))
        self._look_at_relations()


def _last(writer: LogWriter) -> Last | None:
    last = writer.last
    return None if last is None else Last(*last)


def is_refusal(error: BaseException) -> bool:
    """Whether a file system failed in a way that may be temporary, such as a full disk."""
    if isinstance(error, LogError) and error.code not in {"store", "not_synced"}:
        return False
    return isinstance(error, (LogError, SpoolError)) and error.errno not in _FINAL


#: Blocks that wait for the disk.
_QUEUE_BYTES = 64 << 20
#: Smaller blocks wait for more, but only for this time.
_GATHERED_BYTES = 1 << 20
_GATHER_SECONDS = 0.01
#: Blocks that are appended together, at most.
_JOINED_BYTES = 4 << 20
#: Without other blocks, the waiting blocks become durable after this time.
_IDLE_SECONDS = 0.02
#: Under load, these many bytes or seconds become durable at once.
_SYNC_BYTES = 16 << 20
_SYNC_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_STOP_SECONDS = 0.1
#: A segment waits this long for the definitions of its relations.
_DEFINITION_SECONDS = 1.0
#: These need somebody: another attempt does not help.
_FINAL = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOENT, errno.ENOTDIR}
