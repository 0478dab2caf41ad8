"""A grammar of statements: each production is SQL whose slots are filled from the server's catalog.

A production is a kind of step. Its numbers choose among what the catalog has, modulo its size. The first
table is the last statement's: several statements then meet at one table.
"""

# ruff: noqa: S608  (statements are put together here, for a server of the tests)

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any, NamedTuple

from campaign.steps import KINDS, Kind, step

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from campaign.day import Day


class Production(NamedTuple):
    """Statements, and statements that undo them.

    Attributes:
        sql: Statements with slots.
        back: Statements that undo them, for `back`: slots have the same values, but for {table}.
        risks: The tables that may need a load: that table with its parents and children (`kin`), all, or none.
        is_birth: Whether it makes a table that is whole if it is published at once.
    """

    sql: str
    back: str
    risks: str
    is_birth: bool


#: A production each line: its name, statements with slots, and what undoes them. Its risk
#: follows from the sign before: ! all tables, - none, + it makes a table.
_LINES = """
+create: CREATE TABLE {schema}.{name} (id int PRIMARY KEY, a int, b int, v text) <> DROP TABLE {table}
create_unlogged: CREATE UNLOGGED TABLE {schema}.{name} (id int PRIMARY KEY, a int, b int, v text)
create_as: CREATE TABLE {schema}.{name} AS SELECT * FROM {table}
+create_like: CREATE TABLE {schema}.{name} (LIKE {table} INCLUDING ALL)
create_like_with_rows: CREATE TABLE {schema}.{name} (LIKE {table} INCLUDING ALL); INSERT INTO {schema}.{name} SELECT * FROM {table}
create_child: CREATE TABLE {schema}.{name} (PRIMARY KEY (id)) INHERITS ({plain})
create_root: CREATE TABLE {schema}.{name} (LIKE {table}, PRIMARY KEY (id)) PARTITION BY RANGE (id)
+create_partition: CREATE TABLE {schema}.{name} PARTITION OF {root} FOR VALUES FROM ({window}) TO ({window_end})
create_sub_root: CREATE TABLE {schema}.{name} PARTITION OF {root} FOR VALUES FROM ({window}) TO ({window_end}) PARTITION BY RANGE (id)
drop: DROP TABLE {table} CASCADE
attach: ALTER TABLE {root} ATTACH PARTITION {free} FOR VALUES FROM ({low}) TO ({high}) <> ALTER TABLE {root} DETACH PARTITION {free}
detach: ALTER TABLE {parent} DETACH PARTITION {leaf} <> ALTER TABLE {parent} ATTACH PARTITION {table} {bound}
inherit: ALTER TABLE {plain} INHERIT {other} <> ALTER TABLE {table} NO INHERIT {other}
inherit_no_more: ALTER TABLE {child} NO INHERIT {parent} <> ALTER TABLE {table} INHERIT {parent}
move: ALTER TABLE {table} SET SCHEMA {away} <> ALTER TABLE {table} SET SCHEMA {home}
rename_table: ALTER TABLE {table} RENAME TO {name} <> ALTER TABLE {table} RENAME TO {was}
!rename_schema: ALTER SCHEMA {home} RENAME TO renamed <> ALTER SCHEMA renamed RENAME TO {home}
!swap_names: ALTER TABLE {table} RENAME TO swapped; ALTER TABLE {near} RENAME TO {was}; ALTER TABLE {home}.swapped RENAME TO {near_name}
logged: ALTER TABLE {table} SET LOGGED
unlogged: ALTER TABLE {table} SET UNLOGGED <> ALTER TABLE {table} SET LOGGED
vacuum_full: VACUUM FULL {table}
cluster: CLUSTER {table} USING {key}
replica_identity: ALTER TABLE {table} REPLICA IDENTITY {identity} <> ALTER TABLE {table} REPLICA IDENTITY DEFAULT
root_identity: ALTER TABLE {top} REPLICA IDENTITY FULL <> ALTER TABLE {table} REPLICA IDENTITY DEFAULT
partition_identity: ALTER TABLE {leaf} ALTER {column} SET NOT NULL; CREATE UNIQUE INDEX {name} ON {home}.{was} ({column}); ALTER TABLE {leaf} REPLICA IDENTITY USING INDEX {name} <> ALTER TABLE {table} REPLICA IDENTITY DEFAULT
drop_key: ALTER TABLE {table} DROP CONSTRAINT {key} <> ALTER TABLE {table} ADD PRIMARY KEY ({keys})
add_key: ALTER TABLE {table} ADD PRIMARY KEY (id)
move_key: ALTER TABLE {table} DROP CONSTRAINT {key}, ADD PRIMARY KEY (id, {column})
add_column: ALTER TABLE {table} ADD {fresh} text <> ALTER TABLE {table} DROP {fresh}
add_with_default: ALTER TABLE {table} ADD {fresh} int DEFAULT 5 <> ALTER TABLE {table} ALTER {fresh} DROP DEFAULT
add_with_function: ALTER TABLE {table} ADD {fresh} int DEFAULT (random() * 7)::int + 1 <> ALTER TABLE {table} ALTER {fresh} DROP DEFAULT
add_identity: ALTER TABLE {table} ADD {fresh} int GENERATED ALWAYS AS IDENTITY <> ALTER TABLE {table} ALTER {fresh} DROP IDENTITY
add_generated: ALTER TABLE {table} ADD {fresh} int GENERATED ALWAYS AS (id + 1) STORED <> ALTER TABLE {table} ALTER {fresh} DROP EXPRESSION
add_and_fill: ALTER TABLE {table} ADD {fresh} int; UPDATE {table} SET {fresh} = id; ALTER TABLE {table} ALTER {fresh} SET NOT NULL
add_mood: ALTER TABLE {table} ADD {fresh} mood <> ALTER TABLE {table} DROP {fresh}
add_name: ALTER TABLE {table} ADD {fresh} regclass <> ALTER TABLE {table} DROP {fresh}
drop_column: ALTER TABLE {table} DROP {column} CASCADE <> ALTER TABLE {table} ADD {column} {type}
rename_column: ALTER TABLE {table} RENAME {column} TO {fresh} <> ALTER TABLE {table} RENAME {fresh} TO {column}
swap_columns: ALTER TABLE {table} RENAME {column} TO swapped; ALTER TABLE {table} RENAME {second} TO {column}; ALTER TABLE {table} RENAME swapped TO {second} <> ALTER TABLE {table} RENAME {column} TO swapped; ALTER TABLE {table} RENAME {second} TO {column}; ALTER TABLE {table} RENAME swapped TO {second}
change_type: ALTER TABLE {table} ALTER {column} TYPE {new_type} USING {new_value} <> ALTER TABLE {table} ALTER {column} TYPE {type} USING {column}::text::{type}
same_type_using: ALTER TABLE {table} ALTER {column} TYPE {type} USING {other_value}
set_expression: ALTER TABLE {table} ALTER {generated} SET EXPRESSION AS (id * {number})
drop_expression: ALTER TABLE {table} ALTER {generated} DROP EXPRESSION
!rename_label: ALTER TYPE mood RENAME VALUE {label} TO {new_label} <> ALTER TYPE mood RENAME VALUE {new_label} TO {label}
!add_label: ALTER TYPE mood ADD VALUE 'l{number}'
leave_publication: ALTER PUBLICATION p DROP TABLE {table} <> ALTER PUBLICATION p ADD TABLE {table}
enter_publication: ALTER PUBLICATION p ADD TABLE {table} <> ALTER PUBLICATION p DROP TABLE {table}
!leave_schema: ALTER PUBLICATION p DROP TABLES IN SCHEMA {home} <> ALTER PUBLICATION p ADD TABLES IN SCHEMA {home}
!enter_schema: ALTER PUBLICATION p ADD TABLES IN SCHEMA {home} <> ALTER PUBLICATION p DROP TABLES IN SCHEMA {home}
!publish_some: ALTER PUBLICATION p SET (publish = '{operations}') <> ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')
!publish_all: ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')
!publish_via: ALTER PUBLICATION p SET (publish_via_partition_root = {boolean}) <> ALTER PUBLICATION p SET (publish_via_partition_root = {not_boolean})
filter_rows: ALTER PUBLICATION p DROP TABLE {table}; ALTER PUBLICATION p ADD TABLE {table} WHERE (id > {small}) <> ALTER PUBLICATION p DROP TABLE {table}; ALTER PUBLICATION p ADD TABLE {table}
choose_columns: ALTER PUBLICATION p DROP TABLE {table}; ALTER PUBLICATION p ADD TABLE {table} ({keys}, {column}) <> ALTER PUBLICATION p DROP TABLE {table}; ALTER PUBLICATION p ADD TABLE {table}
!trigger_off: ALTER EVENT TRIGGER walrow_ddl DISABLE <> ALTER EVENT TRIGGER walrow_ddl ENABLE ALWAYS
-grant: GRANT SELECT ON {table} TO PUBLIC
grant_system: GRANT SELECT (ctid) ON {table} TO PUBLIC
-grant_column: GRANT SELECT ({column}) ON {table} TO PUBLIC
-comment: COMMENT ON TABLE {table} IS 'a'
-index: CREATE INDEX ON {table} (id)
-statistics: ALTER TABLE {table} ALTER id SET STATISTICS 10
-check: ALTER TABLE {table} ADD CHECK (id > -1)
-analyze: ANALYZE {table}
-freeze: VACUUM (FREEZE) {table}
-security: ALTER TABLE {table} ENABLE ROW LEVEL SECURITY
-fill_factor: ALTER TABLE {table} SET (fillfactor = 90)
-owner: ALTER TABLE {table} OWNER TO CURRENT_USER
-rule: CREATE RULE r{number} AS ON INSERT TO {table} WHERE false DO ALSO NOTHING
"""


