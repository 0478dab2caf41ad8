"""Calls of deltalake, which end only by themselves: Ctrl-C leaves them, and the next call waits.

deltalake never runs in a process that was forked, because it would panic there.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

from walrow._workers import answered, in_background
from walrow.delta.panics import without_panics
from walrow.errors import OptionError

T = TypeVar("T")


class Stopped(Exception):  # noqa: N818 - it ends a source of rows that nobody waits for
    """The caller was interrupted."""


class _Job(NamedTuple):
    """A call in a thread: whether its caller was interrupted, and whether it has ended."""

    stopped: threading.Event
    ended: threading.Event


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
    while before is not None and not before.ended.wait(_TICK):
        # So that signals are seen.
        pass
    job = _Job(threading.Event(), threading.Event())
    try:
        with without_panics() if commits else contextlib.nullcontext():
            answer = in_background("walrow-delta", partial(_run, target, function, job))
            while not answered(answer, _TICK):
                pass
    except BaseException as interruption:
        with _LOCK:
            job.stopped.set()
        if commits:
            interruption.add_note(
                f"{target}: the last commit may yet have been made: its record says so"
            )
        raise
    return answer.result()


def _run(target: str, function: Callable[[threading.Event], T], job: _Job) -> T:
    """Makes a call, in its thread, unless the caller was interrupted before it begins."""
    with _LOCK:
        if job.stopped.is_set():
            raise Stopped
        _JOBS[target] = job
    try:
        return function(job.stopped)
    finally:
        job.ended.set()
        with _LOCK:
            if _JOBS.get(target) is job:
                del _JOBS[target]


def refuse_fork() -> None:
    """Refuses to go on in a process that was forked after deltalake was imported.

    Raises:
        OptionError: It was.
    """
    if _FORKED.is_set():
        raise OptionError(
            "deltalake does not work in a process that was forked: start it with spawn, such as "
            'multiprocessing.get_context("spawn")'
        )


def _in_child() -> None:
    """Notes that this process was forked."""
    _JOBS.clear()
    if "deltalake" in sys.modules:
        _FORKED.set()


_TICK = 0.1
_LOCK = threading.Lock()
#: By target, the call that runs, or that an interruption has left.
_JOBS: dict[str, _Job] = {}
_FORKED = threading.Event()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
