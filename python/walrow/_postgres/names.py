"""Names that a server would cut, or cannot have, are refused before they are sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from walrow.errors import OptionError


def check_slot_name(name: str) -> None:
    """Refuses a name that a server would cut, and so take for another slot's name.

    Raises:
        OptionError: It is too long, or not a text.
    """
    _check("slot", name)


def check_publication_names(names: Iterable[str]) -> None:
    """Refuses names that a server would cut, and so take for other publications' names.

    Raises:
        OptionError: One is too long, or not a text.
    """
    for name in names:
        _check("publication", name)


def _check(kind: Literal["slot", "publication"], name: str) -> None:
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        text = f"no {kind} has the name {name!r}: a surrogate is not a character"
        raise OptionError(text) from None
    if "\0" in name:
        text = f"no {kind} has the name {name!r}: it contains a NUL character"
        raise OptionError(text)
    if size > _NAME_BYTES:
        raise OptionError(
            f"a {kind}'s name has at most {_NAME_BYTES} bytes, and a server would cut"
            f' "{name}": that may be the name of another {kind}'
        )


#: NAMEDATALEN of PostgreSQL, without the NUL at its end.
_NAME_BYTES = 63
