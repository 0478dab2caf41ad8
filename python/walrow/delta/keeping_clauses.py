"""The words of deltalake for targets that keep old rows: versions that end, and rows that were erased."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from walrow._apply.erased_rows import IMAGE
from walrow._apply.modes import IS_CURRENT, LSN, SEQ, VALID_FROM, VALID_TO
from walrow._apply.versions import MERGE_KEY
from walrow.delta.merging import quoted


class KeepingClauses(NamedTuple):
    """The parts of a MERGE that opens and closes versions, or removes rows.

    Attributes:
        on: The condition for matching rows.
        delete: The condition for matching rows that are removed. None for all.
        update: The new values of the other matching rows.
        inserts: The condition for rows that are inserted.
        insert: Their values. Empty without such rows.
        other_deletes: The condition for rows that the source lacks, and that are removed.
        others: The condition for other rows that the source lacks, and that get new values.
        other_values: These values. Empty without such rows.
    """

    on: str
    delete: str | None
    update: Mapping[str, str]
    inserts: str = ""
    insert: Mapping[str, str] = {}
    other_deletes: str | None = None
    others: str = ""
    other_values: Mapping[str, str] = {}

    def added_to(self, merge: Any) -> Any:
        """Adds them to deltalake's builder."""
        merge = merge.when_matched_delete(self.delete)
        if self.update:
            merge = merge.when_matched_update(dict(self.update))
        if self.insert:
            merge = merge.when_not_matched_insert(dict(self.insert), self.inserts)
        if self.other_deletes is not None:
            merge = merge.when_not_matched_by_source_delete(self.other_deletes)
        if self.other_values:
            merge = merge.when_not_matched_by_source_update(
                dict(self.other_values), self.others
            )
        return merge


def versions(
    names: Mapping[str, str],
    keys: Sequence[str],
    inserted: Sequence[str],
    closed: int | None,
) -> KeepingClauses:
    """The MERGE that closes versions and opens others.

    Args:
        names: The target's name of each column.
        keys: The columns of the key.
        inserted: The columns of new versions.
        closed: When all other open versions end, in microseconds since 1970. None if they stay.
    """

    def own(name: str) -> str:
        return quoted(names[name])

    is_open = f"t.{own(IS_CURRENT)} = true"
    matches = (
        f"t.{own(key)} = s.{quoted(f'{MERGE_KEY}{at}')}" for at, key in enumerate(keys)
    )
    ended = {own(VALID_TO): f"s.{quoted(VALID_TO)}", own(IS_CURRENT): "false"}
    other_deletes, other_values = None, {}
    if closed is not None:
        time = _moment(closed)
        other_deletes = f"{is_open} AND t.{own(VALID_FROM)} >= {time}"
        other_values = {own(VALID_TO): time, own(IS_CURRENT): "false"}
    return KeepingClauses(
        " AND ".join([*matches, is_open]),
        # It would be empty: a later transaction has the same time.
        f"t.{own(VALID_FROM)} >= s.{quoted(VALID_TO)}",
        ended,
        f"s.{quoted(VALID_FROM)} IS NOT NULL",
        {own(name): f"s.{quoted(name)}" for name in inserted},
        other_deletes,
        is_open,
        other_values,
    )


def changeable(names: Mapping[str, str], time: int) -> str:
    """The condition for rows that a load may change: open versions, and versions of its time.

    Args:
        names: The target's name of each column.
        time: The valid time of the load, in microseconds since 1970.
    """
    is_current, until = quoted(names[IS_CURRENT]), quoted(names[VALID_TO])
    return f"{is_current} = true OR {until} >= {_moment(time)}"


def erasing(
    names: Mapping[str, str], columns: Sequence[tuple[str, int]], *, has_images: bool
) -> KeepingClauses:
    """The MERGE that removes rows, and values of columns.

    Args:
        names: The target's name of each column.
        columns: Columns of the target. Values of changes before an LSN are removed.
        has_images: Whether a change may have two rows: before it and after it.
    """
    lsn, seq = (f"t.{quoted(names[name])}" for name in (LSN, SEQ))
    on = f"{lsn} = s.{quoted(LSN)} AND {seq} = s.{quoted(SEQ)}"
    if has_images:
        kind = f"t.{quoted(names['_change_type'])}"
        on += f" AND ({kind} IN ('delete', 'update_preimage')) = s.{quoted(IMAGE)}"
    # Only the first clause that fits counts, so all columns are in one.
    which = " OR ".join(
        f"({lsn} < {end} AND t.{quoted(name)} IS NOT NULL)" for name, end in columns
    )
    values = {
        quoted(name): f"CASE WHEN {lsn} < {end} THEN NULL ELSE t.{quoted(name)} END"
        for name, end in columns
    }
    return KeepingClauses(on, None, {}, others=which, other_values=values)


def _moment(time: int) -> str:
    """A time, in microseconds since 1970."""
    return (
        f"arrow_cast(CAST({time} AS BIGINT), 'Timestamp(Microsecond, Some(\"UTC\"))')"
    )
