"""Where a directory of WAL is continued, over its listing alone, and when a receiver gives up."""

from __future__ import annotations

import struct
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walrow._backup.wal.files import WalDirectory
from walrow._backup.wal.options import WalOptions
from walrow._backup.wal.receiver import WalReceiver
from walrow._backup.wal.segments import (
    HEADER_BYTES,
    PARTIAL,
    Entry,
    Segment,
    history_name,
    parse_first_page,
    parse_segment,
    segments_newest_first,
    where_to_begin,
)
from walrow.errors import BackupError, ConnectionLostError, ReplicationError

MIB = 1 << 20
PLACE = Path("/wal")
SIZES = st.sampled_from([MIB << power for power in range(11)])


@given(st.integers(1, (1 << 32) - 1), st.integers(0, (1 << 44) - 1), SIZES)
def test_a_name_is_read_as_it_is_written(timeline: int, number: int, size: int) -> None:
    segment = Segment(timeline, number % ((1 << 64) // size))
    assert parse_segment(segment.name(size), size) == segment
    assert segment.following.start(size) == segment.start(size) + size


@pytest.mark.parametrize(
    ("name", "size"),
    [
        # From 16 MiB on, a segment of 4 GiB has 256 parts, with 1 GiB only 4.
        ("000000010000000000000100", 16 * MIB),
        ("000000010000000000000004", 1024 * MIB),
        ("000000000000000000000001", 16 * MIB),
        ("00000001000000000000000a", 16 * MIB),
        ("00000001000000000000001", 16 * MIB),
        ("00000001.history", 16 * MIB),
    ],
)
def test_other_names_are_none_of_a_segment(name: str, size: int) -> None:
    assert parse_segment(name, size) is None


def entry(segment: Segment, *, partial: bool = False, size: int = MIB) -> Entry:
    return Entry(segment.name(MIB) + (PARTIAL if partial else ""), size)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Entry], Segment]:
    """The files of a receiver that follows promotions, and where it was killed."""
    at = Segment(draw(st.integers(1, 3)), draw(st.integers(0, 1 << 13)))
    files: list[Entry] = []
    for is_last in draw(st.sampled_from([[True], [False, True], [False, False, True]])):
        whole = draw(st.integers(0, 4))
        files += [entry(at._replace(number=at.number + it)) for it in range(whole)]
        at = at._replace(number=at.number + whole)
        # At a segment's end, a timeline has no partial segment.
        is_partial = draw(st.booleans())
        if is_partial:
            files.append(entry(at, partial=True, size=draw(st.integers(0, MIB))))
        if is_last:
            if not whole and not is_partial:
                files.append(entry(at, partial=True))
            break
        later = draw(st.integers(1, 3))
        at = Segment(at.timeline + later, at.number)
        files.append(Entry(history_name(at.timeline), 40))
    return files, at


@given(histories(), st.randoms())
def test_it_goes_on_where_it_was_killed(
    found: tuple[list[Entry], Segment], random: Any
) -> None:
    files, at = found
    random.shuffle(files)
    others = [Entry("_lock", 0), Entry("backup_label", 3), Entry("x", None)]
    assert where_to_begin(PLACE, [*files, *others], MIB) == at
    names = {it.name for it in files if not it.name.endswith(".history")}
    assert segments_newest_first([*files, *others]) == sorted(names, reverse=True)


@given(st.integers(0, 1 << 13), st.integers(3, 9), st.data())
def test_a_gap_is_refused_by_name(first: int, count: int, data: st.DataObject) -> None:
    segments = [Segment(1, first + it) for it in range(count)]
    gone = segments.pop(data.draw(st.integers(1, count - 2)))
    files = [entry(it) for it in segments]
    # Also if it is there, but not whole.
    for given_files in (files, [*files, entry(gone, partial=True)]):
        assert refused(given_files) == ("gap", gone.name(MIB))


def refused(files: list[Entry]) -> tuple[str | None, str]:
    """The code, and the file that is named."""
    with pytest.raises(BackupError) as raised:
        where_to_begin(PLACE, files, MIB)
    assert str(raised.value).startswith(f"{raised.value.path}: ")
    return raised.value.code, Path(raised.value.path or "").name


ONE, TWO = Segment(1, 1), Segment(1, 2)


@pytest.mark.parametrize(
    ("files", "code", "file"),
    [
        ([entry(ONE, size=5)], "size", ONE.name(MIB)),
        ([entry(ONE, size=MIB + 1)], "size", ONE.name(MIB)),
        ([entry(ONE, partial=True, size=MIB + 1)], "size", ONE.name(MIB) + PARTIAL),
        (
            [Entry("000000010000000000001000", MIB)],
            "foreign",
            "000000010000000000001000",
        ),
        ([Entry(ONE.name(MIB), None)], "foreign", ONE.name(MIB)),
        ([entry(ONE), entry(ONE, partial=True)], "foreign", ONE.name(MIB) + PARTIAL),
        *(
            ([Entry(name, 99)], "foreign", name)
            for ending in (".gz", ".lz4", ".zst")
            for name in (ONE.name(MIB) + ending, ONE.name(MIB) + ending + PARTIAL)
        ),
        # Between two timelines.
        ([entry(ONE), entry(Segment(2, 3))], "gap", TWO.name(MIB)),
        (
            [entry(ONE), entry(TWO, partial=True), entry(Segment(2, 3))],
            "gap",
            TWO.name(MIB),
        ),
    ],
)
def test_a_file_that_cannot_be_a_segment(
    files: list[Entry], code: str, file: str
) -> None:
    assert refused(files) == (code, file)


def test_a_directory_without_segments_is_empty() -> None:
    assert where_to_begin(PLACE, [Entry("00000002.history", 9)], MIB) is None


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_first_page_says_which_server_wrote_it(order: str) -> None:
    # As a machine of either byte order writes it, for version 18.
    fields = (0xD118, 2, 1, 0x3000000, 0, 7712660547910145963, MIB, 8192)
    page = struct.pack(f"{order}HHIQI4xQII", *fields)
    assert len(page) == HEADER_BYTES
    assert parse_first_page(page) == ("7712660547910145963", 0x3000000)
    assert parse_first_page(page[:-1]) is None
    assert parse_first_page(bytes(HEADER_BYTES)) is None
    # A short header, as on other pages.
    assert parse_first_page(page[:2] + bytes(2) + page[4:]) is None


def test_what_another_attempt_does_not_fix(tmp_path: Path) -> None:
    stop = threading.Event()
    # Without the pauses.
    stop.set()
    lost = ConnectionLostError("lost")
    busy = ReplicationError("in use", sqlstate="55006")
    removed = ReplicationError("removed", sqlstate="58P01")
    with WalDirectory(tmp_path) as directory:
        receiver = WalReceiver(WalOptions(to=tmp_path, until="now"), directory, stop)

        def gives_up(error: ReplicationError, *, has_reached: bool = False) -> bool:
            try:
                receiver._pause(error, has_reached=has_reached)
            except ReplicationError:
                return True
            return False

        assert gives_up(removed)
        assert not gives_up(lost)
        assert not gives_up(busy)
        # Another process has had the slot for longer than a server keeps it.
        assert receiver._busy_since is not None
        receiver._busy_since -= 99
        assert gives_up(busy)
        assert not gives_up(lost)
        assert not gives_up(busy)
        # No server was reached for ten minutes.
        receiver._give_up -= 601
        assert gives_up(lost)
        assert not gives_up(lost, has_reached=True)
        receiver._waiter.close()
