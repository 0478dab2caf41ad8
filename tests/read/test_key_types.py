"""The columns of a key: which Arrow types keep different values different."""

from __future__ import annotations

from typing import Any

import pytest

import type_cases
import walrow

types_page = pytest.importorskip("types_page", exc_type=ImportError)

_RANGE = "struct<lower: {0}, upper: {0}, lower_inc: bool, upper_inc: bool, empty: bool>"
#: A PostgreSQL type, an Arrow type, and whether two values may be one there.
PAIRS = [
    ("numeric", "float64", True),
    ("numeric(12,2)", "float64", True),
    ("numeric[]", "list<float64>", True),
    ("numeric[]", "list<list<float64>>", True),
    ("numrange", _RANGE.format("float64"), True),
    ("nummultirange", f"list<{_RANGE.format('float64')}>", True),
    ("pair", "struct<n: int32, cost: float64>", True),
    ("price", "float64", True),
    # The text 1234 is the bytes of another integer.
    ("int4", "binary", True),
    ("int4[]", "list<binary>", True),
    ("timestamptz", "binary", True),
    ("uuid", "binary", True),
    ("numeric", "decimal128(38, 4)", False),
    ("numeric", "decimal256(76, 4)", False),
    ("numeric(12,2)", "string", False),
    ("numrange", _RANGE.format("decimal128(38, 4)"), False),
    ("float4", "float64", False),
    ("int2", "int64", False),
    ("int4", "decimal128(10, 0)", False),
    ("xid8", "int64", False),
    ("bit(5)", "binary", False),
    ("text", "binary", False),
    ("mood", "binary", False),
    ("bytea", "binary", False),
    ("bytea", "string", False),
    ("geometry", "binary", False),
    ("unknown", "binary", False),
    ("timetz", "string", False),
    ("time", "time64[ns]", False),
]


@pytest.mark.parametrize(("name", "wanted", "is_refused"), PAIRS)
def test_types_of_a_key(name: str, wanted: str, *, is_refused: bool) -> None:
    types = types_page.named()
    found = types[name] if name in types else (type_cases.OIDS[name], -1)
    catalog = type_cases.catalog({"c": found})
    chosen: dict[str, Any] = {"metadata": (), "types": {"c": wanted}}
    assert walrow.schema(catalog, "t", **chosen).names == ["c"]
    # Another column may be the key.
    assert walrow.schema(catalog, "t", **{**chosen, "_keys": ["d"]}).names == ["c"]
    chosen["_keys"] = ["c"]
    if not is_refused:
        assert walrow.schema(catalog, "t", **chosen).names == ["c"]
        return
    with pytest.raises(walrow.errors.SchemaError) as caught:
        walrow.schema(catalog, "t", **chosen)
    error = caught.value
    assert (error.table, error.column) == ("public.t", "c")
    assert error.remedies == (walrow.errors.Remedy("types", "public.t.c", "string"),)


def test_every_default_is_a_type_of_a_key() -> None:
    for name, oid in types_page.named().items():
        for profile in ("arrow", "spark", "text"):
            catalog = type_cases.catalog({"c": oid})
            chosen: dict[str, Any] = {"profile": profile, "_keys": ["c"]}
            found = walrow.schema(catalog, "t", metadata=(), **chosen)
            assert found.names == ["c"], name
