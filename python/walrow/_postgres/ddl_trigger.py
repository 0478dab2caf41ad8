"""An event trigger that makes changes of tables visible in the stream."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from walrow._postgres.session import records

if TYPE_CHECKING:
    import psycopg


def ddl_trigger(*, drop: bool = False) -> str:
    """Returns the SQL of an event trigger for changes of tables, of their types, and of publications.

    The trigger writes a logical message into the transaction, so it comes at its place in
    the stream. Its prefix is `walrow.ddl`. A receiver that finds the trigger asks for these messages: they
    show changes that were undone between two looks at the catalog.

    The content is JSON. For a table: `command`, `schema`, `table`, `oid`, and `columns` with `number`, `name`,
    `type` and `type_modifier` of each; `is_partitioned`; `roots`, its ancestors as a partition, and `parts`, what inherits
    from it or is its partition; `publications`, which publish it. `columns` is null if it was dropped.
    A renamed column keeps its number, which a Relation message does not contain. The text
    of the command is left out, as it may contain values.

    An error of the trigger never makes a command fail: then the message is missing. A superuser can
    disable event triggers, from version 17 on also for a session. TRUNCATE, VACUUM FULL, CLUSTER and REPACK fire none.
    Standbys do not run them. Each role can write messages with this prefix, so they prove nothing alone.

    The SQL is one statement for a superuser. It takes nothing that another role has made, or that has no mark
    of walrow: then it is refused, and nothing is changed. If it is run again, nothing changes. A disabled
    trigger stays disabled.

    >>> from walrow import postgres
    >>> "walrow.ddl" in postgres.ddl_trigger()
    True
    >>> "DROP EVENT TRIGGER IF EXISTS walrow_ddl;" in postgres.ddl_trigger(drop=True)
    True

    Args:
        drop: Returns the SQL that removes it.
    """
    return _REMOVED if drop else _MADE


class Absent(NamedTuple):
    """The server lacks the trigger."""


class Broken(NamedTuple):
    """There is an event trigger, but some commands may be without a message, or with a wrong one."""

    why: str
    #: SQL that repairs it, where that is certain.
    sql: str | None = None


class Working(NamedTuple):
    """The event trigger works. Its stamp moves with each change of it."""

    stamp: str


Trigger: TypeAlias = Absent | Broken | Working


def trigger_state(conn: psycopg.Connection[Any]) -> Trigger:
    """The state of the event trigger in the database of a connection."""
    found = {it["evtname"]: it for it in records(conn, _STATE, {"names": [*TRIGGERS]})}
    if not found:
        return Absent()
    stamp = _digest(json.dumps(found, sort_keys=True))
    return next(_faults(found), Working(stamp))


def _faults(found: Mapping[str, dict[str, Any]]) -> Iterator[Broken]:
    for name, (event, function) in TRIGGERS.items():
        it = found.get(name)
        if it is None:
            yield Broken(f"{name} is missing")
        elif it["evtenabled"] != "A":
            sql = "\n".join(
                f"ALTER EVENT TRIGGER {it} ENABLE ALWAYS;" for it in TRIGGERS
            )
            yield Broken(f"{name} is disabled, or not ENABLE ALWAYS", sql)
        elif (it["evtevent"], it["function"]) != (event, f"walrow.{function}"):
            yield Broken(f"{name} is another one")
        elif it["owners"] != [it["evtowner"]]:
            yield Broken(f"{name} and its functions belong to several roles")
        elif it["sources"] != _SOURCES:
            yield Broken("its functions were replaced, or are another version's")
        elif it["setting"] == "off":
            yield Broken("event_triggers is off")


#: The event triggers, with their events and functions.
TRIGGERS = {
    "walrow_before": ("ddl_command_start", "emit_ddl"),
    "walrow_ddl": ("ddl_command_end", "emit_ddl"),
    "walrow_drop": ("sql_drop", "emit_drop"),
    "walrow_rewrite": ("table_rewrite", "emit_ddl"),
}
_FUNCTIONS = ("described", "emit_ddl", "emit_drop")


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


#: Objects of other roles keep their owners, who may change them later. So the command
#: takes no other object.
_REFUSED = f"""\
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
        SELECT 'function walrow.' || p.proname || '(' || oidvectortypes(p.proargtypes) || ')',
            p.proowner, obj_description(p.oid, 'pg_proc')
        FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
        WHERE n.nspname = 'walrow' AND p.proname IN ({_names(_FUNCTIONS)})
        UNION ALL
        SELECT 'event trigger ' || e.evtname, e.evtowner,
            obj_description(e.oid, 'pg_event_trigger')
        FROM pg_event_trigger e
        WHERE e.evtname IN ({_names(TRIGGERS)})
    ) it
    WHERE pg_get_userbyid(it.owner) <> current_user
        OR it.mark IS DISTINCT FROM 'made by walrow ddl-trigger';
    IF others IS NOT NULL THEN
        RAISE insufficient_privilege USING
            MESSAGE = 'walrow did not make this for ' || quote_ident(current_user)
                || ', and does not touch it: ' || others,
            HINT = 'Drop or rename it, or run this as the role that has made it with walrow.';
    END IF;
