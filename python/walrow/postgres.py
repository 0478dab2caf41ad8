"""Reads a server's catalog, and the settings that determine the text of values.

A stream identifies the types of its columns by OID. Only the server's catalog defines
the enum, domain, composite type, range or array behind an OID. Read the catalog while
the server is available, save it with the capture, and use it offline:

```python
with psycopg.connect("dbname=shop") as conn:
    catalog = walrow.postgres.catalog(conn, publications="shop")
Path("shop.catalog.json").write_text(catalog.to_json())

catalog = walrow.Catalog(Path("shop.catalog.json").read_text())
walrow.read("shop.wire", catalog=catalog)
```

OIDs belong to one database: use a catalog for captures of the same database. It is a
snapshot of the time when it was read. With a capture of another database, such as a
newly created one, the catalog works if it does not contain the capture's OIDs: types
are then found by schema and name. `Reader.unresolved_types` lists the types of a
capture that a catalog lacks, with their tables and columns. Read the catalog again for
them, and after `ALTER TYPE`.

Connections are psycopg connections (version 3) to servers from version 14 on. psycopg
is not imported before you pass a connection.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from walrow._core import Catalog
from walrow.errors import OptionError, SchemaError, SettingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import psycopg

__all__ = ["catalog", "check_settings", "options", "settings"]


def catalog(
    conn: psycopg.Connection[Any], *, publications: str | Sequence[str] | None = None
) -> Catalog:
    """Reads the definitions of types and published tables, which a stream lacks.

    The types are all types that are not built in. Row types of tables are included only
    if a column or another type uses them. The tables are the published tables with
    their published columns, as `walrow.schema` takes them.

    ```python
    with psycopg.connect("dbname=shop") as conn:
        catalog = walrow.postgres.catalog(conn, publications="shop")
    walrow.read("shop.wire", catalog=catalog)
    ```

    Use any connection to the database, including a replication connection
    (`replication="database"`) that does not stream. Its state does not change: an open
    transaction stays open, and no new transaction is left open.

    Args:
        conn: A psycopg connection.
        publications: One publication or several. Default: all of the database. Pass
            `()` for none. If they publish different columns of a table, the catalog has
            all of these columns, although a server refuses a stream with such
            publications.

    Raises:
        OptionError: A publication does not exist, or the connection is asynchronous, in
            pipeline mode, or not one of psycopg 3.
        SchemaError: A name is not in the connection's encoding, which SQL_ASCII allows.
        psycopg.Error: A query failed.
    """
    names = [publications] if isinstance(publications, str) else publications
    parameters = {"publications": None if names is None else list(names)}
    with _transaction(conn) as cursor:
        # Call only the server's own functions, whatever the user's schemas contain.
        cursor.execute("SET LOCAL search_path TO pg_catalog")
        if missing := _texts(conn, cursor.execute(_MISSING, parameters)):
            text = f"no publication {', '.join(missing)} in this database"
            raise OptionError(text)
        (json,) = _texts(conn, cursor.execute(_CATALOG, parameters))
    return Catalog(json)


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
    is_unknown = server_encoding.upper() == "SQL_ASCII"
    return {
        "DateStyle": "ISO",
        "IntervalStyle": "postgres",
        "extra_float_digits": "3",
        "bytea_output": "hex",
        "TimeZone": "UTC",
        "client_encoding": "SQL_ASCII" if is_unknown else "UTF8",
        "search_path": "",
    }


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
    ['client_encoding=UTF8', 'search_path=']

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
    with _transaction(conn) as cursor:
        (server_encoding,) = _texts(conn, cursor.execute("SHOW server_encoding"))
        for name, wanted in settings(server_encoding=server_encoding).items():
            (value,) = _texts(conn, cursor.execute(f"SHOW {name}"))
            if value not in {wanted, *_SAME.get(name, ())}:
                text = (
                    f"{name} is '{value}' instead of '{wanted}':"
                    " connect with options=walrow.postgres.options()"
                )
                raise SettingError(text, setting=name, value=value, wanted=wanted)


@contextlib.contextmanager
def _transaction(
    conn: psycopg.Connection[Any],
) -> Iterator[psycopg.ClientCursor[Any]]:
    """Opens a transaction, or a savepoint in an open one. Rolls it back at the end."""
    _check_connection(conn)
    import psycopg
    from psycopg import pq

    if conn.pgconn.pipeline_status != pq.PipelineStatus.OFF:
        text = "the connection is in pipeline mode, which delays results: exit it first"
        raise OptionError(text)
    # Parameters become literals in the query: a walsender accepts no bound parameters.
    with conn.transaction(force_rollback=True), psycopg.ClientCursor(conn) as cursor:
        yield cursor


def _check_connection(conn: Any) -> None:
    """Refuses what is no connection of psycopg 3. Never shows it: it may be a password."""
    if isinstance(conn, str):
        text = "a connection string: pass psycopg.connect(...) instead of its text"
        raise OptionError(text)
    module, name = type(conn).__module__, type(conn).__name__
    if hasattr(conn, "pgconn") and not hasattr(conn, "__aenter__"):
        return
    if hasattr(conn, "pgconn"):
        text = f"{name} is asynchronous: pass a psycopg.Connection"
    elif hasattr(conn, "connection"):
        text = f"{module}.{name} is not a connection: pass the connection itself"
    else:
        text = f"{module}.{name} is not a connection of psycopg 3: pip install 'walrow[postgres]'"
    raise OptionError(text)


def _texts(
    conn: psycopg.Connection[Any], cursor: psycopg.ClientCursor[Any]
) -> list[str]:
    """The first column as the server sent it, ignoring the user's adapters."""
    result = cursor.pgresult
    if result is None:
        return []
    # psycopg has no codec for SQL_ASCII.
    encoding = "utf-8" if conn.info.encoding == "ascii" else conn.info.encoding
    cells = [result.get_value(row, 0) for row in range(result.ntuples)]
    try:
        return [cell.decode(encoding) for cell in cells if cell is not None]
    except UnicodeDecodeError as error:
        text = f"a name of a type or table is not in {encoding}"
        raise SchemaError(text) from error


