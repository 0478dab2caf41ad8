"""The type cases in `cases.json`: what PostgreSQL sends, and what Arrow and Spark get.

Rust (`walrow_testkit::type_cases`), Python, Spark and the benches read the same file, and a
live test checks it against servers. Values are written by hand, never by walrow's code. The
keys of the file:

    setup     SQL that creates the user types
    catalog   the same types as `walrow.Catalog` takes them; their OIDs are made up
    types     one entry for each type and layout:
        type, oid, array, typmod     the type, its array type's OID (0: none), its modifier
        asked                        the column's entry in `types=`, if any
        arrow, spark                 the column's type as pyarrow and Spark write it;
                                     spark is null for a layout that Spark does not have
        needs                        the extension, or the build option, of the server
        read_only                    PostgreSQL takes no input of this type
        cases                        one value per line:
            text, binary             what the server sends, binary in hexadecimal digits;
                                     without binary, only the text form is read
            sql                      the literal, if it is not the text
            session                  settings under which the server writes this text
            profiles                 the profiles that can hold the value, if not all can
            value                    the Arrow value; without it, the text is the value
            spark                    Spark's value, if it differs
"""

from __future__ import annotations

import datetime as dt
import json
import re
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import walrow

FILE = Path(__file__).with_name("cases.json")
ROOT = FILE.parent.parent.parent
_CONTENT = json.loads(FILE.read_text("utf-8"))

SETUP: list[str] = _CONTENT["setup"]
#: OIDs of the types in the catalog, by name; an array type has the next one.
OIDS: dict[str, int] = {
    each["name"]: each["oid"] for each in _CONTENT["catalog"] if each["kind"] != "array"
}
#: The OID of a type in no catalog.
UNKNOWN = 29999
#: A column's modifier of PostGIS: point, SRID 4326, and one without a type, SRID 3857.
POINT_4326 = 4326 << 8 | 1 << 2
GEOMETRY_3857 = 3857 << 8


@dataclass(frozen=True)
class Case:
    """A value, as the server sends it and as a column holds it."""

    text: str
    binary: bytes | None
    sql: str
    session: dict[str, str]
    profiles: tuple[str, ...]
    value: Any
    spark: Any = None


@dataclass(frozen=True)
class Type:
    """A type, or another layout of it, and its cases."""

    name: str
    oid: int
    array: int
    typmod: int
    arrow: str
    spark: str | None
    asked: str | None
    needs: str | None
    read_only: bool
    cases: list[Case] = field(repr=False)

    def __str__(self) -> str:
        return f"{self.name} as {self.asked}" if self.asked else self.name

    def held_by(self, profile: str) -> list[Case]:
        """The cases that a profile can hold."""
        return [case for case in self.cases if profile in case.profiles]


def _case(entry: dict[str, Any]) -> Case:
    binary = entry.get("binary")
    return Case(
        entry["text"],
        None if binary is None else bytes.fromhex(binary),
        entry.get("sql", entry["text"]),
        entry.get("session", {}),
        tuple(entry.get("profiles", ("arrow", "spark"))),
        entry.get("value", entry["text"]),
        entry.get("spark"),
    )


TYPES = [
    Type(
        each["type"],
        each["oid"],
        each["array"],
        each["typmod"],
        each["arrow"],
        each["spark"],
        each.get("asked"),
        each.get("needs"),
        each.get("read_only", False),
        [_case(case) for case in each["cases"]],
    )
    for each in _CONTENT["types"]
]


def catalog(columns: dict[str, tuple[int, int]] | None = None) -> walrow.Catalog:
    """The types, in the schema `own`, and a table `t` of columns of this OID and typmod."""
    fields = [
        {"name": name, "type": oid, "type_modifier": typmod}
        for name, (oid, typmod) in (columns or {}).items()
    ]
    table = {"schema": "public", "name": "t", "oid": 16400, "columns": fields}
    return walrow.Catalog(json.dumps({"types": _CONTENT["catalog"], "tables": [table]}))


@cache
def built_in() -> dict[str, tuple[int, int]]:
    """Each built-in type that walrow knows, from its sources: OID and array type's OID."""
    (source,) = ROOT.glob("crates/*/src/built_in/table.rs")
    text = source.read_text("utf-8")
    oids = dict(re.findall(r"const (\w+): Oid = (\d+);", text))
    entries = re.findall(r'entry\(\s*(\w+),\s*(\d+),\s*"(\w+)"', text)
    return {name: (int(oids[key]), int(array)) for key, array, name in entries}


def of_arrow(value: Any, kind: Any) -> Any:  # noqa: PLR0911
    """A value of the file, as pyarrow converts a value of this type to Python."""
    import pyarrow as pa

    if value is None or kind in (pa.json_(), pa.string()):
        return value
    if isinstance(kind, pa.UuidType):
        return uuid.UUID(value)
    if pa.types.is_map(kind):
        return [tuple(pair) for pair in value]
    if re.match("(large_|fixed_size_)?list", str(kind)):
        return [of_arrow(each, kind.value_type) for each in value]
    if pa.types.is_struct(kind):
        assert value.keys() == {each.name for each in kind}
        return {each.name: of_arrow(value[each.name], each.type) for each in kind}
    if pa.types.is_interval(kind):
        return pa.MonthDayNano(value)
    if "binary" in str(kind):
        return bytes.fromhex(value)
    return _scalar(value, _NAMES.get(str(kind).partition("[")[0].partition("(")[0]))


def _scalar(value: Any, of: str | None) -> Any:
    match of:
        case "float":
            return float(value)
        case "decimal":
            return Decimal(value)
        # Python's dates end at 9999: beyond it, the value is in days since 1970.
        case "date" if isinstance(value, str):
            return dt.date.fromisoformat(value)
        case "time":
            return dt.time.fromisoformat(value)
        case "timestamp":
            return dt.datetime.fromisoformat(value)
    return value


_NAMES = {
    "halffloat": "float",
    "float": "float",
    "double": "float",
    "decimal128": "decimal",
    "decimal256": "decimal",
    "date32": "date",
    "time64": "time",
    "timestamp": "timestamp",
}


def of_spark(case: Case, kind: Any) -> Any:
    """A case's value, as Spark converts a value of this type to Python; instants in UTC."""
    from pyspark.sql import types

    if case.spark is not None:
        return _of_spark(case.spark, kind)
    if isinstance(kind, types.StringType):
        return case.text
    return _of_spark(case.value, kind)


def _of_spark(value: Any, kind: Any) -> Any:
    from pyspark.sql import Row, types

    if value is None:
        return None
    if isinstance(kind, types.ArrayType):
        return [_of_spark(each, kind.elementType) for each in value]
    if isinstance(kind, types.MapType):
        return dict(value)
    if isinstance(kind, types.StructType):
        if kind.names == ["months", "days", "micros"] and isinstance(value, list):
            months, days, nanoseconds = value
            value = {"months": months, "days": days, "micros": nanoseconds // 1000}
        return Row(**{f.name: _of_spark(value[f.name], f.dataType) for f in kind})
    if isinstance(kind, types.BinaryType):
        return bytes.fromhex(value)
    return _scalar(value, _SPARK_NAMES.get(kind.typeName().partition("(")[0]))


_SPARK_NAMES = {
    "float": "float",
    "double": "float",
    "decimal": "decimal",
    "date": "date",
    "time": "time",
    "timestamp": "timestamp",
    "timestamp_ntz": "timestamp",
}
