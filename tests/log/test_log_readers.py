"""Registered readers of a log, and what is kept for them."""

from __future__ import annotations

import datetime as dt
import fcntl
import threading
import time
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

import walrow
from logs import Publisher, contents, fault, history, published, transactions
from walrow._log import following, retention
from walrow.log import Retention

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def log(tmp_path: Path) -> walrow.Log:
    """Six transactions, each of them a segment."""
    return published(tmp_path / "log", transactions())


def places_of(batch: Any) -> list[tuple[int, int]]:
    """The positions of its rows: LSN and ordinal."""
    found = pa.record_batch(batch)
    return list(
        zip(*(found[it].to_pylist() for it in ("_commit_lsn", "_seq")), strict=True)
    )


def names(log: walrow.Log) -> list[str]:
    return [it.name for it in walrow.Log(log.path).readers()]


def test_a_reader_continues_where_it_was(log: walrow.Log) -> None:
    assert log.readers() == []
    with log.register("nightly") as reader:
        assert (reader.name, reader.position) == ("nightly", 0)
        assert contents(log.read(start=reader.position)) == contents(
            walrow.read(history())
        )
        reader.advance(log.end)
    again = walrow.Log(log.path).register("nightly", start="0/1000")
    assert again.position == log.end == 0x6000
    assert dt.datetime.now(dt.UTC) - again.used < dt.timedelta(minutes=1)
    assert fault(lambda: again.advance("0/1000")) == ("backwards", None)
    again.rewind("0/1000")
    assert [it.position for it in log.readers()] == [0x1000]
    again.unregister()
    assert fault(again.unregister) == ("no_reader", None)
    assert fault(lambda: reader.advance(log.end)) == ("no_reader", None)
    assert log.readers() == []


@pytest.mark.parametrize("name", ["../x", "Ä b", "%", "a/b\\c", "_open", "x" * 64])
def test_any_name_is_a_file_in_the_log(log: walrow.Log, name: str) -> None:
    before = {it.name for it in log.path.iterdir()}
    log.register(name, start=log.end)
    log.register(name.upper(), start=0x2000)
    made = {it.name for it in log.path.iterdir()} - before
    assert len(made - {"_lock"}) == len({name, name.upper()})
    assert all(it.isascii() for it in made)
    assert names(log) == sorted({name, name.upper()}, key=str.encode)
    log.forget(name)
    assert len(names(log)) == len({name, name.upper()}) - 1
    # The outside has nothing new.
    assert [it.name for it in log.path.parent.iterdir()] == ["log"]


@pytest.mark.parametrize("name", ["", "x" * 65, "ä" * 33, "a\nb", "\x00"])
def test_what_is_not_a_name_is_refused(log: walrow.Log, name: str) -> None:
    assert fault(lambda: log.register(name)) == ("reader_name", None)
    assert fault(lambda: log.forget(name)) == ("reader_name", None)


def test_nothing_is_removed_that_a_reader_needs(log: walrow.Log) -> None:
    reader = log.register("slow", start=0x2000)
    done = log.retain(age=0)
    assert (done.segments, len(done.held)) == (2, 1)
    (hold,) = done.held
    assert (hold.kind, hold.name, hold.position) == ("reader", "slow", 0x2000)
    assert str(hold).startswith("the reader slow is at 0/2000, last used 20")
    assert fault(lambda: log.prune(0x4000)) == ("held", None)
    with pytest.raises(walrow.errors.LogError) as raised:
        log.prune(0x4000)
    assert raised.value.remedies == (
        walrow.errors.Remedy("advance", "slow"),
        walrow.errors.Remedy("forget", "slow"),
        walrow.errors.Remedy("force", value=True),
    )
    assert [it.options() for it in raised.value.remedies] == [{}, {}, {"force": True}]
    assert str(raised.value).endswith(
        '; advance the reader slow, forget it with log.forget("slow"), '
        "or choose force=True"
    )
    assert fault(lambda: log.register("late", start=0x1000)) == ("pruned", None)
    assert fault(lambda: log.register("early", start=0x7000)) == ("past_end", None)
    reader.advance(0x3000)
    assert log.prune(0x3000) == 1
    assert log.prune(0x4000, force=True) == 1
    assert log.retain(forget_after=dt.timedelta(days=1)).forgotten == ()
    done = log.retain(bytes=0, forget_after=0)
    assert (done.forgotten, done.segments, done.held) == (("slow",), 1, ())
    assert astuple(log.retain(age=0, bytes=0)) == (0, 0, (), ())
    assert len(walrow.Log(log.path).segments()) == 1


def test_a_retention_is_checked(log: walrow.Log) -> None:
    for options in [
        {"age": -1},
        {"forget_after": "7 days"},
        {"bytes": -1},
        {"age": 1e300},
    ]:
        with pytest.raises(walrow.errors.OptionError):
            log.retain(**options)  # type: ignore[arg-type]
    assert astuple(log.retain()) == (0, 0, (), ())
    assert log.retain(age=dt.timedelta(days=365_000)).segments == 0


