"""Ctrl-C: whatever is read, and however long no batch comes of it, signals are looked for."""

from __future__ import annotations

import itertools
import signal
import struct
import time
from typing import TYPE_CHECKING, Any

import pytest

import walrow
from captures import capture

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DATA = capture("rows").data
KEEPALIVE = b"d" + struct.pack("!IcqqB", 22, b"k", 1, 0, 0)
#: Answered at once, and still on a machine that is busy.
SECONDS = 1.5


@pytest.fixture
def interrupted() -> Iterator[Callable[[], float]]:
    """Raises KeyboardInterrupt in a moment; says how long it took to come."""
    begin = time.perf_counter()

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        yield lambda: time.perf_counter() - begin
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize(
    "chunks",
    [
        lambda: itertools.repeat(b""),
        lambda: itertools.repeat(KEEPALIVE),
        lambda: map(bytes, itertools.repeat(b"")),
        lambda: [DATA] * 10_000_000,
    ],
    ids=["nothing", "keepalives", "built-in", "list"],
)
@pytest.mark.parametrize("framing", ["wire", "copydata"])
def test_chunks_without_a_batch(
    chunks: Any, framing: Any, interrupted: Callable[[], float]
) -> None:
    source = chunks()
    if framing == "copydata":
        if isinstance(source, list):
            pytest.skip("these are wire frames")
        source = itertools.repeat(KEEPALIVE[5:])
    with pytest.raises(KeyboardInterrupt):
        list(
            walrow.Reader(source, framing=framing, table="none_of_these", schema=SCHEMA)
        )
    assert interrupted() < SECONDS


def test_frames_without_end(interrupted: Callable[[], float]) -> None:
    with pytest.raises(KeyboardInterrupt):
        list(walrow.messages(itertools.repeat(b"")))
    assert interrupted() < SECONDS


def test_nothing_is_lost_by_an_interrupt() -> None:
    decoder = walrow.Decoder()
    calls = 0

    def interrupt(_number: int, _frame: object) -> None:
        nonlocal calls
        calls += 1
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    chunks = [DATA[at : at + 7] for at in range(0, len(DATA), 7)] * 50
    batches = decoder.feed(chunks)
    rows = 0
    try:
        while True:
            signal.setitimer(signal.ITIMER_REAL, 0.0005)
            try:
                batch = next(batches, None)
            except KeyboardInterrupt:
                continue
            if batch is None:
                break
            rows += batch.num_rows
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    rows += sum(batch.num_rows for batch in decoder.finish())
    assert calls > 0
    assert rows == 50 * sum(batch.num_rows for batch in walrow.read(DATA))


class _Schema:
    """An Arrow schema without pyarrow."""

    def __arrow_c_schema__(self) -> Any:
        batch = next(iter(walrow.read(DATA, table="public.item")))
        return batch.__arrow_c_schema__()


SCHEMA = _Schema()
