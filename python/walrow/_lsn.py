"""LSNs: positions in PostgreSQL's write-ahead log."""

from __future__ import annotations

import re
from typing import Self


class Lsn(int):
    """A position in PostgreSQL's write-ahead log, in bytes: an int that prints as an LSN.

    It compares, hashes and pickles as an int, and the result of arithmetic is an int.
    Format codes for numbers, such as `d` and `x`, format the number, others the text.

    >>> from walrow import Lsn
    >>> lsn = Lsn("16/B374D848")
    >>> lsn, str(lsn), int(lsn)
    (Lsn('16/B374D848'), '16/B374D848', 97500059720)
    >>> lsn - Lsn("16/B374D000")
    2120
    >>> f"{lsn:>12} {lsn:#x}"
    ' 16/B374D848 0x16b374d848'

    Args:
        value: An int, or an LSN as PostgreSQL writes it.

    Raises:
        ValueError: The text is not an LSN, or the number is negative or larger than
            64 bits.
        TypeError: The value is neither an int nor a text.
    """

    __slots__ = ()

    def __new__(cls, value: int | str = 0) -> Self:
        """Creates an LSN from an int or a text."""
        if isinstance(value, str):
            value = _parsed(value)
        elif isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"an LSN is an int or a text, not {type(value).__name__}")
        lsn = super().__new__(cls, value)
        if not 0 <= lsn < 1 << 64:
            raise ValueError("an LSN is a number from 0 to 2**64 - 1")
        return lsn

    def __str__(self) -> str:
        """Returns the LSN as PostgreSQL writes it."""
        return f"{self >> 32:X}/{self & 0xFFFFFFFF:X}"

    def __repr__(self) -> str:
        """Returns the expression for this LSN."""
        return f"Lsn('{self!s}')"

    def __format__(self, spec: str) -> str:
        """Formats the text, or with a code for numbers, the number."""
        return format(int(self) if spec[-1:] in _NUMBER_CODES else str(self), spec)


def _parsed(text: str) -> int:
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError(_NO_LSN)
    return int(found[1], 16) << 32 | int(found[2], 16)


#: Two hexadecimal halves.
_TEXT = re.compile("([0-9A-Fa-f]{1,8})/([0-9A-Fa-f]{1,8})")
_NO_LSN = "an LSN is two hexadecimal numbers of up to 8 digits, such as 16/B374D848"
#: An empty code is not one of them.
_NUMBER_CODES = frozenset("bcdoxXneEfFgG%")
