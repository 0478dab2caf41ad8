"""DataFrames: rows in the tables of other libraries, with walrow's own errors."""

from __future__ import annotations

import builtins
import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import walrow
from captures import capture, captures
from streams import Column, wire
from walrow.errors import OptionError
from walrow.typing import ByTable

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")

ROWS = capture("rows").path
METHODS = ["to_pyarrow", "to_pandas", "to_polars", "to_duckdb"]


def labels(frame: Any) -> list[Any]:
    """The column `label` of a table of any library."""
    if isinstance(frame, pa.Table):
        return list(frame["label"].to_pylist())
    if isinstance(frame, pd.DataFrame):
        return [None if value is pd.NA else value for value in frame["label"]]
    if isinstance(frame, pl.DataFrame):
        return list(frame["label"].to_list())
    return [row[0] for row in frame.project("label").fetchall()]


@pytest.mark.parametrize("method", METHODS)
def test_one_table_is_one_frame(method: str) -> None:
    reader = walrow.read(ROWS, table="item")
    frame = getattr(reader, method)()
    assert labels(frame)[:3] == ["one", None, ""]
    assert len(frame) == 10


@pytest.mark.parametrize("method", METHODS)
def test_several_tables_are_a_dictionary(method: str) -> None:
    frames = getattr(walrow.read(ROWS), method)()
    assert {name: len(frame) for name, frame in frames.items()} == {
        "public.item": 10,
        "public.stock": 7,
    }
    assert list(frames) == ["public.item", "public.stock"]


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_is_one_frame(method: str) -> None:
    [batch, _] = walrow.read(ROWS)
    frame = getattr(batch, method)()
    assert labels(frame)[:3] == ["one", None, ""]
    # A batch can be converted again.
    assert len(getattr(batch, method)()) == 10


@pytest.mark.parametrize("recorded", captures("text"), ids=str)
def test_frames_have_the_rows_of_the_batches(recorded: Any) -> None:
    def tables() -> ByTable:
        frames = walrow.read(recorded.path, **options).to_pyarrow()
        assert isinstance(frames, ByTable)
        return frames

    options: Any = {"unrepresentable": "null", "unfinished": "ignore"}
    wanted: dict[str, list[Any]] = {}
    versions: dict[str, set[Any]] = {}
    for batch in walrow.read(recorded.path, **options):
        records = pa.record_batch(batch)
        wanted.setdefault(batch.table, []).append(records)
        bare = records.schema.remove_metadata()
        versions.setdefault(batch.table, set()).add((batch.relation_oid, str(bare)))
    found = tables()
    changed = {name for name, them in versions.items() if len(them) > 1}
    assert set(found.errors) == changed
    if changed:
        with pytest.raises(walrow.errors.SchemaError):
            list(found)
    else:
        assert list(found) == list(wanted)
    for name, batches in wanted.items():
        if name in changed:
            continue
        assert found[name].num_rows == sum(batch.num_rows for batch in batches)
        for at, column in enumerate(found[name].columns):
            # As text: NaN is not equal to itself.
            shown = [batch.column(at).to_string(window=10_000) for batch in batches]
            assert [chunk.to_string(window=10_000) for chunk in column.chunks] == shown


@pytest.mark.parametrize("method", METHODS)
def test_errors_are_walrows_own(method: str) -> None:
    path = capture("types-nan").path
    with pytest.raises(walrow.errors.UnrepresentableError) as caught:
        getattr(walrow.read(path), method)()
    assert caught.value.table == "public.exact"
    assert caught.value.column is not None
    assert caught.value.lsn is not None
    assert caught.value.remedies
    data = ROWS.read_bytes()
    with pytest.raises(walrow.errors.UnfinishedError):
        getattr(walrow.read(data[:-60], table="item"), method)()
    with pytest.raises(walrow.errors.DecodeError, match=str(len(data))):
        getattr(walrow.read(data + b"\xff" * 100), method)()
    with pytest.raises(walrow.errors.SchemaError, match="stock"):
        getattr(walrow.read(data, table="stok"), method)()


