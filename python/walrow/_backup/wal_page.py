"""The header of a segment's first page, which says which server wrote it: pure functions.

See `XLogLongPageHeaderData` in PostgreSQL's `access/xlog_internal.h`.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from walrow._lsn import Lsn

__all__ = ["HEADER_BYTES", "FirstPage", "parse_first_page"]


class FirstPage(NamedTuple):
    """The header of a segment's first page.

    Attributes:
        system_identifier: The server's, as IDENTIFY_SYSTEM returns it.
        address: The segment's first LSN.
        segment_size: The segment's size in bytes.
        timeline: The timeline.
    """

    system_identifier: str
    address: Lsn
    segment_size: int
    timeline: int


def parse_first_page(page: bytes) -> FirstPage | None:
    """Reads the header, in the byte order of the machine that wrote it.

    None if it is not there, as in a file that was only reserved.
    """
    if len(page) < HEADER_BYTES:
        return None
    for layout in _LAYOUTS:
        magic, flags, timeline, address, identifier, size, block = layout.unpack_from(
            page
        )
        if magic >> 8 == _MAGIC and flags & _IS_LONG and block in _BLOCK_SIZES:
            return FirstPage(str(identifier), Lsn(address), size, timeline)
    return None


# magic, flags, timeline, address, (remaining length), identifier, size of segment and page.
_FIELDS = "HHIQ4x4xQII"
_LAYOUTS = (struct.Struct("<" + _FIELDS), struct.Struct(">" + _FIELDS))
HEADER_BYTES = _LAYOUTS[0].size
#: The first byte of every version's number: 0xD10D in version 14, 0xD118 in 18.
_MAGIC = 0xD1
_IS_LONG = 0x0002
_BLOCK_SIZES = frozenset(1 << power for power in range(10, 17))
