"""A server's catalog, and captures decoded with it."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from psycopg import pq
from psycopg.rows import dict_row

import walrow
import walrow.postgres
from reference import messages
from reference.reader import Relation
from servers import EmbeddedServer, FetchedServer, record
from servers.receiving import run_walrow
from walrow._postgres.published import PublishedTable, published_tables

# The first run downloads the server.
pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]


@dataclass
class Database:
    """A separate database, because publications belong to one database."""

    server: EmbeddedServer
    name: str

    @property
    def dsn(self) -> str:
        return self.server.dsn_of(self.name)

    def run(self, *statements: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as conn:
            for statement in statements:
                conn.execute(statement.encode())

    def catalog(self, **options: Any) -> walrow.Catalog:
        with psycopg.connect(self.dsn) as conn:
            return walrow.postgres.catalog(conn, **options)

    def record(self, workload: str, publication: str, **options: Any) -> bytes:
        return record(
            self.server,
            partial(self.run, workload),
            database=self.name,
            publication=publication,
            **options,
        )

    def names(self) -> dict[int, str]:
        """Every type of the database by its OID."""
        with psycopg.connect(self.dsn) as conn:
            rows = conn.execute(
                "SELECT t.oid::bigint, CASE WHEN t.oid < 10000 THEN '' ELSE nspname || '.' END"
                " || typname FROM pg_type t JOIN pg_namespace n ON n.oid = typnamespace"
            )
            return dict(rows.fetchall())


@pytest.fixture
def database(server: EmbeddedServer) -> Iterator[Database]:
    with server.database("catalog") as name:
        yield Database(server, name)


def test_names_are_quoted_only_if_needed(database: Database) -> None:
    """Whatever the server's settings are: what is read is compared with what was."""
    database.run(
        'CREATE TABLE t (id serial PRIMARY KEY, "odd one" text DEFAULT now()::text)',
        "CREATE PUBLICATION p FOR TABLE t",
    )

    def read(setting: str) -> tuple[str, list[PublishedTable]]:
        options = f"-c quote_all_identifiers={setting}"
        with psycopg.connect(database.dsn, options=options) as conn:
            catalog = walrow.postgres.catalog(conn, publications="p")
            return catalog.to_json(), published_tables(conn, ["p"])

    catalog, (table,) = read("off")
    assert "nextval('public.t_id_seq'::regclass)" in catalog
    assert [it.quoted for it in table.columns] == ["id", '"odd one"']
    assert read("on") == (catalog, [table])


KINDS = r"""
CREATE SCHEMA kinds;
CREATE SCHEMA "odd ""schema";
CREATE TYPE kinds.mood AS ENUM ('sad', 'very happy');
ALTER TYPE kinds.mood ADD VALUE 'ok' BEFORE 'very happy';
CREATE DOMAIN price AS numeric(6,2);
CREATE DOMAIN final_price AS price CHECK (VALUE > 0);
CREATE DOMAIN scores AS numeric(5,1)[];
CREATE DOMAIN feeling AS kinds.mood;
CREATE TYPE pair AS (n int, label varchar(20));
CREATE TYPE nest AS (id int, gone text, pairs pair[], one pair, mood kinds.mood, cost numeric(8,3));
ALTER TYPE nest DROP ATTRIBUTE gone;
CREATE TYPE nothing AS ();
CREATE TYPE kinds.moods AS RANGE (subtype = kinds.mood, multirange_type_name = kinds.many_moods);
CREATE TYPE prices AS RANGE (subtype = price);
CREATE TYPE "odd ""schema"."it's, {a} \ ""odd"" type" AS ENUM ('', 'a,"b"\', E'tab\there', 'é');
CREATE DOMAIN kinds.yes AS information_schema.yes_or_no;
"""

