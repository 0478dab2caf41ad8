"""`walrow.delta.apply_all`: many tables, few with changes, and one that fails."""

from __future__ import annotations

import asyncio
import dataclasses
import datetime as dt
import time
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import walrow
import walrow.delta
from targets.written_tables import WrittenTables
from walrow.delta import modes, snapshots

#: The targets of a round, and how many of them have changed.
MANY, FEW = 300, 3
#: Seconds for the others together. It takes a fifth of that.
REST = 0.1


def targets_of(folder: Path, *tables: int) -> dict[str, str]:
    return {f"sales.t{number}": f"delta:{folder}/t{number}" for number in tables}


def rows_of(place: str) -> list[dict[str, Any]]:
    table = deltalake.DeltaTable(place.partition(":")[2])
    rows: list[dict[str, Any]] = pa.table(table.scan()).to_pylist()
    return rows


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets that are opened."""
    found: list[str] = []
    look = snapshots.Place.look

    def noted(self: snapshots.Place) -> snapshots.Snapshot | None:
        found.append(self.target)
        return look(self)

    monkeypatch.setattr(snapshots.Place, "look", noted)
    return found


def test_each_table_has_its_own_result(tmp_path: Path, looks: list[str]) -> None:
    log = WrittenTables(tmp_path / "log")
    log.insert(1, 2, 3, 4)
    log.mark(3)
    targets = targets_of(tmp_path, 1, 2, 3, 4, 9)
    deltalake.write_deltalake(tmp_path / "t2", pa.table({"id": [7]}))
    said = []
    first = walrow.delta.apply_all(
        log.path,
        targets,
        options={"sales.t4": {"deletes": "soft"}},
        progress=lambda table, result: said.append((table, type(result).__name__)),
    )
    assert set(first.applied) == {"sales.t1", "sales.t4"}
    assert first.failed["sales.t2"].code == "no_token"  # type: ignore[attr-defined]
    assert isinstance(first.failed["sales.t9"], walrow.errors.SchemaError)
    assert first.waiting["sales.t3"].code == "incomplete"
    assert first.unshared == {}
    assert said == [
        ("sales.t1", "Applied"),
        ("sales.t2", "ApplyError"),
        ("sales.t3", "ApplyError"),
        ("sales.t4", "Applied"),
        ("sales.t9", "SchemaError"),
    ]
    assert rows_of(targets["sales.t4"]) == [{"id": 1, "n": 1, "_is_deleted": False}]
    log.insert(1, row=("2", "2"))
    looks.clear()
    second = walrow.delta.apply_all(
        log.path,
        targets,
        options={"sales.t4": {"deletes": "soft"}},
        previous=first,
    )
    # Those that failed or wait are tried again, and t4 has nothing new.
    assert set(looks) == {targets[f"sales.t{it}"] for it in (1, 2, 3)}
    assert second.applied["sales.t1"].net_rows == 1
    assert not second.applied["sales.t4"].committed
    assert second.applied["sales.t4"].end == walrow.Log(log.path).end
    assert len(rows_of(targets["sales.t1"])) == 2


def test_a_time_is_one_place_for_all_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WrittenTables(tmp_path / "log")
    log.insert(1, 2)
    seen = []
    call_of = modes.call_of

    def noted(contents: Any, options: Any) -> Any:
        seen.append(options.end)
        return call_of(contents, options)

    monkeypatch.setattr(modes, "call_of", noted)
    targets = targets_of(tmp_path, 1, 2)
    done = walrow.delta.apply_all(log.path, targets, end="-1h")
    assert not done.failed
    assert done.applied["sales.t1"].end == done.applied["sales.t2"].end
    one, two = seen
    assert one == two
    assert isinstance(one, dt.datetime)
    with pytest.raises(walrow.errors.OptionError, match="end must be an LSN"):
        walrow.delta.apply_all(log.path, targets, end="soon")


def test_another_mode_is_noticed_without_changes(tmp_path: Path) -> None:
    log = WrittenTables(tmp_path / "log")
    log.insert(1)
    targets = targets_of(tmp_path, 1)
    first = walrow.delta.apply_all(log.path, targets, mode="history")
    again = walrow.delta.apply_all(log.path, targets, mode="history", previous=first)
    assert not again.applied["sales.t1"].committed
    other = walrow.delta.apply_all(log.path, targets, previous=first)
    assert other.failed["sales.t1"].code == "other_mode"  # type: ignore[attr-defined]


def test_options_are_looked_at_first(tmp_path: Path) -> None:
    log = WrittenTables(tmp_path / "log")
    log.insert(1, 2)
    one = f"delta:{tmp_path}/t"
    with pytest.raises(walrow.errors.OptionError, match="one target"):
        walrow.delta.apply_all(log.path, {"sales.t1": one, "sales.t2": one})
    targets = targets_of(tmp_path, 1)
    with pytest.raises(walrow.errors.OptionError, match=r"sales\.t2"):
        walrow.delta.apply_all(log.path, targets, options={"sales.t2": {}})
    with pytest.raises(walrow.errors.OptionError, match="target is not an option"):
        walrow.delta.apply_all(
            log.path, targets, options={"sales.t1": {"target": f"{one}/other"}}
        )
    with pytest.raises(walrow.errors.OptionError, match="table is not an option"):
        walrow.delta.apply_all(log.path, targets, table="sales.t2")
    with pytest.raises(TypeError, match="cluster_by"):
        walrow.delta.apply_all(log.path, targets, cluster_by=["id"])
    assert not (tmp_path / "t1").exists()


def test_an_interruption_ends_all(tmp_path: Path) -> None:
    log = WrittenTables(tmp_path / "log")
    log.insert(1, 2)

    def stop(_table: object, _result: object) -> None:
        raise KeyboardInterrupt

    targets = targets_of(tmp_path, 1, 2)
    with pytest.raises(KeyboardInterrupt):
        walrow.delta.apply_all(log.path, targets, progress=stop)
    assert not (tmp_path / "t2").exists()
    assert len(walrow.delta.apply_all(log.path, targets).applied) == 2


def test_the_cost_of_tables_without_changes(tmp_path: Path, looks: list[str]) -> None:
    """In CPU time, as others use the machine, too."""
    log = WrittenTables(tmp_path / "log")
    tables = range(1, MANY + 1)
    changed = range(1, FEW + 1)
    log.insert(*changed)
    targets = targets_of(tmp_path, *changed)
    done = walrow.delta.apply_all(log.path, targets)
    log.insert(*tables, row=("2", "1"))
    # A target that was at the log's end is not opened, so these need none.
    quiet = walrow.delta.apply_all(log.path, targets, previous=done).applied
    end = walrow.Log(log.path).end
    token = quiet["sales.t1"].token
    assert token is not None
    every = targets_of(tmp_path, *tables)
    known: dict[Any, Any] = {
        table: quiet.get(table)
        or dataclasses.replace(
            quiet["sales.t1"],
            table=table,
            target=place,
            end=end,
            token=token.replace("20001", str(20_000 + int(table[7:]))),
        )
        for table, place in every.items()
    }
    all_done = dataclasses.replace(done, applied=known)

    def cost(chosen: dict[str, str]) -> float:
        nonlocal all_done
        log.insert(*changed, row=(str(log.lsn), "1"))
        looks.clear()
        began = time.process_time()
        found = walrow.delta.apply_all(log.path, chosen, previous=all_done)
        took = time.process_time() - began
        assert set(looks) == set(targets.values())
        assert sum(it.committed for it in found.applied.values()) == FEW
        all_done = dataclasses.replace(done, applied=known | found.applied)
        return took

    costs = [(cost(targets), cost(every)) for _ in range(6)]
    few, many = (min(it) for it in zip(*costs, strict=True))
    assert many < few + REST, costs


@pytest.mark.parametrize("ending", [GeneratorExit, asyncio.CancelledError])
def test_what_ends_one_table_does_not_end_the_others(
    tmp_path: Path, ending: type[BaseException]
) -> None:
    """Such as a panic of a library, which is no `Exception`."""
    log = WrittenTables(tmp_path / "log")
    log.insert(1, 2)
    targets = targets_of(tmp_path, 1, 2)

    def apply(error: BaseException) -> Any:
        def fail(_rows: int) -> None:
            raise error

        options = {"sales.t1": {"progress": fail}}
        return walrow.delta.apply_all(log.path, targets, options=options)

    done = apply(ending("4711 is a value"))
    assert set(done.applied) == {"sales.t2"}
    assert isinstance(done.failed["sales.t1"], walrow.Error)
    assert "4711" not in str(done.failed["sales.t1"])
    for error in (KeyboardInterrupt(), SystemExit(3)):
        log.insert(1, row=("2", "2"))
        with pytest.raises(type(error)):
            apply(error)
