"""Hints for the server's errors, by command and SQLSTATE.

The server's own HINT comes first: see `walrow._postgres.server_errors`.
"""

from __future__ import annotations

import enum
import shlex


class Command(enum.Enum):
    """The command that failed."""

    CONNECT = enum.auto()
    IDENTIFY = enum.auto()
    #: SHOW, and queries of the catalog.
    QUERY = enum.auto()
    TIMELINE_HISTORY = enum.auto()
    CREATE_SLOT = enum.auto()
    READ_SLOT = enum.auto()
    ALTER_SLOT = enum.auto()
    DROP_SLOT = enum.auto()
    #: Starting the stream of a logical slot.
    START = enum.auto()
    #: The stream itself.
    STREAM = enum.auto()
    #: The stream of WAL of physical replication.
    WAL = enum.auto()
    BACKUP = enum.auto()
    PUBLICATION = enum.auto()
    COPY = enum.auto()


def hint_for(
    command: Command,
    sqlstate: str | None,
    *,
    slot: str | None = None,
    publication: str | None = None,
) -> str | None:
    """Returns the hint, if walrow has one.

    >>> hint_for(Command.DROP_SLOT, "42704", slot="s")
    'walrow slot list shows the slots that exist'
    >>> hint_for(Command.QUERY, "58P01")
    """
    code = sqlstate or ""
    found = _HINTS.get(command, {}).get(code) or _ALWAYS.get(code)
    if found is None:
        return None
    name = (publication or "").replace('"', '""')
    return found.format(slot=shlex.quote(slot or "NAME"), publication=name)


