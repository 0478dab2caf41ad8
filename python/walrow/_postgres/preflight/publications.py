"""Findings about publications, and about the tables that must be in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from walrow._postgres.preflight.finding import Finding, listed
from walrow._postgres.publications import ambiguous, spoken

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from walrow._postgres.preflight.published import CheckedTable
    from walrow._postgres.publications import Found, Relation


def check_publications(
    publications: Mapping[str, bool | None],
    published: Sequence[CheckedTable],
    wanted: Sequence[Found],
    *,
    slot_exists: bool,
) -> Iterator[Finding]:
    """Checks that publications exist and have tables.

    Args:
        publications: Their names as SQL, and whether they publish all tables. None for one
            that does not exist.
        published: Their tables.
        wanted: The tables that must be published.
        slot_exists: Whether the slot exists.
    """
    for name, has_all in publications.items():
        if has_all is None:
            yield _missing(name, wanted, slot_exists=slot_exists)
        elif any(name in table.publications for table in published):
            continue
        elif has_all:
            text = f"publication {name} publishes all tables, and there is none yet"
            yield Finding("publication-empty", "warning", text)
        else:
            text = f"publication {name} has no tables"
            sql = f"ALTER PUBLICATION {name} ADD TABLE ...;"
            yield Finding("publication-empty", "warning", text, sql)


def _missing(
    name: str,
    wanted: Sequence[Found],
    *,
    slot_exists: bool,
) -> Finding:
    tables = ", ".join(it.quoted for _, found in wanted for it in found)
    target = f"TABLE {tables}" if tables else "ALL TABLES"
    text = f"there is no publication {name}"
    if slot_exists:
        # The walsender looks it up as it was at the time of each change.
        text += (
            "; the slot exists already, and its changes from before the publication"
            " cannot be read: create the slot again after it"
        )
    sql = f"CREATE PUBLICATION {name} FOR {target};"
    return Finding("publication-missing", "error", text, sql)


def check_leftovers(names: Sequence[str]) -> Iterator[Finding]:
    """Checks for publications that walrow created for one session."""
    if names:
        text = (
            f"publications of a session that still runs, or was killed: {listed(names)};"
            " drop those that nobody uses"
        )
        sql = "\n".join(f"DROP PUBLICATION {name};" for name in names)
        yield Finding("publication-leftover", "note", text, sql)


def check_wanted(
    wanted: Sequence[Found],
    published: Sequence[CheckedTable],
    publications: Sequence[str],
    roots: dict[str, list[int]],
) -> Iterator[Finding]:
    """Tables that were asked for. A partition is replaced by its partitioned table."""
    sent = {table.oid for table in published}
    for table, found in wanted:
        name = spoken(table)
        if not found:
            text = f"there is no table {name} in this database"
            yield Finding("table-missing", "error", text)
            continue
        if len(found) > 1:
            yield Finding("table-ambiguous", "error", ambiguous(table, found))
            continue
        (relation,) = found
        if kind := _unpublishable(relation):
            sql = (
                f"ALTER TABLE {relation.quoted} SET LOGGED;"
                if relation.persistence == "u"
                else None
            )
            text = f"{relation.quoted} is {kind}: its changes cannot be published"
            yield Finding("table-kind", "error", text, sql)
            continue
        parts = {relation.oid, *roots.get(str(relation.oid), [])}
        if publications and not parts & sent:
            text = f"table {relation.quoted} is in no publication of {listed(publications)}"
            sql = f"ALTER PUBLICATION {publications[0]} ADD TABLE {relation.quoted};"
            yield Finding("table-unpublished", "error", text, sql)


def _unpublishable(relation: Relation) -> str | None:
    if relation.persistence == "u":
        return "unlogged"
    if relation.persistence == "t":
        return "temporary"
    return {
        "f": "a foreign table",
        "v": "a view",
        "m": "a materialized view",
    }.get(relation.kind)
