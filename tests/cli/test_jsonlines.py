"""The JSON of each Arrow type."""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

import pytest

pa = pytest.importorskip("pyarrow")

from walrow.cli import jsonlines  # noqa: E402

INFINITE = 2**63 - 1


@pytest.mark.parametrize(
    ("kind", "values", "wanted"),
    [
        (pa.null(), [None], [None]),
        (pa.bool_(), [True, False, None], [True, False, None]),
        (pa.int16(), [-5, None], [-5, None]),
        (pa.uint64(), [2**64 - 1], [2**64 - 1]),
        (pa.float32(), [0.1, None, 1e30], [0.1, None, 1e30]),
        (pa.float64(), [0.1 + 0.2, 0.0, 5e-324], [0.1 + 0.2, 0.0, 5e-324]),
        (
            pa.float64(),
            [float("nan"), float("inf"), -float("inf")],
            ["NaN", "Infinity", "-Infinity"],
        ),
        (
            pa.decimal128(38, 20),
            [Decimal("0.00000000000000000001"), Decimal(7), None],
            ["0.00000000000000000001", "7.00000000000000000000", None],
        ),
        (pa.string(), ['a"\n', "", None], ['a"\n', "", None]),
        (pa.binary(), [b"\x00\xff", b"", None], ["\\x00ff", "\\x", None]),
        (pa.binary(2), [b"\x00\xff"], ["\\x00ff"]),
        (
            pa.date32(),
            [0, -1, 11_016, -719_468, -719_529, 2_932_896, 2_932_897, None],
            [
                "1970-01-01",
                "1969-12-31",
                "2000-02-29",
                "0000-03-01",
                "-0001-12-31",
                "9999-12-31",
                "+10000-01-01",
                None,
            ],
        ),
        (pa.date32(), [2**31 - 1, 1 - 2**31], ["infinity", "-infinity"]),
        (
            pa.time64("us"),
            [0, 86_399_999_999, 45_000_500_000],
            ["00:00:00", "23:59:59.999999", "12:30:00.5"],
        ),
        (pa.time64("ns"), [1_000], ["00:00:00.000001"]),
        (pa.time32("s"), [61], ["00:01:01"]),
        (
            pa.timestamp("us"),
            [0, -1, None],
            ["1970-01-01T00:00:00", "1969-12-31T23:59:59.999999", None],
        ),
        (
            pa.timestamp("us", "UTC"),
            [INFINITE, -INFINITE, 253_402_300_800_000_000],
            [
                "+294247-01-10T04:00:54.775807+00:00",
                "-290308-12-21T19:59:05.224193+00:00",
                "+10000-01-01T00:00:00+00:00",
            ],
        ),
        (
            pa.month_day_nano_interval(),
            [pa.MonthDayNano([14, -3, 5]), None],
            [{"months": 14, "days": -3, "nanoseconds": 5}, None],
        ),
        (pa.list_(pa.int32()), [[1, None], [], None], [[1, None], [], None]),
        (pa.large_list(pa.binary()), [[b"a"]], [["\\x61"]]),
        (pa.list_(pa.float32(), 2), [[0.5, 1], None], [[0.5, 1.0], None]),
        (
            pa.struct({"a": pa.int32(), "b": pa.binary()}),
            [{"a": 1, "b": b"x"}, None],
            [{"a": 1, "b": "\\x78"}, None],
        ),
        (
            pa.map_(pa.string(), pa.string()),
            [[("k", "v"), ("n", None)], None, []],
            [{"k": "v", "n": None}, None, {}],
        ),
    ],
    ids=str,
)
def test_every_type_has_its_form(
    kind: Any, values: list[Any], wanted: list[Any]
) -> None:
    array = pa.array(values, kind)
    assert jsonlines.values(array) == wanted
    # A slice has only its own values.
    assert jsonlines.values(array.slice(1)) == wanted[1:]


def test_sentinels_are_written_as_infinities_if_asked_for() -> None:
    array = pa.array([INFINITE, -INFINITE, INFINITE - 1], pa.timestamp("us"))
    token = jsonlines.has_sentinels.set(True)
    try:
        found = jsonlines.values(array)
    finally:
        jsonlines.has_sentinels.reset(token)
    assert found == ["infinity", "-infinity", "+294247-01-10T04:00:54.775806"]


def test_extension_types_and_dictionaries_are_written_as_their_values() -> None:
    value = uuid.uuid4()
    found = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([value.bytes, None], pa.binary(16))
    )
    assert jsonlines.values(found) == [str(value), None]
    json = pa.ExtensionArray.from_storage(pa.json_(), pa.array(['{"a":1}']))
    assert jsonlines.values(json) == ['{"a":1}']
    labels = pa.array(["a", None, "a"]).dictionary_encode()
    assert jsonlines.values(labels) == ["a", None, "a"]


def test_dates_are_pythons_where_python_has_them() -> None:
    days = range(-719_162, 2_932_896, 997)
    epoch = dt.date(1970, 1, 1)
    wanted = [(epoch + dt.timedelta(day)).isoformat() for day in days]
    assert jsonlines.values(pa.array(days, pa.date32())) == wanted