def _productions() -> Iterator[tuple[str, Production]]:
    for line in _LINES.strip().splitlines():
        name, _, rest = line.partition(": ")
        sql, _, undone = rest.partition(" <> ")
        risks = {"!": "all", "-": ""}.get(name[0], "kin")
        yield name.lstrip("!-+"), Production(sql, undone, risks, name[0] == "+")


PRODUCTIONS = dict(_productions())
BIRTHS = [name for name in PRODUCTIONS if name.startswith("create")]
#: Productions that may publish a table with rows that were not sent.
ARRIVALS = [
    *("attach", "inherit", "move", "rename_table", "swap_names", "logged"),
    *("enter_publication", "enter_schema", "publish_all", "drop", "create_root"),
]
RETURNS = [name for name, it in PRODUCTIONS.items() if it.back]

_NAMES = ("t", "u", "w", "c", '"b.c"', "part")
_COLUMNS = ("c", "d", "a", "b", "e")
IS_USERS = "n.nspname !~ '^(pg_|information_schema|walrow)' AND c.relkind IN ('r', 'p')"
_FROM = "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
_NAME = "format('%I.%I', n.nspname, c.relname)"
_IS_FREE = "NOT EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid)"
#: The tables that a statement is about.
_TABLES = {
    "table": "true",
    "leaf": "c.relispartition",
    "top": "c.relkind = 'p' AND NOT c.relispartition",
    "plain": "c.relkind = 'r' AND NOT c.relispartition",
    "free": _IS_FREE,
    "child": f"c.relkind = 'r' AND NOT c.relispartition AND NOT {_IS_FREE}",
}
#: Other tables that it names.
_OTHER_TABLES = {
    "root": "c.relkind = 'p'",
    "other": "c.relkind = 'r' AND NOT c.relispartition",
    "near": "c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = {oid})",
}
_OF_TABLE = f"{_FROM} WHERE c.oid = {{oid}}"
_KEY = "pg_constraint k WHERE k.conrelid = {oid} AND k.contype = 'p'"
_COLUMN = "FROM pg_attribute WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped"
_SCHEMAS = "FROM pg_namespace n WHERE n.nspname !~ '^(pg_|information_schema|walrow)'"
#: The values of a slot: queries. A number chooses a row. {oid} is the table.
_QUERIES = {
    "was": f"SELECT quote_ident(c.relname) {_OF_TABLE}",
    "home": f"SELECT quote_ident(n.nspname) {_OF_TABLE}",
    "away": f"SELECT quote_ident(n.nspname) {_SCHEMAS} AND n.oid <> "
    "(SELECT relnamespace FROM pg_class WHERE oid = {oid}) ORDER BY nspname <> 'public', nspname",
    "schema": f"SELECT quote_ident(n.nspname) {_SCHEMAS} ORDER BY nspname <> 'public', nspname",
    "parent": f"SELECT {_NAME} FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhparent "
    "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE i.inhrelid = {oid}",
    "bound": "SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = {oid}",
    "key": f"SELECT quote_ident(k.conname) FROM {_KEY}",
    "keys": "SELECT string_agg(quote_ident(a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a JOIN "
    + _KEY.replace(
        "WHERE", "ON a.attrelid = k.conrelid AND a.attnum = ANY (k.conkey) WHERE"
    ),
    "column": f"SELECT quote_ident(attname) {_COLUMN} ORDER BY attname = 'id', attnum",
    "generated": f"SELECT quote_ident(attname) {_COLUMN} AND attgenerated <> ''",
    "label": "SELECT quote_literal(enumlabel) FROM pg_enum ORDER BY enumsortorder",
    "boolean": "SELECT NOT pubviaroot FROM pg_publication WHERE pubname = 'p'",
    "not_boolean": "SELECT pubviaroot FROM pg_publication WHERE pubname = 'p'",
    "type": "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = {oid} "
    "AND quote_ident(attname) = '{column}'",
}
_OPERATIONS = (
    "insert",
    "insert, update",
    "insert, update, delete",
    "update, delete, truncate",
    "insert, delete, truncate",
)
_NEW_TYPES = {
    "integer": "bigint",
    "bigint": "text",
    "text": "varchar",
    "character varying": "text",
}


