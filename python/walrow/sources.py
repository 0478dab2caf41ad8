"""Where a stream's bytes come from: paths, URLs, files, buffers, iterables of chunks."""

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


#: Files are read in blocks of this many bytes: large ones keep most transactions in one
#: piece, and memory stays bounded, which a mapped file's would not.
BLOCK_BYTES = 8 << 20


def blocks(source: Source, *, framing: str = "wire") -> Iterator[Any]:
    """Gives a source's chunks. What it opens itself has `close`, and is open from now on.

    >>> list(blocks(b"one block"))
    [b'one block']

    Args:
        source: A path, a URL (with fsspec), a binary file object, a bytes-like object,
            or an iterable of chunks.
        framing: `wire` may be cut anywhere; in `copydata` and `message` each chunk is
            one payload or message, so the source must be an iterable of them.

    Raises:
        OptionError: A source that cannot give chunks of this framing.
        OSError: A file that cannot be opened.
        TypeError: Nothing of these.
    """
    if isinstance(source, str | os.PathLike) or _is_file(source):
        if framing != "wire":
            text = (
                f"a file does not tell where its chunks end: framing {framing!r} "
                "takes an iterable of them"
            )
            raise OptionError(text)
        return _file_blocks(source)
    try:
        memoryview(source)  # type: ignore[arg-type]
    except TypeError:
        # Not the iterator itself: that is closed by whoever made it.
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
        text = f"URLs are opened with fsspec: pip install fsspec ({url})"
        raise OptionError(text) from None
    return fsspec.open(url, "rb").open()


class _File:
    """The blocks of a file; closes one that was opened here at its end."""

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
            text = "the source has nothing to read now: open it in blocking mode"
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
