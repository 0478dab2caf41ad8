"""Each remedy of an error, passed unchanged, reads the value."""

from __future__ import annotations

import itertools
import json
import struct
from typing import Any

import pytest

import walrow
from streams import Cell, Column, wire

pa = pytest.importorskip("pyarrow")

COMPOSITE, COMPOSITES, MONEYS, MONEYSS, NESTED, DAYS, SHAPES, LOST = range(
    20_000, 20_008
)
UNKNOWN = 29_999
CATALOG = walrow.Catalog(
    json.dumps(
        {
            "types": [
                {
                    "oid": COMPOSITE,
                    "schema": "public",
                    "name": "comp",
                    "kind": "composite",
                    "attributes": [
                        {"name": "m", "type": 790},
                        {"name": "q", "type": 3615},
                        {"name": "d", "type": 1082},
                        {"name": "s", "type": 25},
                        {"name": "u", "type": UNKNOWN},
                        {"name": "n", "type": 1700, "type_modifier": 655_366},
                        {"name": "r", "type": 3912},
                        {"name": "a", "type": 791},
                    ],
                },
                {
                    "oid": COMPOSITES,
                    "schema": "public",
                    "name": "_comp",
                    "kind": "array",
                    "element": COMPOSITE,
                },
                {
                    "oid": MONEYS,
                    "schema": "public",
                    "name": "moneyrange",
                    "kind": "range",
                    "subtype": 790,
                },
                {
                    "oid": MONEYSS,
                    "schema": "public",
                    "name": "moneymultirange",
                    "kind": "multirange",
                    "range": MONEYS,
                },
                {
                    "oid": NESTED,
                    "schema": "public",
                    "name": "nested",
                    "kind": "composite",
                    "attributes": [
                        {"name": "list", "type": COMPOSITES},
                        {"name": "day", "type": 1082},
                        {"name": "shape", "type": SHAPES},
                    ],
                },
                {
                    "oid": DAYS,
                    "schema": "public",
                    "name": "days",
                    "kind": "composite",
                    "attributes": [
                        {"name": "first", "type": 1082},
                        {"name": "all", "type": 3912},
                    ],
                },
                {
                    "oid": SHAPES,
                    "schema": "public",
                    "name": "geometry",
                    "kind": "base",
                },
                {
                    "oid": LOST,
                    "schema": "public",
                    "name": "lost",
                    "kind": "composite",
                    "attributes": [
                        {"name": "d", "type": 1082},
                        {"name": "b", "type": 25},
                    ],
                },
            ]
        }
    )
)
MONEY = struct.pack("!q", 100)
TSQUERY = struct.pack("!i", 0)
DAY = struct.pack("!i", 1)
INFINITE_DAY = struct.pack("!i", 2**31 - 1)
NAN = struct.pack("!HhHH", 0, 0, 0xC000, 0)
#: SRID=3857;POINT(1 2)
POINT = bytes.fromhex("0101000020110F0000000000000000F03F0000000000000040")


def composite(*fields: tuple[int, bytes | None]) -> bytes:
    """A composite type's binary form."""
    return struct.pack("!i", len(fields)) + b"".join(
        struct.pack("!I", oid) + sized(field) for oid, field in fields
    )


def comp(**given: bytes) -> bytes:
    """A value of `comp` with these fields; all others are null."""
    types = {"m": 790, "q": 3615, "d": 1082, "s": 25, "u": UNKNOWN, "n": 1700}
    types |= {"r": 3912, "a": 791}
    return composite(*((oid, given.get(name)) for name, oid in types.items()))


def array(oid: int, *elements: bytes, dimensions: int = 1) -> bytes:
    """An array's binary form; all dimensions but the last have one element."""
    head = struct.pack("!iiI", dimensions, 0, oid)
    head += struct.pack("!ii", 1, 1) * (dimensions - 1)
    return head + struct.pack("!ii", len(elements), 1) + b"".join(map(sized, elements))


def interval(*bounds: bytes) -> bytes:
    """A range's binary form, with both bounds."""
    return b"\x02" + b"".join(map(sized, bounds))


def sized(data: bytes | None) -> bytes:
    return (
        struct.pack("!i", -1) if data is None else struct.pack("!i", len(data)) + data
    )


