"""Values of every type, as SQL writes them and as Spark gives them to Python, by hand."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql import Row

D = Decimal
INF = float("inf")
NAN = float("nan")


@dataclass(frozen=True)
class Column:
    """A column and its values.

    Attributes:
        sql: Its type in SQL.
        spark: Its type in Spark, as `simpleString` has it.
        values: What is inserted, and what Spark gives of it.
    """

    sql: str
    spark: str
    values: list[tuple[str, Any]]


def _texts(types: str, *values: str) -> list[Column]:
    """Types whose text is their value."""
    return [Column(name, "string", [(v, v) for v in values]) for name in types.split()]


def _utc(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type,misc]


def _naive(*parts: int) -> dt.datetime:
    return dt.datetime(*parts)  # type: ignore[arg-type]


def _interval(months: int, days: int, micros: int) -> Row:
    return Row(months=months, days=days, micros=micros)


INTERVAL = "struct<months:int,days:int,micros:bigint>"
DIGITS = "9" * 36 + ".99"
LONG = "9" * 60 + ".125"

SCALARS = [
    Column("bool", "boolean", [("t", True), ("f", False)]),
    Column("int2", "smallint", [("32767", 32767), ("-32768", -32768)]),
    Column("int4", "int", [("2147483647", 2**31 - 1), ("-2147483648", -(2**31))]),
    Column(
        "int8",
        "bigint",
        [("9223372036854775807", 2**63 - 1), ("-9223372036854775808", -(2**63))],
    ),
    *(
        Column(name, "bigint", [("0", 0), ("4294967295", 2**32 - 1)])
        for name in ("oid", "xid", "cid")
    ),
    Column("xid8", "bigint", [("0", 0), ("9223372036854775807", 2**63 - 1)]),
    Column("pg_lsn", "bigint", [("0/1", 1), ("7FFFFFFF/FFFFFFFF", 2**63 - 1)]),
    Column(
        "float4",
        "float",
        [
            ("0.1", 13421773 / 2**27),
            ("-0", -0.0),
            ("NaN", NAN),
            ("Infinity", INF),
            ("1e-45", 2.0**-149),
        ],
    ),
    Column(
        "float8",
        "double",
        [
            ("0.30000000000000004", 0.1 + 0.2),
            ("-0", -0.0),
            ("NaN", NAN),
            ("-Infinity", -INF),
            ("1.7976931348623157e308", 1.7976931348623157e308),
        ],
    ),
    Column(
        "numeric(12,2)",
        "decimal(12,2)",
        [("9999999999.99", D("9999999999.99")), ("-0.01", D("-0.01"))],
    ),
    Column(
        "numeric(38,2)",
        "decimal(38,2)",
        [(DIGITS, D(DIGITS)), (f"-{DIGITS}", D(f"-{DIGITS}"))],
    ),
    Column("numeric(5,-2)", "decimal(7,0)", [("9999900", D(9999900)), ("149", D(100))]),
    Column("numeric(3,5)", "decimal(5,5)", [("0.00999", D("0.00999"))]),
    *_texts("numeric", "1.500", "NaN", "Infinity", "-Infinity", LONG, "0.000"),
    *_texts("numeric(63,3)", LONG),
    *_texts("text varchar refcursor", "", "é 🦀", "NULL", "a\n\\b\t"),
    *_texts("name", "", "é"),
    Column("bpchar(5)", "string", [("ab", "ab   "), ("", "     ")]),
    Column('"char"', "string", [("a", "a"), ("", ""), (r"\377", r"\377")]),
    Column("bytea", "binary", [(r"\x", b""), (r"\x00ff5c", b"\x00\xff\\")]),
    *_texts("uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    *_texts("json", '{"b": 1,  "a": 1e400, "b": 2}', "null"),
    Column(
        "jsonb",
        "string",
        [
            ('{"b":1,"aa":2,"a":1.50}', '{"a": 1.50, "b": 1, "aa": 2}'),
            ("12345678901234567890123456789", "12345678901234567890123456789"),
        ],
    ),
    Column("jsonpath", "string", [("$.a[*] ? (@ > 1)", '$."a"[*]?(@ > 1)')]),
    *_texts("bit(1)", "1", "0"),
    *_texts("bit(10)", "1010100010"),
    *_texts("varbit", "", "101"),
    Column(
        "date",
        "date",
        [("2024-02-29", dt.date(2024, 2, 29)), ("0001-01-01", dt.date(1, 1, 1))],
    ),
    *_texts("time", "00:00:00", "23:59:59.999999", "24:00:00", "12:00:00.5"),
    Column(
        "timetz",
        "string",
        [
            ("23:59:59.5-15:59:59", "23:59:59.5-15:59:59"),
            ("12:00+05:30", "12:00:00+05:30"),
            ("24:00:00+00", "24:00:00+00"),
        ],
    ),
    Column(
        "timestamp",
        "timestamp_ntz",
        [
            ("2024-02-29 13:14:15.123456", _naive(2024, 2, 29, 13, 14, 15, 123456)),
            ("9999-12-31 23:59:59.999999", _naive(9999, 12, 31, 23, 59, 59, 999999)),
            ("0001-01-01", _naive(1, 1, 1)),
            # There is no such hour in some zones.
            ("2024-03-31 02:30:00", _naive(2024, 3, 31, 2, 30)),
        ],
    ),
    Column(
        "timestamptz",
        "timestamp",
        [
            ("2024-02-29 13:14:15.5+05:30", _utc(2024, 2, 29, 7, 44, 15, 500000)),
            ("1969-12-31 23:59:59.999999+00", _utc(1969, 12, 31, 23, 59, 59, 999999)),
            ("2024-03-31 02:30:00+00", _utc(2024, 3, 31, 2, 30)),
        ],
    ),
    Column(
        "interval",
        INTERVAL,
        [
            ("1 year 2 mons -3 days 04:05:06.789", _interval(14, -3, 14_706_789_000)),
            ("-00:00:00.000001", _interval(0, 0, -1)),
            ("0", _interval(0, 0, 0)),
            ("2562047788:00:54.775806", _interval(0, 0, 2**63 - 2)),
        ],
    ),
    *_texts("inet", "192.168.0.1", "10.1.2.3/8", "2001:db8::1/64", "::ffff:1.2.3.4"),
    *_texts("cidr", "10.0.0.0/8", "2001:db8::/32"),
    *_texts("macaddr", "08:00:2b:01:02:03"),
    *_texts("macaddr8", "08:00:2b:01:02:03:04:05"),
    *_texts("tsvector", "'a':1A 'cat''s':2", ""),
    *_texts("pg_snapshot txid_snapshot", "10:20:10,14", "1:1:"),
    *_texts("tid", "(4294967295,65535)"),
    Column("int2vector", "array<smallint>", [("1 -2", [1, -2]), ("", [])]),
    Column("oidvector", "array<bigint>", [("4294967295", [2**32 - 1]), ("", [])]),
    *_texts("point", "(1.5,-2)", "(Infinity,1e-05)"),
    *_texts("lseg", "[(0,1),(2,3)]"),
    *_texts("box", "(2,3),(0,1)"),
    *_texts("line", "{1,-1,0.5}"),
    *_texts("circle", "<(1,2),0>"),
    *_texts("path", "[(0,0),(1,1)]", "((0,0))"),
    *_texts("polygon", "((0,0),(1,1))"),
    Column(
        "int4range", "string", [("[1,9]", "[1,10)"), ("empty", "empty"), ("(,)", "(,)")]
    ),
    *_texts("int8range", "[1,9223372036854775807)"),
    *_texts("numrange", "(1.50,Infinity]", "empty"),
    *_texts("daterange", "[2024-01-01,2024-02-01)", "[2024-01-01,infinity)"),
    *_texts("tsrange", '["2024-01-01 00:00:00.5",)'),
    *_texts("tstzrange", '("2024-01-01 00:00:00+00",)'),
    *_texts("int4multirange int8multirange", "{[1,3),[5,8)}", "{}"),
    *_texts("nummultirange", "{[1.5,2]}"),
    *_texts("datemultirange", "{[2024-01-01,2024-02-01)}"),
    *_texts("tsmultirange", '{["2024-01-01 00:00:00",)}'),
    *_texts("tstzmultirange", '{["2024-01-01 00:00:00+00",)}'),
    # This server is built without libxml.
    *_texts("xml"),
    # Types of system catalogs, of which nobody can write a value.
    *_texts(
        "gtsvector pg_node_tree pg_ndistinct pg_dependencies pg_mcv_list"
        " pg_brin_bloom_summary pg_brin_minmax_multi_summary"
    ),
]

OWN_SQL = """
CREATE TYPE mood AS ENUM ('sad', 'very happy');
CREATE DOMAIN price AS numeric(6,2);
CREATE DOMAIN feeling AS mood;
CREATE DOMAIN scores AS int[];
CREATE TYPE pair AS (n int, cost numeric(6,2), at timestamptz);
CREATE TYPE nest AS (one pair, many pair[], mood mood);
CREATE TYPE floatrange AS RANGE (subtype = float8, multirange_type_name = floatmultirange);
"""
PAIR = "struct<n:int,cost:decimal(6,2),at:timestamp>"
_PAIR = Row(n=1, cost=D("2.50"), at=_utc(2024, 1, 1))
_NULLS = Row(n=None, cost=None, at=None)

CONTAINERS = [
    *_texts("mood feeling", "sad", "very happy"),
    Column("price", "decimal(6,2)", [("-9999.99", D("-9999.99"))]),
    Column("scores", "array<int>", [("{1,NULL}", [1, None]), ("{}", [])]),
    Column("pair", PAIR, [("(1,2.5,2024-01-01 00:00+00)", _PAIR), ("(,,)", _NULLS)]),
    Column(
        "nest",
        f"struct<one:{PAIR},many:array<{PAIR}>,mood:string>",
        [
            (
                '("(1,2.5,2024-01-01 00:00+00)","{\\"(,,)\\",NULL}",sad)',
                Row(one=_PAIR, many=[_NULLS, None], mood="sad"),
            ),
            ("(,{},)", Row(one=None, many=[], mood=None)),
        ],
    ),
    *_texts("floatrange", "[1.5,2.5)", "empty"),
    *_texts("floatmultirange", "{[1.5,2.5)}", "{}"),
    Column("bool[]", "array<boolean>", [("{t,NULL,f}", [True, None, False])]),
    Column(
        "int4[]",
        "array<int>",
        [("{1,NULL,-2147483648}", [1, None, -(2**31)]), ("{}", [])],
    ),
    Column("int8[]", "array<bigint>", [("{9223372036854775807}", [2**63 - 1])]),
    Column("oid[]", "array<bigint>", [("{4294967295}", [2**32 - 1])]),
    Column("float8[]", "array<double>", [("{NaN,-0,NULL}", [NAN, -0.0, None])]),
    Column(
        "numeric(8,3)[]", "array<decimal(8,3)>", [("{1.5,NULL}", [D("1.500"), None])]
    ),
    Column("numeric[]", "array<string>", [("{1.50,NaN}", ["1.50", "NaN"])]),
    Column(
        "text[]",
        "array<string>",
        [(r'{"",NULL,"NULL","a,b","q\"\\"}', ["", None, "NULL", "a,b", 'q"\\'])],
    ),
    Column("bytea[]", "array<binary>", [(r'{"\\x00ff",NULL}', [b"\x00\xff", None])]),
    Column(
        "uuid[]",
        "array<string>",
        [("{" + "0" * 32 + "}", ["00000000-0000-0000-0000-000000000000"])],
    ),
    Column("jsonb[]", "array<string>", [(r'{"{\"a\": 1}"}', ['{"a": 1}'])]),
    Column(
        "date[]", "array<date>", [("{2024-02-29,NULL}", [dt.date(2024, 2, 29), None])]
    ),
    Column(
        "timestamp[]", "array<timestamp_ntz>", [("{2024-02-29}", [_naive(2024, 2, 29)])]
    ),
    Column(
        "timestamptz[]",
        "array<timestamp>",
        [("{2024-02-29 00:00+00}", [_utc(2024, 2, 29)])],
    ),
    Column("interval[]", f"array<{INTERVAL}>", [("{1 mon}", [_interval(1, 0, 0)])]),
    Column(
        "box[]",
        "array<string>",
        [("{(2,3),(0,1);(1,1),(0,0)}", ["(2,3),(0,1)", "(1,1),(0,0)"])],
    ),
    Column("int4range[]", "array<string>", [('{"[1,3)",empty}', ["[1,3)", "empty"])]),
    Column(
        "mood[]",
        "array<string>",
        [('{sad,NULL,"very happy"}', ["sad", None, "very happy"])],
    ),
    Column("price[]", "array<decimal(6,2)>", [("{1.5}", [D("1.50")])]),
    Column("pair[]", f"array<{PAIR}>", [('{"(,,)",NULL}', [_NULLS, None]), ("{}", [])]),
]

#: Whose binary form is not read or says something else than their text.
TEXT_ONLY = [
    *_texts("money", "$1,234.50", "-$0.01"),
    *_texts("tsquery", "'fat' & !'rat'", ""),
    *_texts("aclitem", "postgres=arwdDxtm/postgres"),
    *_texts("regclass", "pg_class", "-"),
    *_texts("regtype", "integer"),
    *_texts("regproc", "int4in"),
    *_texts("regprocedure", "int4in(cstring)"),
    *_texts("regoper", "||/"),
    *_texts("regoperator", "+(integer,integer)"),
    *_texts("regrole", "postgres"),
    *_texts("regnamespace", "pg_catalog"),
    Column("regcollation", "string", [('"C"', '"C"')]),
    *_texts("regconfig", "english"),
    *_texts("regdictionary", "simple"),
]
