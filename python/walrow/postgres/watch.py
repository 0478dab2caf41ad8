"""How far a receiver is behind its server."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import Any

from walrow.errors import Error

__all__ = ["Watch"]


class Watch:
    """Asks the server for its end of WAL and for what the slot keeps, now and then."""

    def __init__(self, given: dict[str, Any], slot: str) -> None:
        """Stores the arguments.

        Args:
            given: The connection parameters.
            slot: The slot.
        """
        self._given = {**given, "connect_timeout": 3}
        self._slot = slot
        self._found: tuple[int | None, int | None] = (None, None)
        self._due = 0.0
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def look(self) -> tuple[int | None, int | None]:
        """The last answers. Asks again in the background if they are old."""
        now = time.monotonic()
        is_running = self._thread is not None and self._thread.is_alive()
        if now >= self._due and not is_running and not self._is_closed:
            self._due = now + _WATCH_SECONDS
            self._thread = threading.Thread(target=self._ask, daemon=True)
            self._thread.start()
        return self._found

    def close(self) -> None:
        """Asks no more."""
        self._is_closed = True

    def _ask(self) -> None:
        from walrow.postgres.connecting import connect_for_sql

        with contextlib.suppress(Error), connect_for_sql(self._given) as conn:
            conn.execute("SET statement_timeout = '3s'")
            row = conn.execute(_WATCH, (self._slot,)).fetchone()
            if row is not None:
                end, kept = row
                self._found = (int(end), None if kept is None else int(kept))


_WATCH_SECONDS = 5.0
_WATCH = """
WITH wal (at) AS (
    SELECT CASE WHEN pg_catalog.pg_is_in_recovery()
        THEN pg_catalog.pg_last_wal_replay_lsn()
        ELSE pg_catalog.pg_current_wal_lsn() END
)
SELECT wal.at - '0/0', wal.at - s.restart_lsn
FROM wal LEFT JOIN pg_catalog.pg_replication_slots s ON s.slot_name = %s
"""