#: Written by hand, with names in place of OIDs. Every type also has an array type.
KIND_TYPES: dict[str, dict[str, Any]] = {
    "kinds.mood": {"kind": "enum", "labels": ["sad", "ok", "very happy"]},
    "public.price": {
        "kind": "domain",
        "base": "numeric",
        "type_modifier": (6 << 16 | 2) + 4,
    },
    "public.final_price": {
        "kind": "domain",
        "base": "public.price",
        "type_modifier": -1,
    },
    "public.scores": {
        "kind": "domain",
        "base": "_numeric",
        "type_modifier": (5 << 16 | 1) + 4,
    },
    "public.feeling": {"kind": "domain", "base": "kinds.mood", "type_modifier": -1},
    "public.pair": {
        "kind": "composite",
        "attributes": [
            {"name": "n", "type": "int4", "type_modifier": -1},
            {"name": "label", "type": "varchar", "type_modifier": 24},
        ],
    },
    "public.nest": {
        "kind": "composite",
        "attributes": [
            {"name": "id", "type": "int4", "type_modifier": -1},
            {"name": "pairs", "type": "public._pair", "type_modifier": -1},
            {"name": "one", "type": "public.pair", "type_modifier": -1},
            {"name": "mood", "type": "kinds.mood", "type_modifier": -1},
            {"name": "cost", "type": "numeric", "type_modifier": (8 << 16 | 3) + 4},
        ],
    },
    "public.nothing": {"kind": "composite", "attributes": []},
    "kinds.moods": {"kind": "range", "subtype": "kinds.mood"},
    "kinds.many_moods": {"kind": "multirange", "range": "kinds.moods"},
    "public.prices": {"kind": "range", "subtype": "public.price"},
    "public.prices_multirange": {
        "kind": "multirange",
        "range": "public.prices",
    },
    'odd "schema.it\'s, {a} \\ "odd" type': {
        "kind": "enum",
        "labels": ["", 'a,"b"\\', "tab\there", "é"],
    },
    "kinds.yes": {
        "kind": "domain",
        "base": "information_schema.yes_or_no",
        "type_modifier": -1,
    },
    # initdb makes this type. The catalog has it because a domain is over it.
    "information_schema.yes_or_no": {
        "kind": "domain",
        "base": "varchar",
        "type_modifier": 7,
    },
}


def with_arrays(
    types: dict[str, dict[str, Any]], delimiters: dict[str, str] | None = None
) -> dict[str, dict[str, Any]]:
    """Adds the array type of each type, under the server's name for it."""
    found = dict(types)
    for name in types:
        schema, _, own = name.rpartition(".")
        delimiter = (delimiters or {}).get(own, ",")
        found[f"{schema}._{own}"] = {
            "kind": "array",
            "element": name,
            "delimiter": delimiter,
        }
    return found


def by_name(catalog: walrow.Catalog, names: dict[int, str]) -> dict[str, Any]:
    """The types of a catalog, with names in place of OIDs."""

    def named(value: Any) -> Any:
        if isinstance(value, dict):
            keys = {"base", "element", "range", "subtype", "type"}
            return {
                key: names[each] if key in keys else named(each)
                for key, each in value.items()
            }
        return [named(each) for each in value] if isinstance(value, list) else value

    found = {}
    for entry in json.loads(catalog.to_json()).get("types", []):
        name = f"{entry.pop('schema')}.{entry.pop('name')}"
        assert names[entry.pop("oid")] == name
        found[name] = named(entry)
    return found


def columns(catalog: walrow.Catalog, names: dict[int, str]) -> dict[str, list[str]]:
    """A catalog's tables: name and type of each column, its modifier if any, `key` if it is part of it."""
    return {
        f"{table['schema']}.{table['name']}": [
            " ".join(
                [column["name"], names[column["type"]]]
                + [str(column["type_modifier"])] * (column["type_modifier"] != -1)
                + ["key"] * column["key"]
            )
            for column in table["columns"]
        ]
        for table in json.loads(catalog.to_json()).get("tables", [])
    }


#: What no Relation message contains.
FACTS = {"number", "not_null", "default", "generated"}


def described(catalog: walrow.Catalog) -> list[dict[str, Any]]:
    """A catalog's tables with what Relation messages contain."""
    tables: list[dict[str, Any]] = json.loads(catalog.to_json())["tables"]
    for table in tables:
        del table["primary_key"]
        for column in table["columns"]:
            for fact in FACTS:
                column.pop(fact, None)
    return tables


