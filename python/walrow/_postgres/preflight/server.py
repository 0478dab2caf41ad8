"""Findings about a server: its settings, the role, connections and slots in use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from walrow._core import Catalog
from walrow._postgres.catalog import unreadable
from walrow._postgres.ddl_trigger import Absent, Broken, Trigger, ddl_trigger
from walrow._postgres.known_bugs import known_bugs
from walrow._postgres.preflight.finding import Finding, listed
from walrow._postgres.preflight.hosts import check_standby
from walrow._postgres.preflight.publications import Publication
from walrow._postgres.preflight.published import CheckedTable
from walrow._postgres.running import literal
from walrow._postgres.session import records

#: The oldest version that walrow reads.
OLDEST = 14


def server_facts(
    conn: psycopg.Connection[Any], publications: Sequence[str]
) -> dict[str, Any]:
    """Reads what the checks need, but for slots and published tables."""
    facts: dict[str, Any]
    (facts,) = records(conn, _SERVER, {"publications": list(publications)})
    there = facts["publications"]
    facts["publications"] = {name: Publication(**it) for name, it in there.items()}
    return facts


def check_version(major: int) -> Iterator[Finding]:
    """Checks the version. The other checks need one that walrow reads."""
    if major < OLDEST:
        text = f"the server is PostgreSQL {major}; walrow needs {OLDEST} or later"
        yield Finding("server-version", "error", text)


def check_server(server: dict[str, Any], major: int) -> Iterator[Finding]:
    """Checks settings, the role, and the connections in use."""
    yield from _check_wal_level(server)
    yield from _check_plugins(server["output_plugin_libraries"])
    if not server["may_replicate"]:
        yield Finding(
            "replication-privilege",
            "error",
            f"role {server['role']} may not use replication: it lacks the attribute"
            " REPLICATION",
            f"ALTER ROLE {server['role']} REPLICATION;",
        )
    # A connection for replication has its walsender already.
    if server["wal_senders"] >= server["max_wal_senders"] and not server["walsender"]:
        yield Finding(
            "wal-senders-used-up",
            "error",
            f"all {server['max_wal_senders']} connections for replication are in use;"
            " stop a client, or raise max_wal_senders, which needs a restart",
            f"ALTER SYSTEM SET max_wal_senders = {server['max_wal_senders'] + 10};",
        )
    if server["max_slot_wal_keep_size"] == "-1":
        yield Finding(
            "slot-wal-unlimited",
            "warning",
            "max_slot_wal_keep_size is -1: while no client confirms changes, a slot"
            " keeps all WAL until the server's disk is full",
            "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB';\nSELECT pg_catalog.pg_reload_conf();",
        )
    if server["wal_sender_timeout"] == "0":
        yield Finding(
            "wal-sender-timeout",
            "warning",
            "wal_sender_timeout is 0: after a broken connection, the server holds the"
            " slot for a client that is gone",
            "ALTER SYSTEM SET wal_sender_timeout = '60s';\nSELECT pg_catalog.pg_reload_conf();",
        )
    if server["standby"]:
        if major < _STANDBY_SINCE:
            text = (
                f"the server is a standby, and PostgreSQL {major} cannot decode on one;"
                f" connect to the primary, or use {_STANDBY_SINCE} or later"
            )
            yield Finding("standby", "error", text)
        elif found := list(check_standby(server, "the standby")):
            yield from found
        else:
            text = (
                "the server is a standby: publications are created on the primary, and"
                " a new slot waits for the primary's next record of running transactions"
            )
            if server["effective_wal_level"] is not None:
                text += (
                    "; if its wal_level is replica, all slots of standbys are lost with the"
                    " primary's last logical slot"
                )
            yield Finding("standby", "note", text)


def _check_wal_level(server: dict[str, Any]) -> Iterator[Finding]:
    """Checks whether the WAL has what logical decoding needs.

    From version 19 on, a primary with `replica` turns that on with its first logical slot.
    """
    effective = server["effective_wal_level"]
    if (effective or server["wal_level"]) == "logical":
        return
    if effective == "replica" and not server["standby"]:
        text = (
            "wal_level is replica: the server turns logical decoding on when the first"
            " logical slot is created, which waits for a checkpoint"
        )
        yield Finding("wal-level", "note", text)
    elif effective is not None and server["standby"]:
        text = (
            f"the WAL of the primary has effective_wal_level {effective}: create a logical"
            " slot on the primary first, or set its wal_level to logical"
        )
        yield Finding("wal-level", "error", text)
    else:
        where = " on the primary" if server["standby"] else ""
        yield Finding(
            "wal-level",
            "error",
            f"wal_level is {server['wal_level']}, and must be logical{where}; the change"
            " needs a restart of the server",
            "ALTER SYSTEM SET wal_level = 'logical';",
        )


def _check_plugins(setting: str | None) -> Iterator[Finding]:
    """Checks the plugins that slots may use. None: any, or the role may not see them."""
    if setting is None:
        return
    # The server takes a list that it cannot read for an empty one.
    is_list = re.fullmatch(rf"\s*{_PLUGIN}\s*(,\s*{_PLUGIN}\s*)*", setting)
    found = re.findall(_PLUGIN, setting) if is_list else []
    plugins = [it.strip('"').replace('""', '"') for it in found]
    if "pgoutput" not in plugins:
        named = ", ".join(literal(it) for it in [*filter(None, plugins), "pgoutput"])
        yield Finding(
            "output-plugin",
            "error",
            "output_plugin_libraries lacks pgoutput: the server creates and reads no slot with it",
            f"ALTER SYSTEM SET output_plugin_libraries = {named};\n"
            "SELECT pg_catalog.pg_reload_conf();",
        )


def check_encoding(encoding: str, catalog: Catalog) -> Iterator[Finding]:
    """Checks what the server cannot convert to UTF-8 of a database in another encoding."""
    if encoding == "MULE_INTERNAL":
        text = (
            "the server cannot convert the database's encoding, MULE_INTERNAL, to UTF-8"
        )
        yield Finding("encoding", "error", text)
    without = f"bytes without an equivalent in UTF-8, in a database in {encoding}"
    tables, others = unreadable(catalog)
    if tables:
        text = f"rename tables, or columns of them, whose names have {without}: {listed(tables)}"
        yield Finding("name-encoding", "error", text)
    if others:
        text = f"names, labels or defaults of types or tables have {without}: {listed(others)}"
        yield Finding("name-encoding", "warning", text)


def check_bugs(version: int, published: Sequence[CheckedTable]) -> Iterator[Finding]:
    """Checks whether the server's minor version has a known bug that concerns these tables."""
    identities = [it for table in published for it in (table.identity, *table.leaves)]
    for bug, text in known_bugs(version):
        of = dict.fromkeys(it.quoted for it in identities if it.kind == bug.identity)
        if of or bug.identity is None:
            whole = f"{text}. It concerns {listed(of)}" if of else text
            yield Finding("server-bug", "warning", whole)


