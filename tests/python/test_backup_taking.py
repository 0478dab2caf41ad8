"""The files that a failed base backup leaves, without a server."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from walrow._backup import base_taking
from walrow._backup.base_options import BackupOptions
from walrow._backup.base_taking import Taking
from walrow.errors import BackupError

if TYPE_CHECKING:
    from pathlib import Path

    from walrow._lsn import Lsn


class Receiver:
    """A receiver of WAL that cannot end in order, as after a second Ctrl-C."""

    def reserve(self) -> None:
        pass

    def begin(self, start: Lsn, timeline: int, directory: Path) -> None:
        pass

    def check(self) -> None:
        pass

    def finish(self, end: Lsn, timeline: int) -> None:
        pass

    def abandon(self) -> None:
        raise KeyboardInterrupt


def options(to: Path) -> BackupOptions:
    return BackupOptions(to=to, checkpoint="fast")


def break_off(taking: Taking, error: Exception) -> None:
    """Fails in the middle of a backup."""
    with taking.only_if_done():
        (taking.directory / "base.tar").touch()
        raise error


def test_files_are_removed_also_if_the_receiver_is_interrupted(tmp_path: Path) -> None:
    taking = Taking(options(tmp_path / "b"), [], lambda _: None, Receiver())
    with pytest.raises(KeyboardInterrupt):
        break_off(taking, ConnectionError())
    assert not [*tmp_path.iterdir()]


def test_an_error_of_the_disk_says_what_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base_taking, "remove_trees", list)
    taking = Taking(options(tmp_path / "b"), [], lambda _: None)
    with pytest.raises(BackupError, match="No space left") as raised:
        break_off(taking, OSError(errno.ENOSPC, "No space left on device", "f"))
    assert raised.value.__notes__ == [
        f"remove what is left of the backup: {tmp_path / 'b.partial'}"
    ]