class Cannot(Exception):  # noqa: N818 - it is no error
    """The catalog has nothing for a slot."""


class Filling:
    """Fills the slots of one production.

    Attributes:
        oid: The table that it is about. 0 before it is known.
        bound: The values of the slots.
    """

    def __init__(self, day: Day, numbers: tuple[int, ...], oid: int = 0) -> None:
        """Takes the numbers, one for each slot that chooses."""
        self.day = day
        self.numbers = iter((*numbers, *[0] * 8))
        self.oid = oid
        self.bound: dict[str, str] = {}

    def fill(self, template: str) -> list[str]:
        """The statements."""
        self.know(template)
        return template.format(**self.bound).split("; ")

    def know(self, template: str) -> None:
        """Chooses a value for each slot. The table that it is about comes first."""
        names = [it[1] for it in string.Formatter().parse(template)]
        if "home" in names and not self.oid and not {*names} & {*_TABLES}:
            self.oid = self.day.focus
        for name in sorted(names, key=lambda it: it not in _TABLES):
            if name is not None and name not in self.bound:
                self.bound[name] = self._value(name)

    def _value(self, name: str) -> str:
        if name in _TABLES or name in _OTHER_TABLES:
            return self._table(name)
        if name == "home" and not self.oid:
            return "public"
        if name in _QUERIES:
            found = self.day.ask(_QUERIES[name].format(oid=self.oid, **self.bound))
            return str(self._one([value for (value,) in found if value is not None]))
        return str(getattr(self, f"_{name}")())

    def _one(self, found: Sequence[Any]) -> Any:
        if not found:
            raise Cannot
        return found[next(self.numbers) % len(found)]

    def _table(self, kind: str) -> str:
        condition = (_TABLES | _OTHER_TABLES)[kind].format(oid=self.oid)
        oid, name = self._one(
            self.day.ask(
                f"SELECT c.oid, {_NAME} {_FROM} WHERE {IS_USERS} AND c.oid <> {self.oid} "
                f"AND ({condition}) ORDER BY c.oid <> {self.day.focus}, "
                f"pg_partition_root(c.oid) IS DISTINCT FROM pg_partition_root({self.day.focus}), "
                "c.relispartition, c.oid"
            )
        )
        if kind in _TABLES:
            self.oid = int(oid)
        if kind == "near":
            self.bound["near_name"] = name.split(".", 1)[1]
        return str(name)

    def _name(self) -> str:
        schema = self.bound.get("schema") or self._value("home")
        query = f"SELECT quote_ident(c.relname), quote_ident(n.nspname) {_FROM}"
        used = self.day.ask(query)
        # Names that no schema has come first: the table can move then.
        names = sorted(_NAMES, key=lambda it: it in {name for name, _ in used})
        names.append(f"n{self.day.number()}")
        return str(self._one([it for it in names if (it, schema) not in used]))

    def _fresh(self) -> str:
        query = f"SELECT quote_ident(attname) {_COLUMN}".format(oid=self.oid)
        used = {it for (it,) in self.day.ask(query)}
        return str(self._one([it for it in _COLUMNS if it not in used]))

    def _second(self) -> str:
        query = _QUERIES["column"].format(oid=self.oid)
        return str(
            self._one(
                [it for (it,) in self.day.ask(query) if it != self.bound["column"]]
            )
        )

    def _window(self) -> int:
        return 1000 * self.day.number()

    def _window_end(self) -> int:
        return int(self.bound["window"]) + 1000

    def _low(self) -> int:
        found = self.day.ask(f"SELECT min(id), max(id) FROM {self.bound['free']}")
        low, high = (
            found[0] if found and found[0][0] is not None else (self._window(),) * 2
        )
        self.bound["high"] = str(int(high) + 50)
        return int(low)

    def _new_type(self) -> str:
        self.know("{type}")
        return _NEW_TYPES.get(self.bound["type"], "text")

    def _new_value(self) -> str:
        return f"{self.bound['column']}::{self.bound['new_type']}"

    def _other_value(self) -> str:
        column = self.bound["column"]
        return f"{column} || '!'" if self.bound["type"] == "text" else f"{column} + 1"

    def _identity(self) -> str:
        key = "".join(
            f"USING INDEX {it}"
            for (it,) in self.day.ask(_QUERIES["key"].format(oid=self.oid))
        )
        return str(self._one(("FULL", "NOTHING", "DEFAULT", key or "FULL")))

    def _operations(self) -> str:
        return str(self._one(_OPERATIONS))

    def _new_label(self) -> str:
        return f"'m{self.day.number()}'"

    def _number(self) -> int:
        return self.day.number()

    def _small(self) -> int:
        return int(self._one(range(4)))


