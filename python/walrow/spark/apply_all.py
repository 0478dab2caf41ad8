"""Keeps many targets current, a few at a time. One that fails does not stop the others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow.errors import OptionError
from walrow.spark.applying import apply_changes

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    import walrow
    from walrow.spark.apply_items import Applied
    from walrow.typing import TableName

__all__ = ["AllApplied", "apply_all"]


class AllApplied(NamedTuple):
    """What was done to several targets.

    Attributes:
        applied: What was done to each target, by table.
        failed: The errors of the others, by table.
    """

    applied: dict[TableName, Applied]
    failed: dict[TableName, Exception]


def apply_all(
    spark: Any,
    log: walrow.Log | str | os.PathLike[str],
    targets: Mapping[Any, str],
    *,
    threads: int = 4,
    options: Mapping[Any, Mapping[str, Any]] | None = None,
    **common: Any,
) -> AllApplied:
    """Applies the changes of several tables of a log, each to its own target.

    Each target reads from its own record on. So one that has failed catches up by itself, when its
    cause is gone, and others that are further on are not touched.

    ```python
    done = walrow.spark.apply_all(
        spark,
        "log/",
        {"public.orders": "delta:/lake/orders", "public.items": "delta:/lake/items"},
        deletes="soft",
    )
    for table, error in done.failed.items():
        print(table, error)
    ```

    Args:
        spark: The session.
        log: The log, or its path.
        targets: The target of each table, as in `apply_changes`.
        threads: How many of them are written at once.
        options: Options of `apply_changes` for single tables.
        **common: Options of `apply_changes` for all tables.

    Returns:
        What was done, and the errors of targets that failed.

    Raises:
        OptionError: `threads` is less than 1, or two tables have one target.
        TypeError: `apply_changes` has no such option.
    """
    if threads < 1:
        text = f"threads={threads} is less than 1"
        raise OptionError(text)
    if len(set(targets.values())) < len(targets):
        text = "two tables have one target: each needs its own"
        raise OptionError(text)
    own = options or {}
    if unknown := own.keys() - targets.keys():
        text = f"options= names {next(iter(unknown))!r}, which is not in targets"
        raise OptionError(text)
    applied: dict[TableName, Applied] = {}
    failed: dict[TableName, Exception] = {}

    def run(table: TableName) -> None:
        given = {**common, **own.get(table, {})}
        try:
            applied[table] = apply_changes(
                spark, log, table=table, target=targets[table], **given
            )
        except TypeError:
            # It would be that of every table.
            raise
        except Exception as error:
            failed[table] = error

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(run, targets))
    return AllApplied(applied, failed)
