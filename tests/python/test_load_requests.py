"""Requests for loads, as files of a log."""

from __future__ import annotations

import os
import stat
import threading
from typing import TYPE_CHECKING

import pytest

import walrow
from walrow.load_needed import read_published
from walrow.load_requests import request, result_of, take

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
            (log / "_load-taken").unlink()
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
    request(log, ["public.item"])
    found = stat.S_IMODE((log / "_load-requested").stat().st_mode)
    assert found == (0o640 if group else 0o600)


def test_deeply_nested_files_are_damaged(tmp_path: Path) -> None:
    log = tmp_path / "log"
    walrow.seal(b"", log=log)
    nested = "[" * 100_000
    (log / "_load-taken").write_text(nested, encoding="utf-8")
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
