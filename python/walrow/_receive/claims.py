"""The end of WAL in keepalives, which is believed once the server has it in another answer, too.

A keepalive far beyond the last change is usual, and the log confirms it. So a position that the
server does not have would make the log and the slot unusable.
"""

from __future__ import annotations

import math

from walrow._lsn import Lsn


class Claims:
    """The ends of WAL that a connection's keepalives claim."""

    def __init__(self) -> None:
        """Knows nothing."""
        self._known = self._claimed = Lsn(0)
        #: The claim when the server was asked. None without a question.
        self._asked: Lsn | None = None
        self._next = -math.inf

    def begin(self, end: Lsn) -> None:
        """A connection to a server begins whose WAL ends there."""
        self._known = self._claimed = end

    def learn(self, position: Lsn) -> None:
        """The server has this position: its slot is there, which may have been created since.

        A log that ended before its slot could not be continued.
        """
        self._known = max(self._known, position)

    def believed(self, claimed: Lsn) -> Lsn:
        """The part of a claim that is known to be true."""
        self._claimed = max(self._claimed, claimed)
        return min(claimed, self._known)

    @property
    def due(self) -> float:
        """When the server is to be asked."""
        is_open = self._claimed > self._known and self._asked is None
        return self._next if is_open else math.inf

    def ask(self, now: float) -> None:
        """The server is asked."""
        self._asked, self._next = self._claimed, now + _PAUSE_SECONDS

    def answer(self, end: Lsn, *, is_last: bool) -> Lsn | None:
        """The end of WAL that is believed after an answer. None if a claim is false.

        Only the answer of a primary `is_last`: a standby may be behind. A server that shuts down does
        not answer, and waits until its last records are confirmed: so a near claim is believed then.
        """
        asked, self._asked = self._asked, None
        if not end and self._claimed - self._known <= _NEAR:
            end = self._claimed
        self._known = max(self._known, end)
        if is_last and asked is not None and asked > self._known:
            return None
        return min(self._claimed, self._known)


_NEAR = 16 << 20
#: A busy server sends many keepalives.
_PAUSE_SECONDS = 0.2
