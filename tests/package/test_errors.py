"""Errors: their text and attributes. They can be pickled and contain no values."""

from __future__ import annotations

import ast
import copy
import gzip
import json
import pickle
from typing import Any

import pytest

import walrow
from captures import capture
from streams import Column, format_lsn, wire, wired

pa = pytest.importorskip("pyarrow")
ROWS = capture("rows")
ATTRIBUTES = {
    "offset": 7,
    "lsn": 0x1_0000_0000,
    "message": "Insert",
    "field": "cell kind",
    "table": "public.t",
    "column": "c",
}
REMEDY = walrow.errors.Remedy("types", "public.t.c", "string")
ALL: list[tuple[type[walrow.Error], dict[str, Any]]] = [
    (walrow.Error, {}),
    (walrow.errors.DecodeError, ATTRIBUTES),
    (walrow.errors.UnrepresentableError, ATTRIBUTES | {"remedies": (REMEDY,)}),
    (walrow.errors.SchemaError, {"table": "public.t", "column": "c"}),
    (walrow.errors.OptionError, {}),
    (
        walrow.errors.SettingError,
        {"setting": "DateStyle", "value": "SQL", "wanted": "ISO"},
    ),
    (walrow.errors.LogError, {}),
    (walrow.errors.SpoolError, {"errno": 28}),
    (walrow.errors.UnfinishedError, {"offset": 7, "position": walrow.Lsn("0/1A2B")}),
    (
        walrow.errors.ReplicationError,
        {"sqlstate": "57P01", "offset": 7, "position": None},
    ),
    (
        walrow.errors.ReplicationError,
        {"sqlstate": "55006", "slot": "s", "publication": "p", "hint": "wait"},
    ),
    (walrow.errors.ConnectionLostError, {"sqlstate": None, "slot": "shop"}),
]


@pytest.mark.parametrize(("kind", "attributes"), ALL)
def test_errors_can_be_pickled(kind: type[walrow.Error], attributes: Any) -> None:
    error = kind("what is wrong", **attributes)
    error.add_note("where")
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(other) is kind
        assert str(other) == str(error)
        assert other.reason == "what is wrong"
        for name, value in attributes.items():
            assert getattr(other, name) == value
        assert other.__notes__ == ["where"]


def test_tree_of_errors() -> None:
    for kind, _ in ALL:
        assert issubclass(kind, walrow.Error)
    for kind in (
        walrow.errors.DecodeError,
        walrow.errors.SchemaError,
        walrow.errors.OptionError,
    ):
        assert issubclass(kind, ValueError)
    assert issubclass(walrow.errors.UnrepresentableError, walrow.errors.DecodeError)


def broken(data: bytes, kind: str, at: int, byte: int) -> tuple[bytes, int, int]:
    """The capture with a byte of its first message of this kind changed."""
    for frame in walrow.frames(data):
        if frame.message is not None and frame.message.kind == kind:
            place = frame.offset + 30 + at
            changed = data[:place] + bytes([byte]) + data[place + 1 :]
            return changed, place, frame.fields["start"]
    raise LookupError(kind)


def test_decode_error_says_where() -> None:
    # The marker of an Insert's tuple.
    data, place, lsn = broken(ROWS.data, "I", 5, ord("X"))
    with pytest.raises(walrow.errors.DecodeError) as caught:
        list(walrow.read(data))
    error = caught.value
    assert error.offset == place
    assert error.lsn == lsn
    assert (error.message, error.field) == ("Insert", "tuple marker")
    assert str(error) == (
        f"Insert: tuple marker is not N (byte {place} of the stream, "
        f"lsn {format_lsn(lsn)})"
    )


def test_cell_error_names_table_and_column_and_never_the_value() -> None:
    secret = "12345.67secret"  # noqa: S105
    with pytest.raises(walrow.errors.DecodeError) as caught:
        list(walrow.read(wire([Column("amount", 1700)], [[secret]]), types=DECIMAL))
    error = caught.value
    assert (error.table, error.column) == ("public.t", "amount")
    assert error.offset is not None
    assert error.lsn is not None
    assert "public.t.amount" in str(error)
    said = [str(error), repr(error), str(error.__dict__), str(error.__cause__)]
    said += map(str, error.args)
    assert not [text for text in said if "12345" in text or "secret" in text]
    pickled = pickle.dumps(error)
    assert b"12345" not in pickled
    assert b"secret" not in pickled


DECIMAL = {"amount": "decimal128(12, 2)"}


