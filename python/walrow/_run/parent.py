"""The processes of `walrow run`: a parent starts them and passes signals on, as `supervisor` decides.

Each process is a new interpreter. It gets the file through its standard input, which stays open: when
that ends, the parent is gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

from walrow._log.status_record import Part
from walrow._run.config import Loaded
from walrow._run.reading import parse
from walrow._run.supervisor import (
    LEFT,
    Action,
    End,
    Ended,
    Event,
    Restarts,
    Send,
    Signalled,
    Start,
    Step,
    Ticked,
    begin,
    begin_once,
    due,
    on,
)
from walrow._waiting import LONGEST_SECONDS
from walrow._workers import in_background
from walrow.errors import OptionError


class Parent:
    """Carries out what `supervisor` decides."""

    def __init__(
        self,
        loaded: Loaded,
        *,
        words: Sequence[str],
        say: Callable[[Restarts | str], None],
    ) -> None:
        """Starts nothing yet.

        Args:
            loaded: The file.
            words: Options for each process.
            say: Is called when a process cannot be started, or has ended and will start again.
        """
        self._loaded = loaded
        self._words = words
        self._say = say
        self._children: dict[Part, subprocess.Popen[bytes]] = {}
        self._signals: queue.SimpleQueue[int] = queue.SimpleQueue()
        #: The parts that the system could not start.
        self._lost: list[Part] = []
        #: Whether a receiver has ended before it had everything.
        self._is_incomplete = False

    def run(self, *, once: bool) -> int:
        """Runs until it is stopped, or once. Returns the exit code."""
        with self._handled():
            try:
                state, actions = begin_once() if once else begin(time.monotonic())
                while True:
                    for action in actions:
                        if isinstance(action, End):
                            return action.code
                        self._do(action)
                    event = self._next(due(state))
                    if isinstance(event, Ended) and event.part is Part.RECEIVE:
                        self._is_incomplete |= event.code not in (0, LEFT)
                    state, actions = on(state, event, time.monotonic())
            finally:
                for child in self._children.values():
                    child.kill()
                    child.wait()

    @contextlib.contextmanager
    def _handled(self) -> Iterator[None]:
        def handle(number: int, _frame: object) -> None:
            self._signals.put(number)

        # nohup ignores SIGHUP, and a shell ignores SIGINT for its background jobs.
        numbers = [it for it in _PASSED if signal.getsignal(it) is not signal.SIG_IGN]
        before = {it: signal.signal(it, handle) for it in (*numbers, signal.SIGCHLD)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _next(self, at: float) -> Event:
        """Waits for the next event."""
        while True:
            if self._lost:
                return Ended(self._lost.pop(), 1)
            for part, child in list(self._children.items()):
                if (code := child.poll()) is not None:
                    del self._children[part]
                    if child.stdin is not None:
                        with contextlib.suppress(OSError):
                            child.stdin.close()
                    return Ended(part, code)
            left = at - time.monotonic()
            if left <= 0:
                return Ticked()
            try:
                number = self._signals.get(timeout=min(left, LONGEST_SECONDS))
            except queue.Empty:
                continue
            if number != signal.SIGCHLD:
                return Signalled(number)

    def _do(self, action: Action) -> None:
        match action:
            case Start(part, step):
                try:
                    self._children[part] = self._started(part, step)
                except OSError as error:
                    # Too many processes, or no memory: it is tried again, and the other part goes on.
                    self._say(f"{part.value} cannot be started: {error.strerror}")
                    self._lost.append(part)
            case Send(part, number):
                self._children[part].send_signal(number)
            case Restarts():
                self._say(action)

    def _started(self, part: Part, step: Step | None) -> subprocess.Popen[bytes]:
        path = str(self._loaded.path)
        command = [
            *(sys.executable, "-P", "-m", "walrow", part.value),
            *("--config", path, "--supervised"),
            *self._words,
        ]
        if step is not None:
            command += ["--until", "now"] if part is Part.RECEIVE else ["--once"]
        if step is Step.APPLY:
            command.append("--may-request")
        if step is not None and part is Part.APPLY and self._is_incomplete:
            command.append("--incomplete")
        if step is Step.LOAD:
            command.append("--again")
        child = subprocess.Popen(  # noqa: S603 - walrow itself, with the path of the file
            command,
            stdin=subprocess.PIPE,
            # A terminal's Ctrl-C comes to the parent only, which passes it on once.
            process_group=0,
        )
        text = self._loaded.text.encode()
        head = json.dumps({"bytes": len(text)}).encode()
        pipe = child.stdin
        if pipe is not None:
            # A process that has ended is the next event.
            with contextlib.suppress(OSError):
                pipe.write(head + b"\n" + text)
                pipe.flush()
        return child


_PASSED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def from_parent(path: Path) -> Loaded:
    """The file, as the parent has read it. When the parent is gone, this process ends.

    Raises:
        OptionError: The parent did not send it.
    """
    pipe = sys.stdin.buffer
    head = pipe.readline(_HEAD_BYTES)
    try:
        size = int(json.loads(head)["bytes"])
    except (ValueError, KeyError, TypeError):
        text = "--supervised is for `walrow run` only: leave it out"
        raise OptionError(text) from None
    text = pipe.read(size).decode()
    in_background("walrow-parent", lambda: _end_with(pipe))
    # The parent has checked who may read it.
    return parse(text, path, is_private=True)


def _end_with(pipe: IO[bytes]) -> None:
    """Ends the process when the parent is gone. At once, because the next parent may be there already.

    Nothing is lost: it is as after a crash.
    """
    while pipe.read(1):
        pass
    os.kill(os.getpid(), signal.SIGKILL)


_HEAD_BYTES = 1000
