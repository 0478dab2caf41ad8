"""Targets with `mode="changes"`, without Spark: change rows are added as they are read."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from walrow._apply.appending import change_rows
from walrow._apply.targets import Commit
from walrow.delta.keeping import KeepingCall

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from walrow._apply.calls import Work
    from walrow._apply.items import Applied
    from walrow.delta.snapshots import Snapshot
    from walrow.delta.writing import Writer


class ChangesCall(KeepingCall):
    """One call that adds changes to a target, in one commit."""

    def _work(self, whole: Work, snapshot: Snapshot | None) -> Applied:
        """Adds all changes."""
        applied, batch = whole.applied, whole.batch

        def rows() -> Iterator[pa.RecordBatch]:
            return change_rows(applied, int(batch.start), int(batch.end))

        if snapshot is None:
            self._rehearsed(applied, rows)
        ready = self._ready(whole, snapshot)
        count = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for each in rows():
                count += len(each)
                self._read(len(each))
                yield each

        def append(writer: Writer) -> Commit:
            writer.append(counted())
            return Commit(True, count, 0, 0)

        token = self.token(whole, ready.found)
        done = self._committed(ready, token, whole.nothing, append, applied)
        return replace(done, rows=count, net_rows=count)
