"""Text that a terminal may show: what could control it is written as an escape.

Names, server texts and file names may hold any character, and names of a SQL_ASCII
database any byte.
"""

from __future__ import annotations

import json
import sys


def printable(text: str | bytes) -> str:
    r"""Replaces what is not printable by an escape: `\x1b`, `\n`, `\u202e`.

    Bytes that are not UTF-8 become `\xe9`, also those of a file's name, in which Python has
    surrogates for them.
    """
    if isinstance(text, bytes):
        text = text.decode(errors="surrogateescape")
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else _escape(each) for each in text)


def _escape(character: str) -> str:
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"
    return character.encode("unicode_escape").decode()


def printable_json(text: str) -> str:
    r"""Replaces what is not printable in a line of JSON by JSON's escapes: `\u202e`.

    It stands for the same values. Only strings hold such characters.
    """
    if text.isprintable():
        return text
    return text.translate(_JSON_ESCAPES)


class _JsonEscapes(dict[int, str]):
    """Each character that was asked for, as it is or as an escape."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        # Escapes are ASCII: a pair of surrogates beyond U+FFFF.
        escape = json.dumps(character)[1:-1]
        self[code] = found = character if character.isprintable() else escape
        return found


_JSON_ESCAPES = _JsonEscapes()


def say(text: str) -> None:
    """Writes a line to stderr; all that is said there takes this way."""
    if sys.stderr is not None:
        sys.stderr.write(f"{printable(text)}\n")
        sys.stderr.flush()