"""  # noqa: S608 - its own names

_DROPS = "\n".join(
    [
        *(f"    DROP EVENT TRIGGER IF EXISTS {name};" for name in TRIGGERS),
        *(f"    DROP FUNCTION IF EXISTS walrow.{name};" for name in _FUNCTIONS),
    ]
)
_REMOVED = f"""\
-- Run it as the role that has made the event triggers. It does not lock any table.
DO LANGUAGE plpgsql $walrow$
{_REFUSED}
{_DROPS}
    BEGIN
        DROP SCHEMA IF EXISTS walrow;
    EXCEPTION WHEN dependent_objects_still_exist THEN
        RAISE NOTICE 'the schema walrow has objects that are not of walrow, and stays';
    END;
    PERFORM set_config('search_path', path, true);
END
$walrow$;
"""

_MADE_TRIGGERS = "".join(
    f"""\
    IF NOT EXISTS (SELECT FROM pg_event_trigger WHERE evtname = '{name}') THEN
        CREATE EVENT TRIGGER {name} ON {event}
            {"WHEN TAG IN ('ALTER PUBLICATION') " if event == "ddl_command_start" else ""}EXECUTE FUNCTION walrow.{function}();
        COMMENT ON EVENT TRIGGER {name} IS 'made by walrow ddl-trigger';
    END IF;
    -- Otherwise, session_replication_role = replica would silence it.
    IF EXISTS (SELECT FROM pg_event_trigger WHERE evtname = '{name}' AND evtenabled = 'O') THEN
        ALTER EVENT TRIGGER {name} ENABLE ALWAYS;
    END IF;
