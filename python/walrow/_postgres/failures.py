"""The causes of failed connections and commands, and whether another connection may succeed.

```text
libpq's text or an error ─► Cause ─► judge() ─► Verdict
```
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from typing import NamedTuple, TypeGuard, assert_never

from walrow.errors import ConnectionLostError, ReplicationError


class Lost(NamedTuple):
    """The connection ended, or the server does not answer."""


class OfClient(NamedTuple):
    """libpq's own failure, which has no SQLSTATE. Its text is in the client's language."""

    text: str


class OfServer(NamedTuple):
    """The server's error, or a pooler's that passes it on. Its text may be translated."""

    sqlstate: str
    slot: str | None = None


class OfPooler(NamedTuple):
    """The error of a program between walrow and the server, which calls most errors 08P01."""

    sqlstate: str
    text: str


Cause = Lost | OfClient | OfServer | OfPooler


class Verdict(enum.Enum):
    """Whether another connection may succeed although nobody changes anything."""

    TEMPORARY = enum.auto()
    #: Three of the same in a row are permanent.
    DOUBTFUL = enum.auto()
    PERMANENT = enum.auto()


def judge(cause: Cause) -> Verdict:
    """Judges a cause.

    >>> judge(OfServer("28P01")), judge(OfServer("57P03")), judge(OfServer("XX000"))
    (<Verdict.PERMANENT: 3>, <Verdict.TEMPORARY: 1>, <Verdict.DOUBTFUL: 2>)
    """
    match cause:
        case Lost():
            return Verdict.TEMPORARY
        case OfClient(text):
            is_final = _REFUSED.search(_NAMES.sub("", text)) is not None
            return Verdict.PERMANENT if is_final else Verdict.TEMPORARY
        case OfPooler(sqlstate, text) if sqlstate == PROTOCOL_VIOLATION:
            # The pooler waits for its server, or has no connection left.
            waits = _POOLER_WAITS.search(text) and not _REFUSED.search(text)
            return Verdict.TEMPORARY if waits else Verdict.PERMANENT
        case OfPooler(sqlstate):
            return _of_sqlstate(sqlstate)
        case OfServer("55000", slot) if slot is not None:
            # The slot is lost, or of another kind.
            return Verdict.PERMANENT
        case OfServer(sqlstate):
            return _of_sqlstate(sqlstate)
    assert_never(cause)


def _of_sqlstate(sqlstate: str) -> Verdict:
    if sqlstate in _TEMPORARY:
        return Verdict.TEMPORARY
    if sqlstate in _PERMANENT or sqlstate[:2] in _PERMANENT_CLASSES:
        return Verdict.PERMANENT
    if sqlstate[:2] in _TEMPORARY_CLASSES:
        return Verdict.TEMPORARY
    return Verdict.DOUBTFUL


def cause_of(error: BaseException) -> Cause | None:
    """The cause of an error. None if it is not about a connection."""
    if isinstance(error, ConnectionLostError):
        return Lost()
    if not isinstance(error, ReplicationError):
        return None
    if error.sqlstate is None:
        return OfClient(error.reason)
    if error.sqlstate == PROTOCOL_VIOLATION and _POOLER_WAITS.search(error.reason):
        return OfPooler(error.sqlstate, error.reason)
    return OfServer(error.sqlstate, error.slot)


def causes_in(text: str) -> tuple[list[Cause], str]:
    r"""The causes in libpq's verbose text of a failed attempt, and the text without the details.

    libpq may attempt twice, with and without encryption. PostgreSQL adds the place in its source, and
    poolers do not.

    >>> causes_in(
    ...     "failed: FATAL:  28000: Rolle »x« existiert nicht\nORT:  f, miscinit.c:7"
    ... )
    ([OfServer(sqlstate='28000', slot=None)], 'failed: FATAL:  Rolle »x« existiert nicht')
    >>> causes_in("failed: FATAL:  08P01: no such database: x")
    ([OfPooler(sqlstate='08P01', text='no such database: x')], 'failed: FATAL:  no such database: x')
    """
    starts = list(_CODE.finditer(text))
    ends = [*(it.start() for it in starts[1:]), len(text)]
    causes: list[Cause] = []
    for start, end in zip(starts, ends, strict=False):
        said = text[start.end() : end]
        is_server = _PLACE.search(said) is not None
        code = start[1]
        causes.append(OfServer(code) if is_server else OfPooler(code, said.strip()))
    plain = _PLACE.sub("", _CODE.sub("", text))
    return causes or [OfClient(plain)], plain


def decisive(causes: Sequence[Cause]) -> Cause:
    """Returns the cause that matters of several hosts' causes: a temporary one, if any."""
    return next((it for it in causes if judge(it) is Verdict.TEMPORARY), causes[-1])


