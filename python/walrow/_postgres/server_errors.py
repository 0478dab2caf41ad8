"""Errors of the server as `walrow.errors.ReplicationError`, with what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from walrow._postgres.failures import (
    INSUFFICIENT_PRIVILEGE,
    LOCK_NOT_AVAILABLE,
    SERIALIZATION_FAILURE,
    UNDEFINED_OBJECT,
)
from walrow._postgres.hints import Command, hint_for
from walrow._postgres.known_bugs import known_bugs
from walrow.errors import ReplicationError

if TYPE_CHECKING:
    import psycopg


def replication_error(
    error: psycopg.Error,
    failed: str,
    command: Command,
    *,
    slot: str | None = None,
    publication: str | None = None,
    hint: str | None = None,
) -> ReplicationError:
    """Returns the error to raise from an error of psycopg, for the step that `failed`.

    Its text has the server's message, which is about the command and contains no rows.
    For a command that reads rows, use `copy_error`. Do not use it for errors of an
    invalid connection string: psycopg's text shows a part of it. The server's own hint comes
    first, then `hint`, then the command's.
    """
    message = error.diag.message_primary or str(error) or type(error).__name__
    if error.diag.message_detail:
        message = f"{message} ({error.diag.message_detail})"
    hint = (
        error.diag.message_hint
        or hint
        or hint_for(command, error.sqlstate, slot=slot, publication=publication)
    )
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
        return replication_error(error, failed, Command.COPY, hint=hint)
    name = _condition(sqlstate)
    code = f"SQLSTATE {sqlstate or 'unknown'}{f' ({name})' if name else ''}"
    hint = hint or hint_for(Command.COPY, sqlstate) or _COPY_HINT
    text = f"{failed}: {code}; {hint}"
    return ReplicationError(text, sqlstate=error.sqlstate, hint=hint)


def stream_error(
    sqlstate: str | None,
    slot: str,
    publications: tuple[str, ...],
    version: int = 0,
    place: str = "",
) -> ReplicationError:
    """The error of a stream that the server ended, maybe at the change of a `place`.

    The server's text may contain data, so it is left to the server's log.
    """
    hint = hint_for(Command.STREAM, sqlstate) or "the server's log says more"
    for bug, text in known_bugs(version):
        if bug.sqlstate is not None and bug.sqlstate == sqlstate:
            hint = f"{hint}; or {text}"
    reason = f'the server ended the stream of slot "{slot}"{place}, SQLSTATE {sqlstate}; {hint}'
    names = ", ".join(publications) if sqlstate == UNDEFINED_OBJECT else None
    return ReplicationError(
        reason, sqlstate=sqlstate, slot=slot, publication=names, hint=hint
    )


def _condition(sqlstate: str) -> str | None:
    """PostgreSQL's name of an SQLSTATE, such as `division_by_zero`."""
    from psycopg import errors

    try:
        found = errors.lookup(sqlstate).__name__
    except KeyError:
        return None
    # psycopg writes the same name as a class, with _ at the end if it has that already.
    return re.sub(r"(?<!^)(?=[A-Z])", "_", found.rstrip("_")).lower()


_WITHOUT_VALUES = {INSUFFICIENT_PRIVILEGE, LOCK_NOT_AVAILABLE, SERIALIZATION_FAILURE}
#: Connections, resources, and interventions of an operator.
_CLASSES_WITHOUT_VALUES = {"08", "53", "57"}
_COPY_HINT = "it may be the publication's row filter, which fails on a row; the server's log says more"
