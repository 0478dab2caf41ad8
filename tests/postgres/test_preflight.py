"""The preflight on live servers: each finding, and its SQL, which fixes it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

import walrow
from servers import EmbeddedServer, FetchedServer
from servers.fetched import VERSIONS
from servers.receiving import drop_if_there, run_walrow
from walrow import postgres
from walrow._postgres.preflight.published import CheckedTable, Denied, Identity
from walrow._postgres.preflight.server import (
    check_bugs,
    check_server,
    check_version,
)
from walrow._postgres.server_errors import stream_error
from walrow._postgres.temporary_publication import (
    create_publication_for,
    drop_if_exists,
)

# The first run downloads the server.
pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

Connection = psycopg.Connection[Any]


@dataclass
class Database:
    """A database with a publication `shop` of the table `item`, and a slot."""

    server: EmbeddedServer
    name: str
    conn: Connection

    @property
    def dsn(self) -> str:
        return self.server.dsn_of(self.name)

    @property
    def major(self) -> int:
        return self.server.major

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.conn.execute(statement.encode())

    def findings(self, code: str, **options: Any) -> list[postgres.Finding]:
        """The findings of a kind. By default, of what is there."""
        options = {"slot": self.name, "publications": "shop"} | options
        found = postgres.preflight(self.conn, **options)
        return [each for each in found if each.code == code]

    def one(self, code: str, severity: str, **options: Any) -> postgres.Finding:
        (found,) = self.findings(code, **options)
        assert found.severity == severity
        assert "\n" not in found.text
        return found

    def fix(self, found: postgres.Finding) -> None:
        assert found.sql is not None
        self.run(*found.sql.splitlines())


@pytest.fixture
def database(server: EmbeddedServer) -> Iterator[Database]:
    with (
        server.database("preflight") as name,
        psycopg.connect(server.dsn_of(name), autocommit=True) as conn,
    ):
        database = Database(server, name, conn)
        database.run(
            "CREATE TABLE item (id int PRIMARY KEY, label text)",
            "CREATE PUBLICATION shop FOR TABLE item",
        )
        postgres.create_slot(conn, name)
        yield database
        for slot in postgres.slots(conn):
            if slot.database == name:
                postgres.drop_slot(conn, slot.name)


@contextlib.contextmanager
def setting(database: Database, name: str, value: str) -> Iterator[None]:
    database.run(f"ALTER SYSTEM SET {name} = '{value}'", "SELECT pg_reload_conf()")
    wait_for(database, name, value)
    try:
        yield
    finally:
        database.run(f"ALTER SYSTEM RESET {name}", "SELECT pg_reload_conf()")


def wait_for(database: Database, name: str, value: str) -> None:
    for _ in range(1000):
        [(found,)] = database.conn.execute(f"SHOW {name}".encode()).fetchall()
        if found == value:
            return
        database.run("SELECT pg_sleep(0.01)")
    pytest.fail(f"{name} is still {found}")


def test_nothing_is_missing(database: Database) -> None:
    with setting(database, "max_slot_wal_keep_size", "1GB"):
        options: dict[str, Any] = {"slot": database.name, "publications": ["shop"]}
        found = postgres.preflight(database.conn, **options, tables=["item"])
        assert [it.code for it in found] == ["ddl-trigger"]
        assert found.errors == []
        # The SQL is whole.
        database.run(str(found[0].sql))
        try:
            found = postgres.preflight(database.conn, **options, tables=["item"])
            assert found == []
            assert str(found) == "nothing is missing"
            database.run("ALTER EVENT TRIGGER walrow_drop ENABLE")
            (broken,) = postgres.preflight(database.conn, **options)
            assert broken.severity == "warning"
            assert "walrow_drop is disabled, or not ENABLE ALWAYS" in broken.text
            database.run(*str(broken.sql).splitlines())
            assert postgres.preflight(database.conn, **options) == []
        finally:
            database.run(postgres.ddl_trigger(drop=True))


def test_the_state_of_a_connection_does_not_change(database: Database) -> None:
    for options in ({}, {"replication": "database"}):
        with psycopg.connect(database.dsn, **options) as conn:  # type: ignore[arg-type]
            found = postgres.preflight(conn, slot="none", publications="none")
            assert [each.code for each in found.errors] == [
                "publication-missing",
                "slot-missing",
            ]
            assert conn.info.transaction_status.name == "IDLE"


def test_the_sql_calls_only_the_servers_own_functions(database: Database) -> None:
    for name in ("create_logical_replication_slot(text, text)", "reload_conf()"):
        database.run(
            f"CREATE FUNCTION public.pg_{name} RETURNS int LANGUAGE sql AS 'SELECT 1/0'"
        )
    database.run("SET search_path = public, pg_catalog")
    slot = f"{database.name}_more"
    database.fix(database.one("slot-missing", "error", slot=slot))
    assert database.findings("slot-missing", slot=slot) == []
    try:
        database.fix(database.one("slot-wal-unlimited", "warning"))
    finally:
        database.run("ALTER SYSTEM RESET ALL", "SELECT pg_catalog.pg_reload_conf()")


def test_an_unlimited_slot_is_a_warning(database: Database) -> None:
    found = database.one("slot-wal-unlimited", "warning")
    assert found.sql is not None
    assert "until the server's disk is full" in found.text
    try:
        database.fix(found)
        wait_for(database, "max_slot_wal_keep_size", "50GB")
        assert database.findings("slot-wal-unlimited") == []
    finally:
        database.run("ALTER SYSTEM RESET ALL", "SELECT pg_reload_conf()")


def test_a_server_that_never_times_out_is_a_warning(database: Database) -> None:
    with setting(database, "wal_sender_timeout", "0"):
        found = database.one("wal-sender-timeout", "warning")
        database.fix(found)
        wait_for(database, "wal_sender_timeout", "1min")
        assert database.findings("wal-sender-timeout") == []


def test_a_role_needs_the_attribute_and_select_for_loads(database: Database) -> None:
    database.run('CREATE ROLE "Plain" LOGIN')
    try:
        with psycopg.connect(database.dsn, user="Plain", autocommit=True) as conn:
            other = Database(database.server, database.name, conn)
            found = other.one("replication-privilege", "error")
            assert found.sql == 'ALTER ROLE "Plain" REPLICATION;'
            database.fix(found)
            assert other.findings("replication-privilege") == []

            found = other.one("select-privilege", "note")
            assert "public.item" in found.text
            assert found.sql == 'GRANT SELECT ON public.item TO "Plain";'
            database.fix(found)
            assert other.findings("select-privilege") == []
    finally:
        database.run('DROP OWNED BY "Plain"', 'DROP ROLE "Plain"')


def test_a_role_may_have_the_attribute_by_membership(database: Database) -> None:
    database.run(
        "CREATE ROLE rds_replication",
        "CREATE ROLE managed LOGIN IN ROLE rds_replication",
    )
    try:
        with psycopg.connect(database.dsn, user="managed", autocommit=True) as conn:
            other = Database(database.server, database.name, conn)
            assert other.findings("replication-privilege") == []
    finally:
        database.run("DROP ROLE managed", "DROP ROLE rds_replication")


def test_a_missing_publication_is_created_before_the_slot(database: Database) -> None:
    database.run('CREATE TABLE "Odd ""table" (id int PRIMARY KEY)')
    name = 'odd "name'
    tables = ["item", 'public.Odd "table']
    found = postgres.preflight(
        database.conn, slot="new", publications=["shop", name], tables=tables
    )
    publication, unpublished, slot = found.errors
    assert publication.code == "publication-missing"
    assert publication.text == 'there is no publication "odd ""name"'
    assert (unpublished.code, slot.code) == ("table-unpublished", "slot-missing")
    database.fix(publication)
    database.fix(slot)
    try:
        found = postgres.preflight(
            database.conn, slot="new", publications=["shop", name], tables=tables
        )
        assert found.errors == []
    finally:
        postgres.drop_slot(database.conn, "new")
    # Without tables, all of them.
    found = postgres.preflight(database.conn, slot=database.name, publications="all")
    (publication,) = found.errors
    assert publication.sql == 'CREATE PUBLICATION "all" FOR ALL TABLES;'
    assert "create the slot again after it" in publication.text
    database.fix(publication)
    assert database.findings("publication-missing", publications="all") == []


def test_an_empty_publication_is_a_warning(database: Database) -> None:
    database.run("CREATE PUBLICATION bare")
    found = database.one("publication-empty", "warning", publications="bare")
    assert found.text == "publication bare has no tables"
    database.run("ALTER PUBLICATION bare ADD TABLE item")
    assert database.findings("publication-empty", publications="bare") == []


def test_operations_that_are_not_published_are_a_warning(database: Database) -> None:
    database.run(
        "CREATE PUBLICATION part FOR TABLE item WITH (publish = 'insert, delete')"
    )
    found = database.one("publication-operations", "warning", publications="part")
    assert found.text.startswith(
        "no publication publishes update, truncate of public.item:"
    )
    # Another publication may have them.
    database.run(
        "CREATE PUBLICATION rest FOR TABLE item WITH (publish = 'update, truncate')"
    )
    both = database.findings("publication-operations", publications=["part", "rest"])
    assert both == []
    database.fix(found)
    assert database.findings("publication-operations", publications="part") == []


def test_children_by_inheritance_are_a_warning(database: Database) -> None:
    database.run(
        "CREATE TABLE parent (id int PRIMARY KEY)",
        "CREATE PUBLICATION family FOR TABLE parent",
        "CREATE TABLE child () INHERITS (parent); CREATE TABLE grandchild () INHERITS (child)",
    )
    found = database.one("inheritance", "warning", publications="family")
    assert (
        "public.parent has children by inheritance: public.child, public.grandchild."
        in found.text
    )
    database.fix(found)
    # Their rows are sent now, and the parent still lacks them.
    names = [
        it.text.split()[0]
        for it in database.findings("inheritance", publications="family")
    ]
    assert names == ["public.child", "public.parent"]


def test_no_table_is_added_to_a_publication_of_all(database: Database) -> None:
    # The server refuses ALTER PUBLICATION ... ADD TABLE for it.
    database.run(
        "DROP SCHEMA public CASCADE", "CREATE PUBLICATION every FOR ALL TABLES"
    )
    found = database.one("publication-empty", "warning", publications="every")
    assert found.sql is None
    assert found.text == "publication every publishes all tables, and there is none yet"


def test_leftover_publications_are_a_note(database: Database) -> None:
    database.run(
        "CREATE PUBLICATION walrow_1f2e",
        'CREATE PUBLICATION "walrow_X"',
        "CREATE PUBLICATION walrowx",
    )
    found = database.one("publication-leftover", "note")
    assert found.sql == 'DROP PUBLICATION walrow_1f2e;\nDROP PUBLICATION "walrow_X";'
    assert database.findings("publication-leftover", publications=["walrow_X"]) != []
    database.fix(found)
    assert database.findings("publication-leftover") == []


def test_a_missing_slot(database: Database) -> None:
    found = database.one("slot-missing", "error", slot="new_one")
    database.fix(found)
    try:
        assert database.findings("slot-missing", slot="new_one") == []
        if database.major >= 15:
            postgres.drop_slot(database.conn, "new_one")
            found = database.one(
                "slot-missing", "error", slot="new_one", two_phase=True
            )
            database.fix(found)
            (slot,) = [s for s in postgres.slots(database.conn) if s.name == "new_one"]
            assert slot.two_phase
    finally:
        postgres.drop_slot(database.conn, "new_one")


def test_a_physical_slot(database: Database) -> None:
    database.run("SELECT pg_create_physical_replication_slot('bytes')")
    try:
        found = database.one("slot-physical", "error", slot="bytes")
        assert found.text == "slot bytes is physical; use another name"
    finally:
        postgres.drop_slot(database.conn, "bytes")


def test_a_slot_of_another_plugin(database: Database) -> None:
    try:
        postgres.create_slot(database.conn, "decoding", plugin="test_decoding")
    except walrow.errors.ReplicationError:
        pytest.skip("this server has no other plugin")
    try:
        found = database.one("slot-plugin", "error", slot="decoding")
        assert "has the plugin test_decoding" in found.text
        # Whoever reads the slot would lose its changes.
        assert found.text.endswith("use another name")
        assert found.sql is None
    finally:
        postgres.drop_slot(database.conn, "decoding")


def test_a_slot_of_another_database(database: Database) -> None:
    with psycopg.connect(database.server.dsn, autocommit=True) as conn:
        other = Database(database.server, database.name, conn)
        found = other.one("slot-database", "error")
        assert f"belongs to database {database.name}" in found.text
        assert "the connection is to postgres" in found.text


def test_a_slot_in_use_names_its_client(database: Database) -> None:
    reader = psycopg.connect(
        database.dsn, replication="database", application_name="nightly job"
    )
    with contextlib.closing(reader):
        options: dict[str, Any] = {"proto_version": 1, "publication_names": "shop"}
        command = postgres.start_replication_command(database.name, 0, options)
        reader.pgconn.exec_(command.encode())
        found = database.one("slot-active", "error")
        pid = reader.info.backend_pid
        assert f"in use by process {pid} (nightly job)" in found.text
        database.fix(found)
        for _ in range(1000):
            if not database.findings("slot-active"):
                return
            database.run("SELECT pg_sleep(0.01)")
    pytest.fail("the slot is still in use")


def test_a_receiver_of_walrow_does_not_disturb_a_preflight(database: Database) -> None:
    with postgres.ReplicationStream.connect(database.dsn) as stream:
        stream.start(database.name, publications="shop")
        found = database.one("slot-active", "note")
        pid = stream.connection.info.backend_pid
        assert f"in use by process {pid} (walrow): a receiver of walrow" in found.text
        assert found.sql is None
        assert not postgres.preflight(
            database.conn, slot=database.name, publications="shop"
        ).errors


def test_what_a_role_may_not_copy(database: Database) -> None:
    """The statements make exactly those copies possible that were refused before."""
    database.run(
        "CREATE ROLE reader LOGIN REPLICATION",
        'CREATE SCHEMA "Odd"',
        "CREATE TABLE root (id int, n int) PARTITION BY LIST (id)",
        "CREATE TABLE one PARTITION OF root FOR VALUES IN (1)",
        'CREATE TABLE "Odd".two PARTITION OF root FOR VALUES IN (2)',
        "CREATE TABLE policed (id int PRIMARY KEY)",
        "ALTER TABLE policed ENABLE ROW LEVEL SECURITY",
        "CREATE TABLE by_column (id int PRIMARY KEY, n int, secret text)",
        "CREATE PUBLICATION copied FOR TABLE root, policed, by_column (id, n)"
        " WITH (publish_via_partition_root = true)",
        # A grant on the root is not necessary.
        "GRANT SELECT ON one, policed TO reader",
        "GRANT SELECT (id) ON by_column TO reader",
    )
    copies = {
        "one": "SELECT id, n FROM ONLY one",
        "two": 'SELECT id, n FROM ONLY "Odd".two',
        "policed": "SELECT id FROM ONLY policed",
        "by_column": "SELECT id, n FROM ONLY by_column",
    }
    try:
        with psycopg.connect(database.dsn, user="reader", autocommit=True) as conn:
            other = Database(database.server, database.name, conn)
            conn.execute("SET row_security = off")

            def refused() -> set[str]:
                names = set()
                for name, copy in copies.items():
                    try:
                        conn.execute(copy.encode())
                    except psycopg.errors.InsufficientPrivilege:
                        names.add(name)
                return names

            assert refused() == {"two", "policed", "by_column"}
            found = other.one("select-privilege", "note", publications="copied")
            assert (found.sql or "").splitlines() == [
                'GRANT USAGE ON SCHEMA "Odd" TO reader;',
                'GRANT SELECT ON public.by_column, "Odd".two TO reader;',
            ]
            database.run("GRANT SELECT (n) ON by_column TO reader")
            found = other.one("select-privilege", "note", publications="copied")
            assert 'reader may not read schema "Odd", "Odd".two:' in found.text
            database.fix(found)
            assert refused() == {"policed"}
            assert not other.findings("select-privilege", publications="copied")
            found = other.one("row-security", "note", publications="copied")
            assert "policies hide rows of public.policed from role reader" in found.text
            database.fix(found)
            assert refused() == set()
            assert not other.findings("row-security", publications="copied")
    finally:
        database.run("DROP OWNED BY reader", "DROP ROLE reader")


def test_a_slot_that_will_be_lost_and_then_is(database: Database) -> None:
    more = "SELECT pg_switch_wal(), pg_logical_emit_message(true, '', '')"
    with setting(database, "max_slot_wal_keep_size", "1MB"):
        # The limit counts at a checkpoint.
        for _ in range(5):
            database.run(more)
        found = database.one("slot-unreserved", "warning")
        assert found.sql is not None
        for _ in range(20):
            database.run(more, "CHECKPOINT")
            if database.findings("slot-lost"):
                break
    found = database.one("slot-lost", "error")
    assert ("wal_removed" if database.major >= 17 else "removed its WAL") in found.text
    database.fix(found)
    assert database.findings("slot-lost") == []


def test_a_failover_slot_waits_for_standbys(database: Database) -> None:
    name = "synchronized_standby_slots"
    if database.major < 17:
        assert database.findings("standby-slot-inactive") == []
        return
    for each in ("away", "there"):
        database.run(f"SELECT pg_create_physical_replication_slot('{each}', true)")
    postgres.create_slot(database.conn, "kept", failover=True)
    walreceiver = psycopg.connect(database.server.dsn, replication="true")
    try:
        with (
            contextlib.closing(walreceiver),
            setting(database, name, 'there, gone,"away"'),
        ):
            start = postgres.identify_system(walreceiver).xlogpos
            command = f"START_REPLICATION SLOT there PHYSICAL {start}"
            walreceiver.pgconn.exec_(command.encode())
            # Only changes of failover slots wait.
            assert database.findings("standby-slot-inactive") == []
            found = database.one("standby-slot-inactive", "warning", slot="kept")
            assert f"{name} names gone, away, which no standby uses now" in found.text
            database.fix(found)
            wait_for(database, name, "there")
            assert database.findings("standby-slot-inactive", slot="kept") == []
    finally:
        for each in ("away", "there", "kept"):
            drop_if_there(database.dsn, each)


def test_two_phase(database: Database) -> None:
    if database.major < 15:
        found = database.one("two-phase-version", "error", two_phase=True)
        assert "15 or later, the server has 14" in found.text
        return
    found = database.one("slot-two-phase", "note", two_phase=True)
    assert "for good" in found.text
    postgres.create_slot(database.conn, "prepared", two_phase=True)
    try:
        assert (
            database.findings("slot-two-phase", slot="prepared", two_phase=True) == []
        )
        found = database.one("slot-two-phase", "note", slot="prepared")
        assert "received at COMMIT PREPARED" in found.text
    finally:
        postgres.drop_slot(database.conn, "prepared")


def test_tables_that_cannot_be_published(database: Database) -> None:
    database.run(
        "CREATE UNLOGGED TABLE fast (id int PRIMARY KEY)",
        "CREATE TEMPORARY TABLE brief (id int PRIMARY KEY)",
        "CREATE VIEW look AS SELECT 1 AS id",
        "CREATE MATERIALIZED VIEW kept AS SELECT 1 AS id",
        "CREATE FOREIGN DATA WRAPPER w",
        "CREATE SERVER far FOREIGN DATA WRAPPER w",
        "CREATE FOREIGN TABLE abroad (id int) SERVER far",
    )
    tables: list[str | tuple[str, str]] = ["item", "fast", "brief", "look"]
    tables += ["public.kept", ("public", "abroad")]
    found = database.findings("table-kind", tables=tables)
    assert [each.text.split(": ")[0].split(" is ")[1] for each in found] == [
        "unlogged",
        "temporary",
        "a view",
        "a materialized view",
        "a foreign table",
    ]
    assert {each.severity for each in found} == {"error"}
    database.fix(found[0])
    assert len(database.findings("table-kind", tables=tables)) == 4
    # The server says the same.
    for table in ("brief", "look", "kept", "abroad"):
        with pytest.raises(psycopg.Error, match="cannot add relation"):
            database.run(f"CREATE PUBLICATION never FOR TABLE {table}")


def test_tables_that_are_not_published(database: Database) -> None:
    database.run(
        "CREATE TABLE other (id int PRIMARY KEY)",
        "CREATE SCHEMA second",
        "CREATE TABLE second.item (id int PRIMARY KEY)",
    )
    found = database.one("table-missing", "error", tables=["public.item", "itme"])
    assert found.text == "there is no table itme in this database"
    found = database.one("table-ambiguous", "error", tables=["item"])
    assert "it matches (public, item) and (second, item)" in found.text
    found = database.one("table-unpublished", "error", tables=["other"])
    database.fix(found)
    assert database.findings("table-unpublished", tables=["other"]) == []


PARTITIONED = (
    "CREATE TABLE sale (id int, day int, note text, PRIMARY KEY (id, day))"
    " PARTITION BY RANGE (day)",
    "CREATE TABLE sale_1 PARTITION OF sale FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE sale_2 PARTITION OF sale FOR VALUES FROM (10) TO (20)"
    " PARTITION BY RANGE (day)",
    "CREATE TABLE sale_2a PARTITION OF sale_2 FOR VALUES FROM (10) TO (15)",
    "CREATE PUBLICATION sales FOR TABLE sale WITH (publish_via_partition_root)",
)


def test_partitions_without_the_roots_identity(database: Database) -> None:
    database.run(*PARTITIONED)
    assert database.findings("partition-identity", publications="sales") == []
    # It does not recurse.
    database.run("ALTER TABLE sale REPLICA IDENTITY FULL")
    found = database.one("partition-identity", "error", publications="sales")
    assert "public.sale has the replica identity FULL" in found.text
    assert "not its partitions public.sale_1, public.sale_2a: their old" in found.text
    database.fix(found)
    assert database.findings("partition-identity", publications="sales") == []

    database.run("ALTER TABLE sale REPLICA IDENTITY DEFAULT")
    found = database.one("partition-identity", "warning", publications="sales")
    assert "only the key counts" in found.text
    database.fix(found)
    assert database.findings("partition-identity", publications="sales") == []

    database.run(
        "ALTER TABLE sale REPLICA IDENTITY DEFAULT",
        "ALTER TABLE sale_2a REPLICA IDENTITY DEFAULT",
        "ALTER TABLE sale_1 ALTER day SET NOT NULL",
        "CREATE UNIQUE INDEX by_day ON sale_1 (day)",
        "ALTER TABLE sale_1 REPLICA IDENTITY USING INDEX by_day",
    )
    found = database.one("partition-identity", "error", publications="sales")
    assert "public.sale has the replica identity (day, id)" in found.text
    assert "not its partitions public.sale_1: their" in found.text
    database.fix(found)
    # FULL is more than the key.
    database.one("partition-identity", "warning", publications="sales")


def test_unlogged_partitions(database: Database) -> None:
    database.run(*PARTITIONED, "ALTER TABLE sale_2a SET UNLOGGED")
    found = database.one("partition-unlogged", "warning", publications="sales")
    assert "public.sale_2a of public.sale are unlogged" in found.text
    database.fix(found)
    assert database.findings("partition-unlogged", publications="sales") == []


def test_partitions_stand_for_their_table(database: Database) -> None:
    database.run(*PARTITIONED, "CREATE PUBLICATION parts FOR TABLE sale")
    for publication in ("sales", "parts"):
        options = {"publications": publication, "tables": ["sale"]}
        assert database.findings("table-unpublished", **options) == []
    found = database.one(
        "table-unpublished", "error", publications="sales", tables=["sale_2a"]
    )
    text = "changes of public.sale_2a are sent as those of public.sale: name this table"
    assert (found.text, found.sql) == (text, None)
    # The changes come under the names of the partitions.
    database.run("ALTER TABLE sale REPLICA IDENTITY FULL")
    assert database.findings("partition-identity", publications="parts") == []


def test_tables_without_an_identity(database: Database) -> None:
    database.run(
        "CREATE TABLE heap (id int)",
        "CREATE TABLE nothing (id int PRIMARY KEY)",
        "ALTER TABLE nothing REPLICA IDENTITY NOTHING",
        "CREATE TABLE deferred (id int PRIMARY KEY DEFERRABLE)",
        "CREATE TABLE indexed (id int NOT NULL)",
        "CREATE UNIQUE INDEX by_id ON indexed (id)",
        "ALTER TABLE indexed REPLICA IDENTITY USING INDEX by_id",
        "CREATE PUBLICATION heaps FOR TABLE heap, nothing, deferred, indexed, item",
        "CREATE PUBLICATION inserts FOR TABLE heap WITH (publish = 'insert, truncate')",
    )
    found = database.one("no-replica-identity", "warning", publications="heaps")
    text = "without a replica identity: public.deferred, public.heap, public.nothing; "
    assert found.text.startswith(text)
    for table in ("heap", "nothing", "deferred"):
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            database.run(f"INSERT INTO {table} VALUES (1)", f"DELETE FROM {table}")  # noqa: S608
    database.fix(found)
    assert database.findings("no-replica-identity", publications="heaps") == []
    database.run("ALTER TABLE heap REPLICA IDENTITY DEFAULT")
    assert database.findings("no-replica-identity", publications="inserts") == []

    # Of a partitioned table, the partition's identity decides.
    database.run(*PARTITIONED, "ALTER TABLE sale_1 REPLICA IDENTITY NOTHING")
    found = database.one("no-replica-identity", "warning", publications="sales")
    assert found.sql == "ALTER TABLE public.sale_1 REPLICA IDENTITY FULL;"


def test_generated_columns_are_a_note(database: Database) -> None:
    database.run(
        "CREATE TABLE sums (id int PRIMARY KEY, twice int GENERATED ALWAYS AS (id * 2) STORED)",
        "CREATE PUBLICATION sums FOR TABLE sums",
    )
    found = database.one("generated-columns", "note", publications="sums")
    assert found.text.startswith("generated columns are not sent: public.sums.twice")
    if database.major >= 18:
        database.fix(found)
        assert database.findings("generated-columns", publications="sums") == []
        database.run("ALTER TABLE sums ADD never int GENERATED ALWAYS AS (id) VIRTUAL")
        found = database.one("generated-columns", "note", publications="sums")
        # No statement makes the server send it.
        assert found.text == "generated columns are not sent: public.sums.never"
        assert found.sql is None
        # A column list decides alone.
        database.run(
            "CREATE PUBLICATION listed FOR TABLE sums (id) WITH (publish_generated_columns = none)"
        )
        found = database.one("generated-columns", "note", publications="listed")
        assert found.text.endswith("not sent: public.sums.never, public.sums.twice")
        assert found.sql is None
    else:
        assert found.sql is None


def test_publications_of_different_columns(database: Database) -> None:
    if database.major < 15:
        # It has no column lists.
        return
    database.run(
        "CREATE PUBLICATION ids FOR TABLE item (id)",
        "CREATE PUBLICATION whole FOR TABLE item (id, label)",
    )
    assert database.findings("column-lists", publications=["shop", "whole"]) == []
    names = ["shop", "ids"]
    found = database.one("column-lists", "error", publications=names)
    assert "publications ids, shop publish different columns" in found.text
    # The server agrees.
    database.run("INSERT INTO item VALUES (1)")
    read = (
        "SELECT count(*) FROM pg_logical_slot_peek_binary_changes(%s, NULL, NULL,"
        " 'proto_version', '1', 'publication_names', %s)"
    )
    database.conn.execute(read, [database.name, "shop,whole"])
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        database.conn.execute(read, [database.name, "shop,ids"])


def test_types_without_a_binary_form(database: Database) -> None:
    database.run(
        "CREATE DOMAIN rights AS aclitem",
        "CREATE DOMAIN many_rights AS aclitem[]",
        "CREATE TYPE pair AS (n int, r rights)",
        "CREATE TABLE acl (id int PRIMARY KEY, plain aclitem, own rights, list aclitem[],"
        ' domains many_rights, "Pair" pair, pairs pair[], point point, v int2vector,'
        " range int4range, ranges int4multirange)",
        "CREATE PUBLICATION acl FOR TABLE acl",
    )
    assert database.findings("binary-type", publications="acl") == []
    found = database.findings("binary-type", publications="acl", binary=True)
    by_column = {
        each.text.split(": ")[0].removeprefix("public.acl."): each for each in found
    }
    assert {name: each.severity for name, each in by_column.items()} == {
        '"Pair"': "error",
        "pairs": "error",
        "list": "error",
        "domains": "error",
        "plain": "note",
        "own": "note",
    }
    assert "pair[] contains aclitem, which" in by_column["pairs"].text

    # The server agrees.
    columns = {"list": "'{=r/postgres}'", '"Pair"': "'(1,=r/postgres)'"}
    columns |= {"domains": "'{=r/postgres}'", "pairs": "array['(1,=r/postgres)'::pair]"}
    fine = {"plain": "'=r/postgres'", "own": "'=r/postgres'", "v": "'1 2'"}
    for column, value in (columns | fine).items():
        database.run(f"INSERT INTO acl (id, {column}) VALUES (1, {value})")  # noqa: S608
        read = (
            "SELECT count(*) FROM pg_logical_slot_get_binary_changes(%s, NULL, NULL,"
            " 'proto_version', '1', 'publication_names', 'acl', 'binary', 'true')"
        )
        if column in columns:
            with pytest.raises(psycopg.errors.UndefinedFunction):
                database.conn.execute(read, [database.name])
            postgres.drop_slot(database.conn, database.name)
            postgres.create_slot(database.conn, database.name)
        else:
            database.conn.execute(read, [database.name])
        database.run("DELETE FROM acl")


def test_publications_are_created_with_exact_names(database: Database) -> None:
    conn, name = database.conn, 'odd "name; --'
    database.run(
        'CREATE SCHEMA "S.1"',
        'CREATE TABLE "S.1"."T""2" (id int PRIMARY KEY)',
        'CREATE TABLE "select" (id int PRIMARY KEY)',
    )
    tables: list[str | tuple[str, str]] = [("S.1", 'T"2'), "select", "public.item"]
    tables += ["item"]
    create_publication_for(conn, name, tables)
    query = (
        "SELECT schemaname, tablename FROM pg_publication_tables WHERE pubname = %s"
        " ORDER BY tablename"
    )
    assert conn.execute(query, [name]).fetchall() == [
        ("S.1", 'T"2'),
        ("public", "item"),
        ("public", "select"),
    ]
    with pytest.raises(
        walrow.errors.ReplicationError, match="already exists; drop it"
    ) as it:
        create_publication_for(conn, name, ["item"])
    assert (it.value.sqlstate, it.value.publication) == ("42710", name)
    via_root = "SELECT pubviaroot FROM pg_publication WHERE pubname = %s"
    assert conn.execute(via_root, [name]).fetchall() == [(True,)]
    # The second time, there is none.
    for _ in range(2):
        drop_if_exists(conn, name)
        assert conn.execute(query, [name]).fetchall() == []
    with pytest.raises(walrow.errors.SchemaError, match=r"no table public\.lost in"):
        create_publication_for(conn, "p", ["item", ("public", "lost")])
    with pytest.raises(walrow.errors.OptionError, match="NUL"):
        create_publication_for(conn, "a\0b", ["item"])


def test_a_publication_needs_the_owner_of_its_tables(database: Database) -> None:
    database.run("CREATE ROLE plain LOGIN")
    try:
        with psycopg.connect(database.dsn, user="plain", autocommit=True) as conn:
            with pytest.raises(
                walrow.errors.ReplicationError, match=r"must own|must be owner"
            ) as it:
                create_publication_for(conn, "p", ["item"])
            assert it.value.sqlstate == "42501"
    finally:
        database.run("DROP ROLE plain")


@pytest.mark.parametrize(
    ("version", "kind", "words"),
    [
        (150_005, "full", "15.5: old rows have NULL"),
        (160_001, "full", "update to 16.2. It concerns public.item"),
        (160_001, "key", None),
        (160_002, "full", None),
        (140_018, "key", "update to 14.19"),
        (170_005, "none", '"invalid memory alloc request size"'),
        (170_004, "full", None),
        (180_000, "full", None),
    ],
)
def test_known_bugs_of_a_minor_version(
    version: int, kind: str, words: str | None
) -> None:
    identity = Identity("public.item", kind, [], is_unlogged=False)
    table = CheckedTable(
        oid=1,
        publications=["p"],
        needs_identity=True,
        identity=identity,
        leaves=[],
        denied=Denied([], [], []),
        unsent=[],
        lists_differ=False,
        lacks=[],
        children={},
    )
    found = list(check_bugs(version, [table]))
    assert [(it.code, it.severity) for it in found] == [
        ("server-bug", "warning")
    ] * bool(words)
    assert all((words or "") in it.text for it in found)
    # An error that a bug explains names it, too.
    hint = stream_error("XX000", "s", ("p",), version).hint or ""
    assert ("update to" in hint) == (version in {140_018, 170_005})


def test_old_servers_are_refused() -> None:
    (found,) = check_version(13)
    assert (found.code, found.severity) == ("server-version", "error")
    assert "PostgreSQL 13; walrow needs 14 or later" in found.text
    assert list(check_version(14)) == []


@pytest.mark.parametrize(
    ("level", "effective", "standby", "severity", "text"),
    [
        ("logical", None, False, None, ""),
        ("replica", None, False, "error", "needs a restart"),
        ("replica", None, True, "error", "logical on the primary"),
        # From version 19 on.
        ("logical", "logical", False, None, ""),
        ("replica", "logical", False, None, ""),
        ("replica", "replica", False, "note", "first logical slot"),
        ("replica", "logical", True, None, ""),
        ("logical", "replica", True, "error", "create a logical slot on the primary"),
        ("minimal", "minimal", False, "error", "wal_level is minimal"),
    ],
)
def test_the_contents_of_the_wal(
    level: str,
    effective: str | None,
    standby: bool,  # noqa: FBT001
    severity: str | None,
    text: str,
) -> None:
    server = {
        "wal_level": level,
        "effective_wal_level": effective,
        "output_plugin_libraries": None,
        "standby": standby,
        "hot_standby_feedback": True,
        "primary_slot_name": "standby",
        "may_replicate": True,
        "wal_senders": 0,
        "max_wal_senders": 10,
        "max_slot_wal_keep_size": "1GB",
        "wal_sender_timeout": "60s",
    }
    found = [it for it in check_server(server, 19) if it.code == "wal-level"]
    assert [it.severity for it in found] == ([severity] if severity else [])
    assert all(text in it.text for it in found)


#: Servers that a test changes beyond repair.
own_servers = pytest.mark.parametrize(
    "kind",
    [
        (EmbeddedServer, 16),
        (EmbeddedServer, 18),
        *(
            pytest.param((FetchedServer, major), marks=pytest.mark.slow)
            for major in VERSIONS
        ),
    ],
    ids=lambda kind: f"{kind[0].__name__.removesuffix('Server').lower()}-{kind[1]}",
)


@own_servers
def test_a_small_server(kind: tuple[type[EmbeddedServer], int]) -> None:
    make, major = kind
    settings = {
        "wal_level": "replica",
        "max_replication_slots": "1",
        "max_wal_senders": "1",
        "max_prepared_transactions": "0",
    }
    with make(major, settings=settings) as small:
        check_small(small)


def check_small(small: EmbeddedServer) -> None:
    """One slot and one walsender: both can be used up."""

    def found(**options: Any) -> dict[str, postgres.Finding]:
        with psycopg.connect(small.dsn, autocommit=True) as conn:
            return {it.code: it for it in postgres.preflight(conn, **options)}

    level = found()["wal-level"]
    if small.major >= 19:
        # The first logical slot turns logical decoding on.
        assert (level.severity, level.sql) == ("note", None)
    else:
        assert level.severity == "error"
        assert level.sql is not None
        with psycopg.connect(small.dsn, autocommit=True) as conn:
            conn.execute(level.sql.encode())
        small.restart()
        assert "wal-level" not in found()

    if small.major >= 15:
        text = found(two_phase=True)["no-prepared-transactions"].text
        assert "max_prepared_transactions is 0" in text
    assert not {"slots-used-up", "wal-senders-used-up"} & found().keys()
    with psycopg.connect(small.dsn, replication="database", autocommit=True) as conn:
        postgres.create_slot(conn, "only")
        assert found(slot="only").keys().isdisjoint({"slots-used-up", "wal-level"})
        used_up = found(slot="other")["slots-used-up"]
        assert used_up.severity == "error"
        assert used_up.text.startswith("all 1 replication slots exist already")
        senders = found(slot="only")["wal-senders-used-up"]
        assert senders.severity == "error"
        # The connection for replication is there already.
        inside = [it.code for it in postgres.preflight(conn, slot="only")]
        assert "wal-senders-used-up" not in inside
        with pytest.raises(
            walrow.errors.ReplicationError, match=r"increase \W*max_replication_slots"
        ) as it:
            postgres.create_slot(conn, "other")
        assert it.value.sqlstate == "53400"
    with psycopg.connect(small.dsn, autocommit=True) as conn:
        for each in (used_up, senders):
            assert each.sql is not None
            conn.execute(each.sql.encode())
    small.restart()
    with psycopg.connect(small.dsn, replication="database", autocommit=True):
        assert not {"slots-used-up", "wal-senders-used-up"} & found(slot="x").keys()


@own_servers
def test_a_standby(kind: tuple[type[EmbeddedServer], int]) -> None:
    make, major = kind
    with make(major) as server:
        server.shut_down()
        signal = server.data_directory / "standby.signal"
        signal.touch(mode=0o644)
        server.start()
        with psycopg.connect(server.dsn, autocommit=True) as conn:
            check_standby(conn, major)


def check_standby(conn: Connection, major: int) -> None:
    def findings() -> list[postgres.Finding]:
        found = postgres.preflight(conn)
        return [each for each in found if each.code.startswith("standby")]

    found, *others = findings()
    with pytest.raises(walrow.errors.ReplicationError, match="recovery is in progress"):
        postgres.identify_system(conn)
    if major < 16:
        assert (found.code, found.severity) == ("standby", "error")
        assert f"PostgreSQL {major} cannot decode on one" in found.text
        return
    assert (found.code, found.severity) == ("standby-feedback", "warning")
    assert [it.code for it in others] == ["standby-primary-slot-name"]
    assert found.sql is not None
    sql = f"ALTER SYSTEM SET primary_slot_name = 'its_own';\n{found.sql}"
    for statement in sql.splitlines():
        conn.execute(statement.encode())
    for _ in range(1000):
        (found,) = findings()
        if found.code == "standby":
            break
        conn.execute("SELECT pg_sleep(0.01)")
    assert found.severity == "note"
    assert [slot.name for slot in postgres.slots(conn)] == []

    def interrupt(waiting: postgres.Waiting) -> None:
        assert waiting.standby
        assert "pg_log_standby_snapshot" in str(waiting)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        postgres.create_slot(conn, "never", progress=interrupt)


def test_command_line_prints_findings(database: Database) -> None:
    options = ("--dsn", database.dsn, "--publication", "shop", "--slot")
    done = run_walrow("preflight", *options, database.name, "--table", "item")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "0 errors"
    assert done.stdout.startswith("warning: max_slot_wal_keep_size is -1")

    done = run_walrow("preflight", *options, "none")
    assert (done.returncode, done.stderr) == (1, "")
    head, sql, *_, last = done.stdout.splitlines()
    assert head == (
        "error: there is no slot none; changes are kept from its creation on"
        " [slot-missing]"
    )
    assert (
        sql
        == "    SELECT pg_catalog.pg_create_logical_replication_slot('none', 'pgoutput');"
    )
    assert last == "1 error"

    done = run_walrow(
        "preflight", *options, "none", "--json", "--binary", "--two-phase"
    )
    assert (done.returncode, done.stderr) == (1, "")
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"slot-missing", "slot-wal-unlimited"} <= {it["code"] for it in records}
    assert all(it.keys() == set(postgres.Finding.__match_args__) for it in records)
