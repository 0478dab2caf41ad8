"""Decompresses gzip and zstd, a block at a time."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from walrow._core import ZstdDecompressor
from walrow.errors import DecodeError, Remedy, UnfinishedError


def find(head: bytes) -> str | None:
    r"""The compression of data with these first bytes.

    >>> find(b"\x1f\x8b\x08\x00"), find(b"\x28\xb5\x2f\xfd"), find(b"PAR1")
    ('gzip', 'zstd', None)
    """
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    # Any frame, or one that decompressors skip.
    zstd = head.startswith(b"\x28\xb5\x2f\xfd")
    skipped = b"\x50" <= head[:1] <= b"\x5f" and head[1:4] == b"\x2a\x4d\x18"
    return "zstd" if zstd or skipped else None


def decompressed(blocks: Iterable[Any], compression: str, name: str) -> Iterator[bytes]:
    """Yields the data in blocks, in bounded memory, however small it was compressed.

    Args:
        blocks: The compressed data, which may have several members or frames.
        compression: As `find` returns it.
        name: The file's name, for errors.

    Raises:
        DecodeError: The data is damaged. All data before was yielded.
        UnfinishedError: The data is truncated. All data before was yielded.
    """
    codec: _Codec = _Gzip() if compression == "gzip" else _Zstd()
    for block in blocks:
        view = memoryview(block).cast("B")
        for start in range(0, len(view), _INPUT):
            rest: Any = view[start : start + _INPUT]
            full = False
            while full or rest:
                try:
                    out, rest = codec.step(rest)
                except (zlib.error, ValueError) as error:
                    text = f"{name}: the {compression} data is damaged: {error}"
                    raise DecodeError(text) from None
                full = len(out) >= _OUTPUT
                if out:
                    yield out
    if not codec.ended:
        raise UnfinishedError(
            f"{name}: the {compression} data is truncated: the file is incomplete, so copy "
            "it again, or wait until it is written",
            remedies=(Remedy("unfinished", None, "ignore"),),
            advice="; take only the complete transactions with ",
        )


class _Codec(Protocol):
    """A format of compressed data.

    Attributes:
        ended: Whether the input ends after a member or a frame.
    """

    @property
    def ended(self) -> bool: ...

    def step(self, data: Any) -> tuple[bytes, Any]:
        """Returns at most `_OUTPUT` bytes, and the part of the data that it did not take."""


class _Gzip:
    def __init__(self) -> None:
        self._member: Any = None
        self._members = 0

    @property
    def ended(self) -> bool:
        return self._member is None

    def step(self, data: Any) -> tuple[bytes, Any]:
        if self._member is None:
            # gzip pads members with zeros on tapes.
            data = bytes(data).lstrip(b"\0") if self._members else data
            if not data:
                return b"", b""
            self._member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        out = self._member.decompress(data, _OUTPUT)
        if not self._member.eof:
            return out, self._member.unconsumed_tail
        rest = self._member.unused_data
        self._member = None
        self._members += 1
        return out, rest


class _Zstd:
    def __init__(self) -> None:
        self._decompressor = ZstdDecompressor()

    @property
    def ended(self) -> bool:
        return self._decompressor.ended

    def step(self, data: Any) -> tuple[bytes, Any]:
        out, taken = self._decompressor.decompress(bytes(data), _OUTPUT)
        return out, data[taken:]


# gzip copies the rest of its input in every step, so it gets little at a time.
_INPUT = 128 << 10
_OUTPUT = 2 << 20
