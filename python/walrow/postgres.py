"""What is asked of a server: its catalog, and the settings that values depend on.

A stream names the types of its columns by OID alone. What is behind the OID of an enum, a
domain, a composite type, a range or an array of one, only the server's catalog knows. Read
while that is at hand and saved beside a capture, it is used offline:

```python
with psycopg.connect("dbname=shop") as conn:
    catalog = walrow.postgres.catalog(conn, publications="shop")
Path("shop.catalog.json").write_text(catalog.to_json())

catalog = walrow.Catalog(Path("shop.catalog.json").read_text())
walrow.read("shop.wire", catalog=catalog)
```

OIDs are a database's own: a catalog is for captures of the same database, and it is as
it was when it was read. Of another database, such as one made anew, it serves where no OID
is in it: types are then told by schema and name. `Reader.unresolved_types` tells whether a
capture has types that a catalog lacks; `ALTER TYPE` is another reason to read it again.

Connections are psycopg's (version 3), on servers from 14 on; nothing is imported before one
is handed in.
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
    """Reads what a stream does not say of types and tables.

    The types are all that are not built in, except the row types of tables, which are there
    if something has them for its type. The tables are those of publications, with the
    columns that these publish, as `walrow.schema` takes them.

    ```python
    with psycopg.connect("dbname=shop") as conn:
        catalog = walrow.postgres.catalog(conn, publications="shop")
    walrow.read("shop.wire", catalog=catalog)
    ```

    Any connection to the database will do, a replication connection
    (`replication="database"`) too, as long as it does not stream. It is left in the state it
    was in: a transaction that was open stays open, and none is left open.

    Args:
        conn: A psycopg connection.
        publications: One publication or several; None stands for all of the database, `()`
            for none. Of a table of which they publish different columns, all are there,
            though a server lets no stream have such publications together.

    Raises:
        OptionError: There is no such publication, or the connection is in pipeline mode.
        SchemaError: A name is not in the connection's encoding, which SQL_ASCII allows.
        psycopg.Error: The server refused.
    """
    names = [publications] if isinstance(publications, str) else publications
    parameters = {"publications": None if names is None else list(names)}
    with _transaction(conn) as cursor:
        # What is called is the server's own, whatever a user's schemas hold.
        cursor.execute("SET LOCAL search_path TO pg_catalog")
        if missing := _texts(conn, cursor.execute(_MISSING, parameters)):
            text = f"no publication {', '.join(missing)} in this database"
            raise OptionError(text)
        (json,) = _texts(conn, cursor.execute(_CATALOG, parameters))
    return Catalog(json)


def settings(*, server_encoding: str = "UTF8") -> dict[str, str]:
    """Gives the settings of a session whose text walrow reads without loss.

    The text of a value depends on the session that writes it, for a walsender as for any
    other. What a database, a role or the server's configuration sets reaches it, and a
    reload of the configuration changes it between two rows, with nothing in the stream to
    tell. Settings that come with the connection's start stay: see `options`.

    - `DateStyle=ISO`: dates in any other style do not tell day from month.
    - `IntervalStyle=postgres`: in `sql_standard`, whose sign counts for what is ambiguous.
    - `extra_float_digits=3`: with 0 or less, floats lose digits, and nothing shows it.
    - `bytea_output=hex`: half the bytes of `escape`, and quicker to read.
    - `TimeZone=UTC`: in another, `timestamp with time zone` has offsets that change with the
      season. It is the same instant; with UTC it is also the same text.
    - `client_encoding=UTF8`: Arrow's text is UTF-8. Of a SQL_ASCII database, whose bytes are
      in no known encoding, `SQL_ASCII`: asked for UTF-8 there, the server fails at a row
      that is not, and the slot cannot go past that row.
    - `search_path` empty: else the names that `regclass` and its like are written as lack
      the schema or not, depending on the path.

    >>> from walrow import postgres
    >>> postgres.settings()["TimeZone"]
    'UTC'

    Args:
        server_encoding: The database's encoding, as `SHOW server_encoding` has it.

    Returns:
        Names and values, for a start-up message or for SET.
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
    """Gives `settings` as libpq's connection parameter `options`.

    ```python
    psycopg.connect(
        "dbname=shop", replication="database", options=walrow.postgres.options()
    )
    ```

    Others may follow, after a space: `-c work_mem=1GB`. libpq lets the environment's PGTZ,
    PGDATESTYLE and PGCLIENTENCODING win over them, so `check_settings` afterwards.

    >>> from walrow import postgres
    >>> postgres.options().split(" -c ")[-2:]
    ['client_encoding=UTF8', 'search_path=']

    Args:
        server_encoding: As in `settings`.
    """
    # No value has a space or a backslash, which would need a backslash before it.
    chosen = settings(server_encoding=server_encoding)
    return " ".join(f"-c {name}={value}" for name, value in chosen.items())


