"""`walrow run` on a live server: processes that are killed, tables that join, and `--once`."""

# ruff: noqa: S608  (the tests make their own statements)

from __future__ import annotations

import json
import os
import random
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers import EmbeddedServer

pytest.importorskip("deltalake", reason="needs deltalake: pip install deltalake")

import psycopg

from servers.receiving import drop_if_there, until
from servers.shop import Running, Shop, opened_shop, processes
from walrow._log.requests import pending
from walrow._log.status_record import Life
from walrow._run.server import server_of
from walrow._run.status import status_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


@pytest.fixture
def shop(server: EmbeddedServer, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(
        server,
        tmp_path,
        "CREATE TABLE sales.items (id int PRIMARY KEY, n int)",
        "CREATE PUBLICATION shop FOR TABLE sales.orders, sales.items",
    ) as made:
        yield made


def test_once(shop: Shop) -> None:
    shop.sql("INSERT INTO sales.items VALUES (1, 1)")
    code, said = shop.call("run", str(shop.file), "--once")
    # Tables with earlier rows are loaded within the same call.
    assert code == 0, said
    # Two receivers, and each warning about the server once.
    assert said.count("max_slot_wal_keep_size is -1") == 1
    assert "loaded 2 tables with 51 rows" in said
    assert (
        "2 tables need a load, each because it had rows before the slot was created: "
        f"sales.items, sales.orders. walrow status {shop.log} has the command for each"
    ) in said
    assert "tables that are current: 2 of 2" in said
    assert shop.is_current("orders", "items")
    assert shop.call("status", "--allow-stopped", str(shop.log))[0] == 0
    # Quiet, it says nothing if all is well.
    shop.sql("UPDATE sales.items SET n = 2")
    assert shop.call("run", str(shop.file), "--once", "--quiet") == (0, "")
    # A table joins, and matches.
    shop.sql(
        "CREATE TABLE sales.late (id int PRIMARY KEY, n int)",
        "INSERT INTO sales.late VALUES (1, 1), (2, 2)",
        "ALTER PUBLICATION shop ADD TABLE sales.late",
        "UPDATE sales.orders SET n = 0 WHERE id = 1",
    )
    code, said = shop.call("run", str(shop.file), "--once", "--json")
    assert code == 0, said
    found = json.loads(said.splitlines()[-1])
    assert (found["part"], found["is_current"], len(found["tables"])) == (
        "run",
        True,
        3,
    )
    assert shop.is_current("orders", "items", "late")


@pytest.mark.slow
def test_tables_that_are_created_again_are_loaded(shop: Shop) -> None:
    shop.sql("INSERT INTO sales.items VALUES (1, 1)")
    assert shop.call("run", str(shop.file), "--once")[0] == 0
    shop.sql(
        "DROP TABLE sales.orders, sales.items",
        "CREATE TABLE sales.orders (id int PRIMARY KEY, n int)",
        "CREATE TABLE sales.items (id int PRIMARY KEY, n int)",
        "ALTER PUBLICATION shop ADD TABLE sales.orders, sales.items",
        "INSERT INTO sales.orders VALUES (1, 2)",
    )
    code, said = shop.call("run", str(shop.file), "--once")
    assert code == 0, said
    assert "loaded 2 tables with 1 row" in said
    # An empty one, too.
    assert shop.rows("items") == []
    assert shop.rows("orders") == [(1, 2)]
    code, said = shop.call("run", str(shop.file), "--once")
    assert (code, "loaded" in said) == (0, False)


@pytest.mark.slow
def test_once_with_a_load_that_must_be_asked_for(shop: Shop) -> None:
    assert shop.call("run", str(shop.file), "--once")[0] == 0
    shop.write(target='load = "ask"')
    shop.sql(
        "CREATE TABLE sales.asked (id int PRIMARY KEY, n int)",
        "INSERT INTO sales.asked VALUES (1, 1)",
        "ALTER PUBLICATION shop ADD TABLE sales.asked",
    )
    code, said = shop.call("run", str(shop.file), "--once")
    assert code == 1, said
    assert "walrow: sales.asked is not current: it needs a load, because" in said
    code, said = shop.call("status", str(shop.log))
    assert code == 1
    assert f"walrow load {shop.log} sales.asked" in said


@pytest.mark.slow
def test_once_with_a_server_that_refuses(shop: Shop) -> None:
    assert shop.call("run", str(shop.file), "--once")[0] == 0
    shop.sql("DROP PUBLICATION shop")
    code, said = shop.call("run", str(shop.file), "--once")
    assert code == 2
    assert "the publication shop does not exist: CREATE PUBLICATION shop" in said
    shop.write(source="start_within = 0.1")
    nowhere = shop.file.read_text().replace(shop.dsn, "host=/nowhere")
    shop.file.write_text(nowhere)
    code, said = shop.call("run", str(shop.file), "--check")
    assert code == 1
    assert "the server was not asked for its tables" in said
    # The log is applied, and is not all.
    code, said = shop.call("run", str(shop.file), "--once")
    assert code == 1
    assert "tables that have all of the log: 1 of 1" in said
    assert "no table is known to be current: receive has ended: " in said
    code, said = shop.call("status", str(shop.log), "--allow-stopped", "--json")
    assert code == 1
    (reason,) = json.loads(said)["reasons"]
    assert reason.startswith("receive has ended: ")


def test_what_the_check_says(shop: Shop) -> None:
    code, said = shop.call("run", str(shop.file), "--check")
    assert code == 0, said
    assert [line.split()[:3] for line in said.splitlines()[1:3]] == [
        ["sales.items", f"delta:{shop.folder}/lake/items", "delta"],
        ["sales.orders", f"delta:{shop.folder}/lake/orders", "delta"],
    ]
    assert not shop.log.exists()
    shop.write(target='exclude = ["sales.none"]')
    code, said = shop.call("run", str(shop.file), "--check")
    assert code == 2
    assert '"sales.none" matches no published table' in said
    # Nothing starts.
    assert shop.call("run", str(shop.file))[0] == 2
    assert not shop.log.exists()
    shop.write(target='[[target]]\ntables = ["*.items"]\nto = "delta:lake/{table}"')
    code, said = shop.call("run", str(shop.file), "--check")
    assert code == 2
    assert (
        "sales.items: target 1 (line 10) and target 2 (line 14) both claim it" in said
    )
    # Without the slot, and without leave to create it.
    shop.write()
    whole = shop.file.read_text()
    shop.file.write_text(whole.replace("create = true\n", ""))
    code, said = shop.call("run", str(shop.file), "--check")
    assert code == 2
    assert "does not exist: set create = true in [source]" in said
    # A publication without a table, as a start refuses it, too.
    shop.write()
    shop.sql("DROP PUBLICATION shop", "CREATE PUBLICATION shop")
    for words in (["--check"], ["--once"]):
        code, said = shop.call("run", str(shop.file), *words)
        assert code == 2
        assert "no table is published by shop: ALTER PUBLICATION" in said
    assert not shop.log.exists()


def test_the_check_looks_at_the_slot_of_a_log(shop: Shop) -> None:
    code, said = shop.call("run", str(shop.file), "--once")
    assert code == 0, said
    assert shop.call("run", str(shop.file), "--check")[0] == 0
    shop.sql(f"SELECT pg_drop_replication_slot('{shop.slot}')")
    code, said = shop.call("run", str(shop.file), "--check")
    assert code == 2
    assert f"the slot {shop.slot} does not exist, and what was committed since" in said
    shop.sql(f"SELECT pg_create_physical_replication_slot('{shop.slot}')")
    code, said = shop.call("run", str(shop.file), "--check")
    assert code == 2
    assert f"slot {shop.slot} is physical" in said


def test_an_empty_database_gets_its_first_table(shop: Shop) -> None:
    shop.sql(
        "DROP SCHEMA sales CASCADE",
        "DROP PUBLICATION shop",
        "CREATE PUBLICATION shop FOR ALL TABLES",
    )
    assert shop.call("run", str(shop.file), "--check")[0] == 0
    code, said = shop.call("run", str(shop.file), "--once")
    assert code == 0, said
    assert "tables that are current: 0 of 0" in said
    with Running(shop):
        # The publication has another table, which the file does not mean.
        shop.sql("CREATE TABLE other (id int PRIMARY KEY)", "CREATE SCHEMA sales")
        assert shop.call("run", str(shop.file), "--check")[0] == 0
        shop.sql(
            "CREATE TABLE sales.orders (id int PRIMARY KEY, n int)",
            "INSERT INTO sales.orders VALUES (1, 1)",
        )
        until(lambda: shop.is_current("orders"))


@pytest.mark.slow
def test_a_changed_file_is_refused_until_the_target_is_new(shop: Shop) -> None:
    assert shop.call("run", str(shop.file), "--once")[0] == 0
    text = shop.file.read_text()
    assert shop.call("run", str(shop.file), "--check")[0] == 0
    shop.file.write_text(text + 'keys = ["n"]\n')
    code, said = shop.call("run", str(shop.file), "--check")
    assert code == 2
    assert "the key of sales.orders was (id) so far, not (n)" in said
    shop.file.write_text(text + 'mode = "history"\n')
    code, said = shop.call("run", str(shop.file), "--check")
    assert code == 2
    assert 'mode was "current" so far for sales.orders' in said
    # A place that is new may have another mode.
    shop.file.write_text(text.replace("lake/", "versions/") + 'mode = "history"\n')
    assert shop.call("run", str(shop.file), "--check")[0] == 0
    (shop.folder / "other").mkdir()
    os.rename(shop.folder / "lake" / "orders", shop.folder / "other" / "orders")  # noqa: PTH104
    shop.file.write_text(text.replace("lake/", "other/"))
    code, said = shop.call("run", str(shop.file), "--check")
    assert code == 2
    assert f"the target of sales.orders was delta:{shop.folder}/lake/orders so far" in (
        said
    )
    # After `forget`, the record in the target itself counts.
    place = f"delta:{shop.folder}/lake/orders"
    assert shop.call("log", "forget", str(shop.log), place)[0] == 0
    assert shop.call("run", str(shop.file), "--once")[0] == 0


def test_a_deferrable_key_is_no_key_for_a_first_file(shop: Shop) -> None:
    shop.sql(
        "CREATE TABLE sales.later (n int PRIMARY KEY DEFERRABLE)",
        "CREATE TABLE sales.full (n int PRIMARY KEY DEFERRABLE)",
        "ALTER TABLE sales.full REPLICA IDENTITY FULL",
        "CREATE TABLE sales.child () INHERITS (sales.full)",
    )
    with psycopg.connect(shop.dsn) as conn:
        found = server_of(conn)
    assert [it.name for it in found.tables if it.oid in found.without_key] == [
        "sales.child",
        "sales.later",
    ]
    assert [it.name for it in found.tables if it.oid in found.parents] == ["sales.full"]


@pytest.mark.slow
def test_init_writes_a_file_that_runs(shop: Shop) -> None:
    shop.sql("CREATE TABLE sales.keyless (n int)")
    shop.sql("CREATE TABLE sales.whole (n int)")
    shop.sql(
        "ALTER TABLE sales.whole REPLICA IDENTITY FULL",
        "ALTER PUBLICATION shop ADD TABLE sales.whole",
    )
    shop.sql("INSERT INTO sales.whole VALUES (1)")
    shop.file.unlink()
    code, said = shop.call("init", "--dsn", shop.dsn, "-o", str(shop.file))
    assert code == 0, said
    code, said = shop.call("run", str(shop.file), "--check")
    assert code == 0, said
    text = shop.file.read_text()
    slot = next(it for it in text.splitlines() if it.startswith("slot"))
    shop.file.write_text(text.replace(slot, f'slot = "{shop.slot}"'))
    code, said = shop.call("run", str(shop.file), "--once")
    assert code == 0, said
    assert (shop.folder / "lake" / "sales" / "orders").is_dir()
    code, said = shop.call("init", "--dsn", shop.dsn, "-o", str(shop.file))
    assert code == 1
    assert f"{shop.file} exists: give another name, or remove it" in said
    code, said = shop.call("init", "--schema")
    assert json.loads(said)["required"] == ["source", "log", "target"]


@pytest.mark.slow
def test_it_follows_and_stops_in_order(shop: Shop) -> None:
    with Running(shop) as running:
        until(lambda: shop.is_current("orders"), 60)
        shop.sql("INSERT INTO sales.items VALUES (1, 1)", "DELETE FROM sales.orders")
        until(lambda: shop.is_current("orders", "items"), 60)
        # A second process and an applier alone are refused at once.
        file = str(shop.file)
        first = f"(process {running.process.pid} on {socket.gethostname()})"
        for words in (
            ["run", file],
            ["run", file, "--once"],
            ["apply", "--config", file],
        ):
            code, said = shop.call(*words)
            assert code == 1
            assert f"{first} keeps the targets of {shop.log} current: stop it" in said
        found = status_of(shop.log)
        assert (found.receiver.life, found.applier.life) == (Life.ALIVE, Life.ALIVE)
        # Both are processes of their own, in groups of their own.
        pids = processes(shop)
        assert pids.keys() == {"receive", "apply"}
        groups = {os.getpgid(it) for it in pids.values()}
        assert groups == set(pids.values())
        assert running.stop(signal.SIGINT) < 10
        assert not processes(shop)
    found = status_of(shop.log)
    assert (found.receiver.life, found.applier.life) == (Life.ENDED, Life.ENDED)
    assert shop.reasons() == ()
    with Running(shop) as running:
        until(lambda: processes(shop).keys() == {"receive", "apply"})
        assert running.stop() < 10


def test_one_that_dies_is_started_again_and_stops_no_other(shop: Shop) -> None:
    with Running(shop, "--json") as running:
        until(lambda: shop.is_current("orders"), 60)
        first = processes(shop)
        os.kill(first["apply"], signal.SIGKILL)
        shop.sql("INSERT INTO sales.items VALUES (1, 1)")
        until(lambda: shop.is_current("items"), 60)
        second = processes(shop)
        assert second["receive"] == first["receive"]
        assert second["apply"] != first["apply"]
        ended = [json.loads(it) for it in running.said.splitlines() if '"ended"' in it]
        assert ended == [
            {"part": "run", "ended": "apply", "code": -9, "times": 1, "pause": 1.0}
        ]
        os.kill(second["receive"], signal.SIGKILL)
        shop.sql("INSERT INTO sales.items VALUES (2, 2)")
        until(lambda: shop.is_current("items"), 60)
        assert processes(shop)["apply"] == second["apply"]
        until(lambda: status_of(shop.log).reasons == ())
        running.stop()


@pytest.mark.slow
def test_without_the_parent_its_processes_end(shop: Shop) -> None:
    with Running(shop) as running:
        until(lambda: shop.is_current("orders"), 60)
        running.process.kill()
        running.process.wait()
        before = processes(shop)
        # At once: they end, and the next ones meet no lock and no slot of theirs.
        with Running(shop) as again:
            until(lambda: not set(before.values()) & set(processes(shop).values()), 2)
            shop.sql("INSERT INTO sales.items VALUES (1, 1)")
            until(lambda: shop.is_current("items"), 60)
            assert "has ended" not in again.said
            again.stop()


@pytest.mark.slow
def test_a_table_that_joins_while_it_runs(shop: Shop) -> None:
    # The receiver looks for new tables when it starts, and each half minute.
    with Running(shop) as running:
        until(lambda: shop.is_current("orders"), 60)
        shop.sql(
            "CREATE TABLE sales.late (id int PRIMARY KEY, n int)",
            "INSERT INTO sales.late VALUES (1, 1)",
            "ALTER PUBLICATION shop ADD TABLE sales.late",
        )
        os.kill(processes(shop)["receive"], signal.SIGKILL)
        until(lambda: shop.is_current("late"), 90)
        shop.sql("INSERT INTO sales.late VALUES (2, 2)")
        until(lambda: shop.is_current("late"), 60)
        running.stop()


@pytest.mark.slow
def test_a_table_that_joins_and_waits_until_its_load_is_asked_for(shop: Shop) -> None:
    shop.write(target='load = "ask"')
    with Running(shop) as running:
        # The first one has rows, too.
        until(shop.reasons, 60)
        (advice,) = shop.reasons()
        assert advice.startswith("sales.orders needs a load, because it had rows")
        command = advice.rpartition(": walrow ")[2].split()
        assert command == ["load", str(shop.log), "sales.orders"]
        assert shop.call(*command)[0] == 0
        until(lambda: shop.is_current("orders"), 60)
        until(lambda: shop.reasons() == ())
        shop.sql(
            "CREATE TABLE sales.late (id int PRIMARY KEY, n int)",
            "INSERT INTO sales.late VALUES (1, 1)",
            "ALTER PUBLICATION shop ADD TABLE sales.late",
            "INSERT INTO sales.late VALUES (2, 2)",
        )
        # The receiver looks each half minute.
        until(shop.reasons, 60)
        code, said = shop.call("status", str(shop.log))
        assert code == 1
        assert said.splitlines()[-1].startswith(
            "to do: sales.late needs a load, because "
        )
        assert said.splitlines()[-1].endswith(f": walrow load {shop.log} sales.late")
        # Other tables go on, and no load is requested meanwhile.
        shop.sql("INSERT INTO sales.items VALUES (1, 1)", "DELETE FROM sales.orders")
        until(lambda: shop.is_current("orders", "items"), 60)
        assert pending(shop.log) == []
        assert not shop.is_current("late")
        assert shop.call("load", str(shop.log), "sales.late")[0] == 0
        until(lambda: shop.is_current("late"), 60)
        until(lambda: shop.reasons() == ())
        running.stop()


@pytest.mark.slow
def test_a_table_that_cannot_be_loaded_stops_no_other(shop: Shop) -> None:
    role = f"reader_{time.monotonic_ns()}"
    shop.sql(
        "INSERT INTO sales.items VALUES (1, 1)",
        f"CREATE ROLE {role} LOGIN REPLICATION",
        f"GRANT USAGE ON SCHEMA sales TO {role}",
        f"GRANT SELECT ON sales.orders TO {role}",
    )
    shop.file.write_text(shop.file.read_text().replace("user=postgres", f"user={role}"))
    try:
        # The load of both is given up, then each is loaded alone.
        code, said = shop.call("run", str(shop.file), "--once")
        assert code == 1, said
        assert "sales.items is not current: it needs a load" in said
        assert shop.is_current("orders")
        code, said = shop.call("status", str(shop.log), "--allow-stopped")
        assert code == 1
        (line,) = (it for it in said.splitlines() if it.startswith("to do: "))
        assert "permission denied for table items; the role needs SELECT" in line
        assert line.endswith(f"Then: walrow load {shop.log} sales.items")
        shop.sql(f"GRANT SELECT ON sales.items TO {role}")
        code, said = shop.call("run", str(shop.file), "--once")
        assert code == 0, said
        assert shop.is_current("orders", "items")
        assert shop.reasons() == ()
    finally:
        drop_if_there(shop.dsn, shop.slot)
        shop.sql(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


@pytest.mark.slow
def test_the_parts_alone(shop: Shop) -> None:
    config = ["--config", str(shop.file)]
    code, said = shop.call("receive", *config, "--until", "now")
    assert code == 0, said
    code, said = shop.call("apply", *config, "--once")
    # It asks for the load, and says what waits for it.
    assert code == 1
    assert "sales.orders is not current: it needs a load" in said
    assert shop.call("receive", *config, "--until", "now", "--json")[0] == 0
    code, said = shop.call("apply", *config, "--once", "--json")
    assert code == 0, said
    assert shop.is_current("orders")


@pytest.mark.slow
def test_a_password_of_the_environment(shop: Shop) -> None:
    shop.write()
    text = shop.file.read_text().replace(shop.dsn, "")
    shop.file.write_text(text)
    given = psycopg.conninfo.conninfo_to_dict(shop.dsn)
    env = {
        "PGHOST": str(given["host"]),
        "PGUSER": str(given["user"]),
        "PGDATABASE": str(given["dbname"]),
    }
    code, said = shop.call("run", str(shop.file), "--once", env=env)
    assert code == 0, said


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_killed_at_random_nothing_is_lost_or_twice(shop: Shop, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    running = Running(shop)
    try:
        number = 0
        for _ in range(25):
            for _ in range(chance.randint(1, 20)):
                number += 1
                shop.sql(
                    f"INSERT INTO sales.items VALUES ({number}, {number})",
                    f"UPDATE sales.orders SET n = n + 1 WHERE id = {number % 50 + 1}",
                )
            time.sleep(chance.uniform(0, 1.5))
            victims = {**processes(shop), "run": running.process.pid}
            name = chance.choice(sorted(victims))
            os.kill(victims[name], signal.SIGKILL)
            if name == "run":
                running.process.wait()
                running = Running(shop)
        until(lambda: shop.is_current("orders", "items"), 120)
        running.stop()
    finally:
        running.process.kill()
        running.process.wait()
    for table in ("orders", "items"):
        shop.check_commits(table)