def test_facts_that_no_relation_contains(database: Database) -> None:
    database.run("""
        CREATE TABLE facts (gone int, b text NOT NULL DEFAULT 'x', a int, c int,
            PRIMARY KEY (c, a) INCLUDE (b));
        ALTER TABLE facts DROP COLUMN gone;
        CREATE PUBLICATION facts FOR TABLE facts;
    """)
    (table,) = json.loads(database.catalog(publications="facts").to_json())["tables"]
    assert table["primary_key"] == ["c", "a"]
    facts = [
        {key: column[key] for key in ("name", *sorted(FACTS)) if key in column}
        for column in table["columns"]
    ]
    assert facts == [
        {
            "name": "b",
            "default": "'x'::text",
            "generated": False,
            "not_null": True,
            "number": 2,
        },
        {"name": "a", "generated": False, "not_null": True, "number": 3},
        {"name": "c", "generated": False, "not_null": True, "number": 4},
    ]


def test_types_of_every_kind(database: Database) -> None:
    database.run(KINDS)
    assert by_name(database.catalog(), database.names()) == with_arrays(KIND_TYPES)


def test_row_types_are_in_the_catalog_if_they_are_used(database: Database) -> None:
    database.run(
        "CREATE TABLE unused (id int)",
        "CREATE TABLE part (n int, gone int, m numeric(3,1))",
        "ALTER TABLE part DROP COLUMN gone",
        "CREATE VIEW shown AS SELECT 1 AS one",
        "CREATE TABLE whole (parts part[], s shown)",
        "CREATE TABLE inner_part (n int)",
        "CREATE TYPE holder AS (part inner_part)",
        "CREATE PUBLICATION p FOR TABLE whole",
    )
    rows = {
        "public.part": {
            "kind": "composite",
            "attributes": [
                {"name": "n", "type": "int4", "type_modifier": -1},
                {"name": "m", "type": "numeric", "type_modifier": (3 << 16 | 1) + 4},
            ],
        },
        "public.shown": {
            "kind": "composite",
            "attributes": [{"name": "one", "type": "int4", "type_modifier": -1}],
        },
    }
    free = {
        "public.inner_part": {
            "kind": "composite",
            "attributes": [{"name": "n", "type": "int4", "type_modifier": -1}],
        },
        "public.holder": {
            "kind": "composite",
            "attributes": [
                {"name": "part", "type": "public.inner_part", "type_modifier": -1}
            ],
        },
    }
    names = database.names()
    assert by_name(database.catalog(), names) == with_arrays(rows | free)
    assert by_name(database.catalog(publications=()), names) == with_arrays(free)


@pytest.mark.parametrize("binary", [False, True])
def test_row_types_of_system_catalogs(database: Database, *, binary: bool) -> None:
    """The OIDs of system catalogs are fixed. The catalog has no other types below 10,000."""
    database.run(
        "CREATE TABLE kept (id int PRIMARY KEY, one pg_am, more pg_am[])",
        "CREATE PUBLICATION p FOR TABLE kept",
    )
    catalog = database.catalog()
    found = {entry["name"] for entry in json.loads(catalog.to_json())["types"]}
    assert found == {"pg_am", "_pg_am"}
    insert = "INSERT INTO kept SELECT 1, a, ARRAY[a] FROM pg_am a WHERE amname = 'gin'"
    data = database.record(insert, "p", binary=binary)
    [row] = pa.table(walrow.read(data, table="kept", catalog=catalog)).to_pylist()
    assert (row["one"]["oid"], row["one"]["amname"]) == (2742, "gin")
    assert row["more"] == [row["one"]]


def test_types_of_extensions(database: Database) -> None:
    if not isinstance(database.server, FetchedServer):
        pytest.skip("the wheel has none of contrib: make test-all")
    extensions = ["hstore", "citext", "ltree", "cube", "isn", "seg"]
    database.run(
        "CREATE SCHEMA ext",
        *(f"CREATE EXTENSION {name} SCHEMA ext" for name in extensions),
    )
    bases = [
        "hstore",
        "ghstore",
        "citext",
        "ltree",
        "lquery",
        "ltxtquery",
        "ltree_gist",
    ]
    bases += ["cube", "seg"]
    bases += ["ean13", "isbn13", "ismn13", "issn13", "isbn", "ismn", "issn", "upc"]
    found = by_name(database.catalog(), database.names())
    assert found == with_arrays({f"ext.{name}": {"kind": "base"} for name in bases})


