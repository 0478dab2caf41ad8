"""The SQL of the event trigger, where a role with fewer privileges has made something first."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from servers import EmbeddedServer
from walrow._postgres.ddl_trigger import TRIGGERS
from walrow.postgres import ddl_trigger

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

MAKE, REMOVE = ddl_trigger(), ddl_trigger(drop=True)

EMPTY = "RETURNS event_trigger LANGUAGE plpgsql AS 'begin end'"
#: Whoever runs it with enough privileges makes mallory a superuser.
TAKEN = "begin if current_user <> 'mallory' then alter role mallory superuser; end if; "


class Database:
    """A database where the role mallory may create objects."""

    def __init__(self, server: EmbeddedServer, name: str) -> None:
        self.server = server
        self.name = name

    def run(self, *statements: str, role: str = "postgres") -> list[Any]:
        """Runs statements as a role. Returns the rows of the last one."""
        dsn = f"{self.server.dsn_of(self.name)} user={role}"
        with psycopg.connect(dsn, autocommit=True) as connection:
            cursor = connection.cursor()
            for statement in statements:
                cursor.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def objects(self) -> list[Any]:
        """All that the SQL makes or may find, with owners and definitions."""
        return self.run(OBJECTS)

    def is_taken(self) -> bool:
        ((found,),) = self.run(
            "SELECT rolsuper FROM pg_roles WHERE rolname = 'mallory'"
        )
        return bool(found)


OBJECTS = """
SELECT 'schema', oid::int8, nspowner::regrole::text, obj_description(oid, 'pg_namespace'), nspacl::text
FROM pg_namespace WHERE nspname = 'walrow'
UNION ALL
SELECT p.proname, p.oid::int8, proowner::regrole::text, obj_description(p.oid, 'pg_proc'),
    pg_get_functiondef(p.oid)
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE nspname = 'walrow'
UNION ALL
SELECT evtname, oid::int8, evtowner::regrole::text, obj_description(oid, 'pg_event_trigger'),
    concat_ws(chr(32), evtevent, evtenabled, evtfoid::regproc)
