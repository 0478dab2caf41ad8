"""Every type through `mapInArrow`, value by value, from streams of the type cases."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

import streams
import type_cases
import walrow
import walrow.spark
from spark.changes import collected, decoded
from type_cases import TYPES, Case, Type

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]

IN_SPARK = [of for of in TYPES if of.spark is not None and of.held_by("spark")]


def held(of: Type, form: str) -> list[Case]:
    """The cases that Spark holds, if they have this form. Types without a binary form are text."""
    cases = of.held_by("spark")
    return [case for case in cases if getattr(case, form) is not None] or cases


@pytest.mark.parametrize("form", ["text", "binary"])
def test_values(spark: SparkSession, form: str) -> None:
    """All types side by side, each column's values and then its NULLs."""
    columns = [
        streams.Column(f"c{place}", of.oid, of.typmod)
        for place, of in enumerate(IN_SPARK)
    ]
    of_column = [held(of, form) for of in IN_SPARK]
    height = max(map(len, of_column)) + 1
    rows: list[list[streams.Cell]] = [
        [_cell(cases, row, form) for cases in of_column] for row in range(height)
    ]
    catalog = type_cases.catalog({c.name: (c.oid, c.typmod) for c in columns})
    types = {f"c{n}": of.asked for n, of in enumerate(IN_SPARK) if of.asked}
    capture = streams.wire(columns, rows)
    frame = decoded(spark, capture, "public.t", catalog, types=types)
    kinds = [field.dataType for field in frame.schema.fields]
    found = dict(zip(map(str, IN_SPARK), map(_named, kinds), strict=True))
    assert found == {str(of): of.spark for of in IN_SPARK}
    values = list(zip(*collected(frame), strict=True))
    for place, of in enumerate(IN_SPARK):
        wanted = [type_cases.of_spark(c, kinds[place]) for c in of_column[place]]
        wanted += [None] * (height - len(wanted))
        # repr distinguishes -0.0 from 0.0, and equal NaNs have equal reprs.
        assert list(map(repr, values[place])) == list(map(repr, wanted)), of


def _cell(cases: list[Case], row: int, form: str) -> streams.Cell:
    if row >= len(cases):
        return None
    binary = cases[row].binary
    return binary if form == "binary" and binary is not None else cases[row].text


def _named(kind: Any) -> str:
    return str(kind.simpleString())


def test_every_built_in_type_is_here() -> None:
    known = {oid for oid, _ in type_cases.built_in().values()}
    assert len(known) > 70
    assert known - {of.oid for of in IN_SPARK} == set()


# Spark returns dates as numbers if Python's own dates do not include them.
FAR = [
    ["4714-11-24 BC", "4714-11-24 00:00:00 BC", "4714-11-24 00:00:00+00 BC"],
    [
        "5874897-12-31",
        "294247-01-10 04:00:54.775807",
        "294247-01-10 04:00:54.775807+00",
    ],
]


def test_years_beyond_pythons(spark: SparkSession) -> None:
    columns = [
        streams.Column(name, oid)
        for name, oid in (("a", 1082), ("b", 1114), ("c", 1184))
    ]
    catalog = type_cases.catalog({c.name: (c.oid, -1) for c in columns})
    capture = streams.wire(columns, FAR)
    frame = decoded(spark, capture, "public.t", catalog).selectExpr(
        "unix_date(a)", "unix_micros(cast(b as timestamp))", "unix_micros(c)"
    )
    # PostgreSQL's first day is Julian day 0, its last one 2147483493.
    first, last = -2_440_588, 2_147_483_493 - 2_440_588
    day = 86_400_000_000
    assert [tuple(row) for row in frame.collect()] == [
        (first, first * day, first * day),
        (last, 2**63 - 1, 2**63 - 1),
    ]


def decoded_here(
    name: str,
    cell: streams.Cell,
    *,
    types: dict[str, str] | None = None,
    with_schema: bool = False,
) -> Any:
    """One value through the function for `mapInArrow`, without Spark."""
    built_in = type_cases.built_in().get(name)
    oid = built_in[0] if built_in else type_cases.OIDS.get(name, type_cases.UNKNOWN)
    capture = streams.wire([streams.Column("c", oid)], [[cell]])
    catalog = type_cases.catalog({"c": (oid, -1)})
    schema = walrow.spark.schema(catalog, "t", metadata=(), types=types)
    decode = walrow.spark.decode(
        table="t",
        schema=schema if with_schema else None,
        catalog=catalog,
        metadata=(),
        types=types,
    )
    captures = pa.record_batch({"capture": [capture]})
    (batch,) = decode(iter([captures]))
    return batch.column(0)[0].as_py()


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("text", "large_string"),
        ("text", "string_view"),
        ("text", "dictionary"),
        ("bytea", "large_binary"),
        ("bytea", "binary_view"),
        ("oid", "uint32"),
        ("xid8", "uint64"),
        ("uuid", "uuid"),
        ("numeric", "decimal256(50, 2)"),
        ("time", "time64[us]"),
        ("interval", "month_day_nano_interval"),
        ("halfvec", "list<float16>"),
        ("vector", "large_list<float32>"),
        ("tid", pa.struct([("block", pa.uint32()), ("offset", pa.uint16())])),
    ],
)
def test_arrow_types_that_spark_lacks_are_refused(name: str, wanted: Any) -> None:
    oid = type_cases.built_in().get(name, (type_cases.OIDS.get(name),))[0]
    assert oid is not None
    catalog = type_cases.catalog({"c": (oid, -1)})
    walrow.schema(catalog, "t", types={"c": wanted})
    for refuse in (
        lambda: walrow.spark.decode(table="t", types={"c": wanted}),
        lambda: walrow.spark.schema(catalog, "t", types={"c": wanted}),
    ):
        with pytest.raises(
            walrow.errors.OptionError, match="which Spark's schemas do not have"
        ):
            refuse()


#: SRID=4326;POINT(1 2)
IN_4326 = bytes.fromhex("0101000020e6100000000000000000f03f0000000000000040")


@pytest.mark.parametrize(
    ("name", "cell", "hint"),
    [
        ("date", "infinity", 'unrepresentable={"public.t.c": "null"}'),
        ("timestamp", "294276-12-31 23:59:59", '"string"'),
        ("xid8", "9223372036854775808", '"string"'),
        ("int2vector", "40000", "16 bits"),
        ("money", b"\0\0\0\0\0\0\0\1", '"decimal128(19, 2)"'),
        ("tsquery", b"\0\0\0\0", '"binary"'),
        ("geometry", IN_4326, '"binary"'),
        ("gone", b"\0", "a type that is not in the catalog"),
    ],
)
def test_values_that_do_not_fit_are_errors_with_a_remedy(
    name: str, cell: streams.Cell, hint: str
) -> None:
    with pytest.raises(walrow.Error) as caught:
        decoded_here(name, cell)
    assert str(caught.value).startswith("public.t.c: ")
    assert hint in str(caught.value)


def test_error_of_a_value_reaches_the_driver(spark: SparkSession) -> None:
    capture = streams.wire([streams.Column("c", 1082)], [["infinity"]])
    catalog = type_cases.catalog({"c": (1082, -1)})
    hint = r'public\.t\.c: .* unrepresentable=\{"public\.t\.c": "null"\}'
    with pytest.raises(PythonException, match=hint):
        decoded(spark, capture, "public.t", catalog).collect()
    frame = decoded(spark, capture, "public.t", catalog, unrepresentable="null")
    assert collected(frame) == [[None]]
