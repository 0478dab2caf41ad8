"""An event trigger that makes changes of tables visible in the stream."""

from __future__ import annotations

__all__ = ["ddl_trigger"]


def ddl_trigger(*, drop: bool = False) -> str:
    """Returns the SQL of an event trigger for CREATE TABLE, ALTER TABLE and DROP TABLE.

    The trigger writes a logical message into the transaction, so it comes at its place in
    the stream of a receiver with `messages=True`. Its prefix is `walrow.ddl`. The content is JSON: `command`, `schema`,
    `table`, `oid` and `columns`, with `number`, `name`, `type` and `type_modifier` of each.
    A renamed column keeps its number, which a Relation message does not contain. The text
    of the command is left out, as it may contain values.

    It is a hint: a superuser can disable event triggers, and standbys have none.

    >>> from walrow import postgres
    >>> "walrow.ddl" in postgres.ddl_trigger()
    True
    >>> print(postgres.ddl_trigger(drop=True).splitlines()[0])
    DROP EVENT TRIGGER IF EXISTS walrow_ddl;

    Args:
        drop: Returns the SQL that removes it.
    """
    return _DROP if drop else _CREATE


_DROP = """\
DROP EVENT TRIGGER IF EXISTS walrow_ddl;
DROP EVENT TRIGGER IF EXISTS walrow_drop;
DROP SCHEMA IF EXISTS walrow CASCADE;
"""

_CREATE = """\
-- Run as a superuser. It does not lock any table.
BEGIN;
CREATE SCHEMA IF NOT EXISTS walrow;

CREATE OR REPLACE FUNCTION walrow.emit_ddl() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_logical_emit_message(true, 'walrow.ddl', jsonb_build_object(
        'command', found.command, 'schema', n.nspname, 'table', c.relname,
        'oid', c.oid::bigint,
        'columns', (
            SELECT coalesce(jsonb_agg(jsonb_build_object(
                'number', a.attnum, 'name', a.attname, 'type', a.atttypid::bigint,
                'type_modifier', a.atttypmod) ORDER BY a.attnum), '[]')
            FROM pg_attribute a
            WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        ))::text)
    FROM (
        SELECT DISTINCT objid, command_tag AS command
        FROM pg_event_trigger_ddl_commands()
        WHERE classid = 'pg_class'::regclass
    ) found
    JOIN pg_class c ON c.oid = found.objid AND c.relkind IN ('r', 'p')
        AND c.relpersistence = 'p'
    JOIN pg_namespace n ON n.oid = c.relnamespace;
END $$;

CREATE OR REPLACE FUNCTION walrow.emit_drop() RETURNS event_trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM pg_logical_emit_message(true, 'walrow.ddl', jsonb_build_object(
        'command', tg_tag, 'schema', schema_name, 'table', object_name,
        'oid', objid::bigint, 'columns', NULL)::text)
    FROM pg_event_trigger_dropped_objects()
    WHERE object_type = 'table' AND NOT is_temporary;
END $$;

DROP EVENT TRIGGER IF EXISTS walrow_ddl;
CREATE EVENT TRIGGER walrow_ddl ON ddl_command_end EXECUTE FUNCTION walrow.emit_ddl();
DROP EVENT TRIGGER IF EXISTS walrow_drop;
CREATE EVENT TRIGGER walrow_drop ON sql_drop EXECUTE FUNCTION walrow.emit_drop();
COMMIT;
"""
