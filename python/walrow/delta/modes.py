"""`apply_changes` without Spark, for each kind of target."""

from __future__ import annotations

from walrow._apply.items import Applied
from walrow._apply.options import DeltaApplyOptions
from walrow._apply.units import LogContents, contents_of
from walrow._options import takes
from walrow.delta.applying import Call, require
from walrow.delta.histories import HistoryCall
from walrow.delta.keeping import ChangesCall
from walrow.typing import Mode


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


def call_of(log: LogContents, options: DeltaApplyOptions) -> Call:
    """A call for the kind of target that the options name."""
    return _KINDS[options.mode](log, options)


_KINDS: dict[Mode, type[Call]] = {
    "current": Call,
    "history": HistoryCall,
    "changes": ChangesCall,
}
