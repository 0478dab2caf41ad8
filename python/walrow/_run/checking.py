"""Compares a file with its server and its log, before anything starts."""

from __future__ import annotations

from typing import NamedTuple

from walrow._run.config import Loaded
from walrow._run.facts import existing, facts_of, opened
from walrow._run.matching import unmatched
from walrow._run.plan import Facts, Plan, doubtful, plan
from walrow._run.server import Published, published_of
from walrow.errors import Error


class Checked(NamedTuple):
    """The result of a check.

    Attributes:
        plan: The plan for now.
        problems: The problems that keep it from its start, each with its remedy.
        unasked: Why the server could not be asked. None if it has answered.
    """

    plan: Plan
    problems: list[str]
    unasked: str | None


def check(loaded: Loaded) -> Checked:
    """Compares a file with its server and its log. Changes nothing.

    Raises:
        LogError: The log is damaged.
    """
    source = loaded.file.source
    problems: list[str] = []
    found, unasked = Published([], [], has_slot=False, grows=False), None
    try:
        found = published_of(source)
    except Error as error:
        unasked = str(error)
    else:
        problems += [
            f"the publication {it} does not exist: CREATE PUBLICATION {it} FOR TABLE …"
            for it in found.missing
        ]
        if not found.tables and not found.missing and not found.grows:
            names = ", ".join(source.publications)
            problems.append(
                f"no table is published by {names}: ALTER PUBLICATION … ADD TABLE …, or create "
                "the tables first"
            )
        # With a log, changes are lost with the slot, as the receiver says.
        if not found.has_slot and not source.create and not loaded.log.exists():
            problems.append(
                f"the slot {source.slot} does not exist: set create = true in [source]"
            )
    inherited = dict.fromkeys(found.parents, _INHERITED)
    try:
        facts = facts_of(opened(loaded.log), found.tables, inherited)
    except FileNotFoundError:
        facts = Facts(tables=tuple(found.tables), unaccepted=inherited)
    # The log alone does not know a table that has joined the publication since.
    if facts.tables and unasked is None:
        named = (*facts.tables, *facts.left)
        problems += unmatched(loaded, named, may_come=found.grows)
    places = doubtful(loaded, facts)
    made = plan(loaded, facts, existing(places) if places else ())
    problems += [f"{it.claim.table.name}: {it.text}" for it in made.refused]
    return Checked(made, [f"{loaded.path}: {it}" for it in problems], unasked)


_INHERITED = (
    "it has children by inheritance, whose rows are sent under their names: exclude it, or start, "
    "and accept it then with walrow log accept … --reason inherited"
)