def test_array_has_its_elements_delimiter(database: Database) -> None:
    # A user-defined type that is a box under another name.
    database.run(
        "CREATE TYPE frame",
        "CREATE FUNCTION frame_in(cstring) RETURNS frame"
        " LANGUAGE internal IMMUTABLE STRICT AS 'box_in'",
        "CREATE FUNCTION frame_out(frame) RETURNS cstring"
        " LANGUAGE internal IMMUTABLE STRICT AS 'box_out'",
        # It has elements, like box, but it is not an array.
        "CREATE TYPE frame (INPUT = frame_in, OUTPUT = frame_out, INTERNALLENGTH = 32,"
        " ALIGNMENT = double, DELIMITER = ';', ELEMENT = point)",
        # Not yet defined, so no column can have it.
        "CREATE TYPE shell",
    )
    found = by_name(database.catalog(), database.names())
    assert found == with_arrays({"public.frame": {"kind": "base"}}, {"frame": ";"})


TABLES = """
CREATE TABLE "A ""quoted"" table" ("a b" int, "c""d" varchar(5), PRIMARY KEY ("a b"));
CREATE TABLE keyless (id int, at timestamptz(3));
CREATE TABLE "full" (id int PRIMARY KEY, gone int, n numeric(6,2));
ALTER TABLE "full" DROP COLUMN gone;
ALTER TABLE "full" REPLICA IDENTITY FULL;
CREATE TABLE nothing (id int PRIMARY KEY);
ALTER TABLE nothing REPLICA IDENTITY NOTHING;
CREATE TABLE by_index (id int PRIMARY KEY, a int NOT NULL, b int NOT NULL, c int);
CREATE UNIQUE INDEX by_index_ba ON by_index (b, a);
ALTER TABLE by_index REPLICA IDENTITY USING INDEX by_index_ba;
CREATE TABLE lost_index (id int PRIMARY KEY, a int NOT NULL);
CREATE UNIQUE INDEX lost_index_a ON lost_index (a);
ALTER TABLE lost_index REPLICA IDENTITY USING INDEX lost_index_a;
DROP INDEX lost_index_a;
CREATE TABLE deferrable_key (id int PRIMARY KEY DEFERRABLE, a int);
CREATE TABLE covering (id int, a int, PRIMARY KEY (id) INCLUDE (a));
CREATE TABLE made (id int PRIMARY KEY, n int, twice int GENERATED ALWAYS AS (n * 2) STORED);
CREATE PUBLICATION p FOR TABLE "A ""quoted"" table", keyless, "full", nothing, by_index, lost_index,
    deferrable_key, covering, made WITH (publish = 'insert');
"""

TABLE_ROWS = """
INSERT INTO "A ""quoted"" table" VALUES (1);
INSERT INTO keyless VALUES (1);
INSERT INTO "full" VALUES (1);
INSERT INTO nothing VALUES (1);
INSERT INTO by_index VALUES (1, 1, 1);
INSERT INTO lost_index VALUES (1, 1);
INSERT INTO deferrable_key VALUES (1);
INSERT INTO covering VALUES (1);
INSERT INTO made VALUES (1);
"""


def relations(data: bytes) -> list[dict[str, Any]]:
    """The tables, as Relation messages describe them."""
    found = [message for _, message in messages(data) if isinstance(message, Relation)]
    return [
        {
            "schema": each.schema,
            "name": each.name,
            "oid": each.oid,
            "columns": [
                {
                    "name": column.name,
                    "type": column.type_oid,
                    "type_modifier": column.typmod,
                    "key": column.key,
                }
                for column in each.columns
            ],
        }
        for each in sorted(found, key=lambda each: each.oid)
    ]


def test_tables_agree_with_the_stream(database: Database) -> None:
    database.run(TABLES)
    catalog = database.catalog(publications="p")
    assert columns(catalog, database.names()) == {
        'public.A "quoted" table': ["a b int4 key", 'c"d varchar 9'],
        "public.keyless": ["id int4", "at timestamptz 3"],
        "public.full": ["id int4 key", f"n numeric {(6 << 16 | 2) + 4} key"],
        "public.nothing": ["id int4"],
        "public.by_index": ["id int4", "a int4 key", "b int4 key", "c int4"],
        "public.lost_index": ["id int4", "a int4"],
        "public.deferrable_key": ["id int4", "a int4"],
        "public.covering": ["id int4 key", "a int4"],
        "public.made": ["id int4 key", "n int4"],
    }
    data = database.record(TABLE_ROWS, "p")
    assert described(catalog) == relations(data)


