"""Opens connections with the pinned settings: for replication, and for SQL."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from walrow._postgres import open_connections
from walrow._postgres.server_errors import replication_error
from walrow._postgres.session import check_settings, options
from walrow.errors import (
    ConnectionLostError,
    OptionError,
    ReplicationError,
    SettingError,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    import psycopg

    from walrow._postgres.open_connections import OpenConnections


def parameters_of(conninfo: Any = "", **parameters: Any) -> dict[str, Any]:
    """Parses a connection string into parameters of libpq.

    No error shows the string, because any part of a misspelled one may be the password.
    """
    library = psycopg_or_refuse()
    if not isinstance(conninfo, str):
        text = (
            "conninfo must be a connection string, such as 'dbname=shop', not "
            f"{type(conninfo).__name__}"
        )
        raise TypeError(text)
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
    replication: bool = True,
) -> psycopg.Connection[Any]:
    """Opens a connection with the value formats of a stream, and checks its settings.

    The pinned settings follow the user's own `options`, so they win. A replication connection has
    no timeout of the server's settings. The server reports the encoding, if it is not given, which
    takes a second connection to a SQL_ASCII database.
    """
    word = "database" if replication else None
    conn = _open(parameters, server_encoding or "UTF8", replication=word)
    found = conn.pgconn.parameter_status(b"server_encoding")
    if server_encoding is None and found == b"SQL_ASCII":
        conn.close()
        conn = _open(parameters, found.decode(), replication=word)
    with closed_after_error(conn, "cannot check the settings of the session"):
        try:
            check_settings(conn)
        except SettingError as error:
            raise _overridden(error) from None
        if replication:
            without_timeouts(conn)
    return conn


def connect_physical(parameters: dict[str, Any]) -> psycopg.Connection[Any]:
    """Opens a connection for physical replication, which has no database."""
    return _open(parameters, "UTF8", replication="true")


def without_timeouts(conn: psycopg.Connection[Any]) -> None:
    """Turns off the timeouts that would end a replication connection which works or waits.

    A walsender decodes inside a transaction, waits for the locks of transactions while it
    creates a slot, and is idle in a transaction while a load uses its snapshot.
    """
    conn.execute(_WITHOUT_TIMEOUTS)


@contextlib.contextmanager
def closed_after_error(conn: psycopg.Connection[Any], failed: str) -> Iterator[None]:
    """Closes a connection after any error. Errors of psycopg become a ReplicationError."""
    try:
        yield
    except BaseException as error:
        conn.close()
        if isinstance(error, psycopg_or_refuse().Error):
            raise replication_error(error, failed) from error
        raise


@contextlib.contextmanager
def connect_for_sql(parameters: dict[str, Any]) -> Iterator[psycopg.Connection[Any]]:
    """Opens an ordinary connection with autocommit, and closes it at the end.

    An error of a statement inside becomes a ReplicationError.
    """
    conn = _open(parameters, "UTF8", replication=None)
    with closed_after_error(conn, "a query beside the stream failed"):
        yield conn
    conn.close()


def connect_to_ask(parameters: dict[str, Any], purpose: str) -> psycopg.Connection[Any]:
    """Opens an ordinary connection with autocommit, which is to be kept for questions.

    They wait neither long nor for locks. No timeout of the server ends it while it is idle. Its
    `application_name` has the purpose.
    """
    name = _resolved(parameters).get("application_name") or "walrow"
    named = {**parameters, "application_name": f"{name} {purpose}"}
    conn = _open(named, "UTF8", replication=None)
    with closed_after_error(conn, "a query beside the stream failed"):
        # A prepared statement would keep its plan from before a table was altered.
        conn.prepare_threshold = None
        conn.execute(_SHORT)
    return conn


def with_jit_off(given: str | None) -> str:
    """A connection's `options`, so that the server compiles no query of walrow's.

    They are about the catalog, whose sizes the planner misjudges: compiling takes seconds.
    """
    return " ".join(filter(None, [given, _JIT_OFF]))


def options_with_jit_off(parameters: dict[str, Any]) -> str:
    """The `options` of a connection as libpq finds them, extended by `with_jit_off`."""
    return with_jit_off(_resolved(parameters).get("options"))


def _open(
    given: dict[str, Any], encoding: str, *, replication: str | None
) -> psycopg.Connection[Any]:
    library = psycopg_or_refuse()
    resolved = _resolved(given)
    pinned = " ".join(
        filter(None, [resolved.get("options"), options(server_encoding=encoding)])
    )
    chosen = {
        **{k: v for k, v in _NOTICES_DEAD_PEERS.items() if resolved.get(k) is None},
        "fallback_application_name": "walrow",
        **given,
        "replication": replication,
        "options": with_jit_off(pinned),
    }
    owner = open_connections.current()
    try:
        conn: psycopg.Connection[Any] = _connection_class(owner).connect(
            **chosen, autocommit=True
        )
    except library.Error as error:
        # The error itself holds the password, in the connection that failed.
        reason, sqlstate = " ".join(str(error).split()), error.sqlstate
    else:
        if owner is not None:
            owner.opened(conn)
        return conn
    if owner is not None and owner.has_ended:
        raise ConnectionLostError(_ENDED)
    raise ReplicationError(reason, sqlstate=sqlstate)


def _connection_class(owner: OpenConnections | None) -> type[psycopg.Connection[Any]]:
    """The class of psycopg, which gives up connecting when its owner has ended."""
    library = psycopg_or_refuse()
    if owner is None:
        found: type[psycopg.Connection[Any]] = library.Connection
        return found
    of = owner

    class Connection(library.Connection):  # type: ignore[misc, name-defined]
        @classmethod
        def _connect_gen(
            cls, *arguments: Any, **options: Any
        ) -> Generator[Any, Any, Any]:
            # psycopg goes on with this at least ten times a second. If it gets another name, there
            # is only one effect: a receiver that ends leaves a thread behind that still connects.
            steps = super()._connect_gen(*arguments, **options)
            ready = None
            while True:
                if of.has_ended:
                    steps.close()
                    raise library.OperationalError(_ENDED)
                try:
                    wanted = steps.send(ready)
                except StopIteration as end:
                    return end.value
                ready = yield wanted

    return Connection


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


def _overridden(error: SettingError) -> SettingError:
    name = error.setting or ""
    variable = _VARIABLES.get(name)
    if variable in os.environ:
        advice = f"unset the environment variable {variable}"
    elif name == "client_encoding":
        advice = "leave client_encoding out of the connection's parameters"
    else:
        advice = "the server does not take it from the connection's options"
    return SettingError(
        f"{name} is '{error.value}' instead of '{error.wanted}': {advice}",
        setting=error.setting,
        value=error.value,
        wanted=error.wanted,
    )


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
#: Not in `options`: a server refuses a connection with the name of a setting that it lacks.
_WITHOUT_TIMEOUTS = """
SELECT pg_catalog.set_config(name, '0', false)
FROM pg_catalog.pg_settings
WHERE name IN (
    'idle_in_transaction_session_timeout', 'idle_session_timeout', 'lock_timeout',
    'transaction_timeout'
)
"""
#: The servers from 14 on have all of them.
_SHORT = "SET statement_timeout = '30s'; SET lock_timeout = '2s'; SET idle_session_timeout = 0"
_JIT_OFF = "-c jit=off"
#: The parameters that the messages of libpq and of the server contain.
_IN_MESSAGES = ("host", "hostaddr", "port", "user", "dbname", "service")
_ENDED = "the receiver has ended, and connects no more"
#: The kernel then notices a peer that is gone, below the stream's own ping.
_NOTICES_DEAD_PEERS = {
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",
}
