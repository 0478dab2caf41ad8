"""Streams under other settings than the pinned ones: read, or refused by name.

The same rows are recorded under each setting and under the pinned ones, which give the
expected values. A text that differs from the pinned one is never read, unless its shape
shows the setting.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

import walrow
import walrow.postgres
from servers import EmbeddedServer, FetchedServer
from servers.recording import record
from streams import Column, backend, wire

pa = pytest.importorskip("pyarrow")

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

# Values of every size and sign, and days of each month.
RANDOM_DATES = """
    SELECT d, d + random() * interval '24h', (d + random() * interval '24h')::timestamptz
    FROM (SELECT (timestamp '2000-01-01'
        + (2 * random() - 1)::float8 ^ 3 * interval '6000y')::date AS d
    FROM generate_series(1, 99)) r
"""
RANDOM_INTERVALS = """
    SELECT make_interval(
        months => ((2 * random() - 1) ^ 5 * 99)::int * (random() < 0.6)::int,
        days => ((2 * random() - 1) ^ 5 * 99)::int * (random() < 0.6)::int,
        secs => ((2 * random() - 1) ^ 5 * 99999)::numeric(12, 3)
            * (random() < 0.6)::int)
    FROM generate_series(1, 300)
"""
DATES = """
    ('2024-02-29', '2024-02-29 17:30:00.5', '2024-02-29 17:30:00.5+05:30'),
    ('2024-12-01', '2024-12-01 00:00:00', '2024-12-01 00:00:00+00'),
    ('0044-03-15 BC', '0044-03-15 01:02:03.000001 BC', '0044-03-15 01:02:03 BC'),
    ('12024-01-02', '12024-01-02 23:59:59.999999', '12024-01-02 23:59:59.99+00'),
    ('0001-01-01', '0001-01-01 00:00:00', '0001-01-01 00:00:00+00'),
    ('infinity', '-infinity', 'infinity'),
    (NULL, NULL, NULL)
"""
INTERVALS = """
    ('0'), ('1 year 2 mons -3 days 04:05:06.789'), ('-1 year -2 mons +3 days -4 hours'),
    ('-00:00:00.000001'), ('1 day'), ('-1 day'), ('1 mon'), ('1 year'), ('-11 mons'),
    ('2 hours'), ('-2 hours -3 min'), ('1 day -1 second'), ('-1 day +0.5 seconds'),
    ('178000000 years'), ('-178000000 years'), ('2147483647 days'), ('1 min 1 sec'),
    ('-2562047788:00:54.775807'), ('2562047788:00:54.775807'), ('61 seconds'),
    ('-1 year -1 day'), ('1 year -1 day'), ('-3 days -00:00:01.5'), (NULL)
