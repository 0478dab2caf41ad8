"""Signals that end a command in order."""

from __future__ import annotations

import contextlib
import itertools
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

__all__ = ["stopped_by_signals"]


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


_SIGNALS = [
    each
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if (each := getattr(signal, name, None)) is not None
]
