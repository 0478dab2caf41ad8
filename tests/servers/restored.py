"""A server that starts from a data directory which somebody has made."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from servers.embedded import EmbeddedServer


class Restored(EmbeddedServer):
    """A server like `EmbeddedServer`, from a base backup."""

    def __init__(
        self,
        major: int,
        restore: Callable[[Path], None],
        *,
        programs: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Restores the data directory, and starts the server.

        Args:
            major: The major version.
            restore: Makes the data directory at a path that does not exist. Tablespaces
                may be beside it.
            programs: As in `EmbeddedServer`.
            settings: As in `EmbeddedServer`.
        """
        self._restore = restore
        super().__init__(major, programs=programs, settings=settings)

    def _make_cluster(self, work_mem: str, settings: Mapping[str, str]) -> None:
        self._restore(self.data_directory)
        if self._account is not None:
            user, group = self._account["user"], self._account["group"]
            for place, directories, files in os.walk(self._root):
                for path in map(Path(place).joinpath, (*directories, *files)):
                    os.chown(path, user, group, follow_symlinks=False)
        self._configure(work_mem, settings)


class Copy:
    """A copy of a server's files, to set it back."""

    def __init__(self, server: EmbeddedServer) -> None:
        """Restarts the server for the copy."""
        self._server = server
        self._copy = server.data_directory.with_name("copy")
        server.shut_down("fast")
        copy_files(server.data_directory, self._copy)
        server.start()

    def put_back(self) -> None:
        """Restarts the server from the copy."""
        self._server.shut_down("fast")
        shutil.rmtree(self._server.data_directory)
        copy_files(self._copy, self._server.data_directory)
        self._server.start()


def copy_files(from_: Path, to: Path) -> None:
    """Copies files with their owners and modes."""
    subprocess.run(["cp", "-a", from_, to], check=True)  # noqa: S603, S607
