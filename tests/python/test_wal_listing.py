"""Where a directory of WAL goes on, over its listing alone."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walrow._backup.wal_attempts import Attempts, Failed
from walrow._backup.wal_beginning import first_position
from walrow._backup.wal_listing import Empty, Entry, GoOn, Refused, where_to_begin
from walrow._backup.wal_names import PARTIAL, Segment, history_name, parse_segment
from walrow._backup.wal_page import HEADER_BYTES, parse_first_page
from walrow._lsn import Lsn
from walrow._postgres.commands import IdentifySystem, PhysicalSlot
from walrow.errors import ConnectionLostError, ReplicationError

MIB = 1 << 20
SIZES = st.sampled_from([MIB << power for power in range(11)])


@given(st.integers(1, (1 << 32) - 1), st.integers(0, (1 << 44) - 1), SIZES)
def test_a_name_is_read_as_it_is_written(timeline: int, number: int, size: int) -> None:
    segment = Segment(timeline, number % ((1 << 64) // size))
    assert parse_segment(segment.name(size), size) == segment
    assert Segment.at(timeline, segment.start(size) + size - 1, size) == segment


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
    decision = where_to_begin([*files, *others], MIB)
    assert isinstance(decision, GoOn)
    assert decision.begin == at
    names = {it.name for it in files if not it.name.endswith(".history")}
    assert set(decision.newest_first) == names


@given(st.integers(0, 1 << 13), st.integers(3, 9), st.data())
def test_a_gap_is_refused_by_name(first: int, count: int, data: st.DataObject) -> None:
    segments = [Segment(1, first + it) for it in range(count)]
    gone = segments.pop(data.draw(st.integers(1, count - 2)))
    files = [entry(it) for it in segments]
    refused = where_to_begin(files, MIB)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.file) == ("gap", gone.name(MIB))
    # Also if it is there, but not whole.
    refused = where_to_begin([*files, entry(gone, partial=True)], MIB)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.file) == ("gap", gone.name(MIB))


ONE, TWO, THREE = (Segment(1, it) for it in (1, 2, 3))


@pytest.mark.parametrize(
    ("files", "code", "file"),
    [
        ([entry(ONE, size=5)], "size", ONE.name(MIB)),
        ([entry(ONE, size=MIB + 1)], "size", ONE.name(MIB)),
        ([entry(ONE, partial=True, size=MIB + 1)], "size", ONE.name(MIB) + PARTIAL),
        ([Entry("000000010000000000001000", MIB)], "size", "000000010000000000001000"),
        ([Entry(ONE.name(MIB), None)], "foreign", ONE.name(MIB)),
        ([entry(ONE), entry(ONE, partial=True)], "foreign", ONE.name(MIB) + PARTIAL),
        *(
            ([Entry(name, 99)], "compressed", name)
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
def test_what_somebody_must_look_at(files: list[Entry], code: str, file: str) -> None:
    refused = where_to_begin(files, MIB)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.file) == (code, file)


def test_a_directory_without_segments_is_empty() -> None:
    assert where_to_begin([Entry("00000002.history", 9)], MIB) == Empty()


def test_an_empty_directory_begins_with_what_the_slot_keeps() -> None:
    system = IdentifySystem("1", 2, Lsn("0/5000"), None)
    for kept in (None, PhysicalSlot(None, None)):
        assert first_position(system, kept) == (2, Lsn("0/5000"))
    assert first_position(system, PhysicalSlot(Lsn("0/3000"), 1)) == (1, Lsn("0/3000"))


@pytest.mark.parametrize("order", ["<", ">"])
def test_the_first_page_says_which_server_wrote_it(order: str) -> None:
    # As a machine of either byte order writes it, for version 18.
    fields = (0xD118, 2, 1, 0x3000000, 0, 7712660547910145963, MIB, 8192)
    page = struct.pack(f"{order}HHIQI4xQII", *fields)
    assert len(page) == HEADER_BYTES
    assert parse_first_page(page) == ("7712660547910145963", 0x3000000, MIB, 1)
    assert parse_first_page(page[:-1]) is None
    assert parse_first_page(bytes(HEADER_BYTES)) is None
    # A short header, as on other pages.
    assert parse_first_page(page[:2] + bytes(2) + page[4:]) is None


def failed(error: Exception, at: float, *, advanced: bool = False) -> Failed:
    return Failed(error, at, has_reached=advanced, has_advanced=advanced)  # type: ignore[arg-type]


def test_pauses_grow_until_wal_comes() -> None:
    attempts, pauses = Attempts(0.0, 600.0), []
    for _ in range(8):
        again = attempts.after(failed(ConnectionLostError("lost"), 1.0))
        assert again is not None
        attempts, pause = again
        pauses.append(pause)
    assert pauses == [0.25, 0.5, 1, 2, 4, 8, 15, 15]
    again = attempts.after(failed(ConnectionLostError("lost"), 1.0, advanced=True))
    assert again is not None
    assert again[1] == 0.25


def test_what_another_attempt_does_not_fix() -> None:
    attempts = Attempts(0.0, 60.0)
    lost = ConnectionLostError("lost")
    busy = ReplicationError("in use", sqlstate="55006")
    removed = ReplicationError("removed", sqlstate="58P01")
    assert attempts.after(failed(removed, 1.0)) is None
    assert attempts.after(failed(lost, 59.0)) is not None
    assert attempts.after(failed(lost, 61.0)) is None
    # Once it was reached, it may be away for long.
    again = attempts.after(failed(lost, 1.0, advanced=True))
    assert again is not None
    assert again[0].after(failed(lost, 9999.0)) is not None
    again = attempts.after(failed(busy, 1.0))
    assert again is not None
    assert again[0].after(failed(busy, 50.0)) is not None
    assert again[0].after(failed(busy, 99.0)) is None
