r"""Rows as JSON lines.

Characters that are not printable become `\u` and hexadecimal digits.

| Arrow | JSON |
|---|---|
| integers, LSNs | number |
| floats | number, or `"NaN"`, `"Infinity"`, `"-Infinity"` |
| decimals | string, never with an exponent |
| bytes | string, `\x` and hexadecimal digits |
| dates, times, timestamps | ISO 8601 string; years after 9999 or before 0 have a sign; |
| | with `has_sentinels`, sentinels are `"infinity"` and `"-infinity"` |
| intervals | `{"months": n, "days": n, "nanoseconds": n}` |
| uuid | string |
| json | string with the server's text |
| lists, structs, maps | array, object, object |
"""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from walrow._core import Batch
from walrow._late import pa, pc
from walrow.cli.terminal import printable_json
from walrow.errors import SchemaError

# The largest timestamp means infinity only if the sentinel policy is set.
has_sentinels = ContextVar("has_sentinels", default=False)

# Created once: json.dumps with options creates an encoder per call.
_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":")
).encode


def lines(batch: Batch) -> Iterator[str]:
    """Yields each row as a line, with the table's name under `_table` first."""
    records = pa.record_batch(batch)
    names = records.schema.names
    if "_table" in names:
        text = "the table has a column named _table, which JSON lines use for its name"
        raise SchemaError(text, table=batch.table, column="_table")
    columns = [values(column) for column in records.columns]
    for row in range(records.num_rows):
        record = {"_table": batch.table}
        for name, column in zip(names, columns, strict=True):
            record[name] = column[row]
        yield printable_json(_encode(record)) + "\n"


def values(array: pa.Array) -> list[Any]:
    """Converts every value for JSON."""
    found = array.type
    if isinstance(found, pa.BaseExtensionType):
        if found.extension_name == "arrow.uuid":
            return _each(
                array.storage.to_pylist(), lambda raw: str(uuid.UUID(bytes=raw))
            )
        return values(array.storage)
    for fits, convert in _CONVERTERS:
        if getattr(pa.types, fits)(found):
            return convert(array)
    # Integers, booleans, strings and nulls do not change.
    plain: list[Any] = array.to_pylist()
    return plain


def _each(items: list[Any], convert: Callable[[Any], Any]) -> list[Any]:
    return [None if item is None else convert(item) for item in items]


def _floats(array: pa.Array) -> list[Any]:
    # Via text, because a float32 and a float64 have different shortest digits.
    texts = array.cast(pa.float32()) if pa.types.is_float16(array.type) else array
    return _each(texts.cast(pa.string()).to_pylist(), _float)


def _float(text: str) -> float | str:
    return _SPECIAL.get(text) or float(text)


_SPECIAL = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _binary(array: pa.Array) -> list[Any]:
    return _each(array.to_pylist(), lambda value: "\\x" + value.hex())


def _dates(array: pa.Array) -> list[Any]:
    return _each(
        array.cast(pa.int32()).to_pylist(),
        lambda days: _INFINITE_DATES.get(days) or _date(days),
    )


def _times(array: pa.Array) -> list[Any]:
    nanos = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[array.type.unit]
    whole = array.cast(pa.int32() if array.type.bit_width == 32 else pa.int64())  # noqa: PLR2004
    return _each(whole.to_pylist(), lambda value: _time(value * nanos))


def _timestamps(array: pa.Array) -> list[Any]:
    nanos = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}[array.type.unit]
    zone = "" if array.type.tz is None else "+00:00"
    infinite = _INFINITE_TIMES if has_sentinels.get() else {}

    def convert(value: int) -> str:
        if word := infinite.get(value):
            return word
        days, rest = divmod(value * nanos, _DAY)
        return f"{_date(days)}T{_time(rest)}{zone}"

    return _each(array.cast(pa.int64()).to_pylist(), convert)


def _intervals(array: pa.Array) -> list[Any]:
    return _each(
        array.to_pylist(),
        lambda value: {
            "months": value.months,
            "days": value.days,
            "nanoseconds": value.nanoseconds,
        },
    )


def _lists(array: pa.Array) -> list[Any]:
    items = iter(values(pc.list_flatten(array)))
    lengths = pc.list_value_length(array).to_pylist()
    return _each(lengths, lambda length: list(itertools.islice(items, length)))


def _structs(array: pa.Array) -> list[Any]:
    names = [field.name for field in array.type]
    fields = [values(array.field(at)) for at in range(len(names))]
    return [
        {name: field[at] for name, field in zip(names, fields, strict=True)}
        if valid
        else None
        for at, valid in enumerate(array.is_valid().to_pylist())
    ]


def _maps(array: pa.Array) -> list[Any]:
    keys, items = values(array.keys), values(array.items)
    offsets = array.offsets.to_pylist()
    spans = zip(offsets, offsets[1:], array.is_valid().to_pylist(), strict=False)
    return [
        dict(zip(keys[start:end], items[start:end], strict=True)) if valid else None
        for start, end, valid in spans
    ]


#: The first whose test in `pyarrow.types` a type passes.
_CONVERTERS: list[tuple[str, Callable[[pa.Array], list[Any]]]] = [
    ("is_floating", _floats),
    ("is_decimal", lambda it: _each(it.to_pylist(), "{:f}".format)),
    ("is_binary", _binary),
    ("is_large_binary", _binary),
    ("is_binary_view", _binary),
    ("is_fixed_size_binary", _binary),
    ("is_date32", _dates),
    ("is_time", _times),
    ("is_timestamp", _timestamps),
    ("is_interval", _intervals),
    ("is_duration", lambda it: it.cast(pa.int64()).to_pylist()),
    ("is_list", _lists),
    ("is_large_list", _lists),
    ("is_fixed_size_list", _lists),
    ("is_struct", _structs),
    ("is_map", _maps),
    ("is_dictionary", lambda it: values(it.dictionary_decode())),
]

_DAY = 86_400 * 10**9
_INFINITE_DATES = {2**31 - 1: "infinity", -(2**31 - 1): "-infinity"}
_INFINITE_TIMES = {2**63 - 1: "infinity", -(2**63 - 1): "-infinity"}


def _date(days: int) -> str:
    """Formats days since 1970 in ISO 8601, including years beyond Python's dates."""
    # Eras of 400 years. Each year begins in March, so that February is at its end.
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month = month + 3 if month < 10 else month - 9  # noqa: PLR2004
    year += 400 * era + (month <= 2)  # noqa: PLR2004
    if 0 <= year <= 9_999:  # noqa: PLR2004
        return f"{year:04}-{month:02}-{day + 1:02}"
    return f"{year:+05}-{month:02}-{day + 1:02}"


def _time(nanos: int) -> str:
    seconds, rest = divmod(nanos, 10**9)
    text = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return f"{text}.{rest:09}".rstrip("0") if rest else text