def test_changed_columns_need_a_choice() -> None:
    path = capture("alter-columns").path
    with pytest.raises(
        walrow.errors.SchemaError, match=r'public\.shape changed.*versions="union"'
    ) as e:
        walrow.read(path).to_polars()["public.shape"]
    assert e.value.table == "public.shape"
    frame = walrow.read(path, table="shape", versions="union").to_polars()
    assert frame.columns == walrow.schema(path, "shape").names


def test_two_tables_with_one_name_are_refused() -> None:
    path = capture("recreate").path
    oids = sorted({batch.relation_oid for batch in walrow.read(path)})
    with pytest.raises(
        walrow.errors.SchemaError, match=rf"{oids[0]} and {oids[1]}"
    ) as caught:
        list(walrow.read(path).to_pyarrow())
    assert caught.value.table == "public.phoenix"
    # The three tables' inserts, from the history's SQL.
    assert [
        walrow.read(path, table=oid, metadata=()).to_polars().shape for oid in oids
    ] == [(2, 2), (2, 3), (1, 1)]
    assert walrow.schema(path, oids[1], metadata=()).names == ["a", "id", "b"]


def test_an_oid_chooses_a_table_through_its_renames() -> None:
    path = capture("alter-names").path
    [table] = walrow.tables(path)
    assert len({version.name for version in table.versions}) == 4
    schema = walrow.schema(path, table.oid)
    frame = walrow.read(path, table=table.oid, schema=schema).to_polars()
    kinds = frame["_change_type"].to_list()
    assert (kinds.count("insert"), kinds.count("delete")) == (2, 1)
    with pytest.raises(
        walrow.errors.SchemaError, match="no table with OID 1 in the stream"
    ):
        walrow.read(path, table=1).to_polars()
    for wrong in (-1, 1 << 32):
        with pytest.raises(walrow.errors.OptionError, match="32 bits"):
            walrow.read(path, table=wrong)
    no_table: Any = True
    with pytest.raises(TypeError, match="table must be"):
        walrow.read(path, table=no_table)


def test_envelope_and_side_tables_are_frames() -> None:
    frame = walrow.read(ROWS, envelope=True).to_pyarrow()
    assert frame.num_rows == 17
    tables = ["item", "stock", "walrow.transactions"]
    frames = walrow.read(ROWS, tables=tables).to_pyarrow()
    assert set(frames) == {"public.item", "public.stock", "walrow.transactions"}


def test_a_table_without_rows_has_its_columns() -> None:
    path = capture("truncate").path
    frame = walrow.read(path, table="public.untouched").to_pandas()
    assert "_change_type" in frame.columns


@pytest.mark.parametrize("method", METHODS)
def test_a_reader_is_converted_once(method: str) -> None:
    reader = walrow.read(ROWS)
    getattr(reader, method)()
    with pytest.raises(ValueError, match="read the source again"):
        getattr(reader, method)()
    reader = walrow.read(ROWS)
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        getattr(reader, method)()