#: A column's type, one of its values, and its entry in `types=`.
CASES: dict[str, tuple[int | tuple[int, int] | str, Cell, Any]] = {
    "money": (790, MONEY, None),
    "money as a small decimal": (790, struct.pack("!q", 10**6), "decimal128(4, 2)"),
    "money as a small decimal, text": (790, "$10000.00", "decimal128(4, 2)"),
    "moneys": (791, array(790, MONEY), None),
    "moneys as decimals": (
        791,
        array(790, MONEY, dimensions=2),
        "list<decimal128(19, 2)>",
    ),
    "moneys of two dimensions": (791, array(790, MONEY, dimensions=2), None),
    "moneys of two dimensions, text": (791, "{{$1.00}}", None),
    "range of money": (MONEYS, interval(MONEY, MONEY), None),
    "ranges of money": (
        MONEYSS,
        struct.pack("!i", 1) + sized(interval(MONEY, MONEY)),
        None,
    ),
    "composite with money": (COMPOSITE, comp(m=MONEY), None),
    "composite with moneys": (COMPOSITE, comp(a=array(790, MONEY)), None),
    "composite with nothing but a day": (COMPOSITE, comp(d=INFINITE_DAY), None),
    "composite with money and a day": (COMPOSITE, comp(m=MONEY, d=INFINITE_DAY), None),
    "composite with a day, text": (COMPOSITE, "(,,infinity,,,,,)", None),
    "composite with a query": (COMPOSITE, comp(q=TSQUERY), None),
    "composite with what is unknown": (COMPOSITE, comp(u=b"x"), None),
    "composite with bytes": (COMPOSITE, comp(s=b"\xff"), None),
    "composite with bytes, text": (COMPOSITE, "(,,,\udcff,,,,)", None),
    "composite with NaN": (COMPOSITE, comp(n=NAN), None),
    "composite with a range": (
        COMPOSITE,
        comp(r=interval(DAY, INFINITE_DAY)),
        None,
    ),
    "bytes within and a day": (
        LOST,
        composite((1082, INFINITE_DAY), (25, b"\xff")),
        "struct<d: date32, b: binary>",
    ),
    "bytes within and a day, text": (
        LOST,
        "(infinity,\udcff)",
        "struct<d: date32, b: binary>",
    ),
    "composites": (COMPOSITES, array(COMPOSITE, comp(d=INFINITE_DAY)), None),
    "composites with money": (COMPOSITES, array(COMPOSITE, comp(m=MONEY)), None),
    "composites of two dimensions": (
        COMPOSITES,
        array(COMPOSITE, comp(), dimensions=2),
        None,
    ),
    "composites within": (
        NESTED,
        composite(
            (COMPOSITES, array(COMPOSITE, comp(m=MONEY))),
            (1082, INFINITE_DAY),
            (SHAPES, None),
        ),
        None,
    ),
    "a shape within": (
        NESTED,
        composite((COMPOSITES, None), (1082, None), (SHAPES, POINT)),
        None,
    ),
    "days": (1182, array(1082, INFINITE_DAY), None),
    "days, text": (1182, "{infinity}", None),
    "days of two dimensions": (1182, array(1082, DAY, dimensions=2), None),
    "days of two dimensions, text": (1182, "{{2024-02-29}}", None),
    "day": (1082, INFINITE_DAY, None),
    "day, text": (1082, "-infinity", None),
    "range of days": (3912, interval(DAY, INFINITE_DAY), None),
    "range of days, text": (3912, "[2024-02-29,infinity)", None),
    "ranges of days": (
        4535,
        struct.pack("!i", 1) + sized(interval(DAY, INFINITE_DAY)),
        None,
    ),
    "ranges of days, text": (4535, "{[2024-02-29,infinity)}", None),
    "moment": (1114, struct.pack("!q", 2**63 - 1), None),
    "moment out of range": (1184, struct.pack("!q", 9223371331199999999), None),
    "midnight": (1083, "24:00:00", None),
    "midnight, asked for": (1083, struct.pack("!q", 86_400_000_000), "time64[ns]"),
    "midnight somewhere": (
        1266,
        "24:00:00+00",
        "struct<time: time64[ns], offset_s: int32>",
    ),
    "numeric": ((1700, 655_366), "NaN", None),
    "numeric beyond": (1700, "1.001", "decimal128(5, 2)"),
    "numeric wide": (1700, "1000", "decimal128(5, 2)"),
    "numeric as a float": (1700, "1" + "0" * 400, "float64"),
    "numerics": ((1231, 655_366), array(1700, NAN), None),
    "xid8": (5069, struct.pack("!Q", 2**64 - 1), "int64"),
    "xid8s": (271, "{18446744073709551615}", "list<int64>"),
    "pg_lsn": (3220, "FFFFFFFF/0", "int64"),
    "interval": (1186, "9999999:00:00", None),
    "interval, infinite": (
        1186,
        struct.pack("!qii", 2**63 - 1, 2**31 - 1, 2**31 - 1),
        None,
    ),
    "intervals": (1187, "{9999999:00:00}", None),
    "query": (3615, TSQUERY, None),
    "queries": (3645, array(3615, TSQUERY), None),
    "queries of two dimensions": (3645, array(3615, TSQUERY, dimensions=2), None),
    "queries of two dimensions, text": (3645, "{{'a'}}", None),
    "what is unknown": (UNKNOWN, b"abc", None),
    "text": (25, "\udcff", None),
    "text, binary": (25, b"\xff", None),
    "bpchar": (1042, b"\xff", None),
    "texts": (1009, array(25, b"\xff"), None),
    "texts of two dimensions": (1009, array(25, b"a", dimensions=2), None),
    "texts as bytes of two dimensions": (1009, '{{"\udcff"}}', "list<binary>"),
    "json": (114, "\udcff", None),
    "jsonb": (3802, b"\x01\xff", None),
    "hstore": ("hstore", '"\udcff"=>NULL', None),
    "hstore, binary": (
        "hstore",
        struct.pack("!ii", 1, 1) + b"\xff" + sized(None),
        None,
    ),
    "citext": ("citext", "\udcff", None),
    "shape": ("geometry", POINT, None),
    "shape, text": ("geometry", POINT.hex().upper(), None),
    "shapes": ("_geometry", array(0, POINT), None),
    "days of two dimensions, as texts": (1182, "{{2024-02-29}}", "list<string>"),
    "composite of days, text": (DAYS, '(2024-02-29,"[2024-02-29,infinity)")', None),
    "intervals of two dimensions": (1187, '{{"1 day"}}', None),
}
PROFILES = ("arrow", "spark", "text")