def check_trigger(trigger: Trigger) -> Iterator[Finding]:
    """Checks the event trigger that makes changes of tables visible."""
    if isinstance(trigger, Absent):
        text = (
            "without an event trigger, nothing shows what was changed and changed back"
            " between two looks at the catalog: a superuser can install one"
        )
        yield Finding("ddl-trigger", "note", text, ddl_trigger())
    elif isinstance(trigger, Broken):
        text = f"the event trigger of walrow is not reliable: {trigger.why}"
        yield Finding("ddl-trigger", "warning", text, trigger.sql)


def check_slots_used_up(server: dict[str, Any], used: int) -> Iterator[Finding]:
    """Checks whether one more slot can be created."""
    most = server["max_replication_slots"]
    if used >= most:
        yield Finding(
            "slots-used-up",
            "error",
            f"all {most} replication slots exist already; drop one that nobody uses"
            " (walrow slot list), or raise max_replication_slots, which needs a restart",
            f"ALTER SYSTEM SET max_replication_slots = {most + 10};",
        )


def check_two_phase(server: dict[str, Any], major: int) -> Iterator[Finding]:
    """Checks whether prepared transactions can be sent at PREPARE."""
    if major < _TWO_PHASE_SINCE:
        text = (
            f"two_phase needs PostgreSQL {_TWO_PHASE_SINCE} or later, the server has"
            f" {major}"
        )
        yield Finding("two-phase-version", "error", text)
    elif server["max_prepared_transactions"] == 0:
        text = "max_prepared_transactions is 0: no transaction can be prepared"
        yield Finding("no-prepared-transactions", "note", text)


