"""Signals that end a command in order."""

from __future__ import annotations

import contextlib
import itertools
import select
import signal
import sys
import threading
from collections.abc import Iterator
from typing import NoReturn


@contextlib.contextmanager
def stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """The first signal ends it in order, the second one at once."""
    came = itertools.count()

    def handle(number: int, _frame: object) -> None:
        # The second one may come while the first one sets the event, which has a lock.
        if next(came):
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
        stop.set()

    # nohup ignores SIGHUP, and a shell ignores SIGINT for its background jobs.
    handled = [each for each in _SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    before = {each: signal.signal(each, handle) for each in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def ended_with_its_reader() -> Iterator[None]:
    """Ends a command when nobody reads its output any more, also while it has nothing to write.

    Raises:
        BrokenPipeError: The reader of stdout has closed it.
    """
    poll = select.poll()
    # No event: only errors and hang-ups are reported.
    poll.register(sys.stdout.fileno(), 0)
    main, is_over = threading.main_thread(), threading.Event()

    def watch() -> None:
        while not is_over.is_set():
            if poll.poll(_WATCH_MILLISECONDS) and not is_over.is_set() and main.ident:
                signal.pthread_kill(main.ident, signal.SIGPIPE)
                return

    before = signal.signal(signal.SIGPIPE, _broken)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        is_over.set()
        signal.signal(signal.SIGPIPE, before)


def _broken(_number: int, _frame: object) -> NoReturn:
    raise BrokenPipeError


_WATCH_MILLISECONDS = 200
_SIGNALS = [
    each
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if (each := getattr(signal, name, None)) is not None
]
