"""Every type as pyarrow, polars and duckdb read it, and the metadata of its field."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import walrow

pa = pytest.importorskip("pyarrow")

import type_cases  # noqa: E402
from streams import Column, messages  # noqa: E402
from type_cases import OIDS, TYPES, Case, Type  # noqa: E402

ALL = [of for of in TYPES if of.held_by("arrow")]


@dataclass(frozen=True)
class Refused:
    """The error of a library that does not support a type: a part of its text."""

    text: str


@dataclass(frozen=True)
class Asked:
    """An expression of the column `c` for duckdb, and its result."""

    sql: str
    values: list[Any]


#: The values of a library that differ from pyarrow's, or its error.
POLARS: dict[str, list[Any] | Refused] = {
    "uuid": [bytes.fromhex("a0eebc999c0b4ef8bb6d6bb9bd380a11")],
    "hstore": [{"a": "1", "b": None}, {}, {'q"\\': ""}],
    "interval": Refused("could not import from `month_day_nano_interval` type"),
    "interval[]": Refused("could not import from `month_day_nano_interval` type"),
    "numeric as decimal256(76, 2)": Refused("does not support primitive `Int256`"),
}
DUCKDB: dict[str, list[Any] | Refused | Asked] = {
    "hstore": [{"a": "1", "b": None}, {}, {'q"\\': ""}],
    "vector(2)": [(1.0, 2.5)],
    "vector(3)": [(1.0, 2.5, -3.0), (1.0, 2.0, 3.0)],
    "interval": Asked(
        "c::VARCHAR",
        [
            "1 year 2 months -3 days 04:05:06.789",
            "1 day",
            "00:00:00",
            "-00:00:00.000001",
            "-1 day -100:00:00.5",
        ],
    ),
    "interval[]": Asked("c::VARCHAR", ["[1 month]"]),
    "date beyond Python": Asked("c::VARCHAR", ["0044-03-15 (BC)", "5874897-12-31"]),
    "geography": Refused("non-planar edges"),
    "numeric as decimal256(76, 2)": Refused(
        "Unsupported Internal Arrow Type for Decimal d:76,2,256"
    ),
    "halfvec as list<float16>": Refused("Unsupported Internal Arrow Type"),
}
#: The column's type as polars and duckdb name it.
NAMED = {
    "text as large_string": ("String", "VARCHAR"),
    "mood as large_string": ("String", "VARCHAR"),
    "int4 as large_string": ("String", "VARCHAR"),
    "text as string_view": ("String", "VARCHAR"),
    "mood as string_view": ("String", "VARCHAR"),
    "int4 as string_view": ("String", "VARCHAR"),
    "mood as dictionary": ("Categorical", "VARCHAR"),
    "bytea as large_binary": ("Binary", "BLOB"),
    "bytea as binary_view": ("Binary", "BLOB"),
    "int4[] as large_list<int32>": ("List(Int32)", "INTEGER[]"),
    "int4[] as list<list<int32>>": ("List(List(Int32))", "INTEGER[][]"),
    "text[] as list<list<list<string>>>": (
        "List(List(List(String)))",
        "VARCHAR[][][]",
    ),
    "numeric as decimal128(38, 9)": (
        "Decimal(precision=38, scale=9)",
        "DECIMAL(38,9)",
    ),
    "oid as int64": ("Int64", "BIGINT"),
    "time as time64[ns]": ("Time", "TIME_NS"),
}


def name(of: Type) -> str:
    return "date beyond Python" if is_beyond_python(of) else str(of)


def is_beyond_python(of: Type) -> bool:
    return of.name == "date" and isinstance(of.cases[0].value, int)


def read(of: Type, form: str = "text", **options: Any) -> walrow.Reader:
    """The type's column alone, with a NULL after its values."""
    cells = [getattr(case, form) for case in held(of, form)]
    stream = messages([Column("c", of.oid, of.typmod)], [[c] for c in (*cells, None)])
    return walrow.read(
        stream,
        table="t",
        metadata=(),
        catalog=type_cases.catalog(),
        types={"c": of.asked} if of.asked else None,
        **options,
    )


def held(of: Type, form: str = "text") -> list[Case]:
    """The cases with this form whose values Arrow can hold."""
    return [c for c in of.held_by("arrow") if getattr(c, form) is not None]


def expected(of: Type, kind: Any, form: str = "text") -> list[Any]:
    values = [type_cases.of_arrow(case.value, kind) for case in held(of, form)]
    return [*values, None]


def refused(wanted: Refused, ask: Callable[[], object]) -> None:
    # polars panics for unsupported types. A panic is not an Exception.
    with pytest.raises(BaseException, match=wanted.text):
        ask()


