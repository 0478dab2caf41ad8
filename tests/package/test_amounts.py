"""Sizes, durations and places, as users write them."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import walrow
from walrow._amounts import at, duration, size
from walrow.errors import OptionError

HOUR = dt.timedelta(hours=1)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0),
        (1 << 40, 1 << 40),
        ("1B", 1),
        ("1kB", 1000),
        ("1KiB", 1024),
        ("64MiB", 67_108_864),
        ("50GB", 50_000_000_000),
        ("1.5 GB", 1_500_000_000),
        ("0.1KiB", 102),
        ("2tib", 2 << 40),
        ("0", 0),
        ("64k", 64 << 10),
        ("32m", 32 << 20),
        ("1g", 1 << 30),
    ],
)
def test_sizes(value: int | str, expected: int) -> None:
    assert size(value, "size") == expected


@pytest.mark.parametrize(
    "value",
    ["", "64", "MiB", "-1MiB", "1e3MB", "64 MB s", "64Mi", "1,5GB", "\u0661MB", True],
)
def test_what_is_no_size(value: Any) -> None:
    with pytest.raises(OptionError, match=r"^spool_memory must be a size: .*'64MiB'"):
        size(value, "spool_memory")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, 0.0),
        (2.5, 2.5),
        (math.inf, math.inf),
        (dt.timedelta(days=1), 86_400.0),
        ("10s", 10.0),
        ("10", 10.0),
        ("inf", math.inf),
        ("1.5m", 90.0),
        ("12 h", 43_200.0),
        ("7D", 604_800.0),
        ("1w", 604_800.0),
    ],
)
def test_durations(value: Any, expected: float) -> None:
    assert duration(value, "age") == expected


@pytest.mark.parametrize("value", ["", "-1h", "1y", "h", "1h30m", True, "1 month"])
def test_what_is_no_duration(value: Any) -> None:
    with pytest.raises(OptionError, match=r"^age must be a duration: .*'7d'"):
        duration(value, "age")


@pytest.mark.parametrize("value", [-1, -0.1, math.nan, -HOUR])
def test_durations_before_zero(value: Any) -> None:
    with pytest.raises(OptionError, match=r"^age is .*: it must be from 0 seconds on"):
        duration(value, "age")


@pytest.mark.parametrize("value", [10**400, -(10**400), 10**5000], ids=int.bit_length)
def test_durations_that_no_float_has(value: int) -> None:
    with pytest.raises(
        OptionError, match=r"^age is a number of [\d,]+ bits: .* too long"
    ):
        duration(value, "age")


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 10**5000, 1 << 63], ids=int.bit_length
)
def test_sizes_that_no_file_has(value: int) -> None:
    with pytest.raises(
        OptionError, match=r"^bytes is .*: it must be from 0 to "
    ) as caught:
        size(value, "bytes")
    assert len(str(caught.value)) < 120


@given(st.integers(0, 10**9 - 1), st.sampled_from([("kB", 1000), ("MiB", 1 << 20)]))
def test_a_size_is_its_number_times_its_unit(
    number: int, unit: tuple[str, int]
) -> None:
    assert size(f"{number}{unit[0]}", "size") == number * unit[1]


@given(st.integers(0, (1 << 64) - 1))
def test_an_lsn_is_read_as_it_is_printed(number: int) -> None:
    lsn = walrow.Lsn(number)
    assert at(str(lsn), "end") == at(number, "end") == lsn


@given(st.datetimes(timezones=st.timezones().map(lambda _: dt.timezone(-2 * HOUR))))
def test_a_time_is_read_as_it_is_printed(time: dt.datetime) -> None:
    assert at(time.isoformat(), "end") == at(time, "end") == time


def test_a_time_before_now() -> None:
    before = dt.datetime.now(dt.UTC)
    found = at("-2h", "end")
    assert isinstance(found, dt.datetime)
    assert before - 2 * HOUR <= found <= dt.datetime.now(dt.UTC) - 2 * HOUR


def test_a_datetime_needs_a_zone() -> None:
    with pytest.raises(OptionError, match=r"^end: the datetime needs a time zone"):
        at(dt.datetime(2026, 1, 31), "end")


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize(
    ("value", "utc"),
    [
        ("2026-01-31", "2026-01-30T23:00:00+00:00"),
        ("2026-01-31T12:00", "2026-01-31T11:00:00+00:00"),
        ("2026-07-31 12:00:00.5", "2026-07-31T10:00:00.500000+00:00"),
        ("2026-01-31T12:00+05:30", "2026-01-31T06:30:00+00:00"),
        # 02:30 comes twice on this day: the first one.
        ("2026-10-25T02:30", "2026-10-25T00:30:00+00:00"),
    ],
)
def test_a_text_without_an_offset_is_local(value: str, utc: str) -> None:
    found = at(value, "end")
    assert isinstance(found, dt.datetime)
    assert found.astimezone(dt.UTC).isoformat() == utc


@pytest.mark.usefixtures("berlin")
def test_today_begins_at_the_last_midnight() -> None:
    found = at("today", "end")
    now = dt.datetime.now().astimezone()
    assert isinstance(found, dt.datetime)
    assert found <= now
    assert (found.hour, found.minute, found.date()) == (0, 0, now.date())


@pytest.mark.parametrize(
    ("text", "before"), [("90m ago", 1.5 * HOUR), ("1 h ago", HOUR), ("-1h", HOUR)]
)
def test_times_before_now(text: str, before: dt.timedelta) -> None:
    found = at(text, "end")
    assert isinstance(found, dt.datetime)
    assert abs(dt.datetime.now(dt.UTC) - before - found) < dt.timedelta(minutes=1)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "now",
        "1h",
        "-1",
        "-1y",
        "0/",
        "1/2/3",
        "-9e9w",
        "-1h ago",
        "ago",
        "tomorrow",
        None,
    ],
)
def test_what_is_no_place(value: Any) -> None:
    with pytest.raises(OptionError, match=r"^end must be an LSN, .*or a time"):
        at(value, "end")


@pytest.mark.parametrize("value", [1.5, True, [], dt.date(2026, 1, 31)])
def test_other_types_are_no_places(value: Any) -> None:
    with pytest.raises(TypeError, match=r"^end must be an LSN"):
        at(value, "end")


@pytest.mark.parametrize("value", [-1, 1 << 64])
def test_numbers_that_are_no_lsn(value: int) -> None:
    with pytest.raises(OptionError, match=r"^end: an LSN is a number from 0"):
        at(value, "end")
