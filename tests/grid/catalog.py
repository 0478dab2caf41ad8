"""What a stream does not say of types, asked of a server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import walrow

if TYPE_CHECKING:
    import psycopg

_TYPES = """
SELECT jsonb_strip_nulls(jsonb_build_object(
    'oid', t.oid::int8, 'schema', n.nspname, 'name', t.typname,
    'kind', CASE WHEN t.typcategory = 'A' AND t.typelem <> 0 AND t.typtype = 'b' THEN 'array'
        ELSE CASE t.typtype WHEN 'b' THEN 'base' WHEN 'd' THEN 'domain' WHEN 'e' THEN 'enum'
        WHEN 'c' THEN 'composite' WHEN 'r' THEN 'range' WHEN 'm' THEN 'multirange' END END,
    'element', CASE WHEN t.typcategory = 'A' AND t.typtype = 'b' THEN t.typelem::int8 END,
    'delimiter', CASE WHEN t.typcategory = 'A' AND t.typtype = 'b' THEN t.typdelim END,
    'base', CASE WHEN t.typtype = 'd' THEN t.typbasetype::int8 END,
    'type_modifier', CASE WHEN t.typtype = 'd' THEN t.typtypmod END,
    'labels', CASE WHEN t.typtype = 'e' THEN (
        SELECT jsonb_agg(enumlabel ORDER BY enumsortorder) FROM pg_enum
        WHERE enumtypid = t.oid) END,
    'attributes', CASE WHEN t.typtype = 'c' THEN (
        SELECT coalesce(jsonb_agg(jsonb_build_object('name', attname,
            'type', atttypid::int8, 'type_modifier', atttypmod) ORDER BY attnum), '[]')
        FROM pg_attribute WHERE attrelid = t.typrelid AND attnum > 0
        AND NOT attisdropped) END,
    'subtype', CASE WHEN t.typtype = 'r' THEN (
        SELECT rngsubtype::int8 FROM pg_range WHERE rngtypid = t.oid) END,
    'range', CASE WHEN t.typtype = 'm' THEN (
        SELECT rngtypid::int8 FROM pg_range WHERE rngmultitypid = t.oid) END))
FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_class c ON c.oid = t.typrelid
WHERE t.oid >= 16384 AND t.typtype <> 'p' AND (c.oid IS NULL OR c.relkind = 'c')
ORDER BY t.oid
"""


def catalog(connection: psycopg.Connection[Any]) -> walrow.Catalog:
    """Reads all types that are not built in."""
    types = [row[0] for row in connection.execute(_TYPES)]
    return walrow.Catalog.from_json(json.dumps({"types": types}))
