"""Every type as pyarrow, polars and duckdb read it, and what its field says of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import walrow

pa = pytest.importorskip("pyarrow")

import own_types  # noqa: E402
from dress import CASES, Case, Refused  # noqa: E402
from layouts import LAYOUTS  # noqa: E402
from streams import Column, messages  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

ALL = [*CASES, *LAYOUTS]


def read(case: Case, **options: Any) -> walrow.Reader:
    """The case's column alone, with a NULL after its values."""
    stream = messages([case.column], [*([cell] for cell in case.cells), [None]])
    return walrow.read(
        stream,
        framing="message",
        table="t",
        metadata=(),
        catalog=own_types.catalog(),
        types=case.types and {"c": case.types},
        **options,
    )


def refused(wanted: Refused, ask: Callable[[], object]) -> None:
    # polars panics where it refuses, which is no Exception.
    with pytest.raises(BaseException, match=wanted.text):
        ask()


def is_beyond_python(case: Case) -> bool:
    return "beyond" in case.name


@pytest.mark.parametrize("case", ALL, ids=str)
def test_pyarrow(case: Case) -> None:
    table = pa.table(read(case))
    table.validate(full=True)
    column = table["c"]
    if is_beyond_python(case):
        column = column.cast(pa.int32())
    assert column.to_pylist() == [*case.values, None]
    if case.seen[0] is not None:
        assert str(column.type) == case.seen[0]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_polars(case: Case) -> None:
    pl = pytest.importorskip("polars")
    if isinstance(case.polars, Refused):
        refused(case.polars, lambda: pl.DataFrame(read(case)))
        return
    column = pl.DataFrame(read(case))["c"]
    if is_beyond_python(case):
        column = column.to_physical()
    wanted = case.values if case.polars is None else case.polars
    assert column.to_list() == [*wanted, None]
    if case.seen[1] is not None:
        assert str(column.dtype) == case.seen[1]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_duckdb(case: Case) -> None:
    duckdb = pytest.importorskip("duckdb")

    def ask() -> Any:
        reader = read(case)
        assert reader is not None
        return duckdb.sql(f"SELECT {case.sql} FROM reader")  # noqa: S608

    if isinstance(case.duckdb, Refused):
        refused(case.duckdb, lambda: ask().fetchall())
        return
    found = ask()
    wanted = case.values if case.duckdb is None else case.duckdb
    assert [row for (row,) in found.fetchall()] == [*wanted, None]
    if case.seen[2] is not None:
        assert str(found.types[0]) == case.seen[2]


@pytest.mark.parametrize("case", ALL, ids=str)
def test_own_schema_asked_for_changes_nothing(case: Case) -> None:
    table = pa.table(read(case))
    again = pa.table(read(case, schema=table.schema))
    assert again.schema.equals(table.schema, check_metadata=True)
    again.validate(full=True)
    # Not a number is not equal to itself, but its text is.
    assert str(again["c"]) == str(table["c"])


def test_every_type_is_read() -> None:
    scalars = {oid for oid, _ in own_types.built_in().values()}
    scalars |= set(own_types.OIDS.values())
    assert scalars - {case.column.oid for case in CASES} == set()


def test_infinities_are_so_in_duckdb() -> None:
    duckdb = pytest.importorskip("duckdb")
    for oid in (1082, 1114, 1184):
        stream = messages([Column("c", oid)], [["infinity"], ["-infinity"]])
        reader = walrow.read(
            stream, framing="message", table="t", unrepresentable="sentinel"
        )
        found = duckdb.sql("SELECT c::VARCHAR FROM reader").fetchall()
        assert reader.nulled == {}
        assert found == [("infinity",), ("-infinity",)]


def field_of(column: Column, **options: Any) -> Any:
    reader = walrow.read(
        messages([column], [[None]]), framing="message", table="t", **options
    )
    return pa.schema(reader.schema).field("c")


def metadata_of(column: Column, **options: Any) -> dict[str, str]:
    metadata = field_of(column, **options).metadata
    return {key.decode(): value.decode() for key, value in metadata.items()}


