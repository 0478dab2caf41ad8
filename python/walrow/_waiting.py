"""Waits for descriptors, for a time and for other threads. No descriptor is too large."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Iterator
from typing import Self

READ = selectors.EVENT_READ
WRITE = selectors.EVENT_WRITE


def pause(seconds: float) -> None:
    """Waits for a time, whatever happens. A signal's handler runs meanwhile, and may raise.

    A thread that others can stop waits with a `Waiter` instead.
    """
    time.sleep(seconds)


class Waiter:
    """Waits in one thread, and can be woken by any other. A context manager.

    Attributes:
        was_woken: Whether the last wait was ended by `wake`.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        # Not a pipe: on Windows, only sockets can be waited for.
        self._mouth, self._ear = socket.socketpair()
        for end in (self._mouth, self._ear):
            end.setblocking(False)
        self._selector.register(self._ear, READ)
        self._watched: dict[int, int] = {}
        # A signal may come while this thread has it, and its handler may wake.
        self._lock = threading.RLock()
        self._is_closed = False
        self.was_woken = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    @property
    def descriptor(self) -> int:
        """Is readable after `wake`, until the next wait: for others who wait."""
        return self._ear.fileno()

    def watch(self, descriptor: int, events: int) -> None:
        """Waits for these events of a descriptor from now on. Cheap if it does already.

        Args:
            descriptor: The descriptor. Before it is closed, call this with no events.
            events: `READ`, `WRITE`, both, or 0 for none.
        """
        watched = self._watched.get(descriptor, 0)
        if events == watched:
            return
        if not events:
            del self._watched[descriptor]
            self._selector.unregister(descriptor)
            return
        if watched:
            self._selector.modify(descriptor, events)
        else:
            self._selector.register(descriptor, events)
        self._watched[descriptor] = events

    def wait(self, until: float) -> set[int]:
        """Waits until a descriptor is ready, this is woken, or it is time.

        Args:
            until: When it ends, as `time.monotonic()` counts.

        Returns:
            The descriptors that are ready.
        """
        self.was_woken = False
        seconds = min(until - time.monotonic(), LONGEST_SECONDS)
        ready = {key.fd for key, _ in self._selector.select(max(seconds, 0.0))}
        if self._ear.fileno() in ready:
            ready.discard(self._ear.fileno())
            self.was_woken = True
            self.drain()
        return ready

    def wake(self) -> None:
        """Ends the wait, or the next one if nobody waits now."""
        # Without room, it is awake already. After the end, nobody waits, and another file may have
        # the descriptor.
        with self._lock, contextlib.suppress(OSError):
            if not self._is_closed:
                self._mouth.send(b"\0")

    def drain(self) -> None:
        """Forgets that it was woken."""
        with contextlib.suppress(BlockingIOError):
            while len(self._ear.recv(_DRAINED_BYTES)) == _DRAINED_BYTES:
                pass

    def close(self) -> None:
        """Waits no more."""
        with self._lock:
            self._is_closed = True
            self._selector.close()
            self._mouth.close()
            self._ear.close()


class StopEvent(threading.Event):
    """An event that ends the waits of waiters, too. A handler of a signal may set it."""

    def __init__(self) -> None:
        """Is not set, and has no waiters."""
        super().__init__()
        self._waiters: tuple[Waiter, ...] = ()

    @contextlib.contextmanager
    def waking(self, waiter: Waiter) -> Iterator[None]:
        """Wakes this waiter meanwhile, when it is set."""
        self._waiters = (*self._waiters, waiter)
        try:
            yield
        finally:
            self._waiters = tuple(it for it in self._waiters if it is not waiter)

    def set(self) -> None:
        """Sets it."""
        super().set()
        for waiter in self._waiters:
            waiter.wake()


_DRAINED_BYTES = 4096
#: The longest wait of one system call. A longer or endless wait needs several.
LONGEST_SECONDS = 86_400.0