def same(found: list[Any], wanted: list[Any]) -> None:
    # repr distinguishes -0.0 from 0.0, and equal NaNs have equal reprs.
    assert repr(_in_utc(found)) == repr(_in_utc(wanted))


def _in_utc(value: Any) -> Any:
    """The value with all its moments in one zone, because each library has its own UTC."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    if isinstance(value, dict):
        return {key: _in_utc(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_in_utc(each) for each in value]
    return value


@pytest.mark.parametrize(
    ("of", "form"),
    [(of, form) for of in ALL for form in ("text", "binary") if held(of, form)],
    ids=lambda each: each if isinstance(each, str) else name(each),
)
def test_pyarrow(of: Type, form: str) -> None:
    table = pa.table(read(of, form))
    table.validate(full=True)
    column = table["c"]
    kind = getattr(column.type, "storage_type", column.type)
    # pyarrow also writes the names of the fields inside lists and maps.
    assert re.sub(r"<item: |, string \('entries'\)", _plain, str(kind)) == of.arrow
    wanted = expected(of, column.type, form)
    if is_beyond_python(of):
        column = column.cast(pa.int32())
    same(column.to_pylist(), wanted)


def _plain(found: re.Match[str]) -> str:
    return "<" if found[0].startswith("<") else ", string"


@pytest.mark.parametrize("of", ALL, ids=name)
def test_polars(of: Type) -> None:
    pl = pytest.importorskip("polars")
    wanted = POLARS.get(str(of))
    if isinstance(wanted, Refused):
        refused(wanted, lambda: pl.DataFrame(read(of)))
        return
    column = pl.DataFrame(read(of))["c"]
    if is_beyond_python(of):
        column = column.to_physical()
    if wanted is None:
        *wanted, _ = expected(of, pa.table(read(of))["c"].type)
    same(column.to_list(), [*wanted, None])
    if str(of) in NAMED:
        assert str(column.dtype) == NAMED[str(of)][0]


@pytest.mark.parametrize("of", ALL, ids=name)
def test_duckdb(of: Type) -> None:
    duckdb = pytest.importorskip("duckdb")
    wanted = DUCKDB.get(name(of))
    sql = wanted.sql if isinstance(wanted, Asked) else "c"

    def ask() -> Any:
        reader = read(of)
        assert reader is not None
        return duckdb.sql(f"SELECT {sql} FROM reader")  # noqa: S608

    if isinstance(wanted, Refused):
        refused(wanted, lambda: ask().fetchall())
        return
    if isinstance(wanted, Asked):
        wanted = wanted.values
    elif wanted is None:
        *wanted, _ = expected(of, pa.table(read(of))["c"].type)
    found = ask()
    same([row for (row,) in found.fetchall()], [*wanted, None])
    if str(of) in NAMED:
        assert str(found.types[0]) == NAMED[str(of)][1]


@pytest.mark.parametrize("of", ALL, ids=name)
def test_the_tables_own_schema_changes_nothing(of: Type) -> None:
    table = pa.table(read(of))
    again = pa.table(read(of, schema=table.schema))
    assert again.schema.equals(table.schema, check_metadata=True)
    again.validate(full=True)
    # NaN is not equal to itself, but its text is.
    assert str(again["c"]) == str(table["c"])


# Cases without settings: the server writes this text under the pinned settings.
@pytest.mark.parametrize("of", TYPES, ids=name)
def test_text_profile_is_what_the_server_wrote(of: Type) -> None:
    columns = [Column("c", of.oid, of.typmod)]
    for form in ("text", "binary"):
        cells = [
            (case.text, getattr(case, form)) for case in of.cases if not case.session
        ]
        sent = [(text, cell) for text, cell in cells if cell is not None]
        stream = messages(columns, [[cell] for _, cell in sent])
        reader = walrow.read(
            stream,
            table="t",
            profile="text",
            metadata=(),
            catalog=type_cases.catalog(),
        )
        found = [row for batch in reader for row in pa.record_batch(batch)["c"]]
        assert [row.as_py() for row in found] == [text for text, _ in sent], form


def test_every_type_is_read() -> None:
    known = {oid for oid, _ in type_cases.built_in().values()}
    known |= set(OIDS.values())
    assert len(known) > 100
    assert known - {of.oid for of in TYPES if of.cases} == set()


def test_sentinels_are_infinities_in_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    for oid in (1082, 1114, 1184):
        stream = messages([Column("c", oid)], [["infinity"], ["-infinity"]])
        reader = walrow.read(stream, table="t", unrepresentable="sentinel")
        found = duckdb.sql("SELECT c::VARCHAR FROM reader").fetchall()
        assert reader.nulled == {}
        assert found == [("infinity",), ("-infinity",)]


def field_of(column: Column, **options: Any) -> Any:
    reader = walrow.read(messages([column], [[None]]), table="t", **options)
    return pa.schema(reader.schema).field("c")


def metadata_of(column: Column, **options: Any) -> dict[str, str]:
    metadata = field_of(column, **options).metadata
    return {key.decode(): value.decode() for key, value in metadata.items()}


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (Column("c", 23), {"pg.type": "int4"}),
        (Column("c", 1043, 14), {"pg.type": "varchar"}),
        (Column("c", 1231, 786438), {"pg.type": "_numeric"}),
        (Column("c", OIDS["mood"]), {"pg.type": "mood", "pg.schema": "own"}),
        (Column("c", OIDS["mood"] + 1), {"pg.type": "_mood", "pg.schema": "own"}),
        (Column("c", OIDS["price"]), {"pg.type": "price", "pg.schema": "own"}),
        (Column("c", OIDS["pair"]), {"pg.type": "pair", "pg.schema": "own"}),
        (Column("c", 29999, -1, ("x", "gone")), {"pg.type": "gone", "pg.schema": "x"}),
        # A catalog has the domain's own name. The stream has the name of its base type.
        (
            Column("c", OIDS["price"], -1, ("pg_catalog", "numeric")),
            {"pg.type": "price", "pg.schema": "own"},
        ),
        (Column("c", 29999), {}),
    ],
    ids=str,
)
def test_fields_say_where_they_are_from(column: Column, wanted: dict[str, str]) -> None:
    for profile in ("spark", "text"):
        assert metadata_of(column, profile=profile, catalog=type_cases.catalog()) == {
            "pg.oid": str(column.oid),
            "pg.typmod": str(column.typmod),
            **wanted,
        }
    native = metadata_of(column, catalog=type_cases.catalog())
    # pyarrow removes the metadata that it reads itself.
    assert wanted.items() <= native.items()


def test_domain_without_a_catalog_is_its_base() -> None:
    column = Column("c", OIDS["price"], -1, ("pg_catalog", "numeric"))
    assert field_of(column).type == pa.string()
    assert metadata_of(column)["pg.schema"] == "pg_catalog"
    assert field_of(column, catalog=type_cases.catalog()).type == pa.decimal128(6, 2)


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (Column("c", 2950), pa.uuid()),
        (Column("c", 114), pa.json_()),
        (Column("c", 3802), pa.json_()),
        (Column("c", OIDS["cube"]), pa.opaque(pa.string(), "cube", "PostgreSQL")),
        (Column("c", OIDS["isbn"] + 1), pa.opaque(pa.string(), "_isbn", "PostgreSQL")),
        (Column("c", 29999), pa.opaque(pa.string(), "unknown", "PostgreSQL")),
        (
            Column("c", 29999, -1, ("own", "gone")),
            pa.opaque(pa.string(), "gone", "PostgreSQL"),
        ),
    ],
    ids=str,
)
def test_extension_types(column: Column, wanted: Any) -> None:
    catalog = type_cases.catalog()
    assert field_of(column, catalog=catalog).type == wanted
    # Spark has no extension types.
    assert field_of(column, catalog=catalog, profile="spark").type == pa.string()


def test_bytes_of_another_type_are_opaque() -> None:
    for oid, name in ((3615, "tsquery"), (OIDS["geometry"], "geometry")):
        field = field_of(
            Column("c", oid), catalog=type_cases.catalog(), types={"c": "binary"}
        )
        assert field.type == pa.opaque(pa.binary(), name, "PostgreSQL")
    # Types that are bytes or bits anyway are not opaque.
    for column in (Column("c", 17), Column("c", 1560, 5)):
        assert field_of(column, types={"c": "binary"}).type == pa.binary()


@pytest.mark.parametrize(
    ("name", "typmod", "wanted"),
    [
        ("geometry", -1, {}),
        ("geometry", type_cases.POINT_4326, {"crs": "4326", "crs_type": "srid"}),
        ("geometry", type_cases.GEOMETRY_3857, {"crs": "3857", "crs_type": "srid"}),
        (
            "geography",
            -1,
            {"crs": "4326", "crs_type": "srid", "edges": "spherical"},
        ),
        (
            "geography",
            4267 << 8 | 1 << 2,
            {"crs": "4267", "crs_type": "srid", "edges": "spherical"},
        ),
    ],
)
def test_geometry_names_its_coordinates(
    name: str, typmod: int, wanted: dict[str, str]
) -> None:
    # pyarrow does not know geoarrow.wkb, so it leaves it in the field's metadata.
    column = Column("c", OIDS[name], typmod)
    found = metadata_of(column, catalog=type_cases.catalog())
    assert found["ARROW:extension:name"] == "geoarrow.wkb"
    assert json.loads(found["ARROW:extension:metadata"]) == wanted
    assert field_of(column, catalog=type_cases.catalog()).type == pa.binary()
