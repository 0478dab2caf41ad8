"""Real PostgreSQL servers for tests and benches, and recorders for them."""

from servers.embedded import EmbeddedServer, ServerError, Standby
from servers.histories import Mode, modes, record_history
from servers.npm import NpmServer
from servers.proxy import Proxy
from servers.recording import (
    Captured,
    Progress,
    Reading,
    capture,
    create_slot,
    drop_slot,
    parse_lsn,
    record,
    record_physical,
    run_sql,
    wal_end,
)
from servers.recvlogical import Recvlogical

__all__ = [
    "Captured",
    "EmbeddedServer",
    "Mode",
    "NpmServer",
    "Progress",
    "Proxy",
    "Reading",
    "Recvlogical",
    "ServerError",
    "Standby",
    "capture",
    "create_slot",
    "drop_slot",
    "modes",
    "parse_lsn",
    "record",
    "record_history",
    "record_physical",
    "run_sql",
    "wal_end",
]
