"""Wrong calls and commands, one of each kind, with what their errors must name.

A kind is one thing to be wrong, as one check finds it: the type of a value, its range, a choice, a
form such as an LSN, a size or a duration, a contradiction of two options, or the absence of what is
named: a file, a log, a table, a column, a setting, a server, a target. An option whose declaration
already has a kind here needs no probe of its own.

An error names its parts: the option or the place, the value's type or its range, and what is right
instead. The wording between these names is free. The module `calls` is about Python, and `commands`
about the command line.
"""

from __future__ import annotations

from typing import Any, NamedTuple

#: A user's data. No message has it.
SECRET = "hunter2"  # noqa: S105 - of no server


class Call(NamedTuple):
    """A wrong expression of Python.

    Attributes:
        call: The expression.
        error: The name of the error's class.
        names: What the message names.
        attributes: Attributes of the error: `remedy` is the option of the first remedy.
    """

    call: str
    error: str
    names: tuple[str, ...]
    attributes: dict[str, Any] = {}  # noqa: RUF012 - nothing changes it


class Command(NamedTuple):
    """The words of a wrong command, its exit code, and what its message names."""

    call: str
    code: int
    names: tuple[str, ...]


def faults_of(message: str, names: tuple[str, ...]) -> list[str]:
    """The names that a message lacks, and what it must not have."""
    faults = [f"does not name {name}" for name in names if name not in message]
    faults += [f"has Python's own {words!r}" for words in _PYTHON if words in message]
    if SECRET in message:
        faults.append("has the user's data")
    if "\n" in message.strip() and "Is the server running" not in message:
        faults.append("has more than one line")
    return faults


#: Python's words for a value that was not checked.
_PYTHON = (
    "object is not",
    "has no attribute",
    "not supported between",
    "unsupported operand",
    "cannot be interpreted",
    "Traceback",
)
