"""Servers: what is missing on one, its catalog, slots and publications, its settings.

- `preflight` says what is missing before changes can be received.
- `create_slot` prepares a stream; `drop_slot`, `alter_slot` and `slots` manage existing
  slots.
- `create_physical_slot` and `read_slot` are for slots that keep WAL itself.
- `identify_system`, `show`, `timeline_history` and `start_replication_command` are the
  other replication commands.
- `settings`, `options` and `check_settings` are about the text of values.
- `catalog` reads the definitions of types and tables.
- `ddl_trigger` is an event trigger that makes DDL visible in the stream.

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

from typing import TYPE_CHECKING

from walrow._late import late, listed

if TYPE_CHECKING:
    from walrow._postgres.catalog import catalog
    from walrow._postgres.changes import Changes, changes
    from walrow._postgres.commands import (
        CreatedSlot,
        IdentifySystem,
        PhysicalSlot,
        TimelineHistory,
        TimelineSwitch,
        alter_slot,
        create_physical_slot,
        create_slot,
        drop_slot,
        identify_system,
        read_slot,
        start_replication_command,
        timeline_history,
    )
    from walrow._postgres.ddl_trigger import ddl_trigger
    from walrow._postgres.failures import deserves_reconnect
    from walrow._postgres.physical import (
        PhysicalStream,
        TimelineEnd,
        Wal,
    )
    from walrow._postgres.preflight import Finding, Preflight, preflight
    from walrow._postgres.replication import ReplicationStream
    from walrow._postgres.session import check_settings, options, settings
    from walrow._postgres.show import show
    from walrow._postgres.slots import Slot, slots
    from walrow._postgres.waiting import OpenTransaction, Waiting

__all__ = [
    "Changes",
    "CreatedSlot",
    "Finding",
    "IdentifySystem",
    "OpenTransaction",
    "PhysicalSlot",
    "PhysicalStream",
    "Preflight",
    "ReplicationStream",
    "Slot",
    "TimelineEnd",
    "TimelineHistory",
    "TimelineSwitch",
    "Waiting",
    "Wal",
    "alter_slot",
    "catalog",
    "changes",
    "check_settings",
    "create_physical_slot",
    "create_slot",
    "ddl_trigger",
    "deserves_reconnect",
    "drop_slot",
    "identify_system",
    "options",
    "preflight",
    "read_slot",
    "settings",
    "show",
    "slots",
    "start_replication_command",
    "timeline_history",
]

# Most of them need psycopg. Type checkers see the imports above, so they know which names there are.
if not TYPE_CHECKING:
    __getattr__ = late(
        __name__,
        {
            "walrow._postgres.catalog": ("catalog",),
            "walrow._postgres.changes": ("Changes", "changes"),
            "walrow._postgres.commands": (
                "CreatedSlot",
                "IdentifySystem",
                "PhysicalSlot",
                "TimelineHistory",
                "TimelineSwitch",
                "alter_slot",
                "create_physical_slot",
                "create_slot",
                "drop_slot",
                "identify_system",
                "read_slot",
                "start_replication_command",
                "timeline_history",
            ),
            "walrow._postgres.ddl_trigger": ("ddl_trigger",),
            "walrow._postgres.failures": ("deserves_reconnect",),
            "walrow._postgres.physical": (
                "PhysicalStream",
                "TimelineEnd",
                "Wal",
            ),
            "walrow._postgres.preflight": ("Finding", "Preflight", "preflight"),
            "walrow._postgres.replication": ("ReplicationStream",),
            "walrow._postgres.session": ("check_settings", "options", "settings"),
            "walrow._postgres.show": ("show",),
            "walrow._postgres.slots": ("Slot", "slots"),
            "walrow._postgres.waiting": ("OpenTransaction", "Waiting"),
        },
    )

__dir__ = listed(__all__)
