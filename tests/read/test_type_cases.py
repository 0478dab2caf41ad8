"""The type cases agree with a real server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest
from psycopg import pq

import type_cases
import walrow.postgres
from servers import EmbeddedServer
from type_cases import OIDS, SETUP, TYPES, Case, Type

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

SETTINGS = {**walrow.postgres.settings(), "search_path": "own,public"}


#: Server 14 refuses these types, or some of their values, or writes them in another form.
SINCE = dict.fromkeys(('"char"', "interval", "numeric(5,-2)", "numeric(3,5)"), 15)
SINCE |= dict.fromkeys(("oid8", "regdatabase"), 19)


class Database:
    """A database that has the user types and the extensions of the cases."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self.connection = connection
        for statement in ("CREATE SCHEMA own", *SETUP):
            connection.execute(statement.encode())
        self.extensions = {
            name
            for (name,) in connection.execute(
                "SELECT name FROM pg_available_extensions"
            )
        }
        for name in sorted({of.needs for of in TYPES if of.needs} & self.extensions):
            connection.execute(f"CREATE EXTENSION {name}".encode())
        self._oids: dict[int, str] = dict(
            connection.execute(
                "SELECT oid::int8, typname::text FROM pg_type WHERE typnamespace"
                " IN (SELECT oid FROM pg_namespace WHERE nspname IN ('own', 'public'))"
            ).fetchall()
        )

        self._composites = {
            name
            for (name,) in connection.execute(
                "SELECT typname::text FROM pg_type WHERE typtype = 'c'"
            )
        }
        self._version = connection.info.server_version // 10_000

    def has(self, of: Type) -> bool:
        if self._version < SINCE.get(of.name, 0):
            return False
        if of.read_only or of.oid == type_cases.UNKNOWN:
            return False
        if of.needs == "xml":
            return self.ask("xml", "<a/>", {}, pq.Format.TEXT) is not None
        return of.needs is None or of.needs in self.extensions

    def column(self, of: Type) -> tuple[int, int]:
        """The OID and the modifier of a column of this type; for a user type, the OID of the file."""
        self.connection.execute(f"CREATE TEMP TABLE x (v {of.name})".encode())
        row = self.connection.execute(
            "SELECT atttypid::int8, atttypmod FROM pg_attribute"
            " WHERE attrelid = 'x'::regclass AND attname = 'v'"
        ).fetchone() or (0, 0)
        self.connection.execute("DROP TABLE x")
        oid, typmod = int(row[0]), int(row[1])
        return (self._ours().get(oid) or oid), typmod

    def ask(
        self, name: str, sql: str, session: dict[str, str], form: pq.Format
    ) -> bytes | None:
        """The output of the type's output or send function; None if it fails."""
        for setting, chosen in session.items():
            self.connection.execute(
                "SELECT set_config(%s, %s, false)", (setting, chosen)
            )
        query = f"SELECT $v${sql}$v$::{name}"
        found = self.connection.pgconn.exec_params(
            query.encode(), [], result_format=form
        )
        for setting in session:
            self.connection.execute(
                "SELECT set_config(%s, %s, false)", (setting, SETTINGS[setting])
            )
        if found.status != pq.ExecStatus.TUPLES_OK:
            return None
        value = found.get_value(0, 0)
        if value is None or form == pq.Format.TEXT or not self._names_types(name):
            return value
        # Arrays and composites contain the OIDs of the types in them.
        for live, ours in self._ours().items():
            value = value.replace(live.to_bytes(4), ours.to_bytes(4))
        return value

    def text(self, of: Type, case: Case) -> str:
        """The text of a case. From version 19 on, an LSN has zeros in front."""
        if of.name != "pg_lsn" or self._version < 19:
            return case.text
        high, _, low = case.text.partition("/")
        return f"{high}/{low:0>8}"

    def _names_types(self, name: str) -> bool:
        if "[" in name:
            return name.partition("[")[0] in OIDS
        return name in self._composites

    def _ours(self) -> dict[int, int]:
        found = {}
        for oid, name in self._oids.items():
            if name in OIDS:
                found[oid] = OIDS[name]
            elif name.removeprefix("_") in OIDS:
                found[oid] = OIDS[name.removeprefix("_")] + 1
        return found


@pytest.fixture(scope="module")
def database(server: EmbeddedServer) -> Iterator[Database]:
    options = " ".join(f"-c {name}={value}" for name, value in SETTINGS.items())
    with (
        server.database("type_cases") as name,
        psycopg.connect(
            server.dsn_of(name),
            autocommit=True,
            options=options,
            client_encoding="UTF8",
        ) as connection,
    ):
        yield Database(connection)


@pytest.mark.parametrize("of", TYPES, ids=str)
def test_server_sends_these_forms(database: Database, of: Type) -> None:
    if not database.has(of):
        pytest.skip(f"this server has no input of {of.name}")
    assert database.column(of) == (of.oid, of.typmod)
    for case in of.cases:
        wanted = {"text": database.text(of, case), "binary": case.binary}
        assert _forms(database, of, case) == wanted


def _forms(database: Database, of: Type, case: Case) -> dict[str, str | bytes | None]:
    text = database.ask(of.name, case.sql, case.session, pq.Format.TEXT)
    # Without binary, the case has only the text form.
    binary = case.binary and database.ask(of.name, case.sql, {}, pq.Format.BINARY)
    return {"text": None if text is None else text.decode(), "binary": binary}


def test_most_types_are_checked(database: Database) -> None:
    """Guards the claim above against a server without the types."""
    checked = Counter(database.has(of) for of in TYPES)
    assert checked[True] > 140


def test_catalog_is_the_one_that_the_setup_makes(database: Database) -> None:
    pa = pytest.importorskip("pyarrow")
    own = [of for of in TYPES if of.name in OIDS and of.needs is None and not of.asked]
    assert len(own) > 8
    columns = ", ".join(f"c{place} {of.name}" for place, of in enumerate(own))
    database.connection.execute(f"CREATE TABLE public.t ({columns})".encode())
    database.connection.execute("CREATE PUBLICATION p FOR TABLE public.t")
    live = walrow.postgres.catalog(database.connection)
    ours = type_cases.catalog({f"c{n}": (of.oid, -1) for n, of in enumerate(own)})
    for profile in ("arrow", "spark"):
        found = pa.schema(walrow.schema(live, "t", profile=profile, metadata=()))
        wanted = pa.schema(walrow.schema(ours, "t", profile=profile, metadata=()))
        assert found.types == wanted.types