# SHOW appends the order of date parts to a style, and shows an empty path as quotes.
_SAME = {"DateStyle": ("ISO, MDY", "ISO, DMY", "ISO, YMD"), "search_path": ('""',)}

_MISSING = """
SELECT name
FROM unnest(%(publications)s::text[]) AS name
WHERE name NOT IN (SELECT pubname FROM pg_publication)
ORDER BY name
"""

# OIDs below 10000 are built-in types, which a catalog needs only for row types of some system
# catalogs. OIDs from 16384 on were not created by initdb. Between them are the types of
# information_schema and the other row types of system catalogs.
_CATALOG = """
WITH RECURSIVE published (table_oid, columns) AS (
    -- Version 14 has no column lists, and no attnames.
    SELECT c.oid, to_jsonb(p) -> 'attnames'
    FROM pg_publication_tables p
    JOIN pg_namespace n ON n.nspname = p.schemaname
    JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = p.tablename
    WHERE %(publications)s::text[] IS NULL OR p.pubname = ANY (%(publications)s::text[])
),
column_of (table_oid, number, name, type_oid, modifier) AS (
    SELECT DISTINCT p.table_oid, a.attnum, a.attname::text, a.atttypid, a.atttypmod
    FROM published p
    JOIN pg_attribute a ON a.attrelid = p.table_oid
    WHERE a.attnum > 0 AND NOT a.attisdropped
        AND coalesce(p.columns ? a.attname::text, true)
        -- Before 18, generated columns are never published, even if attnames lists them.
        AND (a.attgenerated = '' OR current_setting('server_version_num')::int >= 180000)
),
identity_of (table_oid, keys) AS (
    -- The array starts at 0. Columns that an index only includes come last.
    SELECT c.oid, (i.indkey::int2[])[0:i.indnkeyatts - 1]
    FROM pg_class c
    JOIN pg_index i ON i.indrelid = c.oid
    WHERE i.indisvalid AND i.indimmediate
        AND (c.relreplident = 'd' AND i.indisprimary
            OR c.relreplident = 'i' AND i.indisreplident)
),
-- point, box and others have elements too, but are not arrays of them.
element_of (type_oid, element_oid, delimiter) AS (
    SELECT t.oid, e.oid, e.typdelim::text
    FROM pg_type t
    JOIN pg_type e ON e.oid = t.typelem AND e.typarray = t.oid
),
member_of (type_oid, member_oid) AS (
    SELECT type_oid, element_oid FROM element_of
    UNION ALL SELECT element_oid, type_oid FROM element_of
    UNION ALL SELECT oid, typbasetype FROM pg_type WHERE typtype = 'd'
    UNION ALL SELECT rngtypid, rngsubtype FROM pg_range
    UNION ALL SELECT rngmultitypid, rngtypid FROM pg_range
    UNION ALL SELECT t.oid, a.atttypid
    FROM pg_type t
    JOIN pg_attribute a ON a.attrelid = t.typrelid
    WHERE t.typtype = 'c' AND a.attnum > 0 AND NOT a.attisdropped
),
reached (oid) AS (
    (
        SELECT t.oid
        FROM pg_type t
        LEFT JOIN pg_class c ON c.oid = t.typrelid
        WHERE t.oid >= 16384
            AND (t.typtype <> 'c' OR c.relkind = 'c')
            AND t.oid NOT IN (SELECT type_oid FROM element_of)
        UNION ALL
        SELECT type_oid FROM column_of
    )
    UNION
    SELECT m.member_oid FROM reached r JOIN member_of m ON m.type_oid = r.oid
),
type_json (oid, value) AS (
    SELECT t.oid, jsonb_build_object(
        'oid', t.oid::bigint, 'schema', n.nspname, 'name', t.typname
    ) || CASE
        WHEN t.typtype = 'e' THEN jsonb_build_object(
            'kind', 'enum',
            'labels', (
                SELECT coalesce(jsonb_agg(enumlabel ORDER BY enumsortorder), '[]')
                FROM pg_enum
                WHERE enumtypid = t.oid
            )
        )
        WHEN t.typtype = 'd' THEN jsonb_build_object(
            'kind', 'domain',
            'base', t.typbasetype::bigint,
            'type_modifier', t.typtypmod
        )
        WHEN t.typtype = 'c' THEN jsonb_build_object(
            'kind', 'composite',
            'attributes', (
                SELECT coalesce(jsonb_agg(jsonb_build_object(
                    'name', attname, 'type', atttypid::bigint, 'type_modifier', atttypmod
                ) ORDER BY attnum), '[]')
                FROM pg_attribute
                WHERE attrelid = t.typrelid AND attnum > 0 AND NOT attisdropped
            )
        )
        WHEN t.typtype = 'r' THEN jsonb_build_object(
            'kind', 'range',
            'subtype', (SELECT rngsubtype::bigint FROM pg_range WHERE rngtypid = t.oid)
        )
        WHEN t.typtype = 'm' THEN jsonb_build_object(
            'kind', 'multirange',
            'range', (SELECT rngtypid::bigint FROM pg_range WHERE rngmultitypid = t.oid)
        )
        WHEN e.type_oid IS NOT NULL THEN jsonb_build_object(
            'kind', 'array',
            'element', e.element_oid::bigint,
            'delimiter', e.delimiter
        )
        ELSE jsonb_build_object('kind', 'base')
    END
    FROM pg_type t
    JOIN pg_namespace n ON n.oid = t.typnamespace
    LEFT JOIN element_of e ON e.type_oid = t.oid
    WHERE t.oid IN (SELECT oid FROM reached)
        AND t.typtype <> 'p'
        AND (
            t.oid >= 10000 OR t.typtype = 'c'
            OR e.element_oid IN (SELECT oid FROM pg_type WHERE typtype = 'c')
        )
),
table_json (oid, value) AS (
    SELECT c.oid, jsonb_build_object(
        'schema', n.nspname, 'name', c.relname, 'oid', c.oid::bigint,
        'columns', coalesce(jsonb_agg(jsonb_build_object(
            'name', f.name, 'type', f.type_oid::bigint, 'type_modifier', f.modifier,
            'key', c.relreplident = 'f' OR coalesce(f.number = ANY (i.keys), false)
        ) ORDER BY f.number) FILTER (WHERE f.number IS NOT NULL), '[]')
    )
    FROM pg_class c
    JOIN pg_namespace n ON n.oid = c.relnamespace
    LEFT JOIN column_of f ON f.table_oid = c.oid
    LEFT JOIN identity_of i ON i.table_oid = c.oid
    WHERE c.oid IN (SELECT table_oid FROM published)
    GROUP BY c.oid, n.nspname, c.relname, c.relreplident
)
SELECT jsonb_build_object(
    'types', (SELECT coalesce(jsonb_agg(value ORDER BY oid), '[]') FROM type_json),
    'tables', (SELECT coalesce(jsonb_agg(value ORDER BY oid), '[]') FROM table_json)
)::text
"""
