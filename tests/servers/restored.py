"""A server that starts from a data directory which somebody has made."""

from __future__ import annotations

import os
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
