"""Sessions: connections, and the settings that determine the text of values."""

from __future__ import annotations

import codecs
import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from walrow.errors import OptionError, SettingError

if TYPE_CHECKING:
    import psycopg


def settings(*, server_encoding: str = "UTF8") -> dict[str, str]:
    """Returns the session settings under which walrow reads text without loss.

    The text of a value depends on the session that writes it. This includes a
    walsender. Settings of the database, the role and the server's configuration apply
    to it. A reload of the configuration can change them between two rows, without any
    sign in the stream. Settings that are passed when the connection starts do not
    change: see `options`.

    - `DateStyle=ISO`: dates in other styles do not distinguish day and month.
    - `IntervalStyle=postgres`: in `sql_standard`, the meaning of a sign is ambiguous.
    - `extra_float_digits=3`: with 0 or less, floats lose digits without any sign.
    - `bytea_output=hex`: needs half the bytes of `escape`, and is faster to read.
    - `TimeZone=UTC`: in other time zones, the offsets of `timestamp with time zone`
      change with the season. The instant is the same; with UTC, the text is also the
      same.
    - `client_encoding=UTF8`: Arrow's text is UTF-8. For a SQL_ASCII database, whose
      bytes have no known encoding, the value is `SQL_ASCII`: with UTF8, the server
      would fail at a row that is not UTF-8, and the slot could not advance beyond that
      row.
    - `quote_all_identifiers=off`: otherwise, the names in `regclass` and similar types
      are in quotes, also where they need none.
    - `search_path` is empty: otherwise, it depends on the path whether the names in
      `regclass` and similar types contain the schema.

    >>> from walrow import postgres
    >>> postgres.settings()["TimeZone"]
    'UTC'

    Args:
        server_encoding: The database's encoding, as `SHOW server_encoding` returns it.

    Returns:
        Names and values, for a startup message or for SET.
    """
    is_unknown = _upper(server_encoding) == "SQL_ASCII"
    return {
        "DateStyle": "ISO",
        "IntervalStyle": "postgres",
        "extra_float_digits": "3",
        "bytea_output": "hex",
        "TimeZone": "UTC",
        "client_encoding": "SQL_ASCII" if is_unknown else "UTF8",
        "quote_all_identifiers": "off",
        "search_path": "",
    }


def _upper(encoding: Any) -> str:
    if isinstance(encoding, str):
        return encoding.upper()
    kind = type(encoding).__name__
    raise TypeError(f"server_encoding must be a text, such as 'UTF8', not {kind}")


def options(*, server_encoding: str = "UTF8") -> str:
    """Returns `settings` as libpq's connection parameter `options`.

    ```python
    psycopg.connect(
        "dbname=shop", replication="database", options=walrow.postgres.options()
    )
    ```

    You can append others after a space: `-c work_mem=1GB`. In libpq, the environment
    variables PGTZ, PGDATESTYLE and PGCLIENTENCODING override them, so call
    `check_settings` afterwards.

    >>> from walrow import postgres
    >>> postgres.options().split(" -c ")[-2:]
    ['quote_all_identifiers=off', 'search_path=']

    Args:
        server_encoding: As in `settings`.
    """
    # No value contains a space or a backslash, which would need escaping.
    chosen = settings(server_encoding=server_encoding)
    return " ".join(f"-c {name}={value}" for name, value in chosen.items())


def check_settings(conn: psycopg.Connection[Any]) -> None:
    """Checks that a session has the `settings` for its database's encoding.

    Call it on the replication connection itself, before it streams: other sessions have
    their own settings. The state of the connection does not change, as in `catalog`.

    ```python
    conn = psycopg.connect(
        "dbname=shop", replication="database", options=walrow.postgres.options()
    )
    walrow.postgres.check_settings(conn)
    ```

    Args:
        conn: A psycopg connection.

    Raises:
        SettingError: A setting has another value. The error names the setting and both
            values.
        OptionError: The connection is asynchronous, in pipeline mode, or not one of
            psycopg 3.
        psycopg.Error: A query failed.
    """
    with transaction(conn) as cursor:
        (server_encoding,) = texts(conn, cursor.execute("SHOW server_encoding"))
        for name, wanted in settings(server_encoding=server_encoding).items():
            (value,) = texts(conn, cursor.execute(f"SHOW {name}"))
            if not is_same(name, value, wanted):
                text = (
                    f"{name} is '{value}' instead of '{wanted}':"
                    " connect with options=walrow.postgres.options()"
                )
                raise SettingError(text, setting=name, value=value, wanted=wanted)


def is_same(name: str, value: str, wanted: str) -> bool:
    """Whether SHOW writes a wanted value like this."""
    return value in {wanted, *_SAME.get(name, ())}


@contextlib.contextmanager
def transaction(
    conn: psycopg.Connection[Any],
) -> Iterator[psycopg.ClientCursor[Any]]:
    """Opens a transaction, or a savepoint in an open one. Rolls it back at the end."""
    check_usable(conn)
    import psycopg

    # Parameters become literals in the query: a walsender accepts no bound parameters.
    with conn.transaction(force_rollback=True), psycopg.ClientCursor(conn) as cursor:
        yield cursor


def records(
    conn: psycopg.Connection[Any],
    query: str,
    parameters: Mapping[str, Any] | None = None,
) -> list[Any]:
    """The JSON values in the first column of a query's result.

    The query finds only the server's own functions and tables, whatever the user's
    schemas contain, and its result ignores the user's adapters and quotes only names that
    need it.
    """
    return [json.loads(text) for text in json_texts(conn, query, parameters)]


