"""The retention of a log: a load is removed once all targets have its rows."""

# ruff: noqa: S608  (the tests make their own statements)

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import walrow
import walrow.delta
from servers import EmbeddedServer

pytest.importorskip("deltalake", reason="needs deltalake: pip install deltalake")

from servers.live_log import history
from servers.shop import Shop, opened_shop
from servers.world import World
from walrow._run.status import status_of
from walrow.errors import ApplyError, LogError
from walrow.typing import Mode

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]


@pytest.fixture
def shop(server: EmbeddedServer, tmp_path: Path) -> Iterator[Shop]:
    with opened_shop(
        server,
        tmp_path,
        "CREATE TABLE sales.countries (id int PRIMARY KEY, n text)",
        "INSERT INTO sales.countries "
        "SELECT g, string_agg(md5(g * h::text::int || ''), '') "
        "FROM generate_series(1, 500) g, generate_series(1, 8) h GROUP BY g",
        "CREATE PUBLICATION shop FOR TABLE sales.orders, sales.countries",
    ) as made:
        yield made


def test_a_log_is_shorter_than_the_loads(shop: Shop) -> None:
    text = shop.file.read_text()
    shop.file.write_text(text.replace('path = "log"', 'path = "log"\nretain_age = 0.1'))
    assert shop.call("run", str(shop.file), "--once")[0] == 0
    loads = walrow.Log(shop.log).segments()
    largest = max(it.bytes for it in loads)
    for number in range(4):
        shop.sql(f"UPDATE sales.orders SET n = n + 1 WHERE id < {number + 10}")
        code, said = shop.call("run", str(shop.file), "--once")
        assert code == 0, said
    log = walrow.Log(shop.log)
    assert log.start > loads[-1].end
    assert sum(it.bytes for it in log.segments()) < largest
    assert shop.is_current("orders", "countries")
    code, said = shop.call("status", str(shop.log), "--allow-stopped")
    assert (code, "held back" in said) == (0, False), said
    for table in ("sales.orders", "sales.countries"):
        with pytest.raises(LogError, match=rf"walrow.load.*{table}") as raised:
            log.state(table)
        assert raised.value.code == "pruned"
        with pytest.raises(LogError, match=rf"walrow load .* {table}") as raised:
            log.net(table)
        assert raised.value.code == "pruned"
    # A target of a person's own: the table with changes, and the one without.
    for table in ("orders", "countries"):
        target = f"delta:{shop.folder}/hand/{table}"
        code, said = shop.call(
            "apply", str(shop.log), "--table", f"sales.{table}", "--target", target
        )
        assert f"walrow load {shop.log} sales.{table}" in said
        assert code == 1
        own = f"delta:{shop.folder}/lake/{table}"
        code, said = shop.call(
            "apply", str(shop.log), "--table", f"sales.{table}", "--target", own
        )
        assert code == 0, said
    # `walrow run` holds their segments.
    assert [it.name for it in log.readers()] == ["walrow run"]
    # New targets get new loads.
    text = shop.file.read_text().replace("delta:lake/", "delta:other/")
    shop.file.write_text(text)
    code, said = shop.call("run", str(shop.file), "--once")
    assert code == 0, said
    assert "loaded 2 tables with 550 rows" in said
    shop.sql("UPDATE sales.countries SET n = 'one' WHERE id = 1")
    code, said = shop.call("run", str(shop.file), "--once")
    assert (code, "loaded" in said) == (0, False), said


def test_targets_of_a_person(server: EmbeddedServer, tmp_path: Path) -> None:
    with history(server, tmp_path / "log") as source:
        for table in ("one", "two"):
            source.sql(f"CREATE TABLE {table} (id int PRIMARY KEY, n int)")
            source.sql(f"INSERT INTO {table} SELECT g FROM generate_series(1, 99) g")
        source.load("one", "two")

        def apply(table: str, place: str = "target") -> walrow.Lsn:
            return walrow.delta.apply_changes(
                source.path,
                table=f"public.{table}",
                target=f"delta:{tmp_path}/{place}/{table}",
            ).end

        def change() -> walrow.Log:
            source.sql("UPDATE one SET n = 1")
            return walrow.Log(source.take().path)

        log = change()
        # Without a target, a user may build the tables yet.
        assert {it.kind for it in change().retain(bytes=1).held} == {"load"}
        assert apply("one") == walrow.Log(source.path).end
        assert apply("two") == walrow.Log(source.path).end
        # A slow one holds, and the status names it.
        log = change()
        apply("one")
        change()
        (hold,) = log.retain(bytes=1).held
        assert hold.name.startswith("apply ")
        assert hold.name.endswith("target/two"[-20:])
        assert hold.name in (status_of(source.path).held or "")
        # It reads the segments kept for it, also without a change of its table.
        assert apply("two") > hold.position
        apply("one")
        for reader in change().readers():
            reader.advance(reader.position)
        log.retain(bytes=1)
        with pytest.raises(LogError, match=r"walrow load .* public.two") as raised:
            apply("two", "new")
        assert raised.value.code == "pruned"
        assert len(log.readers()) == 2
        assert apply("two")
        source.load("two")
        apply("two", "new")
        assert len(log.readers()) == 3


@pytest.mark.parametrize(
    "event",
    [
        "ALTER TABLE t ALTER v TYPE text USING v || '!'",
        "ALTER PUBLICATION p DROP TABLE t",
    ],
)
def test_a_table_whose_changes_were_removed(
    world: World, tmp_path: Path, event: str
) -> None:
    """What the receiver notices later counts, as for any other table."""

    def apply(mode: Mode) -> None:
        target = f"delta:{tmp_path}/{mode}"
        walrow.delta.apply_changes(
            world.path, table="public.t", target=target, mode=mode
        )

    modes: list[Mode] = ["current", "history"]
    world.sql(
        "CREATE TABLE t (id int PRIMARY KEY, v varchar)",
        "CREATE TABLE other (id int PRIMARY KEY)",
        "CREATE PUBLICATION p FOR TABLE t, other",
    )
    world.look()
    world.sql("INSERT INTO t VALUES (1, 'a')")
    world.look()
    for mode in modes:
        apply(mode)
    for number in range(2):
        world.sql(f"INSERT INTO other VALUES ({number})")
        world.look()
        world.log.retain(bytes=1, force=True)
    (versions,) = (it.versions for it in world.log.tables() if it.name == "public.t")
    assert not versions
    for mode in modes:
        apply(mode)
    world.sql(event, "INSERT INTO other VALUES (9)")
    world.look()
    for mode in modes:
        with pytest.raises(ApplyError) as raised:
            apply(mode)
        assert raised.value.code in ("incomplete", "left")
