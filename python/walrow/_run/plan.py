"""The plan for the targets of a file: a function of the file and of facts.

Here is no I/O and no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from walrow._run.matching import claims

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from walrow._log.left import Left
    from walrow._lsn import Lsn
    from walrow._run.config import Loaded, Target
    from walrow._run.matching import Claim, Table
    from walrow._run.records import Recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts of the log, and of the server if it was asked.

    Attributes:
        changed: The OIDs of the tables that have changes in the log, or had some.
        needs: Why tables need a load, by OID.
        unsure: The OIDs of the tables whose load may not be needed: a person decides.
        loaded: Where the last load of tables ends, by OID.
        requested: The names of tables with a request for their load. None after a request for all
            tables.
        recorded: The targets that the log knows.
        identities: The key columns of tables, by OID, as far as they are known.
        left: The tables that left, and why.
        last: Where the last change of tables that left ends, by OID.
        unaccepted: Why tables have to be accepted, by OID.
        erased: The OIDs of tables with targets that rows or columns were erased of.
    """

    tables: tuple[Table, ...]
    changed: Collection[int] = ()
    needs: Mapping[int, str] = field(default_factory=dict)
    unsure: Collection[int] = ()
    loaded: Mapping[int, Lsn] = field(default_factory=dict)
    requested: Collection[str] | None = ()
    recorded: tuple[Recorded, ...] = ()
    identities: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    left: Mapping[Table, Left] = field(default_factory=dict)
    last: Mapping[int, Lsn] = field(default_factory=dict)
    unaccepted: Mapping[int, str] = field(default_factory=dict)
    erased: Collection[int] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """A table that is not applied, because of the file."""

    claim: Claim
    text: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """A table that needs a load.

    Attributes:
        is_asked: Whether a person must request the load: the file says `load = "ask"`, or the
            load may not be needed.
    """

    claim: Claim
    reason: str
    is_asked: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan.

    Attributes:
        load: The tables that need a request for their load now.
        removed: The targets that the file does not mean any more. They are left as they are.
        rest: The tables that left, and whose targets lack earlier changes.
        left: The tables of the file that left. They do not hold back other tables.
        unaccepted: The tables that a user has to accept.
    """

    claims: tuple[Claim, ...]
    apply: tuple[Claim, ...]
    load: tuple[Claim, ...]
    waiting: tuple[Waiting, ...]
    refused: tuple[Refused, ...]
    removed: tuple[Recorded, ...]
    rest: tuple[Claim, ...] = ()
    left: tuple[tuple[Claim, Left], ...] = ()
    unaccepted: tuple[Refused, ...] = ()


def doubtful(loaded: Loaded, facts: Facts) -> set[str]:
    """The places that must be new, because mode, key or place of a table have changed."""
    return {
        claim.place
        for claim in claims(loaded, facts.tables)
        if claim.problem is None and _change(loaded, facts, claim) is not None
    }


def plan(loaded: Loaded, facts: Facts, existing: Collection[str] = ()) -> Plan:
    """Makes the plan. `existing` are the `doubtful` places that have a table."""
    found = claims(loaded, facts.tables)
    recorded = {it.place: it for it in facts.recorded}
    apply, load, waiting, refused, unaccepted = [], [], [], [], []
    for claim in found:
        target = loaded.file.target[claim.at]
        text = claim.problem
        if text is None and claim.place in existing:
            text = _change(loaded, facts, claim)
        if text is not None:
            refused.append(Refused(claim, text))
            continue
        if (text := facts.unaccepted.get(claim.table.oid)) is not None:
            unaccepted.append(Refused(claim, text))
            continue
        if claim.table.oid in facts.changed:
            apply.append(claim)
        reason = facts.needs.get(claim.table.oid)
        is_auto = target.load == "auto" and claim.table.oid not in facts.unsure
        if reason is not None:
            waiting.append(Waiting(claim, reason, not is_auto))
        elif not _has_earlier_rows(target, recorded.get(claim.place), facts, claim):
            continue
        is_requested = facts.requested is None or claim.table.name in facts.requested
        if is_auto and not is_requested:
            load.append(claim)
    gone = claims(loaded, facts.left)
    places = {claim.place for claim in (*found, *gone)}
    removed = tuple(it for it in facts.recorded if it.place not in places)
    rest = (
        claim
        for claim in gone
        if (before := recorded.get(claim.place)) is not None
        and before.oid == claim.table.oid
        and (
            (before.end or 0) < facts.last.get(before.oid, 0)
            or (before.mode != "current" and before.oid in facts.erased)
        )
        and claim.problem is None
    )
    return Plan(
        tuple(found),
        tuple(apply),
        tuple(load),
        tuple(waiting),
        tuple(refused),
        removed,
        tuple(rest),
        tuple((claim, facts.left[claim.table]) for claim in gone),
        tuple(unaccepted),
    )


def _change(loaded: Loaded, facts: Facts, claim: Claim) -> str | None:
    """The change of a table that only a new target can take. None without one."""
    target = loaded.file.target[claim.at]
    where = loaded.names(claim.at)
    before = next((it for it in facts.recorded if it.place == claim.place), None)
    if before is None:
        moved = [
            it for it in facts.recorded if it.oid == claim.table.oid and it.in_file
        ]
        if not moved:
            return None
        what = f"the target of {claim.table.name} was {moved[0].place} so far"
    elif before.mode != target.mode:
        what = f'mode was "{before.mode}" so far for {claim.table.name}'
    else:
        keys = target.keys or facts.identities.get(claim.table.oid, ())
        # A load replaces the rows of a current table.
        is_replaceable = target.mode == "current" and target.deletes == "apply"
        if (
            not keys
            or not before.keys
            or keys == before.keys
            or (is_replaceable and not target.keys)
        ):
            return None
        what = (
            f"the key of {claim.table.name} was ({', '.join(before.keys)}) so far, not "
            f"({', '.join(keys)})"
        )
    return (
        f"{where}: {what}, and {claim.place} exists: choose a place that is new, or remove what is "
        "there"
    )


def _has_earlier_rows(
    target: Target, before: Recorded | None, facts: Facts, claim: Claim
) -> bool:
    """Whether only a load makes the target current: its rows are of an earlier table of this name.

    Histories and changes need another target, so a load would not help.
    """
    return (
        before is not None
        and before.end is not None
        and before.table == claim.table.name
        and before.oid != claim.table.oid
        and target.mode == "current"
        and facts.loaded.get(claim.table.oid, 0) <= before.end
    )