def json_texts(
    conn: psycopg.Connection[Any],
    query: str,
    parameters: Mapping[str, Any] | None = None,
) -> list[str]:
    """Like `records`, but returns JSON. A byte that has no equivalent in UTF-8 becomes `'<81>'`."""
    from psycopg import errors

    def cells(sql: str) -> list[bytes]:
        with transaction(conn) as cursor:
            cursor.execute(SAME_NAMES)
            # With parameters, even an empty list, psycopg reads %% as %.
            return _cells(cursor.execute(sql.encode(), parameters or {}))

    try:
        return [it.decode(encoding_of(conn), BYTES) for it in cells(query)]
    except (errors.UntranslatableCharacter, errors.CharacterNotInRepertoire):
        # The server converts a cell as a whole or not at all, and does not name the object.
        codec, found = codec_of(server_encoding_of(conn)), cells(_RAW.format(query))
    return [bytes.fromhex(it.decode()).decode(codec, BYTES) for it in found]


def quote(conn: psycopg.Connection[Any], names: Sequence[str]) -> list[str]:
    """The names as SQL, with quotes where they are needed."""
    query = "SELECT to_jsonb(quote_ident(it)) FROM unnest(%(names)s::text[]) it"
    if any("\0" in name for name in names):
        raise OptionError("a name contains a NUL character")
    return records(conn, query, {"names": list(names)})


def check_usable(conn: Any) -> None:
    """Accepts only an open connection of psycopg 3 that is not in pipeline mode."""
    check_connection(conn)
    from psycopg import pq

    if conn.closed:
        raise OptionError("the connection is closed: pass an open one")
    if conn.pgconn.pipeline_status != pq.PipelineStatus.OFF:
        text = "the connection is in pipeline mode, which delays results: exit it first"
        raise OptionError(text)


def check_connection(conn: Any) -> None:
    """Accepts only a connection of psycopg 3. Never shows it: it may be a password."""
    if isinstance(conn, str):
        text = "conn is a text: pass a connection, such as psycopg.connect(...)"
        raise OptionError(text)
    module, name = type(conn).__module__, type(conn).__name__
    if hasattr(conn, "pgconn") and not hasattr(conn, "__aenter__"):
        return
    if hasattr(conn, "pgconn"):
        text = f"{name} is asynchronous: pass a psycopg.Connection"
    elif hasattr(conn, "connection"):
        text = f"{module}.{name} is not a connection: pass the connection itself"
    else:
        text = (
            f"conn is no connection of psycopg 3, but {module}.{name}: pass "
            "psycopg.connect(...), of pip install 'walrow[postgres]'"
        )
    raise OptionError(text)


def texts(
    conn: psycopg.Connection[Any], cursor: psycopg.ClientCursor[Any]
) -> list[str]:
    """The first column as the server sent it, ignoring the user's adapters."""
    return [text_of(conn, cell) for cell in _cells(cursor)]


def _cells(cursor: psycopg.ClientCursor[Any]) -> list[bytes]:
    result = cursor.pgresult
    if result is None:
        return []
    cells = [result.get_value(row, 0) for row in range(result.ntuples)]
    return [cell for cell in cells if cell is not None]


def text_of(conn: psycopg.Connection[Any], cell: bytes) -> str:
    """A text that the server sent. A SQL_ASCII database may have any bytes in it."""
    return cell.decode(encoding_of(conn), BYTES)


def encoding_of(conn: psycopg.Connection[Any]) -> str:
    """The codec of a connection's commands and names."""
    # psycopg has no codec for SQL_ASCII.
    return "utf-8" if conn.info.encoding == "ascii" else conn.info.encoding


def server_encoding_of(conn: psycopg.Connection[Any]) -> str:
    """The encoding of a connection's database."""
    return (conn.pgconn.parameter_status(b"server_encoding") or b"").decode()


def codec_of(encoding: str) -> str:
    """Python's codec of a database's encoding. There is none for SQL_ASCII and EUC_TW."""
    name = encoding.replace("WIN", "cp").replace("KOI8", "koi8-")
    with contextlib.suppress(LookupError):
        return codecs.lookup(name).name
    return "utf-8"


def _printed(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    wrong = error.object[error.start : error.end]
    return "".join(f"'<{byte:02x}>'" for byte in wrong), error.end


#: In a transaction, queries then find only the server's own functions and tables, and quote
#: only names that need it.
SAME_NAMES = """
SELECT pg_catalog.set_config('search_path', 'pg_catalog', true),
    pg_catalog.set_config('quote_all_identifiers', 'off', true)
"""
#: Decodes a byte without an equivalent in UTF-8 as `'<81>'`. The quotes make strings and identifiers of SQL
#: invalid: a row filter with another text would choose other rows.
BYTES = "walrow.bytes"
codecs.register_error(BYTES, _printed)
#: Nothing is converted.
_RAW = """
SELECT encode(convert_to(it::text, getdatabaseencoding()), 'hex') FROM (
{}
) raw (it)
"""
# SHOW appends the order of date parts to a style, and shows an empty path as quotes.
_SAME = {"DateStyle": ("ISO, MDY", "ISO, DMY", "ISO, YMD"), "search_path": ('""',)}
