"""A catalog with a type of every kind that is not built in, and the built-in ones."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import walrow

ROOT = Path(__file__).resolve().parent.parent.parent

#: Of extensions, which are told by their names; isn, seg and box2d are of those that no
#: name tells.
BASES = (
    "citext",
    "hstore",
    "ltree",
    "lquery",
    "ltxtquery",
    "cube",
    "vector",
    "halfvec",
    "sparsevec",
    "geometry",
    "geography",
    "isbn",
    "seg",
    "box2d",
)

#: A column's modifier of numeric(6,2).
NUMERIC_6_2 = (6 << 16 | 2) + 4
#: Of a PostGIS column: point, SRID 4326, and one without a type, SRID 3857.
POINT_4326 = 4326 << 8 | 1 << 2
GEOMETRY_3857 = 3857 << 8


def _kinds() -> dict[str, dict[str, Any]]:
    return {
        "mood": {"kind": "enum", "labels": ["sad", "ok"]},
        "price": {"kind": "domain", "base": 1700, "type_modifier": NUMERIC_6_2},
        "feeling": {"kind": "domain", "base": OIDS["mood"]},
        "scores": {"kind": "domain", "base": 1007},
        "pair": {
            "kind": "composite",
            "attributes": [
                {"name": "n", "type": 23},
                {"name": "cost", "type": 1700, "type_modifier": NUMERIC_6_2},
            ],
        },
        "nothing": {"kind": "composite", "attributes": []},
        "floatrange": {"kind": "range", "subtype": 701},
        "floatmultirange": {"kind": "multirange", "range": OIDS["floatrange"]},
    }


_KINDS = (
    "mood",
    "price",
    "feeling",
    "scores",
    "pair",
    "nothing",
    "floatrange",
    "floatmultirange",
)
#: Every type's OID; its array type has the next one.
OIDS = {name: 20000 + 2 * place for place, name in enumerate((*BASES, *_KINDS))}
#: In no catalog.
UNKNOWN = 29999


def catalog(columns: dict[str, tuple[int, int]] | None = None) -> walrow.Catalog:
    """The types, in the schema `own`, and a table `t` of these columns."""
    kinds = {**{name: {"kind": "base"} for name in BASES}, **_kinds()}
    types = []
    for name, kind in kinds.items():
        delimiter = ":" if name in {"geometry", "geography"} else ","
        array = {"kind": "array", "element": OIDS[name], "delimiter": delimiter}
        types += [
            {"oid": OIDS[name], "schema": "own", "name": name, **kind},
            {"oid": OIDS[name] + 1, "schema": "own", "name": f"_{name}", **array},
        ]
    fields = [
        {"name": name, "type": oid, "type_modifier": typmod}
        for name, (oid, typmod) in (columns or {}).items()
    ]
    table = {"schema": "public", "name": "t", "oid": 16400, "columns": fields}
    return walrow.Catalog(json.dumps({"types": types, "tables": [table]}))


def built_in() -> dict[str, tuple[int, int]]:
    """Every built-in type's OID and its array type's (0 for none), from the sources."""
    folder = ROOT / "crates" / "walrow-types" / "src" / "built_in"
    text = (folder / "table.rs").read_text("utf-8")
    oids = dict(re.findall(r"const (\w+): Oid = (\d+);", text))
    entries = re.findall(r'entry\(\s*(\w+),\s*(\d+),\s*"(\w+)"', text)
    return {name: (int(oids[key]), int(array)) for key, array, name in entries}
