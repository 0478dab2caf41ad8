"""Logs that are damaged, incomplete or not logs: each a `LogError` that names the file."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
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


#: A user without rights.
NOBODY = 65_534
ALL = contents(walrow.read(history(5)))


@pytest.fixture
def log(tmp_path: Path) -> walrow.Log:
    """A log of five segments."""
    return published(tmp_path / "log", transactions(5))


def read(path: Path) -> None:
    list(walrow.read(path))


@pytest.mark.parametrize("level", [None, 3])
def test_verify_finds_every_changed_byte(tmp_path: Path, level: int | None) -> None:
    log = published(tmp_path / "log", transactions(3), level=level)
    assert log.verify() == []
    assert len(log.segments()) == 3
    chance = random.Random(7)  # noqa: S311 - no secret
    for segment in log.segments():
        data = segment.path.read_bytes()
        places = {
            *chance.sample(range(len(data)), 60),
            *range(segment.bytes, segment.bytes + 8),
        }
        for place in places:
            changed = bytearray(data)
            changed[place] ^= 1 << chance.randrange(8)
            segment.path.write_bytes(changed)
            code, file = fault(lambda: walrow.Log(log.path).verify())
            assert (code, file) == ("damaged", segment.path.name)
        segment.path.write_bytes(data)
    assert log.verify() == []


@pytest.mark.parametrize("level", [None, 3])
def test_no_changed_value_is_read(tmp_path: Path, level: int | None) -> None:
    # A reader has taken a part of a segment before it comes to its checksum.
    row = ("1", "v" * 100_000)
    log = published(tmp_path / "log", [transaction(0x9000, *[row] * 300)], level=level)
    (segment,) = log.segments()
    assert segment.stream_bytes > 30_000_000
    data = bytearray(segment.path.read_bytes())
    data[segment.bytes // 4] ^= 1
    segment.path.write_bytes(data)
    with pytest.raises(walrow.errors.LogError, match="damaged"):  # noqa: PT012
        for batch in log.read(batch_rows=1):
            values = pa.record_batch(batch)["v"].to_pylist()
            assert set(values) == {row[1]}


@pytest.mark.parametrize(
    "change",
    [
        lambda *_: b"",
        lambda data, _: data[:-1],
        lambda data, _: data[:-20],
        lambda data, size: data[:size],
        lambda data, size: data[size // 2 :],
        lambda data, _: data[:10],
        lambda data, _: b"\0" * len(data),
        lambda data, size: data[:size] + b"\0" * 10 + data[size:],
    ],
    ids=["empty", "cut", "tail", "no foot", "head", "ten", "zeros", "longer"],
)
def test_a_cut_segment_is_an_error_when_it_is_opened(
    log: walrow.Log, change: Any
) -> None:
    segment = log.segments()[2]
    data = segment.path.read_bytes()
    segment.path.write_bytes(change(data, segment.bytes))
    for call in (lambda: read(log.path), log.verify):
        code, file = fault(call)
        assert (code, file) == ("damaged", segment.path.name)
    # Nothing opens it for what is not in it.
    assert len(list(walrow.read(log.path, start=0x3000))) > 0
    # Without an index, the log cannot be planned.
    (log.path / "_index").unlink()
    assert fault(lambda: walrow.Log(log.path))[1] == segment.path.name


def test_segments_with_each_others_names_are_an_error(log: walrow.Log) -> None:
    one, other = (segment.path for segment in log.segments()[1:3])
    kept = one.rename(log.path / ".kept")
    other.rename(one)
    kept.rename(other)
    assert fault(lambda: read(log.path)) == ("damaged", one.name)


def test_a_missing_segment_is_an_error(log: walrow.Log) -> None:
    segment = log.segments()[2]
    segment.path.unlink()
    assert fault(lambda: walrow.Log(log.path)) == ("missing", None)
    with pytest.raises(walrow.errors.LogError, match="after 0/2000 is missing"):
        walrow.Log(log.path)
    # It is removed after the log was opened.
    assert fault(lambda: list(log.read())) == ("store", segment.path.name)


def test_the_first_segment_is_missing(log: walrow.Log) -> None:
    log.segments()[0].path.unlink()
    with pytest.raises(walrow.errors.LogError, match="after 0/0 is missing"):
        walrow.Log(log.path)


@pytest.mark.parametrize("name", ["notes.txt", "_notes", "0000000000001000.wire.zst"])
def test_a_foreign_file_is_an_error(log: walrow.Log, name: str) -> None:
    (log.path / name).write_text("mine")
    assert fault(lambda: walrow.Log(log.path)) == ("foreign", name)
    assert fault(lambda: walrow.seal(history(6), log=log.path)) == ("foreign", name)
    assert (log.path / name).read_text() == "mine"


def test_names_show_no_escapes_of_a_terminal(log: walrow.Log) -> None:
    (log.path / "a\x1b[31mb").touch()
    with pytest.raises(walrow.errors.LogError) as raised:
        walrow.Log(log.path)
    assert "\x1b" not in str(raised.value)


def test_a_directory_with_other_files_is_not_a_log(tmp_path: Path) -> None:
    (tmp_path / "mine").touch()
    assert fault(lambda: walrow.Log(tmp_path)) == ("not_a_log", None)
    assert fault(lambda: walrow.seal(history(), log=tmp_path)) == ("not_a_log", None)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    (tmp_path / "empty").mkdir()
    assert fault(lambda: walrow.Log(tmp_path / "empty")) == ("not_a_log", None)
    with pytest.raises(FileNotFoundError):
        walrow.Log(tmp_path / "none")
    with pytest.raises(NotADirectoryError):
        walrow.Log(tmp_path / "mine")


@pytest.mark.parametrize(
    "change",
    [
        lambda _: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-3],
        lambda _: b"\0" * 100,
        lambda data: bytes([data[0] ^ 1]) + data[1:],
        lambda data: data[:60] + bytes([data[60] ^ 1]) + data[61:],
        None,
    ],
    ids=["empty", "half", "cut", "zeros", "size", "byte", "missing"],
)
def test_the_index_follows_from_the_segments(log: walrow.Log, change: Any) -> None:
    index = log.path / "_index"
    whole = index.read_bytes()
    if change is None:
        index.unlink()
    else:
        index.write_bytes(change(whole))
    assert contents(walrow.read(log.path)) == ALL
    assert contents(walrow.read(log.path, table="t")) == ALL
    assert walrow.Log(log.path).segments() == log.segments()
    # The next writer makes it again.
    with Publisher(log.path):
        pass
    assert index.read_bytes() == whole


def test_an_index_of_segments_that_are_gone(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(3))
    old = (log.path / "_index").read_bytes()
    shutil.rmtree(log.path)
    new = [transaction(0x5000, ("5", "x")), transaction(0x6000, ("6", "x"))]
    log = published(tmp_path / "log", new)
    # All names but the first one differ.
    (log.path / "_index").write_bytes(old)
    expected = contents(walrow.read(streams.SESSION + b"".join(new)))
    assert contents(walrow.read(log.path)) == expected
    with Publisher(log.path):
        pass
    assert contents(walrow.read(log.path)) == expected
    assert walrow.Log(log.path).verify() == []


@pytest.fixture
def not_root() -> Iterator[Path]:
    """A directory, and a user who is not root: root reads every file."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        user = os.geteuid()
        os.chown(folder, user or NOBODY, -1)
        os.seteuid(user or NOBODY)
        yield Path(folder)
        os.seteuid(user)