@pytest.mark.parametrize("name", ["types-infinity", "types-nan", "types-array-shape"])
def test_unrepresentable_error_has_a_remedy(name: str) -> None:
    with pytest.raises(walrow.errors.UnrepresentableError) as caught:
        list(walrow.read(capture(name).path))
    error = caught.value
    assert error.table is not None
    assert error.column is not None
    assert error.lsn is not None
    key = f"{error.table}.{error.column}"
    assert error.remedies == (
        walrow.errors.Remedy("types", key, "string"),
        walrow.errors.Remedy("unrepresentable", key, "null"),
    )
    for remedy in error.remedies:
        assert str(remedy) in str(error)


ALL_VERSIONS = walrow.errors.Remedy("schema", code="walrow.schema(source, table)")


@pytest.mark.parametrize(
    ("remedy", "text"),
    [
        (
            walrow.errors.Remedy("types", 'né"\\\n\x7f\x85\u202e名', "string"),
            r"""types={"né\"\\\n\x7f\x85\u202e名": "string"}""",
        ),
        (walrow.errors.Remedy("unrepresentable", None, "null"), None),
        (walrow.errors.Remedy("late_start", None, value=True), "late_start=True"),
        (walrow.errors.Remedy("message_limit", None, 7), "message_limit=7"),
        (walrow.errors.Remedy("metadata", None, ("xid", "seq")), None),
        (walrow.errors.Remedy("metadata_prefix"), "another metadata_prefix"),
        (ALL_VERSIONS, "schema=walrow.schema(source, table)"),
    ],
)
def test_a_remedy_prints_as_the_arguments_that_it_is(
    remedy: walrow.errors.Remedy, text: str | None
) -> None:
    if text is not None:
        assert str(remedy) == text
    assert str(remedy).isprintable()
    assert set(remedy.options()) == ({remedy.option} if remedy.value else set())
    if remedy.value is not None:
        name, _, value = str(remedy).partition("=")
        found = ast.literal_eval(value)
        expected = remedy.options()[name]
        assert found == (list(expected) if isinstance(expected, tuple) else expected)


def test_a_transaction_without_its_beginning_names_late_start() -> None:
    data = capture("streaming-abort").data
    marks = [frame.offset for frame in walrow.frames(data)]
    found = set()
    for mark in marks:
        try:
            list(walrow.read(data[mark:]))
        except walrow.errors.DecodeError as error:
            if error.remedies:
                found.add((error.remedies, "late_start=True" in str(error)))
    remedies = (
        walrow.errors.Remedy("earlier_start"),
        walrow.errors.Remedy("late_start", None, value=True),
    )
    assert found == {(remedies, True)}


def test_batches_before_an_error_come_first_then_it_is_repeated() -> None:
    whole = sum(len(batch) for batch in walrow.read(ROWS.data))
    data = ROWS.data + b"x"
    decoder = walrow.Decoder()
    iterator = decoder.feed(data)
    batches: list[walrow.Batch] = []
    with pytest.raises(walrow.errors.DecodeError) as caught:
        batches.extend(iterator)
    assert sum(len(batch) for batch in batches) == whole
    assert caught.value.offset == len(ROWS.data)
    for again in (decoder.feed(b""), decoder.flush(), decoder.finish(), iterator):
        with pytest.raises(walrow.errors.DecodeError) as repeated:
            next(again)
        assert str(repeated.value) == str(caught.value)
    assert decoder.position > 0


@pytest.mark.parametrize(
    ("columns", "field"),
    [
        ([Column("caf\udce9", 25)], "column name"),
        ([Column("name", 20_000, -1, ("public", "caf\udce9"))], "type name"),
        ([Column("name", 20_000, -1, ("caf\udce9", "citext"))], "namespace"),
    ],
)
def test_names_of_sql_ascii_are_read_byte_by_byte(
    columns: list[Column], field: str
) -> None:
    data = wire(columns, [["caf\udce9"]])
    with pytest.raises(walrow.errors.DecodeError) as caught:
        list(walrow.read(data))
    error = caught.value
    assert error.field == field
    step, remedy = error.remedies
    assert step == walrow.errors.Remedy("client_encoding")
    assert 'session={"client_encoding": "LATIN1"}' in str(error)
    assert "SQL_ASCII" in str(error)
    (batch,) = walrow.read(data, **remedy.options(), metadata=())
    records = pa.record_batch(batch)
    assert records.schema.names == [columns[0].name.replace("\udce9", "é")]
    assert records.column(0).to_pylist() == ["café"]


