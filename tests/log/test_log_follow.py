"""`Log.follow` and `Log.prune`: readers beside a writer, and beside what removes segments."""

from __future__ import annotations

import math
import pickle
import threading
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from logs import (
    Publisher,
    contents,
    fault,
    history,
    published,
    transaction,
    transactions,
)

pa = pytest.importorskip("pyarrow")


OTHER = streams.TABLE + 1


def lsns(batch: Any) -> list[int]:
    found: list[int] = pa.record_batch(batch)["_commit_lsn"].to_pylist()
    return found


class Soon:
    """Calls a function after a moment, beside the test."""

    def __init__(self, call: Any) -> None:
        self._timer = threading.Timer(0.05, call)

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_exception: object) -> None:
        self._timer.join()


@pytest.mark.parametrize("interval", [-1, math.nan, math.inf, 1e300])
def test_intervals_that_make_no_sense(tmp_path: Path, interval: float) -> None:
    """They are refused by the call, and not after all batches."""
    with Publisher(tmp_path / "log") as publisher:
        publisher.publish(transactions(1, rows=1)[0])
        log = walrow.Log(tmp_path / "log")
        with pytest.raises(walrow.errors.OptionError, match="poll_interval is"):
            log.follow(reader="r", poll_interval=interval)
        assert log.readers() == []


def test_batches_come_when_a_segment_is_published(tmp_path: Path) -> None:
    first, second, *_ = transactions(4, rows=1)
    with Publisher(tmp_path / "log") as publisher:
        publisher.publish(first)
        log = walrow.Log(tmp_path / "log")
        with log.follow(poll_interval=0.01) as batches:
            assert lsns(next(batches)) == [0xFF8]
            # The generator waits behind the batch: only then its segment was taken. Not 0/0, which
            # is in any log, even if the beginning was removed.
            assert batches.position == 1
            with Soon(lambda: publisher.publish(second)):
                assert lsns(next(batches)) == [0x1FF8]
            assert batches.position == 0x1000
        # A log is what was published when it was opened.
        assert (log.end, len(log.segments())) == (0x1000, 1)
        assert contents(log.read()) == contents(walrow.read(history(1, rows=1)))


def test_following_continues_at_its_position(tmp_path: Path) -> None:
    first, second, third, fourth = transactions(4, rows=1)
    with Publisher(tmp_path / "log") as publisher:
        publisher.publish(first, second)
        log = walrow.Log(tmp_path / "log")
        batches = log.follow(poll_interval=0.01)
        assert lsns(next(batches)) == [0xFF8, 0x1FF8]
        with Soon(lambda: publisher.publish(third)):
            assert lsns(next(batches)) == [0x2FF8]
        position = batches.position
        assert position == 0x2000
        batches.close()
        assert list(batches) == []
        publisher.publish(fourth)
        batches = walrow.Log(log.path).follow(start=position)
        assert lsns(next(batches)) == [0x2FF8, 0x3FF8]
        batches.close()


def test_a_table_that_comes_later_is_followed(tmp_path: Path) -> None:
    with Publisher(tmp_path / "log") as publisher:
        publisher.publish(transactions(1)[0])
        name = f"t{OTHER}"
        options: list[dict[str, Any]] = [{"table": name}, {"tables": [name, "t"]}]
        for options_ in options:
            end = 0x1000 + int(walrow.Log(tmp_path / "log").end)
            log = walrow.Log(tmp_path / "log")
            with log.follow(poll_interval=0.01, start=log.end, **options_) as batches:
                later = transaction(end, ("1", "x"), oid=OTHER)
                with Soon(lambda later=later: publisher.publish(later)):
                    assert lsns(next(batches)) == [end - 8]


def test_the_options_of_follow(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(2))
    with pytest.raises(walrow.errors.OptionError, match="end"):
        log.follow(end=0x1000)
    with pytest.raises(walrow.errors.OptionError):
        log.follow(profile="none")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        log.follow(none=1)  # type: ignore[call-arg]
    with log.follow(table="t", columns=["v"], metadata=(), batch_rows=2) as batches:
        assert [next(batches).num_rows for _ in range(3)] == [2, 2, 2]


