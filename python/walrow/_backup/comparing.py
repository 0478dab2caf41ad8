"""Compares the rows of two tables by digests, without all rows of either in memory.

```text
row ─► text of its columns ─► SHA-256 ─► hash (8 bytes) ─► sum ┐
       text of its key ─────► SHA-256 ─► bucket (12 bits) ─────┴► 4096 sums, and counts
```

Two tables with equal sums and counts are equal. Otherwise, a row that differs is in a bucket that
differs, as both sides put a key into the same bucket. So only rows of such buckets are read again,
with their keys. A table without a key has buckets of whole rows.

A server computes the same in SQL: see scratch_tables.py. The text of a row is the result of its
`format` with `%L` for each column: no two rows have the same.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Self

__all__ = [
    "BUCKETS",
    "Buckets",
    "Found",
    "Key",
    "Kind",
    "Row",
    "Rows",
    "chosen_buckets",
    "differences",
    "hash_and_bucket",
    "literal",
    "row_text",
]

#: The texts of a row's key. None if its table has no key.
Key: TypeAlias = tuple[str | None, ...] | None

Kind: TypeAlias = Literal["missing", "extra", "different"]

BUCKETS = 4096


class Row(NamedTuple):
    """A row whose values are not kept.

    Attributes:
        key: The texts of its key.
        hash: Its hash.
    """

    key: Key
    hash: int


#: Rows, and how often each is there.
Rows: TypeAlias = Counter[Row]


class Found(NamedTuple):
    """A key with a difference.

    Attributes:
        kind: `missing` if only the first table has it, `extra` if only the second one does, or
            `different`.
        key: The key. None for a table without one.
        rows: The number of rows: 1, except without a key.
    """

    kind: Kind
    key: Key
    rows: int


class Buckets:
    """The counts and the sums of a table.

    Attributes:
        counts: The number of rows, by bucket.
        sums: The sum of their hashes, by bucket.
    """

    def __init__(self) -> None:
        """Begins without rows."""
        self.counts = [0] * BUCKETS
        self.sums = [0] * BUCKETS

    def add(self, bucket: int, hash_: int, rows: int = 1) -> Self:
        """Adds a row, or many with the sum of their hashes."""
        self.counts[bucket] += rows
        self.sums[bucket] += hash_
        return self

    @property
    def rows(self) -> int:
        """The number of all rows."""
        return sum(self.counts)

    def differing(self, other: Buckets) -> list[int]:
        """The buckets that differ."""
        mine = zip(self.counts, self.sums, strict=True)
        theirs = zip(other.counts, other.sums, strict=True)
        both = zip(mine, theirs, strict=True)
        return [at for at, (one, two) in enumerate(both) if one != two]


def chosen_buckets(
    differing: Sequence[int], one: Buckets, other: Buckets, most_rows: int
) -> list[int]:
    """The first buckets whose rows are read again: at least one, and not too many rows.

    Args:
        differing: The buckets that differ.
        one: The first table.
        other: The second table.
        most_rows: How many rows of both may be in memory.
    """
    chosen: list[int] = []
    rows = 0
    for bucket in differing:
        rows += one.counts[bucket] + other.counts[bucket]
        if chosen and rows > most_rows:
            break
        chosen.append(bucket)
    return chosen


def differences(one: Rows, other: Rows) -> list[Found]:
    """The keys whose rows differ, in the order of their keys."""
    only_one, only_other = _by_key(one - other), _by_key(other - one)
    found = [
        Found(_kind(key, only_one, only_other), key, 1)
        for key in only_one.keys() | only_other.keys()
        if key is not None
    ]
    found.sort(key=_order)
    if rows := only_one[None]:
        found.append(Found("missing", None, rows))
    if rows := only_other[None]:
        found.append(Found("extra", None, rows))
    return found


def _by_key(rows: Rows) -> Counter[Key]:
    counts: Counter[Key] = Counter()
    for row, count in rows.items():
        counts[row.key] += count
    return counts


def _kind(key: Key, one: Counter[Key], other: Counter[Key]) -> Kind:
    if key in one and key in other:
        return "different"
    return "missing" if key in one else "extra"


def _order(found: Found) -> list[tuple[int, str]]:
    # Numbers come in their order, and not 10 before 9.
    return [(len(text or ""), text or "") for text in found.key or ()]


def literal(value: str | None) -> str:
    r"""A value as `format` writes it with `%L`.

    >>> literal("it's"), literal("a\\b"), literal(None), literal("NULL")
    ("'it''s'", "E'a\\\\b'", 'NULL', "'NULL'")
    """
    if value is None:
        return "NULL"
    if "\\" in value:
        escaped = value.replace("\\", "\\\\").replace("'", "''")
        return f"E'{escaped}'"
    return f"'{value.replace(chr(39), chr(39) * 2)}'" if "'" in value else f"'{value}'"


def row_text(values: Iterable[str | None]) -> str:
    """The text of a row, or of its key."""
    return ",".join(map(literal, values))


def hash_and_bucket(text: str) -> tuple[int, int]:
    """The hash and the bucket of a text.

    >>> hash_and_bucket("'1'")
    (-7316622395460602490, 335)
    """
    digest = hashlib.sha256(text.encode()).digest()
    bucket = (digest[8] << 8 | digest[9]) & (BUCKETS - 1)
    return int.from_bytes(digest[:8], "big", signed=True), bucket