@pytest.mark.parametrize(
    ("method", "library"),
    [
        ("to_pyarrow", "pyarrow"),
        ("to_pandas", "pandas"),
        ("to_pandas", "pyarrow"),
        ("to_polars", "polars"),
        ("to_duckdb", "duckdb"),
        ("to_duckdb", "pyarrow"),
    ],
)
def test_a_missing_library_is_named_and_nothing_is_read(
    method: str, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # None in sys.modules makes the import fail, as if the library were not installed.
    monkeypatch.setitem(sys.modules, library, None)
    reader = walrow.read(ROWS)
    with pytest.raises(ImportError, match=f"{method} needs {library}: pip install"):
        getattr(reader, method)()
    assert len(list(reader)) == 2


def test_polars_needs_no_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        if name.partition(".")[0] == "pyarrow":
            raise ModuleNotFoundError(name, name=name)
        return real(name, *rest, **more)

    importlib.import_module("polars")
    monkeypatch.setattr(builtins, "__import__", refuse)
    assert walrow.read(ROWS, table="item").to_polars().height == 10


def test_pandas_keeps_integers_that_numpy_cannot() -> None:
    table = walrow.read(ROWS, table="stock").to_pandas()
    assert str(table["site"].dtype) == "int32[pyarrow]"
    table = walrow.read(ROWS, table="stock").to_pandas(dtype_backend="numpy")
    assert str(table["site"].dtype) in {"int32", "float64"}
    wrong: Any = "numpi"
    with pytest.raises(walrow.errors.OptionError, match=r"dtype_backend.*numpi"):
        walrow.read(ROWS).to_pandas(dtype_backend=wrong)


def test_duckdb_uses_the_connection() -> None:
    with duckdb.connect() as connection:
        item = walrow.read(ROWS, table="item").to_duckdb(connection)
        query = "select _change_type, count(*) from item group by 1 order by 1"
        found = item.query("item", query).fetchall()
    # 4 inserts, 3 updates (one of which changes the key), 2 deletes.
    assert dict(found)["insert"] == 4
    assert dict(found)["update_postimage"] == 3
    assert dict(found)["delete"] == 2


def test_other_libraries_take_batches_and_readers_directly() -> None:
    [batch, _] = walrow.read(ROWS)
    assert pl.DataFrame(batch).height == 10
    assert pa.table(batch).num_rows == 10
    assert pl.DataFrame(walrow.read(ROWS, table="item")).height == 10
    # Without this, pandas makes a column of Batch objects.
    with pytest.raises(TypeError, match="to_pandas"):
        pd.DataFrame(walrow.read(ROWS))


def test_readers_say_how_far_they_are() -> None:
    size = ROWS.stat().st_size
    reader = walrow.read(ROWS)
    assert (reader.bytes_read, reader.bytes_total) == (0, size)
    assert (
        repr(reader)
        == f"<walrow.Reader at 0/0: 0 batches, 0 rows, 0 of {size} bytes read>"
    )
    list(reader)
    assert (reader.bytes_read, reader.bytes_total) == (size, size)
    assert repr(reader) == (
        f"<walrow.Reader at {reader.position}: 2 batches, 17 rows, "
        f"{size} of {size} bytes read>"
    )
    reader.close()
    assert (reader.bytes_read, reader.bytes_total) == (size, size)
    chunks = walrow.read(iter([ROWS.read_bytes()]))
    list(chunks)
    assert (chunks.bytes_read, chunks.bytes_total) == (size, None)


def test_compressed_bytes_count_as_they_are(tmp_path: Any) -> None:
    import gzip

    path = tmp_path / "rows.wire.gz"
    path.write_bytes(gzip.compress(ROWS.read_bytes() * 20))
    for source in (path, path.read_bytes(), [path, path]):
        reader = walrow.read(source)
        list(reader)
        total = path.stat().st_size * (2 if isinstance(source, list) else 1)
        assert (reader.bytes_read, reader.bytes_total) == (total, total)


def test_decoders_say_how_far_they_are() -> None:
    decoder = walrow.Decoder()
    data = ROWS.read_bytes()
    list(decoder.feed(data))
    list(decoder.flush())
    assert repr(decoder) == (
        f"<walrow.Decoder at {decoder.position}: 2 batches, 17 rows, "
        f"{len(data)} bytes read>"
    )


def test_batches_are_html_in_notebooks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    [batch, _] = walrow.read(ROWS)
    shown = getattr(batch, "_repr_html_")()  # noqa: B009 - not in the stubs
    assert "<b>public.item</b>: 10 rows, 10 columns" in shown
    assert "<td>one</td>" in shown
    assert "<td><i>NULL</i></td>" in shown
    assert "decimal128(12, 2)" in shown
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    bare = getattr(batch, "_repr_html_")()  # noqa: B009
    assert "decimal128(12, 2)" in bare
    assert "<td>" not in bare


def test_html_is_escaped() -> None:
    data = ROWS.read_bytes().replace(b"\x03one", b"\x03<b>")
    [batch, _] = walrow.read(data)
    shown = getattr(batch, "_repr_html_")()  # noqa: B009
    assert "<td>&lt;b&gt;</td>" in shown


def test_batches_know_their_relation_version() -> None:
    found = [
        (batch.version, batch.column_names)
        for batch in walrow.read(capture("alter-columns").path, metadata=())
    ]
    assert [version for version, _ in found] == [0, 1, 2, 3]
    assert len({tuple(names) for _, names in found}) == 3


def test_columns_that_a_library_cannot_hold_are_named() -> None:
    def read(**options: Any) -> Any:
        data = wire([Column("id", 23), Column("i", 1186)], [["1", "1 day"]])
        return walrow.read(data, metadata=(), **options)

    takes: list[Callable[[], Any]] = [
        lambda: read().to_polars()["public.t"],
        lambda: read(table="t").to_polars(),
        lambda: next(read()).to_polars(),
    ]
    for take in takes:
        with pytest.raises(
            walrow.errors.SchemaError, match=r"public\.t\.i: polars"
        ) as caught:
            take()
        assert (caught.value.table, caught.value.column) == ("public.t", "i")
        for remedy in caught.value.remedies:
            assert read(table="t", **remedy.options()).to_polars().height == 1


@pytest.mark.parametrize(
    ("oid", "value"),
    [(2951, "{00112233-4455-6677-8899-aabbccddeeff}"), (1082, "0044-03-15 BC")],
)
def test_values_that_numpy_cannot_hold_are_named(oid: int, value: str) -> None:
    data = wire([Column("id", 23), Column("v", oid)], [["1", value]])
    reader = walrow.read(data, table="t", metadata=())
    with pytest.raises(
        walrow.errors.SchemaError, match=r"public\.t\.v: NumPy"
    ) as caught:
        reader.to_pandas(dtype_backend="numpy")
    error = caught.value
    assert (error.table, error.column) == ("public.t", "v")
    assert 'dtype_backend="pyarrow"' in error.reason
    assert value not in str(error)
    (remedy,) = error.remedies
    reader = walrow.read(data, table="t", metadata=(), **remedy.options())
    assert len(reader.to_pandas(dtype_backend="numpy")) == 1


CAPTURE = "tests/data/18/rows.text.wire"


def test_decimals_may_become_floats() -> None:
    reader = walrow.read(CAPTURE, table="item")
    frame = reader.to_pandas(decimals="float")
    assert str(frame["amount"].dtype) == "double[pyarrow]"
    assert frame["amount"].tolist()[0] == 1.5
    # pandas plots only such columns.
    assert "amount" in frame.select_dtypes("number")
    exact = walrow.read(CAPTURE, table="item").to_pandas()
    assert str(exact["amount"].dtype) == "decimal128(12, 2)[pyarrow]"
    batch = next(walrow.read(CAPTURE, table="item"))
    numpy = batch.to_pandas(dtype_backend="numpy", decimals="float")
    assert str(numpy["amount"].dtype) == "float64"
    with pytest.raises(OptionError, match="decimals must be exact or float, not 'x'"):
        batch.to_pandas(decimals="x")  # type: ignore[arg-type]


def test_to_parquet_writes_what_to_pyarrow_returns(tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "item.parquet"
    path.write_bytes(b"an earlier one")
    count = walrow.read(CAPTURE, table="item", batch_rows=3).to_parquet(path)
    expected = walrow.read(CAPTURE, table="item").to_pyarrow()
    assert count == expected.num_rows == 10
    assert pq.read_table(path).to_pylist() == expected.to_pylist()
    assert list(tmp_path.iterdir()) == [path]


def test_to_parquet_leaves_no_file_after_an_error(tmp_path: Path) -> None:
    cut = Path(CAPTURE).read_bytes()[:-60]
    path = tmp_path / "item.parquet"
    with pytest.raises(walrow.errors.UnfinishedError):
        walrow.read(cut, table="item").to_parquet(path)
    with pytest.raises(OptionError, match="choose it with table="):
        walrow.read(CAPTURE).to_parquet(path)
    assert list(tmp_path.iterdir()) == []


def test_a_table_without_rows_is_named() -> None:
    frames = walrow.read(CAPTURE).to_pyarrow()
    with pytest.raises(KeyError, match=r"'public.x' has no rows here; .* public.item"):
        frames["public.x"]
    assert frames.get("public.x") is None
