"""Steps on the server: rows, columns, tables, names and publications."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from campaign.delta import DeltaTarget
from campaign.looking import received
from campaign.steps import step
from campaign.target import Target

if TYPE_CHECKING:
    from campaign.day import Day


PUBLICATIONS = ("all", "named", "schema")
_OPTIONS = "publish_via_partition_root = true, publish_generated_columns = stored"
_MEMBERS = {
    "all": "FOR ALL TABLES",
    "named": "FOR TABLE t, u, part",
    "schema": "FOR TABLES IN SCHEMA public",
}


class Column(NamedTuple):
    """A column of a table on the server."""

    name: str
    type: str


@step(3, 4)
def begin(day: Day, publication: int, first: int) -> None:
    """Tables with rows, and a log that begins with their load, or with a slot."""
    day.publication = PUBLICATIONS[publication]
    rows = "SELECT g, g, 'before' FROM generate_series(1, 3) g"
    day.sql(
        "CREATE TABLE t (id int PRIMARY KEY, a int, v text)",
        "CREATE TABLE u (id int PRIMARY KEY, a int, v text, "
        "g int GENERATED ALWAYS AS (a * 2) STORED)",
        "CREATE TABLE part (id int PRIMARY KEY, a int, v text) PARTITION BY RANGE (id)",
        "CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (3)",
        "CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (3) TO (100000)",
        "CREATE SCHEMA other",
        *(f"INSERT INTO {it} (id, a, v) {rows}" for it in ("t", "u", "part")),
        f"CREATE PUBLICATION p {_MEMBERS[day.publication]} WITH ({_OPTIONS})",
    )
    is_loaded = first > 0
    done = day.receive(create=True, snapshot=is_loaded, two_phase=first > 2)
    if done.refusal is not None:
        raise done.refusal
    for name in ("t", "u", "part"):
        # A user's copy, with the rows from before the slot, or a table that begins with the load.
        kind = Target if day.spark is None else DeltaTarget
        day.targets[name] = kind.of(day, name, is_copied=not is_loaded)
    received(day)


def table_of(day: Day, number: int) -> str:
    """One of the ordinary tables, or the partitioned one, by a number."""
    found = [
        name
        for (name,) in day.sql(
            "SELECT c.oid::regclass::text FROM pg_class c WHERE relkind IN ('r', 'p') AND "
            "relnamespace IN ('public'::regnamespace, 'other'::regnamespace) "
            "AND NOT relispartition ORDER BY "
            "array_position(ARRAY['t', 'u', 'part'], relname::text) NULLS LAST, 1"
        )
    ]
    return str(found[number % len(found)]) if found else "t"


def _columns(day: Day, table: str) -> list[Column]:
    """The columns that may be changed: not the key, and not generated."""
    found = day.sql(
        "SELECT quote_ident(attname), atttypid::regtype::text FROM pg_attribute WHERE "  # noqa: S608
        f"attrelid = '{table}'::regclass AND attnum > 0 AND NOT attisdropped "
        "AND attname <> 'id' AND attgenerated = '' ORDER BY attnum"
    )
    return [Column(*it) for it in found] or [Column("id", "integer")]


def _column(day: Day, table: str, number: int) -> Column:
    found = _columns(day, table)
    return found[number % len(found)]


def _value(day: Day, column: Column) -> str:
    number = day.number()
    return (
        f"'new {number}'"
        if column.type in {"text", "character varying"}
        else f"{number}"
    )


# Rows.


@step(4, is_harmless=True)
def insert(day: Day, table: int) -> None:
    """A new row."""
    name = table_of(day, table)
    values = {"id": str(day.number()), "a": "7", "v": "'inserted'"}
    names = [it.name for it in _columns(day, name) if it.name in values]
    names = ["id", *names]
    chosen = ", ".join(values[it] for it in names)
    day.attempt(f"INSERT INTO {name} ({', '.join(names)}) VALUES ({chosen})")  # noqa: S608


@step(4, is_harmless=True)
def insert_and_look(day: Day, table: int) -> None:
    """A new row, alone in its segment."""
    insert(day, table)
    received(day)


@step(4, 2, is_harmless=True)
def update(day: Day, table: int, number: int) -> None:
    """A row changes: the first one or the last one."""
    name = table_of(day, table)
    column = _column(day, name, number)
    day.attempt(
        f"UPDATE {name} SET {column.name} = {_value(day, column)} WHERE id = "  # noqa: S608
        f"(SELECT {('min', 'max')[number % 2]}(id) FROM {name})"
    )


@step(4, is_harmless=True)
def delete(day: Day, table: int) -> None:
    """The first row goes."""
    name = table_of(day, table)
    day.attempt(f"DELETE FROM {name} WHERE id = (SELECT min(id) FROM {name})")  # noqa: S608


@step(4, is_harmless=True)
def truncate(day: Day, table: int) -> None:
    """All rows go."""
    day.attempt(f"TRUNCATE {table_of(day, table)}")


@step(2)
def prepare(day: Day, table: int) -> None:
    """A transaction is prepared, and not decided."""
    name = f"{day.slot}_{day.number()}"
    target = table_of(day, table)
    if day.attempt(
        "BEGIN",
        f"INSERT INTO {target} (id) VALUES ({day.number()})",  # noqa: S608
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


# Steps that leave a table whole.


@step(4, 12, is_harmless=True)
def harmless(day: Day, table: int, number: int) -> None:
    """Something that changes no row and no column."""
    name = table_of(day, table)
    statements = [
        f"GRANT SELECT ON {name} TO PUBLIC",
        f"COMMENT ON TABLE {name} IS 'a'",
        f"CREATE INDEX ON {name} (id)",
        f"CREATE STATISTICS IF NOT EXISTS s{day.number()} ON id, a FROM {name}",
        f"ALTER TABLE {name} ALTER id SET STATISTICS 10",
        f"ALTER TABLE {name} ADD CHECK (id > -1)",
        f"ANALYZE {name}",
        f"VACUUM (FREEZE) {name}",
        f"ALTER TABLE {name} ENABLE ROW LEVEL SECURITY",
        f"ALTER TABLE {name} SET (fillfactor = 90)",
        f"ALTER TABLE {name} OWNER TO CURRENT_USER",
        f"CREATE RULE r{day.number()} AS ON INSERT TO {name} WHERE false DO ALSO NOTHING",
    ]
    day.attempt(statements[number])


# Columns.


@step(3)
def add_column(day: Day, table: int) -> None:
    """A new column, NULL in old rows."""
    day.attempt(f"ALTER TABLE {table_of(day, table)} ADD c{day.number()} text")


@step(3)
def add_with_default(day: Day, table: int) -> None:
    """A new column with a value in old rows."""
    day.attempt(f"ALTER TABLE {table_of(day, table)} ADD c{day.number()} int DEFAULT 5")


@step(3, 2)
def add_and_drop_default(day: Day, table: int, is_random: int) -> None:
    """A new column with values in old rows, and then without its default."""
    name, column = table_of(day, table), f"c{day.number()}"
    value = "(random() * 7)::int + 1" if is_random else "5"
    day.attempt(
        f"ALTER TABLE {name} ADD {column} int DEFAULT ({value})",
        f"ALTER TABLE {name} ALTER {column} DROP DEFAULT",
    )


@step(3)
def add_identity(day: Day, table: int) -> None:
    """A new identity column."""
    day.attempt(
        f"ALTER TABLE {table_of(day, table)} ADD c{day.number()} int "
        "GENERATED ALWAYS AS IDENTITY"
    )


@step(3)
def add_and_drop_identity(day: Day, table: int) -> None:
    """A new identity column, which then loses its identity."""
    name, column = table_of(day, table), f"c{day.number()}"
    day.attempt(
        f"ALTER TABLE {name} ADD {column} int GENERATED ALWAYS AS IDENTITY",
        f"ALTER TABLE {name} ALTER {column} DROP IDENTITY",
    )


@step(3)
def add_generated(day: Day, table: int) -> None:
    """A new generated column."""
    day.attempt(
        f"ALTER TABLE {table_of(day, table)} ADD c{day.number()} int "
        "GENERATED ALWAYS AS (id + 1) STORED"
    )


@step(3, 3)
def drop_column(day: Day, table: int, number: int) -> None:
    """A column goes."""
    name = table_of(day, table)
    column = _column(day, name, number).name
    day.attempt(f"ALTER TABLE {name} DROP {column} CASCADE")


@step(3, 3)
def rename_column(day: Day, table: int, number: int) -> None:
    """A column gets another name."""
    name = table_of(day, table)
    column = _column(day, name, number).name
    if column != "id":
        day.attempt(f"ALTER TABLE {name} RENAME {column} TO r{day.number()}")


@step(3)
def swap_columns(day: Day, table: int) -> None:
    """Two columns swap their names."""
    name = table_of(day, table)
    first, second = (_column(day, name, it).name for it in (0, 1))
    day.attempt(
        f"ALTER TABLE {name} RENAME {first} TO swapped",
        f"ALTER TABLE {name} RENAME {second} TO {first}",
        f"ALTER TABLE {name} RENAME swapped TO {second}",
    )


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


@step(3, 3)
def change_type(day: Day, table: int, number: int) -> None:
    """A column gets another type."""
    name = table_of(day, table)
    column = _column(day, name, number)
    other = {"integer": "bigint", "bigint": "integer", "text": "varchar"}.get(
        column.type, "text"
    )
    day.attempt(f"ALTER TABLE {name} ALTER {column.name} TYPE {other}")


@step(3, 3)
def type_and_back(day: Day, table: int, number: int) -> None:
    """A column gets another type and then its own again, with other values."""
    name = table_of(day, table)
    column = _column(day, name, number)
    if column.type == "text":
        there, back = (
            "bytea USING convert_to(%s || 'x', 'UTF8')",
            "text USING encode(%s, 'hex')",
        )
    else:
        there, back = "bigint USING %s + 1", f"{column.type} USING %s + 1"
    for to in (there, back):
        day.attempt(f"ALTER TABLE {name} ALTER {column.name} TYPE {to % column.name}")


@step(3, 3)
def same_type_using(day: Day, table: int, number: int) -> None:
    """A column keeps its type, and gets other values."""
    name = table_of(day, table)
    column = _column(day, name, number)
    value = f"{column.name} || '!'" if column.type == "text" else f"{column.name} + 1"
    day.attempt(
        f"ALTER TABLE {name} ALTER {column.name} TYPE {column.type} USING {value}"
    )


@step()
def set_expression(day: Day) -> None:
    """A generated column gets another expression, which gives other values."""
    day.attempt(f"ALTER TABLE u ALTER g SET EXPRESSION AS (id * {day.number()})")


@step()
def drop_expression(day: Day) -> None:
    """A generated column becomes an ordinary one."""
    day.attempt("ALTER TABLE u ALTER g DROP EXPRESSION")


@step(3, 3)
def replica_identity(day: Day, table: int, number: int) -> None:
    """Another replica identity."""
    word = ("FULL", "DEFAULT", "NOTHING")[number]
    day.attempt(f"ALTER TABLE {table_of(day, table)} REPLICA IDENTITY {word}")


# Tables.


@step()
def swap_names(day: Day) -> None:
    """Two tables swap their names."""
    day.attempt(
        "ALTER TABLE t RENAME TO swapped",
        "ALTER TABLE u RENAME TO t",
        "ALTER TABLE swapped RENAME TO u",
    )


@step(3)
def rename_table(day: Day, table: int) -> None:
    """A table gets a new name."""
    day.attempt(f"ALTER TABLE {table_of(day, table)} RENAME TO n{day.number()}")


@step(2)
def replace_table(day: Day, table: int) -> None:
    """A new table with other rows gets the name of one, which stays under another."""
    name, new = ("t", "u")[table], f"n{day.number()}"
    day.attempt(
        f"CREATE TABLE {new} (LIKE {name} INCLUDING ALL)",
        f"INSERT INTO {new} (id) VALUES ({day.number()})",  # noqa: S608
        f"ALTER TABLE {name} RENAME TO o{day.number()}",
        f"ALTER TABLE {new} RENAME TO {name}",
    )


@step(2)
def create_again(day: Day, table: int) -> None:
    """A table is dropped and created again, with a row."""
    name = ("t", "u")[table]
    day.attempt(f"DROP TABLE {name}")
    day.attempt(
        f"CREATE TABLE {name} (id int PRIMARY KEY, a int, v text)",
        f"INSERT INTO {name} VALUES ({day.number()}, 1, 'again')",  # noqa: S608
    )


@step(3)
def unlogged(day: Day, table: int) -> None:
    """A table is logged no longer."""
    day.attempt(f"ALTER TABLE {table_of(day, table)} SET UNLOGGED")


@step(3)
def logged(day: Day, table: int) -> None:
    """A table is logged."""
    day.attempt(f"ALTER TABLE {table_of(day, table)} SET LOGGED")


@step(2)
def unlogged_and_back(day: Day, table: int) -> None:
    """A row changes while its table is not logged."""
    unlogged(day, table)
    update(day, table, 1)
    logged(day, table)


@step(3, 2)
def rewrite(day: Day, table: int, number: int) -> None:
    """The table's file is written again."""
    name = table_of(day, table)
    day.attempt((f"VACUUM FULL {name}", f"CLUSTER {name} USING {name}_pkey")[number])