def test_a_file_that_may_not_be_read_is_an_error(not_root: Path) -> None:
    log = published(not_root / "log", transactions(5))
    segment = log.segments()[1].path
    segment.chmod(0)
    assert fault(lambda: read(log.path)) == ("store", segment.name)
    assert fault(log.verify) == ("store", segment.name)
    # It is not needed for what is in others.
    assert len(list(walrow.read(log.path, start=0x2000))) > 0
    log.path.chmod(0)
    with pytest.raises(PermissionError, match=str(log.path)):
        walrow.Log(log.path)
    log.path.chmod(0o700)


def test_another_writer_is_an_error_and_readers_are_not(log: walrow.Log) -> None:
    with Publisher(log.path) as publisher:
        assert fault(lambda: walrow.seal(history(6), log=log.path)) == ("locked", None)
        assert contents(walrow.read(log.path)) == ALL
        reader = iter(log.read(batch_rows=1))
        first = next(reader)
        publisher.publish(transactions(6)[5])
        assert first.num_rows + sum(batch.num_rows for batch in reader) == 15
    assert len(walrow.Log(log.path).segments()) == 6


@pytest.mark.parametrize("field", ["system_identifier", "database", "slot"])
def test_another_source_is_an_error(tmp_path: Path, field: str) -> None:
    source = {"system_identifier": "7", "database": "shop", "slot": "walrow"}
    log = published(tmp_path / "log", transactions(1), **source)
    assert log.source.to_dict() == source
    code, _ = fault(lambda: Publisher(log.path, **source | {field: "other"}))
    assert code == "other_source"
    code, _ = fault(lambda: walrow.seal(history(), log=log.path))
    assert code == "other_source"


def test_a_damaged_record_of_what_was_removed_is_an_error(log: walrow.Log) -> None:
    log.prune(0x2000)
    path = log.path / "_loaded-and-removed"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    assert fault(lambda: walrow.Log(log.path)) == ("damaged", path.name)
