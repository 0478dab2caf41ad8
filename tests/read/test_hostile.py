"""Hostile input: cut or changed streams raise only walrow's errors."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import walrow
from captures import Capture, capture, captures

HEAD = 4096
#: Each place with the slow tests. Otherwise each fifth, which falls in fields of every size.
STEP = 1 if os.environ.get("WALROW_SLOW") else 5
SOME = [
    capture(name, record)
    for name in ("rows", "types-array", "types-time", "identity-full", "truncate")
    for record in ("text", "binary")
] + [
    capture("messages"),
    capture("origin"),
    capture("parameter-status"),
    capture("error-terminated"),
    capture("streaming"),
    capture("two-phase"),
    capture("physical", "physical"),
]


def consume(data: bytes, **options: Any) -> walrow.Reader:
    """Reads all batches, and uses every attribute of each."""
    reader = walrow.read(data, unfinished="ignore", **options)
    for batch in reader:
        batch.__arrow_c_array__()
    return reader


def attempt(data: bytes) -> None:
    """Any error is a DecodeError. A PanicException is not even an Exception."""
    for use in (consume, frames):
        with contextlib.suppress(walrow.errors.DecodeError):
            use(data)


def frames(data: bytes) -> None:
    for frame in walrow.frames(data, unfinished="ignore"):
        _ = frame.fields, frame.kind, frame.name, frame.message
        if frame.message is not None:
            _ = frame.message.fields
        encoded = frame.to_bytes()
        assert data[frame.offset : frame.offset + frame.size] == encoded


@pytest.mark.parametrize("capture", SOME, ids=str)
def test_cut_streams_are_no_error_if_that_is_ignored(capture: Capture) -> None:
    data = capture.data
    try:
        consume(data, unrepresentable="null")
        wrong = None
    except walrow.errors.DecodeError as error:
        wrong = error.offset
    for size in range(0, min(len(data), HEAD), STEP):
        try:
            reader = consume(data[:size], unrepresentable="null")
        except walrow.errors.DecodeError as error:
            # Only an error of the whole stream, from its place on.
            assert wrong is not None
            assert error.offset == wrong  # noqa: PT017
            assert size > wrong
        else:
            assert reader.position >= 0


@pytest.mark.parametrize("capture", SOME, ids=str)
def test_changed_bytes_give_only_our_errors(capture: Capture) -> None:
    data = capture.data[: HEAD + 1000]
    for place in range(0, min(len(data), HEAD), STEP):
        for change in (0x01, 0x80, 0xFF):
            changed = bytearray(data)
            changed[place] ^= change
            attempt(bytes(changed))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_spliced_captures_give_only_our_errors(data: st.DataObject) -> None:
    pieces = []
    for _ in range(data.draw(st.integers(1, 4))):
        stream = data.draw(st.sampled_from(SOME)).data
        begin = data.draw(st.integers(0, len(stream)))
        end = data.draw(st.integers(begin, len(stream)))
        pieces.append(stream[begin:end])
    attempt(b"".join(pieces))


@settings(max_examples=200, deadline=None)
@given(
    st.binary(max_size=200),
    st.sampled_from(["wire", "copydata", "message", "recvlogical"]),
)
def test_any_bytes_give_only_our_errors(data: bytes, framing: Any) -> None:
    attempt(data)
    with contextlib.suppress(walrow.errors.DecodeError):
        decoder = walrow.Decoder(framing=framing, unfinished="ignore")
        list(decoder.feed([data]))
        list(decoder.finish())


def test_claimed_lengths_reserve_nothing() -> None:
    for length in (0x3FFF_FFFF, 0x4000_0000, 0x7FFF_FFFF, 0xFFFF_FFFF):
        frame = b"d" + length.to_bytes(4, "big") + b"w" + bytes(24)
        attempt(frame)


def test_hostile_captures_are_there() -> None:
    assert len(SOME) < len(captures())
    assert all(each.path.exists() for each in SOME)
