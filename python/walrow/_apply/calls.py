"""One call of `apply_changes`, as far as every engine has it: its options, its record, its work."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from walrow._apply.items import Applied, Engine, Rules, Token
from walrow._apply.modes import check_mode
from walrow._apply.options import ApplyOptions
from walrow._apply.record import Record
from walrow._apply.tables import AppliedTable, refuse_incomplete
from walrow._apply.targets import Conflict, Found
from walrow._apply.units import Batch, LogContents, plan, plan_all
from walrow._log.marks import unless_emptied
from walrow._log.tables import find_table
from walrow._lsn import Lsn
from walrow.errors import ApplyError


class Work(NamedTuple):
    """The work of a call.

    Attributes:
        applied: The table.
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


class Call:
    """One call of `apply_changes`: its options, and the values that follow from them.

    Attributes:
        engine: The engine that writes the target.
    """

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
        self.table = find_table(log.tables, options.table)
        self.target = options.target
        self.keys = options.keys
        self.rules = Rules(
            options.deletes,
            options.truncates,
            options.never_sent,
            options.deleted_column,
            options.mode,
        )
        check_mode(self.rules, options.keys)
        self.options = options.decoding()
        self.end = self.log.end
        if options.end is not None:
            self.end = min(self.log._log.lsn_of(options.end, "end"), self.end)
        self.unit_size = unit_size
        self.record = Record(
            log, self.table, self.target, self.rules, options.resume_from
        )

    def applied(self) -> AppliedTable:
        """The table, with its key and its columns."""
        return AppliedTable.of(
            self.log, self.table, self.keys, self.options, self.rules.mode
        )

    def attempts(self, attempt: Callable[[], Applied]) -> Applied:
        """Makes attempts until no other writer was first.

        Raises:
            ApplyError: They always were, or as in `apply_changes`.
        """
        for _ in range(_ATTEMPTS):
            try:
                return attempt()
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

    def since(self, known: Applied) -> Applied | None:
        """The result, if the log has nothing new since an earlier call. None if it has.

        Args:
            known: The result of the earlier call.

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
            or any(
                it.end > known.end and it.start < self.end
                for it in self.contents.stretches(self.table.oid)
            )
        ):
            return None
        self._refuse_pruned(known.end)
        return Applied(
            known.table,
            known.target,
            known.end,
            max(known.end, self.end),
            token=known.token,
            engine=self.engine,
            mode=self.rules.mode,
            since=token.true_since,
        )

    def begin(
        self,
        applied: AppliedTable,
        found: Found | None,
        *,
        least_units: int,
        end: Lsn | None = None,
    ) -> Work | Applied:
        """Compares what the target has with the log. The result, if it has everything.

        Args:
            applied: The table.
            found: The target. None if it does not exist.
            least_units: How many tasks there are, if there are as many segments.
            end: The end of a part of the changes. Default: of all.

        Raises:
            ApplyError: As in `apply_changes`.
        """
        end = self.end if end is None else end
        start, line = self.record.start(found, applied.keys)
        mode = self.rules.mode
        if mode != "changes":
            self._refuse_incomplete(start)
        batch = self._planned(start, end, least_units)
        self.record.refuse_gap(start, batch)
        self.record.refuse_another(found, batch)
        self.record.refuse_erased(start, batch)
        self.record.refuse_other_rows(found, applied, batch)
        if mode != "changes" or start:
            # Changes before a barrier are not needed. New changes begin where the log does.
            begin = start if batch.barrier is None else Lsn(batch.barrier.lsn)
            self._refuse_pruned(begin)
        token = None if found is None else found.token
        nothing = Applied(
            self.table.name,
            self.target,
            start,
            max(start, end),
            token=None if token is None else token.to_json(),
            engine=self.engine,
            mode=mode,
            since=None if token is None else token.true_since,
        )
        is_recorded = found is None or line is not None
        if is_recorded and (end <= start or not (batch.units or batch.barrier)):
            return nothing
        return Work(applied, batch, found, line, nothing)

    def _planned(self, start: Lsn, end: Lsn, least_units: int) -> Batch:
        """The part of the log that a target needs which has the changes up to `start`."""
        mode = self.rules.mode
        if mode == "current":
            planned = partial(
                plan, truncates=self.rules.truncates, least_units=least_units
            )
        else:
            skips = mode == "history" and (not start or self.record.has_gap(start))
            planned = partial(plan_all, skips=skips)
        return planned(
            self.log,
            self.contents.stretches(self.table.oid),
            self.table,
            start,
            end,
            unit_size=self.unit_size,
        )

    def token(self, work: Work, before: Found) -> Token:
        """The record of the work.

        Args:
            work: The work.
            before: The target that is read for it.
        """
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
        )

    def erased(self, token: Token, found: Found, rows: int) -> tuple[Token, Applied]:
        """The record and the result of a commit that removes erased rows.

        The position stays, so another line of commits begins.

        Args:
            token: The target's record.
            found: The target.
            rows: The number of rows that are removed.
        """
        token = token._replace(
            line=found.version,
            run=uuid.uuid4().hex[:12],
            version=found.version,
            erasures=self.contents.erasures.get(self.table.oid, 0),
        )
        self.record.refuse_erased_meanwhile()
        done = Applied(
            self.table.name,
            self.target,
            token.end,
            token.end,
            committed=True,
            token=token.to_json(),
            engine=self.engine,
            mode=self.rules.mode,
            since=token.true_since,
            erased=rows,
        )
        return token, done

    def lacks_marks(self, work: Work, before: Found) -> bool:
        """Whether the column for deleted rows is new to rows that the target has.

        The record decides that, because a call may die after it has added the column.
        """
        if self.rules.deletes != "soft" or before.is_empty:
            return False
        token = None if work.line is None else before.token
        return token is None or token.deleted_column is None

    def _refuse_incomplete(self, start: Lsn) -> None:
        marks = self.contents.marks.get(self.table.oid, [])
        if self.rules.truncates == "ignore":
            marks = unless_emptied(marks, start, self.table.loaded)
        refuse_incomplete(self.log, self.table, marks, start, self.end)

    def _refuse_pruned(self, start: Lsn) -> None:
        """Refuses a log that lacks removed changes of the table after the start."""
        # 0 would mean all that is left.
        start = max(start, Lsn(1))
        if start < self.end:
            log = self.log._log
            log.open(tables=[self.table.oid], start=start, end=self.end).close()


_ATTEMPTS = 3
