"""Histories and changes without Spark: the common parts of targets that keep old rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from walrow._apply.calls import Work
from walrow._apply.erased_rows import IMAGE, OLD_IMAGES, erased_columns, erased_rows
from walrow._apply.items import Applied, Token
from walrow._apply.merges import erasing
from walrow._apply.modes import LSN, SEQ, beside
from walrow._apply.tables import AppliedTable, change_rows
from walrow._apply.targets import Commit, Found
from walrow._late import pa, pc
from walrow.delta.applying import Call, Ready
from walrow.delta.merging import words
from walrow.delta.snapshots import Snapshot


class KeepingCall(Call):
    """One call for a target that keeps old rows."""

    def _appended(
        self, work: Work, ready: Ready, token: Token, rows: Iterable[pa.RecordBatch]
    ) -> Applied:
        """Adds rows as they are read."""
        count = 0

        def counted() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for batch in rows:
                count += len(batch)
                self._read(len(batch))
                yield batch

        def append() -> Commit:
            self._writer(work.applied, ready, token).append(counted())
            return Commit(True, count, 0, 0)

        done = self._committed(ready.snapshot, token, work.nothing, append)
        return replace(done, rows=count, net_rows=count)

    # ---------------------------------------------------------------- erasures

    def _followed(
        self, snapshot: Snapshot, found: Found, applied: AppliedTable
    ) -> Applied | None:
        """Removes the rows that were erased from the log, and the values of erased columns.

        The record keeps its position, so it begins another line.
        """
        token = found.token
        if token is None or not self.record.lacks_erasure(token):
            return None
        self.record.start(found, applied.keys)
        snapshot.guard(token)
        names = {it.lower(): it for it in snapshot.schema.names}
        own = {name: names[name.lower()] for name in beside(self.rules.mode).names}
        rows = erased_rows(self.record, applied, token, self._places(snapshot, own))
        columns = erased_columns(self.record, snapshot.schema.names, applied.keys)
        token, done = self.erased(token, found, len(rows))

        def erase() -> Commit:
            if not len(rows) and not columns:
                snapshot.record_only(token)
                return Commit(True)
            snapshot.merge(
                rows,
                erasing(columns, words(own), has_images=self.rules.mode == "changes"),
                token,
                streamed=True,
                table=self.table.name,
                columns=applied.columns,
            )
            return Commit(True)

        return self._committed(snapshot, token, done, erase)

    def _places(
        self, snapshot: Snapshot, names: dict[str, str]
    ) -> Iterator[pa.RecordBatch]:
        """The commit LSN and the seq of the target's rows, and whether they are old images."""
        has_images = self.rules.mode == "changes"
        columns = [names[LSN], names[SEQ]]
        if has_images:
            columns.append(names["_change_type"])
        for batch in snapshot.scan(columns):
            lsn, seq = batch.column(names[LSN]), batch.column(names[SEQ])
            is_old = (
                pc.is_in(batch.column(columns[-1]), value_set=pa.array(OLD_IMAGES))
                if has_images
                else pa.array([False] * len(batch), pa.bool_())
            )
            yield pa.record_batch([lsn, seq, is_old], [LSN, SEQ, IMAGE])


class ChangesCall(KeepingCall):
    """One call that adds changes to a target, in one commit."""

    def _work(self, whole: Work, snapshot: Snapshot | None) -> Applied:
        """Adds all changes."""
        applied, batch = whole.applied, whole.batch

        def rows() -> Iterator[pa.RecordBatch]:
            return change_rows(applied, int(batch.start), int(batch.end))

        if snapshot is None:
            self._rehearse(applied, rows)
        ready = self._ready(whole, snapshot)
        token = self.token(whole, ready.found)
        return self._appended(whole, ready, token, rows())
