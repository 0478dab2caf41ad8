"""`walrow.delta.maintain`: fewer files, and the record stays."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest

import walrow
import walrow.delta
from targets.written_log import WrittenLog


def test_files_are_joined_and_the_record_stays(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", v="text")
    for at in range(12):
        log.insert([str(at), "a"])
        log.apply()
    table = tmp_path / "t"
    done = walrow.delta.maintain(log.target)
    assert (done.removed, done.added, done.renewed) == (12, 1, False)
    left = table / "part-0-c000.snappy.parquet#1"
    left.write_bytes(b"")
    os.utime(left, (0, 0))
    for path in table.glob("*.parquet"):
        os.utime(path, (0, 0))
    assert not log.apply().committed
    log.update(["3", "b"])
    done = walrow.delta.maintain(log.target, z_order=True, vacuum="7d")
    assert not left.exists()
    first = log.apply()
    assert (first.inserted, first.updated) == (0, 1)
    assert len(log.rows()) == 12


def test_an_old_record_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WrittenLog(tmp_path, id="int")
    log.insert(["1"])
    first = log.apply()
    monkeypatch.setattr("walrow.delta.maintaining._WEEK", dt.timedelta())
    assert walrow.delta.maintain(log.target, compact=False).renewed
    again = log.apply()
    assert (again.committed, again.end) == (False, first.end)
    log.insert(["2"])
    assert log.apply().inserted == 1


def test_what_cannot_be_maintained(tmp_path: Path) -> None:
    with pytest.raises(walrow.errors.OptionError, match="does not exist"):
        walrow.delta.maintain(f"delta:{tmp_path}/none")
    deltalake.write_deltalake(tmp_path / "t", pa.table({"a": [1]}))
    with pytest.raises(walrow.errors.ApplyError) as caught:
        walrow.delta.maintain(f"delta:{tmp_path}/t", z_order=True)
    assert caught.value.code == "no_token"
    with pytest.raises(walrow.errors.OptionError):
        walrow.delta.maintain(f"delta:{tmp_path}/t", vacuum="x")


def test_a_vacuum_below_the_retention_is_refused_first(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int")
    for key in range(3):
        log.insert([str(key)])
        log.apply()
    before = deltalake.DeltaTable(tmp_path / "t").version()
    with pytest.raises(walrow.errors.OptionError, match="of 168h"):
        walrow.delta.maintain(log.target, vacuum="6d")
    assert deltalake.DeltaTable(tmp_path / "t").version() == before
    assert walrow.delta.maintain(log.target, vacuum="168h").added == 1
