"""Notices that a stream's server is stopping, while what the server sends cannot be taken.

A server that stops waits until the clients of its walsenders have confirmed everything. The stream does not
show that, but the server refuses each new connection.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import psycopg

from walrow._postgres.connecting import again, connect
from walrow._workers import Repeated, answered, in_background
from walrow.errors import Error


class ShutdownWatch:
    """Watches the server of one stream."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        """Asks nothing yet. `conn` is the stream's connection."""
        ask = partial(_is_stopping, {**again(conn), "connect_timeout": 2})
        begin = lambda: in_background("walrow-shutdown-watch", ask)  # noqa: E731
        self._question = Repeated(begin, _ASK_SECONDS)

    def is_stopping(self, stuck_since: float) -> bool:
        """Whether the server is stopping. Asks if nothing has been taken for some seconds."""
        is_stuck = time.monotonic() >= stuck_since + _ASK_SECONDS
        return is_stuck and bool(self._question.look())


def _is_stopping(parameters: dict[str, Any]) -> bool:
    refuses = partial(_refuses_connections, parameters)
    answer = in_background("walrow-shutdown", refuses)
    # A pooler does not say for long that its server refuses it. To connect again later does no harm.
    return not answered(answer, _ANSWER_SECONDS) or answer.result()


def _refuses_connections(parameters: dict[str, Any]) -> bool:
    try:
        word = parameters.get("replication")
        connect(parameters, server_encoding="UTF8", replication=word).close()
    except Error as error:
        return getattr(error, "sqlstate", None) == _CANNOT_CONNECT_NOW
    return False


STOPPING = "the server is stopping, and waits for data that cannot be stored now: the rest comes again later"
_ASK_SECONDS, _ANSWER_SECONDS = 3.0, 4.0
_CANNOT_CONNECT_NOW = "57P03"