def read(
    oid: int | tuple[int, int] | str, cell: Cell, **options: Any
) -> list[walrow.Batch]:
    number, typmod, name = 20_100, -1, None
    if isinstance(oid, tuple):
        number, typmod = oid
    elif isinstance(oid, int):
        number = oid
    else:
        name = ("public", oid)
    data = wire([Column("v", number, typmod, name)], [[cell]])
    return list(walrow.read(data, catalog=CATALOG, **options))


@pytest.mark.parametrize("name", CASES)
def test_every_remedy_reads_the_value(name: str) -> None:
    oid, cell, asked = CASES[name]
    sessions: list[dict[str, str]] = [{}, {"client_encoding": "LATIN1"}]
    ways = 0
    for profile, session in itertools.product(PROFILES, sessions):
        options: dict[str, Any] = {"profile": profile, "session": session}
        options["types"] = {} if asked is None else {"v": asked}
        ways += lead_out(oid, cell, options)
        if asked is None:
            lead_out(oid, cell, options | {"envelope": True})
        nulls = read(oid, cell, **options, unrepresentable="null")
        schema = pa.schema(nulls[0].schema)
        lead_out(oid, cell, options | {"table": "t", "schema": schema})
    assert ways


def lead_out(oid: Any, cell: Cell, options: dict[str, Any]) -> int:
    """Reads the value with each remedy, and returns the number of remedies."""
    try:
        read(oid, cell, **options)
    except walrow.errors.UnrepresentableError as error:
        ways = error.remedies
    else:
        return 0
    for way in ways:
        given = way.options()
        merged = {key: options.get(key, {}) | given[key] for key in given}
        read(oid, cell, **options | merged)
    return len(ways)