def test_following_survives_the_removal_of_what_it_read(tmp_path: Path) -> None:
    first, second, third, fourth = transactions(4, rows=1)
    with Publisher(tmp_path / "log") as publisher:
        publisher.publish(first, second)
        log = walrow.Log(tmp_path / "log")
        with log.follow(poll_interval=0.01) as batches:
            next(batches)
            walrow.Log(log.path).prune(0x2000)
            with Soon(lambda: publisher.publish(third)):
                assert lsns(next(batches)) == [0x2FF8]
            # What it did not read is gone, too.
            publisher.publish(fourth)
            publisher.publish(transactions(5, rows=1)[4])
            assert walrow.Log(log.path).prune(0x5000) == 3
            assert fault(lambda: [next(batches) for _ in range(2)]) == ("pruned", None)


def test_a_pruned_log_begins_at_the_end_of_what_was_removed(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(5))
    assert log.prune(0xFFF) == 0
    assert log.prune("0/2FFF") == 2
    assert (log.start, log.end, len(log.segments())) == (0x2000, 0x5000, 3)
    again = walrow.Log(log.path)
    assert (again.start, again.segments()) == (log.start, log.segments())
    assert len(list(log.path.glob("*.wire.zst"))) == 3
    with pytest.raises(
        walrow.errors.LogError, match=r"begins at 0/2000.*between 0/1000"
    ) as raised:
        again.read(start=0x1000)
    assert raised.value.code == "pruned"
    for start in (None, 0x2000):
        assert contents(again.read(start=start)) == contents(
            walrow.read(history(5), start=0x2000)
        )
    # The last segment stays, and the log goes on.
    assert again.prune(0xFFFF) == 2
    assert (again.start, again.end, len(again.segments())) == (0x4000, 0x5000, 1)
    walrow.seal(history(6), log=log.path)
    assert contents(walrow.read(log.path)) == contents(
        walrow.read(history(6), start=0x4000)
    )


def test_an_old_position_of_a_quiet_table_stays_valid(tmp_path: Path) -> None:
    other = transaction(0x800, ("1", "x"), oid=OTHER)
    log = published(tmp_path / "log", [other, *transactions(3)])
    log.prune(0x2000)
    again = walrow.Log(log.path)
    quiet = f"t{OTHER}"
    options: list[dict[str, Any]] = [
        {"table": quiet},
        {"tables": [quiet]},
        {"table": OTHER, "start": 0x800},
        {"table": ("public", quiet), "start": 0x1000},
    ]
    for options_ in options:
        assert list(again.read(**{"start": 0x800} | options_)) == []
    # A position before its last removed changes is not.
    assert fault(lambda: again.read(table=quiet, start=0x700)) == ("pruned", None)
    assert fault(lambda: again.read(tables=[quiet, "t"], start=0x800))[0] == "pruned"
    assert fault(lambda: again.read(start=0x800)) == ("pruned", None)
    # Its name is still known, and the log has no rows of it.
    assert list(again.read(table=quiet, missing_table="ignore")) == []
    with pytest.raises(walrow.errors.SchemaError):
        list(again.read(table="t9"))


def test_logs_are_pickled_and_taken_as_paths(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(3))
    again = pickle.loads(pickle.dumps(log))
    assert (again.path, again.end) == (log.path, log.end)
    expected = contents(walrow.read(history(3)))
    assert (
        contents(walrow.read(log)) == contents(walrow.read(str(log.path))) == expected
    )
    assert repr(log) == "<walrow.Log 0/0 to 0/3000: 3 segments>"
    later = tmp_path / "later.wire"
    later.write_bytes(streams.SESSION + b"".join(transactions(5)[3:]))
    both = contents(walrow.read(history(5)))
    assert contents(walrow.read([log, later])) == both
    assert contents(walrow.read([log.path, str(later)])) == both
