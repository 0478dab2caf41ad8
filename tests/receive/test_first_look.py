"""What happened to a table between the creation of a slot and the first look of a receiver."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import deltalake
import pytest

import walrow
from servers.world import World
from walrow._receive.completeness import Completeness
from walrow.errors import Error

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]


TABLE = "CREATE TABLE {t} (id int PRIMARY KEY, v text, n int)"
INSERT = "INSERT INTO {t} (id) VALUES (1), (2)"
LATER = "INSERT INTO {t} (id) VALUES (9)"
ADD = "ALTER PUBLICATION p ADD TABLE {t}"


class Event(NamedTuple):
    """Statements about the table `{t}` that has rows from before them, and the marks that they make."""

    statements: Sequence[str]
    codes: Sequence[str] = ()
    #: Before the slot.
    setup: Sequence[str] = (TABLE,)


TYPES = (
    "CREATE TYPE {t}_mood AS ENUM ('sad', 'happy')",
    "CREATE TYPE {t}_pair AS (a int, b text)",
    "CREATE TABLE {t} (id int PRIMARY KEY, v text, n int, e {t}_mood DEFAULT 'sad', c {t}_pair DEFAULT '(1,x)')",
)
ROOT = (
    "CREATE TABLE {t} (id int PRIMARY KEY, v text, n int) PARTITION BY RANGE (id)",
    "CREATE TABLE {t}_1 PARTITION OF {t} FOR VALUES FROM (0) TO (10)",
)
#: With the publication of all tables, under their own names.
PLAIN = {
    "nothing": Event([]),
    "filled": Event(["ALTER TABLE {t} ADD d int DEFAULT 2"], ["column_default"]),
    "filled_rows": Event(
        [
            "ALTER TABLE {t} ADD d int DEFAULT 2",
            "ALTER TABLE {t} ALTER d DROP DEFAULT",
            "VACUUM FULL {t}",
        ],
        ["column_renamed", "rewritten"],
    ),
    "random": Event(
        ["ALTER TABLE {t} ADD d float8 DEFAULT random()"],
        ["column_renamed", "rewritten"],
    ),
    "renamed": Event(["ALTER TABLE {t} RENAME n TO m"], ["column_renamed"]),
    "retyped": Event(
        ["ALTER TABLE {t} ALTER v TYPE int USING length(v)"],
        ["column_renamed", "rewritten"],
    ),
    "same_type": Event(
        ["ALTER TABLE {t} ALTER n TYPE int USING n + 1"],
        ["column_renamed", "rewritten"],
    ),
    "came_back": Event(
        ["ALTER TABLE {t} DROP n", "ALTER TABLE {t} ADD n int"], ["column_renamed"]
    ),
    "dropped": Event(["ALTER TABLE {t} DROP n"]),
    "label": Event(
        ["ALTER TYPE {t}_mood RENAME VALUE 'sad' TO 'blue'"], ["type_altered"], TYPES
    ),
    "attribute": Event(
        ["ALTER TYPE {t}_pair DROP ATTRIBUTE b"], ["type_altered"], TYPES
    ),
    "unlogged": Event(
        [
            "ALTER TABLE {t} SET UNLOGGED",
            "INSERT INTO {t} VALUES (3)",
            "ALTER TABLE {t} SET LOGGED",
        ],
        ["rewritten"],
    ),
    "unlogged_small": Event(
        [
            "ALTER TABLE {t} SET UNLOGGED",
            "INSERT INTO {t} VALUES (3)",
            "ALTER TABLE {t} SET LOGGED",
        ],
        ["rewritten"],
        ["CREATE TABLE {t} (id int PRIMARY KEY, v int)"],
    ),
    "truncated": Event(["TRUNCATE {t}"]),
    "truncated_before": Event(
        ["GRANT SELECT ON {t} TO PUBLIC"], [], [TABLE, "TRUNCATE {t}"]
    ),
    "identity": Event(["ALTER TABLE {t} REPLICA IDENTITY FULL"]),
    "harmless": Event(
        [
            "GRANT SELECT ON {t} TO PUBLIC",
            "CREATE INDEX ON {t} (v)",
            "ALTER TABLE {t} ADD CHECK (n > 0)",
            "ANALYZE {t}",
            "VACUUM FREEZE {t}",
        ]
    ),
    "moved": Event(
        ["ALTER TABLE {t} RENAME TO {t}_2", "ALTER TABLE {t}_2 RENAME TO {t}"]
    ),
    "young": Event(
        [
            "CREATE TABLE {t} (id int PRIMARY KEY, v text)",
            "INSERT INTO {t} VALUES (1, 'x')",
        ],
        [],
        [],
    ),
    "young_filled": Event(
        [
            "CREATE TABLE {t} (id int PRIMARY KEY)",
            "INSERT INTO {t} VALUES (1)",
            "ALTER TABLE {t} ADD v text DEFAULT 'x'",
        ],
        ["column_default"],
        [],
    ),
}
VIA_ROOT = {
    "nothing": Event([], [], ROOT),
    "filled": Event(["ALTER TABLE {t} ADD d int DEFAULT 2"], ["column_default"], ROOT),
    "created": Event(
        [
            "CREATE TABLE {t}_2 PARTITION OF {t} FOR VALUES FROM (10) TO (20)",
            "INSERT INTO {t} VALUES (11, 'x')",
        ],
        [],
        ROOT,
    ),
    "attached": Event(
        ["ALTER TABLE {t} ATTACH PARTITION {t}_2 FOR VALUES FROM (10) TO (20)"],
        ["partitions"],
        [
            *ROOT,
            "CREATE TABLE {t}_2 (id int PRIMARY KEY, v text, n int)",
            "INSERT INTO {t}_2 VALUES (11, 'x')",
        ],
    ),
    "again": Event(
        [
            "ALTER TABLE {t} DETACH PARTITION {t}_1",
            "INSERT INTO {t}_1 VALUES (3, 'z')",
            "ALTER TABLE {t} ATTACH PARTITION {t}_1 FOR VALUES FROM (0) TO (10)",
        ],
        ["partitions"],
        ROOT,
    ),
    "leaf_truncated": Event(["TRUNCATE {t}_1"], ["rewritten"], ROOT),
    "identity": Event(
        ["ALTER TABLE {t} REPLICA IDENTITY FULL"], ["partition_identity"], ROOT
    ),
}


#: A publication of single tables, and of schemas.
NAMED = {
    "nothing": Event([], [], ["CREATE TABLE {t} (id int PRIMARY KEY)", ADD]),
    "rewritten": Event(
        ["VACUUM FULL {t}"], [], ["CREATE TABLE {t} (id int PRIMARY KEY)", ADD]
    ),
    "added": Event(
        [ADD], ["left_publication"], ["CREATE TABLE {t} (id int PRIMARY KEY)"]
    ),
    "again": Event(
        ["ALTER PUBLICATION p DROP TABLE {t}", "INSERT INTO {t} VALUES (3)", ADD],
        ["left_publication"],
        ["CREATE TABLE {t} (id int PRIMARY KEY)", ADD],
    ),
    "late": Event(
        ["CREATE TABLE {t} (id int PRIMARY KEY)", "INSERT INTO {t} VALUES (1)", ADD],
        ["new_in_publication"],
        [],
    ),
}


def begin(world: World, events: dict[str, Event], publication: str) -> None:
    """A slot, and then the events, each after some rows of its table, and before others."""
    world.sql(f"CREATE PUBLICATION p {publication}")
    for table, event in events.items():
        world.sql(*(it.replace("{t}", table) for it in event.setup))
    world.make_slot()
    for table, event in events.items():
        if event.setup:
            world.sql(INSERT.replace("{t}", table))
        world.sql(*(it.replace("{t}", table) for it in (*event.statements, LATER)))


def codes(world: World) -> dict[str, list[str]]:
    """The codes of the open marks."""
    found = {
        it.name.partition(".")[2]: [
            mark.code.value for mark in it.marks if mark.is_open
        ]
        for it in world.log.tables()
    }
    return {name: each for name, each in found.items() if each}


@pytest.mark.parametrize(
    ("events", "publication"),
    [
        pytest.param(PLAIN, "FOR ALL TABLES", id="plain"),
        pytest.param(
            VIA_ROOT, "FOR ALL TABLES WITH (publish_via_partition_root)", id="root"
        ),
        pytest.param(NAMED, "", id="named"),
    ],
)
def test_it_is_marked_unless_the_stream_shows_it(
    world: World, events: dict[str, Event], publication: str, tmp_path: Path
) -> None:
    begin(world, events, publication)
    world.look(create=False)
    expected = {name: [*it.codes] for name, it in events.items() if it.codes}
    assert codes(world) == expected
    for name in events:
        target = tmp_path / name

        def apply(table: str = name, target: Path = target) -> None:
            walrow.delta.apply_changes(
                world.path, table=f"public.{table}", target=f"delta:{target}"
            )

        if name in expected:
            for read in (world.state, apply):
                with pytest.raises(Error, match="is not whole since"):
                    read(name)
            continue
        apply()
        rows = world.rows_of(name)
        assert world.state(name) == rows, name
        found = deltalake.DeltaTable(target).to_pyarrow_table().to_pylist()
        kept = [{key: row[key] for key in rows[0]} for row in found]
        assert sorted(kept, key=lambda row: row["id"]) == rows, name
    world.load(*(f"public.{name}" for name in expected))
    assert codes(world).keys() <= {"identity"}


def test_what_was_before_the_slot_leaves_no_mark(world: World) -> None:
    events = {it: PLAIN[it] for it in ("filled", "retyped", "label", "unlogged")}
    for table, event in events.items():
        statements = [*event.setup, INSERT, *event.statements]
        world.sql(*(it.replace("{t}", table) for it in statements))
    begin(world, {}, "FOR ALL TABLES")
    world.look(create=False)
    assert codes(world) == {}


def test_a_receiver_that_ends_before_its_first_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next one looks, when the slot is further."""
    begin(world, {it: PLAIN[it] for it in ("filled", "nothing")}, "FOR ALL TABLES")
    xmin = "SELECT catalog_xmin::text::bigint FROM pg_replication_slots WHERE database = current_database()"
    before = world.number(xmin)
    for _ in range(3):
        with monkeypatch.context() as patch:
            patch.setattr(Completeness, "look", lambda *_: None)
            patch.setattr(Completeness, "look_last", failing)
            with pytest.raises(RuntimeError):
                world.look(create=False)
        world.sql("DELETE FROM nothing", "INSERT INTO nothing VALUES (1)", "CHECKPOINT")
    assert world.number(xmin) > before + 2
    world.look(create=False)
    assert codes(world) == {"filled": ["column_default"]}


