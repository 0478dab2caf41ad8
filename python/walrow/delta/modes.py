"""`apply_changes` and `apply_all` without Spark, for each kind of target."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from walrow._apply.items import Applied
from walrow._apply.many import AllApplied, failure_of, given_of
from walrow._apply.options import DeltaApplyOptions
from walrow._apply.units import LogContents, contents_of
from walrow._options import takes
from walrow.delta.applying import Call, require
from walrow.delta.histories import HistoryCall
from walrow.delta.keeping import ChangesCall
from walrow.log import Log
from walrow.typing import Mode, TableName


@takes(DeltaApplyOptions)
def apply_changes(options: DeltaApplyOptions) -> Applied:
    """Applies the changes of a table of a log to a Delta table, without Spark.

    The target has the same record as with `walrow.spark.apply_changes`, and either function
    may make the next call. After a crash at any point, the next call goes on, and each
    change is applied once.

    ```python
    applied = walrow.delta.apply_changes(
        "log/", table="public.orders", target="delta:/lake/orders"
    )
    print(applied.net_rows, "rows, up to", applied.end)
    ```

    Ctrl-C ends the call within a second. The last commit may yet be made. Then the
    target's record shows it, and the next call in this process waits for it.

    Args:
        options: As in the signature.

    Returns:
        The result, of all commits together.

    Raises:
        ApplyError: As in `walrow.spark.apply_changes`. With the code `engine`, deltalake would
            not keep the target right, and Spark does. With `too_large`, one transaction does
            not fit into the memory.
        SchemaError: As in `walrow.spark.apply_changes`.
        LogError: Changes that the target needs were removed from the log (`pruned`).
        OptionError: The options are invalid, or the process was forked.
    """
    require()
    return call_of(contents_of(options.log), options).run()


def apply_all(
    log: Log | str | os.PathLike[str],
    targets: Mapping[Any, str],
    *,
    options: Mapping[Any, Mapping[str, Any]] | None = None,
    previous: AllApplied | None = None,
    progress: Callable[[TableName, Applied | Exception], None] | None = None,
    **common: Any,
) -> AllApplied:
    """Applies the changes of several tables of a log, each to its own target, without Spark.

    Each target reads from its own record on. So a target that has failed catches up once the
    cause is gone, and targets that are ahead are not touched.

    ```python
    targets = {
        "public.orders": "delta:/lake/orders",
        "public.items": "delta:/lake/items",
    }
    done = walrow.delta.apply_all("log/", targets, deletes="soft")
    for table, error in (done.failed | done.waiting).items():
        print(table, error)
    done = walrow.delta.apply_all("log/", targets, deletes="soft", previous=done)
    ```

    Args:
        log: The log, or its path or URL. It is read once for all tables.
        targets: The target of each table, as in `apply_changes`.
        options: Options of `apply_changes` for single tables.
        previous: The result of an earlier call. It saves the look at targets without
            new changes in the log. All other targets continue at their own records.
        progress: The function that is called after each table, with its name and its result or
            its error. Errors of the function end the call.
        **common: Options of `apply_changes` for all tables.

    Returns:
        The results, and the errors of targets that failed.

    Raises:
        OptionError: Two tables have one target, or the process was forked.
        TypeError: `apply_changes` has no such option.
    """
    require()
    place = log.log if isinstance(log, LogContents) else log
    given = {
        table: DeltaApplyOptions(place, **each)
        for table, each in given_of(targets, options, common).items()
    }
    contents = contents_of(log)
    known = previous.applied if previous is not None else {}
    done = AllApplied({}, {}, {}, {})
    for table, each in given.items():
        result: Applied | Exception
        try:
            result = _applied(contents, each, known.get(table))
        except BaseException as error:
            result = failure_of(error)
        done.note(table, result)
        if progress is not None:
            progress(table, result)
    return done


def _applied(
    contents: LogContents, options: DeltaApplyOptions, known: Applied | None
) -> Applied:
    """Applies what a target lacks."""
    call = call_of(contents, options)
    found = None if known is None else call.since(known)
    return call.run() if found is None else call.held(found)


def call_of(log: LogContents, options: DeltaApplyOptions) -> Call:
    """A call for the kind of target that the options name."""
    return _KINDS[options.mode](log, options)


_KINDS: dict[Mode, type[Call]] = {
    "current": Call,
    "history": HistoryCall,
    "changes": ChangesCall,
}
