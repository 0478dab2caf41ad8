"""Steps on the server: the first tables, rows, and a few that the grammar does not have."""

# ruff: noqa: S608  (statements are put together here, for a server of the tests)

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import walrow
from campaign.delta import DeltaTarget
from campaign.grammar import IS_USERS, risk, watch
from campaign.looking import archive, received
from campaign.oracle import compare, published
from campaign.steps import step
from campaign.target import Target

if TYPE_CHECKING:
    from campaign.day import Day


PUBLICATIONS = ("all", "named", "schema")
_OPTIONS = "publish_via_partition_root = {}, publish_generated_columns = stored"
_MEMBERS = {
    "all": "FOR ALL TABLES",
    "named": "FOR TABLE t, u, part, w",
    "schema": "FOR TABLES IN SCHEMA public",
}


_FIRST = ("t", "u", "part", "w")


class Column(NamedTuple):
    """A column of a table on the server, and whether it is of the primary key."""

    name: str
    type: str
    is_key: bool


@step(6, 5)
def begin(day: Day, publication: int, first: int) -> None:
    """Tables, and a log that begins with a slot (0: of tables with rows, 4: of empty ones) or their load."""
    day.publication = PUBLICATIONS[publication % 3]
    options = _OPTIONS.format(publication < 3)
    rows = "SELECT g, g, 'before' FROM generate_series(1, 3) g"
    day.sql(
        "CREATE TABLE t (id int PRIMARY KEY, a int, v text)",
        "CREATE TABLE u (id int PRIMARY KEY, a int, v text, "
        "g int GENERATED ALWAYS AS (a * 2) STORED)",
        "CREATE TABLE part (id int PRIMARY KEY, a int, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (3)",
        "CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (3) TO (1000)",
        "CREATE TYPE mood AS ENUM ('ok', 'sad')",
        "CREATE TABLE w (id int PRIMARY KEY, a int, b int, v text, m mood DEFAULT 'ok')",
        "CREATE SCHEMA other",
        'CREATE SCHEMA "public.b"',
        *(f"ALTER TABLE {it} ALTER v SET STORAGE EXTERNAL" for it in _FIRST),
        *(f"INSERT INTO {it} (id, a, v) {rows}" for it in _FIRST if first != 4),
    )
    day.script.clear()
    day.sql(f"CREATE PUBLICATION p {_MEMBERS[day.publication]} WITH ({options})")
    is_loaded = 0 < first < 4
    done = day.receive(create=True, snapshot=is_loaded, two_phase=first == 3)
    if done.refusal is not None:
        raise done.refusal
    for name in ("t", "u", "part") if publication < 3 else ():
        # A user's copy, with the rows from before the slot, or a table that begins with the load.
        kind = Target if day.spark is None else DeltaTarget
        day.targets[name] = kind.of(day, name, is_copied=not is_loaded)
    archive(day)
    compare(day)


def table_of(day: Day, number: int) -> str:
    """A table, by a number: the last one that a statement was about comes first."""
    found = day.ask(
        "SELECT c.oid::bigint, c.oid::regclass::text FROM pg_class c JOIN pg_namespace n "
        f"ON n.oid = c.relnamespace WHERE {IS_USERS} ORDER BY c.oid <> {day.focus}, "
        "c.relispartition, array_position(ARRAY['t', 'u', 'part'], relname::text) NULLS LAST, 2"
    )
    if not found:
        return "t"
    day.focus, name = found[number % len(found)]
    return str(name)


def _columns(day: Day, table: str) -> list[Column]:
    """The columns that statements may write."""
    found = day.ask(
        "SELECT quote_ident(attname), format_type(atttypid, NULL), EXISTS (SELECT FROM pg_constraint k WHERE "
        "k.conrelid = attrelid AND k.contype = 'p' AND attnum = ANY (k.conkey)) FROM pg_attribute WHERE "
        f"attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped "
        "AND attgenerated = '' AND attidentity <> 'a' ORDER BY attnum"
    )
    return [Column(*it) for it in found]


def _value(day: Day, column: Column, table: str = "") -> str:
    """A new value, as SQL. Every other text is large."""
    number = day.number()
    if column.type == "regclass":
        return f"'{table}'"
    if column.type == "mood":
        return "(SELECT max(l) FROM unnest(enum_range(NULL::mood)) l)"
    if column.type in {"integer", "bigint"}:
        return f"{number}"
    return f"repeat('new {number} ', {1 if number % 2 else 400})"


