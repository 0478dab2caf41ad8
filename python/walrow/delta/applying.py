"""Keeps Delta tables as the tables of a log, exactly once, without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from walrow import _late
from walrow._apply import calls
from walrow._apply.calls import Work, committed
from walrow._apply.columns import Evolution, own_columns
from walrow._apply.items import Applied, Token
from walrow._apply.keys import parts_of, with_unique_keys
from walrow._apply.net_table import NetTable
from walrow._apply.options import DeltaApplyOptions
from walrow._apply.parts import ends, first_end, halved
from walrow._apply.statistics import statistics
from walrow._apply.tables import AppliedTable
from walrow._apply.targets import Commit, Conflict, Found
from walrow._apply.units import LogContents
from walrow._late import pa
from walrow._lsn import Lsn
from walrow.delta.columns import check_new, evolved
from walrow.delta.failures import by_spark, too_large
from walrow.delta.guards import bad_partitions
from walrow.delta.rows import (
    Count,
    Gathered,
    gather,
    no_rows,
    path_texts,
    refuse_lost_texts,
    shaped,
    streamed,
)
from walrow.delta.snapshots import Place, Snapshot
from walrow.delta.threads import refuse_fork
from walrow.delta.writing import Writer


def require() -> None:
    """Imports what this needs. Says how to install it.

    Raises:
        ModuleNotFoundError: It is not there.
        OptionError: The process was forked.
    """
    refuse_fork()
    _late.require("pyarrow", "deltalake", part="delta")


class Ready(NamedTuple):
    """A target that has its columns, and its record.

    Attributes:
        snapshot: The target.
        found: Its record.
        change: Its columns.
        net: The net changes in memory, as the target takes them. None if the range has no changes.
    """

    snapshot: Snapshot
    found: Found
    change: Evolution
    net: Gathered | None = None


class Call(calls.Call):
    """One call with deltalake."""

    engine = "delta"

    def __init__(self, log: LogContents, options: DeltaApplyOptions) -> None:
        super().__init__(log, options)
        self.place = Place(options.target, options.storage_options)
        self.progress = options.progress
        self.rows_read = 0
        self.partition_by = options.partition_by
        #: Net changes are there in Arrow, once more for deltalake, and joined.
        self.limit = options.memory // _SHARES
        #: The calls that may have committed.
        self.tried: dict[str, Applied] = {}

    def run(self) -> Applied:
        """Makes one commit after the other, until the target has everything.

        Raises:
            ApplyError: As in `apply_changes`.
        """
        return self.commits(self._one)

    def _one(self) -> Applied:
        """Makes one commit, if the target lacks anything."""
        snapshot = self.place.look()
        found = None if snapshot is None else snapshot.find()
        applied = self.applied(found)
        if found is not None and found.token is not None:
            # The answer to a commit may have been lost.
            own = self.tried.get(found.token.run)
            if own is not None:
                return own
        if snapshot is not None and found is not None:
            done = self._followed(snapshot, found, applied)
            if done is not None:
                return done
        whole = self.begin(applied, found, least_units=1)
        if isinstance(whole, Applied):
            if snapshot is None:
                self._create(applied)
            return whole
        if snapshot is not None and found is not None:
            snapshot.guard(found.token)
        return self._work(whole, snapshot)

    def _work(self, whole: Work, snapshot: Snapshot | None) -> Applied:
        """Makes one commit with as much of the work as fits into the memory."""
        work, net = self._part(whole)
        if snapshot is None:
            self._rehearse(
                work.applied,
                lambda: self._streamed(work, Count()) if net is None else [net.rows],
            )
        ready = self._ready(work, snapshot, net, overwrites=net is None)
        return self._net_applied(work, ready)

    def _followed(
        self, snapshot: Snapshot, found: Found, applied: AppliedTable
    ) -> Applied | None:
        """Removes rows that were erased from the log. None if the target has no such rows.

        A current table has taken the deletes of these rows.
        """

    # ------------------------------------------------------------------ the parts

    def _part(self, whole: Work) -> tuple[Work, Gathered | None]:
        """The largest part of the work that fits into the memory, and its net changes.

        They are None if they are written as they are read.

        Raises:
            ApplyError: Not even one transaction does.
        """
        end: int | None = first_end(whole.batch, self.limit)
        while True:
            work = whole if end is None else self._until(whole, end)
            if self._is_streamed(work):
                return work, None
            net = self._gathered(work)
            if net is not None:
                return work, net
            last = int(work.batch.end)
            end = halved(ends(self.log, whole.batch, last), last)
            if end is None:
                one = "a load" if whole.batch.barrier is not None else "a transaction"
                raise too_large(self.target, self.table.name, f"the rows of {one}")

    def _until(self, whole: Work, end: int) -> Work:
        """The same work up to an LSN."""
        work = self.begin(
            whole.applied, whole.found, least_units=1, end=Lsn(min(end, self.end))
        )
        if isinstance(work, Applied):
            # Segments and transactions with rows end there.
            raise Conflict
        return work

    def _is_streamed(self, work: Work) -> bool:
        """Whether rows are written as they are read: they replace all others."""
        rules = self.rules
        return rules.deletes != "soft" and work.batch.overwrites(rules.deletes)

    def _gathered(self, work: Work) -> Gathered | None:
        table = self._table(work, self.limit)
        if not work.batch.units:
            return no_rows(table)
        return gather(table, table.whole(), self.limit, self._read)

    def _table(self, work: Work, memory: int) -> NetTable:
        """The table, whose fold has so many bytes of rows in memory, and the rest in a file."""
        table = work.applied.net_table(work.batch, self.rules)
        return table._replace(fold={**table.fold, "spool_memory": memory})

    # ---------------------------------------------------------------- the target

    def _create(self, applied: AppliedTable) -> None:
        """Creates the target, without rows."""
        name = applied.table.name
        schema = own_columns(name, applied.own, self.rules)
        check_new(name, self.target, schema, self.partition_by)
        if reason := bad_partitions(schema, self.partition_by):
            raise by_spark(self.target, reason, table=name)
        known = {it.lower(): it for it in schema.names}
        partition_by = [known[it.lower()] for it in self.partition_by]
        properties = {_FILE_SIZE: str(_FILE_BYTES), **statistics(schema, partition_by)}
        self.place.create(schema, partition_by, properties)

    def _created(self, applied: AppliedTable) -> Snapshot:
        """Creates the target, and opens it."""
        self._create(applied)
        snapshot = self.place.look()
        if snapshot is None:
            raise Conflict
        return snapshot

    def _rehearse(
        self, applied: AppliedTable, batches: Callable[[], Iterable[Any]]
    ) -> None:
        """Looks whether rows can be written, so that no target is left that cannot be."""
        if texts := path_texts(applied.own, self.partition_by):
            for rows in batches():
                refuse_lost_texts(rows, texts, applied, self.target)

    def _ready(
        self,
        work: Work,
        snapshot: Snapshot | None,
        net: Gathered | None = None,
        *,
        overwrites: bool = False,
    ) -> Ready:
        """Creates the target, or gives it its columns, unless it cannot take the changes."""
        applied = work.applied
        if snapshot is None:
            snapshot = self._created(applied)
        found, change = self._compared(work, snapshot, overwrites=overwrites)
        if net is not None:
            texts = path_texts(change.schema, snapshot.state.partition_by)
            own = [it for it in applied.columns if change.names[it] in texts]
            refuse_lost_texts(net.rows, own, applied, self.target)
        ready = self._shaped(work, net, Ready(snapshot, found, change))
        snapshot = self._evolved(work, snapshot, change)
        if snapshot.version != int(found.version):
            # The version before the batch is a new one, and so may be its rows.
            change = change._replace(added=())
            ready = self._shaped(work, net, Ready(snapshot, snapshot.find(), change))
        return ready

    def _compared(
        self, work: Work, snapshot: Snapshot, *, overwrites: bool
    ) -> tuple[Found, Evolution]:
        """The target as it is, unless others have written a record, and how its columns change."""
        applied, before = work.applied, work.found
        found = snapshot.find()
        if (found.token, found.refusal) != _record(work):
            raise Conflict
        if before is not None:
            token = None if work.line is None else before.token
            known = {it.lower() for it in snapshot.schema.names}
            self.record.refuse_other_kind(known, before)
            self.record.refuse_dropped(known, token, applied, work.batch)
        name = applied.table.name
        change = evolved(
            name,
            self.target,
            own_columns(name, applied.own, self.rules),
            snapshot.schema,
            snapshot.state,
            overwrites=overwrites,
            has_old_rows=self.rules.mode != "current",
        )
        return found, change

    def _evolved(self, work: Work, snapshot: Snapshot, change: Evolution) -> Snapshot:
        """The target with its new columns, and with right statistics."""
        if change.added:
            snapshot.add_columns(change.added)
            snapshot = self._again(_record(work))
        if snapshot.set_statistics(change.schema):
            snapshot = self._again(_record(work))
        return snapshot

    def _again(self, record: tuple[Any, Any]) -> Snapshot:
        """The target after a commit of this call, unless another call has written a record."""
        snapshot = self.place.look()
        if snapshot is None:
            raise Conflict
        found = snapshot.find()
        if (found.token, found.refusal) != record:
            raise Conflict
        return snapshot

    def _shaped(self, work: Work, net: Gathered | None, ready: Ready) -> Ready:
        """The net changes, with values of rows that have other keys in this snapshot."""
        if net is None:
            return ready
        found = shaped(
            net,
            work.applied,
            self.rules,
            ready.change,
            # Without rows, there are no old values.
            None if ready.found.is_empty else ready.snapshot.scan,
            overwrites=work.batch.overwrites(self.rules.deletes),
        )
        return ready._replace(net=found)

    # ---------------------------------------------------------------- the commit

    def _net_applied(self, work: Work, ready: Ready) -> Applied:
        """Applies net changes."""
        net, count = ready.net, Count()
        overwrites = work.batch.overwrites(self.rules.deletes)
        token = self.token(work, ready.found)
        writer = self._writer(work.applied, ready, token)

        def write() -> Commit:
            nonlocal count
            if net is None:
                return writer.overwrite(self._streamed(work, count))
            count = Count(net.tally.events, net.tally.rows, net.never_sent)
            return writer.merge(
                net.rows,
                overwrites=overwrites,
                lacks_marks=self.lacks_marks(work, ready.found),
            )

        done = replace(work.nothing, overwritten=overwrites)
        return replace(
            self._committed(ready.snapshot, token, done, write),
            rows=count.events,
            net_rows=count.rows,
            never_sent=count.never_sent,
        )

    def _writer(self, applied: AppliedTable, ready: Ready, token: Token) -> Writer:
        return Writer(ready.snapshot, applied, self.rules, ready.change, token)

    def _committed(
        self,
        snapshot: Snapshot,
        token: Token,
        done: Applied,
        commit: Callable[[], Commit],
    ) -> Applied:
        """Makes a commit, and looks whether it was made."""
        done_before = snapshot.transaction(token)
        if done_before is not None and done_before >= int(token.end):
            # deltalake would commit it again.
            raise Conflict
        # By now, the changes were read.
        self.record.refuse_erased_meanwhile()
        self.tried[token.run] = committed(done, token, Commit(True))
        made = commit()
        if snapshot.transaction(token) != int(token.end):
            raise Conflict
        # It is known now.
        del self.tried[token.run]
        return committed(done, token, made)

    def _streamed(self, work: Work, count: Count) -> Iterator[pa.RecordBatch]:
        # All rows are read once, in their order. So the fold's index has the memory.
        table = self._table(work, self.limit // _SHARES)
        batch, applied = work.batch, work.applied
        found = streamed(table, batch, applied, self.rules, count)
        if batch.is_plain_load and not applied.has_unique_keys:
            # The fold, which finds equal keys, is left out.
            parts = parts_of(batch.stream_bytes, self.limit)
            found = with_unique_keys(found, applied, parts)
        for rows in found:
            self._read(len(rows))
            yield rows

    def _read(self, rows: int) -> None:
        """Reports rows that were read."""
        self.rows_read += rows
        if self.progress is not None:
            self.progress(self.rows_read)


def _record(work: Work) -> tuple[Token | None, str | None]:
    """The record that the target had before the work."""
    before = work.found
    return (None, None) if before is None else (before.token, before.refusal)


_SHARES = 8
_FILE_SIZE, _FILE_BYTES = "delta.targetFileSize", 32 << 20
