"""The sources of a stream: paths, URLs, files, buffers, iterables of chunks."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

from walrow.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from walrow.typing import Source

__all__ = ["BLOCK_BYTES", "blocks"]


#: Files are read in blocks of this many bytes. Large blocks keep most transactions in one
#: piece. Memory stays bounded, unlike with a mapped file.
BLOCK_BYTES = 8 << 20


def blocks(source: Source, *, framing: str = "wire") -> Iterator[Any]:
    """Returns the chunks of a source.

    Files that it opens are opened immediately, and the result then has `close`.

    >>> list(blocks(b"one block"))
    [b'one block']

    Args:
        source: A path, a URL (with fsspec), a binary file object, a bytes-like object,
            or an iterable of chunks.
        framing: Chunks of `wire` and `recvlogical` may be cut anywhere. With `copydata`
            and `message`, each chunk is one payload or message, so the source must be
            an iterable of them.

    Raises:
        OptionError: The source cannot provide chunks of this framing.
        OSError: The file cannot be opened.
        TypeError: The source has an unsupported type.
    """
    if isinstance(source, str | os.PathLike) or _is_file(source):
        if framing in {"copydata", "message"}:
            text = (
                f"a file has no boundaries between chunks: framing {framing!r} "
                "needs an iterable of chunks"
            )
            raise OptionError(text)
        return _file_blocks(source)
    try:
        memoryview(source)  # type: ignore[arg-type]
    except TypeError:
        # Not the iterator itself: its creator closes it.
        return itertools.chain(iter(source))  # type: ignore[arg-type]
    return iter([source])


def _file_blocks(source: Any) -> _File:
    if isinstance(source, str) and "://" in source:
        return _File(_open_url(source), own=True)
    if isinstance(source, str | os.PathLike):
        return _File(open(source, "rb", buffering=0), own=True)  # noqa: PTH123
    return _File(source, own=False)


def _is_file(source: Any) -> bool:
    return hasattr(source, "read") or hasattr(source, "readinto")


def _open_url(url: str) -> Any:
    try:
        import fsspec
    except ImportError:
        text = f"URLs need fsspec: pip install fsspec ({url})"
        raise OptionError(text) from None
    return fsspec.open(url, "rb").open()


class _File:
    """The blocks of a file. Closes its own file at the end."""

    def __init__(self, file: Any, *, own: bool) -> None:
        self._file = file
        self._own = own

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if hasattr(self._file, "read"):
            block = self._file.read(BLOCK_BYTES)
        else:
            buffer = bytearray(BLOCK_BYTES)
            size = self._file.readinto(buffer)
            block = None if size is None else memoryview(buffer)[:size]
        if block is None:
            text = "the source has no data available: open it in blocking mode"
            raise BlockingIOError(text)
        if not block:
            self.close()
            raise StopIteration
        return block

    def close(self) -> None:
        if self._own:
            self._file.close()

    def __del__(self) -> None:
        self.close()
