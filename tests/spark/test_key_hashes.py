"""Hashes of keys, by which changes are folded and shuffled."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")

from walrow.spark.key_hashes import hashes_of, partition_labels  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAN = float("nan")
COLUMNS: dict[Any, list[Any]] = {
    pa.bool_(): [True, False],
    pa.int16(): [0, 1, -1, 300],
    pa.int64(): [0, 1, -1, 1 << 40, (1 << 40) + 1],
    pa.float32(): [0.0, 1.0, -1.0, NAN, 0.1],
    pa.float64(): [0.0, 1.0, -1.0, NAN, float("inf")],
    pa.decimal128(10, 2): [Decimal("1.50"), Decimal("15.00"), Decimal("-1.50")],
    pa.decimal128(38, 0): [Decimal(10**30), Decimal(10**30 + 1), Decimal(-(10**30))],
    pa.string(): ["", "a", "b", "ab", "ba", "\0", "\0\0", "é", "x" * 99, "x" * 100],
    pa.binary(): [b"", b"\0", b"\xff", b"\0\xff"],
    pa.date32(): [dt.date(1970, 1, 1), dt.date(2024, 2, 29)],
    pa.timestamp("us", "UTC"): [
        dt.datetime(2024, 2, 29, tzinfo=dt.UTC),
        dt.datetime(1969, 2, 28, tzinfo=dt.UTC),
    ],
}


@pytest.mark.parametrize("kind", COLUMNS, ids=str)
def test_equal_keys_have_equal_hashes_wherever_they_are(kind: Any) -> None:
    values = COLUMNS[kind]
    column = pa.array(values, kind)
    found = hashes_of([column])
    assert len(set(found.tolist())) == len(values)
    # Beyond a block, in a slice, and behind others.
    many = pa.concat_arrays([column] * (20_000 // len(values)))
    assert hashes_of([many]).tolist() == found.tolist() * (len(many) // len(values))
    place = len(values) * 100
    part = many.slice(place + 1, len(values) - 1)
    assert hashes_of([part]).tolist() == found[1:].tolist()


def test_equal_numbers_have_one_hash() -> None:
    zero, negative, nan, other = hashes_of([pa.array([0.0, -0.0, NAN, -NAN])])
    assert (zero, nan) == (negative, other)


def test_the_order_of_columns_counts() -> None:
    one, other = pa.array([1, 2]), pa.array([2, 1])
    assert len(set(hashes_of([one, other]))) == 2
    texts = pa.array(["a", "ab"]), pa.array(["bc", "c"])
    assert len(set(hashes_of(list(texts)))) == 2


def test_hashes_are_spread() -> None:
    hashes = hashes_of([pa.array(range(100_000))])
    counts = np.bincount((hashes >> np.uint64(60)).astype(int), minlength=16)
    assert counts.min() > 5_000


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_labels_are_spread_over_the_partitions_of_spark(spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    for count in (1, 2, 7, 200):
        labels = [(int(label),) for label in partition_labels(count)]
        rows = (
            spark.createDataFrame(labels, "label int")
            .select("label", f.pmod(f.hash("label"), f.lit(count)).alias("place"))
            .collect()
        )
        assert [row.place for row in rows] == list(range(count))
