"""Cells of every type as PostgreSQL writes them, and what Arrow's readers make of them.

Expected values are by hand. Where a library gives another value, or refuses the type, it
says so by its name; else all three give what pyarrow does.
"""

from __future__ import annotations

import datetime as dt
import uuid
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import own_types
from streams import Cell, Column

D = Decimal
DATE, TIME, STAMP = dt.date, dt.time, dt.datetime
INF = float("inf")


@dataclass(frozen=True)
class Refused:
    """How a library refuses a type: a part of what it says."""

    text: str


@dataclass(frozen=True)
class Case:
    """A column alone in its table; a NULL follows the cells.

    Attributes:
        column: Its type.
        cells: Its values as text.
        values: What pyarrow gives, and what the others do if they do not say otherwise.
        polars: What polars gives, or how it refuses.
        duckdb: What duckdb gives, or how it refuses.
        sql: What duckdb is asked of the column `c`.
        types: What is asked for.
        seen: The column's type as pyarrow, polars and duckdb name it, None for any.
    """

    name: str
    column: Column
    cells: list[Cell]
    values: list[Any]
    polars: list[Any] | Refused | None = None
    duckdb: list[Any] | Refused | None = None
    sql: str = "c"
    types: Any = None
    seen: tuple[str | None, ...] = field(default=(None, None, None))

    def __str__(self) -> str:
        return self.name


def of_type(name: str, cells: list[Cell], values: list[Any], **more: Any) -> Case:
    """A case of a type, by its name and limits."""
    kind, _, limits = name.partition("(")
    array = name.endswith("[]")
    plain = kind.removesuffix("[]")
    if plain in own_types.OIDS:
        oid = own_types.OIDS[plain] + array
    else:
        oid = BUILT_IN[plain][int(array)]
    typmod = more.pop("typmod", -1)
    if limits and "," in limits and plain == "numeric":
        precision, scale = map(int, limits.removesuffix("[]").strip(")").split(","))
        typmod = (precision << 16 | scale & 0x7FF) + 4
    return Case(
        more.pop("called", name), Column("c", oid, typmod), cells, values, **more
    )


BUILT_IN = own_types.built_in()
UTC = dt.UTC
LONGEST = "9" * 36 + ".99"
POINT = bytes.fromhex("0101000000000000000000F03F0000000000000040")
POINT_EWKB = bytes.fromhex("0101000020E6100000000000000000F03F0000000000000040")


def _range(lower: Any, upper: Any, bounds: str = "[)") -> dict[str, Any]:
    return {
        "lower": lower,
        "upper": upper,
        "lower_inc": bounds[0] == "[",
        "upper_inc": bounds[1] == "]",
        "empty": False,
    }


EMPTY = {
    "lower": None,
    "upper": None,
    "lower_inc": False,
    "upper_inc": False,
    "empty": True,
}


def _points(*points: tuple[float, float]) -> list[dict[str, float]]:
    return [{"x": x, "y": y} for x, y in points]


def _same(names: str, cells: list[Cell]) -> list[Case]:
    """Types whose text is their value."""
    return [of_type(name, cells, list(cells)) for name in names.split()]


SCALARS = [
    of_type("bool", ["t", "f"], [True, False]),
    of_type("int2", ["32767", "-32768"], [32767, -32768]),
    of_type("int4", ["2147483647", "-2147483648"], [2147483647, -2147483648]),
    of_type(
        "int8",
        ["9223372036854775807", "-9223372036854775808"],
        [9223372036854775807, -9223372036854775808],
    ),
    of_type("oid", ["0", "4294967295"], [0, 4294967295]),
    of_type("xid", ["0", "4294967295"], [0, 4294967295]),
    of_type("cid", ["0", "4294967295"], [0, 4294967295]),
    of_type("xid8", ["18446744073709551615"], [18446744073709551615]),
    of_type("pg_lsn", ["16/B374D848", "FFFFFFFF/FFFFFFFF"], [97500059720, 2**64 - 1]),
    of_type("float4", ["1.5", "-Infinity", "1e-45"], [1.5, -INF, 2.0**-149]),
    of_type("float8", ["0.30000000000000004", "Infinity"], [0.1 + 0.2, INF]),
    of_type(
        "numeric(12,2)", ["9999999999.99", "-0.01"], [D("9999999999.99"), D("-0.01")]
    ),
    of_type("numeric(38,2)", [LONGEST, f"-{LONGEST}"], [D(LONGEST), D(f"-{LONGEST}")]),
    of_type("numeric(5,-2)", ["9999900", "0"], [D(9999900), D(0)]),
    of_type("numeric(3,5)", ["0.00999"], [D("0.00999")]),
    *_same("numeric", ["1.500", "NaN", "-Infinity", "1" + "0" * 60]),
    *_same("money", ["$1,234.50", "-$0.01"]),
    *_same("text varchar name xml refcursor pg_node_tree", ["", "é 🦀\n\\", "NULL"]),
    *_same("bpchar", ["ab   "]),
    *_same("char", ["a", "", "\\377"]),
    of_type("bytea", ["\\x", "\\x00ff"], [b"", b"\x00\xff"]),
    of_type(
        "uuid",
        ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
        [uuid.UUID("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")],
        polars=[bytes.fromhex("a0eebc999c0b4ef8bb6d6bb9bd380a11")],
    ),
    *_same("json", ['{"b": 1,  "a": 1}', "null"]),
    *_same("jsonb", ['{"a": 12345678901234567890123456789}', "[]"]),
    *_same("jsonpath", ["$.a[*]?(@ > 1)"]),
    *_same("bit varbit", ["10101", "0"]),
    *_same("inet", ["192.168.0.1", "2001:db8::1/64"]),
    *_same("cidr", ["10.0.0.0/8"]),
    *_same("macaddr", ["08:00:2b:01:02:03"]),
    *_same("macaddr8", ["08:00:2b:01:02:03:04:05"]),
    *_same("tsvector", ["'a':1A 'cat''s':2"]),
    *_same("tsquery", ["'fat' & !'rat'"]),
    *_same("gtsvector", ["1 unique words"]),
    *_same("aclitem", ["postgres=arwdDxtm/postgres"]),
    *_same("pg_snapshot txid_snapshot", ["10:20:10,14"]),
    *_same("regclass regtype regproc regrole regnamespace regcollation", ["a", "-"]),
    *_same("regprocedure regoper regoperator regconfig regdictionary", ["a", "-"]),
    *_same(
        "pg_ndistinct pg_dependencies pg_mcv_list pg_brin_bloom_summary"
        " pg_brin_minmax_multi_summary",
        ["{}"],
    ),
    of_type("tid", ["(4294967295,65535)"], [{"block": 4294967295, "offset": 65535}]),
    of_type("int2vector", ["1 -2", ""], [[1, -2], []]),
    of_type("oidvector", ["1 4294967295", ""], [[1, 4294967295], []]),
]

