"""Findings about publications, and about the tables that must be in them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from walrow._postgres.preflight.finding import Finding, listed
from walrow._postgres.preflight.published import CheckedTable
from walrow._postgres.publications import Found, Relation, ambiguous, spoken


class Publication(NamedTuple):
    """A publication of the server."""

    quoted: str
    #: Whether it publishes all tables, and (from version 19 on) all sequences.
    has_all: bool
    has_sequences: bool
    #: The tables that it leaves out of all, as SQL, by OID.
    excepted: Mapping[str, str]


def adding(
    table: str, publications: Sequence[Publication], asked: Collection[int] = ()
) -> str:
    """SQL that adds a table. A publication of all tables leaves out none in `asked` then."""
    for it in publications:
        if not it.has_all and not it.has_sequences:
            return f"ALTER PUBLICATION {it.quoted} ADD TABLE {table};"
    for it in publications:
        if it.has_all:
            excepted = it.excepted.items()
            left = [f"ONLY {name}" for oid, name in excepted if int(oid) not in asked]
            without = f" EXCEPT (TABLE {', '.join(left)})" if left else ""
            sequences = ", ALL SEQUENCES" if it.has_sequences else ""
            return f"ALTER PUBLICATION {it.quoted} SET ALL TABLES{without}{sequences};"
    # It cannot have a single table.
    name = publications[0].quoted.strip('"')
    return f'CREATE PUBLICATION "{name}_tables" FOR TABLE {table};'


def check_publications(
    publications: Mapping[str, Publication | None],
    published: Sequence[CheckedTable],
    wanted: Sequence[Found],
    *,
    slot_exists: bool,
) -> Iterator[Finding]:
    """Checks that publications, by their names as SQL, exist and have tables."""
    for name, found in publications.items():
        if found is None:
            yield _missing(name, wanted, slot_exists=slot_exists)
        elif any(name in table.publications for table in published):
            continue
        elif found.has_all:
            text = f"publication {name} publishes all tables, and there is none yet"
            if found.excepted:
                text = f"publication {name} leaves out all tables"
            yield Finding("publication-empty", "warning", text)
        else:
            text = f"publication {name} has no tables"
            yield Finding("publication-empty", "warning", text, adding("...", [found]))


def _missing(name: str, wanted: Sequence[Found], *, slot_exists: bool) -> Finding:
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
    publications: Sequence[Publication],
    roots: Mapping[str, Sequence[int]],
    asked: Collection[int],
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
        above = [it for it in published if relation.oid in roots.get(str(it.oid), ())]
        if above and not parts & sent:
            root = above[0].identity.quoted
            text = f"changes of {relation.quoted} are sent as those of {root}: name this table"
            yield Finding("table-unpublished", "error", text)
        elif publications and not parts & sent:
            names = listed(it.quoted for it in publications)
            text = f"table {relation.quoted} is in no publication of {names}"
            sql = adding(relation.quoted, publications, asked)
            yield Finding("table-unpublished", "error", text, sql)


def _unpublishable(relation: Relation) -> str | None:
    kinds = {"f": "a foreign table", "v": "a view", "m": "a materialized view"}
    persistence = {"u": "unlogged", "t": "temporary"}.get(relation.persistence)
    return persistence or kinds.get(relation.kind)