def deserves_reconnect(error: BaseException) -> bool:
    """Whether another connection may succeed although nobody changes anything.

    True for a lost connection, a server that shuts down, starts or has no resources
    left, and a slot that is active: a server keeps it for the old connection until it
    notices that this one is gone. So limit how often you try. False for everything that
    somebody must fix: a slot or publication that is missing, a slot that lost its WAL,
    a login that was refused, a row that the server cannot send, wrong options.

    The SQLSTATE decides, in any language. If there are several hosts, all must have
    refused. libpq's own failures have no SQLSTATE: there, the text decides.

    >>> from walrow.errors import ReplicationError
    >>> deserves_reconnect(ReplicationError(sqlstate="57P01"))
    True
    >>> deserves_reconnect(ReplicationError(sqlstate="42704"))
    False
    """
    return verdict_of(error) is Verdict.TEMPORARY


def is_of_content(error: BaseException) -> TypeGuard[ReplicationError]:
    """Whether the server failed on what it should send: it fails there again and again.

    A value has another encoding or is too large, a row filter fails, or the WAL is beyond its decoder.
    """
    sqlstate = error.sqlstate if isinstance(error, ReplicationError) else None
    return (sqlstate or "")[:2] in {"22", "54", "P0", "XX"}


def verdict_of(error: BaseException) -> Verdict:
    """Judges an error. An error that is not about a connection is permanent."""
    cause = cause_of(error)
    return Verdict.PERMANENT if cause is None else judge(cause)


def pause_after(failed: int) -> float:
    """The seconds before another connection: twice as many after each failure in a row, up to 15.

    >>> [pause_after(failed) for failed in (0, 1, 5, 6, 10_000)]
    [0.25, 0.5, 8.0, 15.0, 15.0]
    """
    return min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failed, _DOUBLINGS))


UNDEFINED_OBJECT = "42704"
INSUFFICIENT_PRIVILEGE = "42501"
LOCK_NOT_AVAILABLE = "55P03"
QUERY_CANCELED = "57014"
PROTOCOL_VIOLATION = "08P01"
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

#: Connections, resources, and interventions of an operator.
_TEMPORARY_CLASSES = {"08", "53", "57"}
_TEMPORARY = {
    OBJECT_IN_USE,
    # If the slot is lost, the next connection fails with the reason.
    SERIALIZATION_FAILURE,
    "58030",  # io_error
}
#: Features, values, logins, databases, and names or privileges. A file of the server that is missing.
_PERMANENT_CLASSES = {"0A", "22", "28", "3D", "42", "58"}
_PERMANENT = {PROTOCOL_VIOLATION, "57P04"}  # database_dropped

#: The SQLSTATE in libpq's verbose texts. Only the word before it is translated.
_CODE = re.compile(r"(?<=:  )([0-9A-Z]{5}): ")
#: The place in the server's source, at the end.
_PLACE = re.compile(r"\n[^\n:]+:  (?:[^\n,]+, )?[^\n:]+:\d+$", re.MULTILINE)
#: Names of hosts, roles and databases: they may have any words.
_NAMES = re.compile(r"\"[^\"]*\"|(?<=failed to resolve host )'[^']*'")
#: Messages of libpq, if the connection's parameters, password or certificates are unusable. Messages of
#: a server, for the case that its SQLSTATE is not known.
_REFUSED = re.compile(
    r"authentication failed|no password supplied|no pg_hba\.conf entry"
    r"|pg_hba\.conf rejects|(?:role|database) .*does not exist"
    r"|permission denied|is not permitted to log in|must be superuser or replication"
    r"|certificate|does not support SSL|server name indication"
    r"|protocol version|wrong version number|handshake failure"
    r"|definition of service|invalid (?:connection option|port|value|\w+ value)"
    r"|could not match \d+ |may not be used|private key"
    r"|authentication method|channel binding"
    r"|unsupported startup parameter|no such (?:database|user)|bouncer config error",
    re.IGNORECASE,
)
_POOLER_WAITS = re.compile(
    r"server login has been failing|cannot connect to server|server conn crashed"
    r"|query_wait_timeout|client_login_timeout|no more connections|is disabled"
    r"|shutting down|does not allow connections",
    re.IGNORECASE,
)
