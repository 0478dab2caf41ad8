"""Wrong calls and commands, with the parts of their messages.

A message names the problem, the place and the remedy. Each probe has these three parts as texts, and
the message has them all. The module `calls` is about Python, and `commands` about the command line.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Probe", "faults_of"]


class Probe(NamedTuple):
    """A wrong call or command, and the parts of its message.

    Attributes:
        call: An expression of Python, or the words of a command.
        wrong: The problem.
        where: The argument, the option, the table or the file.
        remedy: The remedy: the right name, form or step.
    """

    call: str
    wrong: str
    where: str
    remedy: str


def faults_of(message: str, probe: Probe) -> list[str]:
    """The parts that a message lacks, and words of Python in it."""
    wanted = {"wrong": probe.wrong, "where": probe.where, "remedy": probe.remedy}
    faults = [
        f"no {part}: {text}" for part, text in wanted.items() if text not in message
    ]
    faults += [f"Python's own words: {words}" for words in _PYTHON if words in message]
    if "\n" in message.strip() and "Is the server running" not in message:
        faults.append("more than one line")
    return faults


#: Python's words for a value that was not checked.
_PYTHON = (
    "unexpected keyword",
    "positional argument",
    "object is not",
    "has no attribute",
    "not supported between",
    "unsupported operand",
    "cannot be interpreted",
    "Traceback",
)