@step(2)
def detach(day: Day, number: int) -> None:
    """A partition leaves its table."""
    day.attempt(f"ALTER TABLE part DETACH PARTITION part_{number + 1}")


@step(2)
def attach(day: Day, number: int) -> None:
    """A partition comes back."""
    bounds = ("FROM (0) TO (3)", "FROM (3) TO (100000)")[number]
    day.attempt(
        f"ALTER TABLE part ATTACH PARTITION part_{number + 1} FOR VALUES {bounds}"
    )


@step(2)
def detached_and_back(day: Day, number: int) -> None:
    """A row changes while its partition is not one."""
    detach(day, number)
    day.attempt(f"UPDATE part_{number + 1} SET v = 'detached {day.number()}'")  # noqa: S608
    attach(day, number)


@step()
def add_partition(day: Day) -> None:
    """A new partition, with a row."""
    day.attempt(
        "CREATE TABLE part_3 PARTITION OF part FOR VALUES FROM (100000) TO (200000)",
        f"INSERT INTO part (id, a) VALUES ({100000 + day.number()}, 1)",  # noqa: S608
    )


@step(2)
def move_to_schema(day: Day, is_back: int) -> None:
    """A table moves to another schema, or back."""
    before, after = ("other", "public") if is_back else ("public", "other")
    day.attempt(f"ALTER TABLE {before}.t SET SCHEMA {after}")