TIMES = [
    of_type("date", ["2024-02-29", "0001-01-01"], [DATE(2024, 2, 29), DATE(1, 1, 1)]),
    of_type(
        "date",
        ["0044-03-15 BC", "5874897-12-31"],
        # Python's dates end at 9999: days since 1970. PostgreSQL's last day is that before
        # Julian day 2147483494, and 1970 begins at 2440588.
        [-735_160, 2_147_483_494 - 1 - 2_440_588],
        called="date beyond Python's",
        duckdb=["0044-03-15 (BC)", "5874897-12-31"],
        sql="c::VARCHAR",
    ),
    of_type(
        "time",
        ["00:00:00", "23:59:59.999999"],
        [TIME(0), TIME(23, 59, 59, 999999)],
    ),
    *_same("timetz", ["23:59:59.5-15:59:59"]),
    of_type(
        "timestamp",
        ["2024-02-29 13:14:15.123456", "9999-12-31 23:59:59.999999"],
        [
            STAMP(2024, 2, 29, 13, 14, 15, 123456),
            STAMP(9999, 12, 31, 23, 59, 59, 999999),
        ],
    ),
    of_type(
        "timestamptz",
        ["2024-02-29 13:14:15.5+05:30", "1900-01-01 00:00:00-00:43:08"],
        [
            STAMP(2024, 2, 29, 7, 44, 15, 500000, tzinfo=UTC),
            STAMP(1900, 1, 1, 0, 43, 8, tzinfo=UTC),
        ],
    ),
    of_type(
        "interval",
        ["1 year 2 mons -3 days +04:05:06.789", "-00:00:00.000001"],
        [(14, -3, 14_706_789_000_000), (0, 0, -1000)],
        polars=Refused("could not import from `month_day_nano_interval` type"),
        duckdb=["1 year 2 months -3 days 04:05:06.789", "-00:00:00.000001"],
        sql="c::VARCHAR",
    ),
]

SHAPES = [
    of_type(
        "point", ["(1.5,-2)", "(Infinity,1e-05)"], _points((1.5, -2), (INF, 1e-05))
    ),
    of_type("lseg", ["[(0,1),(2,3)]"], [{"x1": 0, "y1": 1, "x2": 2, "y2": 3}]),
    of_type("box", ["(2,3),(0,1)"], [{"x1": 2, "y1": 3, "x2": 0, "y2": 1}]),
    of_type("line", ["{1,-1,0.5}"], [{"a": 1, "b": -1, "c": 0.5}]),
    of_type("circle", ["<(1,2),0>"], [{"x": 1, "y": 2, "r": 0}]),
    of_type(
        "path",
        ["[(0,0),(1,1)]", "((0,0))"],
        [
            {"closed": False, "points": _points((0, 0), (1, 1))},
            {"closed": True, "points": _points((0, 0))},
        ],
    ),
    of_type("polygon", ["((0,0),(1,1))"], [_points((0, 0), (1, 1))]),
]

