"""Numbers, money, and types that are numbers in binary."""

from __future__ import annotations

import pyarrow as pa

from grid import drawing, rendering
from grid.kinds import TEXT, Beyond, Form, Kind, words

_INT64 = Form(pa.int64(), rendering.integer)
_UINT32 = Form(pa.uint32(), rendering.integer)
_SIGNED = ("spark",)
_SHORTS = pa.list_(pa.int16())
_TOO_BIG = "a number beyond signed 64 bits"


def _same(data_type: pa.DataType, render: object) -> tuple[Form, Form]:
    form = Form(data_type, render)  # type: ignore[arg-type]
    return form, form


def numeric(
    name: str, sql: str, decimal: tuple[int, int] | None, *odd: str, **more: object
) -> Kind:
    """A numeric with a precision and a scale, and the decimal that holds it."""
    form = TEXT
    beyond: tuple[Beyond, ...] = ()
    if decimal is not None:
        form = Form(pa.decimal128(*decimal), rendering.decimal)
        beyond = (Beyond("NaN", "NaN"),)
    else:
        odd = (*odd, "NaN")
    return Kind(name, sql, form, form, odd, beyond=beyond, **more)  # type: ignore[arg-type]


#: The ends of a binary float: the smallest, the smallest normal, the largest, one third.
_FLOAT8 = (
    *("0", "-0", "NaN", "Infinity", "-Infinity", "5e-324", "-5e-324"),
    *(
        "2.2250738585072014e-308",
        "1.7976931348623157e308",
        "0.1",
        "0.30000000000000004",
    ),
    # Halfway between two shorter ones; the first with an exponent; whole numbers.
    *("1e23", "9007199254740993", "999999999999999", "1e15", "0.0001", "0.00001"),
    *("123456789012345680", "4.35", "2e-44", "1e22", "9.5367431640625e-07"),
)
_FLOAT4 = (
    *("0", "-0", "NaN", "Infinity", "-Infinity", "1e-45", "1.1754944e-38"),
    *("3.4028235e38", "0.1", "16777216", "999999", "1e6", "0.0001", "0.00001"),
    *("8589973000", "5e9", "1.17549435e-38", "33554432", "8.5899346e9", "6.7108864e7"),
)

