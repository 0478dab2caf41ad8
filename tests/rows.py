"""The outcome of reading, in a form that can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

import walrow

pa = pytest.importorskip("pyarrow")


@dataclass(eq=False)
class Rows:
    """One batch; equal to another of the same schema and values, NaN included."""

    table: str
    records: Any

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Rows) or self.table != other.table:
            return False
        a, b = self.records, other.records
        if not a.schema.equals(b.schema, check_metadata=True):
            return False
        # NaN is not equal to itself, but its bytes are.
        return bool(a.equals(b) or a.serialize().equals(b.serialize()))

    __hash__ = None  # type: ignore[assignment]


@dataclass
class Outcome:
    """All batches, and the error that ended them.

    Attributes:
        batches: All of them in order.
        error: The error's type and text.
    """

    batches: list[Rows] = field(default_factory=list)
    error: tuple[type, str] | None = None

    def tables(self) -> dict[str, list[dict[str, Any]]]:
        """All rows by table, with any division into batches."""
        tables: dict[str, list[dict[str, Any]]] = {}
        for batch in self.batches:
            tables.setdefault(batch.table, []).extend(batch.records.to_pylist())
        return tables


def outcome(batches: Iterable[walrow.Batch]) -> Outcome:
    """Takes all batches up to the end or an error."""
    result = Outcome()
    try:
        for batch in batches:
            result.batches.append(Rows(batch.table, pa.record_batch(batch)))
    except walrow.Error as error:
        result.error = (type(error), str(error))
    return result


def decode(decoder: walrow.Decoder, chunks: Iterable[Any]) -> Iterator[walrow.Batch]:
    """Feeds the chunks in order, then ends the stream."""
    for chunk in chunks:
        yield from decoder.feed(chunk)
    yield from decoder.finish()
