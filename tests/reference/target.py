"""A target in memory that applies net changes as docs/net.md says, row by row.

It also refuses what the page says does not come: two rows of one key, an old key without its row,
a value that must be the target's and is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from walrow._log.net import Net

#: The mark of a row that was deleted, and is kept.
GONE = "_is_gone"

Row = dict[str, Any]


class Change(NamedTuple):
    """A row of a net, with the old key before it.

    Attributes:
        row: The row.
        head: The key under which the target has it. None if it is the same.
    """

    row: Row
    head: Row | None


class Target:
    """A copy of a table.

    Attributes:
        rows: The rows, by key.
        end: Up to where it has all changes.
    """

    def __init__(
        self,
        comparable: Callable[[Row], Any] = lambda key: tuple(key.values()),
        *,
        marks: bool = False,
    ) -> None:
        """Is empty.

        Args:
            comparable: Makes a key of columns that is equal in Python if the key is.
            marks: Whether deletes mark rows: `deletes="soft"`.
        """
        self.rows: dict[Any, Row] = {}
        self.end = 0
        self._comparable = comparable
        self._marks = marks

    @property
    def live(self) -> dict[Any, Row]:
        """The rows that are not marked."""
        return {key: row for key, row in self.rows.items() if GONE not in row}

    def apply(self, net: Net) -> None:
        """Applies a net."""
        count, seen, heads = net.rows, set(), 0
        removed: set[Any] = set()
        written: dict[Any, Row] = {}
        for row, head in self._changes(net):
            key = self._key(net, row)
            assert key not in seen, "a key has two rows"
            seen.add(key)
            heads += head is not None
            if row["_change_type"] == "delete" and row["_key_only"]:
                removed.add(key)
            elif (new := self._written(net, row, head)) is not None:
                written[key] = new
        assert (len(seen), heads) == (count, net.heads)
        for key in removed:
            self.rows.pop(key, None)
        self.rows |= written
        self.end = net.end

    def _changes(self, net: Net) -> Iterator[Change]:
        """The rows, with the old keys. Removes all rows at a truncate."""
        head, left = None, net.heads
        for number, row in enumerate(it for batch in net for it in _rows(batch)):
            kind = row["_change_type"]
            assert all(row[name] is None for name in row["_unsent"] or ())
            if kind == "truncate":
                assert number == 0, "a truncate comes first"
                self._clear(net)
            elif kind == "update_preimage":
                assert row["_key_only"] or self._marks
                assert head is None
                head = row
            else:
                if head is not None:
                    assert kind == "update_postimage"
                    assert row["_seq"] == head["_seq"]
                    assert row["_unsent"]
                    left -= 1
                else:
                    assert not left, "old keys come first"
                yield Change(row, head)
                head = None
        assert head is None

    def _clear(self, net: Net) -> None:
        assert net.clears
        assert net.barrier is not None
        kept = self.rows if self._marks else {}
        self.rows = {key: row | {GONE: True} for key, row in kept.items()}

    def _written(self, net: Net, row: Row, head: Row | None) -> Row | None:
        """The row to write. None for a mark of a row that is not there."""
        kind, unsent = row["_change_type"], row["_unsent"] or ()
        is_marked = kind == "delete" or (head is not None and not head["_key_only"])
        new = {name: row[name] for name in net.columns}
        if kind != "insert" and unsent:
            assert head is not None or set(unsent) <= set(net.kept)
            old = self.rows.get(self._key(net, head or row))
            if old is None:
                assert is_marked, "the target lacks a row"
                return None
            new |= {name: old.get(name) for name in unsent}
        return new | {GONE: True} if is_marked else new

    def _key(self, net: Net, row: Row) -> Any:
        return self._comparable({name: row[name] for name in net.keys})


def _rows(batch: Any) -> list[Row]:
    found: list[Row] = batch.to_pyarrow().to_pylist()
    return found