"""  # noqa: S608 - its own names
    for name, (event, function) in TRIGGERS.items()
)

_EMITTED = """\
    EXCEPTION WHEN OTHERS THEN
        -- No command fails because of a message.
        RETURN;
    END;
    -- Outside of the block, which is a subtransaction.
    FOREACH content IN ARRAY contents LOOP
        IF octet_length(content) <= 16000000 THEN
            PERFORM pg_logical_emit_message(true, 'walrow.ddl', content);
        END IF;
    END LOOP;
    END $function$"""

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

    CREATE OR REPLACE FUNCTION walrow.described(command pg_catalog.text, oid pg_catalog.oid)
    RETURNS pg_catalog.text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        schemas jsonb := '[]';
    BEGIN
        -- Version 14 has no schemas in publications.
        IF current_setting('server_version_num')::int >= 150000 THEN
            SELECT coalesce(jsonb_agg(jsonb_build_array(s.pnpubid::int8, s.pnnspid::int8)), '[]')
            INTO schemas FROM pg_publication_namespace s;
        END IF;
        RETURN (
            WITH RECURSIVE part (oid, kind) AS (
                SELECT described.oid, NULL::"char"
                UNION
                -- pg_partition_tree would lock them.
                SELECT c.oid, c.relkind
                FROM part p JOIN pg_inherits i ON i.inhparent = p.oid JOIN pg_class c ON c.oid = i.inhrelid
            ),
            place (oid, schema) AS MATERIALIZED (
                SELECT c.oid, c.relnamespace FROM pg_class c
                WHERE c.oid = described.oid
                    OR c.oid IN (SELECT relid FROM pg_partition_ancestors(described.oid))
            ),
            entry AS MATERIALIZED (
                SELECT r.prpubid AS publication, (to_jsonb(r) ->> 'prexcept')::bool IS TRUE AS is_exception
                FROM pg_publication_rel r JOIN place p ON p.oid = r.prrelid
                UNION ALL
                SELECT (s ->> 0)::oid, false
                FROM jsonb_array_elements(schemas) s JOIN place p ON p.schema = (s ->> 1)::oid
            )
            SELECT jsonb_build_object(
                'command', command, 'schema', n.nspname, 'table', c.relname, 'oid', c.oid::int8,
                'is_partitioned', c.relkind = 'p',
                'columns', (
                    SELECT coalesce(jsonb_agg(jsonb_build_object('number', a.attnum, 'name', a.attname,
                        'type', a.atttypid::int8, 'type_modifier', a.atttypmod) ORDER BY a.attnum), '[]')
                    FROM pg_attribute a
                    WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
                ),
                'roots', (SELECT coalesce(jsonb_agg(p.oid::int8), '[]') FROM place p WHERE p.oid <> c.oid),
                'parts', (SELECT coalesce(jsonb_agg(p.oid::int8), '[]') FROM part p WHERE p.kind = 'r'),
                'publications', (
                    SELECT coalesce(jsonb_agg(b.oid::int8), '[]')
                    FROM pg_publication b
                    WHERE NOT EXISTS (SELECT FROM entry e WHERE e.publication = b.oid AND e.is_exception)
                        AND (b.puballtables OR b.oid IN (SELECT publication FROM entry))
                ))::text
            FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
            WHERE c.oid = described.oid AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't'
        );
    END $function$;
    COMMENT ON FUNCTION walrow.described(text, oid) IS 'made by walrow ddl-trigger';

    CREATE OR REPLACE FUNCTION walrow.emit_ddl() RETURNS pg_catalog.event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        contents text[];
        content text;
        rewritten oid;
    BEGIN
    BEGIN
        IF tg_event = 'ddl_command_start' THEN
            -- With the messages of the end, it shows that no change of them is missing.
            SELECT ARRAY[jsonb_build_object('command', tg_tag, 'before',
                jsonb_object_agg(b.oid::int8, b.xmin::text))::text]
            INTO contents FROM pg_publication b;
        ELSIF tg_event = 'table_rewrite' THEN
            rewritten := pg_event_trigger_table_rewrite_oid();
            SELECT ARRAY[jsonb_build_object('command', tg_tag, 'rewritten', c.oid::int8,
                'roots', (SELECT coalesce(jsonb_agg(relid::oid::int8), '[]') FROM pg_partition_ancestors(c.oid)),
                'reason', pg_event_trigger_table_rewrite_reason())::text]
            INTO contents FROM pg_class c WHERE c.oid = rewritten AND c.relpersistence <> 't';
        ELSE
            WITH found AS MATERIALIZED (
                SELECT DISTINCT classid, objid, command_tag FROM pg_event_trigger_ddl_commands()
            )
            SELECT array_agg(it.content) INTO contents
            FROM (
                SELECT walrow.described(f.command_tag, coalesce(r.prrelid, f.objid)) AS content
                FROM found f
                LEFT JOIN pg_publication_rel r ON r.oid = f.objid AND f.classid = 'pg_publication_rel'::regclass
                WHERE r.oid IS NOT NULL OR f.classid = 'pg_class'::regclass
                UNION ALL
                SELECT jsonb_build_object('command', f.command_tag, 'publication', b.oid::int8,
                    'name', b.pubname, 'xmin', b.xmin::text, 'options', (to_jsonb(b) - 'pubname' - 'pubowner')::text)::text
                FROM found f JOIN pg_publication b ON b.oid = f.objid
                WHERE f.classid = 'pg_publication'::regclass
                UNION ALL
                SELECT jsonb_build_object('command', f.command_tag, 'type', y.oid::int8, 'definitions', (
                    SELECT coalesce(jsonb_object_agg(d.key, d.definition), '{{}}')
                    FROM (
                        SELECT 'label ' || e.oid, e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = y.oid
                        UNION ALL
                        SELECT 'attribute ' || y.oid || '.' || a.attnum,
                            concat_ws(' ', a.atttypid, a.atttypmod, a.attname)
                        FROM pg_attribute a
                        WHERE a.attrelid = y.typrelid AND a.attnum > 0 AND NOT a.attisdropped
                    ) d (key, definition)))::text
                FROM found f
                JOIN pg_type y ON f.classid = 'pg_type'::regclass AND y.oid = f.objid
                    OR f.classid = 'pg_class'::regclass AND y.typrelid = f.objid
                WHERE y.typtype = 'e' OR y.typtype = 'c'
                    AND EXISTS (SELECT FROM pg_class c WHERE c.oid = y.typrelid AND c.relkind = 'c')
            ) it
            WHERE it.content IS NOT NULL;
        END IF;
        contents := coalesce(contents, '{{}}');
{_EMITTED};
    COMMENT ON FUNCTION walrow.emit_ddl() IS 'made by walrow ddl-trigger';

    CREATE OR REPLACE FUNCTION walrow.emit_drop() RETURNS pg_catalog.event_trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $function$
    DECLARE
        contents text[];
        content text;
    BEGIN
    BEGIN
        contents := array_remove(ARRAY(
            SELECT CASE d.object_type
                WHEN 'table' THEN jsonb_build_object('command', tg_tag, 'schema', d.schema_name,
                    'table', d.object_name, 'oid', d.objid::int8, 'columns', NULL)::text
                -- With a type, for example.
                WHEN 'table column' THEN walrow.described(tg_tag, d.objid)
                WHEN 'publication relation' THEN walrow.described(tg_tag,
                    to_regclass(format('%I.%I', d.address_names[1], d.address_names[2]))) END
            FROM pg_event_trigger_dropped_objects() d
            WHERE NOT d.is_temporary
        ), NULL);
{_EMITTED};
    COMMENT ON FUNCTION walrow.emit_drop() IS 'made by walrow ddl-trigger';

{_MADE_TRIGGERS}
    PERFORM set_config('search_path', path, true);
END
$walrow$;
"""  # noqa: S608 - there is nothing of a user in it


def _digest(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


#: Digests of what its functions do, by their names.
_SOURCES = {
    name: _digest(body)
    for name, body in re.findall(
        r"REPLACE FUNCTION walrow\.(\w+)\(.*?AS \$function\$(.*?)\$function\$;",
        _MADE,
        re.DOTALL,
    )
}
_STATE = """
SELECT (to_jsonb(e) || to_jsonb(f) || jsonb_build_object(
    'stamp', e.xmin::text, 'function', e.evtfoid::regproc::text,
    'setting', current_setting('event_triggers', true)
))::text
FROM pg_event_trigger e
CROSS JOIN (
    SELECT jsonb_agg(DISTINCT p.proowner) AS owners,
        jsonb_object_agg(p.proname, md5(p.prosrc)) AS sources,
        string_agg(p.xmin::text, ' ' ORDER BY p.proname) AS changed
    FROM pg_proc p
    WHERE p.pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = 'walrow')
        AND p.proname IN ('described', 'emit_ddl', 'emit_drop')
) f
WHERE e.evtname = ANY (%(names)s::text[])
"""
