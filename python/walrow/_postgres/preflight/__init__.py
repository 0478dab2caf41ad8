"""Checks a server before its changes are received: problems, and how to fix them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import psycopg

from walrow._postgres.catalog import catalog_now
from walrow._postgres.ddl_trigger import trigger_state
from walrow._postgres.preflight.finding import Finding, Preflight
from walrow._postgres.preflight.publications import (
    check_leftovers,
    check_publications,
    check_wanted,
)
from walrow._postgres.preflight.published import tables_to_check, types_without_send
from walrow._postgres.preflight.server import (
    check_bugs,
    check_encoding,
    check_server,
    check_slots_used_up,
    check_trigger,
    check_two_phase,
    check_version,
    server_facts,
)
from walrow._postgres.preflight.slot import check_slot, check_standby_slots
from walrow._postgres.preflight.tables import check_binary, check_tables
from walrow._postgres.publications import resolve
from walrow._postgres.running import major_version
from walrow._postgres.session import quote, server_encoding_of
from walrow._postgres.slots import slots

__all__ = ["Finding", "Preflight"]


def preflight(
    conn: psycopg.Connection[Any],
    *,
    slot: str | None = None,
    publications: str | Sequence[str] = (),
    tables: Sequence[str | tuple[str, str]] | None = None,
    two_phase: bool = False,
    binary: bool = False,
) -> Preflight:
    """Checks whether a server's changes can be received, and lists the problems.

    It changes nothing. `walrow preflight` prints its result.

    ```python
    with psycopg.connect("dbname=shop") as conn:
        found = walrow.postgres.preflight(conn, slot="shop", publications="shop")
    print(found)
    if found.errors:
        raise SystemExit(1)
    ```

    Args:
        conn: A psycopg connection to the database, as the role that will receive. The
            state of the connection does not change, as in `catalog`.
        slot: The slot to be read. Default: a slot that is still to be created.
        publications: One publication or several.
        tables: Tables that must be published, unquoted: `name`, `schema.name` or
            (schema, name). Default: the published tables.
        two_phase: Whether prepared transactions are wanted at PREPARE.
        binary: Whether values are wanted in binary.

    Raises:
        OptionError: The connection cannot be used.
        psycopg.Error: A query failed.
    """
    names = [publications] if isinstance(publications, str) else list(publications)
    found = list(check_version(major_version(conn)))
    if not found:
        found += _findings(
            conn, slot, names, tables, two_phase=two_phase, binary=binary
        )
    order = ["error", "warning", "note"]
    return Preflight(sorted(found, key=lambda it: order.index(it.severity)))


def _findings(
    conn: psycopg.Connection[Any],
    slot: str | None,
    publications: Sequence[str],
    tables: Sequence[str | tuple[str, str]] | None,
    *,
    two_phase: bool,
    binary: bool,
) -> Iterator[Finding]:
    major = major_version(conn)
    known = slots(conn)
    mine = next((each for each in known if each.name == slot), None)
    quoted = dict(zip(publications, quote(conn, publications), strict=True))
    server = server_facts(conn, publications)
    yield from check_server(server, major)
    if mine is None:
        yield from check_slots_used_up(server, len(known))
    if two_phase:
        yield from check_two_phase(server, major)

    there = [name for name in publications if name in server["publications"]]
    if (encoding := server_encoding_of(conn)) != "UTF8":
        yield from check_encoding(encoding, catalog_now(conn, there))
    published = tables_to_check(conn, there)
    without_send = types_without_send(conn, there) if binary else []
    wanted = [] if tables is None else resolve(conn, tables)
    exist = {sql: server["publications"].get(name) for name, sql in quoted.items()}
    yield from check_publications(
        exist, published, wanted, slot_exists=mine is not None
    )
    yield from check_leftovers(server["leftovers"])
    found = [server["publications"][name] for name in there]
    roots = server["partition_roots"]
    asked = {it.oid for _, each in wanted for it in each}
    # A publication that leaves out a root also leaves out its partitions.
    asked |= {int(oid) for oid, parts in roots.items() if not asked.isdisjoint(parts)}
    yield from check_wanted(wanted, published, found, roots, asked)
    yield from check_tables(published, server["role"], found, asked)
    yield from check_bugs(conn.info.server_version, published)
    if not server["standby"]:
        yield from check_trigger(trigger_state(conn))
    yield from check_binary(without_send)
    # After the publications, as a slot must be created after them.
    if slot is not None:
        yield from check_slot(slot, mine, server["database"], two_phase=two_phase)
        # A standby waits for no others.
        if not server["standby"]:
            yield from check_standby_slots(mine, server, known)