def produce(day: Day, name: str, numbers: tuple[int, ...]) -> None:
    """Runs a production."""
    production = PRODUCTIONS[name]
    filling = Filling(day, numbers)
    try:
        statements = filling.fill(production.sql)
        filling.bound.setdefault("table", "")
        filling.know(production.back)
    except Cannot:
        return
    last = _last(day)
    risk(day, filling.oid, production.risks)
    done = [day.attempt(it) for it in statements]
    newest = _last(day)
    day.focus = newest if newest > last else filling.oid or day.focus
    risk(day, day.focus, production.risks)
    watch(day)
    if name == "trigger_off":
        day.is_told = False
    if name in {"rename_column", "swap_columns"}:
        day.renamed.add(day.focus)
    if production.is_birth and newest > last:
        day.born |= {
            it for (it,) in day.ask(_PUBLISHED) if it == newest and not day.is_together
        }
    if all(done):
        day.undo.append((production.back, day.focus, filling.bound))


@step(is_harmless=True)
def back(day: Day) -> None:
    """The last production that can be undone is undone."""
    while day.undo:
        template, oid, bound = day.undo.pop()
        names = day.ask(f"SELECT {_NAME} {_FROM} WHERE c.oid = {oid}")
        if template and names:
            day.is_risky = True
            day.focus = oid
            for it in template.format(**bound | {"table": names[0][0]}).split("; "):
                day.attempt(it)
            watch(day)
            return


