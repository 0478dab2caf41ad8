"""Steps: plain values that can be printed, read back and drawn."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, ParamSpec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from campaign.day import Day

P = ParamSpec("P")


class Fault(AssertionError):  # noqa: N818 - as the table of faults has it
    """A state differs from the server, without a mark or a refusal. Or another broken promise."""


@dataclass(frozen=True)
class Step:
    """One operation of a user's day.

    Attributes:
        kind: Its name in `KINDS`.
        args: Small numbers that choose among what there is: a table, a column, a row.
    """

    kind: str
    args: tuple[int, ...] = ()


class Kind(NamedTuple):
    """The action of a kind of step.

    Attributes:
        run: Does it.
        ranges: For each argument, how many values it has.
        is_harmless: Whether it leaves a table whole: a mark after it is one without need.
    """

    run: Callable[..., None]
    ranges: tuple[int, ...]
    is_harmless: bool


#: All kinds, by name. The modules of the steps fill it.
KINDS: dict[str, Kind] = {}


def step(
    *ranges: int, is_harmless: bool = False
) -> Callable[[Callable[P, None]], Callable[P, None]]:
    """Registers a function as a kind of step, under its own name.

    Args:
        *ranges: For each argument after the day, how many values it has.
        is_harmless: See `Kind`.
    """

    def register(run: Callable[P, None]) -> Callable[P, None]:
        KINDS[run.__name__] = Kind(run, ranges, is_harmless)
        return run

    return register


def printed(steps: Iterable[Step]) -> str:
    """Writes steps as one line of JSON, to paste into a table or a command."""
    return json.dumps([[it.kind, *it.args] for it in steps])


def parsed(text: str) -> tuple[Step, ...]:
    """Reads what `printed` has written."""
    return tuple(Step(kind, tuple(args)) for kind, *args in json.loads(text))


def run(day: Day, it: Step) -> None:
    """Does one step. Numbers that are left out are 0."""
    kind = KINDS[it.kind]
    kind.run(day, *it.args, *[0] * (len(kind.ranges) - len(it.args)))


def wrapped(how: int, statements: list[str], name: str) -> list[str]:
    """Statements as one transaction."""
    half = len(statements) // 2
    body = "\n".join(f"EXECUTE $sql${it}$sql$;" for it in statements)
    return [
        ["BEGIN", *statements, "COMMIT"],
        [f"DO $do$ BEGIN {body} END $do$"],
        ["BEGIN", "SAVEPOINT a", *statements, "RELEASE a", "COMMIT"],
        ["BEGIN", "SAVEPOINT a", *statements, "ROLLBACK TO a", *statements, "COMMIT"],
        [
            "BEGIN",
            *statements[:half],
            "SAVEPOINT a",
            *statements[half:],
            "ROLLBACK TO a",
            "COMMIT",
        ],
        [
            f"DO $do$ BEGIN BEGIN {body} RAISE EXCEPTION 'no'; EXCEPTION WHEN raise_exception THEN END; {body} END $do$"
        ],
        ["BEGIN", *statements, "ROLLBACK"],
        [
            "BEGIN",
            *statements,
            f"PREPARE TRANSACTION '{name}'",
            f"COMMIT PREPARED '{name}'",
        ],
    ][how]
