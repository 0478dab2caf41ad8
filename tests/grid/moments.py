"""Dates, times, timestamps and intervals."""

from __future__ import annotations

import pyarrow as pa

from grid import drawing, rendering
from grid.kinds import TEXT, Beyond, Form, Kind

_MAX32, _MAX64 = (1 << 31) - 1, (1 << 63) - 1
_INFINITIES = ("infinity", "negative infinity")
_BEYOND_64 = "a timestamp beyond 64 bits of microseconds since 1970"
_NAIVE = Form(pa.timestamp("us"), rendering.timestamp)
_UTC = Form(pa.timestamp("us", "UTC"), rendering.timestamptz)
_PARTS = Form(
    pa.struct([("months", pa.int32()), ("days", pa.int32()), ("micros", pa.int64())]),
    rendering.interval_parts,
)
DATE = Form(pa.date32(), rendering.date)
NAIVE, UTC = _NAIVE, _UTC


def _endless(limit: int) -> tuple[Beyond, ...]:
    return (
        Beyond("infinity", _INFINITIES[0], sentinel=limit),
        Beyond("-infinity", _INFINITIES[1], sentinel=-limit),
    )


_TIMES = (
    *("00:00:00", "23:59:59.999999", "00:00:00.000001", "12:00:00", "01:02:03.1"),
    *("23:58:60", "04:05:06.100000", "04:05:06.789"),
)
_DATES = (
    *("1970-01-01", "1969-12-31", "2000-01-01", "1999-12-31", "0001-01-01"),
    *("0001-12-31 BC", "0001-01-01 BC", "0044-03-15 BC", "4714-11-24 BC", "2000-02-29"),
    *("1900-02-28", "9999-12-31", "10000-01-01", "99999-12-31", "100000-01-01"),
    *("0005-02-29 BC", "1582-10-10", "0100-03-01"),
)
_MOMENTS = (
    *(
        f"{day.removesuffix(' BC')} 12:34:56.5{day[10:] and ' BC'}"
        for day in _DATES[:12]
    ),
    *(
        "1970-01-01 00:00:00",
        "1969-12-31 23:59:59.999999",
        "2000-01-01 00:00:00.000001",
    ),
    *("294247-01-10 04:00:54.775807", "294246-12-31 23:59:59.999999"),
    *(
        "4714-11-24 00:00:00 BC",
        "0001-12-31 23:59:59.999999 BC",
        "10000-01-01 00:00:00",
    ),
    "1999-12-31 24:00:00",
)
_LATE = ("294247-01-10 04:00:54.775808", "294276-12-31 23:59:59.999999")
_INTERVALS = (
    *("0", "1 day", "-1 day", "1 mon", "-1 mon", "1 year", "-1 year", "11 mons"),
    *(
        "14 mons -3 days 04:05:06.789",
        "-14 mons 3 days -04:05:06.789",
        "-00:00:00.000001",
    ),
    *("1 day -00:00:00.000001", "-1 day 00:00:00.000001", "-1 year 1 day", "24:00:00"),
    *(
        "-1 days -100:00:00.5",
        "99999:59:59.999999",
        "2147483647 mons",
        "-2147483648 mons",
    ),
    *("2147483647 days", "-2147483648 days", "1 mon -1 day 01:00:00", "00:00:00.1"),
    *("2562047:47:16.854775", "-2562047:47:16.854775", "-1 mon 1 day -1 sec", "1 sec"),
)
_ARROW = ("arrow",)
_NANOS = "an interval beyond 64 bits of nanoseconds"

KINDS = (
    Kind(
        "date",
        "date",
        DATE,
        DATE,
        (*_DATES, "5874897-12-31"),
        drawing.date,
        beyond=_endless(_MAX32),
    ),
    Kind(
        *("time", "time", Form(pa.time64("us"), rendering.time), TEXT),
        *(_TIMES, drawing.time),
        beyond=tuple(
            Beyond(literal, "24:00:00, which is not within a day", _ARROW)
            for literal in ("24:00:00", "23:59:60")
        ),
    ),
    Kind(
        *("time_3", "time(3)", Form(pa.time64("us"), rendering.time), TEXT),
        ("00:00:00", "23:59:59.999", "12:00:00.0004"),
        drawing.time,
        array=False,
    ),
    Kind(
        *("timetz", "timetz", Form(pa.string(), rendering.timetz), TEXT),
        (
            *("00:00:00+00", "24:00:00+00", "12:00:00+05:30", "12:00:00-00:43:08"),
            *(
                "23:59:59.999999+15:59:59",
                "00:00:00.5-15:59:59",
                "01:02:03+14",
                "0:0+0:01",
            ),
        ),
        drawing.timetz,
    ),
    Kind(
        *("timestamp", "timestamp", _NAIVE, _NAIVE, _MOMENTS, drawing.timestamp),
        beyond=_endless(_MAX64) + tuple(Beyond(late, _BEYOND_64) for late in _LATE),
    ),
    Kind(
        *("timestamp_0", "timestamp(0)", _NAIVE, _NAIVE),
        *(_MOMENTS[:9], drawing.timestamp),
        array=False,
    ),
    Kind(
        *("timestamptz", "timestamptz", _UTC, _UTC),
        (*_MOMENTS, "2024-02-29 23:30:00+05:30", "1900-01-01 00:00:00-00:43:08"),
        drawing.timestamptz,
        beyond=_endless(_MAX64) + tuple(Beyond(late, _BEYOND_64) for late in _LATE),
    ),
    Kind(
        "interval",
        "interval",
        Form(pa.month_day_nano_interval(), rendering.interval),
        *(_PARTS, _INTERVALS, drawing.interval),
        beyond=(
            Beyond("2562047:47:16.854776", _NANOS, _ARROW),
            Beyond("-2562047:47:16.854776", _NANOS, _ARROW),
            Beyond("1 mon 2562047788:00:54.775806", _NANOS, _ARROW, since=15),
            Beyond("infinity", _INFINITIES[0], since=17),
            Beyond("-infinity", _INFINITIES[1], since=17),
        ),
    ),
    Kind(
        "interval_day",
        "interval day to second(2)",
        Form(pa.month_day_nano_interval(), rendering.interval),
        _PARTS,
        ("1 day 01:02:03.456", "-00:00:00.01"),
        drawing.interval,
        array=False,
    ),
)
