"""The end of WAL in keepalives: which part of it a receiver believes, and when."""

from __future__ import annotations

import math

from walrow import Lsn
from walrow._receive.claims import Claims


def asked(claimed: int) -> Claims:
    """A connection whose server ends at 100, and has claimed something."""
    claims = Claims()
    claims.begin(Lsn(100))
    assert claims.due == math.inf
    assert claims.believed(Lsn(90)) == 90
    assert claims.believed(Lsn(claimed)) == 100
    assert claims.due < 5
    claims.ask(5)
    assert claims.due == math.inf
    return claims


def test_a_claim_is_believed_once_the_server_was_asked() -> None:
    claims = asked(150)
    # Later than the question.
    assert claims.believed(Lsn(300)) == 100
    assert claims.answer(Lsn(200), is_last=True) == 200
    # Not at once: a busy server sends many.
    assert 5 < claims.due < 6
    claims.ask(6)
    assert claims.answer(Lsn(300), is_last=True) == 300
    assert claims.due == math.inf


def test_a_slot_that_was_created_since_is_believed() -> None:
    claims = Claims()
    claims.begin(Lsn(100))
    claims.learn(Lsn(120))
    claims.learn(Lsn(0))
    assert claims.believed(Lsn(130)) == 120


def test_a_false_claim_is_refused() -> None:
    assert asked(150).answer(Lsn(149), is_last=True) is None
    # A standby may be behind.
    assert asked(150).answer(Lsn(149), is_last=False) == 149


def test_a_server_that_shuts_down_does_not_answer() -> None:
    assert asked(150).answer(Lsn(0), is_last=False) == 150
    assert asked(1 << 60).answer(Lsn(0), is_last=False) == 100
