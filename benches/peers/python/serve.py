"""The line protocol of benches/peers, for parsers in Python."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

#: The bytes in front of a pgoutput message in an XLogData message.
XLOG_DATA = 25


class Counts:
    """The contents of a capture."""

    def __init__(self) -> None:
        self.messages: dict[str, int] = {}
        self.cells = self.nulls = self.value_bytes = 0

    def message(self, tag: str) -> None:
        """Counts a message by its tag."""
        self.messages[tag] = self.messages.get(tag, 0) + 1

    def cell(self, value: str | bytes | None) -> None:
        """Counts a cell; None is NULL, or was not sent."""
        self.cells += 1
        self.nulls += value is None
        if value is not None:
            self.value_bytes += len(value.encode() if isinstance(value, str) else value)


class Parser(Protocol):
    """A parser behind the protocol."""

    def run(self, capture: bytes) -> int:
        """Parses a capture, drops the results and says how many there were."""

    def count(self, capture: bytes) -> dict[str, Any]:
        """Parses a capture and counts its contents."""


def payloads(capture: bytes) -> Iterator[bytes]:
    """The pgoutput message of each XLogData message, as a driver hands it out."""
    view, at, end = memoryview(capture), 0, len(capture)
    while at + 5 <= end:
        following = at + 1 + int.from_bytes(view[at + 1 : at + 5])
        if capture[at] == b"d"[0] and capture[at + 5] == b"w"[0]:
            yield capture[at + 5 + XLOG_DATA : following]
        at = following


def serve(parser: Parser) -> None:
    """Answers the lines of standard input until it ends."""
    capture = b""
    for line in sys.stdin:
        word, _, path = line.rstrip("\n").partition(" ")
        answer: dict[str, Any] = {}
        try:
            if word == "load":
                capture = Path(path).read_bytes()
            elif word == "count":
                answer = parser.count(capture)
            elif word == "pass":
                start = time.perf_counter_ns()
                items = parser.run(capture)
                answer = {"ns": time.perf_counter_ns() - start, "items": items}
            else:
                answer = {"error": "unknown line: load FILE, count or pass"}
        except Exception as error:  # whatever a parser raises
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)
