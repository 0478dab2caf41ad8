"""Tables that leave, get other names, or have children: what a log says of them after a look."""

from __future__ import annotations

import contextlib
import threading
import time
from functools import partial
from typing import Any, NamedTuple

import psycopg
import pyarrow as pa
import pytest

import walrow
from servers.receiving import until
from servers.world import Rows, World
from walrow._log.status_record import Part, StatusFile
from walrow._receive.loading import TableLoad
from walrow._run.applier import Applier, Report
from walrow._run.reading import parse
from walrow._run.status import status_of
from walrow.log import Absence, Ruling, Why

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

T = "CREATE TABLE t (id int PRIMARY KEY, v text)"
OLD = "INSERT INTO t VALUES (1, 'old')"
NEW = "INSERT INTO t VALUES (7, 'new')"
SWAP = (
    "BEGIN; ALTER TABLE t RENAME TO x; ALTER TABLE n RENAME TO t;"
    " ALTER TABLE x RENAME TO n; COMMIT"
)


class Case(NamedTuple):
    """Statements before the log, and steps with a look after each.

    Attributes:
        publication: The publication's objects.
        before: The statements before the slot.
        steps: The steps.
        exact: The names whose rows at the end are known without a load.
    """

    publication: str
    before: list[str]
    steps: list[list[str]]
    exact: set[str]