OWN = own_types.OIDS


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (Column("c", 23), {"pg.type": "int4"}),
        (Column("c", 1043, 14), {"pg.type": "varchar"}),
        (Column("c", 1231, 786438), {"pg.type": "_numeric"}),
        (Column("c", OWN["mood"]), {"pg.type": "mood", "pg.schema": "own"}),
        (Column("c", OWN["mood"] + 1), {"pg.type": "_mood", "pg.schema": "own"}),
        (Column("c", OWN["price"]), {"pg.type": "price", "pg.schema": "own"}),
        (Column("c", OWN["pair"]), {"pg.type": "pair", "pg.schema": "own"}),
        (Column("c", 29999, -1, ("x", "gone")), {"pg.type": "gone", "pg.schema": "x"}),
        # A catalog knows a domain's own name, of which the stream has the base's.
        (
            Column("c", OWN["price"], -1, ("pg_catalog", "numeric")),
            {"pg.type": "price", "pg.schema": "own"},
        ),
        (Column("c", 29999), {}),
    ],
    ids=str,
)
def test_fields_say_where_they_are_from(column: Column, wanted: dict[str, str]) -> None:
    for profile in ("spark", "text"):
        assert metadata_of(column, profile=profile, catalog=own_types.catalog()) == {
            "pg.oid": str(column.oid),
            "pg.typmod": str(column.typmod),
            **wanted,
        }
    native = metadata_of(column, catalog=own_types.catalog())
    # pyarrow takes out what it reads itself.
    assert wanted.items() <= native.items()


def test_domain_without_a_catalog_is_its_base() -> None:
    column = Column("c", OWN["price"], -1, ("pg_catalog", "numeric"))
    assert field_of(column).type == pa.string()
    assert metadata_of(column)["pg.schema"] == "pg_catalog"
    assert field_of(column, catalog=own_types.catalog()).type == pa.decimal128(6, 2)


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (Column("c", 2950), pa.uuid()),
        (Column("c", 114), pa.json_()),
        (Column("c", 3802), pa.json_()),
        (Column("c", OWN["cube"]), pa.opaque(pa.string(), "cube", "PostgreSQL")),
        (Column("c", OWN["isbn"] + 1), pa.opaque(pa.string(), "_isbn", "PostgreSQL")),
        (Column("c", 29999), pa.opaque(pa.string(), "unknown", "PostgreSQL")),
        (
            Column("c", 29999, -1, ("own", "gone")),
            pa.opaque(pa.string(), "gone", "PostgreSQL"),
        ),
    ],
    ids=str,
)
def test_extension_types(column: Column, wanted: Any) -> None:
    catalog = own_types.catalog()
    assert field_of(column, catalog=catalog).type == wanted
    # Spark takes none of them.
    assert field_of(column, catalog=catalog, profile="spark").type == pa.string()


def test_bytes_of_another_type_are_opaque() -> None:
    for oid, name in ((3615, "tsquery"), (OWN["geometry"], "geometry")):
        field = field_of(
            Column("c", oid), catalog=own_types.catalog(), types={"c": "binary"}
        )
        assert field.type == pa.opaque(pa.binary(), name, "PostgreSQL")
    # What is bytes, or bits, anyway is not.
    for column in (Column("c", 17), Column("c", 1560, 5)):
        assert field_of(column, types={"c": "binary"}).type == pa.binary()


@pytest.mark.parametrize(
    ("name", "typmod", "wanted"),
    [
        ("geometry", -1, {}),
        ("geometry", own_types.POINT_4326, {"crs": "4326", "crs_type": "srid"}),
        ("geometry", own_types.GEOMETRY_3857, {"crs": "3857", "crs_type": "srid"}),
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
    column = Column("c", OWN[name], typmod)
    found = metadata_of(column, catalog=own_types.catalog())
    assert found["ARROW:extension:name"] == "geoarrow.wkb"
    assert json.loads(found["ARROW:extension:metadata"]) == wanted
    assert field_of(column, catalog=own_types.catalog()).type == pa.binary()
