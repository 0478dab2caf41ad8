"""Text for a terminal, with control characters as escapes.

Names, server messages and file names may contain any character. Names in a SQL_ASCII
database may contain any byte.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any


def printable(text: str | bytes) -> str:
    r"""Replaces characters that are not printable with escapes: `\x1b`, `\n`, `\u202e`.

    Bytes that are not UTF-8 become `\xe9`. This includes bytes in file names, which
    Python represents as surrogates.
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
    r"""Replaces characters that are not printable in JSON with escapes: `\u202e`.

    The values do not change, because only strings contain such characters.
    """
    if text.isprintable():
        return text
    return text.translate(_JSON_ESCAPES)


def print_json(record: Mapping[str, Any]) -> None:
    """Prints one JSON object, whose names may have any characters."""
    # A command says by this module that click is missing.
    import click

    click.echo(printable_json(json.dumps(record, ensure_ascii=False)))


class _JsonEscapes(dict[int, str]):
    """Maps each requested character to itself or to its escape."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        # Escapes are ASCII. Beyond U+FFFF, they are a pair of surrogates.
        escape = json.dumps(character)[1:-1]
        self[code] = found = character if character.isprintable() else escape
        return found


_JSON_ESCAPES = _JsonEscapes()


def line_printer(*, whole: bool) -> Callable[[str, str, str, bool], None]:
    """Prints lines to stdout: a head in a style, a text, and whether the line must be whole.

    Each is cut to the width of a terminal, in colour. Elsewhere it is plain and whole.
    """
    if not sys.stdout.isatty():
        return _plain
    from rich.console import Console
    from rich.text import Text

    console = Console()

    def show(head: str, style: str, text: str, is_whole: bool) -> None:  # noqa: FBT001
        line = Text.assemble((head, style), text)
        if whole or is_whole:
            console.print(line, soft_wrap=True)
        else:
            console.print(line, no_wrap=True, overflow="ellipsis", crop=True)

    return show


def _plain(head: str, _style: str, text: str, _whole: bool) -> None:  # noqa: FBT001
    print(head + text)  # noqa: T201


def say(text: str) -> None:
    """Writes a line to stderr. All output to stderr uses this function."""
    if sys.stderr is not None:
        sys.stderr.write(f"{printable(text)}\n")
        sys.stderr.flush()
