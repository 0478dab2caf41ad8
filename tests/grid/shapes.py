"""Geometric types, and the types of `cube` and `seg`."""

from __future__ import annotations

import pyarrow as pa

from grid import drawing, rendering
from grid.kinds import TEXT, Form, Kind

_POINT = pa.struct([("x", pa.float64()), ("y", pa.float64())])
_CORNERS = pa.struct([(name, pa.float64()) for name in ("x1", "y1", "x2", "y2")])

KINDS = (
    Kind(
        *("point", "point", Form(_POINT, rendering.point), TEXT),
        (
            "(0,0)",
            "(-0,1e300)",
            "(NaN,Infinity)",
            "(1e-5,-Infinity)",
            "(0.1,0.30000000000000004)",
        ),
        drawing.point,
    ),
    Kind(
        *("lseg", "lseg", Form(_CORNERS, rendering.lseg), TEXT),
        ("[(0,0),(0,0)]", "[(1,2),(-3.5,NaN)]", "((1,2),(3,4))"),
        lambda random: f"[{drawing.point(random)},{drawing.point(random)}]",
    ),
    Kind(
        *("box", "box", Form(_CORNERS, rendering.box), TEXT),
        ("(1,2),(3,4)", "(3,2),(1,4)", "(-0,0),(0,-0)", "(NaN,1),(Infinity,-Infinity)"),
        lambda random: f"{drawing.point(random)},{drawing.point(random)}",
        delimiter=";",
    ),
    Kind(
        "path",
        "path",
        Form(
            pa.struct([("closed", pa.bool_()), ("points", pa.list_(_POINT))]),
            rendering.path,
        ),
        TEXT,
        (
            "((1,2),(0,1))",
            "[(1,2),(0,1)]",
            "[(1,2)]",
            "((1,2))",
            "[(NaN,Infinity),(-0,0)]",
        ),
        drawing.path,
    ),
    Kind(
        *("polygon", "polygon", Form(pa.list_(_POINT), rendering.polygon), TEXT),
        ("((1,2),(0,1))", "((1,2))", "((0,0),(1,0),(1,1),(0,1),(0,0))", "((NaN,-0))"),
        drawing.listed(drawing.point, "(|,|)", 1),
    ),
    Kind(
        "line",
        "line",
        Form(pa.struct([(name, pa.float64()) for name in "abc"]), rendering.line),
        TEXT,
        ("{1,2,0}", "{-0,1,1e-5}", "[(0,0),(1,1)]", "{1,0,NaN}"),
        drawing.line,
    ),
    Kind(
        "circle",
        "circle",
        Form(pa.struct([(name, pa.float64()) for name in "xyr"]), rendering.circle),
        TEXT,
        ("<(1,2),0>", "<(-0,NaN),Infinity>", "<(0.1,0.2),0.3>", "<(1,1),NaN>"),
        drawing.circle,
    ),
)
