"""The clauses of a MERGE of net changes, which every engine writes in its own words."""

from __future__ import annotations

from typing import NamedTuple

from walrow._apply.items import NetChanges, Rules


class MergedColumn(NamedTuple):
    """A column in a MERGE.

    Attributes:
        name: Its name.
        place: Its number among the table's columns.
        is_key: Whether rows are found by it: it is never updated.
        is_kept: Whether some updates keep the target's value.
        is_needed: Whether a new row must have a value that was sent.
    """

    name: str
    place: int
    is_key: bool
    is_kept: bool
    is_needed: bool


class Merge(NamedTuple):
    """A MERGE. The columns of changes come from `net_table`.

    Attributes:
        columns: The table's columns.
        marker: The column that marks deleted rows. None if none does.
        deletes: Whether a delete removes a row of the target.
        marks_others: Whether rows that the source lacks are marked as deleted.
        unmarks_others: Whether rows without a mark are marked as not deleted.
    """

    columns: tuple[MergedColumn, ...]
    marker: str | None
    deletes: bool
    marks_others: bool
    unmarks_others: bool

    @property
    def keys(self) -> list[str]:
        """The columns of the key."""
        return [it.name for it in self.columns if it.is_key]

    @property
    def updates(self) -> bool:
        """Whether an update can change anything."""
        return self.marker is not None or not all(it.is_key for it in self.columns)


def merge_of(changes: NetChanges, rules: Rules) -> Merge:
    """The MERGE of net changes into a target."""
    is_soft = rules.deletes == "soft"
    columns = tuple(
        MergedColumn(
            name,
            place,
            name in changes.keys,
            name in changes.kept,
            name in changes.kept
            and name not in changes.nullable
            and rules.never_sent != "null",
        )
        for place, name in enumerate(changes.columns)
    )
    return Merge(
        columns,
        rules.deleted_column if is_soft else None,
        rules.deletes == "apply",
        is_soft and changes.overwrites,
        changes.lacks_marks and not (is_soft and changes.overwrites),
    )