def test_following_under_a_name_continues_there(
    log: walrow.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_RECORD_SECONDS", 0.0)

    def position() -> int:
        (reader,) = walrow.Log(log.path).readers()
        return reader.position

    with log.follow(reader="f", start=0x2000, poll_interval=0.01) as batches:
        found = pa.record_batch(next(batches))["_commit_lsn"].to_pylist()
        assert min(found) == 0x2FF8
        assert position() == 0x2000
    # The batch was not followed by another: it may not have been used.
    assert position() == 0x2000
    later = transactions(7)[6:]
    seen: list[Any] = []
    with (
        Publisher(log.path) as publisher,
        walrow.Log(log.path).follow(reader="f", start=0, poll_interval=0.01) as batches,
    ):
        threading.Timer(0.1, lambda: publisher.publish(*later)).start()
        for batch in batches:
            seen += pa.record_batch(batch)["_commit_lsn"].to_pylist()
            if seen[-1] == 0x6FF8:
                break
        assert position() == 0x6000
    assert sorted(set(seen)) == [0x1000 * it - 8 for it in range(3, 8)]
    log.forget("f")


def test_a_quiet_reader_counts_as_used(
    log: walrow.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_WAITING_SECONDS", 0.05)
    with log.follow(reader="f", start=log.end, poll_interval=0.01) as batches:
        (before,) = log.readers()
        waiting = threading.Thread(target=lambda: next(batches, None), daemon=True)
        waiting.start()
        deadline = time.monotonic() + 10
        while log.readers()[0].used == before.used and time.monotonic() < deadline:
            time.sleep(0.02)
        assert log.readers()[0].used > before.used
        with Publisher(log.path) as publisher:
            publisher.publish(*transactions(7)[6:])
        waiting.join(10)


def test_position_and_reader_move_with_the_batches(
    log: walrow.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_RECORD_SECONDS", 0.0)
    batches = log.follow(reader="f", batch_rows=1, poll_interval=0.01)
    taken = [next(batches) for _ in range(9)]
    # Each transaction has three rows. A reader that has asked for the ninth row has used eight.
    assert batches.position == 0x2000
    assert [it.position for it in log.readers()] == [0x2000]
    # A process that is killed now begins there again.
    again = walrow.Log(log.path).read(start=batches.position)
    places = {place for it in (*taken, *again) for place in places_of(it)}
    assert places == {place for it in log.read() for place in places_of(it)}
    assert len(places) == 18
    batches.close()
    log.forget("f")


def test_a_reader_that_takes_batches_is_not_forgotten(
    log: walrow.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_RECORD_SECONDS", 0.05)
    beside = walrow.Log(log.path)
    taken = 0
    with log.follow(reader="f", batch_rows=1) as batches:
        while taken < 18:
            taken += next(batches).num_rows
            time.sleep(0.1)
            assert beside.retain(bytes=0, forget_after=0.5).forgotten == ()
    assert len(beside.segments()) < 6


def test_a_forgotten_reader_is_refused_and_has_no_gap(log: walrow.Log) -> None:
    batches = log.follow(reader="f", batch_rows=1)
    beside = walrow.Log(log.path)
    # It has taken nothing, so its position is the beginning, which any log has.
    beside.forget("f")
    assert beside.prune(0x2000) == 2
    time.sleep(1.1)
    assert fault(lambda: next(batches)) == ("pruned", None)
    # Nothing was removed behind the position of this one.
    batches = walrow.Log(log.path).follow(reader="g", start=0x2000, batch_rows=1)
    beside.forget("g")
    time.sleep(1.1)
    assert fault(lambda: next(batches)) == ("no_reader", None)


def test_a_keeper_merges_segments_beside_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "log"
    keeper = retention.Keeper(path, None, 64 << 20)

    def note() -> str | None:
        keeper.apply()
        return keeper.note

    assert note() is None
    with Publisher(path) as publisher:
        publisher.publish(*transactions(4))
        assert len(walrow.Log(path).segments()) == 4
        assert note() is None
        # The writer continues at the last one.
        assert [it.end for it in walrow.Log(path).segments()] == [0x3000, 0x4000]
        publisher.publish(*transactions(6)[4:])
    assert note() is None
    log = walrow.Log(path)
    # A merged segment is not copied again for a few more segments.
    assert [it.end for it in log.segments()] == [0x3000, 0x5000, 0x6000]
    assert log.verify() == []
    with (path / "_upkeep").open("r+b") as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        assert (note() or "").startswith("upkeep: ")


def test_a_keeper_applies_a_retention_beside_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "log"
    keeper = retention.Keeper(path, Retention(age=0), None)

    def note() -> str | None:
        keeper.apply()
        return keeper.note

    # Without the log, there is nothing to remove.
    assert note() is None
    with Publisher(path) as publisher:
        publisher.publish(*transactions(4))
        keeper.apply()
        assert len(walrow.Log(path).segments()) == 1
        walrow.Log(path).register("r")
        publisher.publish(*transactions(6)[4:])
        held = "retention is held back: the reader r is at 0/3000"
        assert (note() or "").startswith(held)
        walrow.Log(path).forget("r")
        assert note() is None
        assert len(walrow.Log(path).segments()) == 1
        publisher.publish(*transactions(8)[6:])
    keeper.apply()
    assert [it.end for it in walrow.Log(path).segments()] == [0x8000]
    assert walrow.Log(path).verify() == []
