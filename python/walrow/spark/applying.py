"""Keeps Delta and Iceberg tables as the tables of a log, exactly once."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from walrow._apply import calls
from walrow._apply.calls import Work, committed
from walrow._apply.items import Applied, Token
from walrow._apply.options import SparkApplyOptions
from walrow._apply.tables import AppliedTable
from walrow._apply.targets import (
    Conflict,
    Found,
    never_sent_error,
    unwritable,
    violated,
)
from walrow._apply.units import LogContents
from walrow._late import f, pa
from walrow.spark.apply_failures import from_executor, spark_errors
from walrow.spark.apply_net import Net
from walrow.spark.schemas import fields_of
from walrow.spark.sessions import parallelism
from walrow.spark.targets import target_of
from walrow.spark.targets.evolving import evolve
from walrow.spark.targets.path_values import path_error, path_texts
from walrow.spark.targets.sql import (
    Merging,
    Replacing,
    Target,
    Writing,
    keeping,
    quoted,
)


class Call(calls.Call):
    """One call in Spark.

    Readers and writers of the target are given a session, and may make settings there.
    """

    engine = "spark"

    def __init__(self, log: LogContents, options: SparkApplyOptions) -> None:
        super().__init__(log, options, unit_size=options.unit_size)
        self.caller = options.spark
        self.layout = (options.partition_by, options.cluster_by)
        self.widen_types = options.widen_types

    def run(self, session: Any) -> Applied:
        """Applies what the target lacks, again if others were first.

        Raises:
            ApplyError: They always were, or as in `apply_changes`.
        """

        def attempt() -> Applied:
            work = self.look(session)
            return work if isinstance(work, Applied) else self.write(session, work)

        return self.attempts(attempt)

    def look(self, session: Any) -> Work | Applied:
        """Reads what the target has. The result, if it has everything.

        Raises:
            ApplyError: As in `apply_changes`.
        """
        target = target_of(session, self.target, self.caller)
        found = target.look()
        try:
            applied = self.applied(found)
        except calls.Quiet as quiet:
            return quiet.done
        work = self.begin(applied, found, least_units=parallelism(session))
        if found is None and isinstance(work, Applied):
            evolve(target, applied, self.rules, self.layout)
        return work

    def write(
        self, session: Any, work: Work, staged: pa.Table | None = None
    ) -> Applied:
        """Applies what the target lacks, with net changes that are there already, if they are.

        Raises:
            Conflict: Another writer was first.
        """
        with self._refreshed(session) as target:
            return self._write(target, work, staged)

    def _write(self, target: Target, work: Work, staged: pa.Table | None) -> Applied:
        applied = work.applied

        def rehearse(texts: Collection[str]) -> None:
            net = Net(target, work, None, self.rules, texts=texts, staged=staged)
            with self._viewed(target, applied, net.view) as view:
                compute(target.session.table(view), texts)

        before, texts = self._ready(target, work, rehearse)
        token = self._recorded(target, work, before)
        net = Net(target, work, before, self.rules, texts=texts, staged=staged)
        with self._viewed(target, applied, net.view) as view:
            # By now, they were read.
            self.record.refuse_erased_meanwhile()
            writing: Writing = Replacing(view)
            if not net.overwrites or self.rules.deletes == "soft":
                merge = keeping(
                    applied,
                    self.rules,
                    net.kept,
                    overwrites=net.overwrites,
                    lacks_marks=self.lacks_marks(work, before),
                )
                writing = Merging(view, merge)
            commit = target.commit(writing, token, before)
        if not commit.is_first:
            if target.find().token is None:
                text = "it has changes up to the log's end, and lost the record of them"
                raise self.record.unknown_rows(text)
            return work.nothing
        rows = net.rows
        if rows is None:
            # Nothing else is there after a load.
            rows = target.session.table(target.table).count()
        done = replace(
            committed(work.nothing, token, commit),
            overwritten=net.overwrites,
            rows=rows,
            net_rows=rows if net.is_plain else net.net_rows,
            never_sent=net.never_sent,
        )
        return observe(target.session, done)

    def _ready(
        self, target: Target, work: Work, rehearse: Callable[[Collection[str]], None]
    ) -> tuple[Found, Collection[str]]:
        """Creates the target, or gives it its columns.

        Args:
            target: The target.
            work: The work.
            rehearse: Computes the first rows of a new target before it is created: they may be
                refused. It gets the columns with texts in its paths.

        Returns:
            Its record, and the columns with texts that become parts of its paths.
        """
        applied, before = work.applied, work.found
        record = (None, None) if before is None else (before.token, before.refusal)
        known = None
        texts: Collection[str] = ()
        if before is not None:
            known = target.columns()
            names = {field.name.lower() for field in known}
            token = None if work.line is None else before.token
            self.record.refuse_other_kind(names, before)
            self.record.refuse_dropped(names, token, applied, work.batch)
            texts = path_texts(
                self.table.name, self.target, fields_of(applied), target.partitions()
            )

        def rehearsed(names: Sequence[str]) -> None:
            nonlocal texts
            texts = names
            rehearse(names)

        has_changed = evolve(
            target,
            applied,
            self.rules,
            self.layout,
            columns=known,
            widen_types=self.widen_types,
            rehearse=rehearsed,
        )
        if before is None or has_changed:
            # The version before the batch is a new one.
            before = target.find()
            if (before.token, before.refusal) != record:
                raise Conflict
        return before, texts

    def _recorded(self, target: Target, work: Work, before: Found) -> Token:
        """The record of the work, with the features of the target."""
        return self.token(work, before)._replace(features=target.features())

    @contextlib.contextmanager
    def _refreshed(self, session: Any) -> Iterator[Target]:
        """The target. At the end, the caller's session forgets what its catalog knows of it."""
        target = target_of(session, self.target, self.caller)
        try:
            yield target
        finally:
            with contextlib.suppress(Exception):
                self.caller.catalog.refreshTable(target.table)

    @contextlib.contextmanager
    def _viewed(
        self, target: Target, applied: AppliedTable, create: Callable[[str], None]
    ) -> Iterator[str]:
        """A view that `create` makes, until it is written. Errors of tasks become walrow's own."""
        view = f"walrow_rows_{uuid.uuid4().hex[:12]}"
        try:
            with self._errors(applied):
                create(view)
                yield view
        finally:
            target.session.catalog.dropTempView(view)

    @contextlib.contextmanager
    def _errors(self, applied: AppliedTable) -> Iterator[None]:
        """Raises errors of tasks as walrow's own."""
        try:
            yield
        except Conflict:
            raise
        except Exception as error:
            own = (
                never_sent_error(error, self.table.name, applied.columns)
                or path_error(error, self.table.name, self.target, applied.columns)
                or violated(error, self.table.name, self.target)
                or from_executor(error)
                or unwritable(error, self.target)
            )
            if own is not None:
                raise own from None
            raise


def compute(rows: Any, columns: Collection[str]) -> None:
    """Computes columns of rows, which may be an error."""
    rows.select(*map(quoted, columns)).write.format("noop").mode("overwrite").save()


def observe(session: Any, done: Applied) -> Applied:
    """Gives a result to Spark's listeners, as the metrics of a query without rows."""
    values = {name: getattr(done, name) for name in _METRICS} | {"end": int(done.end)}
    metrics = [f.lit(values[name]).cast("bigint").alias(name) for name in _METRICS]
    # The target has the rows, whatever becomes of this.
    with contextlib.suppress(*spark_errors()):
        session.range(0, 0, 1, 1).observe(f"walrow:{done.table}", *metrics).collect()
    return done


#: Of `Applied`.
_METRICS = ("rows", "net_rows", "inserted", "updated", "deleted", "never_sent", "end")