"""
DATE_STYLES = [
    "SQL, MDY",
    "SQL, DMY",
    "German, DMY",
    "German, MDY",
    "Postgres, MDY",
    "Postgres, DMY",
    "SQL, YMD",
    "Postgres, YMD",
]
INTERVAL_STYLES = ["postgres_verbose", "sql_standard", "iso_8601"]


@dataclass(frozen=True)
class Streams:
    """Records tables of a database, as often as needed. Several are `a, b`."""

    server: EmbeddedServer
    database: str

    def record(self, table: str, *, binary: bool = False, **settings: str) -> bytes:
        with self.connect() as it:
            it.execute("DROP PUBLICATION IF EXISTS p")
            it.execute(f"CREATE PUBLICATION p FOR TABLE {table}".encode())
        return record(
            self.server,
            lambda: self._touch(table),
            publication="p",
            database=self.database,
            binary=binary,
            settings=settings,
        )

    def connect(self) -> psycopg.Connection:
        # The server converts the encoding of queries.
        dsn = self.server.dsn_of(self.database)
        encoding = "SQL_ASCII" if self.database == "bytes" else "UTF8"
        return psycopg.connect(dsn, autocommit=True, client_encoding=encoding)

    def _touch(self, table: str) -> None:
        with self.connect() as it:
            for each in table.split(", "):
                it.execute(f"UPDATE {each} SET id = id".encode())  # noqa: S608


@pytest.fixture(scope="module", params=[16, 18])
def server(request: pytest.FixtureRequest) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(request.param) as server:
        yield server


@pytest.fixture(scope="module")
def streams(server: EmbeddedServer) -> Streams:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE TABLE moments (id serial PRIMARY KEY, d date, t timestamp,"
            " z timestamptz, ds date[], r tsrange, zs timestamptz[], zr tstzrange,"
            " zm datemultirange)"
        )
        connection.execute(
            "INSERT INTO moments (d, t, z, ds, r, zs, zr, zm)"  # noqa: S608
            " SELECT d, t, z, ARRAY[d, NULL, d], tsrange(t, t, '[]'),"
            " ARRAY[z, NULL, z], tstzrange(z, z, '[]'),"
            " datemultirange(daterange(d, NULL))"
            f" FROM (SELECT dd::date d, tt::timestamp t, zz::timestamptz z FROM"
            f" (VALUES {DATES}) AS v (dd, tt, zz) UNION ALL {RANDOM_DATES}) x".encode()
        )
        connection.execute(
            "CREATE TABLE spans (id serial PRIMARY KEY, i interval, js interval[])"
        )
        connection.execute("CREATE TYPE spanning AS RANGE (SUBTYPE = interval)")
        connection.execute("CREATE TYPE both_kinds AS (i interval, d date, b bytea)")
        connection.execute(
            "CREATE TABLE mixed (id serial PRIMARY KEY, r spanning, c both_kinds[])"
        )
        connection.execute(
            "INSERT INTO mixed (r, c) SELECT spanning(v::interval, NULL),"  # noqa: S608
            r" ARRAY[(v::interval, '2024-02-29', '\x5c00ff')::both_kinds]"
            f" FROM (VALUES {INTERVALS}) AS v (v)".encode()
        )
        connection.execute(
            "INSERT INTO spans (i, js) SELECT v::interval, ARRAY[v::interval, NULL]"  # noqa: S608
            f" FROM (VALUES {INTERVALS}) AS v (v)".encode()
        )
        connection.execute(
            "INSERT INTO spans (i, js) SELECT i, ARRAY[i, NULL]"  # noqa: S608
            f" FROM ({RANDOM_INTERVALS}) AS v (i)".encode()
        )
        connection.execute(
            "CREATE TABLE bytes (id serial PRIMARY KEY, b bytea, bs bytea[])"
        )
        connection.execute(
            r"INSERT INTO bytes (b) VALUES ('\x'), ('\x5c785c5c00ff7f20'), (NULL),"
            r" (decode(repeat('00017f5c', 99), 'hex'))"
        )
        connection.execute("UPDATE bytes SET bs = ARRAY[b, NULL, b]")
    return Streams(server, "postgres")


def table(data: bytes, **options: Any) -> Any:
    options.setdefault("metadata", ())
    with walrow.read(data, **options) as reader:
        batches = [pa.record_batch(batch) for batch in reader]
    found = pa.Table.from_batches(batches)
    # An update of all rows goes through the pages, where rows move.
    return found.sort_by("id") if "id" in found.column_names else found


@dataclass(frozen=True)
class Cells:
    """Texts of a table's rows, in their order: a column's type, and each text."""

    types: list[dict[str, Any]]
    rows: list[list[str | None]]

    @classmethod
    def of(cls, data: bytes) -> Cells:
        types: list[dict[str, Any]] = []
        rows = []
        for message in walrow.messages(data):
            if message.kind == "R":
                types = message.fields["columns"]
            elif message.kind == "U":
                rows.append(message.fields["new"])
        return cls(types, sorted(rows, key=lambda row: int(row[0] or 0)))


def value(column: dict[str, Any], text: str, **options: Any) -> Any:
    """The column of one text, or its error."""
    data = wire([Column("v", column["type_oid"])], [[text]])
    try:
        return table(data, unrepresentable="null", **options)["v"]
    except walrow.errors.DecodeError as error:
        return error


def check_styles(
    pinned: Cells, other: Cells, remedies: set[str], **options: Any
) -> tuple[int, int]:
    """Checks that each text has the pinned value or is refused, and counts both."""
    read, refused = 0, 0
    for expected, found in zip(pinned.rows, other.rows, strict=True):
        for column, text, ours in zip(other.types, found, expected, strict=True):
            if text is None or ours is None:
                assert text is ours
                continue
            same, other_value = (value(column, it, **options) for it in (ours, text))
            assert isinstance(same, pa.ChunkedArray)
            if not isinstance(other_value, walrow.errors.DecodeError):
                # If another text is read, a part of the value has no representation.
                assert other_value.equals(same), text
                assert text == ours or "null" in str(same), text
                read += 1
                continue
            assert text != ours
            assert type(other_value) is walrow.errors.DecodeError, text
            assert other_value.remedies, text
            assert {it.option for it in other_value.remedies} <= remedies, text
            assert len(text) < 9 or text not in str(other_value)
            refused += 1
    return read, refused


@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
def test_dates_of_another_style_are_refused(streams: Streams, profile: str) -> None:
    pinned = Cells.of(streams.record("moments"))
    for style in DATE_STYLES:
        other = Cells.of(streams.record("moments", datestyle=style))
        counts = check_styles(pinned, other, {"DateStyle"}, profile=profile)
        # IDs and infinities are the same in all styles.
        assert counts[0] > len(pinned.rows), style
        assert counts[1] > 7 * len(pinned.rows), style
    for style in ["ISO, DMY", "ISO, YMD"]:
        assert Cells.of(streams.record("moments", datestyle=style)) == pinned


@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
def test_intervals_of_another_style_are_refused(streams: Streams, profile: str) -> None:
    pinned = Cells.of(streams.record("spans"))
    for style in INTERVAL_STYLES:
        other = Cells.of(streams.record("spans", intervalstyle=style))
        read, refused = check_styles(pinned, other, {"IntervalStyle"}, profile=profile)
        assert refused > 300, style
        # Beside IDs and an array of NULL, ten hours and more are the same.
        assert (read > len(pinned.rows) + 1) == (style == "sql_standard"), style


@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
def test_styles_are_refused_in_user_defined_types(
    streams: Streams, profile: str
) -> None:
    with psycopg.connect(streams.server.dsn) as connection:
        catalog = walrow.postgres.catalog(connection)
    options = {"profile": profile, "catalog": catalog}
    pinned = Cells.of(streams.record("mixed"))
    for dates, intervals in itertools.product(["ISO", "German, DMY"], INTERVAL_STYLES):
        settings: dict[str, Any] = {"datestyle": dates, "intervalstyle": intervals}
        other = Cells.of(streams.record("mixed", **settings))
        remedies = {"DateStyle", "IntervalStyle"}
        read, refused = check_styles(pinned, other, remedies, **options)
        assert read >= len(pinned.rows)
        assert refused > len(pinned.rows)
    data = streams.record("mixed", bytea_output="escape")
    expected = table(streams.record("mixed"), unrepresentable="null", **options)
    assert table(data, unrepresentable="null", **options).equals(expected)


@pytest.mark.parametrize(
    ("name", "column", "settings", "words"),
    [
        ("moments", "d", {"datestyle": "SQL"}, "set the walsender's DateStyle to ISO"),
        (
            "spans",
            "i",
            {"intervalstyle": "iso_8601"},
            "set the walsender's IntervalStyle to postgres",
        ),
    ],
)
def test_an_error_names_the_setting_and_its_value(
    streams: Streams, name: str, column: str, settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(walrow.errors.DecodeError, match=words) as caught:
        table(streams.record(name, **settings))
    assert caught.value.table == f"public.{name}"
    assert caught.value.column == column
    assert caught.value.offset is not None
    assert "2024" not in str(caught.value)


def test_other_tables_and_columns_stay_readable(streams: Streams) -> None:
    data = streams.record(
        "moments, bytes", datestyle="German", intervalstyle="sql_standard"
    )
    reported = backend(b"S", b"DateStyle\0German, DMY\0") + data
    pinned = streams.record("moments, bytes")
    for source in (data, reported):
        for options in (
            {"table": "bytes"},
            {"table": "moments", "columns": ["id"]},
        ):
            expected = table(pinned, **options)
            assert len(expected) > 0
            assert table(source, **options).equals(expected)
        with pytest.raises(walrow.errors.DecodeError, match="DateStyle to ISO"):
            table(source, table="moments")


@pytest.mark.parametrize("zone", ["Asia/Kolkata", "Africa/Monrovia", "America/Caracas"])
@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
def test_an_iso_moment_is_the_same_in_any_zone(
    streams: Streams, profile: str, zone: str
) -> None:
    """Without `session`: each text has an offset, and is converted to UTC."""
    options = {"profile": profile, "unrepresentable": "null"}
    pinned = table(streams.record("moments"), **options)
    assert table(streams.record("moments", timezone=zone), **options).equals(pinned)
    binary = streams.record("moments", binary=True, timezone=zone)
    assert table(binary, **options).equals(pinned)


@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
def test_escaped_bytea_is_recognised_without_a_session(
    streams: Streams, profile: str
) -> None:
    pinned = table(streams.record("bytes"), profile=profile)
    escaped = streams.record("bytes", bytea_output="escape")
    assert table(escaped, profile=profile).equals(pinned)


@pytest.fixture(scope="module")
def latin(server: EmbeddedServer) -> Streams:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
        )
    with psycopg.connect(server.dsn_of("latin"), autocommit=True) as connection:
        connection.execute("SET client_encoding = 'UTF8'")
        connection.execute("CREATE TYPE größe AS ENUM ('süß', 'sauer')")
        connection.execute(
            'CREATE TABLE "Maß" (id int PRIMARY KEY, "Länge" text, j jsonb, a text[],'
            ' e größe, c char(9), r int4range, b "char")'
        )
        connection.execute(
            """INSERT INTO "Maß" VALUES
            (1, 'éÿ¡', '{"ü": "ö"}', ARRAY['ñ, "x"', NULL], 'süß', 'ß', '[1,3)', 'b'),
            (2, 'plain', '1', '{}', 'sauer', 'x', 'empty', '')"""
        )
    return Streams(server, "latin")


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
def test_latin1_is_read_if_the_session_names_it(
    latin: Streams, profile: str, *, binary: bool
) -> None:
    name = '"Maß"'
    with psycopg.connect(latin.server.dsn_of(latin.database)) as connection:
        catalog = walrow.postgres.catalog(connection)
    pinned = latin.record(name, binary=binary, client_encoding="UTF8")
    latin1 = latin.record(name, binary=binary, client_encoding="LATIN1")
    assert "Länge".encode("latin1") in latin1
    options = {"profile": profile, "catalog": catalog}
    expected = table(pinned, **options)
    read = table(latin1, session={"client_encoding": "LATIN1"}, **options)
    assert expected["Länge"].to_pylist() == ["éÿ¡", "plain"]
    assert read.equals(expected)
    assert read.schema.metadata[b"pg.table"] == "Maß".encode()
    with pytest.raises(walrow.errors.DecodeError, match="UTF-8"):
        table(latin1, profile=profile, catalog=catalog)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
def test_the_encoding_that_the_bytes_report_decides(
    latin: Streams, profile: str, *, binary: bool
) -> None:
    with psycopg.connect(latin.server.dsn_of(latin.database)) as connection:
        catalog = walrow.postgres.catalog(connection)
    options = {"profile": profile, "catalog": catalog}
    utf8, latin1 = (
        latin.record('"Maß"', binary=binary, client_encoding=encoding)
        for encoding in ["UTF8", "LATIN1"]
    )
    expected = table(utf8, **options)
    for chosen in [None, "UTF8", "LATIN1"]:
        session = None if chosen is None else {"client_encoding": chosen}
        for encoding, data in [("UTF8", utf8), ("LATIN1", latin1)]:
            read = table(reporting(encoding) + data, session=session, **options)
            assert read.equals(expected), (chosen, encoding)
    # Both sessions in one capture.
    for before, encoding, words in [
        (b"", "WIN1252", "must be UTF8, LATIN1 or SQL_ASCII, not WIN1252"),
        (utf8, "LATIN1", "must be UTF8, not LATIN1"),
    ]:
        data = before + reporting(encoding) + latin1
        with pytest.raises(walrow.errors.DecodeError, match=words) as caught:
            table(data, **options)
        assert caught.value.message == "ParameterStatus"
        assert caught.value.offset == len(before)


def reporting(encoding: str) -> bytes:
    """The ParameterStatus of an encoding."""
    return backend(b"S", b"client_encoding\0" + encoding.encode() + b"\0")


def test_a_log_refuses_another_encoding(latin: Streams, tmp_path: Path) -> None:
    data = reporting("LATIN1") + latin.record('"Maß"', client_encoding="LATIN1")
    capture = tmp_path / "latin.wire"
    capture.write_bytes(data)
    with pytest.raises(walrow.errors.Error, match="must be UTF8, not LATIN1"):
        walrow.seal(capture, log=tmp_path / "log")


@pytest.fixture(scope="module", params=[14, 18])
def documents(request: pytest.FixtureRequest) -> Iterator[Streams]:
    """A LATIN1 database on servers that the wheels lack: with xml, and of version 14."""
    with FetchedServer(request.param) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute(
                "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0"
            )
        with psycopg.connect(server.dsn_of("latin"), autocommit=True) as connection:
            connection.execute("SET client_encoding = 'UTF8'")
            connection.execute(
                'CREATE TABLE documents (id int PRIMARY KEY, x xml, b "char")'
            )
            documents = [
                "<a>ö</a>",
                '<?xml version="1.0" encoding="UTF-8"?>\n<a/>',
                '<?xml version="1.0"?>\n\n<a/>',
                '<?xml version="1.0" standalone="yes"?><a/>',
                '<?xml version="1.0" encoding="UTF-8" standalone="no"?>\n<a>ö</a>\n',
                "\n<a/>",
                None,
            ]
            connection.cursor().executemany(
                "INSERT INTO documents VALUES (%s, %s::xml, 'ö'::text::\"char\")",
                enumerate(documents),
            )
        yield Streams(server, "latin")


@pytest.mark.slow
@pytest.mark.skipif(
    not os.environ.get("WALROW_SLOW"), reason="fetches servers: make test-all"
)
@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
def test_binary_xml_and_single_bytes_are_as_in_text(
    documents: Streams, profile: str
) -> None:
    session = {"client_encoding": "LATIN1"}
    options: dict[str, Any] = {"profile": profile, "session": session}
    text = table(documents.record("documents", client_encoding="LATIN1"), **options)
    binary = table(
        documents.record("documents", binary=True, client_encoding="LATIN1"), **options
    )
    with documents.connect() as connection:
        expected = connection.execute("SELECT x FROM documents ORDER BY id")
        assert text["x"].to_pylist() == [x for (x,) in expected]
    assert set(text["b"].to_pylist()) == {r"\366"}
    assert binary.equals(text)


def test_an_envelope_of_latin1_is_text(latin: Streams) -> None:
    read = {}
    for encoding in ["UTF8", "LATIN1"]:
        data = latin.record('"Maß"', client_encoding=encoding)
        session = {"client_encoding": encoding}
        with walrow.read(data, envelope=True, session=session, metadata=()) as reader:
            read[encoding] = pa.table(reader)
    assert read["LATIN1"].equals(read["UTF8"])


@pytest.fixture(scope="module")
def ascii_only(server: EmbeddedServer) -> Streams:
    with psycopg.connect(server.dsn, autocommit=True) as connection:
        connection.execute(
            "CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0"
        )
    with psycopg.connect(server.dsn_of("bytes"), autocommit=True) as connection:
        connection.execute("CREATE TABLE anything (id int PRIMARY KEY, x text)")
        connection.execute(r"INSERT INTO anything VALUES (1, 'a'), (2, E'\351')")
    return Streams(server, "bytes")


@pytest.mark.parametrize("binary", [False, True])
def test_bytes_that_are_not_utf8_are_read_as_binary(
    ascii_only: Streams, *, binary: bool
) -> None:
    encoding = "SQL_ASCII"
    data = ascii_only.record("anything", binary=binary, client_encoding=encoding)
    session = {"client_encoding": "SQL_ASCII"}
    with pytest.raises(walrow.errors.UnrepresentableError) as caught:
        table(data, session=session)
    (remedy,) = caught.value.remedies
    read = table(data, session=session, **remedy.options())
    assert read["x"].to_pylist() == [b"a", b"\xe9"]
