"""Calls of deltalake, which end only by themselves: Ctrl-C leaves them, and the next call waits.

deltalake never runs in a process that was forked, because it would panic there.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

from walrow.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Stopped", "call", "refuse_fork"]

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818 - it ends a source of rows that nobody waits for
    """The caller was interrupted."""


class _Job(threading.Thread, Generic[T]):
    """A call in a thread. Its result is there when it has ended."""

    def __init__(self, function: Callable[[threading.Event], T]) -> None:
        # Otherwise the process would wait for it at its end.
        super().__init__(name="walrow-delta", daemon=True)
        self.stopped = threading.Event()
        # An interruption of `join` would make the thread look as if it had ended.
        self._ended = threading.Event()
        self._function = function
        self._result: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        """Makes the call."""
        try:
            self._result.append(self._function(self.stopped))
        # deltalake's panics are no exceptions.
        except BaseException as error:
            self._error = error
        finally:
            self._ended.set()

    def wait(self) -> None:
        """Waits, so that signals are seen."""
        while not self._ended.wait(_TICK):
            pass

    def result(self) -> T:
        """The result of the call, or its error."""
        if self._error is not None:
            raise self._error
        return self._result[0]


def call(
    target: str,
    function: Callable[[threading.Event], T],
    *,
    commits: bool = False,
) -> T:
    """Makes a call in another thread, and waits for it.

    Args:
        target: The target. Calls for it wait for each other.
        function: The call. It gets an event that is set when the caller was interrupted.
        commits: Whether it writes to the target.

    Raises:
        KeyboardInterrupt: The call goes on. The target's next call waits for it.
    """
    refuse_fork()
    with _LOCK:
        before = _JOBS.get(target)
        job = _Job(function)
    if before is not None:
        before.wait()
    with _LOCK:
        _JOBS[target] = job
    job.start()
    try:
        job.wait()
    except BaseException as interruption:
        job.stopped.set()
        if commits:
            interruption.add_note(
                f"{target}: the last commit may yet have been made: its record says so"
            )
        raise
    with _LOCK:
        if _JOBS.get(target) is job:
            del _JOBS[target]
    return job.result()


def refuse_fork() -> None:
    """Refuses to go on in a process that was forked after deltalake was imported.

    Raises:
        OptionError: It was.
    """
    if _FORKED.is_set():
        text = (
            "deltalake does not work in a process that was forked: start it with spawn, such as "
            'multiprocessing.get_context("spawn")'
        )
        raise OptionError(text)


def _in_child() -> None:
    """Notes that this process was forked."""
    _JOBS.clear()
    if "deltalake" in sys.modules:
        _FORKED.set()


_TICK = 0.1
_LOCK = threading.Lock()
#: By target, the call that runs, or that an interruption has left.
_JOBS: dict[str, _Job] = {}  # type: ignore[type-arg]
_FORKED = threading.Event()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
