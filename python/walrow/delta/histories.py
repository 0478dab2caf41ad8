"""Targets with `mode="history"`, without Spark: all versions of a table's rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from walrow._apply.calls import Work
from walrow._apply.columns import own_columns
from walrow._apply.items import Applied
from walrow._apply.keys import KeyParts, key_values, parts_of, with_unique_keys
from walrow._apply.load_versions import compared, loaded_parts, replaced
from walrow._apply.merges import versions
from walrow._apply.modes import IS_CURRENT, VALID_TO, beside
from walrow._apply.tables import AppliedTable
from walrow._apply.targets import Commit
from walrow._apply.version_parts import (
    LoadPart,
    TransactionsPart,
    dated,
    loaded_columns,
    loaded_rows,
    next_part,
    opened_by_load,
)
from walrow._apply.versions import Fold, Source
from walrow._late import pa, pc
from walrow.delta.applying import Ready
from walrow.delta.failures import too_large
from walrow.delta.keeping import KeepingCall
from walrow.delta.merging import changeable, words
from walrow.delta.snapshots import Snapshot


class HistoryCall(KeepingCall):
    """One call that brings a history up to the end of a log, in one commit or several."""

    def _work(self, whole: Work, snapshot: Snapshot | None) -> Applied:
        """Takes the next load, or as many transactions as fit into the memory."""
        part = next_part(whole, self.limit)
        if part is None:
            raise too_large(
                self.target, self.table.name, "the changes of a transaction"
            )
        if isinstance(part, LoadPart):
            return self._load(whole, snapshot, part)
        return self._transactions(whole, snapshot, part)

    # ------------------------------------------------------------------ transactions

    def _transactions(
        self, work: Work, snapshot: Snapshot | None, part: TransactionsPart
    ) -> Applied:
        applied = work.applied
        fold = Fold(applied, self.rules, part.changes, part.times)
        if snapshot is None:
            # The target has nothing yet, so what cannot be written is refused before it is made.
            plain = self._kinds(
                applied, own_columns(applied.table.name, applied.own, self.rules)
            )
            source = fold.source(plain, None)
            self._rehearse(applied, lambda: [source.rows])
        ready = self._ready(work, snapshot)
        kinds = self._kinds(applied, ready.change.schema, ready.change.names)
        keys, columns = fold.needs()
        found = self._open_rows(ready, applied, keys, columns)
        source = fold.source(kinds, found)
        self._refuse_lost(ready, applied, source)
        count = len(part.changes)
        self._read(count)
        return self._written(work, ready, part, source, count)

    def _open_rows(
        self,
        ready: Ready,
        applied: AppliedTable,
        keys: pa.Table,
        columns: Sequence[str],
    ) -> pa.Table | None:
        """The open rows with some keys, and the values of some columns."""
        if not len(keys):
            return None
        names = ready.change.names
        added = {it.name for it in ready.change.added}
        chosen = [it for it in (*applied.keys, *columns) if names[it] not in added]
        chosen = list(dict.fromkeys(chosen))
        wanted = set(key_values([keys.column(it) for it in applied.keys]))
        first = keys.column(applied.keys[0])
        kind = ready.snapshot.schema.field(names[applied.keys[0]]).type
        values = pc.unique(first.cast(kind))
        rows = []
        for opened in self._opened(ready, [names[it] for it in chosen]):
            batch = opened.rename_columns(chosen)
            if not pa.types.is_floating(kind):
                # Quicker than Python's keys.
                is_near = pc.is_in(batch.column(applied.keys[0]), value_set=values)
                batch = batch.filter(is_near)
            found = key_values([batch.column(it) for it in applied.keys])
            rows.append(
                batch.filter(pa.array([it in wanted for it in found], pa.bool_()))
            )
        return pa.Table.from_batches(rows) if rows else None

    def _opened(self, ready: Ready, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of the open versions."""
        is_current = ready.change.names[IS_CURRENT]
        for batch in ready.snapshot.scan(list(dict.fromkeys([*columns, is_current]))):
            yield batch.filter(batch.column(is_current)).select(list(columns))

    # ------------------------------------------------------------------------ a load

    def _load(self, work: Work, snapshot: Snapshot | None, part: LoadPart) -> Applied:
        applied = work.applied
        if snapshot is None:
            self._rehearse(applied, lambda: loaded_rows(applied, part.lsn))
        ready = self._ready(work, snapshot)
        if ready.found.is_empty:
            return self._first_load(work, ready, part)
        kinds = self._kinds(applied, ready.change.schema, ready.change.names)
        rows = loaded_rows(applied, part.lsn)
        parts = parts_of(_loaded_bytes(work, part), self.limit)
        columns = loaded_columns(applied, part.lsn)
        own = [ready.change.names[it] for it in applied.columns]
        with loaded_parts(applied, kinds, rows, parts) as new:
            with KeyParts(parts, applied.keys, kinds) as old:
                for batch in self._opened(ready, own):
                    old.add(batch.rename_columns(applied.columns))
                source = compared(
                    applied,
                    kinds,
                    new,
                    old,
                    part.time,
                    columns=columns,
                    limit=self.limit,
                )
            if source is not None:
                self._refuse_lost(ready, applied, source)
                return self._written(work, ready, part, source, len(source.rows))
            with self._replaceable(ready, applied, part.time, parts) as old:
                count: Counter[str] = Counter()
                rows = replaced(
                    applied, new, old, part.time, columns=columns, count=count
                )
                return self._rewritten(work, ready, part, rows, count)

    def _replaceable(
        self, ready: Ready, applied: AppliedTable, time: int, parts: int
    ) -> KeyParts:
        """The rows that a load may change, with all columns, divided by their keys."""
        own = {name: it for it, name in ready.change.names.items()}
        schema = pa.schema(
            [(own.get(it.name, it.name), it.type) for it in ready.snapshot.schema]
        )
        moment = pa.scalar(time, pa.int64()).cast(pa.timestamp("us", "UTC"))
        found = KeyParts(parts, applied.keys, schema)
        for batch in ready.snapshot.scan(ready.snapshot.schema.names):
            rows = batch.rename_columns(schema.names)
            ends = pc.greater_equal(rows.column(VALID_TO), moment)
            is_chosen = pc.or_kleene(rows.column(IS_CURRENT), ends)
            found.add(rows.filter(is_chosen).cast(schema))
        return found

    def _rewritten(
        self,
        work: Work,
        ready: Ready,
        part: LoadPart,
        rows: Iterator[pa.RecordBatch],
        count: Counter[str],
    ) -> Applied:
        """Replaces all rows that a load may change: more differ than fit into the memory."""
        token = dated(self.token(work, ready.found), part)

        def write() -> Commit:
            where = changeable(ready.change.names, part.time)
            self._writer(work.applied, ready, token).overwrite(rows, where)
            return Commit(True, *(count[it] for it in ("opened", "closed", "removed")))

        done = self._committed(ready.snapshot, token, work.nothing, write)
        changed = count.total()
        return replace(done, rows=changed, net_rows=count["opened"])

    def _first_load(self, work: Work, ready: Ready, part: LoadPart) -> Applied:
        """Writes the rows of a load as they are read: the target has no open version."""
        applied = work.applied
        loaded = opened_by_load(applied, part)
        if not applied.has_unique_keys:
            parts = parts_of(_loaded_bytes(work, part), self.limit)
            loaded = with_unique_keys(loaded, applied, parts)
        token = dated(self.token(work, ready.found), part)
        return self._appended(work, ready, token, loaded)

    # ---------------------------------------------------------------------- the commit

    def _written(
        self,
        work: Work,
        ready: Ready,
        part: LoadPart | TransactionsPart,
        source: Source,
        count: int,
    ) -> Applied:
        applied = work.applied
        token = dated(self.token(work, ready.found), part)

        def write() -> Commit:
            inserted = [*applied.columns, *beside(self.rules.mode).names]
            own = words(ready.change.names)
            merge = versions(applied.keys, inserted, source.closed, own)
            return self._writer(applied, ready, token).merged(source.rows, merge)

        done = self._committed(ready.snapshot, token, work.nothing, write)
        return replace(
            done, rows=count, net_rows=source.opened, never_sent=source.never_sent
        )

    # ------------------------------------------------------------------------- columns

    def _kinds(
        self,
        applied: AppliedTable,
        schema: pa.Schema,
        names: Mapping[str, str] | None = None,
    ) -> pa.Schema:
        """The types that the target has for the table's columns."""
        own = names or {it: it for it in applied.columns}
        return pa.schema([(it, schema.field(own[it]).type) for it in applied.columns])

    def _refuse_lost(self, ready: Ready, applied: AppliedTable, source: Source) -> None:
        from walrow.delta.rows import path_texts, refuse_lost_texts

        texts = path_texts(applied.own, ready.snapshot.state.partition_by)
        refuse_lost_texts(source.rows, texts, applied, self.target)


def _loaded_bytes(work: Work, part: LoadPart) -> int:
    """The bytes of a load in the stream, at most."""
    return sum(size for begin, _, size in work.batch.pieces if begin <= part.lsn)