def check_settings(conn: psycopg.Connection[Any]) -> None:
    """Checks that a session has the `settings` for its database's encoding.

    To be asked on the replication connection itself, before it streams: another session has
    settings of its own. The connection is left as `catalog` leaves it.

    ```python
    conn = psycopg.connect(
        "dbname=shop", replication="database", options=walrow.postgres.options()
    )
    walrow.postgres.check_settings(conn)
    ```

    Args:
        conn: A psycopg connection.

    Raises:
        SettingError: A setting has another value; names it and both values.
        OptionError: The connection is in pipeline mode.
        psycopg.Error: The server refused.
    """
    with _transaction(conn) as cursor:
        (server_encoding,) = _texts(conn, cursor.execute("SHOW server_encoding"))
        for name, wanted in settings(server_encoding=server_encoding).items():
            (value,) = _texts(conn, cursor.execute(f"SHOW {name}"))
            if value not in {wanted, *_SAME.get(name, ())}:
                text = (
                    f"{name} is '{value}' and not '{wanted}':"
                    " connect with options=walrow.postgres.options()"
                )
                raise SettingError(text, setting=name, value=value, wanted=wanted)


@contextlib.contextmanager
def _transaction(
    conn: psycopg.Connection[Any],
) -> Iterator[psycopg.ClientCursor[Any]]:
    """A transaction, or a savepoint of the one that is open; leaves no trace of either."""
    import psycopg
    from psycopg import pq

    if conn.pgconn.pipeline_status != pq.PipelineStatus.OFF:
        text = (
            "the connection is in pipeline mode, where no answer comes before it ends"
        )
        raise OptionError(text)
    # Parameters become literals of the query, for a walsender takes no others.
    with conn.transaction(force_rollback=True), psycopg.ClientCursor(conn) as cursor:
        yield cursor


def _texts(
    conn: psycopg.Connection[Any], cursor: psycopg.ClientCursor[Any]
) -> list[str]:
    """The first column as the server wrote it, whatever the user's adapters make of it."""
    result = cursor.pgresult
    if result is None:
        return []
    # psycopg has no codec for what SQL_ASCII may be.
    encoding = "utf-8" if conn.info.encoding == "ascii" else conn.info.encoding
    cells = [result.get_value(row, 0) for row in range(result.ntuples)]
    try:
        return [cell.decode(encoding) for cell in cells if cell is not None]
    except UnicodeDecodeError as error:
        text = f"a name of a type or table is not in {encoding}"
        raise SchemaError(text) from error


# A style comes with the order in which it takes the parts of a date, and a path that was SET
# to nothing with quotes.
_SAME = {"DateStyle": ("ISO, MDY", "ISO, DMY", "ISO, YMD"), "search_path": ('""',)}

_MISSING = """
SELECT name
FROM unnest(%(publications)s::text[]) AS name
WHERE name NOT IN (SELECT pubname FROM pg_publication)
ORDER BY name
"""

# Below 10000 are the built-in types, which need not be told but for the row types of some of the
# catalogs; from 16384 on what initdb did not make; between them, types of information_schema and
# the catalogs' other row types.
_CATALOG = """
WITH RECURSIVE published (table_oid, columns) AS (
    -- Version 14 has no column lists, and nothing that would tell of them.
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
        -- Before 18 no generated column is published, whatever the list has.
        AND (a.attgenerated = '' OR current_setting('server_version_num')::int >= 180000)
),
identity_of (table_oid, keys) AS (
    -- Counted from 0; those that an index only includes come last.
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
