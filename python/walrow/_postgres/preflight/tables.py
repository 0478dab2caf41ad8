"""Findings about published tables: their identities, columns and types."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from walrow._postgres.preflight.finding import Finding, listed
from walrow._postgres.preflight.publications import Publication, adding
from walrow._postgres.preflight.published import (
    CheckedTable,
    Identity,
    WithoutSend,
)


def check_tables(
    published: Sequence[CheckedTable],
    role: str,
    publications: Sequence[Publication],
    asked: Collection[int],
) -> Iterator[Finding]:
    """Checks the tables of all publications."""
    yield from _column_lists(published)
    yield from _identities(published)
    yield from _roots(published)
    yield from _generated(published)
    yield from check_snapshot(published, role)
    yield from _operations(published)
    yield from _children(published, publications, asked)


def check_binary(columns: Sequence[WithoutSend]) -> Iterator[Finding]:
    """Checks the columns whose values have no binary form."""
    by_type: dict[tuple[str, str, bool], list[str]] = {}
    for column in columns:
        key = (column.type, column.member, column.whole)
        by_type.setdefault(key, []).append(f"{column.quoted}.{column.column}")
    for (kind, member, whole), names in by_type.items():
        if whole:
            text = f"{listed(names)}: {kind} has no binary form, and is sent as text"
            yield Finding("binary-type", "note", text)
        else:
            text = (
                f"{listed(names)}: {kind} contains {member}, which has no binary form:"
                " the server fails at its first value, and the slot cannot pass it;"
                " receive text, or leave the column out of the publication"
            )
            yield Finding("binary-type", "error", text)


def _column_lists(published: Sequence[CheckedTable]) -> Iterator[Finding]:
    for table in published:
        if table.lists_differ:
            text = (
                f"publications {listed(table.publications)} publish different columns of"
                f" {table.identity.quoted}: the server refuses to stream them together"
            )
            yield Finding("column-lists", "error", text)


def _identities(published: Sequence[CheckedTable]) -> Iterator[Finding]:
    """The server refuses updates and deletes of these tables, whoever runs them."""
    lacking = dict.fromkeys(
        identity.quoted
        for table in published
        if table.needs_identity
        for identity in table.leaves or [table.identity]
        if identity.kind == "none"
    )
    if lacking:
        text = (
            f"without a replica identity: {listed(lacking)}; updates and deletes are"
            " published, so the server refuses them: add a primary key, which must not"
            " be DEFERRABLE, or send whole old rows"
        )
        sql = _full(lacking)
        yield Finding("no-replica-identity", "warning", text, sql)


def _roots(published: Sequence[CheckedTable]) -> Iterator[Finding]:
    """Old rows come with the root's identity, but contain what the leaf's identity has."""
    for table in published:
        root = table.identity
        leaves = [leaf for leaf in table.leaves if leaf.kind != "none"]
        lost = [leaf.quoted for leaf in leaves if _loses(root, leaf)]
        if lost:
            has = "FULL" if root.kind == "full" else f"({', '.join(root.keys)})"
            text = (
                f"{root.quoted} has the replica identity {has}, but not its partitions"
                f" {listed(lost)}: their old rows lack values, and nothing in the stream"
                " shows it"
            )
            yield Finding("partition-identity", "error", text, _full(lost))
        more = [leaf.quoted for leaf in leaves if leaf.kind == "full" != root.kind]
        if more:
            text = (
                f"the partitions {listed(more)} have the replica identity FULL, but"
                f" {root.quoted} has not: of their old rows, only the key counts"
            )
            sql = _full([root.quoted])
            yield Finding("partition-identity", "warning", text, sql)
        if unlogged := [leaf.quoted for leaf in table.leaves if leaf.is_unlogged]:
            text = (
                f"the partitions {listed(unlogged)} of {root.quoted} are unlogged: the"
                " server sends none of their changes"
            )
            sql = "\n".join(f"ALTER TABLE {name} SET LOGGED;" for name in unlogged)
            yield Finding("partition-unlogged", "warning", text, sql)


def _loses(root: Identity, leaf: Identity) -> bool:
    if leaf.kind == "full":
        return False
    return root.kind == "full" or not set(root.keys) <= set(leaf.keys)


def _generated(published: Sequence[CheckedTable]) -> Iterator[Finding]:
    columns = [
        f"{table.identity.quoted}.{column}"
        for table in published
        for column in table.unsent
    ]
    if not columns:
        return
    text = f"generated columns are not sent: {listed(columns)}"
    names = dict.fromkeys(name for table in published for name in table.sendable)
    sql = "\n".join(
        f"ALTER PUBLICATION {name} SET (publish_generated_columns = stored);"
        for name in names
    )
    text += "; stored ones can be" if sql else ""
    yield Finding("generated-columns", "note", text, sql or None)


def check_snapshot(published: Sequence[CheckedTable], role: str) -> Iterator[Finding]:
    """Checks whether the role may copy the rows of tables, and of all their partitions."""
    schemas, tables, policies = (
        list(dict.fromkeys(name for table in published for name in table.denied[kind]))
        for kind in range(3)
    )
    cannot = "changes can be received, but no load can copy the rows"
    if schemas or tables:
        sql = []
        if schemas:
            sql.append(f"GRANT USAGE ON SCHEMA {', '.join(schemas)} TO {role};")
        if tables:
            sql.append(f"GRANT SELECT ON {', '.join(tables)} TO {role};")
        what = [*(f"schema {it}" for it in schemas), *tables]
        text = f"role {role} may not read {listed(what)}: {cannot}"
        yield Finding("select-privilege", "note", text, "\n".join(sql))
    if policies:
        text = f"policies hide rows of {listed(policies)} from role {role}: {cannot}"
        yield Finding("row-security", "note", text, f"ALTER ROLE {role} BYPASSRLS;")


def _operations(published: Sequence[CheckedTable]) -> Iterator[Finding]:
    found: dict[tuple[str, ...], list[CheckedTable]] = {}
    for table in published:
        if table.lacks:
            found.setdefault(tuple(table.lacks), []).append(table)
    for lacks, tables in found.items():
        names = [table.identity.quoted for table in tables]
        text = (
            f"no publication publishes {', '.join(lacks)} of {listed(names)}: the server never "
            "sends these changes, and what is made of the log differs from the tables"
        )
        sql = "\n".join(
            f"ALTER PUBLICATION {name} SET (publish = 'insert, update, delete, truncate');"
            for name in dict.fromkeys(
                it for table in tables for it in table.publications
            )
        )
        yield Finding("publication-operations", "warning", text, sql)


def _children(
    published: Sequence[CheckedTable],
    publications: Sequence[Publication],
    asked: Collection[int],
) -> Iterator[Finding]:
    sent = {str(table.oid) for table in published}
    all_asked = {*asked, *(int(oid) for table in published for oid in table.children)}
    for table in published:
        if not table.children:
            continue
        name = table.identity.quoted
        text = (
            f"{name} has children by inheritance: {listed(table.children.values())}. A load and "
            f"changes of {name} have only its own rows, as the server sends rows of children under "
            "their names, also of those that come later only if they are published: use partitions, "
            f"or accept that with walrow log accept LOG {name} --reason inherited"
        )
        ours = [it for it in publications if it.quoted in table.publications]
        sql = "\n".join(
            adding(f"ONLY {child}", ours, all_asked)
            for oid, child in table.children.items()
            if oid not in sent
        )
        yield Finding("inheritance", "warning", text, sql or None)


def _full(tables: Iterable[str]) -> str:
    return "\n".join(f"ALTER TABLE {name} REPLICA IDENTITY FULL;" for name in tables)