#: The answer of a program between walrow and the server.
POOLER = (
    "a connection pooler answered, not PostgreSQL: connect to the server itself, or to a pooler that"
    " passes replication and options on, such as PgBouncer 1.23"
)
_REPLICATION = "the role needs the attribute REPLICATION: ALTER ROLE ... REPLICATION"
_PLUGIN = f"{_REPLICATION}; if the setting output_plugin_libraries exists, it must contain pgoutput"
_USED = "stop the client that uses it; walrow slot list shows its process"
_PREFLIGHT = "walrow preflight finds the cause and says what to do"
_LISTED = "walrow slot list shows the slots that exist"
_EXISTING_SLOT = {"42501": _REPLICATION, "42704": _LISTED, "55006": _USED}
_LOG = "the server's log says more"
_NOT_UTF8 = (
    "a value has bytes without an equivalent in UTF-8: correct it on the server, so that the table can be"
    f" copied; a stream never passes the change that wrote it; {_LOG}"
)
_TIMEOUT = "ALTER ROLE ... RESET {0}, or ALTER DATABASE ... RESET {0}: the setting {0} ended it"
#: Errors that mean the same for each command.
_ALWAYS = {
    "57014": "a person, or the setting statement_timeout, canceled it: run it again",
    "55P03": "another session has a lock on it, which pg_locks shows: run it again later",
    "40001": "the standby canceled it because of what it replayed: run it again",
    "25P03": _TIMEOUT.format("idle_in_transaction_session_timeout"),
    "25P04": _TIMEOUT.format("transaction_timeout"),
    "57P05": _TIMEOUT.format("idle_session_timeout"),
    "57P01": "the server is shutting down, or a person ended the connection: connect again later",
    "57P02": "the server is restarting: connect again later",
    "57P03": "the server is starting or stopping: connect again later",
}
_HINTS = {
    Command.CONNECT: {
        "0A000": "a database in MULE_INTERNAL cannot be received, as the server cannot convert it to"
        " UTF-8: copy it into a database in UTF8",
        "28000": "check the role's name, its attribute LOGIN, and pg_hba.conf of the server",
        "28P01": "check the password, which may also come from PGPASSWORD, a service or .pgpass",
        "3D000": "check dbname: without it, libpq takes the role's name",
        "42501": f"{_REPLICATION}; and CONNECT on the database",
        "42704": "walrow needs PostgreSQL 14 or later; a setting in options may not exist there",
        "53300": "stop another client, or raise max_wal_senders, max_connections or the role's limit",
        "55000": "ALTER DATABASE ... ALLOW_CONNECTIONS true, or connect to another database",
        "08P01": POOLER,
    },
    Command.IDENTIFY: {
        "42601": "this is no replication connection: a connection pooler may have left replication"
        " out, so connect to the server itself",
    },
    Command.TIMELINE_HISTORY: {"58P01": "the server has no history of this timeline"},
    Command.CREATE_SLOT: {
        "25001": "run it outside of a transaction: use a connection with autocommit=True",
        "42501": _PLUGIN,
        "42710": "use another name: whoever reads that slot would lose its changes with it",
        "53400": "drop a slot that nobody uses (walrow slot list), or raise max_replication_slots",
        "55000": _PREFLIGHT,
        "58P01": "the server has no such plugin: use pgoutput, or install it",
    },
    Command.READ_SLOT: {"42501": _REPLICATION},
    Command.ALTER_SLOT: _EXISTING_SLOT,
    Command.DROP_SLOT: _EXISTING_SLOT,
    Command.START: {
        "42501": _PLUGIN,
        "42704": "create it: walrow slot create {slot}",
        "55006": _USED,
        "55000": _PREFLIGHT,
        "58P01": "the slot's plugin is not installed, or WAL that it needs was removed: walrow slot"
        " list shows it",
    },
    Command.STREAM: {
        "42704": "a publication does not exist, or did not exist at this position of the WAL; create"
        " it before the slot",
        "40001": "the standby canceled it because of what it replayed: walrow slot list shows if the"
        " slot is lost",
        "57P01": "the server shuts down, or a person ended the connection: connect again",
        "57P02": "another process of the server crashed: connect again",
        "XX000": "there are transactions that PostgreSQL cannot stream, but can send at their commit:"
        f" try streaming=False, or --no-streaming; {_LOG}",
        "42501": f"{_PLUGIN}; {_LOG}",
        "58P01": f"WAL that the slot needs was removed: walrow slot list shows it; {_LOG}",
        "22P05": _NOT_UTF8,
        "42883": "a type has no send function: receive without binary values; or a row filter calls a"
        f" function that was dropped; {_LOG}",
    },
    Command.WAL: {
        "58P01": "the server does not have this WAL any more, so there is a gap: begin again with a"
        " new base backup and an empty directory; a slot keeps WAL until it is received",
        # PostgreSQL has no other SQLSTATE for a position that it does not have.
        "XX000": "the directory has WAL that this server does not have, as after the promotion of a"
        " standby that had received less: begin again with a new base backup and an empty directory",
        "55000": "the slot is logical, or has lost its WAL: walrow slot list shows it",
        "42704": "create the physical slot: create_slot=True, or --create-slot",
        "55006": _USED,
        "42501": _REPLICATION,
        "08P01": "it is a bug of walrow or of the server: report it",
    },
    Command.BACKUP: {
        "55000": "wal_level must be at least replica; if the server lacks WAL summaries since the"
        " parent of an incremental backup, take a full one",
        "42501": f"{_REPLICATION}; or the server cannot read one of its files, which the message names",
        "58P01": "if it is WAL that was removed: raise max_slot_wal_keep_size, or take the WAL with"
        " walrow backup wal",
        "58030": _LOG,
        "XX001": "a file on the server is damaged: its log names the pages; verify_checksums=False,"
        " or --no-verify-checksums, takes a backup of it anyway",
    },
    Command.PUBLICATION: {
        "42501": "the role must own the tables, and may CREATE in the database; all tables need a"
        " superuser",
        "42704": 'create it: CREATE PUBLICATION "{publication}" FOR TABLE ...',
        "42710": "drop it first, or use another name",
    },
    Command.COPY: {
        "22P05": _NOT_UTF8,
        "42501": "the role needs USAGE on the schemas and SELECT on the tables; if they have policies,"
        " it must own them or have BYPASSRLS",
    },
}
