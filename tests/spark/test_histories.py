"""Targets with `mode="history"` and `mode="changes"` in Spark: both formats, and by turns."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import streams
import walrow
import walrow.spark
from spark.lakes import Lake
from targets.written_log import WrittenLog
from walrow.spark import histories

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

UNSENT = streams.UNSENT
SECRET = "4711 is a value"  # noqa: S105 - it must not be in errors
SECOND = 1_000_000


class Told:
    """A written log whose transactions have the given second, and a target."""

    def __init__(self, lake: Lake, folder: Path, **columns: str) -> None:
        self.lake = lake
        self.log = WrittenLog(folder, **columns)

    def at(self, second: float) -> WrittenLog:
        self.log.time = streams.TIME + int(second * SECOND)
        return self.log

    def apply(self, **options: Any) -> Any:
        done = self.lake.apply(self.log, **{"mode": "history"} | options)
        self.lake.refresh()
        return done

    def versions(self) -> list[tuple[Any, ...]]:
        """The versions: values, and seconds."""
        names = ", ".join(self.log.columns)
        rows = self.lake.sql(
            f"SELECT {names}, unix_micros(_valid_from), unix_micros(_valid_to), "  # noqa: S608
            "_is_current FROM {t}"
        )
        found = []
        for *values, since, until, is_current in rows:
            assert is_current == (until is None)
            found.append((*values, second(since), second(until)))
        return sorted(found, key=repr)


def second(micros: int | None) -> float | None:
    if micros is None:
        return None
    return (micros - streams.EPOCH - streams.TIME) / SECOND


# In Delta, each of its many commits takes seconds: the same is tested there without Spark.
@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_versions(lake: Lake, tmp_path: Path) -> None:
    told = Told(lake, tmp_path, id="int", n="int", big="text")
    told.at(0).insert(["9", "9", "from before the first load"])
    told.at(1).load(["1", "1", "big 1"], ["2", "2", "big 2"], ["3", "3", "\\N"])
    first = told.apply()
    assert (first.net_rows, first.mode) == (3, "history")
    assert first.since == dt.datetime(2024, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    told.at(2).update(["1", "10", UNSENT])
    told.at(3).move("1", ["5", "5", UNSENT])
    told.at(2).delete("2")
    told.at(4).load(["5", "5", "big 1"], ["3", "30", "x"], ["6", "6", "y"])
    told.at(5).update(["6", "60", UNSENT])
    done = told.apply()
    assert done.since == first.since
    assert not told.apply().committed
    assert told.versions() == [
        (1, 1, "big 1", 1, 2),
        (1, 10, "big 1", 2, 3),
        (2, 2, "big 2", 1, 3),
        (3, 3, None, 1, 4),
        (3, 30, "x", 4, None),
        (5, 5, "big 1", 3, None),
        (6, 6, "y", 4, 5),
        (6, 60, "y", 5, None),
    ]
    told.at(5).take(streams.truncate(streams.TABLE), streams.insert(["3", "3", SECRET]))
    told.apply()
    # The version of key 6 from second 5 on would be empty.
    assert (6, 60, "y", 5, None) not in told.versions()
    assert told.versions()[3:] == [
        (3, 3, SECRET, 5, None),
        (3, 3, None, 1, 4),
        (3, 30, "x", 4, 5),
        (5, 5, "big 1", 3, 5),
        (6, 6, "y", 4, 5),
    ]
    with pytest.raises(walrow.errors.ApplyError) as caught:
        told.apply(mode="current")
    assert caught.value.code == "other_mode"
    told.log.erase(keys=[{"id": 3}])
    assert told.apply().erased == 3
    assert [row[0] for row in told.versions()] == [1, 1, 2, 5, 6]
    told.log.erase(columns=["big"])
    told.log.columns = {"id": "int", "n": "int", "more": "text"}
    told.at(7).insert(["7", "7", "new"])
    told.apply()
    rows = told.lake.sql(
        "SELECT id, n, big, more FROM {t} WHERE big IS NOT NULL OR id = 7"
    )
    assert [tuple(row) for row in rows] == [(7, 7, None, "new")]


@pytest.mark.parametrize(
    "lake", ["iceberg", pytest.param("delta", marks=pytest.mark.slow)], indirect=True
)
def test_changes(lake: Lake, tmp_path: Path) -> None:
    told = Told(lake, tmp_path, id="int", v="text")
    told.at(1).load(["1", "a"])
    told.at(86_400).update(["1", UNSENT])
    options = {"mode": "changes", "partition_by": ["_commit_date"]}
    first = told.apply(**options)
    assert (first.committed, first.rows, first.since) == (True, 3, None)
    assert not told.apply(**options).committed
    told.log.truncate()
    told.log.insert(["2", SECRET])
    told.log.delete("2")
    # A row of each task.
    assert told.apply(**options, unit_size=1).net_rows == 3
    told.log.erase(keys=[{"id": 2}])
    assert told.apply(**options).erased == 2
    rows = told.lake.sql(
        "SELECT _commit_lsn, _seq, _change_type, id, v, _loaded, _unsent, "
        "CAST(_commit_date AS string) FROM {t} ORDER BY _commit_lsn, _seq"
    )
    assert [tuple(row) for row in rows] == [
        (0x10FF, 0, "truncate", None, None, True, None, "2024-01-01"),
        (0x10FF, 1, "insert", 1, "a", True, None, "2024-01-01"),
        (0x1300, 0, "update_postimage", 1, None, False, ["v"], "2024-01-02"),
        (0x1400, 0, "truncate", None, None, False, None, "2024-01-02"),
    ]


@pytest.mark.slow
def test_targets_of_several_kinds(lakehouse: SparkSession, tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int")
    log.insert(["1"])
    log.time += SECOND
    log.delete("1")
    for mode, count in (("history", 1), ("changes", 2), ("current", 0)):
        target = f"delta:{tmp_path}/{mode}"
        given = {"public.t": target}
        own = {"public.t": {"mode": mode}}
        for committed in (True, False):
            done = walrow.spark.apply_all(lakehouse, log.path, given, options=own)
            assert not done.failed
            found = done.applied["public.t"]
            assert (found.committed, found.mode) == (committed, mode)
        done = walrow.spark.apply_all(
            lakehouse, log.path, given, options=own, previous=done
        )
        assert not done.failed
        assert lakehouse.table(f"delta.`{tmp_path}/{mode}`").count() == count


@pytest.mark.slow
def test_parts_of_the_driver(
    lakehouse: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each transaction is too large for the driver, and is taken alone all the same.
    monkeypatch.setattr(histories, "_DRIVER_BYTES", 1)
    log = WrittenLog(tmp_path, id="int", n="int")
    log.append(streams.insert(["1", "0"]))
    for at in range(1, 3):
        log.time += SECOND
        log.append(streams.update(["1", str(at)]))
    log.publish()
    target = f"delta:{tmp_path}/t"
    done = walrow.spark.apply_changes(
        lakehouse, log.path, table="public.t", target=target, mode="history"
    )
    assert (done.rows, done.net_rows) == (3, 3)
    rows = lakehouse.table(f"delta.`{tmp_path}/t`").select("n", "_is_current")
    assert sorted(map(tuple, rows.collect())) == [(0, False), (1, False), (2, True)]


@pytest.mark.parametrize(
    ("mode", "code"),
    [
        ("history", "duplicate_key"),
        *(
            pytest.param(*it, marks=pytest.mark.slow)
            for it in (
                ("history", "null_key"),
                ("current", "duplicate_key"),
                ("current", "null_key"),
            )
        ),
    ],
)
def test_keys_of_a_load_that_identify_nothing(
    lakehouse: SparkSession, tmp_path: Path, mode: str, code: str
) -> None:
    """The first load, and a later one, which is compared."""
    log = WrittenLog(tmp_path, "f", id="int", n="int")
    target = f"delta:{tmp_path}/t"
    given: dict[str, Any] = {"target": target, "mode": mode, "keys": ["n"]}
    bad = (["1", "1"], ["2", "\\N" if code == "null_key" else "1"])

    def refused() -> None:
        with pytest.raises(walrow.errors.ApplyError) as caught:
            walrow.spark.apply_changes(lakehouse, log.path, table="public.t", **given)
        assert caught.value.code == code

    log.load(*bad)
    refused()
    assert lakehouse.table(f"delta.`{tmp_path}/t`").count() == 0
    log.load(["1", "1"], ["2", "2"])
    if mode == "history":
        # It has all loads from the first one on.
        refused()
        log = WrittenLog(tmp_path / "other", "f", id="int", n="int")
        log.load(["1", "1"], ["2", "2"])
    walrow.spark.apply_changes(lakehouse, log.path, table="public.t", **given)
    log.load(*bad)
    refused()
    assert lakehouse.table(f"delta.`{tmp_path}/t`").count() == 2
