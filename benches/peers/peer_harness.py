"""A harness: a process that reads lines and answers each with a line of JSON.

    load FILE   reads a capture into memory: {}
    count       parses it and counts its contents:
                {"messages": {"I": 7}, "cells": 9, "nulls": 1, "value_bytes": 30};
                a parser leaves out the counts that it does not know
    pass        parses it and drops the results: {"ns": 123, "items": 9};
                items are messages, or rows

An answer {"error": TEXT} says that the parser failed.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

Counts = dict[str, Any]


class HarnessError(Exception):
    """A harness that ended, or whose parser failed."""


class Pass(NamedTuple):
    """One pass over a capture."""

    ns: int
    items: int


class Harness:
    """A running harness.

    Args:
        name: For errors.
        command: Starts it.
        env: Its environment; None is the caller's own.
    """

    def __init__(
        self, name: str, command: Sequence[str], env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        try:
            self._process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=env,
            )
        except OSError as error:
            message = f"{name} does not start: {error}"
            raise HarnessError(message) from error

    def load(self, capture: Path) -> None:
        """Has a capture read into memory."""
        self._ask(f"load {capture}")

    def count(self) -> Counts:
        """Counts the capture's contents."""
        return self._ask("count")

    def run(self) -> Pass:
        """Parses the capture once."""
        answer = self._ask("pass")
        return Pass(answer["ns"], answer["items"])

    def close(self) -> None:
        """Ends the process."""
        with suppress(OSError):
            self._process.communicate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ask(self, line: str) -> dict[str, Any]:
        pipe_in, pipe_out = self._process.stdin, self._process.stdout
        if pipe_in is None or pipe_out is None:
            raise AssertionError
        try:
            pipe_in.write(f"{line}\n")
            pipe_in.flush()
            answer = pipe_out.readline()
        except OSError:
            answer = ""
        if not answer:
            message = f"{self.name} ended at {line!r}"
            raise HarnessError(message)
        said: dict[str, Any] = json.loads(answer)
        if "error" in said:
            message = f"{self.name} cannot {line.split(maxsplit=1)[0]}: {said['error']}"
            raise HarnessError(message)
        return said


def differences(name: str, own: Counts, other_name: str, other: Counts) -> list[str]:
    """Lists the counts that differ, as sentences that name both parsers.

    Only counts that both parsers give are compared. A kind of message that one of them
    never gives is not compared.

    Example:
        >>> differences("a", {"cells": 4}, "b", {"cells": 5, "nulls": 1})
        ['cells: a counts 4, b counts 5']
    """
    pairs = [(what, own, other) for what in ("cells", "nulls", "value_bytes")]
    pairs += [
        (tag, own.get("messages", {}), other.get("messages", {}))
        for tag in sorted(own.get("messages", {}))
    ]
    return [
        f"{what}: {name} counts {mine[what]}, {other_name} counts {theirs[what]}"
        for what, mine, theirs in pairs
        if what in mine and what in theirs and mine[what] != theirs[what]
    ]
