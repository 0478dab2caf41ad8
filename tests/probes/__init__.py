"""Wrong calls and commands, and what their messages must say.

A message says what was wrong, where, and what to do. Each probe has these three parts as texts, and
the message has them all. `calls` has the calls of Python, `commands` those of the command line.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Probe", "faults_of"]


class Probe(NamedTuple):
    """A wrong call or command, and the parts of its message.

    Attributes:
        call: An expression of Python, or the words of a command.
        wrong: What was wrong.
        where: The argument, the option, the table or the file.
        remedy: What to do: the right name, form or step.
    """

    call: str
    wrong: str
    where: str
    remedy: str


def faults_of(message: str, probe: Probe) -> list[str]:
    """The parts that a message lacks, and what no reader of it should have to see."""
    wanted = {"wrong": probe.wrong, "where": probe.where, "remedy": probe.remedy}
    faults = [
        f"no {part}: {text}" for part, text in wanted.items() if text not in message
    ]
    faults += [f"Python's own words: {words}" for words in _PYTHON if words in message]
    if "\n" in message.strip() and "Is the server running" not in message:
        faults.append("more than one line")
    return faults


#: What Python says of a value that nobody has checked.
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
