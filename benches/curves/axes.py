"""The axes: what grows, over which sizes, and the ways whose cost is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from curves.inputs import Shape

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes:
        name: What grows.
        about: The input, in words for the page.
        points: Its sizes, over three decades.
        shape: The input of a size.
        ways: Names of `curves.ways.WAYS`.
    """

    name: str
    about: str
    points: tuple[int, ...]
    shape: Callable[[int], Shape]
    ways: tuple[str, ...]


def decades(least: int) -> tuple[int, ...]:
    """Sizes over three decades: 1, 3, 10 and so on, up to 1,000 times the least one."""
    return tuple(least * step for step in (1, 3, 10, 30, 100, 300, 1000))


#: With 100 rows a transaction, a segment of this size ends after two.
TWO_TRANSACTIONS = 14_000

_OF_A_TABLE = ("read", "append", "read log", "state", "net")

AXES = (
    Axis(
        "rows",
        "One table of 6 columns, 100 rows a transaction.",
        decades(1_000),
        lambda size: Shape(rows=size),
        (*_OF_A_TABLE, "follow"),
    ),
    Axis(
        "columns",
        "One table, 2,000 rows, values of 8 bytes.",
        decades(1),
        lambda size: Shape(rows=2_000, columns=size),
        _OF_A_TABLE,
    ),
    Axis(
        "tables",
        "300 rows in each table. Each row belongs to another table than the row before.",
        decades(1),
        lambda size: Shape(rows=300 * size, tables=size),
        (*_OF_A_TABLE, "follow"),
    ),
    Axis(
        "transactions",
        "One table, one row a transaction.",
        decades(300),
        lambda size: Shape(rows=size, rows_a_transaction=1),
        (*_OF_A_TABLE, "follow"),
    ),
    Axis(
        "rows of one transaction",
        "One table of 6 columns, one transaction.",
        decades(1_000),
        lambda size: Shape(rows=size, rows_a_transaction=size),
        _OF_A_TABLE,
    ),
    Axis(
        "bytes of a value",
        "100 rows of a key and one text, 10 rows a transaction.",
        decades(1_000),
        lambda size: Shape(rows=100, columns=2, value_size=size, rows_a_transaction=10),
        _OF_A_TABLE,
    ),
    Axis(
        "segments",
        "A log with 200 rows in each segment.",
        decades(1),
        lambda size: Shape(rows=200 * size, segment_size=TWO_TRANSACTIONS),
        ("append", "open", "follow", "read log", "state", "net"),
    ),
    Axis(
        "chunks",
        "The same 100,000 rows, fed in more and smaller chunks: from 430 kB to 430 bytes.",
        decades(30),
        lambda _: Shape(rows=100_000),
        ("read chunks", "feed"),
    ),
)
