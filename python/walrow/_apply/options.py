"""The options of `apply_changes`, as far as every engine has them."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

from walrow._options import (
    AT,
    COLUMNS,
    FLAG,
    LSN,
    MAPPING,
    SIZE,
    TABLE,
    TEXT,
    Kind,
    Option,
    called,
    choice,
    options,
)
from walrow.typing import Deletes, Mode, NeverSent, Truncates

if TYPE_CHECKING:
    import datetime as dt
    import os
    from collections.abc import Callable, Mapping, Sequence

    from walrow._lsn import Lsn
    from walrow.log import Log
    from walrow.typing import ArrowSchemaExportable, At, Policy, Size, TableName


@options
class ApplyOptions:
    """The options of `apply_changes`, as far as every engine has them."""

    _: KW_ONLY
    table: Option[TableName, TableName] = Option(
        'The table, such as `"public.orders"`.', TABLE, more="Or as in `walrow.read`."
    )
    target: Option[str, str] = Option(
        '`"delta:/path"`, `"delta:catalog.schema.table"` or `"iceberg:catalog.schema.table"`. It '
        "is created if it is missing.",
        TEXT,
        more="Without Spark, only Delta tables at a path or a URL.",
    )
    mode: Option[Mode, Mode] = Option(
        'A target has the rows as they are (`"current"`), all versions of the rows with their times '
        '(`"history"`), or all changes (`"changes"`), also of tables without a key.',
        choice(Mode),
        default="current",
        more="See docs/applying.md.",
    )
    keys: Option[Sequence[str] | None, tuple[str, ...] | None] = Option(
        "The key columns: unique, and never NULL. Default: the columns of the replica identity, or "
        "under REPLICA IDENTITY FULL, of the primary key that the log has recorded.",
        COLUMNS,
        default=None,
    )
    deletes: Option[Deletes, Deletes] = Option(
        '`"apply"` removes rows, `"soft"` sets `deleted_column` and keeps their values, `"ignore"` '
        "keeps the rows as they are.",
        choice(Deletes),
        default="apply",
    )
    truncates: Option[Truncates, Truncates] = Option(
        '`"apply"` removes all rows, `"ignore"` keeps them. A load replaces the rows in any case, as '
        "`deletes` says.",
        choice(Truncates),
        default="apply",
    )
    never_sent: Option[NeverSent, NeverSent] = Option(
        'The effect of a new row\'s value that the server never sent: `"error"`, or `"null"`, which '
        "is counted.",
        choice(NeverSent),
        default="error",
    )
    deleted_column: Option[str, str] = Option(
        "The name of the column that soft deletes set.", TEXT, default="_is_deleted"
    )
    partition_by: Option[Sequence[str], tuple[str, ...]] = Option(
        "A new target is partitioned by these columns, or by Iceberg's transforms.",
        COLUMNS,
        default=(),
    )
    columns: Option[Sequence[str] | None, Sequence[str] | None] = Option(
        "The columns of the target, with the key columns. Default: all.",
        Kind("Sequence[str]"),
        default=None,
    )
    types: Option[
        Mapping[str, ArrowSchemaExportable | str] | None,
        Mapping[str, ArrowSchemaExportable | str] | None,
    ] = Option(
        "As in `walrow.read`.",
        Kind("Mapping[str, ArrowSchemaExportable | str]"),
        default=None,
    )
    unrepresentable: Option[
        Policy | Mapping[str, Policy] | None, Policy | Mapping[str, Policy] | None
    ] = Option(
        "As in `walrow.read`.",
        Kind("Policy | Mapping[str, Policy]"),
        default=None,
    )
    end: Option[At | None, Lsn | dt.datetime | None] = Option(
        'Up to where changes are applied: an LSN, or a time, such as "-1h" or "today". Default: all '
        "of the log.",
        AT,
        default=None,
        more="A time means one place in the log, as in `walrow.read`: before the first transaction "
        "that was committed after it.",
    )
    resume_from: Option[Lsn | int | str | None, Lsn | None] = Option(
        "Up to where the rows of the target have all changes, an LSN. It counts only if the target "
        "does not say so, or no longer: otherwise its own record is right.",
        LSN,
        default=None,
        more="It also says that the target has no rows that were erased from the log since.",
    )

    def decoding(self) -> dict[str, Any]:
        """The options of `walrow.read` that are given."""
        names = "columns", "types", "unrepresentable"
        given = {name: getattr(self, name) for name in names}
        return {name: value for name, value in given.items() if value is not None}


@options
class SparkApplyOptions(ApplyOptions):
    """The options of `walrow.spark.apply_changes`."""

    spark: Option[Any, Any] = Option(
        "The session. Its settings are not changed.", Kind("SparkSession")
    )
    log: Option[Log | str | os.PathLike[str], Log | str | os.PathLike[str]] = Option(
        "The log, or its path or URL. Executors must be able to open it.",
        Kind("Log | str | PathLike[str]"),
    )
    _: KW_ONLY
    cluster_by: Option[Sequence[str], tuple[str, ...]] = Option(
        "A new target is clustered, or in Iceberg, sorted, by these columns.",
        COLUMNS,
        default=(),
        more="A clustered Delta table is Spark's from then on: `walrow.delta` refuses it.",
    )
    widen_types: Option[bool, bool] = Option(
        "Whether columns of a Delta table get wider types when the table's columns do. From then "
        "on, only Spark writes the target.",
        FLAG,
        default=False,
        more="In Iceberg, every engine knows wider types, and the option changes nothing.",
    )
    unit_size: Option[Size, int] = Option(
        "The size of the changes that one task decodes, about.",
        SIZE,
        default="64MiB",
        least=1,
    )


@options
class DeltaApplyOptions(ApplyOptions):
    """The options of `walrow.delta.apply_changes`."""

    log: Option[Log | str | os.PathLike[str], Log | str | os.PathLike[str]] = Option(
        "The log, or its path or URL.", Kind("Log | str | PathLike[str]")
    )
    _: KW_ONLY
    memory: Option[Size, int] = Option(
        "About how much memory a call takes, without Spark.",
        SIZE,
        default="1GiB",
        least=64 << 20,
        more="More changes are divided at transactions, and have several commits, each with its own "
        "record. A load is written as it is read.",
    )
    storage_options: Option[Mapping[str, str] | None, Mapping[str, str] | None] = (
        Option(
            "Options of the object store, as deltalake takes them.",
            MAPPING,
            default=None,
        )
    )
    progress: Option[Callable[[int], None] | None, Callable[[int], None] | None] = (
        Option(
            "Is called with the number of net rows or loaded rows that were read so far. In a "
            "load, another thread calls it.",
            called("Callable[[int], None]"),
            default=None,
        )
    )
