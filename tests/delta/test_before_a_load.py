"""The key and the types that a table had before a load have no effect on what begins with it."""

# ruff: noqa: S608  (the tests make their own statements)

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, NamedTuple

import deltalake
import pyarrow as pa
import pytest

import walrow
import walrow.delta
from servers import EmbeddedServer
from servers.live_log import History, history
from servers.receiving import drop_if_there, execute, receive_all
from walrow.errors import ApplyError, SchemaError

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]


class Case(NamedTuple):
    """A change of a table that its earlier changes do not fit to.

    Attributes:
        table: Its columns.
        alter: The change.
        old: The result for a target that has earlier rows, by mode: equal, or the text of a refusal.
        first: The values of the rows that it has before.
    """

    table: str
    alter: str
    old: dict[str, str]
    first: str = "1, '1'"


REPLACED = {"current": "", "history": "use a new target", "changes": ""}
REFUSED = dict.fromkeys(REPLACED, "use a new target")
CASES = {
    "key": Case(
        "id int PRIMARY KEY, c text NOT NULL UNIQUE",
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (c)",
        REPLACED,
    ),
    "wider": Case(
        "id int PRIMARY KEY, c text NOT NULL",
        "ALTER TABLE t DROP CONSTRAINT t_pkey, ADD PRIMARY KEY (id, c)",
        REPLACED,
    ),
    "identity": Case(
        "id int PRIMARY KEY, c text NOT NULL UNIQUE",
        "ALTER TABLE t REPLICA IDENTITY USING INDEX t_c_key",
        REPLACED,
    ),
    "new key": Case(
        "id int, c text, PRIMARY KEY (id)",
        "ALTER TABLE t DROP COLUMN id; ALTER TABLE t ADD id bigserial PRIMARY KEY",
        REFUSED | {"current": "", "history": "widen", "changes": "widen"},
    ),
    "zone": Case(
        "id int PRIMARY KEY, c timestamp",
        "ALTER TABLE t ALTER c TYPE timestamptz",
        REFUSED,
        "1, '2024-01-01'",
    ),
    "date": Case(
        "id int PRIMARY KEY, c date",
        "ALTER TABLE t ALTER c TYPE timestamp",
        REFUSED,
        "1, '2024-01-01'",
    ),
    "bool": Case(
        "id int PRIMARY KEY, c bool",
        "ALTER TABLE t ALTER c TYPE int USING c::int",
        REFUSED,
        "1, true",
    ),
    "array": Case(
        "id int PRIMARY KEY, c int",
        "ALTER TABLE t ALTER c TYPE int[] USING ARRAY[c]",
        REFUSED,
    ),
    "narrower": Case(
        "id int PRIMARY KEY, c text",
        "ALTER TABLE t ALTER c TYPE int USING c::int",
        # A history has the texts of earlier versions.
        REFUSED | {"history": "", "changes": ""},
    ),
}


def apply(source: History, target: Path, mode: Any) -> dict[str, Any]:
    """The rows that a target has then, by the texts of their keys."""
    walrow.delta.apply_changes(
        source.path, table="public.t", target=f"delta:{target}", mode=mode
    )
    rows = deltalake.DeltaTable(str(target)).to_pyarrow_table()
    if mode == "history":
        rows = rows.filter(rows["_is_current"])
    return {f"{row['id']} {row['c']}": row for row in rows.to_pylist()}


def is_equal(source: History, found: dict[str, Any], mode: str) -> bool:
    """Whether a target has the rows of the server."""
    state = walrow.Log(source.path).state("public.t", profile="spark").to_pyarrow()
    server = source.texts("t", ["id"])
    assert state.num_rows == server.total()
    rows = {f"{row['id']} {row['c']}" for row in state.to_pylist()}
    return found.keys() >= rows if mode == "changes" else found.keys() == rows


