"""Requests for loads, as files of a log."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import walrow
from walrow.load_requests import request, take

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
