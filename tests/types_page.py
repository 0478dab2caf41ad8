"""The tables of docs/types.md, filled in from the code.

Each row's first cell names PostgreSQL types, and the cells that follow from them are
walrow's own answer. The notes are written by hand and kept. As a script, it fills
them in again: `python tests/types_page.py`.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

import type_cases
import walrow

PAGE = type_cases.ROOT / "docs" / "types.md"
#: Headers of tables whose second and third cell follow from the first.
PROFILES = "| PostgreSQL | `arrow` | `spark` |"
CHOICES = "| PostgreSQL | `types=` in `arrow` | in `spark` |"

_RANGE = "lower_inc: bool, upper_inc: bool, empty: bool"
_POINT = "struct<x: float64, y: float64>"
#: Every type that some column can become, except strings and bytes, which all can become.
CANDIDATES = (
    "bool",
    "int16",
    "int32",
    "int64",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "decimal128(18, 2)",
    "decimal256(76, 2)",
    "date32",
    "time64[us]",
    "time64[ns]",
    "timestamp[us]",
    "timestamp[us, UTC]",
    "month_day_nano_interval",
    "uuid",
    "struct<months: int32, days: int32, micros: int64>",
    "struct<time: time64[us], offset_s: int32>",
    "struct<time: time64[ns], offset_s: int32>",
    "struct<block: uint32, offset: uint16>",
    _POINT,
    "struct<x1: float64, y1: float64, x2: float64, y2: float64>",
    "struct<a: float64, b: float64, c: float64>",
    "struct<x: float64, y: float64, r: float64>",
    f"struct<closed: bool, points: list<{_POINT}>>",
    f"list<{_POINT}>",
    *(
        form.format(f"struct<lower: {bound}, upper: {bound}, {_RANGE}>")
        for form in ("{}", "list<{}>")
        for bound in ("int32", "int64", "decimal128(18, 2)", "string")
    ),
    "struct<n: int32, cost: decimal128(18, 2)>",
    "struct<n: int64, cost: string>",
    "struct<dim: int32, indices: list<int32>, values: list<float32>>",
    "struct<srid: int32, wkb: binary>",
    "list<int16>",
    "list<int32>",
    "list<int64>",
    "list<uint32>",
    "list<float16>",
    "list<float32>",
    "list<string>",
    "list<decimal128(18, 2)>",
    "list<list<int32>>",
    "large_list<int32>",
    "large_list<string>",
)


def named() -> dict[str, tuple[int, int]]:
    """The types that the page names: OID and modifier by the name it writes."""
    found = {}
    for name, (oid, array) in type_cases.built_in().items():
        # PostgreSQL's own name of it has quotes.
        written = '"char"' if name == "char" else name
        found[written] = (oid, -1)
        if array:
            found[f"{written}[]"] = (array, -1)
    for name, oid in type_cases.OIDS.items():
        found |= {name: (oid, -1), f"{name}[]": (oid + 1, -1)}
    for precision, scale in ((12, 2), (5, -2), (3, 5), (50, 5)):
        typmod = (precision << 16 | scale & 0x7FF) + 4
        found[f"numeric({precision},{scale})"] = (1700, typmod)
        found[f"numeric({precision},{scale})[]"] = (1231, typmod)
    return found | {
        "bit(1)": (1560, 1),
        "bit(5)": (1560, 5),
        "vector(3)": (type_cases.OIDS["vector"], 3),
        "geometry(Point,4326)": (type_cases.OIDS["geometry"], type_cases.POINT_4326),
        "unknown": (type_cases.UNKNOWN, -1),
    }


def needed() -> set[str]:
    """The types that must be on the page. One rule covers arrays of them."""
    # Composites are one row, as `pair`.
    composites = {"triple", "nest"}
    return {name for name in named() if not name.endswith("[]")} - composites


def tables(text: str) -> list[tuple[str, str, list[str]]]:
    """The page's checked tables: header, whole text, and rows."""
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        first, _, *rows = block.splitlines()
        found += [
            (header, block, rows)
            for header in (PROFILES, CHOICES)
            if first.startswith(header)
        ]
    return found


def types_of(row: str) -> list[str]:
    """The types in a row."""
    return re.findall(r"`([^`]+)`", row.split("|")[1])


def renewed(text: str) -> str:
    """The page with its cells filled in."""
    types = named()
    for header, block, rows in tables(text):
        make = _profiles if header == PROFILES else _choices
        filled = block
        for row in rows:
            # One type at a time, because a key of `types=` can also name the type of other columns.
            answers = {
                make(type_cases.catalog({name: types[name]}), name)
                for name in types_of(row)
            }
            if len(answers) != 1:
                msg = f"the types of one row differ, or there are none: {row}"
                raise ValueError(msg)
            cells = row.split("|")
            cells[2:4] = [f" {cell} " for cell in answers.pop()]
            filled = filled.replace(f"\n{row}\n", f"\n{'|'.join(cells)}\n")
        text = text.replace(block, filled)
    return text


def _profiles(catalog: walrow.Catalog, name: str) -> tuple[str, str]:
    found = {
        profile: _field(catalog, name, profile=profile)
        for profile in ("arrow", "spark", "text")
    }
    if found["text"].type != pa.string():
        msg = f"{name} is {found['text'].type} in the profile text"
        raise ValueError(msg)
    return _dressed(found["arrow"]), _dressed(found["spark"])


def _choices(catalog: walrow.Catalog, name: str) -> tuple[str, str]:
    arrow, spark = (
        _listed(
            [
                each
                for each in CANDIDATES
                if each
                != _spelled(_storage(_field(catalog, name, profile=profile).type))
                and _can_be(catalog, name, each, profile)
            ]
        )
        for profile in ("arrow", "spark")
    )
    return arrow, "the same" if arrow == spark != _NONE else spark


_NONE = "none"


def _listed(types: list[str]) -> str:
    return ", ".join(f"`{general(each)}`" for each in types) or _NONE


def general(text: str) -> str:
    """A choice as the page shows it, without its precision."""
    return re.sub(r"decimal(\d+)\(\d+, 2\)", r"decimal\1(p, s)", text)


def _can_be(catalog: walrow.Catalog, name: str, wanted: str, profile: str) -> bool:
    try:
        _field(catalog, name, profile=profile, types={name: wanted})
    except walrow.Error:
        return False
    return True


def _field(catalog: walrow.Catalog, name: str, **options: Any) -> Any:
    schema = pa.schema(walrow.schema(catalog, "t", metadata=(), **options))
    return schema.field(name)


def _dressed(field: Any) -> str:
    """The type, and its extension type if it has one."""
    metadata = field.metadata or {}
    extension = metadata.get(b"ARROW:extension:name")
    name = (
        extension.decode() if extension else getattr(field.type, "extension_name", "")
    )
    text = f"`{_spelled(_storage(field.type))}`"
    return f"{text}, `{name}`" if name else text


def _storage(found: Any) -> Any:
    return found.storage_type if isinstance(found, pa.BaseExtensionType) else found


def _spelled(found: Any) -> str:
    """The name for `types=`, or pyarrow's if `types=` takes no name of the type."""
    text = re.sub(r"\bdouble\b", "float64", str(found))
    text = re.sub(r"\bfloat\b", "float32", text)
    text = text.replace("item: ", "").replace("date32[day]", "date32")
    return text.replace("tz=UTC", "UTC").replace("fixed_size_binary[16]", "uuid")


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")