def test_column_lists_and_row_filters(database: Database) -> None:
    if database.server.major < 15:
        pytest.skip("version 14 has no column lists")
    database.run(
        "CREATE TABLE listed (id int PRIMARY KEY, hidden text, a text, b numeric)",
        "CREATE SCHEMA whole",
        "CREATE TABLE whole.t (id int PRIMARY KEY, a text)",
        "CREATE PUBLICATION p FOR TABLE listed (b, id) WHERE (id > 0)",
        "CREATE PUBLICATION q FOR TABLE listed (id, a)",
        "CREATE PUBLICATION s FOR TABLES IN SCHEMA whole",
    )
    names = database.names()
    listed = {"public.listed": ["id int4 key", "b numeric"]}
    whole = {"whole.t": ["id int4 key", "a text"]}
    both = {"public.listed": ["id int4 key", "a text", "b numeric"]}
    assert columns(database.catalog(publications="p"), names) == listed
    assert columns(database.catalog(publications=["s", "p"]), names) == listed | whole
    assert columns(database.catalog(), names) == both | whole
    assert columns(database.catalog(publications=()), names) == {}
    data = database.record("INSERT INTO listed VALUES (1)", "p")
    catalog = database.catalog(publications="p")
    assert described(catalog) == relations(data)


def test_generated_columns_that_are_published(database: Database) -> None:
    if database.server.major < 18:
        pytest.skip("before version 18 none is")
    database.run(
        "CREATE TABLE made (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED,"
        " late int GENERATED ALWAYS AS (id * 3) VIRTUAL)",
        "CREATE PUBLICATION p FOR TABLE made WITH (publish_generated_columns = stored)",
        "CREATE PUBLICATION n FOR TABLE made",
    )
    names = database.names()
    catalog = database.catalog(publications="p")
    assert columns(catalog, names) == {"public.made": ["id int4 key", "twice int4"]}
    data = database.record("INSERT INTO made VALUES (1)", "p")
    assert described(catalog) == relations(data)
    none = columns(database.catalog(publications="n"), names)
    assert none == {"public.made": ["id int4 key"]}


def test_partitions_are_their_root_or_themselves(database: Database) -> None:
    database.run(
        "CREATE TABLE leaf (at date NOT NULL, id int NOT NULL, PRIMARY KEY (id, at))",
        "CREATE TABLE root (id int, at date, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
        "ALTER TABLE root ATTACH PARTITION leaf DEFAULT",
        "CREATE PUBLICATION via_root FOR TABLE root WITH (publish_via_partition_root)",
        "CREATE PUBLICATION leaves FOR TABLE root",
    )
    names = database.names()
    root = {"public.root": ["id int4 key", "at date key"]}
    leaf = {"public.leaf": ["at date key", "id int4 key"]}
    for publication, expected in (("via_root", root), ("leaves", leaf)):
        catalog = database.catalog(publications=publication)
        assert columns(catalog, names) == expected
        data = database.record("INSERT INTO root VALUES (1, '2024-01-01')", publication)
        tables = described(catalog)
        assert [each for each in relations(data) if each in tables] == tables
        database.run("DELETE FROM root")
    assert columns(database.catalog(), names) == root | leaf


def test_unknown_publications_are_named(database: Database) -> None:
    database.run("CREATE PUBLICATION p")
    asked = ["p", "it's \\ %s", 'other "one"']
    with pytest.raises(walrow.errors.OptionError) as caught:
        database.catalog(publications=asked)
    assert str(caught.value) == (
        'no publication it\'s \\ %s, other "one" in this database'
    )
    assert database.catalog(publications="p").tables() == []


def connections(database: Database) -> Iterator[psycopg.Connection[Any]]:
    connect = partial(psycopg.connect, database.dsn)
    yield connect()
    yield connect(autocommit=True)
    yield connect(row_factory=dict_row, cursor_factory=psycopg.RawCursor)
    yield connect(replication="database")
    yield connect(replication="database", autocommit=True)
    yield connect(client_encoding="LATIN1")
    # walrow must not call functions of schemas that come before pg_catalog.
    yield connect(options="-c search_path=mine,pg_catalog -c bytea_output=escape")


