"""Writes a first file from a server's own tables."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from walrow._postgres.connecting import parameters_of
from walrow._run.matching import Table
from walrow._run.server import Publication, Server
from walrow._secrets import is_secret


class Draft(NamedTuple):
    """A first file, and the steps that the file leaves to a person."""

    text: str
    notes: list[str]


def draft(dsn: str, server: Server) -> Draft:
    """Writes the file of a server, without the password of a connection string.

    Raises:
        OptionError: This is not a connection string.
    """
    given = parameters_of(dsn)
    secrets = sorted(it for it in given if is_secret(it))
    kept = {key: value for key, value in given.items() if key not in secrets}
    notes = [
        f"{it} is not in the file: use PGPASSFILE, a service or PGPASSWORD"
        for it in secrets
    ]
    name = _WORD.sub("_", server.database.lower()) or "walrow"
    # Not the publication of another program, if there are several.
    chosen = _chosen(server.publications, name)
    published = server.tables if chosen is None else chosen.tables
    keyless = [it for it in published if it.oid in server.without_key]
    if chosen is None:
        # The server refuses updates and deletes of published tables that have no identity.
        out = [it for it in keyless if it.oid not in server.full]
        tables = [it for it in published if it not in out]
        keyless, publication = [it for it in keyless if it not in out], name
        notes.append(_creation(publication, tables, server))
        if out:
            notes.append(
                f"these have no key, and are left out: {_names(out)}. {_REMEDY}. If they are "
                "published without one, the server refuses their updates and deletes"
            )
    else:
        tables, publication = chosen.tables, chosen.name
    if keyless:
        notes.append(
            f"these have no key, so their targets have all changes: {_names(keyless)}. {_REMEDY} "
            'for mode = "current"'
        )
    lines = [
        "# The tables of a server as Delta tables: `walrow run --check FILE`, then `walrow run FILE`.",
        "# For editors: `walrow init --schema -o walrow.schema.json`, and this as the first line:",
        "#   #:schema ./walrow.schema.json",
        "",
        "[source]",
        "# No password: PGPASSFILE, a service or PGPASSWORD have it.",
        f"dsn = {_toml(_conninfo(kept))}",
        # A slot's name may have 63 of these characters.
        f"slot = {_toml(name[:63])}",
        f"publications = [{_toml(publication)}]",
        "create = true",
        "",
        "[log]",
        f"path = {_toml(f'{name}-log')}",
        '# retain_age = "7d"',
    ]
    for schema in sorted({it.schema for it in tables}) or ["public"]:
        patterns = [_pattern(it) for it in keyless if it.schema == schema]
        if len(patterns) < sum(it.schema == schema for it in tables) or not tables:
            lines += _target([f"{_glob(schema)}.*"], patterns)
        if patterns:
            lines += _target(patterns, [], 'mode = "changes"')
    return Draft("\n".join(lines) + "\n", notes)


def _target(tables: list[str], exclude: list[str], *more: str) -> list[str]:
    """The lines of a target."""
    lists = {"tables": tables, "exclude": exclude}
    return [
        "",
        "[[target]]",
        *(f"{key} = [{', '.join(map(_toml, it))}]" for key, it in lists.items() if it),
        'to = "delta:./lake/{schema}/{table}"',
        *more,
        'every = "1m"',
    ]


def _names(tables: Iterable[Table]) -> str:
    return ", ".join(it.name for it in tables)


def _creation(publication: str, tables: Collection[Table], server: Server) -> str:
    """How to create the publication. A partitioned table is one table.

    A parent is added without its children by inheritance, which are tables of their own.
    """
    partitioned = server.partitioned
    names = ", ".join(
        f"{'ONLY ' * (it.oid in server.parents)}{_sql(it.schema)}.{_sql(it.table)}"
        for it in tables
    )
    options = (
        " WITH (publish_via_partition_root = true)"
        if any(it.oid in partitioned for it in tables)
        else ""
    )
    return (
        f"create the publication first: CREATE PUBLICATION {_sql(publication)} FOR TABLE "
        f"{names or '…'}{options};"
    )


def _chosen(publications: Iterable[Publication], name: str) -> Publication | None:
    """The publication that has the database's name, or the only one."""
    found = [it for it in publications if it.tables]
    if len(found) == 1:
        return found[0]
    return next((it for it in found if it.name == name), None)


def _conninfo(given: Mapping[str, str]) -> str:
    return " ".join(f"{key}={_value(str(value))}" for key, value in given.items())


def _value(value: str) -> str:
    if value and not re.search(r"[\s'\\]", value):
        return value
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _sql(name: str) -> str:
    if re.fullmatch(r"[a-z_][a-z0-9_]*", name):
        return name
    return '"' + name.replace('"', '""') + '"'


def _pattern(table: Table) -> str:
    return f"{_glob(table.schema)}.{_glob(table.table)}"


def _glob(name: str) -> str:
    """A name as a pattern that matches only itself. The first dot outside brackets divides a pattern."""
    return re.sub(r"([*?\[.])", r"[\1]", name)


def _toml(text: str) -> str:
    """A text as TOML, whose escapes are JSON's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


_WORD = re.compile(r"[^a-z0-9_]+")
_REMEDY = "Give them a primary key, or REPLICA IDENTITY FULL and keys = […]"
