"""`walrow._waiting`: what every thread waits with."""

from __future__ import annotations

import fcntl
import math
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from walrow._waiting import READ, WRITE, StopEvent, Waiter


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def soon(seconds: float = 0.02) -> float:
    return time.monotonic() + seconds


def test_descriptors_that_are_ready(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    with Waiter() as waiter:
        waiter.watch(one.fileno(), READ)
        assert waiter.wait(soon()) == set()
        other.send(b"x")
        assert waiter.wait(soon()) == {one.fileno()}
        # Until it is read.
        assert waiter.wait(soon()) == {one.fileno()}
        assert not waiter.was_woken


def test_interest_changes(pair: tuple[socket.socket, socket.socket]) -> None:
    one, other = pair
    with Waiter() as waiter:
        waiter.watch(one.fileno(), READ | WRITE)
        assert waiter.wait(soon()) == {one.fileno()}
        waiter.watch(one.fileno(), READ)
        waiter.watch(one.fileno(), READ)
        assert waiter.wait(soon()) == set()
        other.send(b"x")
        waiter.watch(one.fileno(), 0)
        waiter.watch(one.fileno(), 0)
        assert waiter.wait(soon()) == set()
        waiter.watch(one.fileno(), READ)
        assert waiter.wait(soon()) == {one.fileno()}


def test_time_that_is_over(pair: tuple[socket.socket, socket.socket]) -> None:
    with Waiter() as waiter:
        waiter.watch(pair[0].fileno(), READ)
        begin = time.monotonic()
        assert waiter.wait(begin - 1) == set()
        assert waiter.wait(-math.inf) == set()
        assert time.monotonic() - begin < 0.5


def test_another_thread_wakes_it() -> None:
    with Waiter() as waiter:
        timer = threading.Timer(0.05, waiter.wake)
        timer.start()
        assert waiter.wait(math.inf) == set()
        assert waiter.was_woken
        timer.join()
        assert waiter.wait(soon()) == set()
        assert not waiter.was_woken


def test_woken_before_it_waits_and_often() -> None:
    """Once, whatever the socket has room for."""
    with Waiter() as waiter:
        for _ in range(100_000):
            waiter.wake()
        assert waiter.wait(math.inf) == set()
        assert waiter.was_woken
        waiter.wait(soon())
        assert not waiter.was_woken


def test_others_may_wait_for_its_descriptor() -> None:
    with Waiter() as waiter, Waiter() as other:
        other.watch(waiter.descriptor, READ)
        assert other.wait(soon()) == set()
        waiter.wake()
        assert other.wait(soon()) == {waiter.descriptor}
        waiter.drain()
        assert other.wait(soon()) == set()


def test_woken_after_the_end() -> None:
    waiter = Waiter()
    waiter.close()
    waiter.wake()
    waiter.close()


def test_descriptor_above_1024() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, before[1]), before[1]))
    try:
        readable, writable = os.pipe()
        high = fcntl.fcntl(readable, fcntl.F_DUPFD, 1500)
        with Waiter() as waiter:
            waiter.watch(high, READ)
            os.write(writable, b"x")
            assert waiter.wait(soon()) == {high}
        for each in (readable, writable, high):
            os.close(each)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_stop_ends_a_wait_that_has_begun() -> None:
    with Waiter() as waiter:
        stop = StopEvent()
        with stop.waking(waiter):
            threading.Timer(0.02, stop.set).start()
            waiter.wait(soon(10))
            assert waiter.was_woken
            assert stop.is_set()
        # Other waits go on.
        stop.set()
        waiter.wait(soon())
        assert not waiter.was_woken


def test_a_signal_may_wake_who_wakes() -> None:
    """Its handler runs in the same thread, wherever that is."""
    with Waiter() as waiter:
        before = signal.signal(signal.SIGALRM, lambda *_: waiter.wake())
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.005, 0.005)
            end = soon(0.3)
            while time.monotonic() < end:
                waiter.wake()
                waiter.drain()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