def test_origins_and_prefixes_must_be_utf8() -> None:
    data = ROWS.data
    origin = b"O" + bytes(8) + b"caf\xe9\0"
    begin = next(
        each.offset + len(each.to_bytes())
        for each in walrow.frames(data)
        if each.message is not None and each.message.kind == "B"
    )
    with pytest.raises(walrow.errors.DecodeError, match="change the name") as caught:
        list(walrow.read(data[:begin] + wired(origin) + data[begin:]))
    assert "session=" not in str(caught.value)


def test_wrong_catalog_is_an_option_error() -> None:
    with pytest.raises(walrow.errors.OptionError, match="not a catalog"):
        walrow.Catalog("{")
    with pytest.raises(walrow.errors.OptionError, match="not a catalog"):
        walrow.Catalog.from_json('{"other": []}')
    with pytest.raises(walrow.errors.OptionError, match="not a catalog"):
        walrow.Catalog("[]")


def test_a_catalog_has_each_oid_once() -> None:
    twice = {"oid": 20000, "schema": "public", "name": "t", "kind": "base"}
    with pytest.raises(walrow.errors.OptionError, match="two types have the OID 20000"):
        walrow.Catalog(json.dumps({"types": [twice, twice]}))


def test_catalogs_are_values() -> None:
    text = (
        '{"types": [{"oid": 16400, "schema": "public", "name": "t", "kind": "base"}]}'
    )
    catalog = walrow.Catalog(text)
    assert catalog == walrow.Catalog.from_json(catalog.to_json())
    assert catalog != walrow.Catalog()
    assert hash(catalog) == hash(walrow.Catalog(text))
    assert pickle.loads(pickle.dumps(catalog)) == catalog
    assert copy.deepcopy(catalog) == catalog
    assert walrow.Catalog().tables() == []


def messages(data: bytes) -> list[bytes]:
    return [it.to_bytes()[30:] for it in walrow.frames(data) if it.message is not None]


@pytest.mark.parametrize(
    ("framing", "chunks"),
    [
        ("wire", [b"".join(it + b"\n" for it in messages(ROWS.data))]),
        ("wire", [gzip.compress(ROWS.data)]),
        ("recvlogical", [ROWS.data]),
        ("copydata", messages(ROWS.data)),
        ("message", [it.to_bytes()[5:] for it in walrow.frames(ROWS.data)]),
    ],
)
def test_bytes_that_begin_with_another_framing_name_the_option(
    framing: Any, chunks: list[bytes]
) -> None:
    decoder = walrow.Decoder(framing=framing)
    with pytest.raises(
        walrow.errors.DecodeError, match="compressed, or give a Decoder another framing"
    ) as caught:
        next(decoder.feed(chunks[0]))
    assert caught.value.remedies == (walrow.errors.Remedy("framing"),)


def test_a_later_byte_has_no_other_framing() -> None:
    data, _, _ = broken(ROWS.data, "I", 0, 0x18)
    with pytest.raises(walrow.errors.DecodeError, match="kind") as caught:
        list(walrow.read(data))
    assert caught.value.remedies == ()


def test_changed_columns_name_the_schema_of_all_versions() -> None:
    path = capture("alter-columns").path
    table = next(iter(walrow.read(path))).table
    text = r'columns changed; read all versions with versions="union" or schema='
    with pytest.raises(walrow.errors.SchemaError, match=text) as caught:
        list(walrow.read(path, table=table))
    assert caught.value.table == table
    (union, remedy) = caught.value.remedies
    assert remedy == ALL_VERSIONS
    assert list(walrow.read(path, table=table, schema=walrow.schema(path, table)))
    assert list(walrow.read(path, table=table, **union.options()))


def test_a_path_in_place_of_a_catalog_names_from_file() -> None:
    with pytest.raises(walrow.errors.OptionError, match=r"Catalog\.from_file"):
        walrow.Catalog("shop.json")
    with pytest.raises(walrow.errors.OptionError, match="EOF") as caught:
        walrow.Catalog("{")
    assert "from_file" not in str(caught.value)


def test_a_schema_needs_a_table() -> None:
    for options in ({}, {"table": None}, {"envelope": False}):
        with pytest.raises(
            walrow.errors.OptionError, match="needs one table; choose table="
        ):
            walrow.schema(ROWS.path, **options)
    assert walrow.schema(ROWS.path, envelope=True)


def test_a_misspelled_side_table_lists_them() -> None:
    with pytest.raises(
        walrow.errors.SchemaError, match=r"walrow's own are .*\.truncates"
    ) as e:
        list(walrow.read(ROWS.path, table="walrow.transaction"))
    assert e.value.remedies == (walrow.errors.Remedy("missing_table", None, "ignore"),)
