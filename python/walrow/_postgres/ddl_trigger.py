"""An event trigger that makes changes of tables visible in the stream."""

from __future__ import annotations


def ddl_trigger(*, drop: bool = False) -> str:
    """Returns the SQL of an event trigger for CREATE TABLE, ALTER TABLE and DROP TABLE.

    The trigger writes a logical message into the transaction, so it comes at its place in
    the stream of a receiver with `messages=True`. Its prefix is `walrow.ddl`. The content is JSON: `command`, `schema`,
    `table`, `oid` and `columns`, with `number`, `name`, `type` and `type_modifier` of each.
    A renamed column keeps its number, which a Relation message does not contain. The text
    of the command is left out, as it may contain values.

    A superuser can disable event triggers, and standbys do not run them.

    The SQL is one statement for a superuser. It takes nothing that another role has made, or that has no mark
    of walrow: then it is refused, and nothing is changed. If it is run again, nothing changes.

    >>> from walrow import postgres
    >>> "walrow.ddl" in postgres.ddl_trigger()
    True
    >>> "DROP EVENT TRIGGER IF EXISTS walrow_ddl;" in postgres.ddl_trigger(drop=True)
    True

    Args:
        drop: Returns the SQL that removes it.
    """
    return _REMOVED if drop else _MADE


#: Objects of other roles keep their owners, who may change them later. So the command
#: takes no other object.
_REFUSED = """\
DECLARE
    path pg_catalog.text := pg_catalog.current_setting('search_path');
    others pg_catalog.text;
BEGIN
    -- No function, operator or type of another schema is found from here on.
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);

    SELECT string_agg(it.name || ' of role ' || quote_ident(pg_get_userbyid(it.owner)), ', ')
    INTO others
    FROM (
        SELECT 'schema walrow' AS name, n.nspowner AS owner,
            obj_description(n.oid, 'pg_namespace') AS mark
        FROM pg_namespace n
        WHERE n.nspname = 'walrow'
        UNION ALL
        SELECT 'function walrow.' || p.proname || '()', p.proowner,
            obj_description(p.oid, 'pg_proc')
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = 'walrow' AND p.proname IN ('emit_ddl', 'emit_drop')
            AND p.pronargs = 0
        UNION ALL
        SELECT 'event trigger ' || e.evtname, e.evtowner,
            obj_description(e.oid, 'pg_event_trigger')
        FROM pg_event_trigger e
        WHERE e.evtname IN ('walrow_ddl', 'walrow_drop')
    ) it
    WHERE pg_get_userbyid(it.owner) <> current_user
        OR it.mark IS DISTINCT FROM 'made by walrow ddl-trigger';
    IF others IS NOT NULL THEN
        RAISE insufficient_privilege USING
            MESSAGE = 'walrow did not make this for ' || quote_ident(current_user)
                || ', and does not touch it: ' || others,
            HINT = 'Drop or rename it, or run this as the role that has made it with walrow.';
    END IF;
"""

_REMOVED = f"""\
-- Run it as the role that has made the event triggers. It does not lock any table.
DO LANGUAGE plpgsql $walrow$
{_REFUSED}
    DROP EVENT TRIGGER IF EXISTS walrow_ddl;
    DROP EVENT TRIGGER IF EXISTS walrow_drop;
    DROP FUNCTION IF EXISTS walrow.emit_ddl();
    DROP FUNCTION IF EXISTS walrow.emit_drop();
    BEGIN
        DROP SCHEMA IF EXISTS walrow;
    EXCEPTION WHEN dependent_objects_still_exist THEN
        RAISE NOTICE 'the schema walrow has objects that are not of walrow, and stays';
    END;
    PERFORM set_config('search_path', path, true);
END
$walrow$;
"""

_MADE = f"""\
-- Run it as a superuser, or on a managed server as the role that may create event triggers.
-- It does not lock any table. `walrow.postgres.ddl_trigger(drop=True)` is the SQL that removes it.
DO LANGUAGE plpgsql $walrow$
{_REFUSED}
    IF EXISTS (
        SELECT
        FROM pg_namespace n, aclexplode(n.nspacl) granted
        WHERE n.nspname = 'walrow' AND granted.privilege_type = 'CREATE'
            AND granted.grantee <> n.nspowner
    ) THEN
        RAISE insufficient_privilege USING
            MESSAGE = 'other roles may create objects in the schema walrow',
            HINT = 'Revoke CREATE ON SCHEMA walrow from them.';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = 'walrow') THEN
        CREATE SCHEMA walrow;
        COMMENT ON SCHEMA walrow IS 'made by walrow ddl-trigger';
    END IF;

    CREATE OR REPLACE FUNCTION walrow.emit_ddl() RETURNS pg_catalog.event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    BEGIN
        PERFORM pg_catalog.pg_logical_emit_message(true, 'walrow.ddl', pg_catalog.jsonb_build_object(
            'command', found.command, 'schema', n.nspname, 'table', c.relname,
            'oid', c.oid::pg_catalog.int8,
            'columns', (
                SELECT coalesce(pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object(
                    'number', a.attnum, 'name', a.attname, 'type', a.atttypid::pg_catalog.int8,
                    'type_modifier', a.atttypmod) ORDER BY a.attnum), '[]')
                FROM pg_catalog.pg_attribute a
                WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            ))::pg_catalog.text)
        FROM (
            SELECT DISTINCT objid, command_tag AS command
            FROM pg_catalog.pg_event_trigger_ddl_commands()
            WHERE classid = 'pg_catalog.pg_class'::pg_catalog.regclass
        ) found
        JOIN pg_catalog.pg_class c ON c.oid = found.objid AND c.relkind IN ('r', 'p')
            AND c.relpersistence = 'p'
        JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace;
    END $function$;
    COMMENT ON FUNCTION walrow.emit_ddl() IS 'made by walrow ddl-trigger';

    CREATE OR REPLACE FUNCTION walrow.emit_drop() RETURNS pg_catalog.event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    BEGIN
        PERFORM pg_catalog.pg_logical_emit_message(true, 'walrow.ddl', pg_catalog.jsonb_build_object(
            'command', tg_tag, 'schema', schema_name, 'table', object_name,
            'oid', objid::pg_catalog.int8, 'columns', NULL)::pg_catalog.text)
        FROM pg_catalog.pg_event_trigger_dropped_objects()
        WHERE object_type = 'table' AND NOT is_temporary;
    END $function$;
    COMMENT ON FUNCTION walrow.emit_drop() IS 'made by walrow ddl-trigger';

    IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'walrow_ddl') THEN
        CREATE EVENT TRIGGER walrow_ddl ON ddl_command_end EXECUTE FUNCTION walrow.emit_ddl();
        COMMENT ON EVENT TRIGGER walrow_ddl IS 'made by walrow ddl-trigger';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = 'walrow_drop') THEN
        CREATE EVENT TRIGGER walrow_drop ON sql_drop EXECUTE FUNCTION walrow.emit_drop();
        COMMENT ON EVENT TRIGGER walrow_drop IS 'made by walrow ddl-trigger';
    END IF;
    PERFORM set_config('search_path', path, true);
END
$walrow$;
"""  # noqa: S608 - there is nothing of a user in it
