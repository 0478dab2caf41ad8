"""The inputs of the curves: a stream of any shape, as a server sends it, and a log of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

import streams
import walrow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OID = 16_400
#: The table whose rows are made, and its schema.
TABLE = "public.t0"
#: A transaction ends at an LSN so many bytes after the end of the previous transaction.
DISTANCE = 1 << 12
#: The directory of a small input.
WARM = "warm"
#: Values repeat after so many rows.
VARIETY = 64
_INT8, _TEXT = 20, 25


@dataclass(frozen=True)
class Shape:
    """The contents of a stream. All changes are inserts.

    Attributes:
        rows: Rows of all tables together.
        columns: Columns of each table: a key, and texts.
        tables: Each row goes to another table than the row before.
        rows_a_transaction: Rows of each transaction.
        value_size: Bytes of a text.
        segment_size: A segment of the log ends after so many bytes of the stream.
    """

    rows: int
    columns: int = 6
    tables: int = 1
    rows_a_transaction: int = 100
    value_size: int = 8
    segment_size: int = 64 << 20


@dataclass(frozen=True)
class Input:
    """An input on disk.

    Attributes:
        folder: Its directory.
        size: Its place on the axis.
        segment_size: The size of a segment of its log.
    """

    folder: Path
    size: int
    segment_size: int

    @property
    def stream(self) -> Path:
        """The capture."""
        return self.folder / "stream.wire"

    @property
    def log(self) -> Path:
        """The log of the same bytes."""
        return self.folder / "log"


def make(shape: Shape, folder: Path, size: int) -> Input:
    """Writes a stream, and a log of it, to a directory."""
    folder.mkdir()
    made = Input(folder, size, shape.segment_size)
    with made.stream.open("wb") as file:

        def written() -> Iterator[bytes]:
            for frames in transactions(shape):
                file.write(frames)
                yield frames

        # A segment ends between two chunks.
        walrow.seal(written(), log=made.log, segment_size=made.segment_size)
    return made


def transactions(shape: Shape) -> Iterator[bytes]:
    """The bytes of each transaction, in turn."""
    columns = [streams.Column("id", _INT8, is_key=True)]
    columns += [streams.Column(f"c{at}", _TEXT) for at in range(1, shape.columns)]
    texts = [
        [_text(row + column, shape.value_size) for column in range(1, shape.columns)]
        for row in range(VARIETY)
    ]
    numbers = iter(range(shape.rows))
    lsn = 1 << 24
    while chosen := list(islice(numbers, shape.rows_a_transaction)):
        frames = [streams.begin(lsn=lsn)]
        for number in chosen:
            key, table = divmod(number, shape.tables)
            oid = OID + table
            if key == 0:
                frames.append(streams.relation(columns, oid, f"t{table}"))
            row = [str(key), *texts[number % VARIETY]]
            frames.append(streams.insert(row, oid))
        frames.append(streams.commit(lsn))
        yield streams.wired(*frames)
        lsn += DISTANCE


def _text(number: int, size: int) -> str:
    word = f"{number * 7919:08}"
    return (word * (size // len(word) + 1))[:size]