def _next(day: Day, table: str) -> str:
    """A value of `id` that is new, and within a partition's bounds if there is one."""
    found = day.ask(
        "SELECT min(substring(pg_get_expr(c.relpartbound, c.oid) FROM '[(]''?([0-9]+)')::int) FROM pg_class c "
        f"WHERE c.oid = '{table}'::regclass OR c.oid IN (SELECT relid FROM pg_partition_tree('{table}'))"
    )
    low = found[0][0] if found else None
    low = 1000 * day.number() if low is None else low
    return f"(SELECT coalesce(max(id) + 1, {low}) FROM {table})"


# Rows.


def _insert(day: Day, table: int, rows: int = 0) -> None:
    name = table_of(day, table)
    values = {
        it.name: _next(day, name) if it.name == "id" else _value(day, it, name)
        for it in _columns(day, name)
    }
    if rows and "id" in values:
        values["id"] += " + g"
    day.attempt(
        f"INSERT INTO {name} ({', '.join(values)}) SELECT {', '.join(values.values())} "
        f"FROM generate_series(0, {rows}) g"
    )


@step(6, is_harmless=True)
def insert(day: Day, table: int) -> None:
    """A new row."""
    _insert(day, table)


@step(6, is_harmless=True)
def insert_many(day: Day, table: int) -> None:
    """So many rows that the server sends their transaction before it ends."""
    _insert(day, table, 60)


@step(6, is_harmless=True)
def insert_again(day: Day, table: int) -> None:
    """A row like the first one, if no key forbids it."""
    name = table_of(day, table)
    names = ", ".join(it.name for it in _columns(day, name))
    day.attempt(
        f"INSERT INTO {name} ({names}) SELECT {names} FROM {name} ORDER BY id LIMIT 1"
    )


@step(6, is_harmless=True)
def insert_null(day: Day, table: int) -> None:
    """A row without `id`, if no key forbids it."""
    day.attempt(f"INSERT INTO {table_of(day, table)} (id) VALUES (NULL)")


@step(4, is_harmless=True)
def insert_and_look(day: Day, table: int) -> None:
    """A new row, alone in its segment."""
    _insert(day, table)
    received(day)


