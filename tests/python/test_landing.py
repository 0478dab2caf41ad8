"""Steps that wait for the thread that writes a log, while the disk refuses it."""

from __future__ import annotations

import errno
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

import pytest

from logs import transaction
from walrow import Catalog, Lsn
from walrow._core import LogWriter
from walrow._postgres.interruption import Left, Step
from walrow._receive.landing import Landing
from walrow._receive.orders import Counts
from walrow.errors import LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class FullDisk:
    """A log's writer that the disk refuses as long as it is full."""

    def __init__(self, path: Path) -> None:
        self._writer = LogWriter(path, segment_bytes=1 << 20, level=1, spool_memory=0)
        self.refuses = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._writer, name)

    def sync(self) -> Any:
        if self.refuses.is_set():
            text = "no space left"
            raise LogError(text, code="store", errno=errno.ENOSPC)
        return self._writer.sync()


@pytest.fixture
def disk(tmp_path: Path) -> FullDisk:
    return FullDisk(tmp_path / "log")


@pytest.fixture
def landing(disk: FullDisk) -> Iterator[Landing]:
    """A thread that waits for the disk, with a transaction in its queue."""
    never: Future[Catalog] = Future()
    disk.refuses.set()
    landing = Landing(
        disk,  # type: ignore[arg-type]
        age=1.0,
        give_up_after=3_600,
        read_catalog=lambda: never,
        found=None,
        catalog_failure=None,
        wake=lambda: None,
        earlier=Counts(),
    )
    landing.put(transaction(0x1000, ("1", "x")), Lsn(0x1000))
    while landing.trouble is None:
        landing.tick()
        time.sleep(0.01)
    yield landing
    disk.refuses.clear()
    assert landing.finish(10)


def left(do: Callable[[Landing, Step[None]], Any], landing: Landing) -> Step[None]:
    """A step that nobody waits for any more."""
    step: Step[None] = Step(
        lambda step: do(landing, step), lambda _: None, lambda: None
    )
    time.sleep(0.2)
    step.leave()
    deadline = time.monotonic() + 5
    while not step.is_done:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    with pytest.raises(Left):
        step.result()
    return step


def test_a_step_that_is_left_does_not_wait_for_a_full_disk(
    landing: Landing, disk: FullDisk
) -> None:
    left(lambda landing, step: landing.settle(step.check), landing)
    left(lambda landing, step: landing.plan_first_load(step.check), landing)

    left(lambda landing, step: landing.paused(step.check).__enter__(), landing)
    # Orders that were given up are not followed later: the thread goes on, and has no load.
    disk.refuses.clear()
    landing.settle(lambda: None)
    assert not landing.lacks_first_load
