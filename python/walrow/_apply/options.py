"""The options of `apply_changes`, as far as every engine has them."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

from walrow._lsn import Lsn
from walrow._options import ANY, Option, Value, options
from walrow.log import Log
from walrow.typing import (
    ArrowSchemaExportable,
    At,
    Deletes,
    Mode,
    NeverSent,
    Policy,
    Size,
    TableName,
    Truncates,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@options
class ApplyOptions:
    """The options of `apply_changes`, as far as every engine has them."""

    _: KW_ONLY
    table: Value[TableName] = Option(
        'The table, such as `"public.orders"`.', more="Or as in `walrow.read`."
    )
    target: Value[str] = Option(
        '`"delta:/path"`, `"delta:catalog.schema.table"` or `"iceberg:catalog.schema.table"`. It '
        "is created if it is missing.",
        more="Without Spark, only Delta tables at a path or a URL.",
    )
    mode: Value[Mode] = Option(
        'A target has the rows as they are (`"current"`), all versions of the rows with their times '
        '(`"history"`), or all changes (`"changes"`), also of tables without a key.',
        default="current",
        more="See docs/applying.md.",
    )
    keys: Option[Sequence[str] | None, tuple[str, ...] | None] = Option(
        "The key columns: unique, and never NULL. Default: the columns of the replica identity, or "
        "under REPLICA IDENTITY FULL, of the primary key that the log has recorded.",
        default=None,
    )
    deletes: Value[Deletes] = Option(
        '`"apply"` removes rows, `"soft"` sets `deleted_column` and keeps their values, `"ignore"` '
        "keeps the rows as they are.",
        default="apply",
    )
    truncates: Value[Truncates] = Option(
        '`"apply"` removes all rows, `"ignore"` keeps them. A load replaces the rows in any case, as '
        "`deletes` says.",
        default="apply",
    )
    never_sent: Value[NeverSent] = Option(
        'The effect of a new row\'s value that the server never sent: `"error"`, or `"null"`, which '
        "is counted.",
        default="error",
    )
    deleted_column: Value[str] = Option(
        "The name of the column that soft deletes set.", default="_is_deleted"
    )
    partition_by: Option[Sequence[str], tuple[str, ...]] = Option(
        "A new target is partitioned by these columns, or by Iceberg's transforms.",
        default=(),
    )
    columns: Value[Sequence[str] | None] = Option(
        "The columns of the target, with the key columns. Default: all.",
        default=None,
    )
    types: Value[Mapping[str, ArrowSchemaExportable | str] | None] = Option(
        "The Arrow type for a column or a PostgreSQL type.",
        default=None,
        more="As in `walrow.read`.",
    )
    unrepresentable: Value[Policy | Mapping[str, Policy] | None] = Option(
        'The policy for values that the Arrow type cannot hold, for one column or all: `"error"` (the '
        'default), `"null"` or `"sentinel"`.',
        default=None,
        more="As in `walrow.read`.",
    )
    end: Option[At | None, Lsn | dt.datetime | None] = Option(
        'Up to where changes are applied: an LSN, or a time, such as "-1h" or "today". Default: all '
        "of the log.",
        default=None,
        more="A time means one place in the log, as in `walrow.read`: before the first transaction "
        "that was committed after it.",
    )
    resume_from: Option[Lsn | int | str | None, Lsn | None] = Option(
        "Up to where the rows of the target have all changes, an LSN. It counts only if the target "
        "does not say so, or no longer: otherwise its own record is right.",
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

    spark: Value[SparkSession] = Option(
        "The session. Its settings are not changed.", ANY
    )
    log: Value[Log | str | os.PathLike[str]] = Option(
        "The log, or its path or URL. Executors must be able to open it.",
        ANY,
    )
    _: KW_ONLY
    cluster_by: Option[Sequence[str], tuple[str, ...]] = Option(
        "A new target is clustered, or in Iceberg, sorted, by these columns.",
        default=(),
        more="A clustered Delta table is Spark's from then on: `walrow.delta` refuses it.",
    )
    widen_types: Value[bool] = Option(
        "Whether columns of a Delta table get wider types when the table's columns do. From then "
        "on, only Spark writes the target.",
        default=False,
        more="In Iceberg, every engine knows wider types, and the option changes nothing.",
    )
    unit_size: Option[Size, int] = Option(
        "The size of the changes that one task decodes, about.",
        default="64MiB",
        least=1,
    )


@options
class DeltaApplyOptions(ApplyOptions):
    """The options of `walrow.delta.apply_changes`."""

    log: Value[Log | str | os.PathLike[str]] = Option(
        "The log, or its path or URL.", ANY
    )
    _: KW_ONLY
    memory: Option[Size, int] = Option(
        "About how much memory a call takes, without Spark.",
        default="1GiB",
        least=64 << 20,
        more="More changes are divided at transactions, and have several commits, each with its own "
        "record. A load is written as it is read.",
    )
    storage_options: Value[Mapping[str, str] | None] = Option(
        "Options of the object store, as deltalake takes them.", default=None
    )
    progress: Value[Callable[[int], None] | None] = Option(
        "Is called with the number of net rows or loaded rows that were read so far. In a "
        "load, another thread calls it.",
        default=None,
    )