def test_any_connection_is_accepted_and_left_unchanged(database: Database) -> None:
    database.run(
        KINDS,
        "CREATE TABLE item (id int PRIMARY KEY, mood kinds.mood)",
        "CREATE PUBLICATION p FOR TABLE item",
        "CREATE SCHEMA mine",
        "CREATE TABLE mine.pg_type (oid int)",
        "CREATE FUNCTION mine.current_setting(text) RETURNS text LANGUAGE sql AS 'SELECT 1/0'",
    )
    expected = database.catalog()
    assert expected.tables() == [("public", "item")]
    read = walrow.postgres.catalog
    idle, open_ = pq.TransactionStatus.IDLE, pq.TransactionStatus.INTRANS
    seen = 0
    for conn in connections(database):
        with conn:
            path = conn.pgconn.exec_(b"SHOW search_path").get_value(0, 0)
            for _ in range(7):
                assert read(conn, publications=["p"]) == expected
                assert conn.info.transaction_status == idle
            with pytest.raises(walrow.errors.OptionError):
                read(conn, publications="none")
            assert conn.info.transaction_status == idle
            with conn.transaction():
                conn.pgconn.exec_(b"CREATE TABLE kept (n int)")
                assert read(conn) == expected
                with pytest.raises(walrow.errors.OptionError):
                    read(conn, publications="none")
                assert conn.info.transaction_status == open_
                assert conn.pgconn.exec_(b"SHOW search_path").get_value(0, 0) == path
                conn.pgconn.exec_(b"DROP TABLE kept")
            assert conn.info.transaction_status == idle
            assert conn.pgconn.exec_(b"SHOW search_path").get_value(0, 0) == path
            seen += 1
    assert seen == 7


def test_a_failed_transaction_of_the_caller_stays_failed(database: Database) -> None:
    with psycopg.connect(database.dsn) as conn:
        with pytest.raises(psycopg.errors.DivisionByZero):
            conn.execute("SELECT 1/0")
        with pytest.raises(psycopg.errors.InFailedSqlTransaction):
            walrow.postgres.catalog(conn)
        assert conn.info.transaction_status == pq.TransactionStatus.INERROR


def test_a_connection_in_pipeline_mode_is_refused(database: Database) -> None:
    with psycopg.connect(database.dsn) as conn, conn.pipeline():
        for ask in (walrow.postgres.catalog, walrow.postgres.check_settings):
            with pytest.raises(walrow.errors.OptionError, match="pipeline"):
                ask(conn)


@pytest.fixture
def ascii_only(server: EmbeddedServer) -> Iterator[str]:
    with server.database("catalog", "ENCODING 'SQL_ASCII'") as name:
        yield server.dsn_of(name)


def test_name_that_is_no_text_is_printed(ascii_only: str) -> None:
    with psycopg.connect(ascii_only, client_encoding="SQL_ASCII") as conn:
        conn.execute("CREATE TYPE étage AS ENUM ('é')".encode())
        assert '"étage"' in walrow.postgres.catalog(conn).to_json()
        conn.execute("CREATE TYPE etage AS ENUM ('é')".encode("latin-1"))
        found = walrow.postgres.catalog(conn).to_json()
        assert '"labels":["\'<e9>\'"]' in found
        assert '"étage"' in found
        options = walrow.postgres.options(server_encoding="SQL_ASCII")
    with psycopg.connect(ascii_only, options=options) as conn:
        walrow.postgres.check_settings(conn)
    with psycopg.connect(ascii_only, options=walrow.postgres.options()) as conn:
        with pytest.raises(walrow.errors.SettingError) as caught:
            walrow.postgres.check_settings(conn)
        assert caught.value.setting == "client_encoding"
        assert caught.value.wanted == "SQL_ASCII"


SETTINGS = {
    "DateStyle": ("SQL", "SQL, MDY", "ISO"),
    "IntervalStyle": ("iso_8601", "iso_8601", "postgres"),
    "extra_float_digits": ("0", "0", "3"),
    "bytea_output": ("escape", "escape", "hex"),
    "TimeZone": ("Asia/Kolkata", "Asia/Kolkata", "UTC"),
    "client_encoding": ("LATIN1", "LATIN1", "UTF8"),
    "quote_all_identifiers": ("on", "on", "off"),
    "search_path": ("public", "public", ""),
}


