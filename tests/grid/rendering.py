"""From Arrow arrays back to PostgreSQL's text: one text or None per row."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from grid import printing
from streams import format_lsn

Texts = list[str | None]


def strings(array: pa.Array) -> Texts:
    """Text is unchanged: the server printed it."""
    return list(array.to_pylist())


def each(write: Callable[[Any], str]) -> Callable[[pa.Array], Texts]:
    """Writes each value from its Python value."""
    return lambda array: [None if v is None else write(v) for v in array.to_pylist()]


def viewed(
    data_type: pa.DataType, write: Callable[[int], str]
) -> Callable[[pa.Array], Texts]:
    """Writes each value from its number in Arrow, because Python's types end with year 9999."""
    return lambda array: each(write)(array.view(data_type))


boolean = each(lambda value: "t" if value else "f")
integer = each(str)
lsn = each(format_lsn)
#: The form of version 19.
lsn_19 = each(lambda lsn: f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:08X}")
tid = each(lambda value: f"({value['block']},{value['offset']})")
float4 = each(printing.float4)
float8 = each(printing.float8)
decimal = each(printing.decimal)
bytea = each(lambda value: "\\x" + value.hex())
date = viewed(pa.int32(), printing.date)
time = viewed(pa.int64(), printing.time)
timestamp = viewed(pa.int64(), printing.timestamp)
timestamptz = viewed(pa.int64(), lambda value: printing.timestamp(value, "+00"))
interval_parts = each(
    lambda v: printing.interval(v["months"], v["days"], v["micros"]),
)


def uuids(array: pa.Array) -> Texts:
    return each(lambda value: str(uuid.UUID(bytes=bytes(value))))(_plain(array))


def storage(array: pa.Array) -> Texts:
    """Text of an extension type. Inside a list, it is plain text."""
    return strings(_plain(array))


def timetz(array: pa.Array) -> Texts:
    """An offset has minutes and seconds only if they are not zero."""
    return each(lambda value: value.removesuffix(":00") if _zoned(value) else value)(
        array
    )


def _zoned(value: str) -> bool:
    # `12:00:00+05:00`: three parts of the time, then the offset with its minutes.
    return value.count(":") == 3


def interval(array: pa.Array) -> Texts:
    def write(value: Any) -> str:
        micros, rest = divmod(value.nanoseconds, 1000)
        assert rest == 0
        return printing.interval(value.months, value.days, micros)

    return each(write)(array)


def lists(
    item: Callable[[pa.Array], Texts], write: Callable[[Texts], str]
) -> Callable[[pa.Array], Texts]:
    """Writes lists from the texts of their items."""

    def render(array: pa.Array) -> Texts:
        if pa.types.is_fixed_size_list(array.type):
            size = array.type.list_size
            ends = [(array.offset + n) * size for n in range(len(array) + 1)]
        else:
            ends = array.offsets.to_pylist()
        items = item(array.values)
        return [
            write(items[start:end]) if valid else None
            for start, end, valid in zip(
                ends, ends[1:], array.is_valid().to_pylist(), strict=False
            )
        ]

    return render


def arrays(
    item: Callable[[pa.Array], Texts], delimiter: str = ","
) -> Callable[[pa.Array], Texts]:
    return lists(item, lambda items: printing.array(items, delimiter))


def nested(
    item: Callable[[pa.Array], Texts], depth: int, delimiter: str = ","
) -> Callable[[pa.Array], Texts]:
    """Writes arrays of several dimensions, whose inner braces have no quotes."""
    if depth == 1:
        return arrays(item, delimiter)
    inner = nested(item, depth - 1, delimiter)
    return lists(inner, lambda items: "{" + delimiter.join(_all(items)) + "}")


def structs(
    fields: Sequence[Callable[[pa.Array], Texts]], write: Callable[..., str]
) -> Callable[[pa.Array], Texts]:
    """Writes structs from the texts of their fields."""

    def render(array: pa.Array) -> Texts:
        texts = [
            field(child) for field, child in zip(fields, array.flatten(), strict=True)
        ]
        valid = array.is_valid().to_pylist()
        values = zip(*texts, strict=True) if texts else [()] * len(array)
        pairs = zip(valid, values, strict=True)
        return [write(*value) if ok else None for ok, value in pairs]

    return render


def rows(fields: Sequence[Callable[[pa.Array], Texts]]) -> Callable[[pa.Array], Texts]:
    return structs(fields, lambda *texts: printing.row(texts))


def ranges(bound: Callable[[pa.Array], Texts]) -> Callable[[pa.Array], Texts]:
    def write(
        lower: str | None, upper: str | None, left: str, right: str, empty: str
    ) -> str:
        if empty == "t":
            assert (lower, upper, left, right) == (None, None, "f", "f")
            return "empty"
        # A missing bound is not part of the range.
        assert lower is not None or left == "f"
        assert upper is not None or right == "f"
        return printing.bounds(lower, upper, inclusive=(left == "t", right == "t"))

    return structs([bound, bound, boolean, boolean, boolean], write)


def multiranges(bound: Callable[[pa.Array], Texts]) -> Callable[[pa.Array], Texts]:
    # Ranges inside braces need no quotes.
    return lists(ranges(bound), lambda items: "{" + ",".join(_all(items)) + "}")


def maps(array: pa.Array) -> Texts:
    return each(printing.hstore)(array)


vector = lists(float4, lambda items: "[" + ",".join(_all(items)) + "]")
integers = lists(integer, lambda items: " ".join(_all(items)))
point = structs([float8, float8], lambda x, y: f"({x},{y})")
_corners = [float8] * 4
box = structs(_corners, lambda x1, y1, x2, y2: f"({x1},{y1}),({x2},{y2})")
lseg = structs(_corners, lambda x1, y1, x2, y2: f"[({x1},{y1}),({x2},{y2})]")
line = structs([float8] * 3, lambda a, b, c: f"{{{a},{b},{c}}}")
circle = structs([float8] * 3, lambda x, y, r: f"<({x},{y}),{r}>")
_points = lists(point, lambda items: ",".join(_all(items)))
polygon = lists(point, lambda items: "(" + ",".join(_all(items)) + ")")
path = structs(
    [boolean, _points],
    lambda closed, points: f"({points})" if closed == "t" else f"[{points}]",
)


def sparse(array: pa.Array) -> Texts:
    """pgvector counts from 1, the indices in Arrow from 0."""
    numbers = float4(array.field("values").values)
    found: Texts = []
    start = 0
    for value in array.to_pylist():
        if value is None:
            found.append(None)
            continue
        end = start + len(value["indices"])
        pairs = zip(value["indices"], numbers[start:end], strict=True)
        inside = ",".join(f"{index + 1}:{number}" for index, number in pairs)
        found.append(f"{{{inside}}}/{value['dim']}")
        start = end
    return found


def _all(items: Texts) -> list[str]:
    assert None not in items
    return [item for item in items if item is not None]


def _plain(array: pa.Array) -> pa.Array:
    return array.storage if isinstance(array, pa.ExtensionArray) else array
