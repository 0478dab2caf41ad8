"""CRC-32C in the way of hashlib: PostgreSQL's manifests use it by default."""

from __future__ import annotations

from walrow._core import crc32c

__all__ = ["Crc32c"]


class Crc32c:
    """A checksum in the way of hashlib."""

    def __init__(self) -> None:
        """Has seen no byte."""
        self._crc = 0

    def update(self, data: bytes) -> None:
        """Adds bytes."""
        self._crc = crc32c(data, self._crc)

    def digest(self) -> bytes:
        """Returns the four bytes in the order of a manifest: the lowest one first."""
        return self._crc.to_bytes(4, "little")
