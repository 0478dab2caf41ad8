"""Logs that a second thread reads: the same batches, errors and ends as with one thread."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import walrow
from logs import SEALABLE, contents, log_of, published, transactions
from walrow.errors import LogError

if TYPE_CHECKING:
    from captures import Capture

pa = pytest.importorskip("pyarrow")


def batches(log: Any, threads: Any, **options: Any) -> list[Any]:
    return [
        (str(batch.table), pa.record_batch(batch))
        for batch in walrow.read(log, threads=threads, **options)
    ]


@pytest.fixture
def log(tmp_path: Path) -> walrow.Log:
    """A log of forty segments of three rows."""
    return published(tmp_path / "log", transactions(40))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"batch_rows": 7},
        {"start": "0/3000", "end": "0/9000"},
        {"table": "public.t", "columns": ["id"]},
        {"start": "0/28000"},
    ],
    ids=repr,
)
def test_two_threads_return_the_batches_of_one(
    log: walrow.Log, options: dict[str, Any]
) -> None:
    one = batches(log, 1, **options)
    assert batches(log, 2, **options) == one
    assert bool(one) == (options != {"start": "0/28000"})
    log.compact()
    assert batches(log, 2, **options) == one
    with log.read(threads=2, **options) as reader:
        assert [(str(it.table), pa.record_batch(it)) for it in reader] == one


@pytest.mark.parametrize("capture", SEALABLE[::10], ids=str)
def test_a_sealed_capture_has_the_same_contents(
    capture: Capture, tmp_path: Path
) -> None:
    log = log_of(tmp_path / "log", capture, 1)
    assert contents(walrow.read(log, threads=2)) == contents(walrow.read(log))


def damaged(log: walrow.Log) -> Path:
    path = log.segments()[29].path
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    return path


def removed(log: walrow.Log) -> Path:
    path = log.segments()[29].path
    path.unlink()
    return path


@pytest.mark.parametrize("break_it", [damaged, removed])
def test_the_error_of_a_segment_comes_after_the_rows_before_it(
    log: walrow.Log, break_it: Any
) -> None:
    path = break_it(log)
    found = []
    for threads in (1, 2):
        rows, reader = 0, walrow.read(log, threads=threads, batch_rows=1)
        with pytest.raises(LogError) as raised:  # noqa: PT012
            for batch in reader:
                rows += batch.num_rows
        assert path.name in str(raised.value)
        with pytest.raises(LogError):
            next(reader)
        found.append((rows, str(raised.value), raised.value.code))
    assert found[0] == found[1]
    assert found[0][0] == 29 * 3


def segment_threads() -> int:
    count = 0
    for task in Path("/proc/self/task").iterdir():
        # It may end meanwhile.
        with contextlib.suppress(OSError):
            count += Path(task, "comm").read_text().strip() == "walrow-segments"
    return count


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(),
    reason="counts threads in /proc: run it on Linux",
)
@pytest.mark.parametrize("how", ["close", "drop", "end"])
def test_the_thread_ends_with_the_reader(log: walrow.Log, how: str) -> None:
    reader = walrow.read(log, threads=2, batch_rows=1)
    next(reader)
    assert segment_threads() == 1
    if how == "close":
        reader.close()
    elif how == "end":
        assert sum(len(batch) for batch in reader) == 40 * 3 - 1
    del reader
    until = time.monotonic() + 10
    while segment_threads() and time.monotonic() < until:
        time.sleep(0.01)
    assert segment_threads() == 0


def test_a_forked_process_does_not_wait_for_a_thread_it_lacks(log: walrow.Log) -> None:
    program = f"""
import os, sys, walrow, walrow.errors
reader = walrow.read({str(log.path)!r}, threads=2, batch_rows=1)
next(reader)
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
try:
    for _ in reader:
        pass
except walrow.errors.LogError as error:
    print(error)
"""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "read the log again there" in done.stdout


def test_several_readers_at_once(log: walrow.Log) -> None:
    expected = batches(log, 1, batch_rows=5)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(batches(log, 2, batch_rows=5)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 8


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(),
    reason="counts threads in /proc: run it on Linux",
)
def test_a_thread_reads_only_one_log_in_a_directory(log: walrow.Log) -> None:
    expected = batches(log, 1)
    before = segment_threads()
    for source in ([log], f"file://{log.path}/"):
        reader = walrow.read(source, threads=2, batch_rows=1)
        next(reader)
        assert segment_threads() <= before
    assert batches(f"file://{log.path}/", 2) == expected
    assert batches([log], 2) == expected
    assert batches(log, 3) == expected
