"""Notices that a stream's server is stopping, while what the server sends cannot be taken.

A server that stops waits for all that its walsenders have sent to be confirmed. Its stream does not
show that.
"""

from __future__ import annotations

import time
from concurrent.futures import Future
from functools import partial
from typing import Any

import psycopg

from walrow._postgres.connecting import again, lets_nobody_in
from walrow._workers import in_background


class ShutdownWatch:
    """Watches the server of one stream."""

    def __init__(self, conn: psycopg.Connection[Any]) -> None:
        """Asks nothing yet. `conn` is the stream's connection."""
        self._parameters = {**again(conn), "connect_timeout": _ANSWER_SECONDS}
        self._asked = 0.0
        self._answer: Future[bool] | None = None

    def is_stopping(self, stuck_since: float) -> bool:
        """Whether the server is stopping. Asks in the background if nothing was taken for seconds.

        Args:
            stuck_since: Since when nothing is taken, as `time.monotonic()` counts. Infinite if it is.
        """
        now, answer = time.monotonic(), self._answer
        if answer is not None and answer.done():
            self._answer = None
            return answer.result()
        if answer is None and now >= max(self._asked, stuck_since) + _ASK_SECONDS:
            self._asked = now
            task = partial(lets_nobody_in, self._parameters)
            self._answer = in_background("walrow-shutdown-watch", task)
        return False


STOPPING = "the server is stopping, and waits for data that cannot be stored now: it sends them again later"
_ASK_SECONDS = 3.0
_ANSWER_SECONDS = 2
