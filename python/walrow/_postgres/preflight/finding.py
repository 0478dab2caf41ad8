"""Findings of a preflight."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from walrow._results import Result, Results, result

Severity = Literal["error", "warning", "note"]


@result
class Finding(Result):
    """Something that a preflight found.

    Attributes:
        code: The kind of finding, for programs: `slot-missing`.
        severity: `error`: the stream cannot start, or would lose values. `warning`: it
            can start, but something may fail later. `note`: something to know.
        text: It in words.
        sql: The statements that fix it, each ending with a semicolon. None if no
            statement does.
    """

    code: str
    severity: Severity
    text: str
    sql: str | None = None

    def __str__(self) -> str:
        """Returns the text, and the statements below it."""
        lines = [f"{self.severity}: {self.text} [{self.code}]"]
        lines += [f"    {line}" for line in (self.sql or "").splitlines()]
        return "\n".join(lines)


class Preflight(Results[Finding]):
    """The findings of `preflight`: errors first, then warnings and notes."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        """Has the findings, in this order."""
        super().__init__(findings, "finding")

    @property
    def errors(self) -> list[Finding]:
        """The findings that prevent a complete stream."""
        return [each for each in self if each.severity == "error"]

    def __str__(self) -> str:
        """Returns the findings, one a line."""
        return "\n".join(map(str, self)) or "nothing is missing"

    __repr__ = __str__


def listed(names: Iterable[str]) -> str:
    """Some names, and the number of the others."""
    names = list(names)
    more = len(names) - _LISTED
    rest = f" and {more} more" if more > 0 else ""
    return ", ".join(names[:_LISTED]) + rest


#: Names in one text. The statements have all of them.
_LISTED = 5