@pytest.mark.parametrize("name", CASES)
def test_targets_begin_with_a_load(
    server: EmbeddedServer, tmp_path: Path, name: str
) -> None:
    case, old, new = CASES[name], tmp_path / "old", tmp_path / "new"
    with history(server, tmp_path / "log") as source:
        source.sql(f"CREATE TABLE t ({case.table})")
        source.load("t")
        source.sql(f"INSERT INTO t VALUES ({case.first})")
        source.take()
        for mode in case.old:
            assert is_equal(source, apply(source, old / mode, mode), mode)
        middle = walrow.Log(source.path).end
        source.sql(*case.alter.split("; "), "UPDATE t SET id = id + 1")
        source.load("t")
        # Earlier loads and changes may have become one segment with later ones.
        for is_merged in (False, True):
            source.sql("UPDATE t SET id = id + 1")
            source.take()
            if is_merged:
                assert walrow.Log(source.path).compact(segment_size="1GB").merged
            for mode, refusal in case.old.items():
                place = new / f"{mode} {is_merged}"
                for target in (new / mode, place):
                    assert is_equal(source, apply(source, target, mode), mode)
                if refusal:
                    with pytest.raises((SchemaError, ApplyError), match=refusal):
                        apply(source, old / mode, mode)
                else:
                    assert is_equal(source, apply(source, old / mode, mode), mode)
        log = walrow.Log(source.path)
        net = log.net("public.t", start="0/0")
        assert net.clears
        assert net.to_pyarrow().num_rows == 2
        assert log.net("public.t", start=log.end).keys == net.keys
        # The middle of a merged segment.
        assert log.net("public.t", start="0/0", end=middle).keys == ("id",)


def test_an_altered_composite(server: EmbeddedServer, tmp_path: Path) -> None:
    """The versions of its table are the same ones: only the receiver's mark says it."""
    log, slot = tmp_path / "log", f"composite_{time.monotonic_ns()}"

    def apply(place: str, mode: Any) -> list[Any]:
        target = tmp_path / place / mode
        walrow.delta.apply_changes(
            log, table="public.t", target=f"delta:{target}", mode=mode
        )
        rows = deltalake.DeltaTable(str(target)).to_pyarrow_table()
        return list(rows["c"].to_pylist())

    with server.database("composite") as name:
        dsn = server.dsn_of(name)
        try:
            execute(
                dsn,
                "CREATE TYPE comp AS (x int)",
                "CREATE TABLE t (id int PRIMARY KEY, c comp)",
                "INSERT INTO t VALUES (1, ROW(1))",
                "CREATE PUBLICATION p FOR TABLE t",
            )
            receive_all(dsn, log, "--create", "--snapshot", slot=slot)
            for mode in REFUSED:
                assert {"x": 1} in apply("old", mode)
            execute(dsn, "ALTER TYPE comp ADD ATTRIBUTE y int")
            receive_all(dsn, log, slot=slot)
            walrow.load("public.t", log=log, wait=False)
            receive_all(dsn, log, slot=slot)
            execute(dsn, "UPDATE t SET c = ROW(1, 2)")
            receive_all(dsn, log, slot=slot)
            for mode in REFUSED:
                assert {"x": 1, "y": 2} in apply("new", mode)
                with pytest.raises((SchemaError, ApplyError), match="a new target"):
                    apply("old", mode)
        finally:
            drop_if_there(dsn, slot)


def test_a_key_that_moves_needs_a_load(server: EmbeddedServer, tmp_path: Path) -> None:
    with history(server, tmp_path / "log") as source:
        source.sql("CREATE TABLE t (id int PRIMARY KEY, c int NOT NULL)")
        source.sql("INSERT INTO t VALUES (1, 1)", *[CASES["wider"].alter])
        source.sql("UPDATE t SET c = 2")
        source.take()
        log = walrow.Log(source.path)
        with pytest.raises(SchemaError, match="load the table"):
            log.net("public.t")
        with pytest.raises(SchemaError, match="load the table"):
            apply(source, tmp_path / "target", "current")
        with pytest.raises(SchemaError, match="nope"):
            log.net("public.t", keys=["nope"])
        source.load("t")
        with pytest.raises(SchemaError, match="nope"):
            walrow.delta.apply_changes(
                source.path,
                table="public.t",
                target=f"delta:{tmp_path}/target",
                types={"nope": pa.string()},
            )
        assert apply(source, tmp_path / "target", "current").keys() == {"1 2"}
