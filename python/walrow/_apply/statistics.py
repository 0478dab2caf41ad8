"""The columns of a Delta table that have statistics in its log.

deltalake writes the least and the greatest value of a long decimal through a double, and of floats
without NaN. Readers then skip files that have the value, and a MERGE inserts a second row. So both
engines leave such columns out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from walrow._late import pa


def has_wrong_statistics(kind: pa.DataType) -> bool:
    """Whether a type has long decimals or floats, whose statistics would be wrong."""
    if pa.types.is_decimal(kind):
        return bool(kind.precision > _DIGITS)
    return bool(pa.types.is_floating(kind)) or any(
        has_wrong_statistics(kind.field(at).type) for at in range(kind.num_fields)
    )


def statistics(
    schema: pa.Schema,
    partition_by: Collection[str],
    known: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """The properties that a table needs. Empty if its present properties are right.

    Args:
        schema: The columns of the table.
        partition_by: The columns whose values become parts of paths. They have no statistics.
        known: The properties that it has.
    """
    wrong = {it.name for it in schema if has_wrong_statistics(it.type)}
    if not wrong:
        return {}
    known = known or {}
    if _FIRST not in known and _NAMED not in known:
        chosen = [it.name for it in schema if _is_plain(it.type)][:_MANY]
    elif _NAMED in known:
        chosen = _names(known[_NAMED])
        if not any(_column(name) in wrong for name in chosen):
            return {}
        chosen = [name for name in chosen if _column(name) not in wrong]
    else:
        count = int(known[_FIRST])
        first = list(schema)[: count if count >= 0 else None]
        if not any(it.name in wrong for it in first):
            return {}
        chosen = [it.name for it in first if _is_plain(it.type)]
    paths = {name.lower() for name in partition_by}
    chosen = [name for name in chosen if name.lower() not in paths]
    if not chosen:
        # A list without names is the same as no list.
        return {_NAMED: "", _FIRST: "0"} if _NAMED in known else {_FIRST: "0"}
    return {_NAMED: ",".join(map(_quoted, chosen))}


def _is_plain(kind: pa.DataType) -> bool:
    """Whether Spark takes a column of the type in this list, and its statistics are right."""
    from pyarrow import types

    if types.is_decimal(kind):
        return not has_wrong_statistics(kind)
    fits = (
        types.is_integer,
        types.is_string,
        types.is_large_string,
        types.is_string_view,
        types.is_date,
        types.is_timestamp,
    )
    return any(each(kind) for each in fits)


def _quoted(name: str) -> str:
    return name if _WORD.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _names(text: str) -> list[str]:
    """The entries of a list, without quotes."""
    found = (it.strip() for it in _ENTRY.findall(text))
    return [
        it[1:-1].replace("``", "`") if it.startswith("`") and it.endswith("`") else it
        for it in found
        if it
    ]


def _column(entry: str) -> str:
    """The column of an entry, which may be a part of a struct."""
    return entry if _WORD.fullmatch(entry) else entry.partition(".")[0]


#: More digits do not fit into a double.
_DIGITS = 15
#: So many columns have statistics by default.
_MANY = 32
_NAMED, _FIRST = "delta.dataSkippingStatsColumns", "delta.dataSkippingNumIndexedCols"
_WORD = re.compile(r"\w+")
_ENTRY = re.compile(r"(?:`(?:[^`]|``)*`|[^,`])+")
