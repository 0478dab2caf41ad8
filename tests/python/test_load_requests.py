"""Requests for loads, as files of a log."""

from __future__ import annotations

import os
import stat
import threading
import time
from typing import TYPE_CHECKING

import pytest

import walrow
from walrow.load_needed import read_published
from walrow.load_requests import is_wanted, request, result_of, take

if TYPE_CHECKING:
    from pathlib import Path


def test_a_request_beside_a_writer_that_starts(tmp_path: Path) -> None:
    """It removes the temporary files that a crash may have left."""
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    stop = threading.Event()
    failures: list[Exception] = []

    def open_again_and_again() -> None:
        while not stop.is_set():
            try:
                walrow.seal(b"", log=log)
            except walrow.Error as error:
                failures.append(error)

    writer = threading.Thread(target=open_again_and_again)
    writer.start()
    try:
        for _ in range(500):
            wanted = request(log, ["public.item"])
            assert take(log) == wanted
            assert walrow.cancel_load(log=log) == 1
    finally:
        stop.set()
        writer.join()
    assert not failures
    assert not list(log.glob(".*"))


@pytest.mark.skipif(os.name != "posix", reason="modes")
@pytest.mark.parametrize("directory", [0o700, 0o755], ids=oct)
@pytest.mark.parametrize("group", [False, True], ids=["owner", "group"])
def test_a_request_is_for_whom_the_log_is(
    tmp_path: Path,
    directory: int,
    group: bool,  # noqa: FBT001
) -> None:
    log = tmp_path / "log"
    log.mkdir()
    log.chmod(directory)
    walrow.seal(b"", log=log, group_access=group)
    wanted = request(log, ["public.item"])
    found = stat.S_IMODE((log / "_load-requests" / wanted.key).stat().st_mode)
    assert found == (0o640 if group else 0o600)


def test_a_request_is_wanted_as_long_as_somebody_waits(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    first = request(log, ["public.item"], is_awaited=True)
    second = request(log, ["public.other"])
    assert take(log) == first
    assert is_wanted(log, first)
    # Its process ended a minute ago.
    for wanted in (first, second):
        long_ago = time.time() - 61
        os.utime(log / "_load-requests" / wanted.key, (long_ago, long_ago))
    assert not is_wanted(log, first)
    # A request that nobody waits for stays.
    assert take(log) == second
    assert is_wanted(log, second)
    assert not is_wanted(log, first)


def test_a_request_is_taken_back_by_a_timeout(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    with pytest.raises(TimeoutError, match="is walrow receive running"):
        walrow.load("public.item", log=log, timeout=0)
    assert take(log) is None
    walrow.load("public.item", log=log, wait=False)
    walrow.load(["public.item", "public.other"], log=log, wait=False)
    walrow.load("public.third", log=log, wait=False)
    assert walrow.cancel_load("public.none", log=log) == 0
    assert walrow.cancel_load(["public.item"], log=log) == 2
    taken = take(log)
    assert taken is not None
    assert taken.tables == ["public.third"]
    assert walrow.cancel_load(log=log) == 1


def test_whoever_waits_for_a_cancelled_load_learns_it(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    found: list[str] = []

    def wait() -> None:
        try:
            walrow.load("public.item", log=log, timeout=60)
        except walrow.LogError as error:
            found.append(str(error))

    waiting = threading.Thread(target=wait)
    waiting.start()
    while not walrow.cancel_load("public.item", log=log):
        time.sleep(0.01)
    waiting.join()
    assert found == ["the load was cancelled"]


def test_deeply_nested_files_are_damaged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    nested = "[" * 100_000
    (log / "_load-requests").mkdir()
    (log / "_load-requests" / "nested").write_text(nested, encoding="utf-8")
    with pytest.raises(walrow.LogError, match="damaged"):
        take(log)
    (log / "_load-needed").write_text(nested, encoding="utf-8")
    with pytest.raises(walrow.LogError, match="damaged"):
        read_published(lambda name: (log / name).read_bytes())
    wanted = request(log, None)
    result = log / f"_load-result-{wanted.key}"
    result.write_text(nested, encoding="utf-8")
    found = result_of(log, wanted)
    assert found is not None
    assert found.failure == "the result of the load cannot be read"
