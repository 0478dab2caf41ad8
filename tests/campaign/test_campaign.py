"""Days of a user: every state is PostgreSQL's table, or marked, or refused by name."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import pytest

from campaign.drawing import ALWAYS, GRAMMARS, THEMES
from campaign.faults import FAULTS, Known
from campaign.hunt import Found, campaign_server, hunt, replay
from campaign.steps import KINDS, parsed, printed
from servers import EmbeddedServer

IS_SLOW = bool(os.environ.get("WALROW_SLOW"))
SECONDS = float(os.environ.get("WALROW_CAMPAIGN_SECONDS", "900" if IS_SLOW else "20"))
SEED = int(
    os.environ.get("WALROW_CAMPAIGN_SEED", str(int(time.time())) if IS_SLOW else "1")
)

pytestmark = [pytest.mark.live, pytest.mark.timeout(SECONDS + 240)]


@pytest.fixture(scope="module")
def one() -> Iterator[EmbeddedServer]:
    """A server for all days, which they stop, set back and promote."""
    with campaign_server() as server:
        yield server


@pytest.mark.slow
@pytest.mark.parametrize("known", FAULTS, ids=lambda it: it.name)
def test_a_fault_that_was_found(one: EmbeddedServer, known: Known) -> None:
    replay(one, parsed(known.steps))


def test_drawn_days(one: EmbeddedServer) -> None:
    print(f"WALROW_CAMPAIGN_SEED={SEED}")  # noqa: T201
    found = hunt(one, seconds=SECONDS, seed=SEED, shrink_seconds=30)
    assert not isinstance(found, Found), str(found)
    print(f"{found} days")  # noqa: T201


def test_a_day_again(one: EmbeddedServer) -> None:
    steps = os.environ.get("WALROW_CAMPAIGN_REPLAY")
    if not steps:
        pytest.skip("WALROW_CAMPAIGN_REPLAY has no steps")
    replay(one, parsed(steps))


def test_steps_are_printed_and_read() -> None:
    text = '[["begin", 0, 1], ["look"]]'
    assert printed(parsed(text)) == text
    used = {it.kind for known in FAULTS for it in parsed(known.steps)}
    named = {kind for kinds in (*THEMES.values(), *GRAMMARS.values()) for kind in kinds}
    assert used | named | {*ALWAYS, "begin"} == set(KINDS)
