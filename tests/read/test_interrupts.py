"""Ctrl-C interrupts reading of any source, even if no batch comes for a long time."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import walrow
from captures import capture
from logs import published, transaction, transactions
from streams import keepalive
from walrow._core import LogObjects

DATA = capture("rows").data
KEEPALIVE = keepalive(1)
#: Seconds until the interrupt must arrive, also on a busy machine.
SECONDS = 1.5


@pytest.fixture
def interrupt() -> Iterator[Callable[[], Callable[[], float]]]:
    """Raises KeyboardInterrupt soon after a call. The result returns the time since then."""

    has_come = False

    def handler(_number: int, _frame: object) -> None:
        nonlocal has_come
        if not has_come:
            has_come = True
            raise KeyboardInterrupt

    def soon() -> Callable[[], float]:
        nonlocal has_come
        has_come = False
        begin = time.perf_counter()
        # It comes again: CPython 3.11 may lose a signal that another thread gets.
        signal.setitimer(signal.ITIMER_REAL, 0.2, 0.5)

        def interrupted() -> float:
            signal.setitimer(signal.ITIMER_REAL, 0)
            return time.perf_counter() - begin

        return interrupted

    before = signal.signal(signal.SIGALRM, handler)
    try:
        yield soon
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
    chunks: Any, framing: Any, interrupt: Callable[[], Callable[[], float]]
) -> None:
    source = chunks()
    if framing == "copydata":
        if isinstance(source, list):
            pytest.skip("these are wire frames")
        source = itertools.repeat(KEEPALIVE[5:])
    decoder = walrow.Decoder(framing=framing, table="none_of_these", schema=SCHEMA)
    interrupted = interrupt()
    with pytest.raises(KeyboardInterrupt):
        list(decoder.feed(source))
    assert interrupted() < SECONDS


def test_frames_without_end(interrupt: Callable[[], Callable[[], float]]) -> None:
    interrupted = interrupt()
    with pytest.raises(KeyboardInterrupt):
        list(walrow.frames(itertools.repeat(b"")))
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
    # An interrupt between two batches does not lose the first: the list has it.
    found: list[walrow.Batch] = []
    try:
        while True:
            # Whenever the timer ends, it is in here.
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005)
                found.extend(batches)
                signal.setitimer(signal.ITIMER_REAL, 0)
                break
            except KeyboardInterrupt:
                continue
    finally:
        signal.signal(signal.SIGALRM, before)
    rows = sum(batch.num_rows for batch in [*found, *decoder.finish()])
    assert calls > 0
    assert rows == 50 * sum(batch.num_rows for batch in walrow.read(DATA))


def save_for_ever(decoder: walrow.Decoder) -> None:
    while True:
        decoder.save_prepared()


class _Schema:
    """An Arrow schema without pyarrow."""

    def __arrow_c_schema__(self) -> Any:
        batch = next(iter(walrow.read(DATA, table="public.item")))
        return batch.__arrow_c_schema__()


SCHEMA = _Schema()


def test_a_large_state(interrupt: Callable[[], Callable[[], float]]) -> None:
    frames = list(walrow.frames(capture("two-phase").data))
    kinds = [frame.message.kind if frame.message else "" for frame in frames]
    begin, end = kinds.index("b"), kinds.index("P")
    prepared = [frame.to_bytes() for frame in frames[begin:end]]
    row = next(prepared[at - begin] for at in range(begin, end) if kinds[at] == "I")
    decoder = walrow.Decoder(spool_memory=1 << 30)
    rows = row * (64_000_000 // len(row))
    end_of_it = frames[end].to_bytes()
    list(decoder.feed([b"".join(prepared), rows, rows, rows, end_of_it]))
    held = decoder.prepared
    assert held
    interrupted = interrupt()
    with pytest.raises(KeyboardInterrupt):
        save_for_ever(decoder)
    assert interrupted() < SECONDS
    # No row is lost.
    assert decoder.prepared == held
    assert len(decoder.save_prepared()) > 3 * len(rows)


def test_a_state_of_a_log(
    tmp_path: Path, interrupt: Callable[[], Callable[[], float]]
) -> None:
    log = published(
        tmp_path / "log",
        (
            transaction(0x1000 * part, *((str(row), "x" * 500) for row in rows))
            for part in range(1, 41)
            for rows in [range(part * 20_000, (part + 1) * 20_000)]
        ),
        level=None,
    )
    reader = log.state("t", spool_memory=1 << 20)
    interrupted = interrupt()
    with pytest.raises(KeyboardInterrupt):
        next(reader)
    assert interrupted() < SECONDS


def test_a_wait_for_the_lock_of_a_log(
    tmp_path: Path, interrupt: Callable[[], Callable[[], float]]
) -> None:
    log = published(tmp_path / "log", transactions(2))
    log.register("r")
    objects = LogObjects(log.path)
    calls: list[Callable[[], object]] = [
        objects.lock,
        lambda: log.register("s"),
        lambda: log.prune(0x1000, force=True),
        lambda: walrow.log.cancel_load(log=log.path),
    ]
    for call in calls:
        with objects.lock():
            interrupted = interrupt()
            with pytest.raises(KeyboardInterrupt):
                call()
            assert interrupted() < SECONDS
    # The interrupt does not come up again, and the log has not changed.
    assert [reader.name for reader in log.readers()] == ["r"]
    with objects.lock():
        assert walrow.Log(log.path).start == 0
    with pytest.raises(walrow.errors.LogError) as raised:
        log.forget("s")
    assert raised.value.code == "no_reader"


def test_upkeep_of_a_log(
    tmp_path: Path, interrupt: Callable[[], Callable[[], float]]
) -> None:
    rows = [(str(row), "x" * 5000) for row in range(4_000)]
    log = published(
        tmp_path / "log",
        (transaction(0x1000 * part, *rows) for part in range(1, 21)),
        level=None,
    )
    segments = log.segments()
    jobs: list[Callable[[], object]] = [
        log.verify,
        lambda: log.compact(segment_size=1 << 34),
        lambda: log.erase("t", columns=["v"]),
    ]
    for job in jobs:
        interrupted = interrupt()
        # Each takes longer than that.
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            job()
        assert interrupted() < SECONDS
        if job is not jobs[-1]:
            assert walrow.Log(log.path).segments() == segments
    # Some segments may be rewritten. Another call goes on.
    log = walrow.Log(log.path)
    assert log.verify() == []
    assert len(log.segments()) == len(segments)
    log.erase("t", columns=["v"])
    with pytest.raises(walrow.errors.SchemaError):
        # It is gone.
        log.erase("t", columns=["v"])
