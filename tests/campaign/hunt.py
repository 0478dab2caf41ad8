"""Runs days: a day of the table of faults, a day to replay, or drawn days for a time."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import psycopg

# They fill the table of kinds.
import campaign.changes
import campaign.followers
import campaign.readers
import campaign.upkeep  # noqa: F401
from campaign.day import Day
from campaign.drawing import day_of
from campaign.looking import received
from campaign.steps import KINDS, Step, printed, run
from servers import EmbeddedServer


class Found(NamedTuple):
    """A day that broke a promise.

    Attributes:
        steps: It, as short as it could be made.
        error: The promise that it broke.
        seed: The seed that it was drawn with.
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
            f"replay: WALROW_CAMPAIGN_REPLAY='{printed(self.steps)}'\n"
            + "\n".join(getattr(self.error, "__notes__", ()))
        )


def campaign_server() -> EmbeddedServer:
    """A server for many days, which removes WAL that nobody needs."""
    settings = {"max_wal_size": "256MB", "min_wal_size": "32MB"}
    return EmbeddedServer(18, logical_decoding_work_mem="64kB", settings=settings)


def replay(server: EmbeddedServer, steps: Sequence[Step], spark: Any = None) -> None:
    """Runs a day.

    Args:
        server: The server.
        steps: The steps.
        spark: The session for Delta tables. None: targets are in memory.

    Raises:
        Fault: It breaks a promise. Any other exception is a fault, too.
    """
    with Day(server, spark) as day:
        try:
            for number, it in enumerate(steps):
                day.is_risky |= not KINDS[it.kind].is_harmless
                run(day, it)
                if number == 0 and any(it.kind in _NEED_A_COPY for it in steps):
                    day.copy_server()
            if not steps[-1].kind.endswith("look"):
                received(day)
        except Exception as error:
            error.add_note("\n".join(day.script))
            raise


def hunt(
    server: EmbeddedServer,
    *,
    seconds: float,
    seed: int,
    without: Collection[str] = (),
    themes: Collection[str] = (),
    shrink_seconds: float = 60.0,
    spark: Any = None,
) -> Found | int:
    """Draws days and runs them, until one breaks a promise or the time is over. Then it is their number.

    Args:
        server: The server.
        seconds: The time.
        seed: The seed of the first day. Each day has the next one.
        without: Kinds of steps that are not drawn.
        themes: The themes of the days. Default: all.
        shrink_seconds: The time to make a day shorter.
        spark: As in `replay`.
    """
    began = time.monotonic()
    for count in itertools.count(1):
        if time.monotonic() - began > seconds:
            return count - 1
        steps = day_of(seed, without, themes)
        error = _failure(server, steps, spark)
        if error is not None:
            took = time.monotonic() - began
            steps, error = shorter(server, steps, error, shrink_seconds, spark)
            return Found(steps, error, seed, took, count)
        seed += 1
        if count % _DAYS == 0:
            with psycopg.connect(server.dsn, autocommit=True) as connection:
                connection.execute("CHECKPOINT")
    raise AssertionError


def shorter(
    server: EmbeddedServer,
    steps: tuple[Step, ...],
    error: BaseException,
    seconds: float,
    spark: Any = None,
) -> tuple[tuple[Step, ...], BaseException]:
    """Leaves steps out, and makes numbers 0, as long as the day breaks the same promise."""
    end = time.monotonic() + seconds
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for tried in _simpler(steps):
            if time.monotonic() > end:
                return steps, error
            found = _failure(server, tried, spark)
            if found is not None and _promise(found) == _promise(error):
                steps, error, is_shorter = tried, found, True
                break
    return steps, error


def _simpler(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    size = len(steps) // 2
    while size:
        # Early steps are needed more often than late ones: the late ones are left out first.
        for at in range(len(steps) - size, 0, -size):
            yield steps[:at] + steps[at + size :]
        size //= 2
    for at, it in enumerate(steps):
        for number, value in enumerate(it.args):
            if value:
                args = (*it.args[:number], 0, *it.args[number + 1 :])
                yield (*steps[:at], Step(it.kind, args), *steps[at + 1 :])


def _promise(error: BaseException) -> tuple[object, ...]:
    """The promise that an error names, without the words that depend on the day."""
    words = re.sub(r"[0-9].*|public[.]\w+", "", str(error)).split()
    return type(error), *words[:6]


def _failure(
    server: EmbeddedServer, steps: tuple[Step, ...], spark: Any
) -> BaseException | None:
    try:
        replay(server, steps, spark)
    except Exception as error:
        return error
    return None


_DAYS = 25
_NEED_A_COPY = {"set_back", "set_back_under_receiver"}
