"""Runs the regression suite on a server, as `pg_regress` does, four scripts at a time.

The outputs are not compared: other tests of PostgreSQL's do that.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg

from regress.sources import unpack
from servers import EmbeddedServer
from servers.embedded import wheel_programs

DATABASE = "regression"
SETTINGS = {
    "max_connections": "100",
    "max_prepared_transactions": "20",
    "max_replication_slots": "20",
    "max_worker_processes": "16",
}
#: The settings that pg_regress gives its database.
_DATABASE_SETTINGS = {
    "lc_messages": "'C'",
    "lc_monetary": "'C'",
    "lc_numeric": "'C'",
    "lc_time": "'C'",
    "bytea_output": "'hex'",
    "timezone_abbreviations": "'Default'",
}
#: Statements that end a server of an earlier minor version by a segmentation fault, fixed since.
_CRASHES = {
    "sqljson": (
        """SELECT '{"a":1}'::sqljson_mystr IS JSON;                -- error""",
        """SELECT JSON('{"a":1}'::sqljson_mystr WITH UNIQUE KEYS); -- error""",
    ),
    "hash_part": (
        "SELECT satisfies_hash_partition('mchash'::regclass, 4, 0, VARIADIC NULL::int[]);",
    ),
}
#: Published tables without a key get REPLICA IDENTITY FULL, so that UPDATE and DELETE work.
_IDENTITIES = """
CREATE SCHEMA walrow_test;
GRANT USAGE ON SCHEMA walrow_test TO public;
CREATE FUNCTION walrow_test.identify() RETURNS event_trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = 'pg_catalog' AS $$
DECLARE
    r oid;
BEGIN
    -- Its own ALTER TABLE fires it, too.
    IF current_setting('walrow_test.busy', true) = '1' THEN
        RETURN;
    END IF;
    PERFORM set_config('walrow_test.busy', '1', false);
    FOR r IN
        WITH RECURSIVE changed (oid) AS (
            SELECT objid FROM pg_event_trigger_ddl_commands()
            WHERE classid = 'pg_class'::regclass
            UNION
            SELECT inhrelid FROM pg_inherits JOIN changed ON inhparent = oid
        )
        SELECT c.oid FROM pg_class c JOIN changed USING (oid)
        WHERE relkind IN ('r', 'p') AND relpersistence = 'p' AND relreplident <> 'f'
            -- pg_get_replica_identity_index would lock tables.
            AND NOT EXISTS (
                SELECT FROM pg_index
                WHERE indrelid = c.oid AND indisvalid AND indimmediate
                    AND CASE relreplident WHEN 'd' THEN indisprimary
                        WHEN 'i' THEN indisreplident END
            )
    LOOP
        -- No EXCEPTION: the subtransaction would be another one than the creation's.
        EXECUTE format('ALTER TABLE ONLY %s REPLICA IDENTITY FULL', r::regclass);
    END LOOP;
    PERFORM set_config('walrow_test.busy', '', false);
END $$;
CREATE EVENT TRIGGER walrow_test ON ddl_command_end EXECUTE FUNCTION walrow_test.identify();
ALTER EVENT TRIGGER walrow_test ENABLE ALWAYS;
"""
_DROP = re.compile(
    rb"^\s*drop\s+(table|schema|type|domain|extension|owned|database)\b[^;]*;",
    re.IGNORECASE | re.MULTILINE,
)
_AT_ONCE = 4
_SCRIPT_SECONDS = 300.0


def prepare(server: EmbeddedServer) -> str:
    """Makes the suite's database. Returns its connection string."""
    with psycopg.connect(server.dsn, autocommit=True) as conn:
        conn.execute(f"CREATE DATABASE {DATABASE} TEMPLATE template0".encode())
        for name, value in _DATABASE_SETTINGS.items():
            conn.execute(f"ALTER DATABASE {DATABASE} SET {name} TO {value}".encode())
    dsn = server.dsn_of(DATABASE)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(_IDENTITIES.encode())
    return dsn


