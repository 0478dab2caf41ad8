"""Types whose text and binary forms give different arrays."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import walrow
from grid.live import decode, one_row

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa

    from grid.live import Live, Table


@dataclass(frozen=True)
class Seen:
    """A table's column in a profile, as decoded from text and, with its batch, binary.

    Values that do not fit became null.
    """

    live: Live
    table: Table
    profile: str
    text: pa.Array
    binary: pa.Array
    batch: walrow.Batch


@dataclass(frozen=True)
class Difference:
    """A difference between text and binary that comes from the server.

    Attributes:
        reason: Why walrow cannot avoid it.
        check: Checks everything else.
    """

    reason: str
    check: Callable[[Seen], None]


def _numbers(seen: Seen) -> None:
    # The test of all values compares them with the OIDs.
    assert seen.text.is_valid().equals(seen.binary.is_valid())
    assert seen.batch.nulled == {}


def _refused(seen: Seen) -> None:
    assert seen.binary.null_count == len(seen.binary)
    assert seen.batch.nulled == {"v": len(seen.text) - seen.text.null_count}
    _is_error(seen)


def _refused_items(seen: Seen) -> None:
    """The items of a list become null; as text, an array with items becomes null."""
    text, binary, nulled = seen.text, seen.binary, seen.batch.nulled
    if seen.profile == "text":
        wanted = [
            None if re.search(r"[^{NUL,}]", re.sub("^.*=", "", item or "")) else item
            for item in text.to_pylist()
        ]
        assert binary.to_pylist() == wanted
        assert nulled == {"v": binary.null_count - text.null_count}
    else:
        assert binary.is_valid().equals(text.is_valid())
        assert binary.value_lengths().equals(text.value_lengths())
        items = text.flatten()
        assert binary.flatten().null_count == len(items)
        assert nulled == {"v": len(items) - items.null_count}
    _is_error(seen)


def _is_error(seen: Seen) -> None:
    """The default policy stops at the first value."""
    row = seen.text.is_valid().to_pylist().index(True)
    stream = one_row(seen.live.streams[seen.table.name, "binary"], row)
    with pytest.raises(walrow.errors.UnrepresentableError, match="the binary form"):
        decode(seen.live, stream, profile=seen.profile)


EXCEPTIONS = {
    ("number", False): Difference(
        "the server sends the OID instead of the name", _numbers
    ),
    ("number", True): Difference(
        "the server sends the OIDs instead of the names", _numbers
    ),
    ("refused", False): Difference("the bytes do not determine the text", _refused),
    ("refused", True): Difference(
        "the bytes do not determine the text", _refused_items
    ),
}
