"""Partition columns of Delta tables, whose values become parts of paths.

Delta writes such a value as text. Some types and some texts come back as another value.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any

from walrow._apply.items import Op
from walrow._apply.targets import LOST_TEXTS, lost_in_path
from walrow._late import f, types
from walrow.errors import ApplyError, Remedy, SchemaError


def path_texts(
    table: str, target: str, fields: Sequence[Any], names: Collection[str]
) -> list[str]:
    """The columns with texts, of those whose values become parts of paths.

    Raises:
        SchemaError: Values of a column would not come back as they were.
    """
    chosen = {name.lower() for name in names}
    found = [field for field in fields if field.name.lower() in chosen]
    reasons = {
        types.TimestampType: "times with a zone in the hour that comes twice, and before the year 1,"
        " would be other times",
        types.BinaryType: "empty bytes would be NULL, and others have no text",
    }
    for field in found:
        reason = reasons.get(type(field.dataType))
        if reason is not None:
            raise SchemaError(
                f"{table}: {target} cannot be partitioned by column {field.name}: Delta "
                f"writes such values as text, and {reason}",
                table=table,
                column=field.name,
                advice="; use a new target with ",
                remedies=_OTHERS,
            )
    return [it.name for it in found if isinstance(it.dataType, types.StringType)]


def checked(column: Any, place: int, kind: Any = None) -> Any:
    """A text column that raises an error, with its place, where a value would not come back."""
    is_lost = column.isin(*LOST_TEXTS)
    if kind is not None:
        is_lost &= kind.isin(Op.INSERT, Op.UPDATE)
    return f.when(is_lost, f.raise_error(f.lit(f"{_MARK}{place}"))).otherwise(column)


def path_error(
    error: BaseException, table: str, target: str, columns: Sequence[str]
) -> ApplyError | None:
    """The error of a row with a text that would not come back."""
    found = re.search(rf"{_MARK}(\d+)", str(error))
    if found is None:
        return None
    return lost_in_path(table, target, columns[int(found[1])])


_MARK = "walrow: no partition: "
_OTHERS = (Remedy("partition_by", code="[...]"), Remedy("cluster_by", code="[...]"))