def _last(day: Day) -> int:
    found = day.ask(f"SELECT max(c.oid::bigint) {_FROM} WHERE {IS_USERS}")
    return int(found[0][0] or 0) if found else 0


def risk(day: Day, oid: int, risks: str = "kin") -> None:
    """Notes the tables that may need a load now."""
    if risks == "all":
        day.is_risky = True
    elif risks:
        day.risky |= {it for (it,) in day.ask(_KIN.format(oid=oid))}


def watch(day: Day, *, is_look: bool = False) -> None:
    """Notes the roots of partitions that came and went between two looks."""
    found = {(int(part), int(root)) for part, root in day.ask(_PARTITIONS)}
    known, before = day.partitions
    for _, parent in before - found - known:
        day.blind.add(parent)
        day.blind |= {it for (it,) in day.ask(_KIN.format(oid=parent))}
    day.partitions = (found if is_look else known, found)


_PARTITIONS = """
SELECT i.inhrelid::bigint, i.inhparent::bigint FROM pg_inherits i
JOIN pg_class c ON c.oid = i.inhparent AND c.relkind = 'p'
"""
#: All its relatives by inheritance. Values of the type regclass are names of all tables.
_KIN = """
WITH RECURSIVE kin (oid) AS (
    SELECT {oid}::oid
    UNION
    SELECT CASE WHEN i.inhrelid = k.oid THEN i.inhparent ELSE i.inhrelid END
    FROM kin k JOIN pg_inherits i ON k.oid IN (i.inhrelid, i.inhparent)
)
SELECT oid::bigint FROM kin
UNION
SELECT attrelid::bigint FROM pg_attribute WHERE atttypid = 'regclass'::regtype AND attnum > 0 AND attrelid >= 16384
"""


_PUBLISHED = """
SELECT c.oid::bigint FROM pg_publication_tables p JOIN pg_namespace n ON n.nspname = p.schemaname
JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename WHERE p.pubname = 'p'
"""


def _register(name: str) -> None:
    def run(day: Day, *numbers: int) -> None:
        produce(day, name, numbers)

    KINDS[name] = Kind(run, (8, 8, 8), is_harmless=True)


for _name in PRODUCTIONS:
    _register(_name)


# Several statements together.


@step(8, is_harmless=True)
def together(day: Day, how: int) -> None:
    """The next statements are one transaction, or one function."""
    day.begin_together(how)


@step(is_harmless=True)
def apart(day: Day) -> None:
    """Each of the next statements is a transaction."""
    day.end_together()
