"""What a receiver asks its server beside the stream."""

from __future__ import annotations

import contextlib
import threading
import time
from typing import TYPE_CHECKING, Any

from walrow.errors import Error

if TYPE_CHECKING:
    import psycopg

__all__ = ["TimelineWatch", "Watch"]


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


class TimelineWatch:
    """Notices that a standby goes on with another timeline, as after its promotion.

    A walsender goes on over the same connection then, and says nothing of it.
    """

    def __init__(self, given: dict[str, Any], slot: str) -> None:
        """Stores the arguments.

        Args:
            given: The connection parameters.
            slot: The slot.
        """
        self._given = {**given, "connect_timeout": 3}
        self._slot = slot
        #: The walsender of a standby.
        self._process: int | None = None
        self._found: tuple[int, int] | None = None
        self._due = 0.0
        self._thread: threading.Thread | None = None

    def begin(self, conn: psycopg.Connection[Any]) -> None:
        """Watches the server of this connection, which is to stream, if it is a standby."""
        is_standby = conn.pgconn.parameter_status(b"in_hot_standby") == b"on"
        self._process, self._found = None, None
        if is_standby:
            self._process = conn.info.backend_pid

    def look(self) -> int | None:
        """The standby's last known timeline. Asks again in the background if it is old."""
        is_running = self._thread is not None and self._thread.is_alive()
        if time.monotonic() >= self._due and not is_running:
            self._begin_to_ask()
        return self._answer()

    def look_now(self, seconds: float) -> int | None:
        """The standby's timeline now, or the last known one if it does not say in time."""
        self._begin_to_ask()
        if self._thread is not None:
            self._thread.join(seconds)
        return self._answer()

    def _begin_to_ask(self) -> None:
        if self._process is None:
            return
        self._due = time.monotonic() + _TIMELINE_SECONDS
        self._thread = threading.Thread(
            target=self._ask, args=(self._process,), daemon=True
        )
        self._thread.start()

    def _answer(self) -> int | None:
        found = self._found
        return found[1] if found is not None and found[0] == self._process else None

    def _ask(self, process: int) -> None:
        import psycopg
        from psycopg import sql

        from walrow.postgres.commands import identify_system
        from walrow.postgres.connecting import connect

        # In recovery, only this command says what is replayed now. The next look tries again.
        with contextlib.suppress(Error, psycopg.Error), connect(self._given) as conn:
            conn.execute("SET statement_timeout = '3s'")
            timeline = identify_system(conn).timeline
            row = conn.execute(sql.SQL(_USER).format(self._slot)).fetchone()
            # One of several hosts may have answered that is not the stream's.
            if row is not None and row[0] == process:
                self._found = (process, timeline)


#: What a crash in between has received under the old timeline is refused later.
_TIMELINE_SECONDS = 2.0
_USER = """
SELECT active_pid FROM pg_catalog.pg_replication_slots WHERE slot_name = {}
"""
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
