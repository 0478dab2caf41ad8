"""Transactions that are open while a publication changes, and while a look is taken."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import psycopg
import pytest

from servers import EmbeddedServer
from servers.receiving import until
from servers.world import World
from walrow.postgres import ddl_trigger

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

T = "CREATE TABLE t (id int PRIMARY KEY, v text)"
#: Leaves a page without a row: nothing proves that there has never been one.
USED = "INSERT INTO t VALUES (0, 'x'); DELETE FROM t"
ROOT = "CREATE TABLE root (id int PRIMARY KEY, v text) PARTITION BY RANGE (id)"
LEAF = "CREATE TABLE t PARTITION OF root FOR VALUES FROM (0) TO (10)"
TREE = f"{LEAF} PARTITION BY RANGE (id)"
OTHER = "CREATE TABLE o (id int)"
ROW = "INSERT INTO t VALUES (1, 'lost')"
ROW_2 = ROW.replace("'", "''")
LATER = "INSERT INTO t VALUES (2, 'later')"


class Case(NamedTuple):
    """What an open transaction and another session do before a look.

    Attributes:
        before: The statements before the slot, in a schema of its own.
        objects: The publication's objects then.
        first: The statements in the open transaction.
        then: The statements of the other session.
        later: The statements in the open transaction after them.
        end: How the transaction ends, after the look.
        table: The table that is published.
        is_marked: Whether it may lack a row.
        version: The first major version that has these statements.
    """

    before: list[str]
    objects: str
    first: list[str]
    then: list[str]
    later: tuple[str, ...] = ()
    end: str = "COMMIT"
    table: str = "t"
    is_marked: bool = True
    version: int = 14


ADD = ["ALTER PUBLICATION {p} ADD TABLE t"]
MORE = ["ALTER PUBLICATION {p} SET (publish = 'insert, update, delete, truncate')"]
VIA_ROOT = "WITH (publish_via_partition_root)"
CASES = {
    "added": Case([T, OTHER], "TABLE o", [ROW], ADD),
    "added again": Case(
        [T, OTHER], "TABLE o, t", [ROW], ["ALTER PUBLICATION {p} DROP TABLE t", *ADD]
    ),
    "used before": Case([T, USED, OTHER], "TABLE o", [ROW], ADD),
    "with a later row": Case([T, OTHER], "TABLE o", [ROW], ADD, (LATER,)),
    "deleted, too": Case([T, OTHER], "TABLE o", [ROW, "DELETE FROM t"], ADD),
    "undone": Case([T, OTHER], "TABLE o", [ROW], ADD, end="ROLLBACK"),
    "in a savepoint": Case(
        [T, OTHER], "TABLE o", ["SAVEPOINT s", ROW, "RELEASE s"], ADD
    ),
    "in a savepoint that is undone": Case(
        [T, OTHER],
        "TABLE o",
        ["SAVEPOINT s", ROW, "ROLLBACK TO s"],
        ADD,
        is_marked=False,
    ),
    "in a function": Case(
        [T, OTHER],
        "TABLE o",
        [f"DO $$ BEGIN {ROW}; EXCEPTION WHEN OTHERS THEN END $$"],
        ADD,
    ),
    "by MERGE": Case(
        [T, OTHER],
        "TABLE o",
        [
            "MERGE INTO t USING (VALUES (1)) n (id) ON false"
            " WHEN NOT MATCHED THEN INSERT VALUES (n.id, 'lost')"
        ],
        ADD,
        version=15,
    ),
    "by a trigger": Case(
        [
            *(T, OTHER),
            f"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {ROW_2}; RETURN NEW; END'",
            "CREATE TRIGGER f BEFORE INSERT ON o FOR EACH ROW EXECUTE FUNCTION f()",
        ],
        "TABLE o",
        ["INSERT INTO o VALUES (1)"],
        ADD,
    ),
    "prepared": Case(
        [T, OTHER],
        "TABLE o",
        [ROW, "PREPARE TRANSACTION '{p}'"],
        ADD,
        end="COMMIT PREPARED '{p}'",
    ),
    "set": Case([T, OTHER], "TABLE o", [ROW], ["ALTER PUBLICATION {p} SET TABLE o, t"]),
    "new publication": Case(
        [T, OTHER],
        "TABLE o",
        [ROW],
        ["DROP PUBLICATION {p}; CREATE PUBLICATION {p} FOR TABLE o, t"],
    ),
    "inserts": Case([T], "TABLE t WITH (publish = 'update')", [ROW], MORE),
    "inserts, and back": Case(
        [T],
        "TABLE t",
        [ROW],
        ["ALTER PUBLICATION {p} SET (publish = 'update')", *MORE],
        (LATER,),
    ),
    "schema": Case(
        [T, OTHER],
        "TABLE o",
        [ROW],
        ["ALTER PUBLICATION {p} ADD TABLES IN SCHEMA {p}"],
        version=15,
    ),
    "filter": Case(
        [T],
        "TABLE t WHERE (id > 5)",
        [ROW],
        ["ALTER PUBLICATION {p} SET TABLE t"],
        version=15,
    ),
    "columns": Case(
        [T],
        "TABLE t (id)",
        [ROW],
        ["ALTER PUBLICATION {p} SET TABLE t"],
        version=15,
    ),
    "root": Case(
        [ROOT, LEAF, OTHER],
        f"TABLE o {VIA_ROOT}",
        ["INSERT INTO root VALUES (1, 'lost')"],
        ["ALTER PUBLICATION {p} ADD TABLE root"],
        table="root",
    ),
    "leaf of a root": Case(
        [ROOT, LEAF, OTHER],
        "TABLE o",
        ["INSERT INTO root VALUES (1, 'lost')"],
        ["ALTER PUBLICATION {p} ADD TABLE root"],
    ),
    "sub-tree": Case(
        [
            *(ROOT, OTHER, TREE),
            "CREATE TABLE leaf PARTITION OF t FOR VALUES FROM (0) TO (5)",
        ],
        f"TABLE o {VIA_ROOT}",
        ["INSERT INTO leaf VALUES (1, 'lost')"],
        ["ALTER PUBLICATION {p} ADD TABLE t"],
    ),
    # The publication is older than these rows.
    "created in a schema": Case(
        [],
        "TABLES IN SCHEMA {p}",
        [],
        [T, USED],
        (ROW,),
        is_marked=False,
        version=15,
    ),
    "known": Case([T], "TABLE t", [ROW], [], (LATER,), is_marked=False),
    "never written": Case(
        [T, OTHER], "TABLE o", ["SELECT FROM t"], ADD, is_marked=False
    ),
    "rows are locked": Case(
        [T, USED, OTHER], "TABLE o", ["SELECT FROM t FOR UPDATE"], ADD, is_marked=False
    ),
    "another table is written": Case(
        [T, OTHER], "TABLE o", ["INSERT INTO o VALUES (1)"], ADD, is_marked=False
    ),
}


def test_rows_of_open_transactions(world: World, server: EmbeddedServer) -> None:
    cases = {
        f"p{number}": (name, case)
        for number, (name, case) in enumerate(CASES.items())
        if server.major >= case.version
    }
    given = {"publications": list(cases)}

    def run(session: psycopg.Connection[Any], p: str, *statements: str) -> None:
        for statement in statements:
            session.execute(statement.replace("{p}", p).encode())

    with contextlib.ExitStack() as stack:
        sessions = {}
        for p, (_, case) in cases.items():
            other = psycopg.connect(
                f"{world.dsn} options='-c search_path={p}'", autocommit=True
            )
            sessions[p] = stack.enter_context(other)
            run(other, p, "CREATE SCHEMA {p}", *case.before)
            run(other, p, f"CREATE PUBLICATION {{p}} FOR {case.objects}")
        world.look(**given)
        for p, (_, case) in cases.items():
            run(sessions[p], p, "BEGIN", *case.first)
        for p, (_, case) in cases.items():
            world.sql(f"SET search_path = {p}")
            world.sql(*(it.replace("{p}", p) for it in case.then))
        for p, (_, case) in cases.items():
            run(sessions[p], p, *case.later)
        world.look(**given)
        for p, (_, case) in cases.items():
            run(sessions[p], p, case.end)
        world.look(**given)
        logged = {it.name: it for it in world.log.tables()}
        for p, (name, case) in cases.items():
            query = f"TABLE {p}.{case.table} ORDER BY 1"
            rows = [
                {"id": it[0], "v": it[1]} for it in sessions[p].execute(query.encode())
            ]
            full = f"{p}.{case.table}"
            if full not in logged:
                assert (name, rows, case.is_marked) == (name, [], False)
                continue
            # The receiver has requested the loads, as it has seen no row.
            assert (name, world.state(full)) == (name, rows)
            assert (name, bool(logged[full].marks)) == (name, case.is_marked)


LESS = ["ALTER PUBLICATION p SET (publish = 'update, truncate')"]
#: What a transaction does that has truncated a table, while its inserts are not published.
EMPTIED = {
    "at once": ([], "COMMIT"),
    "after a savepoint": (["SAVEPOINT s"], "COMMIT"),
    "before it is prepared": ([], "COMMIT PREPARED 'x'"),
    "and is undone": ([], "ROLLBACK"),
}


@pytest.mark.parametrize("is_told", [False, True])
def test_a_truncate_from_before_a_look_ends_no_mark(
    world: World, server: EmbeddedServer, *, is_told: bool
) -> None:
    """From version 15 on, a look only ends meanwhile if a column list names what is read."""
    columns = " (id, v)" if server.major >= 15 else ""
    names = [f"t{number}" for number in range(len(EMPTIED))]
    world.sql(*(f"{T}; {ROW}".replace(" t ", f" {it} ") for it in names))
    world.sql(ddl_trigger() if is_told else "SELECT")
    tables = ", ".join(f"{it}{columns}" for it in names)
    world.sql(f"CREATE PUBLICATION p FOR TABLE {tables}")
    world.look(snapshot=True)
    with contextlib.ExitStack() as stack:
        sessions = {}
        for name, (first, _) in zip(names, EMPTIED.values(), strict=True):
            other = stack.enter_context(psycopg.connect(world.dsn, autocommit=True))
            for statement in ("BEGIN", *first, f"TRUNCATE {name}"):
                other.execute(statement.encode())
            sessions[name] = other
        world.sql(*LESS)
        for name, (_, end) in zip(names, EMPTIED.values(), strict=True):
            sessions[name].execute(ROW.replace(" t ", f" {name} ").encode())
            if "PREPARED" in end:
                sessions[name].execute(b"PREPARE TRANSACTION 'x'")
        world.sql(MORE[0].replace("{p}", "p"))
        world.look()
        # Another look, for another reason.
        world.sql("CREATE TABLE other (id int)")
        world.look()
        for name, (_, end) in zip(names, EMPTIED.values(), strict=True):
            sessions[name].execute(end.encode())
    world.look()
    found = {
        it.name.removeprefix("public."): it.needs_load for it in world.log.tables()
    }
    assert {name: bool(found[name]) for name in names} == dict.fromkeys(names, True)
    # One that begins later ends it.
    world.sql(*(f"TRUNCATE {name}" for name in names))
    world.look()
    assert not any(it.needs_load for it in world.log.tables())


WAITERS = """
SELECT count(*)
FROM pg_locks w
JOIN pg_locks h USING (transactionid)
WHERE NOT w.granted AND h.granted AND h.pid = %s
"""


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_table_that_is_published_while_the_slot_is_made(
    world: World, *, snapshot: bool
) -> None:
    """The server waits twice for transactions. Those that begin later are open at the snapshot."""
    world.sql(T, OTHER, "CREATE PUBLICATION p FOR TABLE o")
    with contextlib.ExitStack() as stack:
        first, second, third = (
            stack.enter_context(psycopg.connect(world.dsn, autocommit=True))
            for _ in range(3)
        )

        def waits_for(session: psycopg.Connection[Any]) -> bool:
            found = third.execute(WAITERS, [session.info.backend_pid]).fetchone()
            return found != (0,)

        def begin(session: psycopg.Connection[Any], statement: str) -> None:
            session.execute(b"BEGIN")
            session.execute(statement.encode())

        begin(first, "SELECT pg_current_xact_id()")
        receiver = stack.enter_context(ThreadPoolExecutor(1))
        received = receiver.submit(world.look, snapshot=snapshot)
        until(lambda: waits_for(first))
        begin(second, "SELECT pg_current_xact_id()")
        first.execute(b"COMMIT")
        until(lambda: waits_for(second))
        begin(third, ROW)
        world.sql("ALTER PUBLICATION p ADD TABLE t")
        second.execute(b"COMMIT")
        if not snapshot:
            received.result(60)
        else:
            # The load begins again, and waits for it.
            until(lambda: waits_for(third) or received.done())
        third.execute(b"COMMIT")
        received.result(60)
    world.look()
    assert world.log.tables() or snapshot
    lacking = {it.name for it in world.log.tables() if it.needs_load}
    if lacking:
        world.load(*lacking)
        world.look()
    assert world.state("t") == [{"id": 1, "v": "lost"}]