class Suite:
    """The suite for one server."""

    def __init__(self, server: EmbeddedServer, *, drops: bool) -> None:
        """Unpacks the suite where the server, which may be another user, can read it.

        Args:
            server: The server.
            drops: Whether tables, schemas and types are dropped at the end of a script.

        Raises:
            OSError: PostgreSQL's sources cannot be had.
        """
        self._server, self._drops = server, drops
        source = unpack(server.socket_directory)
        self._folder = source / "test/regress"
        self._plpgsql = source / "pl/plpgsql/src/sql"
        self._place = server.socket_directory / "suite"
        results = self._place / "results"
        results.mkdir(parents=True)
        # COPY TO writes there.
        results.chmod(0o777)
        for path in (source.parent, *source.parent.rglob("*"), self._place):
            path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))
        self._compile(self._place / "regress.so")
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self._place),
            "LANG": "C",
            "LC_MESSAGES": "C",
            "PGTZ": "America/Los_Angeles",
            "PGDATESTYLE": "Postgres, MDY",
            "PGOPTIONS": "-c intervalstyle=postgres_verbose",
            "PG_ABS_SRCDIR": str(self._folder),
            "PG_ABS_BUILDDIR": str(self._place),
            "PG_LIBDIR": str(self._place),
            "PG_DLSUFFIX": ".so",
            "PGHOST": str(server.socket_directory),
            "PGUSER": "postgres",
            "PGAPPNAME": "pg_regress",
        }

    def _compile(self, library: Path) -> None:
        include = wheel_programs(18).parent / "include/postgresql/server"
        compiler = (
            os.environ.get("CC") or (sysconfig.get_config_var("CC") or "cc").split()[0]
        )
        command = [
            *(shutil.which(compiler) or "cc", "-shared", "-fPIC", "-w", "-I"),
            *(str(include), str(self._folder / "regress.c"), "-o", str(library)),
        ]
        subprocess.run(command, check=True)  # noqa: S603
        library.chmod(0o755)

    def run(self) -> None:
        """Runs all scripts, and commits the transactions that they leave prepared."""
        for names in self._schedule():
            self._run([self._folder / "sql" / f"{name}.sql" for name in names])
        self._run(sorted(self._plpgsql.glob("*.sql")))
        for gid, database in self._ask("SELECT gid, database FROM pg_prepared_xacts"):
            self._ask(f"COMMIT PREPARED '{gid}'", database)
        text = self._server.log.read_text("utf-8", errors="replace")
        crashes = re.findall(r"terminated by signal.*\n.*", text)
        assert not crashes, crashes

    def _schedule(self) -> Iterator[list[str]]:
        """The scripts that may run at the same time."""
        text = (self._folder / "parallel_schedule").read_text()
        for line in text.splitlines():
            if line.startswith("test:"):
                yield line.removeprefix("test:").split()

    def _run(self, scripts: list[Path]) -> None:
        waiting = scripts[::-1]
        running: dict[subprocess.Popen[bytes], float] = {}
        while waiting or running:
            while waiting and len(running) < _AT_ONCE:
                running[self._start(waiting.pop())] = time.monotonic()
            for process, begin in list(running.items()):
                if process.poll() is not None:
                    del running[process]
                elif time.monotonic() - begin > _SCRIPT_SECONDS:
                    process.kill()
            time.sleep(0.02)

    def _start(self, script: Path) -> subprocess.Popen[bytes]:
        sql = script.read_bytes()
        for statement in _CRASHES.get(script.stem, ()):
            sql = sql.replace(statement.encode(), b"")
        if not self._drops:
            sql = _DROP.sub(b"", sql)
        copy = self._place / f"{script.stem}.sql"
        copy.write_bytes(sql)
        with (
            copy.open("rb") as given,
            (self._place / f"{script.stem}.out").open("wb") as output,
        ):
            return subprocess.Popen(  # noqa: S603
                [
                    *(self._server.bin / "psql", "-X", "-a", "-q", "-d", DATABASE),
                    *("-v", "HIDE_TABLEAM=on", "-v", "HIDE_TOAST_COMPRESSION=on"),
                ],
                env=self._environment,
                cwd=self._folder,
                stdin=given,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _ask(self, sql: str, database: str = DATABASE) -> list[tuple[str, ...]]:
        dsn = self._server.dsn_of(database)
        with psycopg.connect(dsn, autocommit=True) as conn:
            cursor = conn.execute(sql.encode())
            with contextlib.suppress(psycopg.ProgrammingError):
                return cursor.fetchall()
            return []
