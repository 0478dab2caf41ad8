"""Types of PostgreSQL's own extensions and of pgvector."""

from __future__ import annotations

import pyarrow as pa

from grid import drawing, rendering
from grid.kinds import TEXT, Form, Kind, opaque, text_of, words
from grid.scalars import KINDS as SCALARS

_MAP = Form(pa.map_(pa.string(), pa.string()), rendering.maps)
_FLOATS = Form(pa.list_(pa.float32()), rendering.vector)
_SPARSE = Form(
    pa.struct(
        [
            ("dim", pa.int32()),
            ("indices", pa.list_(pa.int32())),
            ("values", pa.list_(pa.float32())),
        ]
    ),
    rendering.sparse,
)
_TEXTS = next(kind.odd for kind in SCALARS if kind.name == "text")
_NUMBERS = {
    "ean13": ("978-0-393-04002-9", "979-0-060-11561-5"),
    "isbn13": ("978-0-393-04002-9",),
    "ismn13": ("979-0-060-11561-5",),
    "issn13": ("977-1436-452-00-8",),
    "isbn": ("0-393-04002-X", "978-0-11-000222-4"),
    "ismn": ("M-060-11561-5",),
    "issn": ("1436-4522",),
    "upc": ("220356483481",),
}

CONTRIB = (
    Kind(
        *("hstore", "hstore", _MAP, _MAP),
        (
            *(
                "",
                "a=>1",
                'a=>NULL, "NULL"=>"NULL"',
                '""=>""',
                '"a b"=>"c,d", e=>"f=>g"',
            ),
            *(
                '"\\"q\\""=>"back\\\\slash"',
                "zz=>1, a=>2, bb=>3",
                'ä=>"中文🦀"',
                '"\n"=>"\t"',
            ),
        ),
        drawing.hstore,
        extension="hstore",
    ),
    words("citext", "citext", _TEXTS, drawing.text, extension="citext"),
    words(
        *("ltree", "ltree", ("", "a", "a.b.c", "A_1.b2", "x" * 255)),
        drawing.listed(drawing.label, "|.|"),
        extension="ltree",
    ),
    words(
        "lquery",
        "lquery",
        (
            "a",
            "*.a",
            "a.*{2}.b",
            "a.*{1,3}",
            "!a.b|c%@*",
            "*",
            "a*.b@",
            "*{,4}",
            "a{2,}",
        ),
        drawing.listed(drawing.label, "|.|", 1),
        extension="ltree",
    ),
    words(
        *(
            "ltxtquery",
            "ltxtquery",
            ("a", "a & b", "!a | (b & c*)", "a% & b@*", "!(a|b)"),
        ),
        drawing.listed(drawing.label, "| & |", 1),
        extension="ltree",
    ),
    Kind(
        *("cube", "cube", text_of("cube"), TEXT),
        (
            *("0", "(1,2)", "(1,2),(3,4)", "(3,4),(1,2)", "()", "(-0,0.1)", "(1),(1)"),
            *("(1e300,1e-5),(NaN,Infinity)", "(1,2),(1,2)"),
        ),
        drawing.listed(drawing.float8, "(|,|)", 1),
        extension="cube",
    ),
    opaque(
        *(
            "seg",
            (
                "1",
                "1 .. 2",
                "1.50",
                "~1",
                "<1",
                ">1.0",
                "5(+-)0.3",
                "1 ..",
                ".. 2",
                "1e10",
            ),
        ),
        extension="seg",
    ),
    opaque("query_int", ("1", "1&2", "1|(2&!3)"), extension="intarray"),
    *(opaque(name, odd, extension="isn") for name, odd in _NUMBERS.items()),
    Kind(
        *("lo", "lo", Form(pa.uint32(), rendering.integer)),
        *(Form(pa.int64(), rendering.integer), ("0", "4294967295"), None),
        extension="lo",
    ),
    Kind(
        *("earth", "earth", text_of("earth"), TEXT, ("(6378168,0,0)",)),
        extension="earthdistance",
    ),
)

PGVECTOR = (
    Kind(
        *("vector", "vector", _FLOATS, _FLOATS),
        ("[0]", "[1,2.5,-3e-5]", "[1e-45,3.4028235e38]", "[-0,0.1,16777216,1e6]"),
        lambda random: drawing.listed(drawing.float4, "[|,|]", 1)(random).replace(
            "NaN", "1"
        ),
        extension="vector",
    ),
    Kind(
        "vector_3",
        "vector(3)",
        Form(pa.list_(pa.float32(), 3), rendering.vector),
        _FLOATS,
        ("[0,0,0]", "[1,2.5,-3e-5]"),
        lambda random: f"[{','.join(drawing.small(random) for _ in range(3))}]",
        extension="vector",
    ),
    Kind(
        *("halfvec", "halfvec", _FLOATS, _FLOATS),
        ("[0]", "[1,2.5,-3e-5]", "[65504,-65504,6e-8,-0,0.1]", "[0.00006104]"),
        drawing.listed(drawing.half, "[|,|]", 1),
        extension="vector",
    ),
    Kind(
        *("halfvec_3", "halfvec(3)", _FLOATS, _FLOATS),
        ("[0,0,0]",),
        lambda random: f"[{','.join(drawing.half(random) for _ in range(3))}]",
        extension="vector",
    ),
    Kind(
        *("sparsevec", "sparsevec", _SPARSE, _SPARSE),
        (
            "{}/1",
            "{1:1.5,3:-2}/5",
            "{1000000000:1}/1000000000",
            "{1:1e-45,2:3.4028235e38}/2",
        ),
        drawing.sparse,
        extension="vector",
    ),
    Kind(
        *("sparsevec_5", "sparsevec(5)", _SPARSE, _SPARSE, ("{}/5", "{5:0.1}/5"), None),
        extension="vector",
    ),
)

KINDS = CONTRIB + PGVECTOR
