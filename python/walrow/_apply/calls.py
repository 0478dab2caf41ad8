"""One call of `apply_changes`, as far as every engine has it: its options, its record, its work."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from walrow._apply.columns import fits
from walrow._apply.holding import hold
from walrow._apply.items import Applied, Engine, Token
from walrow._apply.modes import check_mode
from walrow._apply.options import ApplyOptions
from walrow._apply.record import Record
from walrow._apply.tables import AppliedTable
from walrow._apply.targets import Commit, Conflict, Found
from walrow._apply.units import Batch, LogContents, loads_of, plan, plan_all
from walrow._late import pa
from walrow._log.marks import Why
from walrow._log.net_refusals import problems
from walrow._log.tables import begin_of
from walrow._lsn import Lsn
from walrow.errors import ApplyError, LogError, SchemaError


class Work(NamedTuple):
    """The work of a call.

    Attributes:
        batch: The part of the log to read.
        found: The target. None if it does not exist.
        line: The line of its commits. None for one that `resume_from` begins.
        nothing: The result of the call if another driver has done it.
    """

    applied: AppliedTable
    batch: Batch
    found: Found | None
    line: str | None
    nothing: Applied


class Quiet(Exception):  # noqa: N818 - it is no error
    """The log has no change of the table, and the target needs none: `done` is the result."""

    def __init__(self, done: Applied) -> None:
        super().__init__()
        self.done = done


class Call:
    """One call of `apply_changes`: its options, and the values that follow from them."""

    engine: Engine

    def __init__(
        self, log: LogContents, options: ApplyOptions, *, unit_size: int = 64 << 20
    ) -> None:
        """Takes the options, which are checked.

        Raises:
            SchemaError: The log has no such table, or two.
        """
        self.contents = log
        self.log = log.log
        self.target = options.target
        self.keys = options.keys
        self.rules = options
        check_mode(self.rules, options.keys)
        self.options = options.decoding()
        self.end = self.log.end
        if options.end is not None:
            self.end = min(self.log._log.lsn_of(options.end, "end"), self.end)
        self.table = log.tables.at(self.log, options.table, self.end)
        self.unit_size = unit_size
        self.record = Record(log, self.table, options)

    def applied(self, found: Found | None = None) -> AppliedTable:
        """The table, with its key and its columns, as a target needs it.

        A current table gets the rows since the last load. Other targets begin with the log, or
        with the first load whose key and types the later changes have, too.
        """
        token = None if found is None else found.token
        if not self.table.versions and (gone := self._without_changes(found)):
            return gone
        start = self.rules.resume_from or (Lsn(0) if token is None else token.end)
        mode = self.rules.mode
        if mode == "current":
            begins = [int(begin_of(self.log, self.table, self.end))]
            if self.rules.deletes != "apply" and token is not None:
                # A load leaves rows in the target. Their removed columns become NULL.
                begins.insert(0, token.begin)
        elif start and not (mode == "history" and self.record.has_gap(start)):
            begins = [0 if token is None else token.begin]
        else:
            begins = self._loads(start)
            if mode == "changes" or not begins:
                begins.insert(0, int(start))
        failure = None
        for begin in begins:
            try:
                return self._since(begin)
            except SchemaError as error:
                failure = error
        if mode != "changes":
            # A load comes first then.
            self._refuse_incomplete(start)
        if mode != "current" and start and self._loads(start):
            text = (
                f"{self.target} keeps rows from before the last load, and the key or the "
                f"columns have changed: use a new target. {failure}"
            )
            raise self.record.error(text, code="other_options") from failure
        raise failure or AssertionError

    def _since(self, begin: int) -> AppliedTable:
        """The table, for a target that has no earlier changes."""
        mode = self.rules.mode
        table = partial(
            AppliedTable.of,
            *(self.log, self.table, self.keys, self.options, mode),
            end=self.end,
        )
        applied = table(begin=begin)
        if mode == "current":
            return applied
        # ALTER TYPE leaves the versions of a table as they are.
        loads = {
            it.until for it in self.table.marks if it.code == Why.TYPE and it.until
        }
        for load in sorted(it for it in loads if applied.begin < it - 1 < self.end):
            for field in table(begin=load - 1).own:
                kind = applied.schema.field(field.name).type
                if not fits(field.type, kind):
                    text = (
                        f"{self.table.name}: column {field.name} is {kind} before the load that "
                        f"ends at {load}, and {field.type} after it"
                    )
                    raise SchemaError(text, table=self.table.name, column=field.name)
        return applied

    def _loads(self, start: Lsn) -> list[int]:
        """The commit LSNs of the table's loads after an LSN."""
        segments = self.contents.stretches(self.table.oid)
        return loads_of(self.log, segments, self.table, start, self.end)

    def attempts(self, attempt: Callable[[], Applied]) -> Applied:
        """Makes attempts until no other writer was first.

        Raises:
            ApplyError: They always were, or as in `apply_changes`.
        """
        for _ in range(_ATTEMPTS):
            try:
                return self.held(attempt())
            except Quiet as quiet:
                return self.held(quiet.done)
            except Conflict as conflict:
                cause = conflict.__cause__
        text = f"{self.target}: other writers were always first; call it again"
        raise ApplyError(text, code="conflict", target=self.target) from cause

    def commits(self, one: Callable[[], Applied]) -> Applied:
        """Makes one commit after the other, until the target has everything.

        Raises:
            ApplyError: As in `attempts`.
        """
        done = self.attempts(one)
        while done.committed and done.end < self.end:
            done = done.then(self.attempts(one))
        return done

    def held(self, done: Applied) -> Applied:
        """Registers the target at a result, so that the log keeps later changes."""
        if self.contents.is_by_hand and done.token is not None:
            hold(self.log, self.target, done.end, is_new=done.committed)
        return done

    def since(self, known: Applied) -> Applied | None:
        """The result, if the log has nothing new since an earlier call. None if it has.

        Raises:
            ApplyError: The table is not whole.
            LogError: Changes of the table were removed.
        """
        if self.rules.mode != "changes":
            self._refuse_incomplete(known.end)
        token = Token.from_json(known.token)
        if (
            token is None
            or (token.source, token.oid) != (self.log.source, self.table.oid)
            or token.mode != self.rules.mode
            or self.record.lacks_erasure(token)
            or known.target != self.target
            or known.end > self.log.end
            or known.end < (self.log.slot_start or 0)
            or known.end < self.contents.erased.get(self.table.oid, 0)
            or any(it.end > known.end for it in self.contents.record.gaps)
            or any(
                it.end > known.end and it.start < self.end
                for it in self.contents.stretches(self.table.oid)
            )
        ):
            return None
        self._refuse_pruned(known.end)
        return self._unchanged(token, known.end, self.end)

    def _unchanged(self, token: Token | None, start: Lsn, end: Lsn) -> Applied:
        """The result for a target that the log has nothing new for."""
        return Applied(
            self.table.name,
            self.target,
            start,
            max(start, end),
            token=None if token is None else token.to_json(),
            engine=self.engine,
            mode=self.rules.mode,
            since=None if token is None else token.true_since,
        )

    def _without_changes(self, found: Found | None) -> AppliedTable | None:
        """A table whose changes are all gone, as long as the target may have erased rows of it.

        Raises:
            Quiet: The target needs nothing.
        """
        oid, mode = self.table.oid, self.rules.mode
        removed, _ = self.contents.removed.get(oid, (None, ""))
        token = None if found is None else found.token
        if token is not None and token.oid == oid:
            start, line = self.record.start(found, token.keys)
            if mode != "changes":
                self._refuse_incomplete(start)
            if self.record.lacks_erasure(token):
                table, none = self.table, pa.schema([])
                return AppliedTable(self.log, table, token.keys, none, (), self.options)
            erased = self.contents.erased.get(oid, 0)
            needed = max(removed or 0, erased if mode == "current" else 0)
            if line is not None and (removed or erased) and start >= needed:
                raise Quiet(self._unchanged(token, start, self.end))
        if removed is not None:
            raise self._pruned(Lsn(0) if token is None else token.end)
        return None

    def begin(
        self,
        applied: AppliedTable,
        found: Found | None,
        *,
        least_units: int,
        end: Lsn | None = None,
    ) -> Work | Applied:
        """Compares what the target has with the log up to `end`. The result, if it has everything.

        Raises:
            ApplyError: As in `apply_changes`.
        """
        end = self.end if end is None else end
        start, line = self.record.start(found, applied.keys)
        mode = self.rules.mode
        if mode != "changes":
            self._refuse_incomplete(start)
        batch = self._planned(start, end, least_units, applied.begin)
        self.record.refuse_gap(start, batch)
        self.record.refuse_other_keys(found, applied, batch)
        self.record.refuse_another(found, batch)
        self.record.refuse_erased(start, batch)
        self.record.refuse_other_rows(found, applied, batch)
        if mode != "changes" or start:
            # Changes before a barrier are not needed. New changes begin where the log does.
            begin = start if batch.barrier is None else Lsn(batch.barrier.lsn)
            self._refuse_pruned(begin)
        nothing = self._unchanged(None if found is None else found.token, start, end)
        is_recorded = found is None or line is not None
        if is_recorded and (end <= start or not (batch.units or batch.barrier)):
            return nothing
        if self.contents.is_by_hand:
            hold(self.log, self.target, start, is_new=False)
        return Work(applied, batch, found, line, nothing)

    def _planned(self, start: Lsn, end: Lsn, least_units: int, begin: int) -> Batch:
        """The part of the log that a target needs which has the changes up to `start`.

        Changes before `begin` have no effect on it.
        """
        mode = self.rules.mode
        if mode == "current":
            planned = partial(
                plan, truncates=self.rules.truncates, least_units=least_units
            )
        else:
            gaps = self.contents.record.gaps if mode == "changes" else ()
            planned = partial(plan_all, first=max(start, begin), gaps=gaps)
        return planned(
            self.log,
            self.contents.stretches(self.table.oid),
            self.table,
            start,
            end,
            unit_size=self.unit_size,
        )

    def token(self, work: Work, before: Found) -> Token:
        """The record of the work."""
        return Token(
            self.log.source,
            self.table.name,
            self.table.oid,
            work.applied.keys,
            max(work.batch.start, work.batch.end),
            work.line if work.line is not None else before.version,
            uuid.uuid4().hex[:12],
            before.version,
            None if "columns" not in self.options else tuple(work.applied.columns),
            self.rules.deleted_column if self.rules.deletes == "soft" else None,
            mode=self.rules.mode,
            erasures=self.contents.erasures.get(self.table.oid, 0),
            begin=work.applied.begin,
        )

    def erased(self, token: Token, found: Found, rows: int) -> tuple[Token, Applied]:
        """The record and the result of a commit that removes erased rows.

        The position stays, so another line of commits begins.
        """
        token = token._replace(
            line=found.version,
            run=uuid.uuid4().hex[:12],
            version=found.version,
            erasures=self.contents.erasures.get(self.table.oid, 0),
        )
        self.record.refuse_erased_meanwhile()
        done = self._unchanged(token, token.end, token.end)
        return token, replace(done, committed=True, erased=rows)

    def lacks_marks(self, work: Work, before: Found) -> bool:
        """Whether the column for deleted rows is new to rows that the target has.

        The record decides that, because a call may die after it has added the column.
        """
        if self.rules.deletes != "soft" or before.is_empty:
            return False
        token = None if work.line is None else before.token
        return token is None or token.deleted_column is None

    def _refuse_incomplete(self, start: Lsn) -> None:
        table = self.table.for_target(self.rules.truncates, start)
        log = self.log
        for error, _ in problems(log.location, table, start, self.end, log.end):
            raise error

    def _refuse_pruned(self, start: Lsn) -> None:
        """Refuses a log that lacks removed changes of the table after the start."""
        # 0 would mean all that is left.
        start = max(start, Lsn(1))
        if start >= self.end:
            return
        try:
            log = self.log._log
            log.open(tables=[self.table.oid], start=start, end=self.end).close()
        except LogError as error:
            if error.code != "pruned":
                raise
            raise self._pruned(start) from None

    def _pruned(self, start: Lsn) -> LogError:
        """The error of a target that lacks changes which were removed."""
        name = self.table.name
        remedy = f"load the table: walrow load {self.log.location} {name}"
        if self.rules.mode != "current" and start > 1:
            remedy = f"use a new target, and {remedy}"
        what = "" if start <= 1 else f" after {start}"
        text = (
            f"{self.target}: changes of {name}{what} that it needs were removed from the log, "
            f"which begins at {self.log.start}: {remedy}"
        )
        return LogError(text, code="pruned", table=name, lsn=self.log.start)


def committed(done: Applied, token: Token, commit: Commit) -> Applied:
    """The result of a commit with a record."""
    return replace(
        done,
        committed=True,
        end=token.end,
        token=token.to_json(),
        since=token.true_since,
        inserted=commit.inserted,
        updated=commit.updated,
        deleted=commit.deleted,
    )


_ATTEMPTS = 3
