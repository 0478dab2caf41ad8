"""The servers of a simulation: they commit, and are promoted or set back."""

from __future__ import annotations

import random

from walrow import Lsn
from walrow._postgres.commands import IdentifySystem
from walrow._receive.resuming import SlotFound, XidStatus


class SimulatedServer:
    """A server. Transaction number n has LSN n, and a branch: who has committed it.

    Attributes:
        branches: The branch of each transaction.
        timeline: Its timeline.
        history: The earlier timelines, and where they ended.
        confirmed: Up to where its slot is confirmed. None without a slot.
        user: The connection that uses the slot. 0 for none.
        is_conflicting: Whether it has ever lost transactions that it had sent.
        refuses_streaming_at: A transaction that cannot be streamed before its commit.
    """

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._branch = 1
        self.branches = [1] * rng.randrange(20)
        self.timeline = 1
        self.history: list[tuple[int, Lsn, str]] = []
        self.confirmed: int | None = None
        self.user = 0
        self.is_conflicting = False
        self.refuses_streaming_at = 0

    @property
    def end(self) -> int:
        """The end of its WAL."""
        return len(self.branches)

    def commit(self, count: int) -> None:
        """Commits transactions."""
        self.branches += [self._branch] * count

    def identify(self) -> IdentifySystem:
        return IdentifySystem("1", self.timeline, Lsn(self.end), "db")

    def slot(self) -> SlotFound | None:
        if self.confirmed is None:
            return None
        return SlotFound("pgoutput", "db", Lsn(self.confirmed), "reserved", None)

    def status(self, lsn: int, branch: int) -> XidStatus:
        """The status of a transaction of a log."""
        if lsn <= self.end and self.branches[lsn - 1] == branch:
            return XidStatus("committed", waits=False)
        return XidStatus("future", waits=False)

    def promote(self, lost: int = 0) -> None:
        """A standby goes on, maybe without the last transactions."""
        self._lose(lost)
        self.history.append((self.timeline, Lsn(self.end), "promoted"))
        self.timeline += 1

    def promote_elsewhere(self) -> None:
        """Another standby has the same timeline's number, but left the old one earlier."""
        if not self.history or self.history[-1][1] < 2:
            return
        timeline, end, why = self.history.pop()
        self._lose(self.end - (end - 1))
        self.history.append((timeline, Lsn(end - 1), why))
        self.is_conflicting = True

    def set_back(self) -> None:
        """It is restored from an older copy, with the old slot or a newer slot."""
        lost = self._rng.randrange(1, 8)
        self._lose(lost)
        if self.history and self.history[-1][1] > self.end:
            # Not beyond its timeline.
            self.branches += [1] * (self.history[-1][1] - self.end)
        if self._rng.random() < 0.5:
            self.commit(lost + self._rng.randrange(4))
        if self.confirmed is not None:
            at = self.end if self._rng.random() < 0.2 else min(self.confirmed, self.end)
            self.confirmed = at

    def _lose(self, lost: int) -> None:
        lost = min(lost, self.end)
        if lost:
            self.is_conflicting = True
            del self.branches[self.end - lost :]
        if self.confirmed is not None:
            self.confirmed = min(self.confirmed, self.end)
        self._branch += 1
