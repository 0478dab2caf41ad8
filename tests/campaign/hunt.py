"""Runs days: those of a table, one that is replayed, and drawn ones for a time."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, NamedTuple

import hypothesis
from hypothesis import HealthCheck, Phase

# They fill the table of kinds.
import campaign.changes
import campaign.readers
import campaign.upkeep  # noqa: F401
from campaign.day import Day
from campaign.looking import received
from campaign.steps import KINDS, Step, days, printed, run
from servers import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["Found", "campaign_server", "hunt", "replay"]


class Found(NamedTuple):
    """A day that broke a promise.

    Attributes:
        steps: It, as short as it could be made.
        error: What is wrong.
        seed: What it was drawn with.
        seconds: How long it took to find it, without making it short.
        days: How many days were run before.
    """

    steps: tuple[Step, ...]
    error: BaseException
    seed: int
    seconds: float
    days: int

    def __str__(self) -> str:
        """Says how to see it again."""
        return (
            f"{type(self.error).__name__}: {self.error}\n"
            f"found with seed {self.seed} after {self.seconds:.0f} s and {self.days} days\n"
            f"replay: WALROW_CAMPAIGN_REPLAY='{printed(self.steps)}'"
        )


def campaign_server() -> EmbeddedServer:
    """A server for many days, which removes WAL that nobody needs."""
    settings = {"max_wal_size": "256MB", "min_wal_size": "32MB"}
    return EmbeddedServer(18, logical_decoding_work_mem="64kB", settings=settings)


def replay(server: EmbeddedServer, steps: Sequence[Step]) -> None:
    """Runs a day.

    Raises:
        Fault: It breaks a promise. Any other exception is a fault, too.
    """
    with Day(server) as day:
        for number, it in enumerate(steps):
            day.is_risky |= not KINDS[it.kind].is_harmless
            run(day, it)
            if number == 0 and any(it.kind in _NEED_A_COPY for it in steps):
                day.copy_server()
        if not steps[-1].kind.endswith("look"):
            received(day)


def hunt(
    server: EmbeddedServer,
    *,
    seconds: float,
    seed: int,
    without: Collection[str] = (),
    themes: Collection[str] = (),
    shrink_seconds: float = 60.0,
) -> Found | None:
    """Draws days and runs them, until one breaks a promise or the time is over.

    Args:
        server: The server.
        seconds: The time.
        seed: That of the first round. Each round of some days has the next one.
        without: Kinds of steps that are not drawn.
        themes: What days are about. Default: all.
        shrink_seconds: The time to make a day shorter.
    """
    began = time.monotonic()
    count = 0
    while time.monotonic() - began < seconds:
        one = _Round(server, began + seconds, shrink_seconds)
        drawn = days(without=without, themes=themes)
        check = hypothesis.given(drawn)(one.check)
        check = hypothesis.settings(
            max_examples=_DAYS,
            database=None,
            deadline=None,
            derandomize=False,
            phases=(Phase.generate, Phase.shrink),
            report_multiple_bugs=False,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        )(hypothesis.seed(seed)(check))
        # What it raises is noted.
        with contextlib.suppress(Exception):
            check()
        if one.last is not None:
            steps, error = one.last
            found = (one.found or 0) - began
            return Found(steps, error, seed, found, count + one.days)
        count += one.days
        seed += 1
        with contextlib.suppress(Exception):
            server._admin("CHECKPOINT")
    return None


class _Round:
    """Runs days once each, and no more once its time is over."""

    def __init__(
        self, server: EmbeddedServer, end: float, shrink_seconds: float
    ) -> None:
        self._server = server
        self._end = end
        self._shrink_seconds = shrink_seconds
        self._errors: dict[tuple[Step, ...], BaseException | None] = {}
        self.found: float | None = None
        self.days = 0
        self.last: tuple[tuple[Step, ...], BaseException] | None = None

    def check(self, steps: tuple[Step, ...]) -> None:
        """Runs a day, unless it was run."""
        if steps not in self._errors:
            if time.monotonic() > self._end:
                return
            self._errors[steps] = self._run(steps)
        if (error := self._errors[steps]) is not None:
            self.last = (steps, error)
            raise error

    def _run(self, steps: tuple[Step, ...]) -> BaseException | None:
        if self.found is None:
            self.days += 1
        try:
            replay(self._server, steps)
        except Exception as error:
            if self.found is None:
                self.found = time.monotonic()
                self._end = self.found + self._shrink_seconds
            return error
        return None


_DAYS = 25
_NEED_A_COPY = {"set_back", "set_back_and_on"}
