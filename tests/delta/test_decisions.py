"""The pure functions behind `walrow.delta`: statistics, times, parts, types and errors."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import walrow
from walrow._apply.columns import fits
from walrow._apply.history import Entry, recorded
from walrow._apply.items import Barrier
from walrow._apply.parts import first_end, halved
from walrow._apply.statistics import statistics
from walrow._apply.targets import Conflict
from walrow._apply.units import Batch
from walrow._lsn import Lsn
from walrow.delta.failures import wrapped
from walrow.delta.guards import doubtful_files

NAMED, FIRST = "delta.dataSkippingStatsColumns", "delta.dataSkippingNumIndexedCols"
LONG = pa.decimal128(16, 0)
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("n", LONG),
        ("a b", pa.string()),
        ("l", pa.list_(pa.decimal128(20, 2))),
        ("flag", pa.bool_()),
        ("p", pa.date32()),
    ]
)


def test_columns_with_statistics() -> None:
    assert statistics(pa.schema([("n", pa.decimal128(15, 2))]), []) == {}
    assert statistics(SCHEMA, ["P"]) == {NAMED: "id,`a b`"}
    assert statistics(SCHEMA, [], {NAMED: "id,`a b`"}) == {}
    assert statistics(SCHEMA, [], {NAMED: "n, `a b` ,l.element"}) == {NAMED: "`a b`"}
    assert statistics(SCHEMA, [], {NAMED: "n"}) == {NAMED: "", FIRST: "0"}
    assert statistics(SCHEMA, [], {FIRST: "1"}) == {}
    assert statistics(SCHEMA, [], {FIRST: "0"}) == {}
    assert statistics(SCHEMA, [], {FIRST: "2"}) == {NAMED: "id"}
    assert statistics(SCHEMA, [], {FIRST: "-1"}) == {NAMED: "id,`a b`,p"}
    assert statistics(pa.schema([("n", LONG)]), []) == {FIRST: "0"}
    parts = pa.list_(pa.struct([("f", pa.float64())]))
    floats = pa.schema([("id", pa.int32()), ("f", pa.float32()), ("l", parts)])
    assert statistics(floats, []) == {NAMED: "id"}
    assert statistics(floats, [], {NAMED: "id,l.element.f"}) == {NAMED: "id"}
    many = pa.schema([("n", LONG), *((f"c{at}", pa.int8()) for at in range(50))])
    assert statistics(many, [])[NAMED].count(",") == 31


def test_files_whose_times_are_looked_at() -> None:
    schema = pa.schema([("id", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
    far = (1 << 63) // 1000
    files: list[dict[str, Any]] = [
        {"path": "near", "num_records": 2, "min.at": 0, "max.at": 1},
        {"path": "none", "num_records": 2, "null_count.at": 2},
        {"path": "far", "num_records": 2, "min.at": 0, "max.at": far},
        {"path": "early", "num_records": 2, "min.at": -far, "max.at": 0},
        {"path": "unknown", "num_records": 2},
        {"path": "nothing"},
    ]
    found = list(doubtful_files(schema, files))
    assert found == ["far", "early", "unknown", "nothing"]
    assert list(doubtful_files(pa.schema([("id", pa.int32())]), files)) == []


def batch(*pieces: tuple[int, int, int], load: int | None = None) -> Batch:
    barrier = None if load is None else Barrier(load, 0, is_load=True)
    units = [piece[:2] for piece in pieces]
    return Batch(Lsn(0), Lsn(100), barrier, units, list(pieces))


def test_parts() -> None:
    small = batch((0, 10, 5), (10, 20, 5))
    assert first_end(small, 10) is None
    assert first_end(small, 9) == 10
    assert first_end(batch((0, 10, 50), (10, 20, 5)), 9) == 10
    assert first_end(batch((0, 10, 50)), 9) is None
    assert first_end(batch((0, 10, 3), (10, 20, 3), (20, 30, 3)), 7) == 20
    # The load alone, and then the changes after it.
    assert first_end(batch((7, 10, 50), (10, 20, 5), load=7), 9) == 8
    assert first_end(batch((7, 8, 50), load=7), 9) is None
    assert halved([10, 20, 30, 40], 40) == 20
    assert halved([10], 40) == 10
    assert halved([10], 10) is None


def test_types_that_fit() -> None:
    assert fits(pa.int32(), pa.int64())
    assert fits(pa.int32(), pa.decimal128(12, 2))
    assert fits(pa.decimal128(10, 2), pa.decimal128(12, 4))
    assert fits(pa.float32(), pa.float64())
    assert fits(pa.list_(pa.int32()), pa.list_(pa.int64()))
    for kind, into in (
        (pa.int64(), pa.int32()),
        (pa.int64(), pa.float64()),
        (pa.decimal128(10, 2), pa.decimal128(10, 1)),
        (pa.decimal128(10, 2), pa.float64()),
        (pa.decimal128(10, 0), pa.int64()),
        (pa.string(), pa.binary()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    ):
        assert not fits(kind, into)


def test_errors_of_deltalake_say_no_values() -> None:
    class CommitFailedError(Exception):
        pass

    class PanicException(BaseException):
        pass

    with pytest.raises(Conflict), wrapped("delta:/t"):
        raise CommitFailedError
    for error, text in (
        (PanicException("4711"), "PanicException"),
        (ValueError("4711"), "ValueError"),
        (OSError("4711: No space left on device"), "no space is left"),
    ):
        with pytest.raises(walrow.Error, match=text) as caught, wrapped("delta:/t"):
            raise error
        assert "4711" not in str(caught.value)
        assert caught.value.__cause__ is None
    exhausted = RuntimeError("Resources exhausted: 4711")
    with pytest.raises(walrow.errors.ApplyError) as refused, wrapped("delta:/t"):
        raise exhausted
    assert refused.value.code == "too_large"
    with pytest.raises(KeyboardInterrupt), wrapped("delta:/t"):
        raise KeyboardInterrupt


def test_a_history_without_a_record() -> None:
    found = recorded(lambda _: [Entry(3, "MERGE", None), Entry(2, "WRITE", "{}")])
    assert found == (None, 3, None)
