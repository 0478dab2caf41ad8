"""Histories and changes without Spark: the common parts of targets that keep old rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._apply.erased_rows import IMAGE, OLD_IMAGES, erased_columns, erased_rows
from walrow._apply.merges import erasing
from walrow._apply.modes import LSN, SEQ, beside
from walrow._apply.tables import change_rows
from walrow._apply.targets import Commit, Conflict
from walrow.delta.applying import Call
from walrow.delta.merging import words
from walrow.delta.rows import path_texts, refuse_lost_texts
from walrow.delta.writing import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa

    from walrow._apply.calls import Work
    from walrow._apply.columns import Evolution
    from walrow._apply.items import Applied, Token
    from walrow._apply.tables import AppliedTable
    from walrow._apply.targets import Found
    from walrow.delta.snapshots import Snapshot


class Ready(NamedTuple):
    """A target that has its columns, and its record.

    Attributes:
        snapshot: The target.
        found: Its record.
        change: Its columns.
    """

    snapshot: Snapshot
    found: Found
    change: Evolution

    def names(self) -> dict[str, str]:
        """The target's name of each of walrow's columns."""
        return dict(self.change.names)


class KeepingCall(Call):
    """One call for a target that keeps old rows."""

    def _ready(self, work: Work, snapshot: Snapshot | None) -> Ready:
        """Creates the target, or gives it its columns."""
        if snapshot is None:
            snapshot = self._created(work.applied)
        found, change = self._compared(work, snapshot, overwrites=False)
        snapshot = self._evolved(work, snapshot, change)
        if snapshot.version != int(found.version):
            found = snapshot.find()
        return Ready(snapshot, found, change)

    def _rehearsed(
        self, applied: AppliedTable, batches: Callable[[], Iterable[Any]]
    ) -> None:
        """Looks whether rows can be written, so that no target is left that cannot be."""
        if texts := path_texts(applied.own, self.partition_by):
            for rows in batches():
                refuse_lost_texts(rows, texts, applied, self.target)

    def _committed(
        self,
        ready: Ready,
        token: Token,
        done: Applied,
        commit: Callable[[Writer], Commit],
        applied: AppliedTable,
    ) -> Applied:
        """Makes a commit, and looks whether it was made."""
        snapshot = ready.snapshot
        self._refuse_repeated(snapshot, token)
        self.record.refuse_erased_meanwhile()
        done = replace(
            done,
            committed=True,
            end=token.end,
            token=token.to_json(),
            since=token.true_since,
        )
        self.tried[token.run] = done
        made = commit(Writer(snapshot, applied, self.rules, ready.change, token))
        if snapshot.transaction(token) != int(token.end):
            raise Conflict
        # It is known now.
        del self.tried[token.run]
        return replace(
            done, inserted=made.inserted, updated=made.updated, deleted=made.deleted
        )

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
        self.tried[token.run] = done
        if not len(rows) and not columns:
            snapshot.record_only(token)
        else:
            snapshot.merge(
                rows,
                erasing(columns, words(own), has_images=self.rules.mode == "changes"),
                token,
                streamed=True,
                table=self.table.name,
                columns=applied.columns,
            )
        if snapshot.transaction(token) != int(token.end):
            raise Conflict
        del self.tried[token.run]
        return done

    def _places(
        self, snapshot: Snapshot, names: dict[str, str]
    ) -> Iterator[pa.RecordBatch]:
        """The commit LSN and the seq of the target's rows, and whether they are old images."""
        import pyarrow as pa
        import pyarrow.compute as pc

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
