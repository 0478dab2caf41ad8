"""Several threads: the same batches and errors as with one, from captures and from logs."""

from __future__ import annotations

import gzip
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import streams
import walrow
from captures import captures, with_sides
from logs import SEALABLE, sampled
from walrow.errors import OptionError

pa = pytest.importorskip("pyarrow")

if TYPE_CHECKING:
    from collections.abc import Iterable

    from captures import Capture

COLUMNS = [streams.Column("id", 23, is_key=True), streams.Column("v", 25)]
OTHER = streams.TABLE + 1


def outcome(batches: Iterable[Any]) -> tuple[list[Any], Any]:
    """All batches, and the error after them."""
    found: list[Any] = []
    try:
        found.extend(map(contents, batches))
    except walrow.Error as error:
        return found, (type(error), str(error))
    return found, None


def contents(batch: Any) -> tuple[str, int, Any, Any, bytes]:
    """A batch with its bytes, which are equal for equal batches. A NaN is not equal to itself."""
    records = pa.record_batch(batch)
    data = records.serialize().to_pybytes()
    return batch.table, len(batch), batch.nulled, records.schema, data


def alternating(wrong: int | None = None, count: int = 30_000) -> bytes:
    """Two tables. The other one has a row of every hundred. The number of one row is wrong."""
    frames = [
        streams.data(streams.relation(COLUMNS)),
        streams.data(streams.relation(COLUMNS, oid=OTHER, name="other")),
    ]
    for first in range(0, count, 10):
        lsn = 0x1000 + first
        frames.append(streams.data(streams.begin(lsn=lsn)))
        for row in range(first, first + 10):
            oid = OTHER if row % 100 == 50 else streams.TABLE
            number = "1x" if row == wrong else str(row)
            frames.append(streams.data(streams.insert([number, "v" * 50], oid=oid)))
        frames.append(streams.data(streams.commit(lsn=lsn, end=lsn + 5)))
    return b"".join(frames)


@pytest.mark.parametrize("capture", sampled(captures(), 10), ids=str)
def test_a_capture_gives_the_same_batches(capture: Capture) -> None:
    if capture.record == "physical":
        pytest.skip("physical replication has no rows")
    options: dict[str, Any] = {"batch_rows": 3, "unrepresentable": "null"}
    one = outcome(walrow.read(capture.path, **options))
    assert outcome(walrow.read(capture.path, threads=3, **options)) == one
    table = dict.fromkeys(name for name, *_ in one[0])
    for name in islice(table, 1):
        one = outcome(walrow.read(capture.path, table=name, **options))
        assert (
            outcome(walrow.read(capture.path, table=name, threads=2, **options)) == one
        )


@pytest.mark.parametrize("capture", sampled(SEALABLE, 20), ids=str)
def test_a_log_gives_the_same_batches(capture: Capture, tmp_path: Path) -> None:
    walrow.seal(capture.path, log=tmp_path, segment_size=2_000)
    log = walrow.Log(tmp_path)
    sides = with_sides(capture.path, "transactions")
    for options in (
        {"batch_rows": 5},
        {"profile": "text"},
        {"tables": sides, "missing_table": "ignore"},
    ):
        several = log.read(threads=2, unfinished="ignore", **options)
        one = log.read(unfinished="ignore", **options)
        assert outcome(several) == outcome(one)
        assert several.position == one.position
        assert several.bytes_read == one.bytes_read


def test_a_wrong_value_is_the_same_error_after_the_same_batches() -> None:
    # The batch of the table with few rows would end far behind it.
    for wrong in (50, 14_950, 14_951):
        data = alternating(wrong)
        one = outcome(walrow.read(data, batch_rows=1_000))
        assert one[1][0] is walrow.errors.DecodeError
        assert sum(rows for _, rows, *_ in one[0]) == wrong
        assert outcome(walrow.read(data, batch_rows=1_000, threads=2)) == one


@pytest.mark.parametrize("taken", [1, 7, 12])
def test_reading_goes_on_at_the_position(taken: int) -> None:
    data = alternating()
    reader = walrow.read(data, batch_rows=1_000, threads=2)
    one = walrow.read(data, batch_rows=1_000)
    ids = {
        number
        for batch in islice(reader, taken)
        for number in pa.record_batch(batch)["id"].to_pylist()
    }
    assert len(list(islice(one, taken))) == taken
    # However far the threads are.
    assert reader.position <= one.position
    rest = walrow.read(data, start=reader.position, threads=2)
    for batch in rest:
        ids.update(pa.record_batch(batch)["id"].to_pylist())
    assert ids == set(range(30_000))
    assert reader.position < rest.position


def as_file(data: bytes, folder: Path) -> Any:
    path = folder / "capture.wire"
    path.write_bytes(data)
    return path


def as_gzip(data: bytes, folder: Path) -> Any:
    path = folder / "capture.wire.gz"
    path.write_bytes(gzip.compress(data, 1))
    return path


def as_log(data: bytes, folder: Path) -> Any:
    walrow.seal(data, log=folder / "log", segment_size=1 << 20)
    return walrow.Log(folder / "log")


def as_url(data: bytes, folder: Path) -> Any:
    return f"file://{as_log(data, folder).path}/"


def as_chunks(data: bytes, _folder: Path) -> Any:
    return [data[at : at + 300_000] for at in range(0, len(data), 300_000)]


@pytest.mark.parametrize("source", [as_file, as_gzip, as_log, as_url, as_chunks])
@pytest.mark.parametrize("threads", [2, 3])
def test_each_source_gives_the_same_batches(
    source: Any, threads: int, tmp_path: Path
) -> None:
    data = alternating()
    found = source(data, tmp_path)
    several = walrow.read(found, threads=threads, batch_rows=1_000)
    one = walrow.read(data, batch_rows=1_000)
    assert outcome(several) == outcome(one)
    assert several.position == one.position


@pytest.mark.skipif(
    not Path("/proc/self/task").exists(),
    reason="counts threads in /proc: run it on Linux",
)
def test_threads_end_with_the_block() -> None:
    reader = walrow.read(alternating(), batch_rows=100, threads=3)
    next(reader)
    names = [
        Path(task, "comm").read_text().strip()
        for task in Path("/proc/self/task").iterdir()
    ]
    assert "walrow-build" not in names
    assert sum(batch.num_rows for batch in reader) == 29_900


@pytest.mark.parametrize("threads", [0, -1, 65, True, "2", None, 2.5])
def test_a_number_of_threads_is_checked(threads: Any) -> None:
    for source in (b"", [b""]):
        with pytest.raises(OptionError, match="threads must be a number from 1 to 64"):
            walrow.read(source, threads=threads)


def test_spark_has_no_threads_of_walrow() -> None:
    from walrow import spark

    with pytest.raises(TypeError, match="threads"):
        spark.decode(None, threads=2)  # type: ignore[call-arg]