RANGES = [
    of_type(
        "int4range",
        ["[1,10)", "(,5)", "empty", "(,)"],
        [_range(1, 10), _range(None, 5, "()"), EMPTY, _range(None, None, "()")],
    ),
    of_type("int8range", ["[1,9223372036854775807)"], [_range(1, 2**63 - 1)]),
    of_type("numrange", ["(1.50,Infinity]"], [_range("1.50", "Infinity", "(]")]),
    of_type(
        "daterange",
        ["[2024-01-01,2024-02-01)"],
        [_range(DATE(2024, 1, 1), DATE(2024, 2, 1))],
    ),
    of_type(
        "tsrange",
        ['["2024-01-01 00:00:00.5",)'],
        [_range(STAMP(2024, 1, 1, 0, 0, 0, 500000), None)],
    ),
    of_type(
        "tstzrange",
        ['("2024-01-01 00:00:00+00",)'],
        [_range(STAMP(2024, 1, 1, tzinfo=UTC), None, "()")],
    ),
    of_type(
        "int4multirange", ["{[1,3),[5,8)}", "{}"], [[_range(1, 3), _range(5, 8)], []]
    ),
    of_type("int8multirange", ["{(,3)}"], [[_range(None, 3, "()")]]),
    of_type("nummultirange", ["{[1.5,2]}"], [[_range("1.5", "2", "[]")]]),
    of_type(
        "datemultirange",
        ["{[2024-01-01,2024-02-01)}"],
        [[_range(DATE(2024, 1, 1), DATE(2024, 2, 1))]],
    ),
    of_type(
        "tsmultirange",
        ['{["2024-01-01 00:00:00",)}'],
        [[_range(STAMP(2024, 1, 1), None)]],
    ),
    of_type(
        "tstzmultirange",
        ['{["2024-01-01 00:00:00+00",)}'],
        [[_range(STAMP(2024, 1, 1, tzinfo=UTC), None)]],
    ),
    of_type("floatrange", ["[1.5,2.5)", "empty"], [_range(1.5, 2.5), EMPTY]),
    of_type("floatmultirange", ["{[1.5,2.5)}"], [[_range(1.5, 2.5)]]),
]

ARRAYS = [
    of_type("int4[]", ["{1,NULL,2147483647}", "{}"], [[1, None, 2147483647], []]),
    of_type("text[]", ['{"",NULL,"NULL","a,b"}'], [["", None, "NULL", "a,b"]]),
    of_type("numeric(12,2)[]", ["{1.50,NULL}"], [[D("1.50"), None]], typmod=0),
    of_type("date[]", ["{2024-02-29}"], [[DATE(2024, 2, 29)]]),
    of_type("bytea[]", ['{"\\\\x00ff",NULL}'], [[b"\x00\xff", None]]),
    of_type(
        "box[]",
        ["{(2,3),(0,1);(1,1),(0,0)}"],
        [
            [
                {"x1": 2, "y1": 3, "x2": 0, "y2": 1},
                {"x1": 1, "y1": 1, "x2": 0, "y2": 0},
            ]
        ],
    ),
    of_type("int4range[]", ['{"[1,3)",empty}'], [[_range(1, 3), EMPTY]]),
    of_type("mood[]", ["{sad,NULL}"], [["sad", None]]),
]

OWN = [
    *_same("mood feeling", ["sad", "ok"]),
    of_type("price", ["-9999.99"], [D("-9999.99")]),
    of_type("scores", ["{1,2}"], [[1, 2]]),
    of_type(
        "pair",
        ["(1,2.50)", "(,)"],
        [{"n": 1, "cost": D("2.50")}, {"n": None, "cost": None}],
    ),
    of_type("pair[]", ['{"(1,2.50)",NULL}'], [[{"n": 1, "cost": D("2.50")}, None]]),
    *_same("nothing", ["()"]),
    *_same("citext ltree lquery ltxtquery", ["A.b"]),
    *_same("cube", ["(1, 2),(3, 4)"]),
    *_same("isbn", ["0-306-40615-2"]),
    *_same("seg", ["1.5 .. 2"]),
    *_same("box2d", ["BOX(0 0,1 1)"]),
    of_type(
        "hstore",
        ['"a"=>"1", "b"=>NULL', ""],
        [[("a", "1"), ("b", None)], []],
        polars=[{"a": "1", "b": None}, {}],
        duckdb=[{"a": "1", "b": None}, {}],
    ),
    of_type("vector", ["[1,2.5]", "[-3]"], [[1.0, 2.5], [-3.0]]),
    of_type(
        "vector",
        ["[1,2.5,-3]"],
        [[1.0, 2.5, -3.0]],
        called="vector(3)",
        typmod=3,
        duckdb=[(1.0, 2.5, -3.0)],
    ),
    of_type("halfvec", ["[0.5,65504]"], [[0.5, 65504.0]]),
    of_type(
        "sparsevec",
        ["{1:1.5,3:-2}/5", "{}/3"],
        [
            {"dim": 5, "indices": [0, 2], "values": [1.5, -2.0]},
            {"dim": 3, "indices": [], "values": []},
        ],
    ),
    of_type("geometry", [POINT.hex().upper()], [POINT]),
    of_type(
        "geography",
        [POINT_EWKB.hex().upper()],
        [POINT],
        duckdb=Refused("non-planar edges"),
    ),
]

CASES = [*SCALARS, *TIMES, *SHAPES, *RANGES, *ARRAYS, *OWN]