FROM pg_event_trigger
ORDER BY 1, 2
"""


@pytest.fixture
def database(server: EmbeddedServer) -> Iterator[Database]:
    with server.database("ddl") as name:
        found = Database(server, name)
        found.run(
            "CREATE ROLE mallory LOGIN",
            "CREATE ROLE alice LOGIN SUPERUSER",
            f"GRANT CREATE ON DATABASE {name} TO mallory",
            "GRANT CREATE ON SCHEMA public TO mallory",
        )
        try:
            yield found
        finally:
            found.run(
                *(f"DROP EVENT TRIGGER IF EXISTS {name}" for name in TRIGGERS),
                "DROP OWNED BY mallory CASCADE",
                "DROP OWNED BY alice CASCADE",
                "DROP ROLE mallory",
                "DROP ROLE alice",
            )


@pytest.mark.parametrize(
    ("before", "by_mallory", "named"),
    [
        ([], ["CREATE SCHEMA walrow"], "schema walrow of role mallory"),
        (
            [],
            ["CREATE SCHEMA walrow", f"CREATE FUNCTION walrow.emit_ddl() {EMPTY}"],
            r"function walrow\.emit_ddl\(\) of role mallory",
        ),
        (
            [MAKE, REMOVE.replace("DROP SCHEMA IF EXISTS walrow", "NULL")],
            [f"CREATE FUNCTION walrow.emit_drop() {EMPTY}"],
            r"touch it: function walrow\.emit_drop\(\) of role mallory",
        ),
        (
            [MAKE],
            ["CREATE FUNCTION walrow.more() RETURNS int LANGUAGE sql AS 'SELECT 1'"],
            "other roles may create objects in the schema walrow",
        ),
        (
            ["CREATE SCHEMA walrow"],
            [],
            "walrow did not make this for postgres.*: schema walrow of role postgres",
        ),
        (
            [MAKE, "COMMENT ON FUNCTION walrow.emit_ddl() IS NULL"],
            [],
            r"touch it: function walrow\.emit_ddl\(\) of role postgres",
        ),
        (
            [MAKE, "COMMENT ON EVENT TRIGGER walrow_drop IS 'mine'"],
            [],
            "touch it: event trigger walrow_drop of role postgres",
        ),
        (
            [MAKE, "ALTER FUNCTION walrow.emit_ddl() OWNER TO alice"],
            [],
            r"touch it: function walrow\.emit_ddl\(\) of role alice",
        ),
    ],
    ids=["schema", "both", "function", "grant", "no mark", "lost mark", "own", "alice"],
)
def test_what_another_made_is_refused(
    database: Database, before: list[str], by_mallory: list[str], named: str
) -> None:
    database.run(*before)
    if before and by_mallory:
        database.run("GRANT ALL ON SCHEMA walrow TO mallory")
    if by_mallory:
        database.run(*by_mallory, role="mallory")
    found = database.objects()
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match=named):
        database.run(MAKE)
    if "other roles" not in named:
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match=named):
            database.run(REMOVE)
    assert database.objects() == found


def shadows() -> list[str]:
    """Objects in public that fit what the SQL calls, better than those of the server."""
    made = [
        *(f"CREATE DOMAIN public.{name} AS bytea" for name in ("text", "int8", "oid")),
        "CREATE DOMAIN public.event_trigger AS bytea",
        *(
            f"CREATE TABLE public.{name} (oid int)"
            for name in ("pg_namespace", "pg_proc", "pg_event_trigger", "pg_class")
        ),
    ]
    for signature, returned in {
        "set_config(pg_catalog.text, pg_catalog.text, boolean)": "pg_catalog.text",
        "current_setting(pg_catalog.text)": "pg_catalog.text",
        "quote_ident(pg_catalog.name)": "pg_catalog.text",
        "pg_get_userbyid(pg_catalog.oid)": "pg_catalog.name",
        "obj_description(pg_catalog.oid, pg_catalog.text)": "pg_catalog.text",
        "pg_logical_emit_message(boolean, pg_catalog.text, pg_catalog.text)": "pg_lsn",
        "starts_with(pg_catalog.name, pg_catalog.name)": "boolean",
        "same(pg_catalog.name, pg_catalog.name)": "boolean",
        "joined(pg_catalog.text, pg_catalog.name)": "pg_catalog.text",
    }.items():
        body = f"$body${TAKEN} return null; end$body$"
        made.append(
            f"CREATE FUNCTION public.{signature} RETURNS {returned}"
            f" LANGUAGE plpgsql AS {body}"
        )
    return [
        *made,
        *(
            f"CREATE OPERATOR public.{name} (FUNCTION = public.same,"
            " LEFTARG = pg_catalog.name, RIGHTARG = pg_catalog.name)"
            for name in ("=", "<>")
        ),
        "CREATE OPERATOR public.|| (FUNCTION = public.joined,"
        " LEFTARG = pg_catalog.text, RIGHTARG = pg_catalog.name)",
        f"CREATE FUNCTION public.emit_ddl() RETURNS pg_catalog.event_trigger"
        f" LANGUAGE plpgsql AS $body${TAKEN} end$body$",
    ]


@pytest.mark.parametrize("path", ['"$user", public', "public, pg_catalog"])
def test_names_of_other_schemas_are_not_found(database: Database, path: str) -> None:
    database.run(*shadows(), role="mallory")
    chosen = f"SET search_path = {path}"
    database.run(chosen, MAKE, MAKE)
    assert not database.is_taken()
    change = "CREATE TABLE public.t (id int); ALTER TABLE public.t ADD x int; DROP TABLE public.t"
    database.run(chosen, change)
    database.run(chosen, change, role="mallory")
    assert not database.is_taken()
    database.run(chosen, REMOVE)
    assert not database.is_taken()
    assert database.objects() == []


def test_it_gives_others_nothing(database: Database) -> None:
    database.run(MAKE)
    found = database.objects()
    functions = ["described", "emit_ddl", "emit_drop"]
    assert [it[0] for it in found] == [*functions, "schema", *TRIGGERS]
    assert {it[2] for it in found} == {"postgres"}
    for statement in (
        f"CREATE OR REPLACE FUNCTION walrow.emit_ddl() {EMPTY}",
        f"CREATE FUNCTION walrow.more() {EMPTY}",
        "ALTER FUNCTION walrow.emit_drop() RESET search_path",
        "DROP SCHEMA walrow CASCADE",
        "DROP EVENT TRIGGER walrow_ddl",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            database.run(statement, role="mallory")
    for sql in (MAKE, REMOVE):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            database.run(sql, role="mallory")
    assert database.objects() == found


def test_run_again_it_changes_nothing(database: Database) -> None:
    with psycopg.connect(database.server.dsn_of(database.name)) as connection:
        connection.execute("SET search_path = public, pg_temp")
        connection.execute(MAKE.encode())
        ((path,),) = connection.execute("SHOW search_path").fetchall()
    assert path == "public, pg_temp"
    database.run("ALTER EVENT TRIGGER walrow_drop DISABLE")
    found = database.objects()
    database.run(MAKE, MAKE)
    assert database.objects() == found
    for sql in (MAKE, REMOVE):
        with pytest.raises(psycopg.errors.InsufficientPrivilege, match="for alice"):
            database.run(sql, role="alice")
    database.run("CREATE TABLE walrow.mine (id int)")
    database.run(REMOVE, REMOVE)
    assert [it[0] for it in database.objects()] == ["schema"]
    assert database.run("SELECT FROM walrow.mine") == []
    database.run("DROP TABLE walrow.mine", REMOVE, REMOVE)
    assert database.objects() == []


def test_psql_runs_it(database: Database) -> None:
    psql = database.server.bin / "psql"
    if not psql.exists():
        pytest.skip("this server has no psql")
    command = [str(psql), "-X", "-q", "-d", database.server.dsn_of(database.name)]
    for sql, names in (MAKE, 8), (MAKE, 8), (REMOVE, 0), (REMOVE, 0):
        done = subprocess.run(  # noqa: S603
            command, input=sql, capture_output=True, text=True, check=True
        )
        assert "ERROR" not in done.stderr
        assert len(database.objects()) == names