@pytest.mark.parametrize("replication", [None, "database"])
def test_settings_are_pinned_and_checked(
    database: Database, replication: str | None
) -> None:
    assert list(walrow.postgres.settings()) == list(SETTINGS)
    # A database's settings apply to every session that does not set them itself.
    database.run(
        *(
            f"ALTER DATABASE {database.name} SET {name} = '{value}'"
            for name, (value, _, _) in SETTINGS.items()
        )
    )
    connect = partial(psycopg.connect, database.dsn, replication=replication)
    with connect() as conn, pytest.raises(walrow.errors.SettingError):
        walrow.postgres.check_settings(conn)
    with connect(options=walrow.postgres.options()) as conn:
        walrow.postgres.check_settings(conn)
        assert conn.info.transaction_status == pq.TransactionStatus.IDLE
        shown = {
            name: conn.pgconn.exec_(f"SHOW {name}".encode()).get_value(0, 0)
            for name in SETTINGS
        }
        # The order of day and month comes from the database. With ISO, it only matters for input.
        assert shown.pop("DateStyle") == b"ISO, MDY"
        wanted = {name: each[2].encode() for name, each in SETTINGS.items()}
        assert shown == {name: wanted[name] for name in shown}
        for name, (value, found, _) in SETTINGS.items():
            conn.pgconn.exec_(f"SET {name} = '{value}'".encode())
            with pytest.raises(walrow.errors.SettingError) as caught:
                walrow.postgres.check_settings(conn)
            error = caught.value
            assert (error.setting, error.value) == (name, found)
            assert error.wanted == wanted[name].decode()
            assert f"{name} is '{found}'" in str(error)
            conn.pgconn.exec_(f"SET {name} = '{error.wanted}'".encode())
        # The server shows an empty path as an empty name in quotes.
        assert conn.pgconn.exec_(b"SHOW search_path").get_value(0, 0) == b'""'
        walrow.postgres.check_settings(conn)


