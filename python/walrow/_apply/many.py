"""Many targets in one call, whichever engine writes them: which tables, and what became of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from walrow._amounts import at
from walrow._apply.items import Applied
from walrow._results import Result, result
from walrow.errors import ApplyError, Error, OptionError
from walrow.typing import TableName


@result
class AllApplied(Result):
    """The results of several targets.

    Attributes:
        applied: The result of each target, by table.
        failed: The errors of targets that are left as they were, by table.
        waiting: Tables that the log marks as not whole, each with an error that says why:
            their targets are applied once they were loaded.
        unshared: In Spark, tables that were applied one by one because the job for all of them
            failed, each with the error of that job. They are in `applied` or `failed`, too.
    """

    applied: dict[TableName, Applied]
    failed: dict[TableName, Exception]
    waiting: dict[TableName, ApplyError]
    unshared: dict[TableName, Exception]

    def note(self, table: TableName, result: Applied | Exception) -> None:
        """Stores what became of a target."""
        if isinstance(result, Applied):
            self.applied[table] = result
        elif isinstance(result, ApplyError) and result.code == "incomplete":
            self.waiting[table] = result
        else:
            self.failed[table] = result


def failure_of(error: BaseException) -> Exception:
    """The failure of one table: the loop over all tables continues with the next one.

    Raises:
        KeyboardInterrupt: It was Ctrl-C.
        SystemExit: The program ends.
    """
    if isinstance(error, KeyboardInterrupt | SystemExit):
        raise error
    if isinstance(error, Exception):
        return error
    # A library's panic, or an end of its generators. Its text may have values of rows.
    return Error(f"{type(error).__module__}.{type(error).__name__} ended the call")


def given_of(
    targets: Any,
    own: Mapping[Any, Mapping[str, Any]] | None,
    common: Mapping[str, Any],
) -> dict[TableName, dict[str, Any]]:
    """The options of `apply_changes` for each table: the common ones, and its own.

    Raises:
        OptionError: Two tables have the same target, `own` names a table without one, or options
            have `table` or `target`.
    """
    if not isinstance(targets, Mapping):
        raise TypeError(
            "targets must be a mapping, such as {'public.orders': 'delta:/lake/orders'}, not "
            f"{type(targets).__name__}"
        )
    if len(set(targets.values())) < len(targets):
        raise OptionError("two tables have one target: each needs its own")
    own = own or {}
    if unknown := own.keys() - targets.keys():
        text = f"options= names {next(iter(unknown))!r}, which is not in targets"
        raise OptionError(text)
    for each in (common, *own.values()):
        for name in ("table", "target"):
            if name in each:
                text = f"{name} is not an option here: targets= has each table and its target"
                raise OptionError(text)
    common = dict(common)
    if common.get("end") is not None:
        # "-1h" is the same place for all tables.
        common["end"] = at(common["end"], "end")
    return {
        table: {**common, **own.get(table, {}), "table": table, "target": target}
        for table, target in targets.items()
    }
