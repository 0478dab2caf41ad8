"""The columns that deltalake can give a target."""

from __future__ import annotations

from collections.abc import Sequence

from walrow._apply.columns import Evolution, evolution, not_widened
from walrow._apply.items import COLUMNS
from walrow._apply.targets import refuse_unknown
from walrow._late import pa
from walrow.delta.failures import BY_SPARK, by_spark
from walrow.delta.guards import State
from walrow.errors import OptionError, SchemaError


def check_new(
    table: str, target: str, schema: pa.Schema, partition_by: Sequence[str]
) -> None:
    """Refuses a new target that could not be kept right.

    Raises:
        SchemaError: A column that `partition_by` names does not exist, or a name needs Spark.
        OptionError: `partition_by` names a column twice, or all columns.
    """
    refuse_unknown("partition_by", partition_by, table, schema.names)
    chosen = {name.lower() for name in partition_by}
    if len(chosen) < len(partition_by):
        raise OptionError(f"{table}: partition_by names a column twice: name each once")
    if len(chosen) == len(schema):
        raise OptionError(
            f"{table}: partition_by names all columns of the target, and its files need one more: "
            "leave one out"
        )
    for name in schema.names:
        if _SPECIAL & set(name):
            raise SchemaError(
                f"{table}: {target} cannot be created with column {name!r}: its name needs "
                f"column mapping: create it with {BY_SPARK}",
                table=table,
                column=name,
                advice="; or leave it out with ",
                remedies=(COLUMNS,),
            )


def evolved(
    table: str,
    target: str,
    wanted: pa.Schema,
    schema: pa.Schema,
    state: State,
    *,
    overwrites: bool,
    has_old_rows: bool = False,
) -> Evolution:
    """Decides what becomes of the columns of a target. No load replaces its rows if it `has_old_rows`.

    Raises:
        SchemaError: The target refuses a column or a type.
        ApplyError: Only Spark can change the target so.
    """
    if state.properties.get("delta.enableChangeDataFeed", "").lower() == "true":
        for name in wanted.names:
            if name.lower() in _FED:
                raise SchemaError(
                    f"{table}: {target} cannot have a column {name}: its change data feed "
                    "reserves the name",
                    table=table,
                    column=name,
                    advice="; choose other columns with ",
                    remedies=(COLUMNS,),
                )
    change = evolution(table, target, wanted, schema)
    if change.added and state.is_mapped:
        text = f"the table has column mapping, and needs column {change.added[0].name}"
        raise by_spark(target, text, table=table)
    if change.widened and (state.is_mapped or not overwrites):
        by_load = not (state.is_mapped or has_old_rows)
        raise not_widened(table, target, change.widened[0], by_load=by_load)
    return change


#: Characters that Delta refuses in names without column mapping.
_SPECIAL = frozenset(" ,;{}()\n\t=")
_FED = {"_change_type", "_commit_timestamp", "_commit_version"}
