"""Opens connections with the pinned settings: for replication, and for SQL."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from walrow._postgres import open_connections
from walrow._postgres.failures import Cause, OfPooler, OfServer, Verdict, judge
from walrow._postgres.hints import POOLER, Command, hint_for
from walrow._postgres.server_errors import replication_error
from walrow._postgres.session import is_same, server_encoding_of, settings
from walrow.errors import (
    ConnectionLostError,
    Error,
    OptionError,
    ReplicationError,
    SettingError,
)

if TYPE_CHECKING:
    import psycopg


def parameters_of(conninfo: Any = "", **parameters: Any) -> dict[str, Any]:
    """Parses a connection string into parameters of libpq.

    No error shows the string, because any part of a misspelled one may be the password.
    """
    library = psycopg_or_refuse()
    if not isinstance(conninfo, str):
        raise TypeError(
            "conninfo must be a connection string, such as 'dbname=shop', not "
            f"{type(conninfo).__name__}"
        )
    try:
        # The first of these also checks the names of parameters.
        checked = library.conninfo.make_conninfo(conninfo, **parameters)
        parsed: dict[str, Any] = library.conninfo.conninfo_to_dict(checked)
    except library.Error:
        pass
    else:
        if not _is_misplaced(conninfo, parsed):
            return parsed
    text = (
        "this is not a connection string: write it as 'host=db dbname=shop' or"
        " postgresql://user@host/shop, with special characters of a URL as %XX"
    )
    # Raised here, so that libpq's error, which quotes the string, is no context of it.
    raise OptionError(text)


def _is_misplaced(conninfo: str, parsed: dict[str, Any]) -> bool:
    """Whether a part of a password may be in another parameter, which messages show.

    For libpq, the first @ of a URL ends the password. It reads no connection string
    inside another connection string.
    """
    if conninfo.startswith(("postgresql://", "postgres://")):
        _, _, rest = conninfo.partition("://")
        user, _, place = rest.partition("@")
        if "@" in (rest if "/" in user else place).partition("?")[0]:
            return True
    shown = {name: str(parsed.get(name) or "") for name in _IN_MESSAGES}
    port = shown["port"].replace(",", "")
    if "@" in shown["host"] or (port and not port.isdigit()):
        return True
    return any(map(_is_conninfo, shown.values()))


def _is_conninfo(text: str) -> bool:
    library = psycopg_or_refuse()
    try:
        return bool(library.conninfo.conninfo_to_dict(text))
    except library.Error:
        return "://" in text


def connect(
    parameters: dict[str, Any],
    *,
    server_encoding: str | None = None,
    replication: str | None = "database",
    **others: str,
) -> psycopg.Connection[Any]:
    """Opens a connection in autocommit mode, for replication or, with None, for SQL.

    The settings that walrow pins, and `others`, follow the user's own `options`, so they win. They are
    read back: a pooler may leave them out. The server reports the encoding, if it is not given, which
    takes a second connection to a SQL_ASCII database.
    """
    encoded = settings(server_encoding=server_encoding or "UTF8")
    wanted, word = {**encoded, **_PINNED, **others}, replication
    try:
        conn = _checked(parameters, wanted, replication=word)
    except (ReplicationError, SettingError) as error:
        if replication is not None or getattr(error, "hint", POOLER) != POOLER:
            raise
        # PgBouncer passes the options of a replication connection on, which also accepts SQL.
        word = "database"
        try:
            conn = _checked(parameters, wanted, replication=word)
        except Error:
            raise error from None
    if server_encoding is None and server_encoding_of(conn) == "SQL_ASCII":
        conn.close()
        wanted["client_encoding"] = "SQL_ASCII"
        conn = _checked(parameters, wanted, replication=word)
        from walrow._postgres.attempting import TextLoader

        for name in ("text", "name", "varchar", "bpchar", 0):
            conn.adapters.register_loader(name, TextLoader)
    if word != replication:
        # Such a connection accepts no bound parameters.
        conn.cursor_factory = psycopg_or_refuse().ClientCursor
    return conn


@contextlib.contextmanager
def closed_after_error(conn: psycopg.Connection[Any], failed: str) -> Iterator[None]:
    """Closes a connection after any error. Errors of psycopg become a ReplicationError."""
    try:
        yield
    except BaseException as error:
        conn.close()
        if isinstance(error, psycopg_or_refuse().Error):
            raise replication_error(error, failed, Command.QUERY) from error
        raise


@contextlib.contextmanager
def connect_for_sql(
    parameters: dict[str, Any], **others: str
) -> Iterator[psycopg.Connection[Any]]:
    """Opens an ordinary connection with autocommit, and closes it at the end.

    An error of a statement inside becomes a ReplicationError.
    """
    conn = connect(parameters, server_encoding="UTF8", replication=None, **others)
    with closed_after_error(conn, "a query beside the stream failed"):
        yield conn
    conn.close()


def connect_to_ask(parameters: dict[str, Any], purpose: str) -> psycopg.Connection[Any]:
    """Opens an ordinary connection with autocommit, which is to be kept for questions.

    They wait neither long nor for locks. Its `application_name` has the purpose.
    """
    name = _resolved(parameters).get("application_name") or "walrow"
    named = {**parameters, "application_name": f"{name} {purpose}"}
    conn = connect(named, server_encoding="UTF8", replication=None, **_SHORT)
    # A prepared statement would keep its plan from before a table was altered.
    conn.prepare_threshold = None
    return conn


def again(conn: psycopg.Connection[Any]) -> dict[str, Any]:
    """The parameters of another connection to the server of a connection, which may be one of several hosts."""
    info = conn.info
    return {
        **info.get_parameters(),
        "host": info.host,
        "hostaddr": info.hostaddr or None,
        "port": info.port,
        "password": info.password or None,
        "target_session_attrs": "any",
    }


def _checked(
    given: dict[str, Any], wanted: Mapping[str, str], *, replication: str | None
) -> psycopg.Connection[Any]:
    conn = _open(given, wanted, replication=replication)
    with closed_after_error(conn, "cannot check the settings of the session"):
        _check(conn, wanted, has_sql=replication != "true")
    return conn


def _open(
    given: dict[str, Any], wanted: Mapping[str, str], *, replication: str | None
) -> psycopg.Connection[Any]:
    library = psycopg_or_refuse()
    from walrow._postgres.attempting import Attempts

    resolved = _resolved(given)
    pinned = (f"-c {name}={value}" for name, value in wanted.items())
    chosen = {
        **{k: v for k, v in _NOTICES_DEAD_PEERS.items() if resolved.get(k) is None},
        "fallback_application_name": "walrow",
        **given,
        "replication": replication,
        "options": " ".join(filter(None, [resolved.get("options"), *pinned])),
    }
    owner = open_connections.current()
    attempts = Attempts(owner)
    try:
        conn: psycopg.Connection[Any] = attempts.connection_class().connect(
            **chosen, autocommit=True
        )
    except library.Error as error:
        # The error itself may hold the password, in the connection that failed.
        reason = " ".join(f"cannot connect: {error}".split())
    else:
        if owner is not None:
            owner.opened(conn)
        return conn
    if owner is not None and owner.has_ended:
        raise ConnectionLostError(open_connections.ENDED)
    hosts = str(given.get("host") or os.environ.get("PGHOST") or "").split(",")
    raise _refusal(reason, attempts.cause(reason, hosts))


def _refusal(reason: str, cause: Cause) -> ReplicationError:
    match cause:
        case OfServer(sqlstate):
            hint = hint_for(Command.CONNECT, sqlstate)
        case OfPooler(sqlstate):
            hint = POOLER
        case _:
            is_lost = judge(cause) is Verdict.TEMPORARY
            return (ConnectionLostError if is_lost else ReplicationError)(reason)
    text = f"{reason}; {hint}" if hint else reason
    return ReplicationError(text, sqlstate=sqlstate, hint=hint)


def _check(
    conn: psycopg.Connection[Any], wanted: Mapping[str, str], *, has_sql: bool
) -> None:
    """Checks that the session has all settings that it was opened with."""
    # A connection without a database has no other query than SHOW. So one setting is checked.
    names = [*wanted] if has_sql else ["search_path"]
    cells = [f"pg_catalog.current_setting('{name}')" for name in names]
    query = f"SELECT {', '.join([*cells, _TRANSACTION_TIMEOUT])}"
    result = conn.execute((query if has_sql else "SHOW search_path").encode()).pgresult
    count = 0 if result is None else result.nfields
    found = [result.get_value(0, it) or b"" for it in range(count) if result]
    for name, cell in zip(names, found, strict=False):
        value = cell.decode("utf-8", "replace")
        if not is_same(name, value, wanted[name]):
            raise _overridden(name, value, wanted[name])
    # Not in `options`: a server refuses a connection with the name of a setting that it lacks.
    if has_sql and found[-1] not in {b"", b"0"}:
        conn.execute("SELECT pg_catalog.set_config('transaction_timeout', '0', false)")


def _resolved(given: dict[str, Any]) -> dict[str, str]:
    """Parameters, with the environment's and the service's, as libpq finds them.

    libpq resolves them when it begins to connect: here to a socket that does not exist.
    """
    library = psycopg_or_refuse()
    nowhere = {"host": "/", "hostaddr": "", "port": "1"}
    conninfo = library.conninfo.make_conninfo(**{**given, **nowhere})
    pgconn = library.pq.PGconn.connect_start(conninfo.encode())
    try:
        return {
            each.keyword.decode(): each.val.decode()
            for each in pgconn.info
            if each.val is not None
        }
    finally:
        pgconn.finish()


def _overridden(name: str, value: str, wanted: str) -> SettingError:
    variable = _VARIABLES.get(name)
    if variable is not None and variable in os.environ:
        advice = f"unset the environment variable {variable}"
    elif name == "client_encoding":
        advice = "leave client_encoding out of the connection's parameters"
    else:
        advice = (
            "the server did not get it from the connection's options; a connection pooler leaves them"
            " out if ignore_startup_parameters lists options: connect to the server itself"
        )
    text = f"{name} is '{value}' instead of '{wanted}': {advice}"
    return SettingError(text, setting=name, value=value, wanted=wanted)


def psycopg_or_refuse() -> Any:
    """psycopg, which is installed with `walrow[postgres]`."""
    try:
        import psycopg
        import psycopg.conninfo
    except ModuleNotFoundError as error:
        if error.name != "psycopg":
            raise
        text = "a connection needs psycopg: pip install 'walrow[postgres]'"
        raise ModuleNotFoundError(text, name="psycopg") from None
    return psycopg


#: libpq lets them win over `options`.
_VARIABLES = {
    "TimeZone": "PGTZ",
    "DateStyle": "PGDATESTYLE",
    "client_encoding": "PGCLIENTENCODING",
}
#: In the startup packet, as a connection of a pool may belong to another application afterwards. No
#: timeout ends a connection that works or waits: a walsender decodes inside a transaction, waits for
#: the locks of transactions while it creates a slot, and is idle while a load uses its snapshot.
#: To compile a query of the catalog, whose sizes the planner misjudges, takes seconds.
_PINNED = {
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "default_transaction_read_only": "off",
    "jit": "off",
}
_SHORT = {"statement_timeout": "30s", "lock_timeout": "2s"}
_TRANSACTION_TIMEOUT = "pg_catalog.current_setting('transaction_timeout', true)"
#: The parameters that the messages of libpq and of the server contain.
_IN_MESSAGES = ("host", "hostaddr", "port", "user", "dbname", "service")
#: The kernel then notices a peer that is gone, below the stream's own ping.
_NOTICES_DEAD_PEERS = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
