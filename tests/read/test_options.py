"""Options: types, unrepresentable values, metadata, and invalid options."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from captures import Capture, capture, captures
from rows import outcome

pa = pytest.importorskip("pyarrow")

ROWS = capture("rows")
NAMES = [
    "change_type",
    "commit_lsn",
    "seq",
    "commit_timestamp",
    "xid",
    "key_only",
    "unsent",
]


def column(name: str, field: str, **options: Any) -> Any:
    """The type of a column of a capture's first table."""
    batch = next(walrow.read(capture(name).path, **options))
    return pa.schema(batch.schema).field(field).type


@pytest.mark.parametrize(
    "key", ["amount", "item.amount", "public.item.amount", "numeric"]
)
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("string", pa.string()),
        ("utf8", pa.string()),
        ("binary", pa.binary()),
        ("decimal128(38, 9)", pa.decimal128(38, 9)),
        (pa.decimal128(20, 4), pa.decimal128(20, 4)),
        (pa.string(), pa.string()),
    ],
)
def test_types_are_chosen_by_column_or_type(
    key: str, wanted: Any, expected: Any
) -> None:
    assert column("rows", "amount", types={key: wanted}) == expected


@pytest.mark.parametrize(
    ("pg_type", "names"),
    [
        ("bool", ["bool"]),
        ("int2", ["int16", "int32", "int64"]),
        ("int8", ["int64"]),
        ("oid", ["uint32", "int64"]),
        ("float4", ["float32", "float64", "float", "double"]),
        ("date", ["date32", "date32[day]"]),
        ("time", ["time64[us]"]),
        ("timestamp", ["timestamp[us]"]),
        ("timestamptz", ["timestamp[us, UTC]", "timestamp[us, tz=UTC]"]),
        ("uuid", ["uuid", "fixed_size_binary[16]"]),
        ("_int4", ["list<int32>", "list<int64>", "list<item: int64>", "List(Int32)"]),
        ("text", ["Utf8", "LargeUtf8", "utf8_view", "dictionary"]),
        ("numeric", ["Decimal128(12, 2)", "decimal128(12, 2)", "Float64"]),
    ],
)
def test_every_name_of_a_type_is_known(pg_type: str, names: list[str]) -> None:
    for name in names:
        walrow.Decoder(types={pg_type: name})


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"types": {"a": 5}}, TypeError, "Arrow type"),
        ({"profile": "pandas"}, walrow.errors.OptionError, "arrow, spark or text"),
        (
            {"unrepresentable": "drop"},
            walrow.errors.OptionError,
            "error, null or sentinel",
        ),
        ({"unrepresentable": {"a": "x"}}, walrow.errors.OptionError, "error, null or"),
        ({"metadata": ["lsn"]}, walrow.errors.OptionError, "no metadata column"),
        ({"metadata": ["xid", "_xid"]}, walrow.errors.OptionError, "chosen twice"),
        ({"metadata": "xid"}, TypeError, "not one string"),
        (
            {"metadata": False},
            TypeError,
            "metadata must be a sequence of names, not bool",
        ),
        ({"columns": 1}, TypeError, "columns must be a sequence of names, not int"),
        ({"batch_rows": -1}, walrow.errors.OptionError, "batch_rows"),
        ({"catalog": "{}"}, TypeError, r"walrow\.Catalog\.from_json"),
        ({"catalog": "/nowhere/shop.json"}, FileNotFoundError, "/nowhere/shop.json"),
        (
            {"types": [("a", "int64")]},
            TypeError,
            "types must be a dictionary, not list",
        ),
        ({"batch_rows": "many"}, TypeError, "batch_rows must be an integer"),
        ({"envelope": "yes"}, TypeError, "envelope must be True or False"),
        (
            {"session": {"client_encoding": "EUC_JP"}},
            walrow.errors.OptionError,
            "EUC_JP.* UTF8, SQL_ASCII or LATIN1",
        ),
        (
            {"session": {"client_encoding": "UTF8", "CLIENT_ENCODING": "UTF8"}},
            walrow.errors.OptionError,
            "CLIENT_ENCODING is set twice",
        ),
        (
            {"session": {"datestyle": "SQL, DMY"}},
            walrow.errors.OptionError,
            '"datestyle" cannot be chosen, .* set DateStyle to ISO',
        ),
        (
            {"session": {"IntervalStyle": "postgres"}},
            walrow.errors.OptionError,
            '"IntervalStyle" cannot .* set IntervalStyle to postgres',
        ),
        (
            {"session": {"TimeZone": "UTC"}},
            walrow.errors.OptionError,
            '"TimeZone" cannot be chosen, only client_encoding$',
        ),
        ({"table": ("a", "b", "c")}, TypeError, "table"),
    ],
)
def test_impossible_option_values_are_refused_at_once(
    options: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        walrow.Decoder(**options)


UNREPRESENTABLE = [
    each
    for each in captures("text", "binary")
    if (error := outcome(walrow.read(each.path)).error) is not None
    and issubclass(error[0], walrow.errors.UnrepresentableError)
]


@pytest.mark.parametrize("capture", UNREPRESENTABLE, ids=str)
def test_the_remedy_of_each_error_reads_the_value(capture: Capture) -> None:
    """Each remedy, passed unchanged, reads the value."""
    for choice in (0, -1):
        options: dict[str, dict[str, str]] = {"types": {}, "unrepresentable": {}}
        seen: set[str] = set()
        while True:
            found = walrow.read(capture.path, **options)  # type: ignore[arg-type]
            error = _error(found)
            if error is None:
                break
            assert error.column is not None
            assert error.column not in seen, "the way out led nowhere"
            seen.add(error.column)
            remedy = error.remedies[choice]
            assert str(remedy) in str(error)
            for name, value in remedy.options().items():
                options[name] |= value
        assert seen


def _error(reader: walrow.Reader) -> walrow.errors.UnrepresentableError | None:
    try:
        list(reader)
    except walrow.errors.UnrepresentableError as error:
        return error
    return None


def test_there_are_values_that_cannot_be_held() -> None:
    names = {each.name for each in UNREPRESENTABLE}
    assert {
        "types-infinity",
        "types-nan",
        "types-midnight",
        "types-array-shape",
    } <= names


def test_null_is_counted() -> None:
    infinity = capture("types-infinity").path
    reader = walrow.read(infinity, unrepresentable="null")
    batches = list(reader)
    nulled = {
        f"{batch.table}.{name}": count
        for batch in batches
        for name, count in batch.nulled.items()
    }
    assert nulled
    assert reader.nulled == nulled
    values = outcome(batches).batches
    texts = outcome(walrow.read(infinity, profile="text")).batches
    for batch, text in zip(values, texts, strict=True):
        for name in text.records.schema.names:
            nulls = (each.records.column(name).null_count for each in (batch, text))
            gone = reader.nulled.get(f"{batch.table}.{name}", 0)
            assert next(nulls) - next(nulls) == gone


def dated(oid: int, days: list[str | None], *, lsn: int, name: str = "t") -> bytes:
    """A transaction with a table of dates."""
    columns = [streams.Column("day", 1082), streams.Column("numbers", 1007)]
    return streams.wired(
        streams.begin(lsn=lsn),
        streams.relation(columns, oid, name),
        *(streams.insert([day, "[5:5]={1}"], oid) for day in days),
        streams.commit(lsn),
    )


def test_tables_of_one_name_are_counted_apart() -> None:
    reader: walrow.Reader | walrow.Decoder
    first = streams.SESSION + dated(1, ["infinity"], lsn=0x1000)
    other = dated(3, ["infinity"], lsn=0x2000, name="u")
    # It was dropped and created again, and has no such date any more.
    again = dated(2, ["2024-01-01"], lsn=0x3000)
    reader = walrow.read(first + other, unrepresentable="null")
    list(reader)
    assert reader.nulled == {"public.t.day": 1, "public.u.day": 1}
    reader = walrow.read(first + other + again, unrepresentable="null")
    list(reader)
    assert reader.nulled == {"public.t (OID 1).day": 1, "public.u.day": 1}
    assert reader.dropped_lower_bounds == {
        "public.t (OID 1).numbers": 1,
        "public.t (OID 2).numbers": 1,
        "public.u.numbers": 1,
    }
    decoder = walrow.Decoder(unrepresentable="null")
    list(decoder.feed(first))
    list(decoder.flush())
    assert decoder.nulled == {"public.t.day": 1}
    list(decoder.feed(other + dated(2, ["infinity"] * 2, lsn=0x3000)))
    list(decoder.flush())
    assert decoder.nulled == {
        "public.t (OID 1).day": 1,
        "public.t (OID 2).day": 2,
        "public.u.day": 1,
    }
    # A table that was renamed is counted by each of its names.
    renamed = first + dated(1, ["infinity"], lsn=0x2000, name="u")
    reader = walrow.read(renamed, unrepresentable="null")
    list(reader)
    assert reader.nulled == {"public.t.day": 1, "public.u.day": 1}


def test_sentinels_are_the_ends_of_the_range() -> None:
    infinity = capture("types-infinity").path
    # A year that is too large is not infinite: it stays an error, after the rows before it.
    found = outcome(walrow.read(infinity, unrepresentable="sentinel"))
    assert found.error is not None
    texts = outcome(walrow.read(infinity, profile="text")).batches[0].records
    records = found.batches[0].records
    seen = 0
    for name, bits in (("a", 32), ("b", 64), ("c", 64)):
        number = pa.int32() if bits == 32 else pa.int64()
        values = records.column(name).cast(number).to_pylist()
        top = (1 << (bits - 1)) - 1
        for value, text in zip(values, texts.column(name).to_pylist(), strict=False):
            if text in {"infinity", "-infinity"}:
                seen += 1
                assert value == (top if text == "infinity" else -top), name
    assert seen == 6


def test_the_policy_of_a_column_overrides_the_default() -> None:
    infinity = capture("types-infinity").path
    with pytest.raises(walrow.errors.UnrepresentableError) as caught:
        list(walrow.read(infinity, unrepresentable={"*": "null", "a": "error"}))
    assert caught.value.column == "a"


@pytest.mark.parametrize("prefix", ["_", "", "meta."])
def test_metadata_columns_are_chosen_and_named(prefix: str) -> None:
    def names(**options: Any) -> list[str]:
        batch = next(
            walrow.read(
                ROWS.path, table="stock", metadata_prefix=prefix or "m_", **options
            )
        )
        return batch.column_names[3:]

    prefix = prefix or "m_"
    assert names() == [prefix + name for name in NAMES]
    assert names(metadata=()) == []
    assert names(metadata=["xid", f"{prefix}seq"]) == [f"{prefix}xid", f"{prefix}seq"]


@pytest.mark.parametrize("deep", ["list<", "struct<a: ", "large_list<item: "])
def test_deeply_nested_type_names_are_refused(deep: str) -> None:
    name = deep * 100_000 + "int32" + ">" * 100_000
    with pytest.raises(walrow.errors.OptionError, match="not an Arrow type") as caught:
        walrow.Decoder(types={"a": name})
    assert len(str(caught.value)) < 1000


def test_deeply_nested_schemas_are_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    deep = pa.int32()
    for _ in range(70):
        deep = pa.list_(deep)
    with pytest.raises(walrow.errors.OptionError, match="64 levels"):
        walrow.Decoder(table="t", schema=pa.schema([("a", deep)]))
    with pytest.raises(walrow.errors.OptionError, match="64 levels"):
        walrow.Decoder(types={"a": deep})


def test_prefixes_that_arrow_cannot_export_are_refused() -> None:
    with pytest.raises(walrow.errors.OptionError, match="zero byte"):
        walrow.Decoder(metadata_prefix="a\0b")


def test_a_catalog_may_be_the_path_of_its_file(tmp_path: Path) -> None:
    mood = {"oid": 20_000, "schema": "public", "name": "mood", "kind": "enum"}
    text = json.dumps({"types": [mood | {"labels": ["sad"]}]})
    path = tmp_path / "catalog.json"
    path.write_text(text, "utf-8")
    catalog = walrow.Catalog(text)
    assert walrow.Catalog.from_file(path) == catalog
    assert walrow.Catalog.from_file(str(path)) == catalog
    for given in (path, str(path), catalog):
        with pytest.raises(walrow.errors.OptionError, match="mood cannot become int64"):
            walrow.Decoder(catalog=given, types={"mood": "int64"})
    for content in (b"[", b"\xff"):
        path.write_bytes(content)
        with pytest.raises(
            walrow.errors.OptionError, match=r"catalog\.json: not a catalog"
        ):
            walrow.Decoder(catalog=path)


def test_reprs_name_types_as_the_option_does() -> None:
    reader = walrow.read(capture("types-time").path, unrepresentable="null")
    text = repr(next(reader).schema)
    assert text.startswith("<walrow.Schema ")
    columns = dict(re.findall(r"(\w+): ([^,]+(?:, UTC\])?)", text))
    assert len(columns) > 5
    for name, kind in columns.items():
        if not name.startswith("_"):
            walrow.Decoder(types={f"{name}_": kind})


CALLS: dict[str, Any] = {
    "read": lambda _log, **options: list(walrow.read(ROWS.path, **options)),
    "schema": lambda _log, **options: walrow.schema(
        ROWS.path, "public.item", **options
    ),
    "Log.read": lambda log, **options: list(log.read(**options)),
    "Log.follow": lambda log, **options: log.follow(**options).close(),
    "Log.state": lambda log, **options: list(log.state("public.item", **options)),
    "Log.net": lambda log, **options: list(log.net("public.item", **options)),
}
SIZES = ("batch_bytes", "message_limit", "spool_memory")


@pytest.fixture
def log(tmp_path: Path) -> walrow.Log:
    walrow.seal(ROWS.path, log=tmp_path / "log")
    return walrow.Log(tmp_path / "log")


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("call", CALLS)
def test_a_size_is_bytes_or_a_text(call: str, name: str, log: walrow.Log) -> None:
    if call == "schema" and name.startswith("batch"):
        return
    for value in ("64MiB", "1.5 MB", 1 << 20):
        CALLS[call](log, **{name: value})
    for wrong in (True, "64", "many", 1.5, b"1MiB", -1, 10**400, 10**5000):
        with pytest.raises(walrow.errors.OptionError, match=f"^{name} ") as caught:
            CALLS[call](log, **{name: wrong})
        assert len(str(caught.value)) < 120


def test_a_size_with_a_unit_is_as_many_bytes() -> None:
    batches = list(walrow.read(ROWS.path, batch_bytes="10B"))
    expected = list(walrow.read(ROWS.path, batch_bytes=10))
    assert [it.num_rows for it in batches] == [it.num_rows for it in expected]
    assert len(batches) > 2


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"framing": "tcp"}, walrow.errors.OptionError, "wire, copydata, message or"),
        ({"framing": 5}, TypeError, "framing must be a string, not int"),
        ({"batch_memory": 0}, walrow.errors.OptionError, "batch_memory"),
        ({"batch_memory": -1}, walrow.errors.OptionError, "batch_memory"),
        ({"batch_memory": "1MiB"}, TypeError, "batch_memory must be an integer"),
    ],
    ids=str,
)
def test_options_of_a_decoder(options: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        walrow.Decoder(**options)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"catalog": ""}, walrow.errors.OptionError, "^catalog is empty"),
        ({"catalog": "x\ud800"}, walrow.errors.OptionError, "^catalog has a character"),
        (
            {"catalog": 5},
            TypeError,
            r"^catalog must be a walrow\.Catalog or .*, not int",
        ),
        ({"spool_directory": 5}, walrow.errors.OptionError, "^spool_directory must be"),
        (
            {"spool_directory": ""},
            walrow.errors.OptionError,
            "^spool_directory is empty",
        ),
        (
            {"spool_directory": "x\ud800"},
            walrow.errors.OptionError,
            "^spool_directory has a character that no path can have",
        ),
        (
            {"spool_directory": "postgresql://u:hidden@h/db"},
            walrow.errors.OptionError,
            "^spool_directory is a connection string or a URL",
        ),
    ],
)
def test_paths_that_are_none_are_named(
    options: dict[str, Any], error: type[Exception], text: str, tmp_path: Path
) -> None:
    calls: list[Any] = [
        lambda: walrow.read(ROWS.path, **options),
        lambda: walrow.seal(ROWS.path, log=tmp_path / "log", **options),
    ]
    for call in calls:
        with pytest.raises(error, match=text) as caught:
            call()
        assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("source", ["", "x\ud800", "x\0"])
def test_sources_that_no_file_system_has(source: str) -> None:
    for call in (walrow.read, walrow.frames, walrow.tables):
        with pytest.raises(walrow.errors.OptionError, match=r"^source "):
            call(source)
    with pytest.raises(walrow.errors.OptionError, match=r"^log "):
        walrow.Log(source)


@pytest.mark.parametrize("tables", [5, True, 1.5, b"x", b"", {}, bytearray(b"x")])
def test_what_is_no_sequence_of_tables(tables: Any) -> None:
    with pytest.raises(TypeError, match=r"^tables must be a sequence of tables, not "):
        walrow.read(ROWS.path, tables=tables)
