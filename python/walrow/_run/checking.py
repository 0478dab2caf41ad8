"""Compares a file with its server and its log, before anything starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from walrow._log.items import SourceIdentity
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
        let_through: The problems that let it start: the receiver cannot read the slot, and says what is
            lost with it, or the role may not read tables.
    """

    plan: Plan
    problems: list[str]
    unasked: str | None
    let_through: list[str]


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
    inherited = dict.fromkeys(found.parents, _INHERITED)
    try:
        log = opened(loaded.log)
        facts = facts_of(log, found.tables, inherited)
        problems += _other_source(log.source, log.path, source.slot, found.source)
    except FileNotFoundError:
        facts = Facts(tables=tuple(found.tables), unaccepted=inherited)
        log = None
    # The log alone does not know a table that has joined the publication since.
    if facts.tables and unasked is None:
        named = (*facts.tables, *facts.left)
        problems += unmatched(loaded, named, may_come=found.grows)
    places = doubtful(loaded, facts)
    made = plan(loaded, facts, existing(places))
    problems += [f"{it.claim.table.name}: {it.text}" for it in made.refused]
    let_through = [
        f"{it.table.name}: {found.unreadable[it.table.oid]}"
        for it in made.claims
        if it.table.oid in found.unreadable
    ]
    if found.has_slot:
        let_through += found.slot_errors
    elif unasked is None and log is None and not source.create:
        problems.append(
            f"the slot {source.slot} does not exist: set create = true in [source]"
        )
    elif unasked is None and log is not None and log.source.slot == source.slot:
        let_through.append(
            f"the slot {source.slot} does not exist, and what was committed since the log's end is lost "
            "with it: begin with a new log, and a new copy of the tables"
        )
    return Checked(
        made, [f"{loaded.path}: {it}" for it in problems], unasked, let_through
    )


def _other_source(
    known: SourceIdentity, log: Path, slot: str, server: tuple[str, str] | None
) -> Iterator[str]:
    """Why the log of a source cannot continue with a server and a slot."""
    advice = f"give the log of this one, or a new directory, in [log] path, not {log}"
    if server is not None and known.system_identifier not in (None, server[0]):
        yield (
            f"the log comes from another server: its system identifier is "
            f"{known.system_identifier}, and this server has {server[0]}: {advice}"
        )
    elif server is not None and known.database not in (None, server[1]):
        yield (
            f"the log comes from database {known.database}, and dsn leads to {server[1]}: {advice}"
        )
    elif known.slot not in (None, slot):
        yield f"the log comes from slot {known.slot}, and the file has {slot}: {advice}"


_INHERITED = (
    "it has children by inheritance, whose rows are sent under their names: exclude it, or start, "
    "and accept it then with walrow log accept … --reason inherited"
)
