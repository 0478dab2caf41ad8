"""The tables of a recovered server, and the digests of their rows in SQL.

The SQL gives what `comparing` computes in Python. Names come from the server, quoted. `format`
calls the output function of a type, as pgoutput does; a cast to text does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._backup.comparing import BUCKETS, Buckets, Row, Rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

__all__ = [
    "Column",
    "ScratchTable",
    "read_buckets",
    "read_columns",
    "read_key",
    "read_rows",
    "read_tables",
]


class ScratchTable(NamedTuple):
    """A table of the server that is not the system's.

    Attributes:
        oid: Its OID.
        name: Its name, as `schema.name`.
        quoted: Its name as SQL.
        kind: `pg_class.relkind`: `r`, or `p` if it is partitioned.
        persistence: `pg_class.relpersistence`.
        parent: The OID of the table that it is a partition of. None if it is no partition.
        is_foreign: Whether rows of it are on another server, which is not asked.
    """

    oid: int
    name: str
    quoted: str
    kind: str
    persistence: str
    parent: int | None
    is_foreign: bool

    @property
    def source(self) -> str:
        """The FROM of a query that reads its rows, without its children's rows."""
        return self.quoted if self.kind == "p" else f"ONLY {self.quoted}"


class Column(NamedTuple):
    """A column of a table.

    Attributes:
        name: Its name.
        quoted: Its name as SQL.
        is_generated: Whether its values are computed.
        is_money: Whether its type is money, whose text depends on lc_monetary.
    """

    name: str
    quoted: str
    is_generated: bool
    is_money: bool


def read_tables(conn: psycopg.Connection[Any]) -> dict[int, ScratchTable]:
    """All tables of a database that are not the system's, by OID."""
    return {
        oid: ScratchTable(oid, _text(name), _text(quoted), *more)
        for oid, name, quoted, *more in _all(conn, _TABLES)
    }


def read_columns(conn: psycopg.Connection[Any], oid: int) -> list[Column]:
    """The columns of a table, in their order."""
    return [
        Column(_text(name), _text(quoted), generated, money)
        for name, quoted, generated, money in _all(conn, _COLUMNS, [oid])
    ]


def read_key(conn: psycopg.Connection[Any], oid: int) -> tuple[str, ...]:
    """The columns of the primary key, or else of the replica identity's index. Empty without one."""
    return tuple(_text(name) for (name,) in _all(conn, _KEY, [oid]))


def read_buckets(
    conn: psycopg.Connection[Any],
    table: ScratchTable,
    columns: Sequence[Column],
    key: Sequence[Column],
) -> Buckets:
    """The counts and sums of a table."""
    found = Buckets()
    digests = _digests(conn, table, columns, key, [])
    query = (
        f"SELECT bucket, sum(hash)::text, count(*) FROM ({_hashes(digests)}) h "  # noqa: S608
        "GROUP BY bucket"
    )
    for bucket, total, rows in _all(conn, query):
        found.add(bucket, int(total), rows)
    return found


def read_rows(
    conn: psycopg.Connection[Any],
    table: ScratchTable,
    columns: Sequence[Column],
    key: Sequence[Column],
    buckets: Sequence[int],
) -> Rows:
    """The rows of some buckets, without their values."""
    texts = [f"pg_catalog.format('%s', {it.quoted})" for it in key]
    digests = _digests(conn, table, columns, key, texts)
    # Only numbers, so they are written into it.
    chosen = ", ".join(map(str, buckets))
    query = f"SELECT hash, key FROM ({_hashes(digests)}) h WHERE bucket IN ({chosen})"  # noqa: S608
    found: Rows = Rows()
    for hash_, texts_ in _all(conn, query):
        found[Row(tuple(map(_text, texts_)) if key else None, hash_)] += 1
    return found


def _digests(
    conn: psycopg.Connection[Any],
    table: ScratchTable,
    columns: Sequence[Column],
    key: Sequence[Column],
    texts: Sequence[str],
) -> str:
    encoding = conn.info.parameter_status("server_encoding")
    row = _sha256(_row_text(columns), encoding)
    by = _sha256(_row_text(key), encoding) if key else row
    array = f"ARRAY[{', '.join(texts)}]::text[]"
    # Without OFFSET, the planner would compute each expression several times.
    return f"SELECT {row} AS digest, {by} AS by, {array} AS key FROM {table.source} OFFSET 0"  # noqa: S608


def _hashes(digests: str) -> str:
    hash_ = "('x' || encode(substr(digest, 1, 8), 'hex'))::bit(64)::bigint"
    bucket = f"(get_byte(by, 8) << 8 | get_byte(by, 9)) & {BUCKETS - 1}"
    return f"SELECT {bucket} AS bucket, {hash_} AS hash, key FROM ({digests}) d"  # noqa: S608


def _row_text(columns: Sequence[Column]) -> str:
    """The expression for the text of a row. A function takes at most 100 arguments."""
    parts = []
    for at in range(0, len(columns), _MOST_ARGUMENTS):
        some = columns[at : at + _MOST_ARGUMENTS]
        form = ",".join(["%L"] * len(some))
        names = "".join(f", {it.quoted}" for it in some)
        parts.append(f"pg_catalog.format('{form}'{names})")
    return " || ',' || ".join(parts) or "''"


def _sha256(text: str, encoding: str | None) -> str:
    # The bytes of a SQL_ASCII database are hashed as they are.
    name = "SQL_ASCII" if encoding == "SQL_ASCII" else "UTF8"
    return f"sha256(convert_to({text}, '{name}'))"


def _all(
    conn: psycopg.Connection[Any], query: str, parameters: Sequence[Any] | None = None
) -> list[tuple[Any, ...]]:
    return conn.execute(query.encode(), parameters).fetchall()


def _text(value: str | bytes) -> str:
    """A text, which psycopg does not decode for a SQL_ASCII database."""
    return value if isinstance(value, str) else value.decode(errors="surrogateescape")


_MOST_ARGUMENTS = 90
_TABLES = """
SELECT c.oid::bigint, n.nspname || '.' || c.relname,
    quote_ident(n.nspname) || '.' || quote_ident(c.relname),
    c.relkind::text, c.relpersistence::text,
    CASE WHEN c.relispartition
        THEN (SELECT i.inhparent::bigint FROM pg_inherits i WHERE i.inhrelid = c.oid)
    END,
    c.relkind = 'p' AND EXISTS (
        SELECT FROM pg_partition_tree(c.oid) t JOIN pg_class f ON f.oid = t.relid
        WHERE f.relkind = 'f'
    )
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema'
ORDER BY 2
"""
_COLUMNS = """
SELECT attname::text, quote_ident(attname), attgenerated <> '', atttypid = 'money'::regtype
FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped ORDER BY attnum
"""
_KEY = """
SELECT a.attname::text
FROM (
    SELECT indrelid, indkey, indnkeyatts FROM pg_index
    WHERE indrelid = %s AND (indisprimary OR indisreplident)
    ORDER BY indisprimary DESC LIMIT 1
) i
CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY k (number, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
WHERE k.place <= i.indnkeyatts
ORDER BY k.place
"""