N = ["CREATE TABLE n (id int PRIMARY KEY, v text)", "INSERT INTO n VALUES (2, 'n')"]
CASES = {
    "blue, green, and the old one dropped": Case(
        "ALL TABLES",
        [T, *N],
        [[OLD], [SWAP, "DROP TABLE n"]],
        {"t"},
    ),
    "two names swapped, at once after a change": Case(
        "ALL TABLES", [T, *N], [[OLD, SWAP]], {"t", "n"}
    ),
    "two names swapped, and changes after": Case(
        "ALL TABLES",
        [T, *N],
        [[OLD], [SWAP], [NEW, "UPDATE n SET v = 'x'"]],
        {"t", "n"},
    ),
    "swapped twice": Case("ALL TABLES", [T, *N], [[OLD], [SWAP], [SWAP]], {"t", "n"}),
    "dropped and created again": Case(
        "ALL TABLES", [T], [[OLD], ["DROP TABLE t", T, NEW]], {"t"}
    ),
    "in one transaction, after a change": Case(
        "ALL TABLES",
        [T],
        [[f"BEGIN; {OLD}; DROP TABLE t; {T}; {NEW}; COMMIT"]],
        {"t"},
    ),
    "with rows from before it was published": Case(
        "TABLE t",
        [T],
        [[OLD], ["DROP TABLE t", T, NEW, "ALTER PUBLICATION p ADD TABLE t"]],
        set(),
    ),
    "another published table gets the name of a dropped one": Case(
        "TABLE t, n",
        [T, *N],
        [[OLD], ["DROP TABLE t"], ["ALTER TABLE n RENAME TO t"]],
        {"t"},
    ),
    "an unpublished table gets the name": Case(
        "TABLE t",
        [T, *N],
        [[OLD], ["ALTER TABLE t RENAME TO o; ALTER TABLE n RENAME TO t"]],
        {"o"},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_name_means_the_table_that_has_it(world: World, case: Case) -> None:
    import walrow.delta

    world.sql(*case.before, f"CREATE PUBLICATION p FOR {case.publication}")
    world.take(snapshot=True)
    begin = world.log.end
    target = f"delta:{world.path.parent / 'lake'}"
    walrow.delta.apply_changes(world.log, table="public.t", target=target)
    for statements in case.steps:
        world.sql(*statements)
        world.take()
    read = {"state": world.state, "net": world.net}
    for how, rows_of in read.items():
        for name, rows in world.rows().items():
            errors = () if name in case.exact else (Exception,)
            with contextlib.suppress(*errors):
                assert rows_of(f"public.{name}") == rows, (how, name)
    # An older target is replaced, or refused.
    for _ in range(2):
        with contextlib.suppress(walrow.errors.Error):
            walrow.delta.apply_changes(world.log, table="public.t", target=target)
            found = lake(target)
            assert found == world.rows()["t"]
        world.load("public.t") if "t" in case.exact else None
    if "t" in case.exact:
        assert lake(target) == world.rows()["t"]
    assert world.state("public.t", as_of=begin) == world.points[0][1]["t"]
    # At each earlier position, the name has the rows from then, or is refused.
    for at, tables in world.points[:-1]:
        for name, rows in tables.items():
            with contextlib.suppress(walrow.errors.Error):
                assert world.state(f"public.{name}", as_of=at) == rows, (name, at)


def lake(target: str) -> Rows:
    import deltalake

    found = deltalake.DeltaTable(target.removeprefix("delta:")).to_pyarrow_table()
    rows = [
        {key: value for key, value in row.items() if not key.startswith("_")}
        for row in pa.table(found).to_pylist()
    ]
    return sorted(rows, key=lambda row: row["id"])


def test_names_with_dots_are_two_tables(world: World) -> None:
    world.sql(
        'CREATE SCHEMA "a.b"; CREATE SCHEMA a; CREATE PUBLICATION p FOR ALL TABLES',
        'CREATE TABLE "a.b".c (id int PRIMARY KEY); CREATE TABLE a."b.c" (id int PRIMARY KEY)',
    )
    world.take()
    world.sql('INSERT INTO "a.b".c VALUES (1); INSERT INTO a."b.c" VALUES (2)')
    world.take()
    for read in (world.state, world.net):
        assert read(("a.b", "c")) == [{"id": 1}]
        assert read(("a", "b.c")) == [{"id": 2}]
        assert read("b.c") == [{"id": 2}]
        with pytest.raises(walrow.errors.SchemaError, match="by its OID"):
            read("a.b.c")
        with pytest.raises(walrow.errors.SchemaError):
            read(("a.b", "b.c"))


LEAVE = {
    Absence.DROPPED: ["DROP TABLE t"],
    Absence.UNPUBLISHED: ["ALTER PUBLICATION p DROP TABLE t"],
    Absence.MOVED: ["ALTER PUBLICATION p DROP TABLE t", "ALTER TABLE t SET SCHEMA o"],
    Absence.UNLOGGED: ["ALTER TABLE t SET UNLOGGED"],
}
BACK = {
    Absence.UNPUBLISHED: ["ALTER PUBLICATION p ADD TABLE t"],
    Absence.MOVED: [
        "ALTER TABLE o.t SET SCHEMA public; ALTER PUBLICATION p ADD TABLE t"
    ],
    Absence.UNLOGGED: ["ALTER TABLE t SET LOGGED"],
}


@pytest.mark.parametrize("why", LEAVE, ids=str)
def test_a_table_that_left_is_named_with_its_reason(world: World, why: Absence) -> None:
    import walrow.delta

    world.sql(T, OLD, "CREATE SCHEMA o; CREATE TABLE u (id int PRIMARY KEY)")
    # A table that is in a publication cannot become unlogged.
    published = "ALL TABLES" if why is Absence.UNLOGGED else "TABLE t, u"
    world.sql(f"CREATE PUBLICATION p FOR {published}")
    world.take(snapshot=True)
    (_, tables), since, oid = world.points[0], world.log.end, world.oid("t")
    world.sql(*LEAVE[why])
    with contextlib.suppress(psycopg.Error):
        world.sql("UPDATE t SET v = 'lost'")
    world.sql("INSERT INTO u VALUES (1)")
    world.take()
    (left,) = [it.left for it in world.log.tables() if it.oid == oid]
    assert left is not None
    assert (left.why, left.ruling) == (why, Ruling.OPEN)
    # Other WAL may come after the end of the log.
    assert since <= left.since <= world.points[0][0]
    status = status_of(world.path, allow_stopped=True)
    assert status.left == (left,)
    assert (status.reasons == ()) == (why is Absence.DROPPED)
    target = f"delta:{world.path.parent / 'lake'}"

    def apply(table: Any) -> None:
        walrow.delta.apply_changes(world.log, table=table, target=target)

    for read in (world.state, world.net, apply):
        with pytest.raises(walrow.errors.Error, match="since"):
            read("public.t")
    assert world.state("public.t", as_of=since) == tables["t"]
    if why is Absence.DROPPED:
        # Its OID names its rows forever.
        assert world.state(oid) == [{"id": 1, "v": "old"}]
    else:
        with pytest.raises(walrow.errors.LogError) as caught:
            world.log.accept("t", reason="dropped")
        assert caught.value.code == "no_mark"
        assert world.log.accept("t", reason=why.value) == [left]
        assert world.state("public.t") == world.net(oid) == [{"id": 1, "v": "old"}]
        apply("public.t")
        # The next look keeps the decision. It is not there for another event.
        world.take()
        assert status_of(world.path, allow_stopped=True).reasons == ()
        world.sql(*BACK[why], "INSERT INTO t VALUES (2, 'back')")
        world.take()
        (back,) = [it for it in world.log.tables() if it.oid == oid]
        assert (back.left, {it.code for it in back.marks}) == (None, {Why.LEFT})
        with pytest.raises(walrow.errors.LogError, match="for a while"):
            world.state("public.t")
        world.load("public.t")
        assert world.state("public.t") == world.rows()["t"]
        world.sql("DROP TABLE t")
        world.take()
    world.log.forget("public.t")
    assert status_of(world.path, allow_stopped=True).left == ()
    world.take()
    assert {it.name for it in world.log.tables()} == {"public.u"}


@pytest.mark.parametrize("last", ["DROP TABLE c", "ALTER TABLE c NO INHERIT t"])
def test_a_last_child_that_goes_while_its_table_is_not_published(
    world: World, last: str
) -> None:
    world.sql(T, OLD, "CREATE TABLE c () INHERITS (t)")
    world.sql("CREATE PUBLICATION p FOR TABLE ONLY t")
    world.take(snapshot=True)
    with pytest.raises(walrow.errors.LogError, match="reason inherited"):
        world.state("t")
    world.sql("ALTER PUBLICATION p DROP TABLE ONLY t", last)
    world.take()
    world.sql(NEW, "ALTER PUBLICATION p ADD TABLE ONLY t")
    world.take()
    world.load("public.t")
    assert world.state("t") == world.rows()["t"]
    assert status_of(world.path, allow_stopped=True).reasons == ()


def test_a_last_child_that_goes_in_a_quiet_database(world: World) -> None:
    """The look that finds it is behind the log's end: no transaction comes after it."""
    world.sql(T, "CREATE PUBLICATION p FOR TABLE t")
    world.take()
    world.sql(OLD)
    world.take()
    for last in ("DROP TABLE c", "ALTER TABLE c NO INHERIT t"):
        world.sql("CREATE TABLE c () INHERITS (t)")
        world.take()
        with pytest.raises(walrow.errors.LogError, match="reason inherited"):
            world.state("t")
        world.sql(last)
        world.take()
        assert world.log.end < world.points[-1][0]
        assert world.state("t") == world.rows()["t"]
        assert status_of(world.path, allow_stopped=True).reasons == ()


RUN = """
[source]
slot = "s"
publications = ["p"]
[log]
path = "log"
[[target]]
tables = ["public.t"]
to = "delta:./lake"
every = 0.001
"""


@pytest.mark.parametrize("why", LEAVE, ids=str)
def test_a_target_gets_the_changes_from_before_its_table_left(
    world: World, why: Absence
) -> None:
    folder, said = world.path.parent, list[Report]()
    loaded = parse(RUN, folder / "shop.toml", is_private=True)
    status = StatusFile(loaded.log, Part.APPLY)
    applier = Applier(
        loaded,
        stop=threading.Event(),
        spark=pytest.fail,
        listener=said.append,
        status=status,
    )
    world.sql(T, OLD, "CREATE SCHEMA o; CREATE TABLE u (id int PRIMARY KEY)")
    published = "ALL TABLES" if why is Absence.UNLOGGED else "TABLE t, u"
    world.sql(f"CREATE PUBLICATION p FOR {published}")
    world.take(snapshot=True)
    applier.round()
    world.sql(NEW)
    rows = world.rows()["t"]
    world.sql(*LEAVE[why], "INSERT INTO u VALUES (1)")
    world.take()
    for _ in range(2):
        applier._released = float("-inf")
        time.sleep(0.002)
        (report,) = applier.round().reports
    assert lake("delta:" + str(folder / "lake")) == rows
    assert (report.left is not None, report.problem is None) == (
        True,
        why is Absence.DROPPED,
    )
    assert [it.left is None for it in said] == [True, True, False]
    (target,) = status_of(world.path, allow_stopped=True).targets
    assert (target.has_left, target.is_current) == (True, False)
    (reader,) = world.log.readers()
    assert reader.position == world.log.end
    status.close()


def test_a_table_that_becomes_a_partition_asks_for_nothing(world: World) -> None:
    world.sql(
        T.replace("TABLE t", "TABLE r") + " PARTITION BY RANGE (id)",
        "CREATE PUBLICATION p FOR ALL TABLES WITH (publish_via_partition_root)",
    )
    world.take()
    world.sql(T, OLD)
    world.take()
    world.sql("ALTER TABLE r ATTACH PARTITION t FOR VALUES FROM (0) TO (9)")
    world.take()
    (left,) = status_of(world.path, allow_stopped=True).left
    assert left.why is Absence.ATTACHED
    with pytest.raises(walrow.errors.SchemaError, match="a partition of"):
        world.state("public.t")
    world.load("public.r")
    assert world.state("public.r") == world.rows()["t"]
    assert status_of(world.path, allow_stopped=True).reasons == ()


def test_the_load_of_a_dropped_table_holds_no_segment(world: World) -> None:
    world.sql(T, OLD, "CREATE PUBLICATION p FOR ALL TABLES")
    world.take(snapshot=True)
    world.sql(NEW)
    world.take()
    with pytest.raises(walrow.errors.LogError, match="needs"):
        world.log.prune(world.log.end)
    world.sql("DROP TABLE t")
    world.take()
    assert world.log.prune(world.log.end) == 1


@pytest.mark.parametrize("change", ["TRUNCATE c", "INSERT INTO c VALUES (1)"])
def test_a_table_that_was_published_between_two_looks(
    world: World, change: str
) -> None:
    world.sql(T, "CREATE PUBLICATION p FOR TABLE t")
    world.take()
    world.sql("CREATE TABLE c (id int)", "ALTER PUBLICATION p ADD TABLE c", change)
    world.sql("ALTER PUBLICATION p DROP TABLE c", "INSERT INTO c VALUES (2)")
    world.take()
    (table,) = world.log.tables()
    assert table.left is not None
    assert table.left.why is Absence.UNPUBLISHED
    with pytest.raises(walrow.errors.LogError, match="left the publication"):
        world.state("c")


def test_a_partition_that_was_detached_between_two_looks(world: World) -> None:
    scope = "ALL TABLES WITH (publish_via_partition_root)"
    leaf, bounds = "PARTITION c", "FOR VALUES FROM (0) TO (9)"
    world.sql("CREATE TABLE r (id int PRIMARY KEY) PARTITION BY RANGE (id)")
    world.sql(f"CREATE TABLE c PARTITION OF r {bounds}")
    world.sql(f"CREATE PUBLICATION p FOR {scope}")
    world.take()
    world.sql(f"ALTER TABLE r DETACH {leaf}", "INSERT INTO c VALUES (1)")
    world.sql(f"ALTER TABLE r ATTACH {leaf} {bounds}", "INSERT INTO c VALUES (2)")
    world.take()
    with pytest.raises(walrow.errors.SchemaError, match="a partition of"):
        world.state("c")
    with pytest.raises(walrow.errors.LogError, match="partitions were attached"):
        world.state("r")


def test_a_table_that_came_and_went_between_two_looks(world: World) -> None:
    world.sql("CREATE PUBLICATION p FOR ALL TABLES")
    world.take()
    # A receiver that looks at nothing, as it takes only earlier commits.
    world.sql("CREATE TABLE t (id int)", OLD.replace(", 'old'", ""), "DROP TABLE t")
    world.take()
    (table,) = world.log.tables()
    assert table.left is not None
    assert (table.left.why, table.left.since) == (Absence.DROPPED, table.last)
    assert status_of(world.path, allow_stopped=True).reasons == ()


CHILD = "CREATE TABLE c (CHECK (id > 0)) INHERITS (t)"
CHILDREN: dict[str, tuple[str, list[str], list[str]]] = {
    "a child from before": ("TABLE t", [CHILD], []),
    "a later child": ("ALL TABLES", [], [CHILD]),
    "INHERIT": ("TABLE t", ["CREATE TABLE c (LIKE t)"], ["ALTER TABLE c INHERIT t"]),
    "a child of a child": (
        "ALL TABLES",
        [CHILD],
        ["CREATE TABLE d () INHERITS (c)", "INSERT INTO d VALUES (5, 'd')"],
    ),
}


@pytest.mark.parametrize("case", CHILDREN.values(), ids=CHILDREN.keys())
def test_a_table_with_children_is_accepted_or_refused(
    world: World, case: tuple[str, list[str], list[str]]
) -> None:
    import walrow.delta

    publication, before, after = case
    world.sql(T, OLD, *before, f"CREATE PUBLICATION p FOR {publication}")
    world.take(snapshot=True)
    if before and not after:
        world.sql("INSERT INTO c VALUES (3, 'child')")
    world.sql(*after)
    world.take()
    target = f"delta:{world.path.parent / 'lake'}"

    def apply(table: str) -> None:
        walrow.delta.apply_changes(world.log, table=table, target=target)

    def refused() -> None:
        for read in (world.state, apply):
            with pytest.raises(walrow.errors.Error, match="reason inherited"):
                read("t")
        assert (
            "children by inheritance"
            in status_of(world.path, allow_stopped=True).reasons[0]
        )

    refused()
    # It has its own rows only.
    world.load("public.t")
    refused()
    (mark,) = world.log.accept("t", reason="inherited")
    assert isinstance(mark, walrow.log.Mark)
    assert mark.code is Why.INHERITED
    assert world.state("t") == [{"id": 1, "v": "old"}]
    world.take()
    assert not any(
        "public.t" in it for it in status_of(world.path, allow_stopped=True).reasons
    )
    # Later children need another decision.
    world.sql("CREATE TABLE e () INHERITS (t)")
    world.take()
    refused()
    world.sql("ALTER TABLE e NO INHERIT t")
    world.take()
    refused()
    # Without children, it has all rows.
    world.sql("DROP TABLE IF EXISTS d", "ALTER TABLE c NO INHERIT t", NEW)
    world.take()
    assert world.state("t") == world.rows()["t"]
    assert status_of(world.path, allow_stopped=True).reasons == ()


GREEN = "BEGIN; ALTER TABLE t RENAME TO o; ALTER TABLE n RENAME TO t; COMMIT"
BOTH = "INSERT INTO n VALUES (1, 'green')"


def rows_in(log: walrow.Log, oid: int) -> list[tuple[Any, ...]]:
    found = walrow.read(log, table=oid, missing_table="ignore").to_pyarrow()
    return [(it["id"], it["v"]) for it in found.to_pylist()]


@pytest.mark.parametrize(
    "later", [[], ["UPDATE t SET v = 'x'", "INSERT INTO t VALUES (3, 'old')"]]
)
def test_erasing_a_name_leaves_the_table_that_had_it(
    world: World, later: list[str]
) -> None:
    world.sql(T, N[0], "CREATE PUBLICATION p FOR ALL TABLES")
    world.take()
    world.sql(OLD, BOTH)
    world.take()
    blue, green = world.oid("t"), world.oid("n")
    world.sql(GREEN, *later)
    world.take()
    done = world.log.erase("public.t", keys=[{"id": 1}])
    # Its rows under the former name go, too.
    assert (done.changes, done.others) == (2 if later else 1, (blue,))
    assert 1 not in [row[0] for row in rows_in(world.log, green)]
    assert rows_in(world.log, blue) == [(1, "old")]
    with pytest.raises(walrow.errors.SchemaError, match=r"public\.t$"):
        world.log.erase("public.n", keys=[{"id": 1}])
    # And by its own name, the other one.
    assert world.log.erase("public.o", keys=[{"id": 1}]).others == ()
    assert rows_in(world.log, blue) == []


@pytest.mark.parametrize("forgotten", [[], ["public.t"]])
def test_a_dropped_table_is_erased_by_its_name_or_its_oid(
    world: World, forgotten: list[str]
) -> None:
    world.sql("CREATE PUBLICATION p FOR ALL TABLES")
    world.take()
    world.sql(T, OLD)
    world.take()
    first = world.oid("t")
    again = [f"BEGIN; DROP TABLE t; {T}; {OLD}; {NEW}; COMMIT"]
    world.sql(*again)
    world.take()
    second = world.oid("t")
    for name in forgotten:
        world.log.forget(name)
    done = world.log.erase("public.t", keys=[{"id": 1}])
    assert (done.changes, done.others) == (1, (first,))
    assert [rows_in(world.log, it) for it in (first, second)] == [
        [(1, "old")],
        [(7, "new")],
    ]
    world.sql("DROP TABLE t")
    world.take()
    reads = () if forgotten else (world.state, world.net)
    for read in (*reads, partial(world.log.erase, columns=["v"])):
        with pytest.raises(walrow.errors.SchemaError, match=f"OID: {first}, {second}"):
            read("public.t")
    assert world.log.erase(first, keys=[{"id": 1}]).changes == 1
    assert rows_in(world.log, first) == []


def test_a_dropped_table_is_erased_by_its_last_name(world: World) -> None:
    world.sql("CREATE PUBLICATION p FOR ALL TABLES")
    world.take()
    world.sql(T, OLD)
    world.take()
    oid = world.oid("t")
    world.sql("DROP TABLE t")
    world.take()
    with pytest.raises(walrow.errors.SchemaError, match="its OID"):
        world.state("public.t")
    done = world.log.erase("public.t", keys=[{"id": 1}])
    assert (done.changes, done.others) == (1, ())
    assert rows_in(world.log, oid) == []


def test_the_load_of_a_renamed_table_stays(world: World) -> None:
    world.sql(T, OLD, *N, "CREATE PUBLICATION p FOR ALL TABLES")
    world.take(snapshot=True)
    begin = world.rows()["t"]
    world.sql(GREEN, NEW)
    world.take()
    held = world.log.retain(bytes=1).held
    assert {it.name for it in held} == {"public.o", "public.t"}
    with pytest.raises(walrow.errors.LogError, match=r"load of public\.[ot] "):
        world.log.prune(world.log.end)
    assert world.state("public.o") == begin
    assert world.state("public.t") == world.rows()["t"]
    world.sql("DROP TABLE t")
    world.take()
    (held_now,) = world.log.retain(bytes=1).held
    assert held_now.name == "public.o"


def test_a_rename_while_a_load_copies_stays_marked(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.sql(
        "CREATE TABLE t (id int PRIMARY KEY, v regclass)", "CREATE TABLE o (id int)"
    )
    world.sql("INSERT INTO t VALUES (1, 'o')", "CREATE PUBLICATION p FOR TABLE t")
    world.take()
    share, names = TableLoad._share, iter(["z", ""])

    def renames(load: TableLoad, snapshot: str) -> Any:
        shared = share(load, snapshot)
        if name := next(names):
            world.sql(f"ALTER TABLE o RENAME TO {name}")
            until(lambda: codes_of(world) == [Why.HAD_ROWS, Why.NAMES])
        return shared

    monkeypatch.setattr(TableLoad, "_share", renames)
    monkeypatch.setattr("walrow._receive.completeness._LOOK_SECONDS", 0.1)
    world.load("public.t")
    # The load may have printed the earlier name.
    assert codes_of(world) == [Why.NAMES]
    with pytest.raises(walrow.errors.LogError, match="an object was renamed"):
        world.state("t")
    world.load("public.t")
    assert codes_of(world) == []
    assert world.state("t") == world.net("t") == [{"id": 1, "v": "public.z"}]


def codes_of(world: World) -> list[Why]:
    """The codes of the open marks of the only table."""
    with contextlib.suppress(walrow.errors.LogError):
        (table,) = world.log.tables()
        return [it.code for it in table.marks if it.is_open]
    return []
