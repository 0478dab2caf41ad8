"""Layouts that are asked for by `types=`, and what Arrow's readers make of them."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from decimal import Decimal
from typing import Any

from dress import POINT, POINT_EWKB, Refused, of_type

LONG = "9" * 60 + ".99"


def _asked(
    name: str, wanted: str, cells: list[Any], values: list[Any], **more: Any
) -> Any:
    case = of_type(name, cells, values, **more)
    return replace(case, name=f"{name} as {wanted}", types=wanted)


def _range_of(bound: str) -> str:
    flags = "lower_inc: bool, upper_inc: bool, empty: bool"
    return f"struct<lower: {bound}, upper: {bound}, {flags}>"


LAYOUTS = [
    *(
        _asked(name, wanted, cells, cells, seen=seen)
        for wanted, seen in {
            "large_string": ("large_string", "String", "VARCHAR"),
            "string_view": ("string_view", "String", "VARCHAR"),
        }.items()
        for name, cells in {
            "text": ["a", "", "longer than twelve bytes", "é"],
            "mood": ["sad", "ok", "sad"],
            "int4": ["7", "-7"],
        }.items()
    ),
    _asked(
        "mood",
        "dictionary",
        ["sad", "ok", "sad"],
        ["sad", "ok", "sad"],
        seen=(
            "dictionary<values=string, indices=int32, ordered=0>",
            "Categorical",
            "VARCHAR",
        ),
    ),
    *(
        _asked(
            "bytea",
            wanted,
            ["\\x", "\\x00ff" + "61" * 20],
            [b"", b"\x00\xff" + b"a" * 20],
            seen=seen,
        )
        for wanted, seen in {
            "large_binary": ("large_binary", "Binary", "BLOB"),
            "binary_view": ("binary_view", "Binary", "BLOB"),
        }.items()
    ),
    _asked(
        "int4[]",
        "large_list<int32>",
        ["{1,NULL}", "{}"],
        [[1, None], []],
        seen=("large_list<item: int32>", "List(Int32)", "INTEGER[]"),
    ),
    _asked(
        "int4[]",
        "list<list<int32>>",
        ["{{1,2},{3,NULL}}", "{}"],
        [[[1, 2], [3, None]], []],
        seen=("list<item: list<item: int32>>", "List(List(Int32))", "INTEGER[][]"),
    ),
    _asked(
        "text[]",
        "list<list<list<string>>>",
        ['{{{a},{"b c"}},{{NULL},{""}}}'],
        [[[["a"], ["b c"]], [[None], [""]]]],
        seen=(None, "List(List(List(String)))", "VARCHAR[][][]"),
    ),
    _asked(
        "numeric",
        "decimal128(38, 9)",
        ["1.5", "-0.000000001"],
        [Decimal("1.500000000"), Decimal("-0.000000001")],
        seen=("decimal128(38, 9)", "Decimal(precision=38, scale=9)", "DECIMAL(38,9)"),
    ),
    _asked(
        "numeric",
        "decimal256(76, 2)",
        [LONG, f"-{LONG}"],
        [Decimal(LONG), Decimal(f"-{LONG}")],
        seen=("decimal256(76, 2)", None, None),
        polars=Refused("does not support primitive `Int256`"),
        duckdb=Refused("Unsupported Internal Arrow Type for Decimal d:76,2,256"),
    ),
    _asked("numeric", "float64", ["0.1", "0.30000000000000001"], [0.1, 0.3]),
    _asked(
        "halfvec",
        "list<float16>",
        ["[0.5,-2]"],
        [[0.5, -2.0]],
        duckdb=Refused("Unsupported Internal Arrow Type"),
    ),
    _asked("bit", "bool", ["1", "0"], [True, False], typmod=1),
    _asked("bit", "binary", ["1010100010"], [b"\xa8\x80"], typmod=10),
    _asked("money", "decimal128(19, 2)", ["-$1,234.50"], [Decimal("-1234.50")]),
    _asked(
        "oid", "int64", ["4294967295"], [4294967295], seen=("int64", "Int64", "BIGINT")
    ),
    _asked(
        "time",
        "time64[ns]",
        ["23:59:59.999999"],
        [dt.time(23, 59, 59, 999999)],
        seen=("time64[ns]", "Time", "TIME_NS"),
    ),
    _asked(
        "timetz",
        "struct<time: time64[us], offset_s: int32>",
        ["12:00:00-03:30"],
        [{"time": dt.time(12), "offset_s": -12600}],
    ),
    _asked(
        "interval",
        "struct<months: int32, days: int32, micros: int64>",
        ["1 year 2 mons -3 days +04:05:06.789"],
        [{"months": 14, "days": -3, "micros": 14_706_789_000}],
    ),
    _asked(
        "numrange",
        _range_of("decimal128(10, 2)"),
        ["[1.50,)"],
        [
            {
                "lower": Decimal("1.50"),
                "upper": None,
                "lower_inc": True,
                "upper_inc": False,
                "empty": False,
            }
        ],
    ),
    _asked("geometry", "binary", [POINT_EWKB.hex().upper()], [POINT_EWKB]),
    _asked(
        "geometry",
        "struct<srid: int32, wkb: binary>",
        [POINT_EWKB.hex().upper()],
        [{"srid": 4326, "wkb": POINT}],
    ),
]
