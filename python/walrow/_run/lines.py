"""The lines of a TOML file where its tables and keys are, for messages. tomllib does not keep them."""

from __future__ import annotations

import re
from typing import TypeAlias

#: The keys that lead to a value, and the numbers of tables in arrays.
Place: TypeAlias = tuple[str | int, ...]


def places(text: str) -> dict[Place, int]:
    r"""The lines of tables and of the keys that begin a line.

    >>> found = places("[source]\nslot = 's'\n[[target]]\n[[target]]\nto = 'x'")
    >>> found["source", "slot"], found["target", 0], found["target", 1, "to"]
    (2, 3, 5)
    """
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    quote = ""
    for number, line in enumerate(text.split("\n"), 1):
        was_inside = bool(quote)
        for each in _QUOTES.findall(line):
            # Three quotes begin a text of several lines, and the same ones end it.
            quote = ("" if each == quote else quote) if quote else each
        if was_inside:
            continue
        if head := _ARRAY.match(line):
            name = _keys(head[1])
            at = counts.get(name, 0)
            counts[name] = at + 1
            table = (*name, at)
            found.setdefault(table, number)
        elif head := _TABLE.match(line):
            name = _keys(head[1])
            # A table below the last one of an array.
            table = name
            for depth in range(len(name) - 1, 0, -1):
                if name[:depth] in counts:
                    table = (*name[:depth], counts[name[:depth]] - 1, *name[depth:])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_keys(key[1])), number)
    return found


def line_of(known: dict[Place, int], place: Place) -> int | None:
    """The line of a value, or of the table around it."""
    while place:
        # A table may only be there as the beginning of its keys.
        lines = [line for key, line in known.items() if key[: len(place)] == place]
        if lines:
            return known.get(place, min(lines))
        place = place[:-1]
    return None


def _keys(text: str) -> Place:
    return tuple(it[1:-1] if it[0] in "\"'" else it for it in _PART.findall(text))


_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")
_NAME = rf"(?:{_PART.pattern})(?:\s*\.\s*(?:{_PART.pattern}))*"
_ARRAY = re.compile(rf"\s*\[\[\s*({_NAME})\s*\]\]")
_TABLE = re.compile(rf"\s*\[\s*({_NAME})\s*\]")
_KEY = re.compile(rf"\s*({_NAME})\s*=")
_QUOTES = re.compile(r'"""|\'\'\'')
