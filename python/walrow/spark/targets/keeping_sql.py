"""The SQL of targets that keep old rows: versions that begin and end, and rows that were erased."""

# ruff: noqa: S608  (statements are put together here, from what `quoted` returns)

from __future__ import annotations

from collections.abc import Sequence

from walrow._apply.erased_rows import IMAGE
from walrow._apply.modes import IS_CURRENT, LSN, SEQ, VALID_FROM, VALID_TO
from walrow._apply.versions import MERGE_KEY
from walrow.spark.targets.sql import quoted


def versions(
    target: str,
    view: str,
    keys: Sequence[str],
    inserted: Sequence[str],
    closed: int | None,
) -> str:
    """The MERGE that closes versions and opens others.

    Args:
        target: The table.
        view: The rows, as `merge_rows` makes them.
        keys: The columns of the key.
        inserted: The columns of new versions.
        closed: When all other open versions end, in microseconds since 1970. None if they stay.
    """
    is_open = f"t.{quoted(IS_CURRENT)}"
    since, until = quoted(VALID_FROM), quoted(VALID_TO)
    matches = [
        f"t.{quoted(key)} = s.{quoted(f'{MERGE_KEY}{at}')}"
        for at, key in enumerate(keys)
    ]
    columns = ", ".join(map(quoted, inserted))
    values = ", ".join(f"s.{quoted(name)}" for name in inserted)
    clauses = [
        f"MERGE INTO {target} t USING {view} s ON {' AND '.join([*matches, is_open])}",
        # It would be empty: a later transaction has the same time.
        f"WHEN MATCHED AND t.{since} >= s.{until} THEN DELETE",
        f"WHEN MATCHED THEN UPDATE SET t.{until} = s.{until}, {is_open} = false",
        f"WHEN NOT MATCHED AND s.{since} IS NOT NULL "
        f"THEN INSERT ({columns}) VALUES ({values})",
    ]
    if closed is not None:
        time = f"timestamp_micros({closed})"
        clauses += [
            f"WHEN NOT MATCHED BY SOURCE AND {is_open} AND t.{since} >= {time} THEN DELETE",
            f"WHEN NOT MATCHED BY SOURCE AND {is_open} "
            f"THEN UPDATE SET t.{until} = {time}, {is_open} = false",
        ]
    return "\n".join(clauses)


def erasing(
    target: str, view: str, columns: Sequence[tuple[str, int]], *, has_images: bool
) -> str:
    """The MERGE that removes rows, and values of columns.

    Args:
        target: The table.
        view: The commit LSN and the seq of the rows, and whether each is an old image.
        columns: Columns of the target. Values of changes before an LSN are removed.
        has_images: Whether a change may have two rows: before it and after it.
    """
    lsn, seq = (f"t.{quoted(name)}" for name in (LSN, SEQ))
    on = f"{lsn} = s.{quoted(LSN)} AND {seq} = s.{quoted(SEQ)}"
    if has_images:
        kind = "t.`_change_type`"
        on += f" AND ({kind} IN ('delete', 'update_preimage')) = s.{quoted(IMAGE)}"
    clauses = [
        f"MERGE INTO {target} t USING {view} s ON {on}",
        "WHEN MATCHED THEN DELETE",
    ]
    if columns:
        which = " OR ".join(
            f"({lsn} < {end} AND t.{quoted(name)} IS NOT NULL)" for name, end in columns
        )
        values = ", ".join(
            f"t.{quoted(name)} = CASE WHEN {lsn} < {end} THEN NULL ELSE t.{quoted(name)} END"
            for name, end in columns
        )
        clauses.append(
            f"WHEN NOT MATCHED BY SOURCE AND ({which}) THEN UPDATE SET {values}"
        )
    return "\n".join(clauses)