_TWO_PHASE_SINCE = 15
_STANDBY_SINCE = 16
_PLUGIN = r'(?:"(?:[^"]|"")*"|[^\s",]+)'

# The attribute is not inherited, but Amazon RDS grants it by the membership in a role.
_SERVER = """
SELECT jsonb_build_object(
    'wal_level', current_setting('wal_level'),
    -- From version 19 on.
    'effective_wal_level', current_setting('effective_wal_level', true),
    -- Version 19 and the newest minor versions of others. Only pg_read_all_settings may see it.
    'output_plugin_libraries', (
        SELECT setting FROM pg_settings WHERE name = 'output_plugin_libraries'
    ),
    'max_wal_senders', current_setting('max_wal_senders')::int,
    'wal_senders', (SELECT count(*) FROM pg_stat_replication),
    'walsender', (
        SELECT count(*) FROM pg_stat_replication WHERE pid = pg_backend_pid()
    ) > 0,
    'max_replication_slots', current_setting('max_replication_slots')::int,
    'max_slot_wal_keep_size', current_setting('max_slot_wal_keep_size'),
    'wal_sender_timeout', current_setting('wal_sender_timeout'),
    'max_prepared_transactions', current_setting('max_prepared_transactions')::int,
    'synchronized_standby_slots', current_setting('synchronized_standby_slots', true),
    'hot_standby_feedback', current_setting('hot_standby_feedback')::bool,
    'primary_slot_name', current_setting('primary_slot_name'),
    'standby', pg_is_in_recovery(),
    'database', current_database(),
    'role', quote_ident(current_user),
    'may_replicate', (
        SELECT bool_or(rolsuper OR rolreplication OR pg_has_role(current_user, managed.oid, 'MEMBER'))
        FROM pg_roles
        LEFT JOIN (SELECT oid FROM pg_roles WHERE rolname = 'rds_replication') managed ON true
        WHERE rolname = current_user
    ),
    'publications', (
        SELECT coalesce(jsonb_object_agg(b.pubname, jsonb_build_object(
            'quoted', quote_ident(b.pubname), 'has_all', b.puballtables,
            'has_sequences', coalesce((to_jsonb(b) ->> 'puballsequences')::bool, false),
            'excepted', (
                -- A publication of all tables has no other entries.
                SELECT coalesce(jsonb_object_agg(c.oid::bigint, format('%%I.%%I', n.nspname, c.relname)), '{}')
                FROM pg_publication_rel r
                JOIN pg_class c ON c.oid = r.prrelid
                JOIN pg_namespace n ON n.oid = c.relnamespace
                WHERE r.prpubid = b.oid AND b.puballtables
            ))), '{}')
        FROM pg_publication b
        WHERE b.pubname = ANY (%(publications)s::text[])
    ),
    'leftovers', (
        SELECT coalesce(jsonb_agg(quote_ident(pubname) ORDER BY pubname), '[]')
        FROM pg_publication
        WHERE starts_with(pubname, 'walrow_') AND pubname <> ALL (%(publications)s::text[])
    ),
    'partition_roots', (
        SELECT coalesce(jsonb_object_agg(tree.root, tree.parts), '{}')
        -- pg_partition_tree would wait for locks.
        FROM (
            SELECT a.relid::oid AS root, jsonb_agg(c.oid::bigint) AS parts
            FROM pg_class c, pg_partition_ancestors(c.oid) a
            WHERE c.relispartition AND c.relkind NOT IN ('i', 'I')
            GROUP BY a.relid
        ) tree
    )
)::text
"""
