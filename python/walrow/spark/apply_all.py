"""Keeps many targets current, a few at a time. A target that fails does not stop the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

from walrow._apply.calls import Work
from walrow._apply.items import Applied
from walrow._apply.many import AllApplied, failure_of, given_of
from walrow._apply.options import SparkApplyOptions
from walrow._apply.targets import Conflict
from walrow._apply.units import LogContents, contents_of
from walrow._late import pa
from walrow.errors import OptionError
from walrow.log import Log
from walrow.spark.apply_shared import Share, stage, waves
from walrow.spark.applying import Call
from walrow.spark.modes import call_of
from walrow.spark.schemas import require
from walrow.spark.sessions import OwnSessions, parallelism
from walrow.typing import TableName


def apply_all(
    spark: Any,
    log: Log | str | os.PathLike[str],
    targets: Mapping[Any, str],
    *,
    threads: int = 4,
    options: Mapping[Any, Mapping[str, Any]] | None = None,
    previous: AllApplied | None = None,
    progress: Callable[[TableName, Applied | Exception], None] | None = None,
    **common: Any,
) -> AllApplied:
    """Applies the changes of several tables of a log, each to its own target.

    Each target reads from its own record on. So one that has failed catches up by itself, when its
    cause is gone, and others that are further on are not touched. The changes of tables that have
    few of them are decoded in one pass.

    ```python
    done = walrow.spark.apply_all(
        spark,
        "log/",
        {"public.orders": "delta:/lake/orders", "public.items": "delta:/lake/items"},
        deletes="soft",
    )
    for table, error in (done.failed | done.waiting).items():
        print(table, error)
    ```

    Args:
        spark: The session.
        log: The log, or its path or URL. Tasks open it, too.
        targets: The target of each table, as in `apply_changes`.
        threads: How many of them are looked at and written at once.
        options: Options of `apply_changes` for single tables.
        previous: The result of an earlier call. It saves the look at targets without
            new changes in the log. All other targets continue at their own records.
        progress: The function that one of the threads calls after each table, with its name
            and its result or its error. Errors of the function end the call.
        **common: Options of `apply_changes` for all tables.

    Returns:
        The results, and the errors of targets that failed.

    Raises:
        OptionError: `threads` is less than 1, or two tables have one target.
        TypeError: `apply_changes` has no such option.
    """
    require("pyarrow", "pyspark")
    if threads < 1:
        raise OptionError(f"threads={threads} is less than 1")
    place = log.log if isinstance(log, LogContents) else log
    given = {
        table: SparkApplyOptions(spark, place, **each)
        for table, each in given_of(targets, options, common).items()
    }
    contents = contents_of(log)
    done = AllApplied({}, {}, {}, {})
    # The threads end first, and use no session then.
    with OwnSessions(spark) as sessions, ThreadPoolExecutor(threads) as pool:
        known = previous.applied if previous is not None else {}
        _Pass(sessions, contents, known, done, progress, pool).run(given)
    return done


class _Pass(NamedTuple):
    """All targets, from one look at the log."""

    sessions: OwnSessions
    log: LogContents
    previous: Mapping[TableName, Applied]
    done: AllApplied
    progress: Callable[[TableName, Applied | Exception], None] | None
    pool: ThreadPoolExecutor

    def run(self, given: Mapping[TableName, SparkApplyOptions]) -> None:
        """Looks at all targets, and applies what they lack."""
        calls: dict[TableName, tuple[Call, Work]] = {}

        def look(table: TableName) -> Applied | None:
            call = call_of(self.log, given[table])
            found: Applied | Work | None = None
            if table in self.previous:
                found = call.since(self.previous[table])
            if found is None:
                with self.sessions.one() as session:
                    found = call.look(session)
            if isinstance(found, Applied):
                return call.held(found)
            calls[table] = call, found
            return None

        self._each(look, given)
        # In the order of the targets.
        shares = {
            table: Share(
                calls[table][1].applied, calls[table][1].batch, calls[table][0].rules
            )
            for table in given
            if table in calls
        }
        for wave in waves(shares):
            staged = self._staged({table: shares.pop(table) for table in wave})
            self._each(partial(self._write, calls, staged), wave)
        self._each(partial(self._write, calls, {}), shares)

    def _staged(self, wave: dict[TableName, Share]) -> dict[int, pa.Table]:
        """The net changes of tables, by OID. Empty if their job fails: each may do better alone."""
        try:
            with self.sessions.one() as session:
                return stage(session, list(wave.values()), parallelism(session))
        except BaseException as error:
            self.done.unshared.update(dict.fromkeys(wave, failure_of(error)))
            return {}

    def _write(
        self,
        calls: dict[TableName, tuple[Call, Work]],
        staged: dict[int, pa.Table],
        table: TableName,
    ) -> Applied:
        call, work = calls.pop(table)
        with self.sessions.one() as session:
            try:
                staged_rows = staged.pop(call.table.oid, None)
                return call.held(call.write(session, work, staged_rows))
            except Conflict:
                # Its record has moved: what is staged is not what it lacks.
                return call.run(session)

    def _each(
        self,
        function: Callable[[TableName], Applied | None],
        tables: Iterable[TableName],
    ) -> None:
        """Calls a function for all tables, `threads` at a time, and notes the results."""

        def run(table: TableName) -> None:
            result: Applied | Exception | None
            try:
                result = function(table)
            except BaseException as error:
                result = failure_of(error)
            if result is None:
                return
            self.done.note(table, result)
            if self.progress is not None:
                self.progress(table, result)

        list(self.pool.map(run, tables))