@step(6, 4, is_harmless=True)
def update(day: Day, table: int, number: int) -> None:
    """A row changes: the first one or the last one."""
    name = table_of(day, table)
    columns = [it for it in _columns(day, name) if it.name != "id"]
    if columns:
        column = columns[number // 2 % len(columns)]
        day.attempt(
            f"UPDATE {name} SET {column.name} = {_value(day, column, name)} WHERE id = "
            f"(SELECT {('min', 'max')[number % 2]}(id) FROM {name})"
        )


@step(4, is_harmless=True)
def update_unseen(day: Day, number: int) -> None:
    """A row of the last table changes, if no publication sends that."""
    roots = f"SELECT {day.focus} UNION SELECT relid::oid::bigint FROM pg_partition_ancestors({day.focus})"
    if {oid for (oid,) in day.ask(roots)}.isdisjoint(it[0] for it in published(day)):
        update(day, 0, number)


@step(6, is_harmless=True)
def update_key(day: Day, table: int) -> None:
    """A row gets another key."""
    name = table_of(day, table)
    day.attempt(
        f"UPDATE {name} SET id = {_next(day, name)} WHERE id = (SELECT min(id) FROM {name})"
    )


@step(6, is_harmless=True)
def delete(day: Day, table: int) -> None:
    """The first row goes."""
    name = table_of(day, table)
    day.attempt(f"DELETE FROM {name} WHERE id = (SELECT min(id) FROM {name})")


@step(6, is_harmless=True)
def truncate(day: Day, table: int) -> None:
    """All rows go. The TRUNCATE of a partition is not in the stream of its root."""
    name = table_of(day, table)
    if day.ask(f"SELECT 1 FROM pg_class WHERE oid = {day.focus} AND relispartition"):
        risk(day, day.focus)
    day.attempt(f"TRUNCATE {name}")


@step(2)
def prepare(day: Day, table: int) -> None:
    """A transaction is prepared, and not decided."""
    name = f"{day.slot}_{day.number()}"
    target = table_of(day, table)
    if day.attempt(
        "BEGIN",
        f"INSERT INTO {target} (id) VALUES ({day.number()})",
        f"PREPARE TRANSACTION '{name}'",
    ):
        day.prepared.append(name)
    else:
        day.attempt("ROLLBACK")


@step(is_harmless=True)
def commit_prepared(day: Day) -> None:
    """The oldest prepared transaction is committed."""
    if day.prepared:
        day.attempt(f"COMMIT PREPARED '{day.prepared.pop(0)}'")


@step(is_harmless=True)
def roll_back_prepared(day: Day) -> None:
    """The oldest prepared transaction is rolled back."""
    if day.prepared:
        day.attempt(f"ROLLBACK PREPARED '{day.prepared.pop(0)}'")


# Several tables: statements cost less than the looks between them.


@step(8, is_harmless=True)
def turn(day: Day, number: int) -> None:
    """Turns to a table that is whole: the next statements are about it."""
    if found := sorted(day.whole - day.risky):
        day.focus = found[number % len(found)]


@step(4, is_harmless=True)
def rows_everywhere(day: Day, how: int) -> None:
    """Rows of all tables change."""
    focus = day.focus
    for oid, *_ in published(day):
        for change in (
            (partial(update, number=1), delete, _insert),
            (_insert, partial(update, number=0)),
            (partial(update, number=2), update_key),
            (_insert, delete),
        )[how]:
            day.focus = oid
            change(day, table=0)
    day.focus = focus


@step(4, is_harmless=True)
def fresh(day: Day, kind: int) -> None:
    """A table that is published, for what happens after the next look."""
    name = f"f{day.number()}"
    columns = "(id int PRIMARY KEY, a int, v text)"
    parts = "PARTITION OF {0} FOR VALUES FROM"
    create = [
        [f"CREATE TABLE {name} {columns}"],
        [
            f"CREATE TABLE {name} {columns} PARTITION BY RANGE (id)",
            f"CREATE TABLE {name}_1 {parts} (0) TO (3)".format(name),
            f"CREATE TABLE {name}_2 {parts} (3) TO (1000)".format(name),
        ],
        [
            f"CREATE TABLE {name} {columns}",
            f"ALTER TABLE {name} REPLICA IDENTITY FULL",
        ],
        [
            f"CREATE TABLE {name} (id int, a int, g int GENERATED ALWAYS AS (a * 2) STORED, v text, PRIMARY KEY (id))"
        ],
    ][kind]
    rows = f"INSERT INTO {name} (id, a, v) SELECT g, g, 'fresh' FROM generate_series(1, 3) g"
    _publish(day, name, create, rows)


@step(2, is_harmless=True)
def fresh_key(day: Day, kind: int) -> None:
    """A published table with keys that are equal as floats, or no dates: see `follow_table`."""
    name = f"k{day.number()}"
    type_, values = (
        ("numeric", "9007199254740992, 9007199254740993"),
        ("date", "'infinity', '-infinity'"),
    )[kind]
    create = [f"CREATE TABLE {name} (id {type_} PRIMARY KEY, v text)"]
    rows = (
        f"INSERT INTO {name} SELECT it, it FROM unnest(ARRAY[{values}]::{type_}[]) it"
    )
    _publish(day, name, create, rows)
    last = day.ask(f"SELECT to_regclass('{name}')::oid::bigint")
    day.focus = last[0][0] if last and last[0][0] else day.focus


def _publish(day: Day, name: str, create: list[str], rows: str) -> None:
    if day.publication == "named":
        # It stays empty: rows that come with it would need a load.
        create.append(f"ALTER PUBLICATION p ADD TABLE {name}")
        if day.is_together or day.attempt("BEGIN", *create, "COMMIT"):
            return
        day.attempt("ROLLBACK")
    else:
        day.attempt(*create, rows)
    watch(day)


# Statements that the grammar does not have.


@step(3)
def drop_type(day: Day, table: int) -> None:
    """A type goes, and with it a column that came long before."""
    type_ = f"mood{day.number()}"
    name = table_of(day, table)
    day.attempt(
        f"CREATE TYPE {type_} AS ENUM ('ok')",
        f"ALTER TABLE {name} ADD c{day.number()} {type_}",
    )
    received(day)
    day.is_risky = True
    day.attempt(f"DROP TYPE {type_} CASCADE")


@step()
def no_filter(day: Day) -> None:
    """The publication has whole tables."""
    if day.publication == "named":
        day.attempt("ALTER PUBLICATION p SET TABLE t, u, part, w")


@step(2)
def make_publication_again(day: Day, is_changed: int) -> None:
    """The publication is dropped and made again. Perhaps a row changes in between."""
    day.attempt("DROP PUBLICATION p")
    if is_changed:
        update(day, 0, 1)
    day.attempt(
        f"CREATE PUBLICATION p {_MEMBERS[day.publication]} WITH ({_OPTIONS.format(True)})"
    )


@step(is_harmless=True)
def trigger(day: Day) -> None:
    """The event trigger is installed, and seen."""
    day.is_told = day.attempt(walrow.postgres.ddl_trigger())
    received(day)
