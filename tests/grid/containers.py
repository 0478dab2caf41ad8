"""Ranges, multiranges, enums, domains and composite types."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa

from grid import drawing, rendering
from grid.kinds import TEXT, Beyond, Form, Kind, array_of, words
from grid.moments import DATE, NAIVE, UTC

_INT32 = Form(pa.int32(), rendering.integer)
_INT64 = Form(pa.int64(), rendering.integer)
_FLOAT8 = Form(pa.float64(), rendering.float8)
_PRICE = Form(pa.decimal128(6, 2), rendering.decimal)
_ENDLESS = ("infinity", "negative infinity")


def _ranges(
    name: str,
    bound: Form,
    draw: Callable[[Random], str],
    key: Callable[[str], Any],
    odd: tuple[str, ...],
    *,
    beyond: tuple[Beyond, ...] = (),
    setup: tuple[str, ...] = (),
) -> tuple[Kind, Kind]:
    """A range type and its multirange."""
    flags = [(flag, pa.bool_()) for flag in ("lower_inc", "upper_inc", "empty")]
    item = pa.struct([("lower", bound.type), ("upper", bound.type), *flags])
    odd = ("empty", "(,)", *odd)
    one = drawing.span(draw, key)
    several = name.replace("range", "multirange")
    return (
        Kind(
            *(name, name, Form(item, rendering.ranges(bound.render)), TEXT),
            *(odd, one),
            beyond=beyond,
            setup=setup,
        ),
        Kind(
            *(several, several),
            *(Form(pa.list_(item), rendering.multiranges(bound.render)), TEXT),
            ("{}", "{(,)}", *(f"{{{value}}}" for value in odd)),
            drawing.spans(one),
            beyond=tuple(
                Beyond(f"{{{each.literal}}}", each.because, each.profiles)
                for each in beyond
            ),
        ),
    )


def _endless(finite: str) -> tuple[Beyond, ...]:
    """Ranges with infinite bounds, which differ from unbounded ranges."""
    return (
        Beyond(f"[{finite},infinity)", _ENDLESS[0], ("arrow",)),
        Beyond(f"[{finite},infinity]", _ENDLESS[0], ("arrow",)),
        Beyond(f"[-infinity,{finite}]", _ENDLESS[1], ("arrow",)),
        Beyond("[-infinity,infinity)", _ENDLESS[1], ("arrow",)),
    )


def _moment(text: str) -> tuple[int, str]:
    """A key that sorts dates or timestamps: by year first, years BC in reverse."""
    before = text.endswith("BC")
    year, _, rest = text.partition("-")
    return (1 - int(year) if before else int(year)), rest


def composite(
    name: str, fields: dict[str, Kind | Form], *, setup: str, fill: str
) -> Kind:
    """A composite type of these fields, each with the type that the profile gives it."""

    def form(profile: str) -> Form:
        forms = {
            field: of if isinstance(of, Form) else of.form(profile)
            for field, of in fields.items()
        }
        types = pa.struct([(field, of.type) for field, of in forms.items()])
        return Form(types, rendering.rows([of.render for of in forms.values()]))

    return Kind(name, name, form("arrow"), form("spark"), setup=(setup,), fill=fill)


_INTS = Form(pa.list_(pa.int32()), rendering.arrays(rendering.integer))
_MOOD = ("sad", "ok", "so so", "it's", 'q"q', "a,b", "NULL", "{}", "ä", "back\\slash")
RANGES = (
    *_ranges(
        *("int4range", _INT32, drawing.whole(-(10**9), 10**9), int),
        ("[1,5)", "[-1,)", "(,7)", "(,7]", "[2147483646,2147483647)", "(1,2)", "[3,3]"),
    ),
    *_ranges(
        *("int8range", _INT64, drawing.whole(-(1 << 62), 1 << 62), int),
        ("[1,5)", "[-9223372036854775808,)", "(,9223372036854775807)"),
    ),
    *_ranges(
        *("numrange", TEXT, drawing.any_numeric, Decimal),
        ("[1.50,)", "(1.5,NaN]", "[-Infinity,Infinity]", "(,0.00]", "(1,1.0]"),
    ),
    *_ranges(
        *("tsrange", NAIVE, drawing.timestamp, _moment),
        ('["2000-01-01 00:00:00",)', '(,"0044-03-15 12:00:00.5 BC"]'),
        beyond=_endless("2000-01-01"),
    ),
    *_ranges(
        *("tstzrange", UTC, drawing.timestamptz, _moment),
        ('["2000-01-01 00:00:00+05:30",)', '(,"10000-01-01 00:00:00+00")'),
        beyond=_endless("2000-01-01"),
    ),
    *_ranges(
        *("daterange", DATE, drawing.date, _moment),
        ("[2000-01-01,)", '(,"0044-03-15 BC"]', "[5874897-12-30,5874897-12-31)"),
        beyond=_endless("2000-01-01"),
    ),
    *_ranges(
        *("floatrange", _FLOAT8, drawing.float8, float),
        ("[1.5,)", "(1.5,NaN]", "[-Infinity,Infinity]", "[-0,0]", "(,1e-05)"),
        setup=("CREATE TYPE floatrange AS RANGE (subtype = float8)",),
    ),
    *_ranges(
        *("textrange", TEXT, drawing.text, str.encode),
        (
            '["",a)',
            '["a,b","c\\"d"]',
            "[NULL,null]",
            "[a,)",
            '[" ","]"]',
            '["\\\\","ä"]',
        ),
        setup=('CREATE TYPE textrange AS RANGE (subtype = text, collation = "C")',),
    ),
)

_USERS = (
    *RANGES,
    words(
        *("mood", "mood", _MOOD, lambda random: random.choice(_MOOD)),
        setup=(
            "CREATE TYPE mood AS ENUM ("
            + ", ".join("'" + label.replace("'", "''") + "'" for label in _MOOD)
            + ")",
        ),
    ),
    Kind(
        *("price", "price"),
        *(_PRICE, _PRICE),
        ("0", "-9999.99", "1.5"),
        drawing.numeric(6, 2),
        beyond=(Beyond("NaN", "NaN"),),
        setup=("CREATE DOMAIN price AS numeric(6,2) CHECK (VALUE <> 7)",),
    ),
    Kind(
        *("bigger", "bigger"),
        *(_PRICE, _PRICE),
        ("0.01", "9999.99"),
        setup=("CREATE DOMAIN bigger AS price CHECK (VALUE > 0)",),
    ),
    words(
        *("humour", "humour", _MOOD[1:3], None),
        setup=("CREATE DOMAIN humour AS mood CHECK (VALUE <> 'sad')",),
    ),
    Kind(
        *("matrix", "matrix", _INTS, _INTS, ("{}", "{1,NULL,3}", "{-1}"), None),
        setup=("CREATE DOMAIN matrix AS int4[]",),
        array=False,
    ),
    Kind(
        *("day", "day", DATE, DATE, ("2024-02-29",), drawing.date),
        setup=("CREATE DOMAIN day AS date",),
    ),
)

_PAIR = composite(
    "pair",
    {
        "id": _INT32,
        "label": TEXT,
        "price": _PRICE,
    },
    setup="CREATE TYPE pair AS (id int4, label text, price numeric(6,2))",
    fill="""
        SELECT ROW(a.v, b.v, c.v)::pair FROM t_int4 a
        JOIN t_text b USING (id) LEFT JOIN t_numeric_10_2 c
        ON c.id = a.id AND abs(c.v) < 9999 WHERE length(b.v) < 100 OR b.v IS NULL
    """,
)
_TSRANGE = next(kind for kind in RANGES if kind.name == "tsrange")

KINDS = (
    *_USERS,
    _PAIR,
    # Without fields, it would be a struct that few readers support.
    Kind(
        *("empty", "empty", TEXT, TEXT),
        setup=("CREATE TYPE empty AS ()",),
        fill="SELECT ROW()::empty UNION ALL SELECT NULL",
    ),
    composite(
        "single",
        {'it\'s "one"': TEXT},
        setup='CREATE TYPE single AS ("it\'s ""one""" text)',
        fill="SELECT ROW(v)::single FROM t_text",
    ),
    composite(
        "nested",
        {
            "pair": _PAIR,
            "pairs": array_of(_PAIR),
            "numbers": _INTS,
            "mood": TEXT,
            "during": _TSRANGE,
            "at": UTC,
        },
        setup="""
            CREATE TYPE nested AS (pair pair, pairs pair[], numbers int4[], mood mood,
                during tsrange, at timestamptz)
        """,
        fill="""
            SELECT ROW(p.v, a.v, n.v, m.v, r.v, z.v)::nested FROM t_pair p
            LEFT JOIN t_pair_array a ON a.id = p.id AND array_lower(a.v, 1) = 1
            LEFT JOIN t_int4_array n ON n.id = p.id AND array_lower(n.v, 1) = 1
            LEFT JOIN t_mood m ON m.id = p.id LEFT JOIN t_tsrange r ON r.id = p.id
            LEFT JOIN t_timestamptz z ON z.id = p.id
        """,
    ),
)