# Publications.


@step(3)
def leave_publication(day: Day, table: int) -> None:
    """A table leaves the publication."""
    day.attempt(f"ALTER PUBLICATION p DROP TABLE {table_of(day, table)}")


@step(3)
def enter_publication(day: Day, table: int) -> None:
    """A table enters the publication."""
    day.attempt(f"ALTER PUBLICATION p ADD TABLE {table_of(day, table)}")


@step()
def leave_schema(day: Day) -> None:
    """A schema leaves the publication."""
    day.attempt("ALTER PUBLICATION p DROP TABLES IN SCHEMA public")


@step()
def enter_schema(day: Day) -> None:
    """A schema enters the publication."""
    day.attempt("ALTER PUBLICATION p ADD TABLES IN SCHEMA public")


@step(3)
def out_and_in(day: Day, table: int) -> None:
    """A row changes while its table is not published."""
    leave_publication(day, table)
    update(day, table, 1)
    enter_publication(day, table)


@step(3)
def schema_out_and_in(day: Day, table: int) -> None:
    """A row changes while its schema is not published."""
    leave_schema(day)
    update(day, table, 1)
    enter_schema(day)


@step(3)
def publish_some(day: Day, number: int) -> None:
    """The publication leaves out some kinds of changes."""
    kinds = ("insert", "insert, update", "insert, update, delete")[number]
    if day.attempt(f"ALTER PUBLICATION p SET (publish = '{kinds}')"):
        day.is_partial = True


@step()
def publish_all(day: Day) -> None:
    """The publication has all kinds of changes."""
    if day.attempt(
        "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')"
    ):
        day.is_partial = False


@step(3, 3)
def filter_rows(day: Day, table: int, number: int) -> None:
    """The publication has a row filter."""
    if day.publication == "named":
        name = table_of(day, table)
        day.attempt(f"ALTER PUBLICATION p SET TABLE {name} WHERE (id > {number})")


@step(3)
def choose_columns(day: Day, table: int) -> None:
    """The publication has a column list."""
    if day.publication == "named":
        day.attempt(f"ALTER PUBLICATION p SET TABLE {table_of(day, table)} (id, a)")


@step()
def no_filter(day: Day) -> None:
    """The publication has whole tables."""
    if day.publication == "named":
        day.attempt("ALTER PUBLICATION p SET TABLE t, u, part")


@step(2)
def make_publication_again(day: Day, is_changed: int) -> None:
    """The publication is dropped and made again. Perhaps a row changes in between."""
    day.attempt("DROP PUBLICATION p")
    if is_changed:
        update(day, 0, 1)
    day.attempt(f"CREATE PUBLICATION p {_MEMBERS[day.publication]} WITH ({_OPTIONS})")
    day.is_partial = False
