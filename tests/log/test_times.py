"""A time means one place in a log, everywhere: commit times are not in the order of commits."""

from __future__ import annotations

import datetime as dt
import struct
import time
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from walrow.errors import OptionError

pa = pytest.importorskip("pyarrow")


#: The hour of each commit, in the order of the commits. Each inserts a row with its hour.
HOURS = (1, 4, 2, 3)
NEW_YEAR = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)


def lsn(number: int) -> int:
    """Where a commit begins. It ends 8 bytes later."""
    return 0x1000 * (number + 1)


def stream(first: int = 0, last: int = len(HOURS)) -> bytes:
    messages = b""
    for number in range(first, last):
        hour = HOURS[number]
        parts = streams.wired(
            streams.begin(number + 1, lsn(number)),
            streams.relation([streams.Column("hour", 23, is_key=True)]),
            streams.insert([str(hour)]),
            streams.commit(lsn(number), lsn(number) + 8),
        )
        micros = streams.TIME + hour * 3_600_000_000
        messages += parts.replace(
            struct.pack("!q", streams.TIME), struct.pack("!q", micros)
        )
    return messages


@pytest.fixture(params=[1, 1 << 20], ids=["segments", "segment"])
def log(tmp_path: Path, request: pytest.FixtureRequest) -> walrow.Log:
    """The transactions: a segment for each, or one for all."""
    walrow.seal(stream(), log=tmp_path, segment_size=request.param)
    return walrow.Log(tmp_path)


def at(hour: float) -> dt.datetime:
    return NEW_YEAR + dt.timedelta(hours=hour)


def hours(reader: Any) -> list[int]:
    return [
        each["hour"] for batch in reader for each in pa.record_batch(batch).to_pylist()
    ]


#: How many transactions are before a time: up to the first that was committed after it.
PLACES = [(0.5, 0), (1, 1), (1.5, 1), (2.5, 1), (3.5, 1), (4, 4), (5, 4)]


@pytest.mark.parametrize(("hour", "count"), PLACES)
def test_it_is_the_same_place_for_all(log: walrow.Log, hour: float, count: int) -> None:
    when, place = at(hour), lsn(count - 1) + 8 if count else 0
    earlier, later = list(HOURS[:count]), list(HOURS[count:])
    assert hours(log.read(end=when)) == earlier
    assert hours(log.read(start=when)) == later
    assert (
        hours(walrow.read(log.path, table="t", start=when, missing_table="ignore"))
        == later
    )
    assert hours(walrow.read(stream(), end=when)) == earlier
    if earlier:
        assert sorted(hours(log.state("t", as_of=when))) == sorted(earlier)
    net = log.net("t", end=when)
    assert (sorted(hours(net)), net.end) == (sorted(earlier), place)
    follower = log.follow(start=when, poll_interval=0)
    assert follower.position == place
    with follower:
        # It waits for more after the last one.
        assert all(hours([next(follower)])[0] == later[0] for _ in later[:1])
    # All columns, whatever the range.
    assert walrow.schema(log, "t", start=when, metadata=()).names == ["hour"]


def test_a_later_transaction_does_not_move_it(tmp_path: Path) -> None:
    walrow.seal(stream(last=2), log=tmp_path)
    found = [hours(walrow.Log(tmp_path).read(end=at(hour))) for hour in (2.5, 3.5)]
    walrow.seal(stream(first=2), log=tmp_path)
    assert found == [[1], [1]]
    assert [
        hours(walrow.Log(tmp_path).read(end=at(hour))) for hour in (2.5, 3.5)
    ] == found


def test_prune_removes_what_is_before_it(tmp_path: Path) -> None:
    walrow.seal(stream(), log=tmp_path, segment_size=1)
    log = walrow.Log(tmp_path)
    assert log.prune(at(3.5), force=True) > 0
    assert walrow.Log(tmp_path).start == lsn(0) + 8
    assert hours(walrow.Log(tmp_path).read(start=log.start)) == [4, 2, 3]


@pytest.mark.parametrize(
    "text",
    ["2024-01-01T04:30:00+03:00", "2024-01-01 01:30Z", "20240101T013000Z"],
)
def test_a_text_is_a_time(log: walrow.Log, text: str) -> None:
    assert hours(log.read(start=text)) == [4, 2, 3]
    assert hours([next(log.follow(start=text))])[0] == 4
    assert hours(log.read(end=text)) == hours(log.state("t", as_of=text)) == [1]


def test_a_text_without_an_offset_is_in_the_zone_of_tz(
    log: walrow.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        # Nine hours before UTC.
        assert hours(log.read(end="2024-01-01T10:30")) == [1]
        assert hours(log.read(start="2024-01-01T10:30")) == [4, 2, 3]
        assert hours(log.state("t", as_of="2024-01-01T10:30")) == [1]
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_time_before_now_and_today(log: walrow.Log) -> None:
    hours_since = (dt.datetime.now(dt.UTC) - at(1.5)).total_seconds() / 3600
    for text in f"-{hours_since:.3f}h", f"{hours_since:.3f}h ago":
        assert hours(log.read(start=text)) == [4, 2, 3]
        assert hours(log.state("t", as_of=text)) == [1]
    assert hours(log.read(start="today")) == []
    assert hours(log.read(end="today")) == list(HOURS)


@pytest.mark.parametrize("start", ["-1h", "today", at(1)], ids=str)
def test_a_stream_knows_no_place_for_its_start(start: Any) -> None:
    for call in (
        lambda: walrow.Decoder(start=start),
        lambda: walrow.schema(stream(), "t", start=start),
    ):
        with pytest.raises(OptionError, match="start is a time, which needs a log"):
            call()


def test_a_datetime_needs_a_time_zone(log: walrow.Log) -> None:
    naive = dt.datetime(2024, 1, 1)
    calls: list[Any] = [
        lambda: log.read(start=naive),
        lambda: log.read(end=naive),
        lambda: log.follow(start=naive),
        lambda: log.state("t", as_of=naive),
        lambda: log.net("t", end=naive),
        lambda: log.prune(naive),
        lambda: walrow.Decoder(end=naive),
    ]
    for call in calls:
        with pytest.raises(OptionError, match="the datetime needs a time zone"):
            call()


class OfADriver:
    """An LSN of another library, which prints like PostgreSQL."""

    def __str__(self) -> str:
        return "0/1008"


def test_an_lsn_of_a_driver_is_one(log: walrow.Log) -> None:
    place: Any = OfADriver()
    assert hours(log.read(start=place)) == [4, 2, 3]
    assert hours(log.read(end=place)) == hours(log.state("t", as_of=place)) == [1]
