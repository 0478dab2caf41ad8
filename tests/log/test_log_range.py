"""Parts of a log: `start`, `end` and tables, in and around large transactions."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from captures import capture
from logs import contents, history, published, sealed, transaction

pa = pytest.importorskip("pyarrow")


BEGIN = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
OTHER = streams.TABLE + 1
#: Ends of transactions, their commit times in seconds, and their table: times go backwards.
COMMITS = [
    (0x1000, 10, streams.TABLE),
    (0x2000, 30, OTHER),
    (0x3000, 20, streams.TABLE),
    (0x4000, 25, OTHER),
    (0x5000, 31, streams.TABLE),
    (0x6000, 5, OTHER),
]
TRANSACTIONS = [
    transaction(end, (str(end), "x"), time=time, oid=oid) for end, time, oid in COMMITS
]
TIMES = streams.SESSION + b"".join(TRANSACTIONS)
POSITIONS = [0xFFF, 0x1000, 0x2000, 0x2FFF, 0x4000, 0x5001, 0x6000, 0x7000]


def damage(log: walrow.Log, kept: set[int]) -> None:
    """Makes all segments but some unreadable."""
    for number, segment in enumerate(log.segments()):
        if number not in kept:
            data = bytearray(segment.path.read_bytes())
            data[: segment.bytes] = bytes(segment.bytes)
            segment.path.write_bytes(data)


@pytest.mark.parametrize("table", [None, "t", f"t{OTHER}"])
@pytest.mark.parametrize("size", [1, 150, 1 << 20])
def test_start_and_end_give_the_rows_that_the_capture_gives(
    tmp_path: Path, size: int, table: str | None
) -> None:
    log = sealed(tmp_path / "log", TIMES, segment_size=size)
    ends: list[Any] = [
        *POSITIONS,
        *(BEGIN + dt.timedelta(seconds=at) for at in (0, 5, 10, 19, 24, 30, 31)),
    ]
    for start in [None, *POSITIONS]:
        for end in [None, *ends]:
            options = {"table": table, "start": start, "end": end}
            # Without any of its rows, a table is only in what a capture defines.
            options["missing_table"] = "ignore"
            expected = contents(walrow.read(TIMES, **options))
            assert contents(log.read(**options)) == expected, options


def test_segments_outside_of_the_range_are_not_opened(tmp_path: Path) -> None:
    log = published(tmp_path / "log", TRANSACTIONS)
    ranges: list[tuple[dict[str, Any], set[int]]] = [
        ({"start": 0x2000, "end": 0x4000}, {2, 3}),
        ({"start": 0x2001, "end": 0x3FFF}, {2, 3}),
        ({"start": 0x5000}, {5}),
        ({"end": BEGIN + dt.timedelta(seconds=12)}, {0, 1}),
        ({"table": "t"}, {0, 2, 4}),
        ({"table": OTHER, "start": 0x2000}, {3, 5}),
        ({"tables": ["t"], "envelope": True, "end": 0x1000}, {0}),
    ]
    expected = [contents(log.read(**options)) for options, _ in ranges]
    for number, (options, kept) in enumerate(ranges):
        damaged = published(tmp_path / str(number), TRANSACTIONS)
        damage(damaged, kept)
        assert contents(damaged.read(**options)) == expected[number]
        with pytest.raises(walrow.errors.LogError, match="damaged"):
            damaged.verify()


def large() -> bytes:
    """Large transactions of two tables, between small ones."""
    columns = [streams.Column("id", 23), streams.Column("v", 25)]
    parts = [streams.SESSION, transaction(0x1000, ("1", "x"))]
    for end in (0x9000, 0xF000):
        rows = [
            streams.insert((str(row), "v" * 30), OTHER if row % 50 < 25 else 16400)
            for row in range(100)
        ]
        parts += [
            streams.wired(
                streams.begin(xid=end, lsn=end - 8),
                streams.relation(columns),
                streams.relation(columns, oid=OTHER, name="other"),
                *rows,
                streams.commit(lsn=end - 8, end=end),
            ),
            transaction(end + 0x1000, (str(end), "y")),
        ]
    return b"".join(parts)


def test_a_large_transaction_is_read_whole_from_its_parts(tmp_path: Path) -> None:
    stream = large()
    log = sealed(tmp_path / "log", stream, segment_size=500)
    segments = log.segments()
    assert sum(segment.continues for segment in segments) > 20
    assert {segment.end for segment in segments if segment.part} == {
        *(segment.start for segment in segments if segment.part and segment.continues),
        0x9000,
        0xF000,
    }
    around = [None, 0x1000, 0x8FFF, 0x9000, 0xA000, 0xEFFF, 0xF000, 0x10000]
    for table in (None, "t", "other"):
        for start in around:
            for end in around:
                options: Any = {"table": table, "start": start, "end": end}
                options["missing_table"] = "ignore"
                expected = contents(walrow.read(stream, **options))
                assert contents(log.read(**options)) == expected, options


def test_parts_without_a_table_are_not_opened(tmp_path: Path) -> None:
    log = sealed(tmp_path / "log", large(), segment_size=500)
    expected = contents(log.read(table="other"))
    numbers = log._log.versions()
    others = {at for at, version in enumerate(numbers) if version[0] == OTHER}
    kept = set()
    for place, segment in enumerate(log.segments()):
        tables = log._log.segment(place)["tables"]  # type: ignore[index]
        if others & {table[0] for table in tables} or (
            segment.part and not segment.continues
        ):
            kept.add(place)
    assert len(kept) < len(log.segments()) - 10
    damage(log, kept)
    assert contents(log.read(table="other")) == expected


def test_columns_and_schemas_of_several_versions(tmp_path: Path) -> None:
    source = capture("alter-columns")
    log = sealed(tmp_path / "log", source.path)
    for table in {table.name for table in log.tables()}:
        schema = walrow.schema(source.path, table)
        assert walrow.schema(log, table) == schema
        assert walrow.schema(str(log.path), table) == schema
        assert log.schema(table) == schema
        assert walrow.schema([log.path, source.path], table) == schema
        assert contents(log.read(table=table, schema=schema)) == contents(
            walrow.read(source.path, table=table, schema=schema)
        )
    with pytest.raises(walrow.errors.SchemaError):
        list(log.read(table="public.none"))


@pytest.mark.parametrize(
    "options",
    [
        {"table": "t", "types": {f"t{OTHER}.v": "binary"}},
        {"table": "t", "columns": ["v"]},
        {"table": "t", "columns": ["t.v", "none"]},
        {"tables": ["t", f"t{OTHER}"]},
        {"tables": ["t", "none"]},
        {"table": "none"},
        {"table": "walrow.transactions"},
        {"table": ("walrow", "transactions")},
        {"tables": ["t", "walrow.transactions"]},
        {"tables": ["t", ("walrow", "transactions")]},
    ],
    ids=str,
)
def test_options_have_the_effect_that_they_have_on_a_capture(
    tmp_path: Path, options: dict[str, Any]
) -> None:
    log = sealed(tmp_path / "log", TIMES)
    assert contents(log.read(**options)) == contents(walrow.read(TIMES, **options))


def test_a_capture_that_repeats_transactions_adds_only_new_ones(tmp_path: Path) -> None:
    log = sealed(tmp_path / "log", history(3))
    found = walrow.seal(history(6), log=log.path, segment_size=1)
    assert (found.transactions, found.repeated) == (3, 3)
    assert found.position == 0x6000
    assert contents(walrow.read(log.path)) == contents(walrow.read(history(6)))
    found = walrow.seal(history(6), log=log.path)
    assert (found.transactions, found.repeated, found.segments) == (0, 6, 0)


def test_a_start_continues_where_an_end_of_the_same_time_stops(tmp_path: Path) -> None:
    times = [30, 20, 40, 10, 50, 60]
    parts = [
        transaction(0x1000 * number, (str(number), "x"), time=time)
        for number, time in enumerate(times, 1)
    ]
    (tmp_path / "log").mkdir()
    log = published(tmp_path / "log", parts)
    capture = tmp_path / "t.wire"
    capture.write_bytes(streams.SESSION + b"".join(parts))
    epoch = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
    epoch += dt.timedelta(microseconds=streams.TIME)

    def ids(source: Any = log, **options: Any) -> list[int]:
        return [
            row["id"]
            for batch in walrow.read(source, **options)
            for row in pa.record_batch(batch).to_pylist()
        ]

    for seconds in range(65):
        time = epoch + dt.timedelta(seconds=seconds)
        before, after = ids(end=time), ids(start=time)
        assert before + after == [1, 2, 3, 4, 5, 6], seconds
        assert ids(start=time.isoformat()) == after
        # A capture is read for it.
        with capture.open("rb") as file:
            for source in (capture, [capture], capture.read_bytes(), file):
                assert ids(source, start=time) == after
        # The first later commit decides: the commits after it may be earlier.
        count = next((n for n, it in enumerate(times) if it > seconds), len(times))
        assert len(before) == count
        if 0 < count < len(times):
            assert log.follow(start=time).position == 0x1000 * count
    with pytest.raises(walrow.errors.OptionError, match="reads a capture twice"):
        walrow.read(iter([b""]), start=epoch)
    with pytest.raises(walrow.errors.OptionError, match="start must be an LSN"):
        log.read(start="tomorrow")
