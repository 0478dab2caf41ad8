"""Real PostgreSQL servers for tests and benches, and recorders for them."""

from servers.debian import DebianServer
from servers.embedded import EmbeddedServer, ServerError, Standby
from servers.histories import Mode, modes, record_history
from servers.npm import NpmServer
from servers.proxy import Proxy
from servers.recording import (
    Reading,
    create_slot,
    drop_slot,
    record,
    record_physical,
    run_sql,
    wal_end,
)
from servers.recvlogical import Recvlogical

__all__ = [
    "DebianServer",
    "EmbeddedServer",
    "Mode",
    "NpmServer",
    "Proxy",
    "Reading",
    "Recvlogical",
    "ServerError",
    "Standby",
    "create_slot",
    "drop_slot",
    "modes",
    "record",
    "record_history",
    "record_physical",
    "run_sql",
    "wal_end",
]
