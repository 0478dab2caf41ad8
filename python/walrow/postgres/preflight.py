"""What is missing on a server before its changes can be received, and how to mend it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walrow.postgres.commands import major_version
from walrow.postgres.publications import ambiguous, quote, resolve, spoken
from walrow.postgres.published import published_tables, types_without_send
from walrow.postgres.session import records
from walrow.postgres.slots import slots

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import psycopg

    from walrow.postgres.publications import Relation
    from walrow.postgres.published import Identity, PublishedTable
    from walrow.postgres.slots import Slot

Severity = Literal["error", "warning", "note"]


class Finding(NamedTuple):
    """Something that a preflight found.

    Attributes:
        code: What it is, for programs: `slot-missing`.
        severity: `error`: the stream cannot start, or would lose values. `warning`: it
            can start, but something may fail later. `note`: something to know.
        text: It in words.
        sql: The statements that mend it, each ending with a semicolon. None if no
            statement does.
    """

    code: str
    severity: Severity
    text: str
    sql: str | None = None

    def __str__(self) -> str:
        """Returns the text, and the statements below it."""
        lines = [f"{self.severity}: {self.text} [{self.code}]"]
        lines += [f"    {line}" for line in (self.sql or "").splitlines()]
        return "\n".join(lines)


class Preflight(list[Finding]):
    """The findings of `preflight`: errors first, then warnings and notes."""

    @property
    def errors(self) -> list[Finding]:
        """The findings that prevent a complete stream."""
        return [each for each in self if each.severity == "error"]

    def __str__(self) -> str:
        """Returns the findings, each on a line of its own."""
        return "\n".join(map(str, self)) or "nothing is missing"

    __repr__ = __str__


def preflight(
    conn: psycopg.Connection[Any],
    *,
    slot: str | None = None,
    publications: str | Sequence[str] = (),
    tables: Sequence[str | tuple[str, str]] | None = None,
    two_phase: bool = False,
    binary: bool = False,
) -> Preflight:
    """Checks whether a server's changes can be received, and says what is missing.

    It changes nothing. `walrow preflight` prints its result.

    ```python
    with psycopg.connect("dbname=shop") as conn:
        found = walrow.postgres.preflight(conn, slot="shop", publications="shop")
    print(found)
    if found.errors:
        raise SystemExit(1)
    ```

    Args:
        conn: A psycopg connection to the database, as the role that will receive. The
            state of the connection does not change, as in `catalog`.
        slot: The slot to be read. Default: a slot that is still to be created.
        publications: One publication or several.
        tables: Tables that must be published, unquoted: `name`, `schema.name` or
            (schema, name). Default: those that are.
        two_phase: Whether prepared transactions are wanted at PREPARE.
        binary: Whether values are wanted in binary.

    Raises:
        OptionError: The connection cannot be used.
        psycopg.Error: A query failed.
    """
    names = [publications] if isinstance(publications, str) else list(publications)
    found = list(_version(major_version(conn)))
    if not found:
        found += _found(conn, slot, names, tables, two_phase=two_phase, binary=binary)
    order = ["error", "warning", "note"]
    return Preflight(sorted(found, key=lambda it: order.index(it.severity)))


def _version(major: int) -> Iterator[Finding]:
    if major < _OLDEST:
        text = f"the server is PostgreSQL {major}; walrow needs {_OLDEST} or later"
        yield Finding("server-version", "error", text)


def _found(
    conn: psycopg.Connection[Any],
    slot: str | None,
    publications: Sequence[str],
    tables: Sequence[str | tuple[str, str]] | None,
    *,
    two_phase: bool,
    binary: bool,
) -> Iterator[Finding]:
    major = major_version(conn)
    known = slots(conn)
    (server,) = records(conn, _SERVER, {"publications": list(publications)})
    yield from _server(server, major)
    mine = next((each for each in known if each.name == slot), None)
    if mine is None:
        yield from _slots_used_up(server, len(known))
    if two_phase:
        yield from _two_phase(server, major)

    quoted = dict(zip(publications, quote(conn, publications), strict=True))
    there = [name for name in publications if name in server["publications"]]
    published = published_tables(conn, there)
    wanted = [] if tables is None else resolve(conn, tables)
    for name in publications:
        if name not in there:
            yield _missing_publication(
                quoted[name], wanted, slot_exists=mine is not None
            )
        elif not any(quoted[name] in table.publications for table in published):
            text = f"publication {quoted[name]} has no tables"
            sql = f"ALTER PUBLICATION {quoted[name]} ADD TABLE ...;"
            yield Finding("publication-empty", "warning", text, sql)
    yield from _leftovers(server["leftovers"])
    targets = [quoted[name] for name in there]
    yield from _wanted(wanted, published, targets, server["partition_roots"])
    yield from _identities(published)
    yield from _roots(published)
    yield from _generated(published, major)
    yield from _select(published, server["role"])
    if binary:
        yield from _binary(conn, there)
    # After the publications, as a slot must be created after them.
    if slot is not None:
        yield from _slot(slot, mine, server, two_phase=two_phase)


def _server(server: dict[str, Any], major: int) -> Iterator[Finding]:
    if server["wal_level"] != "logical":
        where = " on the primary" if server["standby"] else ""
        yield Finding(
            "wal-level",
            "error",
            f"wal_level is {server['wal_level']}, and must be logical{where}; the change"
            " needs a restart of the server",
            "ALTER SYSTEM SET wal_level = 'logical';",
        )
    if not server["may_replicate"]:
        yield Finding(
            "replication-privilege",
            "error",
            f"role {server['role']} must not use replication: it lacks the attribute"
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
            "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB';\nSELECT pg_reload_conf();",
        )
    if server["wal_sender_timeout"] == "0":
        yield Finding(
            "wal-sender-timeout",
            "warning",
            "wal_sender_timeout is 0: after a broken connection, the server holds the"
            " slot for a client that is gone",
            "ALTER SYSTEM SET wal_sender_timeout = '60s';\nSELECT pg_reload_conf();",
        )
    if server["standby"]:
        if major < _STANDBY_SINCE:
            text = (
                f"the server is a standby, and PostgreSQL {major} cannot decode on one;"
                f" connect to the primary, or use {_STANDBY_SINCE} or later"
            )
            yield Finding("standby", "error", text)
        elif not server["hot_standby_feedback"]:
            yield Finding(
                "standby-feedback",
                "warning",
                "the server is a standby without hot_standby_feedback: the primary may"
                " remove rows of its catalog that the slot needs, and the slot is lost",
                "ALTER SYSTEM SET hot_standby_feedback = on;\nSELECT pg_reload_conf();",
            )
        else:
            text = (
                "the server is a standby: publications are created on the primary, and"
                " a new slot waits for the primary's next record of running transactions"
            )
            yield Finding("standby", "note", text)


def _slots_used_up(server: dict[str, Any], used: int) -> Iterator[Finding]:
    most = server["max_replication_slots"]
    if used >= most:
        yield Finding(
            "slots-used-up",
            "error",
            f"all {most} replication slots exist already; drop one that nobody uses"
            " (walrow slot list), or raise max_replication_slots, which needs a restart",
            f"ALTER SYSTEM SET max_replication_slots = {most + 10};",
        )


def _slot(
    name: str, slot: Slot | None, server: dict[str, Any], *, two_phase: bool
) -> Iterator[Finding]:
    flags = ", false, true" if two_phase else ""
    create = f"SELECT pg_create_logical_replication_slot({_literal(name)}, 'pgoutput'{flags});"
    again = f"SELECT pg_drop_replication_slot({_literal(name)});\n{create}"
    if slot is None:
        text = f"there is no slot {name}; changes are kept from its creation on"
        yield Finding("slot-missing", "error", text, create)
        return
    if slot.kind != "logical":
        text = f"slot {name} is physical; use another name"
        yield Finding("slot-physical", "error", text)
        return
    if slot.plugin != "pgoutput":
        text = f"slot {name} has the plugin {slot.plugin}, and walrow reads pgoutput"
        yield Finding("slot-plugin", "error", text, again)
    if slot.database != server["database"]:
        text = (
            f"slot {name} belongs to database {slot.database}, and the connection is to"
            f" {server['database']}"
        )
        yield Finding("slot-database", "error", text)
    if slot.active_pid is not None:
        application = slot.active_application
        by = f" ({application})" if application else ""
        yield Finding(
            "slot-active",
            "error",
            f"slot {name} is in use by process {slot.active_pid}{by}; stop that client",
            f"SELECT pg_terminate_backend({slot.active_pid});",
        )
    if slot.wal_status == "lost" or slot.invalidation_reason:
        reason = slot.invalidation_reason or "the server removed its WAL"
        yield Finding(
            "slot-lost",
            "error",
            f"slot {name} is lost ({reason}), with all changes that were not received;"
            " create it again, and load the tables again",
            again,
        )
    elif slot.wal_status == "unreserved":
        text = (
            f"slot {name} keeps more WAL than max_slot_wal_keep_size, and is lost at one"
            " of the next checkpoints: receive its changes now, or raise the limit"
        )
        sql = "ALTER SYSTEM SET max_slot_wal_keep_size = ...;\nSELECT pg_reload_conf();"
        yield Finding("slot-unreserved", "warning", text, sql)
    if two_phase and not slot.two_phase:
        text = (
            f"slot {name} sends prepared transactions at COMMIT PREPARED; the first"
            " stream with two_phase changes that for good"
        )
        yield Finding("slot-two-phase", "note", text)
    if slot.two_phase and not two_phase:
        text = (
            f"slot {name} can send prepared transactions at PREPARE; without two_phase,"
            " they are received at COMMIT PREPARED"
        )
        yield Finding("slot-two-phase", "note", text)


def _two_phase(server: dict[str, Any], major: int) -> Iterator[Finding]:
    if major < _TWO_PHASE_SINCE:
        text = (
            f"two_phase needs PostgreSQL {_TWO_PHASE_SINCE} or later, the server has"
            f" {major}"
        )
        yield Finding("two-phase-version", "error", text)
    elif server["max_prepared_transactions"] == 0:
        text = "max_prepared_transactions is 0: no transaction can be prepared"
        yield Finding("no-prepared-transactions", "note", text)


def _missing_publication(
    name: str,
    wanted: Sequence[tuple[Any, Sequence[Relation]]],
    *,
    slot_exists: bool,
) -> Finding:
    tables = ", ".join(it.quoted for _, found in wanted for it in found)
    target = f"TABLE {tables}" if tables else "ALL TABLES"
    text = f"there is no publication {name}"
    if slot_exists:
        # The walsender looks it up as it was at the time of each change.
        text += (
            "; the slot exists already, and its changes from before the publication"
            " cannot be read: create the slot again after it"
        )
    sql = f"CREATE PUBLICATION {name} FOR {target};"
    return Finding("publication-missing", "error", text, sql)


def _leftovers(names: Sequence[str]) -> Iterator[Finding]:
    if names:
        text = (
            f"publication {_listed(names)} may be left over from a session that was"
            " killed; drop it unless a session still uses it"
        )
        sql = "\n".join(f"DROP PUBLICATION {name};" for name in names)
        yield Finding("publication-leftover", "note", text, sql)


def _wanted(
    wanted: Sequence[tuple[str | tuple[str, str], Sequence[Relation]]],
    published: Sequence[PublishedTable],
    publications: Sequence[str],
    roots: dict[str, list[int]],
) -> Iterator[Finding]:
    """Tables that were asked for. Partitions stand for their partitioned table."""
    sent = {table.oid for table in published}
    for table, found in wanted:
        name = spoken(table)
        if not found:
            text = f"there is no table {name} in this database"
            yield Finding("table-missing", "error", text)
            continue
        if len(found) > 1:
            yield Finding("table-ambiguous", "error", ambiguous(table, found))
            continue
        (relation,) = found
        if kind := _unpublishable(relation):
            sql = (
                f"ALTER TABLE {relation.quoted} SET LOGGED;"
                if relation.persistence == "u"
                else None
            )
            text = f"{relation.quoted} is {kind}: its changes cannot be published"
            yield Finding("table-kind", "error", text, sql)
            continue
        parts = {relation.oid, *roots.get(str(relation.oid), [])}
        if publications and not parts & sent:
            text = f"table {relation.quoted} is in no publication of {_listed(publications)}"
            sql = f"ALTER PUBLICATION {publications[0]} ADD TABLE {relation.quoted};"
            yield Finding("table-unpublished", "error", text, sql)


def _unpublishable(relation: Relation) -> str | None:
    if relation.persistence == "u":
        return "unlogged"
    if relation.persistence == "t":
        return "temporary"
    return {
        "f": "a foreign table",
        "v": "a view",
        "m": "a materialized view",
    }.get(relation.kind)


def _identities(published: Sequence[PublishedTable]) -> Iterator[Finding]:
    """The server refuses updates and deletes of these tables, whoever runs them."""
    lacking = dict.fromkeys(
        identity.quoted
        for table in published
        if table.needs_identity
        for identity in table.leaves or [table.identity]
        if identity.kind == "none"
    )
    if lacking:
        text = (
            f"table {_listed(lacking)} has no replica identity, and updates and deletes"
            " are published: the server refuses them; add a primary key, or send whole"
            " old rows"
        )
        sql = _full(lacking)
        yield Finding("no-replica-identity", "warning", text, sql)


def _roots(published: Sequence[PublishedTable]) -> Iterator[Finding]:
    """Old rows come with the root's identity, but contain what the leaf's identity has."""
    for table in published:
        root = table.identity
        leaves = [leaf for leaf in table.leaves if leaf.kind != "none"]
        lost = [leaf.quoted for leaf in leaves if _loses(root, leaf)]
        if lost:
            has = "FULL" if root.kind == "full" else f"({', '.join(root.keys)})"
            text = (
                f"{root.quoted} has the replica identity {has}, but its partition"
                f" {_listed(lost)} has another: old rows lack values, and nothing in the"
                " stream shows it"
            )
            yield Finding("partition-identity", "error", text, _full(lost))
        more = [leaf.quoted for leaf in leaves if leaf.kind == "full" != root.kind]
        if more:
            text = (
                f"partition {_listed(more)} has the replica identity FULL, but"
                f" {root.quoted} has not: of its old rows, only the key counts"
            )
            sql = _full([root.quoted])
            yield Finding("partition-identity", "warning", text, sql)


def _loses(root: Identity, leaf: Identity) -> bool:
    if leaf.kind == "full":
        return False
    return root.kind == "full" or not set(root.keys) <= set(leaf.keys)


def _generated(published: Sequence[PublishedTable], major: int) -> Iterator[Finding]:
    columns = [
        f"{table.identity.quoted}.{column}"
        for table in published
        for column in table.unsent
    ]
    if not columns:
        return
    text = f"generated column {_listed(columns)} is not sent"
    sql = None
    if major >= _GENERATED_SINCE:
        text += "; stored ones can be"
        names = dict.fromkeys(
            name for table in published if table.unsent for name in table.publications
        )
        sql = "\n".join(
            f"ALTER PUBLICATION {name} SET (publish_generated_columns = stored);"
            for name in names
        )
    yield Finding("generated-columns", "note", text, sql)


def _select(published: Sequence[PublishedTable], role: str) -> Iterator[Finding]:
    names = [table.identity.quoted for table in published if not table.may_select]
    if names:
        text = (
            f"role {role} must not read table {_listed(names)}: changes can be received,"
            " but the table cannot be loaded"
        )
        sql = f"GRANT SELECT ON {', '.join(names)} TO {role};"
        yield Finding("select-privilege", "note", text, sql)


def _binary(
    conn: psycopg.Connection[Any], publications: Sequence[str]
) -> Iterator[Finding]:
    for column in types_without_send(conn, publications):
        name = f"{column.quoted}.{column.column}"
        if column.whole:
            text = f"{name}: {column.type} has no binary form, and is sent as text"
            yield Finding("binary-type", "note", text)
        else:
            text = (
                f"{name}: {column.type} contains {column.member}, which has no binary"
                " form: the server fails at its first value, and the slot cannot pass"
                " it; receive text, or leave the column out of the publication"
            )
            yield Finding("binary-type", "error", text)


def _full(tables: Iterable[str]) -> str:
    return "\n".join(f"ALTER TABLE {name} REPLICA IDENTITY FULL;" for name in tables)


def _listed(names: Iterable[str]) -> str:
    """Some names, and the number of the others."""
    names = list(names)
    more = len(names) - _LISTED
    rest = f" and {more} more" if more > 0 else ""
    return ", ".join(names[:_LISTED]) + rest


def _literal(name: str) -> str:
    return "'" + name.replace("'", "''") + "'"


#: The first versions that walrow reads, that decode on standbys, and so on.
_OLDEST = 14
_TWO_PHASE_SINCE = 15
_STANDBY_SINCE = 16
_GENERATED_SINCE = 18
#: Names in one text. The statements have all of them.
_LISTED = 5

# The attribute is not inherited, but Amazon RDS grants it by the membership in a role.
_SERVER = """
SELECT jsonb_build_object(
    'wal_level', current_setting('wal_level'),
    'max_wal_senders', current_setting('max_wal_senders')::int,
    'wal_senders', (SELECT count(*) FROM pg_stat_replication),
    'walsender', (
        SELECT count(*) FROM pg_stat_replication WHERE pid = pg_backend_pid()
    ) > 0,
    'max_replication_slots', current_setting('max_replication_slots')::int,
    'max_slot_wal_keep_size', current_setting('max_slot_wal_keep_size'),
    'wal_sender_timeout', current_setting('wal_sender_timeout'),
    'max_prepared_transactions', current_setting('max_prepared_transactions')::int,
    'hot_standby_feedback', current_setting('hot_standby_feedback')::bool,
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
        SELECT coalesce(jsonb_agg(pubname), '[]')
        FROM pg_publication
        WHERE pubname = ANY (%(publications)s::text[])
    ),
    'leftovers', (
        SELECT coalesce(jsonb_agg(quote_ident(pubname) ORDER BY pubname), '[]')
        FROM pg_publication
        WHERE starts_with(pubname, 'walrow_') AND pubname <> ALL (%(publications)s::text[])
    ),
    'partition_roots', (
        SELECT coalesce(jsonb_object_agg(tree.root, tree.parts), '{}')
        FROM (
            SELECT p.partrelid::oid AS root, jsonb_agg(t.relid::oid::bigint) AS parts
            FROM pg_partitioned_table p, pg_partition_tree(p.partrelid) t
            GROUP BY p.partrelid
        ) tree
    )
)::text
"""
