"""The objects of a log at a URL, as fsspec reads them. Rust calls it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from walrow._sources.urls import fsspec_for, private


class LogStore:
    """The objects of a log at a URL. Nothing is written.

    Attributes:
        root: fsspec's path of the directory.

    Args:
        url: The URL of the directory.
        storage_options: Options of fsspec's file system, such as credentials.

    Raises:
        OptionError: fsspec or the package for the protocol is not installed, or the
            protocol or an option is unknown.
    """

    def __init__(self, url: str, storage_options: Mapping[str, Any]) -> None:
        self._url = url
        core = fsspec_for(url).core
        with private(url):
            self._system, root = core.url_to_fs(url, **storage_options)
        self.root: str = root.rstrip("/")

    def list(self) -> list[str]:
        """The names of all objects.

        Raises:
            OSError: The URL cannot be listed.
        """
        with private(self._url):
            self._system.invalidate_cache(self.root)
            found = self._system.ls(self.root, detail=False)
        names = (each.rstrip("/") for each in found)
        # Some stores have an empty object for a directory.
        return [name.rpartition("/")[2] for name in names if name != self.root]

    def open(self, name: str) -> LogObject:
        """Opens an object for reading.

        Raises:
            OSError: It does not exist, or cannot be read.
        """
        with private(self._url):
            # A listing lacks objects that were published since.
            self._system.invalidate_cache(self.root)
            path = f"{self.root}/{name}"
            file = self._system.open(path, "rb", block_size=_AHEAD_BYTES)
            return LogObject(file, self._url)


class LogObject:
    """An object that is open."""

    def __init__(self, file: Any, url: str) -> None:
        self._file = file
        self._url = url
        file.seek(0, os.SEEK_END)
        self.size: int = file.tell()

    def read_at(self, at: int, size: int) -> bytes:
        """The bytes at a place; fewer if the object ends before.

        Raises:
            OSError: They cannot be read.
        """
        with private(self._url):
            self._file.seek(at)
            read: bytes = self._file.read(size)
            while 0 < len(read) < size and (more := self._file.read(size - len(read))):
                read += more
        return read


#: The bytes that are read beyond a range: each request of an object store takes tens of
#: milliseconds.
_AHEAD_BYTES = 4 << 20
