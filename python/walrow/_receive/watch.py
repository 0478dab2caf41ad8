"""The questions of a receiver to its server, beside the stream."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from walrow._postgres.commands import identify_system
from walrow._postgres.connecting import connect
from walrow._receive.askers import Asker
from walrow._workers import Repeated, answered
from walrow.errors import Error


class Watch:
    """Asks the server for its end of WAL and for what the slot keeps, now and then."""

    def __init__(self, asker: Asker, slot: str) -> None:
        self._slot = slot
        self._found: tuple[int | None, int | None] = (None, None)
        self._question = Repeated(partial(asker.ask, self._ask), _WATCH_SECONDS)

    def look(self) -> tuple[int | None, int | None]:
        """The last answers. Asks again in the background if they are old."""
        with contextlib.suppress(Error):
            self._found = self._question.look() or self._found
        return self._found

    def _ask(self, conn: psycopg.Connection[Any]) -> tuple[int, int | None] | None:
        row = conn.execute(_WATCH, (self._slot,)).fetchone()
        if row is None:
            return None
        end, kept = row
        return int(end), None if kept is None else int(kept)


class TimelineWatch:
    """Notices that a standby goes on with another timeline, as after its promotion.

    A walsender goes on over the same connection then, without a message. Only another
    replication connection does, which is kept while the server is a standby.
    """

    def __init__(
        self, given: dict[str, Any], slot: str, wake: Callable[[], None]
    ) -> None:
        """Stores the arguments: `wake` is called when the server has answered."""
        self._wake = wake
        self._given = {**given, "connect_timeout": 3}
        self._slot = slot
        self._asker = Asker(self._connect, "walrow-timeline")
        #: The walsender of a standby.
        self._process: int | None = None
        self._found: tuple[int, int] | None = None
        self._due = 0.0
        self._answer: Future[tuple[int, int] | None] | None = None

    def begin(self, conn: psycopg.Connection[Any]) -> None:
        """Watches the server of this connection, which is to stream, if it is a standby."""
        is_standby = conn.pgconn.parameter_status(b"in_hot_standby") == b"on"
        self._process, self._found, self._answer = None, None, None
        self._asker.renew()
        if is_standby:
            self._process = conn.info.backend_pid

    def look(self) -> int | None:
        """The standby's last known timeline. Asks again in the background if it is old."""
        self._take()
        if time.monotonic() >= self._due and self._answer is None:
            self._begin_to_ask()
        return self._known()

    def look_now(self, seconds: float) -> int | None:
        """The standby's timeline now, or the last known one if it does not say in time."""
        self._begin_to_ask()
        if self._answer is not None:
            answered(self._answer, seconds)
            self._take()
        return self._known()

    def close(self) -> None:
        """Asks no more."""
        self._asker.close()

    def _begin_to_ask(self) -> None:
        if self._process is None:
            return
        self._due = time.monotonic() + _TIMELINE_SECONDS
        self._answer = self._asker.ask(partial(self._ask, self._process))
        self._answer.add_done_callback(lambda _: self._wake())

    def _take(self) -> None:
        answer = self._answer
        if answer is not None and answer.done():
            self._answer = None
            # The next look tries again.
            with contextlib.suppress(Error):
                self._found = answer.result() or self._found

    def _known(self) -> int | None:
        found = self._found
        return found[1] if found is not None and found[0] == self._process else None

    def _connect(self) -> psycopg.Connection[Any]:
        return connect(self._given, statement_timeout="3s")

    def _ask(
        self, process: int, conn: psycopg.Connection[Any]
    ) -> tuple[int, int] | None:

        # In recovery, only this command returns the replayed timeline.
        timeline = identify_system(conn).timeline
        row = conn.execute(sql.SQL(_USER).format(self._slot)).fetchone()
        # One of several hosts may have answered that is not the stream's.
        return (process, timeline) if row is not None and row[0] == process else None


#: After a crash in between, transactions received under the old timeline are refused
#: later.
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
