"""Types of extensions and unknown ones through `mapInArrow`, from streams by hand.

No server here has pgvector or PostGIS. Their binary forms are by their sources.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark", reason="needs PySpark: pip install pyspark==4.3.0")

from pyspark.errors import PythonException  # noqa: E402
from pyspark.sql import Row  # noqa: E402

import own_types  # noqa: E402
import streams  # noqa: E402
import walrow  # noqa: E402
import walrow.spark  # noqa: E402
from spark.changes import collected, decoded  # noqa: E402

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]


@dataclass(frozen=True)
class Value:
    """A value in both formats, and what Spark gives of it.

    Attributes:
        name: Its type.
        text: As text.
        binary: As binary; None where the type has no such form, and so is sent as text.
        spark: The type in Spark.
        value: What Spark gives to Python.
        types: What is asked for.
        typmod: The type's modifier.
    """

    name: str
    text: str
    binary: bytes | None
    spark: str
    value: Any
    types: str | None = None
    typmod: int = -1

    @property
    def oid(self) -> int:
        built_in = own_types.built_in().get(self.name)
        return built_in[0] if built_in else own_types.OIDS.get(self.name, 29999)


def _wkb(kind: int, *numbers: float, srid: int | None = None) -> bytes:
    if srid is None:
        return struct.pack(f"<BI{len(numbers)}d", 1, kind, *numbers)
    flagged = kind | 0x2000_0000
    return struct.pack(f"<BII{len(numbers)}d", 1, flagged, srid, *numbers)


POINT = _wkb(1, 1, 2)
IN_4326 = _wkb(1, 1, 2, srid=4326)
# EWKB has a flag for a third coordinate, ISO WKB another type.
HIGH = _wkb(0x8000_0001, 1, 2, 3)
HIGH_ISO = _wkb(1001, 1, 2, 3)
SPARSE = "struct<dim:int,indices:array<int>,values:array<float>>"
PAIRS = struct.pack("!ii1si1si1si", 2, 1, b"a", 1, b"1", 1, b"b", -1)
LOCATED = "struct<srid: int32, wkb: binary>"

VALUES = [
    Value("citext", "Ab", b"Ab", "string", "Ab"),
    Value("xml", "<a>é</a>", "<a>é</a>".encode(), "string", "<a>é</a>"),
    *(
        Value(name, "a.b", b"\x01a.b", "string", "a.b")
        for name in ("ltree", "lquery", "ltxtquery")
    ),
    Value(
        "hstore",
        '"a"=>"1", "b"=>NULL',
        PAIRS,
        "map<string,string>",
        {"a": "1", "b": None},
    ),
    Value("hstore", "", struct.pack("!i", 0), "map<string,string>", {}),
    Value(
        "cube",
        "(1, 2),(3, 4)",
        struct.pack("!I4d", 2, 1, 2, 3, 4),
        "string",
        "(1, 2),(3, 4)",
    ),
    Value(
        "vector",
        "[1,-2.5]",
        struct.pack("!HH2f", 2, 0, 1, -2.5),
        "array<float>",
        [1.0, -2.5],
    ),
    Value(
        "vector",
        "[1,2,3]",
        struct.pack("!HH3f", 3, 0, 1, 2, 3),
        "array<float>",
        [1.0, 2.0, 3.0],
        typmod=3,
    ),
    Value(
        "halfvec",
        "[0.5,65504]",
        struct.pack("!HH2e", 2, 0, 0.5, 65504),
        "array<float>",
        [0.5, 65504.0],
    ),
    Value(
        "sparsevec",
        "{1:1.5,3:-2}/5",
        struct.pack("!iiiii2f", 5, 2, 0, 0, 2, 1.5, -2),
        SPARSE,
        Row(dim=5, indices=[0, 2], values=[1.5, -2.0]),
    ),
    Value(
        "sparsevec",
        "{}/3",
        struct.pack("!iii", 3, 0, 0),
        SPARSE,
        Row(dim=3, indices=[], values=[]),
    ),
    Value("geometry", POINT.hex().upper(), POINT, "binary", POINT),
    Value("geometry", IN_4326.hex().upper(), IN_4326, "binary", IN_4326, "binary"),
    Value(
        "geometry",
        IN_4326.hex().upper(),
        IN_4326,
        "struct<srid:int,wkb:binary>",
        Row(srid=4326, wkb=POINT),
        LOCATED,
    ),
    Value(
        "geometry",
        IN_4326.hex().upper(),
        IN_4326,
        "string",
        IN_4326.hex().upper(),
        "string",
    ),
    Value("isbn", "0-306-40615-2", None, "string", "0-306-40615-2"),
    Value("seg", "1.5 .. 2", None, "string", "1.5 .. 2"),
    Value("box2d", "BOX(0 0,1 1)", None, "string", "BOX(0 0,1 1)"),
    Value("gone", "what it says", None, "string", "what it says"),
    Value("gone", "what it says", b"\x00\x01", "binary", None, "binary"),
]


#: Whose ISO WKB is not what PostGIS sends.
GEOMETRIES = [
    Value("geometry", HIGH.hex().upper(), HIGH, "binary", HIGH_ISO),
    Value(
        "geometry",
        IN_4326.hex().upper(),
        IN_4326,
        "binary",
        POINT,
        typmod=own_types.POINT_4326,
    ),
    Value("geography", IN_4326.hex().upper(), IN_4326, "binary", POINT),
]


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
@pytest.mark.parametrize("value", GEOMETRIES, ids=lambda value: value.name)
def test_geometries_are_iso_wkb(value: Value, *, binary: bool) -> None:
    assert decoded_here(value, value.binary if binary else value.text) == value.value


@pytest.mark.parametrize("value", GEOMETRIES, ids=lambda value: value.name)
def test_geometries_are_iso_wkb_under_a_schema_too(value: Value) -> None:
    assert decoded_here(value, value.text, with_schema=True) == value.value


def decoded_here(value: Value, cell: streams.Cell, *, with_schema: bool = False) -> Any:
    """What the function for `mapInArrow` makes of one value, without Spark."""
    capture = streams.wire([streams.Column("c", value.oid, value.typmod)], [[cell]])
    catalog = own_types.catalog({"c": (value.oid, value.typmod)})
    schema = walrow.spark.schema(catalog, "t", metadata=())
    decode = walrow.spark.decode(
        table="t",
        schema=schema if with_schema else None,
        catalog=catalog,
        metadata=(),
    )
    captures = pa.record_batch({"capture": [capture]})
    (batch,) = decode(iter([captures]))
    return batch.column(0)[0].as_py()


@pytest.mark.parametrize("binary", [False, True], ids=["text", "binary"])
def test_values(spark: SparkSession, *, binary: bool) -> None:
    columns = [
        streams.Column(f"c{place}", value.oid, value.typmod)
        for place, value in enumerate(VALUES)
    ]
    cells: list[streams.Cell] = [
        value.binary if binary and value.binary is not None else value.text
        for value in VALUES
    ]
    capture = streams.wire(columns, [cells, [None] * len(VALUES)])
    catalog = own_types.catalog(
        {each.name: (each.oid, each.typmod) for each in columns}
    )
    types = {f"c{n}": value.types for n, value in enumerate(VALUES) if value.types}
    frame = decoded(spark, capture, "public.t", catalog, types=types)
    found = [field.dataType.simpleString() for field in frame.schema.fields]
    assert found == [value.spark for value in VALUES]
    first, second = collected(frame)
    # Of what is not known, bytes are what was sent.
    sent = b"\x00\x01" if binary else b"what it says"
    assert first == [*(value.value for value in VALUES[:-1]), sent]
    assert second == [None] * len(VALUES)


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
def test_what_spark_does_not_take_is_refused(name: str, wanted: Any) -> None:
    oid = own_types.built_in().get(name, (own_types.OIDS.get(name),))[0]
    assert oid is not None
    catalog = own_types.catalog({"c": (oid, -1)})
    walrow.schema(catalog, "t", types={"c": wanted})
    for refuse in (
        lambda: walrow.spark.decode(table="t", types={"c": wanted}),
        lambda: walrow.spark.schema(catalog, "t", types={"c": wanted}),
    ):
        with pytest.raises(
            walrow.OptionError, match="which Spark's schemas do not have"
        ):
            refuse()


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
        ("gone", b"\0", "the catalog does not tell of"),
    ],
)
def test_what_does_not_fit_is_told(name: str, cell: streams.Cell, hint: str) -> None:
    with pytest.raises(walrow.Error) as caught:
        decoded_here(Value(name, "", None, "", None), cell)
    assert str(caught.value).startswith("public.t.c: ")
    assert hint in str(caught.value)


def test_error_of_a_value_reaches_the_driver(spark: SparkSession) -> None:
    capture = streams.wire([streams.Column("c", 1082)], [["infinity"]])
    catalog = own_types.catalog({"c": (1082, -1)})
    hint = r'public\.t\.c: .* unrepresentable=\{"public\.t\.c": "null"\}'
    with pytest.raises(PythonException, match=hint):
        decoded(spark, capture, "public.t", catalog).collect()
    frame = decoded(spark, capture, "public.t", catalog, unrepresentable="null")
    assert collected(frame) == [[None]]
