"""Threads: one at a time uses a decoder, and other threads run while it decodes."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import walrow
from captures import capture
from logs import published, transaction, transactions
from walrow._core import LogWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from walrow._core import LogCopy, LogLoad

ROWS = capture("rows")
#: A session begins again at each copy.
LONG = ROWS.data * 20_000


def rows(batches: Any) -> int:
    return sum(batch.num_rows for batch in batches)


COPIES = 50
#: Of all tables.
EXPECTED = 17


def test_two_threads_on_one_decoder_meet_in_a_clean_error() -> None:
    decoder = walrow.Decoder(batch_rows=64)
    barrier = threading.Barrier(2, timeout=10)
    total = 0
    refused: list[Exception] = []
    lock = threading.Lock()

    def work() -> None:
        nonlocal total
        barrier.wait()
        for _ in range(COPIES):
            # Each copy is fed whole. Any thread may decode it.
            while True:
                try:
                    batches = decoder.feed(ROWS.data)
                    break
                except RuntimeError as error:
                    refused.append(error)
            while True:
                try:
                    batch = next(batches, None)
                except RuntimeError as error:
                    refused.append(error)
                    continue
                if batch is None:
                    break
                with lock:
                    total += batch.num_rows

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    total += rows(decoder.finish())
    assert total == 2 * COPIES * EXPECTED
    assert {str(error) for error in refused} <= {"already in use by another thread"}


def test_a_decoder_in_use_by_another_thread_is_an_error() -> None:
    started, go_on = threading.Event(), threading.Event()

    def chunks() -> Any:
        started.set()
        assert go_on.wait(10)
        yield ROWS.data

    decoder = walrow.Decoder()
    with ThreadPoolExecutor(1) as pool:
        result = pool.submit(lambda: rows(decoder.feed(chunks())))
        assert started.wait(10)
        uses: list[Any] = [
            lambda: decoder.position,
            lambda: decoder.feed(b""),
            decoder.new_session,
        ]
        for use in uses:
            with pytest.raises(RuntimeError, match="in use by another thread"):
                use()
        go_on.set()
        assert result.result(10) == 0
    assert rows(decoder.finish()) == EXPECTED


def test_each_thread_may_have_its_own_reader() -> None:
    barrier = threading.Barrier(8, timeout=10)

    def work(_: int) -> int:
        barrier.wait()
        return sum(rows(walrow.read(ROWS.data * 50)) for _ in range(5))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(work, range(8))) == [5 * 50 * EXPECTED] * 8


def test_threads_wait_for_each_other_on_one_log(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions())._log

    def work(_: int) -> set[Any]:
        # The first one reads a file without the interpreter.
        return {(len(log.erased()), log.end) for _ in range(300)}

    with ThreadPoolExecutor(4) as pool:
        assert set().union(*pool.map(work, range(4))) == {(0, log.end)}


def test_others_run_while_bytes_are_decoded() -> None:
    # The machine may be busy with others for a while.
    assert min(longest_wait() for _ in range(5)) < 0.5


def test_others_run_while_a_writer_is_closed(tmp_path: Path) -> None:
    assert turns_while(_filling(tmp_path)[0].close) > 10


@pytest.mark.parametrize("part", ["writer", "load", "copy"])
def test_others_run_while_a_writer_is_dropped(tmp_path: Path, part: str) -> None:
    if part == "writer":
        held: list[Any] = _filling(tmp_path)
    else:
        # Either of them may be the last.
        writer, load, copy = _loading(tmp_path)
        held = [load] if part == "load" else [copy]
        writer.close()
        del writer, load, copy
    assert turns_while(held.clear) > 10


def turns_while(call: Callable[[], object]) -> int:
    """The number of turns that another thread has during a call.

    The call waits for the thread of a segment, which compresses for longer than some turns.
    """
    turns, done = 0, threading.Event()

    def count() -> None:
        nonlocal turns
        while not done.wait(0.001):
            turns += 1

    counting = threading.Thread(target=count)
    counting.start()
    before = turns
    call()
    during = turns - before
    done.set()
    counting.join(10)
    return during


def _writer(directory: Path) -> LogWriter:
    return LogWriter(directory, segment_bytes=1 << 30, level=22, spool_memory=1 << 20)


def _text() -> str:
    chosen = random.Random(1)  # noqa: S311 - no secret
    words = [str(chosen.getrandbits(40)) for _ in range(3000)]
    return " ".join(chosen.choices(words, k=100_000))


def _filling(directory: Path) -> list[LogWriter]:
    """A writer whose next segment is compressed."""
    writer = _writer(directory)
    writer.append(transaction(0x1000, ("1", _text())))
    writer.sync()
    writer.fill()
    return [writer]


def _loading(directory: Path) -> tuple[LogWriter, LogLoad, LogCopy]:
    """A writer, and a load whose segment is compressed."""
    writer = _writer(directory)
    catalog = walrow.Catalog(
        '{"tables": [{"schema": "s", "name": "t", "oid": 1, "columns": '
        '[{"name": "v", "type": 25, "type_modifier": -1, "key": false}]}]}'
    )
    load = writer.begin_load(walrow.Lsn(0x1000), 0, catalog, [(1, "d")])
    copy = load.copy(0, binary=False)
    copy.append(f"{_text()}\n".encode())
    return writer, load, copy


def longest_wait() -> float:
    """How long this thread waits while another one decodes, as a part of the whole time."""
    done = threading.Event()
    refused: list[bool] = []

    def work() -> None:
        # No batch becomes full, so this is one call.
        # Only the end shows that no transaction contains the table.
        reader = walrow.read(LONG, table=("public", "none_of_these"), schema=EMPTY)
        with pytest.raises(walrow.errors.SchemaError, match="none_of_these"):
            rows(reader)
        refused.append(True)

    def guarded() -> None:
        try:
            work()
        finally:
            done.set()

    thread = threading.Thread(target=guarded)
    turns, longest, last = 0, 0.0, time.perf_counter()
    begin = last
    thread.start()
    while not done.is_set():
        now = time.perf_counter()
        longest, last = max(longest, now - last), now
        turns += 1
    took = time.perf_counter() - begin
    thread.join(10)
    assert refused == [True]
    assert turns > 100
    return longest / took


class _Empty:
    """An Arrow schema without fields."""

    def __arrow_c_schema__(self) -> object:
        return walrow.schema(_catalog(), "t", metadata=()).__arrow_c_schema__()


def _catalog() -> walrow.Catalog:
    return walrow.Catalog(
        '{"tables": [{"schema": "s", "name": "t", "oid": 1, "columns": []}]}'
    )


EMPTY = _Empty()
