"""Errors of the server as `walrow.errors.ReplicationError`, with what to do."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from walrow._postgres.failures import (
    INSUFFICIENT_PRIVILEGE,
    LOCK_NOT_AVAILABLE,
    OBJECT_IN_USE,
    QUERY_CANCELED,
    SERIALIZATION_FAILURE,
    UNDEFINED_OBJECT,
)
from walrow.errors import ReplicationError

if TYPE_CHECKING:
    import psycopg


def replication_error(
    error: psycopg.Error,
    failed: str,
    *,
    slot: str | None = None,
    publication: str | None = None,
    hint: str | None = None,
) -> ReplicationError:
    """Returns the error to raise from an error of psycopg, for the step that `failed`.

    Its text has the server's message, which is about the command and contains no rows.
    For a command that reads rows, use `copy_error`. Do not use it for errors of an
    invalid connection string: psycopg's text shows a part of it. `hint` is the remedy if the
    usual advice is wrong.
    """
    message = error.diag.message_primary or str(error) or type(error).__name__
    if error.diag.message_detail:
        message = f"{message} ({error.diag.message_detail})"
    said = error.diag.message_hint
    # Where the server has a hint, it knows which privilege is missing.
    if hint is None and not (said and error.sqlstate == INSUFFICIENT_PRIVILEGE):
        hint = _hint(error.sqlstate, slot, publication)
    hint = hint or said
    # psycopg's own messages may have several lines.
    reason = " ".join(f"{failed}: {message}".split())
    return ReplicationError(
        f"{reason}; {hint}" if hint else reason,
        sqlstate=error.sqlstate,
        slot=slot,
        publication=publication,
        hint=hint,
    )


def copy_error(
    error: psycopg.Error, failed: str, *, hint: str | None = None
) -> ReplicationError:
    """Returns the error to raise from the server's error in a COPY of a user's rows.

    The server's message may have a value, such as that on which a row filter fails. So
    only messages about tables, locks, connections and resources are shown.
    """
    sqlstate = error.sqlstate or ""
    if sqlstate in _WITHOUT_VALUES or sqlstate[:2] in _CLASSES_WITHOUT_VALUES:
        return replication_error(error, failed, hint=hint)
    name = _condition(sqlstate)
    code = f"SQLSTATE {sqlstate or 'unknown'}{f' ({name})' if name else ''}"
    hint = hint or _COPY_HINT
    text = f"{failed}: {code}; {hint}"
    return ReplicationError(text, sqlstate=error.sqlstate, hint=hint)


def _condition(sqlstate: str) -> str | None:
    """PostgreSQL's name of an SQLSTATE, such as `division_by_zero`."""
    from psycopg import errors

    try:
        found = errors.lookup(sqlstate).__name__
    except KeyError:
        return None
    # psycopg writes the same name as a class, with _ at the end if it has that already.
    return re.sub(r"(?<!^)(?=[A-Z])", "_", found.rstrip("_")).lower()


def _hint(
    sqlstate: str | None, slot: str | None, publication: str | None
) -> str | None:
    if sqlstate == INSUFFICIENT_PRIVILEGE and publication is not None:
        return (
            "the role must own the tables, and may CREATE in the database;"
            " all tables need a superuser"
        )
    if sqlstate == UNDEFINED_OBJECT:
        missing = []
        if slot is not None:
            missing.append(f"walrow slot create {shlex.quote(slot)}")
        if publication is not None:
            quoted = publication.replace('"', '""')
            missing.append(f'CREATE PUBLICATION "{quoted}" FOR TABLE ...')
        return f"create it: {' or '.join(missing)}" if missing else None
    return _HINTS.get(sqlstate or "")


_WITHOUT_VALUES = {INSUFFICIENT_PRIVILEGE, LOCK_NOT_AVAILABLE, SERIALIZATION_FAILURE}
#: Connections, resources, and interventions of an operator.
_CLASSES_WITHOUT_VALUES = {"08", "53", "57"}
_COPY_HINT = "it may be the publication's row filter, which fails on a row; the server's log says more"
#: By SQLSTATE, for replication commands. Otherwise the server's own hint is the best one.
_HINTS = {
    "25001": "run it outside of a transaction: use a connection with autocommit=True",
    INSUFFICIENT_PRIVILEGE: "the role needs the attribute REPLICATION: ALTER ROLE ... REPLICATION",
    "42710": "drop it first, or use another name",
    "53300": "stop another client, or raise max_wal_senders and max_connections",
    "53400": (
        "drop a slot that nobody uses (walrow slot list), or raise max_replication_slots"
    ),
    "55000": "walrow preflight finds the cause and says what to do",
    OBJECT_IN_USE: "stop the client that uses it; walrow slot list shows its process",
    QUERY_CANCELED: "it was canceled: run it again",
    "57P01": "the server is shutting down: connect again later",
    "57P02": "the server is restarting: connect again later",
    "57P03": "the server is starting or stopping: connect again later",
    "58P01": "the server has no such plugin: use pgoutput, or install it",
}
