"""Threads that do one task after the other. A test lists the few modules that make others.

```text
do(task) ─► queue ─► the worker's thread: task() ─► Future
```
"""

from __future__ import annotations

import contextlib
import contextvars
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from walrow._waiting import LONGEST_SECONDS

T = TypeVar("T")


class Crew:
    """The workers of somebody who ends only after them."""

    def __init__(self) -> None:
        self._threads: set[threading.Thread] = set()
        self._crew_lock = threading.Lock()

    @contextlib.contextmanager
    def collecting(self) -> Iterator[None]:
        """Collects the workers that this thread and its workers begin meanwhile."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)

    def add(self, thread: threading.Thread) -> None:
        """Adds a worker's thread."""
        with self._crew_lock:
            self._threads = {it for it in self._threads if it.is_alive()}
            self._threads.add(thread)

    def alive(self) -> list[threading.Thread]:
        """The threads that have not ended."""
        with self._crew_lock:
            return [it for it in self._threads if it.is_alive()]

    def join(self, seconds: float) -> None:
        """Waits for the threads, at most so long."""
        end = time.monotonic() + seconds
        for thread in self.alive():
            thread.join(max(0.0, end - time.monotonic()))


class Worker:
    """A thread that does one task after the other. It begins with the first one.

    It is a daemon: neither a server nor a disk holds the process. It belongs to what its maker belongs
    to.
    """

    def __init__(self, name: str, at_end: Callable[[], None] | None = None) -> None:
        """Does not start it yet.

        Args:
            name: The thread's name.
            at_end: Is called in the thread, after the last task.
        """
        self._name = name
        self._at_end = at_end
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def do(self, task: Callable[[], T]) -> Future[T]:
        """Does a task, after the earlier ones. After `close`, the answer is a cancelled one."""
        answer: Future[T] = Future()

        def run() -> None:
            try:
                found = task()
            except BaseException as error:
                answer.set_exception(error)
            else:
                answer.set_result(found)

        with self._lock:
            if self._is_closed:
                answer.cancel()
                return answer
            self._tasks.put(run)
            if self._thread is None:
                self._start()
        return answer

    def close(self) -> None:
        """Takes no more tasks. The thread ends after the tasks that it has."""
        with self._lock:
            self._is_closed = True
            self._tasks.put(None)

    def join(self, seconds: float) -> bool:
        """Waits for the end of the thread, at most so long. Returns whether it has ended."""
        thread = self._thread
        if thread is not None:
            thread.join(max(0.0, seconds))
        return thread is None or not thread.is_alive()

    def _start(self) -> None:
        run = contextvars.copy_context().run
        self._thread = threading.Thread(
            target=run, args=(self._run,), name=self._name, daemon=True
        )
        self._thread.start()
        if (crew := current_crew()) is not None:
            crew.add(self._thread)

    def _run(self) -> None:
        try:
            while (task := self._tasks.get()) is not None:
                task()
                # The task may hold large objects, or a connection.
                del task
        finally:
            if self._at_end is not None:
                self._at_end()


def in_background(name: str, task: Callable[[], T]) -> Future[T]:
    """Does one task in a separate thread."""
    worker = Worker(name)
    answer = worker.do(task)
    worker.close()
    return answer


class Repeated(Generic[T]):
    """A question that is asked again in the background, at most once in so many seconds."""

    def __init__(self, ask: Callable[[], Future[T]], seconds: float) -> None:
        """Asks nothing yet."""
        self._ask, self._seconds = ask, seconds
        self._due = 0.0
        self._answer: Future[T] | None = None

    def look(self) -> T | None:
        """Returns the answer that has come since the last look. Asks again if it is time."""
        now, answer = time.monotonic(), self._answer
        if answer is not None and answer.done():
            self._answer = None
            return answer.result()
        if answer is None and now >= self._due:
            self._due, self._answer = now + self._seconds, self._ask()
        return None


def answered(
    answer: Future[Any],
    seconds: float,
    is_stopped: Callable[[], bool] | None = None,
) -> bool:
    """Waits for an answer, or an error, at most so long or until a stop. Returns whether it is there."""
    end = time.monotonic() + seconds
    has_come = threading.Event()
    answer.add_done_callback(lambda _: has_come.set())
    while not answer.done() and (left := end - time.monotonic()) > 0:
        if is_stopped is None:
            has_come.wait(min(left, LONGEST_SECONDS))
        elif is_stopped():
            break
        else:
            has_come.wait(min(left, _STOP_SECONDS))
    return answer.done()


def current_crew() -> Crew | None:
    """The crew that a worker of this thread belongs to."""
    return _CURRENT.get()


_CURRENT: contextvars.ContextVar[Crew | None] = contextvars.ContextVar(
    "walrow_crew", default=None
)
_STOP_SECONDS = 0.1
