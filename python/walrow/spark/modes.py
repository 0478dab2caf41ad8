"""`apply_changes` in Spark, for each kind of target."""

from __future__ import annotations

from typing import Any

from walrow._apply.items import Applied
from walrow._apply.options import SparkApplyOptions
from walrow._apply.places import check_target
from walrow._apply.units import LogContents, contents_of
from walrow._options import takes
from walrow.log import reopened
from walrow.spark.applying import Call
from walrow.spark.histories import HistoryCall
from walrow.spark.keeping import ChangesCall
from walrow.spark.schemas import require
from walrow.spark.sessions import own_session
from walrow.typing import Mode


@takes(SparkApplyOptions)
def apply_changes(options: SparkApplyOptions) -> Applied:
    """Applies the changes of a table of a log to a Delta or Iceberg table.

    The target records up to where it has the changes, in the same commit as the changes
    themselves. So call it again and again: from a loop, from `foreachBatch`, by cron. After
    a crash at any point, the next call goes on, and each change is applied once.

    ```python
    applied = walrow.spark.apply_changes(
        spark, "log/", table="public.orders", target="delta:/lake/orders"
    )
    print(applied.net_rows, "rows, up to", applied.end)
    ```

    Args:
        options: As in the signature.

    Returns:
        The result.

    Raises:
        ApplyError: The target's record does not fit, or the changes do not give the rows.
            `ApplyError.code` says which, and the text says what to do.
        SchemaError: The log has no such table, nothing says which row a change is about, or
            the target refuses a column: see `types`, or cannot be partitioned by it.
        LogError: Changes that the target needs were removed from the log (`pruned`).
        OptionError: The options are invalid, or the session lacks Iceberg's SQL extensions.
    """
    require("pyarrow", "pyspark")
    call = call_of(contents_of(options.log), options)
    with own_session(options.spark) as session:
        return call.run(session)


def check_call(log: str, **options: Any) -> None:
    """Raises what `apply_changes` would refuse without a session, before one is started."""
    call = call_of(LogContents(reopened(log)), SparkApplyOptions(None, log, **options))
    check_target(call.target)
    if call.table.versions:
        call.applied()


def call_of(log: LogContents, options: SparkApplyOptions) -> Call:
    """A call for the kind of target that the options name."""
    return _KINDS[options.mode](log, options)


_KINDS: dict[Mode, type[Call]] = {
    "current": Call,
    "history": HistoryCall,
    "changes": ChangesCall,
}
