"""Logs that a second thread reads: the same batches, errors and ends as with one thread.

One thread decodes a capture.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import walrow
from captures import Capture, with_sides
from logs import SEALABLE, contents, history, published, sampled, transactions
from walrow.errors import LogError, OptionError

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


@pytest.mark.parametrize("capture", sampled(SEALABLE, 10), ids=str)
def test_a_sealed_capture_has_the_same_contents(
    capture: Capture, tmp_path: Path
) -> None:
    walrow.seal(capture.path, log=tmp_path, segment_size=2_000)
    log = walrow.Log(tmp_path)
    sides = with_sides(capture.path, "transactions")
    for options in (
        {"batch_rows": 5},
        {"profile": "text"},
        {"tables": sides, "missing_table": "ignore"},
    ):
        two = log.read(threads=2, unfinished="ignore", **options)
        one = log.read(unfinished="ignore", **options)
        assert contents(two) == contents(one)
        assert two.position == one.position
        assert two.bytes_read == one.bytes_read


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
    assert batches(log.path, 2) == expected
    assert batches(log, 3) == expected


def compressed(path: Path) -> str:
    target = path.with_suffix(".gz")
    target.write_bytes(gzip.compress(path.read_bytes()))
    return str(target)


#: The forms of a source, from the path of a capture.
SOURCES: dict[str, Callable[[Path], Any]] = {
    "path": lambda path: path,
    "gzip": compressed,
    "directory": lambda path: path.parent,
    "pattern": lambda path: f"{path.parent}/*.wire",
    "url": lambda path: f"file://{path}",
    "url of a directory": lambda path: f"file://{path.parent}/",
    "file": lambda path: io.BytesIO(path.read_bytes()),
    "list": lambda path: [path],
    "generator": lambda path: (each for each in [path]),
    "bytes": lambda path: path.read_bytes(),
    "chunks": lambda path: [path.read_bytes()],
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_one_thread_decodes_a_capture(source: Any, tmp_path: Path) -> None:
    path = tmp_path / "a.wire"
    path.write_bytes(history())
    for threads in (2, 64):
        with pytest.raises(OptionError) as raised:
            walrow.read(source(path), threads=threads)
        assert str(raised.value).startswith(f"threads={threads} needs a log")
        assert "Leave threads out" in str(raised.value)
        assert "walrow.seal" in str(raised.value)
    assert sum(it.num_rows for it in walrow.read(source(path), threads=1)) == 18
    assert sum(it.num_rows for it in walrow.read(source(path))) == 18


def test_one_thread_decodes_rows_of_a_slot() -> None:
    row = ("0/1000", 1, b"C")
    for source in (row, [row], iter([row])):
        with pytest.raises(OptionError, match="threads=2 needs a log"):
            walrow.read(source, threads=2)


def test_one_thread_decodes_a_log_and_a_capture(
    log: walrow.Log, tmp_path: Path
) -> None:
    capture = tmp_path / "a.wire"
    capture.write_bytes(history())
    for sources in ([log, capture], [capture, log]):
        with pytest.raises(OptionError, match="threads=2 needs a log"):
            walrow.read(sources, threads=2)


def test_a_capture_that_does_not_exist_is_that_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        walrow.read(tmp_path / "a.wire", threads=2)


@pytest.mark.parametrize("threads", [0, -1, 65, True, "2", None, 2.5])
def test_a_number_of_threads_is_checked(log: walrow.Log, threads: Any) -> None:
    for source in (log, b"", [b""]):
        with pytest.raises(OptionError, match="threads must be a number from 1 to 64"):
            walrow.read(source, threads=threads)
