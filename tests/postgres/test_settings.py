"""Streams under other settings than the pinned ones: read with `session`, or refused.

The same rows are recorded under each setting and under the pinned ones, which give the
expected values. Text that depends on settings is never read without `session`, unless its
shape shows the setting.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import walrow
import walrow.postgres
from servers import EmbeddedServer, NpmServer, recording
from servers.recording import record

if TYPE_CHECKING:
    from collections.abc import Iterator

pa = pytest.importorskip("pyarrow")

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

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
]


@dataclass(frozen=True)
class Streams:
    """Records tables of a database, as often as needed."""

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
            it.execute(f"UPDATE {table} SET id = id".encode())  # noqa: S608


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
            f" FROM (VALUES {DATES}) AS v (dd, tt, zz), LATERAL (SELECT dd::date d,"
            " tt::timestamp t, zz::timestamptz z) x".encode()
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
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
@pytest.mark.parametrize("style", DATE_STYLES)
def test_dates_are_read_in_the_style_of_the_session(
    streams: Streams, style: str, profile: str
) -> None:
    options = {"profile": profile, "unrepresentable": "null"}
    pinned = table(streams.record("moments"), **options)
    assert all(column.null_count < len(pinned) for column in pinned.columns)
    read = table(
        streams.record("moments", datestyle=style),
        session={"DateStyle": style, "TimeZone": "UTC"},
        **options,
    )
    assert read.equals(pinned)


@pytest.mark.parametrize("style", DATE_STYLES)
def test_dates_of_another_style_are_refused_without_a_session(
    streams: Streams, style: str
) -> None:
    data = streams.record("moments", datestyle=style)
    with pytest.raises(
        walrow.errors.DecodeError, match="for another DateStyle, use the option session"
    ) as caught:
        table(data)
    assert caught.value.table == "public.moments"
    assert caught.value.column == "d"
    assert "2024" not in str(caught.value)


def test_a_wrong_date_style_is_an_error(streams: Streams) -> None:
    for recorded in ["ISO, DMY", "SQL, MDY", "German", "Postgres, DMY"]:
        data = streams.record("moments", datestyle=recorded)
        for claimed in ["SQL, MDY", "German", "Postgres, DMY"]:
            if recorded == claimed:
                continue
            with pytest.raises(walrow.errors.DecodeError):
                table(data, session={"DateStyle": claimed}, unrepresentable="null")


@pytest.mark.parametrize("zone", ["Asia/Riyadh", "<+0530>-05:30", "America/Caracas"])
@pytest.mark.parametrize("style", ["SQL, DMY", "German", "Postgres, MDY"])
def test_an_offset_in_digits_is_read(streams: Streams, style: str, zone: str) -> None:
    columns = ["id", "z"]
    # For early years, the zone's time has a name: LMT.
    pinned = table(streams.record("moments"), unrepresentable="null").select(columns)
    data = streams.record("moments", datestyle=style, timezone=zone)
    session = {"datestyle": style, "TimeZone": zone}
    options = {"session": session, "unrepresentable": "null"}
    if zone.startswith("<"):
        assert table(data, **options).select(columns).equals(pinned)
        return
    with pytest.raises(walrow.errors.DecodeError, match="an offset in digits"):
        table(data, **options)


def test_zone_names_that_look_like_offsets_are_refused(streams: Streams) -> None:
    # The meaning of `UTC` is only known with `TimeZone`.
    for zone, settings in [("UTC", {}), ("UTC+3", {"TimeZone": "UTC+3"})]:
        data = streams.record("moments", datestyle="SQL", timezone=zone)
        with pytest.raises(walrow.errors.DecodeError, match="TimeZone"):
            table(
                data,
                session={"DateStyle": "SQL, MDY", **settings},
                unrepresentable="null",
            )


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


@pytest.mark.parametrize("style", ["postgres_verbose", "sql_standard", "iso_8601"])
@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
def test_intervals_are_read_in_the_style_of_the_session(
    streams: Streams, style: str, profile: str
) -> None:
    options = {"profile": profile, "unrepresentable": "null"}
    pinned = table(streams.record("spans"), **options)
    data = streams.record("spans", intervalstyle=style)
    session = {} if style == "iso_8601" else {"IntervalStyle": style}
    assert table(data, session=session, **options).equals(pinned)
    if style != "iso_8601":
        with pytest.raises(
            walrow.errors.DecodeError, match="for another one, use the option session"
        ):
            table(data, **options)


@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
def test_all_settings_together_in_user_defined_types(
    streams: Streams, profile: str
) -> None:
    with psycopg.connect(streams.server.dsn) as connection:
        catalog = walrow.postgres.catalog(connection)
    options = {"profile": profile, "unrepresentable": "null", "catalog": catalog}
    pinned = table(streams.record("mixed"), **options)
    assert pinned["r"].null_count < len(pinned)
    session = {"datestyle": "German, DMY", "intervalstyle": "sql_standard"}
    data = streams.record(
        "mixed",
        datestyle=session["datestyle"],
        intervalstyle=session["intervalstyle"],
        bytea_output="escape",
    )
    assert table(data, session=session, **options).equals(pinned)
    assert table(streams.record("mixed", binary=True), **options).equals(pinned)


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


@pytest.fixture(scope="module", params=[14, 18])
def documents(request: pytest.FixtureRequest) -> Iterator[Streams]:
    """A LATIN1 database on servers that the wheels lack: with xml, and of version 14."""
    with NpmServer(request.param) as server:
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


@pytest.mark.parametrize(
    ("session", "text"),
    [
        ({"DateStyle": "Klingon"}, "DateStyle"),
        ({"DateStyle": "MDY"}, "DateStyle"),
        ({"IntervalStyle": "x"}, "sql_standard"),
        ({"client_encoding": "EUC_JP"}, "LATIN1"),
        ({"work_mem": "4MB"}, "does not affect values"),
    ],
)
def test_settings_that_say_nothing_are_refused(
    session: dict[str, str], text: str
) -> None:
    with pytest.raises(walrow.errors.OptionError, match=text):
        walrow.Decoder(session=session)


def test_pinned_settings_are_a_session_too(streams: Streams) -> None:
    data = streams.record("moments")
    session = {**recording.PINNED_SETTINGS, "client_encoding": "UTF8"}
    options = {"unrepresentable": "null"}
    assert table(data, session=session, **options).equals(table(data, **options))
