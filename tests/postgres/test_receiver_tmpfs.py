"""`walrow receive` on a small tmpfs, which fills up and gets room again."""

from __future__ import annotations

import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from servers.receiving import (
    Load,
    ReceiverProcess,
    check_log,
    end_of_wal,
    receive_all,
    slot_for_load,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import EmbeddedServer

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

QUICK = ("--age", "0.3", "--segment-size", "1")
SIZE = 32 << 20


@pytest.fixture
def slot(own: EmbeddedServer) -> Iterator[str]:
    with slot_for_load(own) as name:
        yield name


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system with little room."""
    directory = tmp_path / "small"
    directory.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(directory)]
    mounted = subprocess.run(mount, capture_output=True, text=True)  # noqa: S603, PLW1510
    if mounted.returncode != 0:
        pytest.skip(f"only root can mount a tmpfs: {mounted.stderr.strip()}")
    try:
        yield directory
    finally:
        subprocess.run(["umount", "--lazy", str(directory)], check=True)  # noqa: S603, S607


def fill(directory: Path, left: int) -> Path:
    """Takes all room of a file system, except these bytes."""
    ballast = directory / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        file.truncate(max(file.tell() - left, 0))
    return ballast


@pytest.mark.parametrize("left", [pytest.param(0, marks=pytest.mark.slow), 300 << 10])
def test_room_that_comes_back(
    own: EmbeddedServer, slot: str, small: Path, left: int
) -> None:
    log = small / "log"
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot) as receiver:
        receiver.until_streaming()
        for seed in (21, 22):
            ballast = fill(small, left)
            with Load(own.dsn, seed=seed):
                state = receiver.until(lambda state: state["state"] == "degraded")
                assert "No space left" in state["note"]
                time.sleep(1)
                ballast.unlink()
                receiver.until_streaming()
        receiver.until_streaming(after=end_of_wal(own.dsn))
        receiver.stop()
    check_log(own.dsn, log, Load.TABLES)


def test_kill_while_there_is_no_room(
    own: EmbeddedServer, slot: str, small: Path
) -> None:
    log = small / "log"
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot) as receiver:
        receiver.until_streaming()
        with Load(own.dsn, seed=23):
            time.sleep(1)
            ballast = fill(small, 64 << 10)
            receiver.until(lambda state: state["state"] == "degraded")
            receiver.kill()
    # There is no room to begin, either.
    with ReceiverProcess(own.dsn, log, *QUICK, slot=slot) as receiver:
        receiver.until(lambda state: "No space left" in (state["note"] or ""))
        ballast.unlink()
        receiver.until_streaming(after=end_of_wal(own.dsn))
    receive_all(own.dsn, log, slot=slot)
    check_log(own.dsn, log, Load.TABLES)
