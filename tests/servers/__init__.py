"""Real PostgreSQL servers for tests and benches, and recorders for them."""

from servers.embedded import EmbeddedServer, ServerError, Standby
from servers.fetched import FetchedServer
from servers.histories import Mode, modes, record_history
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
    "EmbeddedServer",
    "FetchedServer",
    "Mode",
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
