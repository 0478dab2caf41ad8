"""The function that `decode` returns, called as a task calls it, without Spark."""

from __future__ import annotations

import gzip
import pickle
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import walrow
import walrow.spark

ITEM = "public.item"


def binary(*values: bytes | None) -> Any:
    return pa.record_batch({"capture": pa.array(values, pa.binary())})


def run(function: Callable[..., Any], *batches: Any) -> list[list[Any]]:
    """The reprs of the values, which distinguish -0 from 0 and are equal for NaN."""
    found = list(function(iter(batches)))
    assert all(type(batch) is pa.RecordBatch for batch in found)
    rows = [row for batch in found for row in batch.to_pylist()]
    return [list(map(repr, row.values())) for row in rows]


@pytest.fixture(scope="module")
def rows(data: Path) -> bytes:
    return (data / "rows.text.wire").read_bytes()


@pytest.fixture(scope="module")
def expected(rows: bytes) -> list[list[Any]]:
    batches = walrow.read(rows, table=ITEM, profile="spark")
    found = run(lambda _: map(pa.record_batch, batches))
    assert len(found) > 4
    return found


@pytest.mark.parametrize(
    "kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str
)
def test_binary_columns_of_every_kind_are_read(
    rows: bytes, expected: list[list[Any]], kind: Any
) -> None:
    batch = pa.record_batch({"n": pa.array([1, 2]), "c": pa.array([rows, rows], kind)})
    assert run(walrow.spark.decode(table=ITEM), batch) == expected * 2


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str
)
def test_paths_are_read_with_and_without_scheme(
    rows: bytes, expected: list[list[Any]], kind: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a %20 b#?ü.wire"
    path.write_bytes(rows)
    paths = [str(path), f"file:{path}", path.as_uri()]
    batch = pa.record_batch({"path": pa.array(paths, kind)})
    assert run(walrow.spark.decode(table=ITEM), batch) == expected * 3


def test_schema_option_takes_every_kind_of_schema(rows: bytes) -> None:
    types = pytest.importorskip("pyspark.sql.types")
    struct = walrow.spark.schema(rows, ITEM)
    assert isinstance(struct, types.StructType)
    arrow = pa.schema(walrow.read(rows, table=ITEM, profile="spark").schema)
    found = [
        run(walrow.spark.decode(table=ITEM, schema=schema), binary(rows))
        for schema in (
            None,
            struct,
            arrow,
            walrow.read(rows, table=ITEM, profile="spark").schema,
        )
    ]
    assert found[0]
    assert all(rows == found[0] for rows in found)


def test_function_survives_pickling(rows: bytes, expected: list[list[Any]]) -> None:
    function = walrow.spark.decode(
        table=("public", "item"),
        schema=walrow.read(rows, table=ITEM, profile="spark").schema,
        catalog=walrow.Catalog(),
        types={"label": pa.string()},
        batch_rows=2,
    )
    copy = pickle.loads(pickle.dumps(function))
    assert run(copy, binary(rows)) == expected


def test_same_input_gives_the_same_output_every_time(rows: bytes) -> None:
    function = walrow.spark.decode(table=ITEM)
    first = [batch.serialize() for batch in function(iter([binary(rows, rows)]))]
    again = [batch.serialize() for batch in function(iter([binary(rows, rows)]))]
    assert first == again


def test_abandoned_task_leaves_the_function_as_it_was(
    rows: bytes, expected: list[list[Any]]
) -> None:
    function = walrow.spark.decode(table=ITEM, batch_rows=1)
    next(iter(function(iter([binary(rows)]))))
    assert run(function, binary(rows)) == expected


# As in Kafka: each value is one payload or one message of a connection.
PAYLOAD = b"w" + bytes(24) + b"B" + bytes(20)
LONE = {
    "XLogData": PAYLOAD,
    "keepalive": b"k" + bytes(17),
    "Begin": b"B\0\0\0\0\x01\x92\x3a\x28\0\x02\xf1\x2c\xc5\x5b\xb3\x40\0\0\x02\xe1",
    "Commit": b"C\0\0\0\0\0\x01\x92\x3a\x28\0\0\0\0\x01\x92\x3a\x58" + bytes(8),
    "Origin": b"O\0\0\0\0\x01\x92\x3a\x28name\0",
    "Relation": b"R\0\0\x40\0public\0t\0d\0\0",
    "Type": b"Y\0\0\x40\0public\0t\0",
    "Insert": b"I\0\0\x40\0N\0\x01n",
    "Update": b"U\0\0\x40\0N\0\x01n",
    "Delete": b"D\0\0\x40\0K\0\x01n",
    "Truncate": b"T\0\0\0\x01\0\0\0\x40\0",
    "Message": b"M\0\0\0\0\0\x01\x92\x3a\x28p\0\0\0\0\x01x",
    "Stream Start": b"S\0\0\x02\xe1\x01",
    "Stream Stop": b"E",
    "Stream Commit": b"c\0\0\x02\xe1\0" + bytes(24),
    "Stream Abort": b"A\0\0\x02\xe1\0\0\x02\xe1",
    "JSON": b'{"op": "c", "secret": 1}',
    "empty": b"",
}


@pytest.mark.parametrize("value", LONE.values(), ids=LONE)
@pytest.mark.parametrize("with_schema", [True, False])
def test_lone_message_is_refused_with_a_remedy(
    rows: bytes, value: bytes, *, with_schema: bool
) -> None:
    schema = walrow.read(rows, table=ITEM, profile="spark").schema
    function = walrow.spark.decode(table=ITEM, schema=schema if with_schema else None)
    with pytest.raises(walrow.errors.DecodeError) as caught:
        run(function, binary(rows, value))
    assert "the value is not a capture" in str(caught.value)
    assert 'framing="copydata"' in str(caught.value)
    assert caught.value.__notes__ == [
        "walrow: in column capture, row 2 of the task's input"
    ]
    assert "secret" not in str(caught.value)


def test_null_names_its_column(rows: bytes) -> None:
    with pytest.raises(
        walrow.errors.DecodeError, match="NULL in column capture, row 2"
    ) as e:
        run(walrow.spark.decode(table=ITEM), binary(rows, None))
    assert e.value.column == "capture"


def test_rows_before_a_wrong_value_come_first(
    rows: bytes, expected: list[list[Any]]
) -> None:
    found = walrow.spark.decode(table=ITEM)(iter([binary(rows, b"x")]))
    assert next(found).num_rows == len(expected)
    with pytest.raises(walrow.errors.DecodeError):
        next(found)


def test_missing_file_says_which(tmp_path: Path) -> None:
    path = str(tmp_path / "gone.wire")
    with pytest.raises(walrow.Error, match="cannot be read: No such file") as caught:
        run(walrow.spark.decode(table=ITEM), pa.record_batch({"path": [path]}))
    assert path in caught.value.__notes__[0]


def test_path_that_means_two_files_is_refused(rows: bytes, tmp_path: Path) -> None:
    for name in ("a b", "a%20b"):
        (tmp_path / name).write_bytes(rows)
    function = walrow.spark.decode(table=ITEM)
    path = f"{tmp_path}/a%20b"
    assert run(function, pa.record_batch({"path": [path]}))
    with pytest.raises(walrow.Error, match="can mean two files"):
        run(function, pa.record_batch({"path": [f"file:{path}"]}))


@pytest.mark.parametrize(
    ("columns", "column", "message"),
    [
        ({"a": [1]}, None, "neither a binary column"),
        ({"a": [b"x"], "b": [b"x"]}, None, "several binary columns, a, b"),
        ({"a": ["x"], "b": ["x"]}, None, "several string columns, a, b"),
        ({"a": [b"x"]}, "b", "no column b in the DataFrame, only a"),
        ({"a": [1]}, "a", "column a is int64"),
    ],
)
def test_ambiguous_columns_are_refused(
    columns: dict[str, list[Any]], column: str | None, message: str
) -> None:
    function = walrow.spark.decode(table=ITEM, column=column)
    with pytest.raises(walrow.errors.SchemaError, match=message):
        run(function, pa.record_batch(columns))


def test_column_option_chooses_among_several(
    rows: bytes, expected: list[list[Any]]
) -> None:
    batch = pa.record_batch({"a": [b"x"], "b": [rows], "path": ["x"]})
    assert run(walrow.spark.decode(table=ITEM, column="b"), batch) == expected


@pytest.mark.parametrize(
    "options",
    [
        {"profile": "arrow"},
        {"unfinished": "maybe"},
        {"unrepresentable": "sentinel"},
        {"batch_rows": 0},
        {"schema": 7},
    ],
    ids=str,
)
def test_impossible_options_are_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        walrow.spark.decode(table=ITEM, **options)
    assert isinstance(caught.value, walrow.Error)


def test_table_that_a_capture_lacks(rows: bytes, data: Path) -> None:
    other = (data / "types-integer.text.wire").read_bytes()
    with pytest.raises(walrow.errors.SchemaError, match=r"public\.item"):
        run(walrow.spark.decode(table=ITEM), binary(other))
    schema = walrow.read(rows, table=ITEM, profile="spark").schema
    assert run(walrow.spark.decode(table=ITEM, schema=schema), binary(other)) == []


def test_bare_name_means_one_table_in_all_captures(rows: bytes) -> None:
    out = []
    for frame in walrow.frames(rows):
        data = frame.to_bytes()
        if frame.message is not None and frame.message.kind == "R":
            # A schema of as many letters.
            data = data.replace(b"public\0item\0", b"secret\0item\0")
        out.append(data)
    other = b"".join(out)
    schema = pa.schema([("id", pa.int32())])
    for options in ({}, {"schema": schema, "columns": ["id"]}):
        function = walrow.spark.decode(table="item", **options)
        assert run(function, binary(rows, rows))
        assert run(function, binary(other))
        with pytest.raises(walrow.errors.SchemaError, match="as a pair") as caught:
            run(function, binary(rows, other))
        assert caught.value.table == "secret.item"
        function = walrow.spark.decode(
            table=("public", "item"),
            schema=schema,
            columns=["id"],
            missing_table="ignore",
        )
        assert run(function, binary(rows, other)) == run(function, binary(rows))


def test_server_error_is_an_error_unless_ignored(data: Path) -> None:
    broken = (data / "error-terminated.text.wire").read_bytes()
    [table] = {batch.table for batch in walrow.read(broken, unfinished="ignore")}
    with pytest.raises(walrow.errors.ReplicationError, match="57P01"):
        run(walrow.spark.decode(table=table), binary(broken))
    assert run(walrow.spark.decode(table=table, unfinished="ignore"), binary(broken))


def test_a_table_that_is_in_no_capture_is_an_error(
    rows: bytes, expected: list[list[Any]], data: Path
) -> None:
    other = (data / "update-toast.text.wire").read_bytes()
    found = walrow.read(rows, table=ITEM, profile="spark").schema
    bare = pa.schema(found).remove_metadata()
    for table in ("public.itme", ("public", "itme"), "itme"):
        # A schema that walrow made contains the name of its table.
        for schema in (found, pa.schema(found), walrow.spark.schema(rows, ITEM)):
            with pytest.raises(
                walrow.errors.SchemaError, match=r"schema is that of public\.item"
            ):
                walrow.spark.decode(table=table, schema=schema)
        with pytest.raises(walrow.errors.SchemaError, match="itme in the stream"):
            run(walrow.spark.decode(table=table, schema=bare), binary(rows))
    # A capture may lack a table that others have.
    for schema in (found, walrow.spark.schema(rows, ITEM)):
        function = walrow.spark.decode(table=ITEM, schema=schema)
        assert run(function, binary(other, rows)) == expected
        function = walrow.spark.decode(table=ITEM, schema=schema, missing_table="error")
        with pytest.raises(
            walrow.errors.SchemaError, match=r"no table public\.item"
        ) as caught:
            run(function, binary(other, rows))
        assert "row 1 of the task's input" in caught.value.__notes__[0]
    function = walrow.spark.decode(table=ITEM, schema=bare, missing_table="ignore")
    assert run(function, binary(other, rows)) == expected


def test_versions_need_a_schema_and_are_projected_onto_it(data: Path) -> None:
    capture = (data / "alter-columns.text.wire").read_bytes()
    tables = {batch.table for batch in walrow.read(capture)}
    table = tables.pop()
    versions = [pa.schema(b.schema) for b in walrow.read(capture, profile="spark")]
    assert not tables
    assert len({tuple(version.names) for version in versions}) > 1
    with pytest.raises(walrow.errors.SchemaError):
        run(walrow.spark.decode(table=table), binary(capture))
    # Every column that there ever was, under its latest type.
    fields = {field.name: field for version in versions for field in version}
    wanted = pa.schema(list(fields.values()))
    found = list(
        walrow.spark.decode(table=table, schema=wanted)(iter([binary(capture)]))
    )
    names = set(wanted.names)
    rows = 0
    for batch in found:
        assert batch.schema.equals(wanted)
        for row, unsent in enumerate(batch["_unsent"].to_pylist()):
            assert set(unsent or ()) <= names
            for name in unsent or ():
                assert not batch[name][row].is_valid
            rows += bool(unsent)
    assert rows > 0


def test_a_table_in_a_schema_named_walrow_is_an_ordinary_table(rows: bytes) -> None:
    stream = rows.replace(b"public\0item\0", b"walrow\0item\0")
    schema = pa.schema([("label", pa.string()), ("id", pa.int32())])
    function = walrow.spark.decode(
        table="walrow.item", schema=schema, columns=["id", "label"]
    )
    batches = list(function(iter([binary(stream)])))
    assert batches
    assert all(batch.schema.names == ["label", "id"] for batch in batches)


@pytest.mark.parametrize(
    ("options", "name"),
    [({"envelope": True}, "schema_name"), ({"table": "walrow.transactions"}, "xid")],
)
def test_declared_types_are_those_of_the_batches(
    rows: bytes, options: dict[str, Any], name: str
) -> None:
    wrong = pa.schema([(name, pa.float64())])
    function = walrow.spark.decode(schema=wrong, **options)
    with pytest.raises(
        walrow.errors.SchemaError, match=f"{name} is .*, but double in the schema"
    ):
        list(function(iter([binary(rows)])))


def test_a_catalogs_file_is_read_on_the_driver(tmp_path: Path) -> None:
    path = tmp_path / "catalog.json"
    path.write_text('{"types": []}', "utf-8")
    decode = walrow.spark.decode(table="public.item", catalog=path)
    path.unlink()
    assert pickle.loads(pickle.dumps(decode)) == decode
    assert list(decode(iter([]))) == []


def test_every_form_of_a_capture_is_read(
    rows: bytes, expected: list[list[Any]], tmp_path: Path
) -> None:
    bare = b"".join(
        frame.to_bytes()[30:] + b"\n" for frame in walrow.frames(rows) if frame.message
    )
    forms = [
        rows,
        gzip.compress(rows),
        pa.compress(rows, codec="zstd", asbytes=True),
        bare,
        gzip.compress(bare),
    ]
    decode = walrow.spark.decode(table=ITEM)
    paths = []
    for number, data in enumerate(forms):
        path = tmp_path / str(number) / "capture"
        path.parent.mkdir()
        path.write_bytes(data)
        paths.append(f"file:{path}")
        assert run(decode, binary(data)) == expected
        schema = walrow.spark.schema(paths[-1], ITEM)
        # The sources: bytes, a directory, a pattern, a list.
        assert walrow.spark.schema(data, ITEM) == schema
        assert walrow.spark.schema(f"file:{path.parent}", ITEM) == schema
        assert walrow.spark.schema(f"file://{path.parent}/*", ITEM) == schema
        assert walrow.spark.schema([paths[-1]], ITEM) == schema
    batch = pa.record_batch({"path": pa.array(paths)})
    assert run(decode, batch) == expected * len(forms)


def test_other_formats_are_named(rows: bytes, tmp_path: Path) -> None:
    decode = walrow.spark.decode(table=ITEM)
    with pytest.raises(walrow.errors.DecodeError, match="look like Parquet") as caught:
        run(decode, binary(rows, b"PAR1" + bytes(100)))
    assert caught.value.__notes__ == [
        "walrow: in column capture, row 2 of the task's input"
    ]
    cut = tmp_path / "cut"
    cut.write_bytes(gzip.compress(rows)[:-10])
    with pytest.raises(walrow.errors.UnfinishedError, match="gzip data is truncated"):
        run(decode, pa.record_batch({"path": pa.array([str(cut)])}))
    secret = pa.record_batch({"path": pa.array(["postgresql://u:hunter2@db/shop"])})
    with pytest.raises(walrow.errors.OptionError, match="connection string") as refused:
        run(decode, secret)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "path",
    [
        "postgresql://me:hunter2@db/shop",
        "host=db password=hunter2",
        "https://me:hunter2@localhost:1/a.wire?signature=hunter2",
    ],
)
def test_errors_never_show_credentials_of_a_path(path: str, rows: bytes) -> None:
    function = walrow.spark.decode(table=ITEM)
    broken = rows + b"x"
    for batch in (
        pa.record_batch({"path": pa.array([path])}),
        pa.record_batch({"path": pa.array([path]), "content": pa.array([broken])}),
    ):
        with pytest.raises(walrow.Error) as caught:
            list(function(iter([batch])))
        said = "".join(traceback.format_exception(caught.value))
        assert "task's input, path " in said
        assert "hunter2" not in said


def test_several_tables_need_an_envelope(rows: bytes) -> None:
    tables: Any = {"tables": ["public.item", ("public", "stock")]}
    with pytest.raises(
        walrow.errors.OptionError, match="use envelope=True with tables="
    ):
        walrow.spark.decode(**tables)
    schema = walrow.spark.schema(rows, envelope=True)
    for chosen, count in ((tables, 17), ({"tables": ["stock"]}, 7)):
        decode = walrow.spark.decode(envelope=True, schema=schema, **chosen)
        copy = pickle.loads(pickle.dumps(decode))
        found = run(copy, binary(rows, rows))
        assert len(found) == 2 * count
    decode = walrow.spark.decode(envelope=True, tables=["item", "gone"])
    with pytest.raises(walrow.errors.SchemaError, match="no table gone in the stream"):
        run(decode, binary(rows))
    with pytest.raises(TypeError, match="unexpected keyword argument 'tables'"):
        walrow.spark.schema(rows, envelope=True, **tables)
    with pytest.raises(walrow.errors.OptionError, match="table and tables contradict"):
        walrow.spark.decode(table="item", envelope=True, **tables)
