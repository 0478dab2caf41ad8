"""Dates and times before the year 1 and after 9999, which PostgreSQL has, and Python has not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import streams
from targets.written_log import TYPES, Told

BC, FAR = "0044-03-15 BC", "20000-01-01 00:00:00"


def found(log: Told, *columns: str) -> list[tuple[Any, ...]]:
    """Rows of the target. The columns do not have such times."""
    table = pa.table(deltalake.DeltaTable(log.target.partition(":")[2]).scan())
    rows = table.select(columns).to_pylist()
    return sorted((tuple(row.values()) for row in rows), key=repr)


@pytest.mark.parametrize("mode", ["current", "history", "changes"])
def test_a_target_with_such_dates_goes_on(tmp_path: Path, mode: str) -> None:
    """Statistics of its files have them."""
    log = Told(tmp_path, day="date", n="int", at="timestamptz", big="text")
    log.at(1).insert([BC, "1", FAR + "+00", "x"])
    log.apply(mode=mode)
    log.at(2).update([BC, "2", FAR + "+00", streams.UNSENT])
    log.apply(mode=mode)
    wanted = {
        "current": [(2, "x")],
        "history": [(1, "x"), (2, "x")],
        "changes": [(1, "x"), (2, None)],
    }
    assert found(log, "n", "big") == wanted[mode]


def test_lists_of_such_times_are_compared_with_a_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(TYPES, "timestamp[]", 1115)
    log = Told(tmp_path, id="int", times="timestamp[]")
    log.at(1).load(["1", f'{{"{FAR}"}}'], ["2", f'{{"{FAR}"}}'])
    log.apply()
    log.at(2).load(["1", f'{{"{FAR}"}}'], ["2", '{"20001-01-01 00:00:00"}'])
    log.apply()
    assert found(log, "id", "_is_current") == [(1, True), (2, False), (2, True)]


def test_old_images_with_such_times_are_compared(tmp_path: Path) -> None:
    """Two rows have one key for a while, so the whole old image says which one is meant."""
    log = Told(tmp_path, id="int", at="timestamp", n="int")
    kinds = {"id": 23, "at": 1114, "n": 23}
    full = streams.relation(
        [streams.Column(name, oid, is_key=True) for name, oid in kinds.items()],
        identity="f",
    )

    def whole(new: list[str], old: list[str]) -> bytes:
        return streams.update(new, key=old, is_whole=True)

    log.columns = {}
    one, two = ["1", FAR, "1"], ["2", FAR, "2"]
    messages = (
        (streams.insert(one), streams.insert(two)),
        (whole(["2", FAR, "1"], one), whole(["1", FAR, "2"], two)),
    )
    for at, each in enumerate(messages, start=1):
        log.at(at).lsn += 0x100
        for message in (
            streams.begin(lsn=log.lsn, time=log.time),
            full,
            *each,
            streams.commit(lsn=log.lsn, time=log.time),
        ):
            log.writer.append(message)
        log.publish()
        log.apply(keys=["id"])
    assert found(log, "id", "n", "_is_current") == [
        (1, 1, False),
        (1, 2, True),
        (2, 1, True),
        (2, 2, False),
    ]
