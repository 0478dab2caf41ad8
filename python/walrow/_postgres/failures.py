"""Errors of replication connections: what to do, and whether to connect again."""

from __future__ import annotations

import re

from walrow._postgres.known_bugs import known_bugs
from walrow.errors import ConnectionLostError, ReplicationError


def deserves_reconnect(error: BaseException) -> bool:
    """Whether another connection may succeed although nobody changes anything.

    True for a lost connection, a server that shuts down, starts or has no resources
    left, and a slot that is active: a server keeps it for the old connection until it
    notices that this one is gone. So limit how often you try. False for everything that
    somebody must fix: a slot or publication that is missing, a slot that lost its WAL,
    a login that was refused, a row that the server cannot send, wrong options.

    A server's refusal to connect has no SQLSTATE. Its text decides, and it may be
    translated: an unknown one deserves another attempt. If there are several hosts, all
    must have refused.

    >>> from walrow.errors import ReplicationError
    >>> deserves_reconnect(ReplicationError(sqlstate="57P01"))
    True
    >>> deserves_reconnect(ReplicationError(sqlstate="42704"))
    False
    """
    if isinstance(error, ConnectionLostError):
        return True
    if not isinstance(error, ReplicationError):
        return False
    if error.sqlstate is None:
        return not _is_refused(error.reason)
    return error.sqlstate in _TEMPORARY or (
        error.sqlstate[:2] in _TEMPORARY_CLASSES and error.sqlstate not in _PERMANENT
    )


def pause_after(failed: int) -> float:
    """The seconds before another connection: twice as many after each failure in a row, up to 15.

    >>> [pause_after(failed) for failed in (0, 1, 5, 6, 10_000)]
    [0.25, 0.5, 8.0, 15.0, 15.0]
    """
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failed, _DOUBLINGS))


def _is_refused(reason: str) -> bool:
    """Whether every host has refused a login for good."""
    # The first part repeats the last host's.
    whole, *hosts = _HOST.split(reason)
    return all(_REFUSED.search(_NAMES.sub("", each)) for each in hosts or [whole])


def stream_error(
    sqlstate: str | None,
    slot: str,
    publications: tuple[str, ...],
    version: int = 0,
) -> ReplicationError:
    """The error of a stream that the server ended.

    The server's text may contain data, so it is left to the server's log.
    """
    hint = _HINTS.get(sqlstate or "", "the server's log says more")
    for bug, text in known_bugs(version):
        if bug.sqlstate is not None and bug.sqlstate == sqlstate:
            hint = f"{hint}; or {text}"
    reason = (
        f'the server ended the stream of slot "{slot}", SQLSTATE {sqlstate}; {hint}'
    )
    names = ", ".join(publications) if sqlstate == UNDEFINED_OBJECT else None
    return ReplicationError(
        reason, sqlstate=sqlstate, slot=slot, publication=names, hint=hint
    )


UNDEFINED_OBJECT = "42704"
INSUFFICIENT_PRIVILEGE = "42501"
LOCK_NOT_AVAILABLE = "55P03"
QUERY_CANCELED = "57014"
#: Seen once among hundreds of killed receivers, and gone with the next connection.
INTERNAL_ERROR = "XX000"
#: A slot that another process has.
OBJECT_IN_USE = "55006"
#: Another session changed a table while a load began, or a standby's replay was in conflict.
SERIALIZATION_FAILURE = "40001"

#: A server keeps a slot for an old connection until it notices that this connection is gone.
BUSY_SECONDS = 90.0
_FIRST_PAUSE = 0.25
_LONGEST_PAUSE = 15.0
#: A float cannot hold the thousandth one.
_DOUBLINGS = 10

_TEMPORARY_CLASSES = {"08", "53"}
_TEMPORARY = {
    OBJECT_IN_USE,
    QUERY_CANCELED,
    # If the slot is lost, the next connection fails with the reason.
    SERIALIZATION_FAILURE,
    "57P01",  # admin_shutdown, also pg_terminate_backend
    "57P02",  # crash_shutdown
    "57P03",  # cannot_connect_now
    "57P05",  # idle_session_timeout
    "58030",  # io_error
}
_PERMANENT = {"08P01"}  # protocol_violation

#: How psycopg begins what happened with one of several hosts.
_HOST = re.compile(r"(?:^|\s)- host: .*?, hostaddr: (?:None|'[^']*'): ", re.DOTALL)
#: Names of hosts, roles and databases: they may have any words.
_NAMES = re.compile(r"\"[^\"]*\"|(?<=failed to resolve host )'[^']*'")
#: The messages of libpq if the server or libpq itself refuses a login for good.
_REFUSED = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry"
    r"|pg_hba\.conf rejects|(?:role|database) .*does not exist"
    r"|permission denied|is not permitted to log in|must be superuser or replication"
    r"|certificate|does not support SSL|server name indication"
    r"|definition of service|invalid (?:connection option|port|value|\w+ value)"
    r"|could not match \d+ |may not be used|private key"
    r"|authentication method|channel binding",
    re.IGNORECASE,
)
_HINTS = {
    UNDEFINED_OBJECT: (
        "a publication does not exist, or did not exist at this position of the WAL;"
        " create it before the slot"
    ),
    SERIALIZATION_FAILURE: (
        "the standby canceled it because of what it replayed: walrow slot list shows if the slot is lost"
    ),
    "57P01": "the server shuts down, or somebody ended the connection: connect again",
    "57P02": "another process of the server crashed: connect again",
    INTERNAL_ERROR: (
        "there are transactions that PostgreSQL cannot stream, but can send at their commit:"
        " try streaming=False, or --no-streaming; the server's log says more"
    ),
    "22P05": (
        "a character has no equivalent in client_encoding; the server's log says more"
    ),
    "42883": (
        "a type has no send function, which binary values need; the server's log says more"
    ),
}