def test_settings_from_the_environment_are_detected(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGTZ", "Asia/Kolkata")
    with (
        psycopg.connect(database.dsn, options=walrow.postgres.options()) as conn,
        pytest.raises(walrow.errors.SettingError, match="TimeZone is 'Asia/Kolkata'"),
    ):
        walrow.postgres.check_settings(conn)


OWN = r"""
CREATE TABLE own (id int PRIMARY KEY, mood kinds.mood, moods kinds.mood[], feeling feeling, price price,
    final_price final_price, prices price[], scores scores, pair pair, nest nest[], yes kinds.yes,
    odd "odd ""schema"."it's, {a} \ ""odd"" type", range prices);
CREATE PUBLICATION p FOR TABLE own;
"""

OWN_ROWS = r"""
INSERT INTO own VALUES
    (1, 'ok', '{sad,NULL,"very happy"}', 'sad', 12.3, 1234.56, '{1.00,NULL,-0.01}', '{0.5,12.0}', '(1,a)',
        '{"(1,{},,ok,1.000)"}', 'YES', 'a,"b"\', '[1.00,2.50)'),
    (2, 'very happy', '{}', NULL, -9999.99, 0.01, '{}', '{}', NULL, NULL, 'NO', '', 'empty');
"""

#: The values of most columns, written by hand.
OWN_VALUES = [
    {
        "id": 1,
        "mood": "ok",
        "moods": ["sad", None, "very happy"],
        "feeling": "sad",
        "price": Decimal("12.30"),
        "final_price": Decimal("1234.56"),
        "prices": [Decimal("1.00"), None, Decimal("-0.01")],
        "scores": [Decimal("0.5"), Decimal("12.0")],
        "yes": "YES",
        "odd": 'a,"b"\\',
    },
    {
        "id": 2,
        "mood": "very happy",
        "moods": [],
        "feeling": None,
        "price": Decimal("-9999.99"),
        "final_price": Decimal("0.01"),
        "prices": [],
        "scores": [],
        "yes": "NO",
        "odd": "",
    },
]


@pytest.fixture
def own(database: Database) -> tuple[bytes, walrow.Catalog]:
    """A capture with a column of every kind, and the catalog of its database."""
    database.run(KINDS, OWN)
    data = database.record(OWN_ROWS, "p")
    return data, database.catalog(publications="p")


def values(reader: walrow.Reader) -> list[dict[str, Any]]:
    pa = pytest.importorskip("pyarrow")
    rows = pa.table(reader).select(list(OWN_VALUES[0])).to_pylist()
    assert isinstance(rows, list)
    return rows


def test_catalog_leaves_no_type_unresolved(own: tuple[bytes, walrow.Catalog]) -> None:
    data, catalog = own
    bare = walrow.read(data, table="own")
    assert values(bare) != OWN_VALUES
    assert len(bare.unresolved_types) > 5
    reader = walrow.read(data, table="own", catalog=catalog)
    assert values(reader) == OWN_VALUES
    assert reader.unresolved_types == []


def test_catalog_gives_a_table_its_schema(own: tuple[bytes, walrow.Catalog]) -> None:
    pa = pytest.importorskip("pyarrow")
    data, catalog = own
    for profile in ("arrow", "spark", "text"):
        schema: Any = walrow.schema(catalog, "own", profile=profile)
        batch = next(walrow.read(data, catalog=catalog, profile=profile))
        # The Type message of a domain contains the name of its base type.
        found = pa.schema(batch.schema)
        assert found.names == pa.schema(schema).names
        assert found.types == pa.schema(schema).types


OFFLINE = """
import sys
from pathlib import Path
import walrow
catalog = walrow.Catalog(Path(sys.argv[1]).read_text("utf-8"))
reader = walrow.read(sys.argv[2], table="own", catalog=catalog)
import pyarrow as pa
print(ascii(pa.table(reader).to_pylist()), reader.unresolved_types)
"""

PICKLED = """
import pickle, sys
from pathlib import Path
decode = pickle.loads(Path(sys.argv[1]).read_bytes())
import pyarrow as pa
paths = pa.record_batch({"path": [sys.argv[2]]})
batches = list(decode(iter([paths])))
print(ascii(pa.Table.from_batches(batches).to_pylist()))
"""


def elsewhere(code: str, *arguments: Path) -> str:
    """The output of code in a separate process."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_catalog_beside_a_capture_is_used_offline(
    own: tuple[bytes, walrow.Catalog], tmp_path: Path
) -> None:
    pa = pytest.importorskip("pyarrow")
    data, catalog = own
    capture, saved = tmp_path / "own.wire", tmp_path / "own.catalog.json"
    capture.write_bytes(data)
    saved.write_text(catalog.to_json(), "utf-8")
    rows = pa.table(walrow.read(data, table="own", catalog=catalog)).to_pylist()
    assert len(rows) == 2
    assert elsewhere(OFFLINE, saved, capture) == f"{rows!a} []"


def test_catalog_goes_with_a_task(
    own: tuple[bytes, walrow.Catalog], tmp_path: Path
) -> None:
    pa = pytest.importorskip("pyarrow")
    import walrow.spark

    data, catalog = own
    assert pickle.loads(pickle.dumps(catalog)) == catalog
    capture, task = tmp_path / "own.wire", tmp_path / "task"
    capture.write_bytes(data)
    decode = walrow.spark.decode(table="own", catalog=catalog)
    task.write_bytes(pickle.dumps(decode))
    reader = walrow.read(data, table="own", catalog=catalog, profile="spark")
    rows = pa.table(reader).to_pylist()
    assert rows[0]["price"] == Decimal("12.30")
    assert elsewhere(PICKLED, task, capture) == ascii(rows)


def test_command_line_reads_a_catalog_and_decodes_with_it(
    own: tuple[bytes, walrow.Catalog], database: Database, tmp_path: Path
) -> None:
    data, catalog = own
    capture, saved = tmp_path / "own.wire", tmp_path / "own.catalog.json"
    capture.write_bytes(data)
    done = run_walrow(
        "catalog", "--dsn", database.dsn, "--publication", "p", "-o", saved
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert walrow.Catalog(saved.read_text("utf-8")) == catalog
    done = run_walrow("catalog", "--dsn", database.dsn)
    assert done.stdout == saved.read_text("utf-8")
    done = run_walrow("decode", "--catalog", saved, capture)
    assert done.returncode == 0
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["moods"] for row in rows] == [["sad", None, "very happy"], []]


def test_command_line_says_what_the_server_says(database: Database) -> None:
    done = run_walrow("catalog", "--dsn", database.dsn, "--publication", "none")
    assert done.returncode == 2
    assert done.stderr == "walrow: no publication none in this database\n"
    done = run_walrow("catalog", "--dsn", database.server.dsn_of("no_database"))
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert 'database "no_database" does not exist' in done.stderr
    code = "import sys; sys.modules['psycopg'] = None; import walrow.cli as c; c.main()"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", code, "catalog"],
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == 2
    assert "pip install 'walrow[postgres]'" in done.stderr