KINDS = (
    Kind("bool", "bool", *_same(pa.bool_(), rendering.boolean), ("t", "f")),
    Kind(
        *("int2", "int2", *_same(pa.int16(), rendering.integer)),
        ("0", "-32768", "32767"),
        drawing.whole(-(1 << 15), (1 << 15) - 1),
    ),
    Kind(
        *("int4", "int4", *_same(pa.int32(), rendering.integer)),
        ("0", "-2147483648", "2147483647"),
        drawing.whole(-(1 << 31), (1 << 31) - 1),
    ),
    Kind(
        *("int8", "int8", _INT64, _INT64),
        ("0", "-9223372036854775808", "9223372036854775807"),
        drawing.whole(-(1 << 63), (1 << 63) - 1),
    ),
    *(
        Kind(
            *(name, name, _UINT32, _INT64),
            ("0", "1", "4294967295", "2147483648"),
            drawing.whole(0, (1 << 32) - 1),
        )
        for name in ("oid", "xid", "cid")
    ),
    *(
        Kind(
            *(name, name, Form(pa.uint64(), rendering.integer), _INT64),
            ("0", "3", "9223372036854775807"),
            drawing.whole(0, (1 << 63) - 1),
            beyond=(
                Beyond("9223372036854775808", _TOO_BIG, _SIGNED),
                Beyond("18446744073709551615", _TOO_BIG, _SIGNED),
            ),
            since=since,
        )
        for name, since in (("xid8", 14), ("oid8", 19))
    ),
    *(
        Kind(
            *(name, "pg_lsn", Form(pa.uint64(), text), Form(pa.int64(), text)),
            ("0/0", "0/A", "1/0", "7FFFFFFF/FFFFFFFF", "10/10000000"),
            lambda random: (
                f"{random.randrange(1 << 31):X}/{random.randrange(1 << 32):X}"
            ),
            beyond=(
                Beyond("80000000/0", _TOO_BIG, _SIGNED),
                Beyond("FFFFFFFF/FFFFFFFF", _TOO_BIG, _SIGNED),
            ),
            since=since,
            until=until,
        )
        for name, text, since, until in (
            ("pg_lsn", rendering.lsn, 14, 18),
            ("pg_lsn_19", rendering.lsn_19, 19, None),
        )
    ),
    Kind(
        "tid",
        "tid",
        Form(
            pa.struct([("block", pa.uint32()), ("offset", pa.uint16())]), rendering.tid
        ),
        TEXT,
        ("(0,0)", "(4294967295,65535)", "(1,2)"),
        lambda random: f"({random.randrange(1 << 32)},{random.randrange(1 << 16)})",
    ),
    Kind(
        *("float4", "float4", *_same(pa.float32(), rendering.float4)),
        *(_FLOAT4, drawing.float4),
    ),
    Kind(
        *("float8", "float8", *_same(pa.float64(), rendering.float8)),
        *(_FLOAT8, drawing.float8),
    ),
    numeric(
        *("numeric", "numeric", None, "0", "0.00", "-0", "1e3", "10000", "100000000"),
        *("0.0001", "0.00010", "0.00000001", "-12345.6000", "Infinity", "-Infinity"),
        # The most digits before the point, and after it.
        *(
            "9" * 131072,
            "-1" + "0" * 131071,
            "0." + "0" * 16382 + "1",
            "1." + "9" * 16383,
        ),
        *("-1.5e-16000", "9" * 131072 + "." + "9" * 16383),
        draw=drawing.any_numeric,
    ),
    numeric(
        *("numeric_10_2", "numeric(10,2)", (10, 2), "0", "-0.01", "99999999.99"),
        *("-99999999.99", "1.5", "10000", "0.005"),
        draw=drawing.numeric(10, 2),
    ),
    numeric(
        *("numeric_1", "numeric(1)", (1, 0), "0", "9", "-9"),
        draw=drawing.numeric(1, 0),
    ),
    numeric(
        *("numeric_38_0", "numeric(38)", (38, 0), "0", "9" * 38, "-" + "9" * 38),
        *("1" + "0" * 36, "10000", "-100000000"),
        draw=drawing.numeric(38, 0),
    ),
    numeric(
        *("numeric_38_38", "numeric(38,38)", (38, 38), "0", "0." + "9" * 38),
        *("-0." + "0" * 37 + "1", "0.5"),
        draw=drawing.numeric(38, 38),
    ),
    numeric(
        *("numeric_39_2", "numeric(39,2)", None, "0", "9" * 37 + ".99", "-0.01"),
        draw=drawing.numeric(39, 2),
    ),
    numeric(
        *(
            "numeric_1000_500",
            "numeric(1000,500)",
            None,
            "0",
            "9" * 500 + "." + "9" * 500,
        ),
        draw=drawing.numeric(1000, 500),
    ),
    # Negative scales and scales above the precision, which Arrow's readers do not support.
    numeric(
        *("numeric_3_minus_2", "numeric(3,-2)", (5, 0), "0", "99900", "-99900", "149"),
        draw=lambda random: f"{random.randrange(-999, 1000)}00",
        since=15,
    ),
    numeric(
        *("numeric_3_5", "numeric(3,5)", (5, 5), "0", "0.00999", "-0.00001"),
        draw=drawing.numeric(3, 5),
        since=15,
    ),
    numeric(
        *("numeric_6_minus_40", "numeric(6,-40)", None, "0", "999999" + "0" * 40),
        since=15,
    ),
    numeric(
        *("numeric_2_40", "numeric(2,40)", None, "0", "0." + "0" * 38 + "99"),
        since=15,
    ),
    # Binary has neither the scale nor the currency symbol.
    words(
        *("money", "money", ("0", "-0.01", "1234.56", "-1234567.89")),
        lambda random: str(random.randrange(-(10**15), 10**15) / 100),
        binary="refused",
    ),
    *(
        words(
            *(name, name, odd, None),
            binary="number",
            since=19 if name == "regdatabase" else 14,
        )
        for name, odd in {
            "regclass": ("pg_class", "pg_catalog.pg_type", "-", "123456"),
            "regtype": ("int4", "timestamptz", "-", "123456", "int4[]"),
            "regproc": ("now", "-", "123456"),
            "regprocedure": ("sum(int4)", "-", "123456"),
            "regoper": ("0", "123456", "|/"),
            "regoperator": ("+(int4,int4)", "0", "123456"),
            "regconfig": ("english", "-", "123456"),
            "regdictionary": ("simple", "-", "123456"),
            "regnamespace": ("pg_catalog", "-", "123456"),
            "regrole": ("postgres", "-", "123456"),
            "regcollation": ('"C"', "-", "123456"),
            "regdatabase": ("postgres", "-", "123456"),
        }.items()
    ),
    # The server treats these as arrays, so it cannot make arrays of them from their values.
    Kind(
        *("int2vector", "int2vector", *_same(_SHORTS, rendering.integers)),
        ("", "1", "1 2 3", "-32768 32767"),
        drawing.listed(drawing.whole(-(1 << 15), (1 << 15) - 1), "| |"),
        array=False,
    ),
    Kind(
        "int2vectors",
        "int2vector[]",
        *_same(pa.list_(_SHORTS), rendering.arrays(rendering.integers)),
        ("{}", '{"1 2 3","",NULL,5}'),
        array=False,
    ),
    Kind(
        "oidvector",
        "oidvector",
        Form(pa.list_(pa.uint32()), rendering.integers),
        Form(pa.list_(pa.int64()), rendering.integers),
        ("", "1", "4294967295 0"),
        drawing.listed(drawing.whole(0, (1 << 32) - 1), "| |"),
        array=False,
    ),
)
