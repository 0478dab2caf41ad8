"""Upkeep of a Delta table: fewer files, no old ones, and a record that history keeps."""

from __future__ import annotations

import contextlib
import datetime as dt
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from walrow._amounts import duration
from walrow._apply.targets import Conflict
from walrow._results import Result, result
from walrow.delta.applying import require
from walrow.delta.failures import by_spark
from walrow.delta.files import writer_properties
from walrow.delta.snapshots import Place, Snapshot
from walrow.errors import ApplyError, OptionError
from walrow.typing import Duration


@result
class Maintained(Result):
    """The work that upkeep has done.

    Attributes:
        added: The number of new files with the rows of others.
        removed: The number of files that they replace.
        vacuumed: The number of files that were deleted.
        renewed: Whether the record was written again, as it was old.
    """

    added: int = 0
    removed: int = 0
    vacuumed: int = 0
    renewed: bool = False


def maintain(
    target: str,
    *,
    compact: bool = True,
    z_order: bool = False,
    vacuum: Duration | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> Maintained:
    """Joins small files, removes old ones, and keeps the record. Call it once a day.

    ```python
    walrow.delta.maintain("delta:/lake/orders", z_order=True, vacuum="7d")
    ```

    Args:
        target: The target, as in `apply_changes`.
        compact: Whether small files are joined.
        z_order: Whether all files are written again in the order of the key, so that changes
            of neighbouring keys copy few files. Needs a record.
        vacuum: Deletes files that no version of this age or younger has: `"7d"`. Default: none. It
            must not be less than the table's own retention, of 7 days.
        storage_options: As in `apply_changes`.

    Returns:
        The work that was done.

    Raises:
        ApplyError: Another writer was first (`conflict`), the target has no record
            (`no_token`), or deltalake does not know the table's features (`engine`).
        OptionError: The options are invalid, or there is no such table.
    """
    require()
    hours = None if vacuum is None else int(duration(vacuum, "vacuum") / 3600)
    place = Place(target, storage_options)
    try:
        # It may be refused. The files that are joined next are too young for it.
        vacuumed = 0 if hours is None else _vacuumed(place, hours)
        done = Maintained(vacuumed=vacuumed)
        if compact or z_order:
            done = _compacted(place, done, by_key=z_order)
        return replace(done, renewed=_renewed(place))
    except Conflict:
        text = f"{target}: another writer was first; call it again"
        raise ApplyError(text, code="conflict", target=target) from None


def _opened(place: Place) -> Snapshot:
    snapshot = place.look()
    if snapshot is None:
        text = f"target {place.target} does not exist: apply_changes makes it"
        raise OptionError(text)
    snapshot.guard(snapshot.find().token)
    return snapshot


def _compacted(place: Place, done: Maintained, *, by_key: bool) -> Maintained:
    """Joins files. The commit must not have the record: deltalake drops a part of it there."""
    snapshot = _opened(place)
    if snapshot.state.is_mapped:
        text = "deltalake joins no files of a table with column mapping"
        raise by_spark(place.target, text)
    keys: list[str] = []
    if by_key:
        token = snapshot.find().token
        if token is None:
            text = f"{place.target}: it has no record, which names the key"
            raise ApplyError(text, code="no_token", target=place.target)
        known = {it.lower(): it for it in snapshot.schema.names}
        paths = {it.lower() for it in snapshot.state.partition_by}
        keys = [known[it.lower()] for it in token.keys if it.lower() not in paths]

    def joined(_stopped: threading.Event) -> Any:
        optimize = snapshot.table.optimize
        properties = writer_properties(snapshot.schema)
        if keys:
            return optimize.z_order(keys, writer_properties=properties)
        return optimize.compact(writer_properties=properties)

    counts = snapshot.commit(joined)
    return replace(
        done, added=counts["numFilesAdded"], removed=counts["numFilesRemoved"]
    )


def _vacuumed(place: Place, hours: int) -> int:
    """Deletes old files, and what writers that were killed have left on a disk."""
    snapshot = _opened(place)
    found = snapshot.commit(
        lambda _: snapshot.table.vacuum(retention_hours=hours, dry_run=False)
    )
    count = len(found)
    folder = Path(place.uri)
    for path in folder.rglob("*.parquet#*") if folder.is_dir() else ():
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - _DAY:
                path.unlink()
                count += 1
    return count


def _renewed(place: Place) -> bool:
    """Writes the record again if it is old: history keeps commits for 30 days."""
    snapshot = _opened(place)
    found = snapshot.find()
    token = found.token
    if token is None or found.refusal is not None or snapshot.age(token) < _WEEK:
        return False
    again = token._replace(run=uuid.uuid4().hex[:12], version=found.version)
    snapshot.record_only(again)
    return True


_DAY = 24 * 3600
_WEEK = dt.timedelta(days=7)