def failing(*_: object) -> None:
    raise RuntimeError


def test_messages_show_what_the_first_look_cannot(world: World) -> None:
    """A partition came after the slot, got rows and left."""
    world.sql(walrow.postgres.ddl_trigger())
    events = {it: Event([], [], ROOT) for it in ("t", "u")}
    begin(world, events, "FOR ALL TABLES WITH (publish_via_partition_root)")
    world.sql(
        "CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (10) TO (20)",
        "INSERT INTO t VALUES (11)",
        "DROP TABLE t_2",
    )
    world.look(create=False)
    assert codes(world) == {"t": ["partitions"]}


def test_a_publication_that_changes_after_the_slot(world: World) -> None:
    begin(world, {"t": Event([])}, "FOR ALL TABLES")
    world.sql(
        "ALTER PUBLICATION p SET (publish = 'insert')",
        "UPDATE t SET n = 5",
        "ALTER PUBLICATION p SET (publish = 'insert, update, delete, truncate')",
    )
    world.look(create=False)
    assert codes(world) == {"t": ["publication_changed"]}


def test_a_table_that_comes_into_a_published_schema(world: World) -> None:
    if world.number("SHOW server_version_num") < 150_000:
        pytest.skip("version 14 cannot publish a schema")
    world.sql("CREATE SCHEMA s")
    events = {"t": Event(["ALTER TABLE t SET SCHEMA s", "SET search_path = s"])}
    begin(world, events, "FOR TABLES IN SCHEMA s")
    world.look(create=False)
    assert codes(world) == {"t": ["left_publication"]}
