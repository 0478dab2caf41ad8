"""When a receiver connects again, as pure functions."""

from __future__ import annotations

import math
from typing import Any

import pytest

from walrow import Error, Lsn
from walrow._postgres.failures import INTERNAL_ERROR, stream_error
from walrow._receive.link import Attempt, Attempts, Away, Ended, Link, State, Streaming
from walrow._receive.same_server import Comparison
from walrow.errors import ReplicationError

AWAY = ReplicationError("connection refused")


#: The seconds on the clock.
NOW = [1_000.0]


@pytest.fixture
def clock() -> list[float]:
    NOW[0] = 1_000.0
    return NOW


def after(
    attempts: Attempts, error: Error, *, is_known: bool = False, **changes: Any
) -> Attempt | None:
    given: dict[str, Any] = {
        "lasted": 1.0,
        "has_streamed": False,
        "has_advanced": False,
        "is_final": False,
        "has_given_up": False,
    }
    return attempts.after(error, NOW[0], is_known=is_known, **(given | changes))


def test_a_server_that_is_away_at_the_start(clock: list[float]) -> None:
    attempts = Attempts(3_600, 600, NOW[0])
    notes, pauses = [], []
    while (found := after(attempts, AWAY)) is not None:
        notes.append(found.note)
        pauses.append(found.pause)
        clock[0] += found.pause
    assert attempts.is_late
    assert 600 <= clock[0] - 1_000 <= 630
    assert max(pauses) == 15
    # There is one text for each minute.
    texts = list(dict.fromkeys(notes))
    assert texts[:3] == [
        "connection refused",
        "connection refused (for 1 min)",
        "connection refused (for 2 min)",
    ]
    assert len(texts) == 10


def test_a_known_server_is_waited_for_without_an_end(clock: list[float]) -> None:
    attempts = Attempts(3_600, 0, NOW[0])
    for _ in range(100):
        clock[0] += 1_000
        assert after(attempts, AWAY, is_known=True) is not None
    # Twelve hours, at 15 seconds each.
    for _ in range(2_900):
        found = after(attempts, AWAY, is_known=True)
        assert found is not None
        assert found.pause == 15
    # A stream ends the time that the note counts.
    found = after(attempts, AWAY, is_known=True, has_streamed=True)
    assert found is not None
    assert found.note == "connection refused"


@pytest.mark.parametrize(
    "text",
    [
        'password authentication failed for user "x"',
        'FATAL: database "x" does not exist',
        'invalid sslmode value: "bogus"',
        'invalid integer value "x" for connection option "port"',
        "SSL error: certificate verify failed",
        'private key file "x" has group or world access',
        'weak sslmode "prefer" may not be used with sslrootcert=system',
    ],
)
def test_a_server_that_refuses_is_not_waited_for(text: str) -> None:
    attempts = Attempts(3_600, math.inf, NOW[0])
    assert after(attempts, ReplicationError(text)) is None
    assert not attempts.is_late


@pytest.mark.parametrize(
    "text",
    [
        "FATAL: the database system is starting up",
        "FATAL: sorry, too many clients already",
        "failed to resolve host 'x': [Errno -2] Name or service not known",
        "connection timeout expired",
        "No route to host",
    ],
)
def test_a_server_that_is_not_reachable_is_waited_for(text: str) -> None:
    assert after(Attempts(3_600, 1, NOW[0]), ReplicationError(text)) is not None


def test_an_internal_error_is_given_up(clock: list[float]) -> None:
    error = stream_error(INTERNAL_ERROR, "s", ("p",))
    assert "--no-streaming" in str(error)
    for give_up_after, longest in ((10, 10), (3_600, 90)):
        attempts = Attempts(give_up_after, math.inf, NOW[0])
        began = clock[0]
        while (found := after(attempts, error, is_known=True)) is not None:
            clock[0] += found.pause
        assert longest <= clock[0] - began <= longest + 15


def test_streaming_is_off_until_the_log_has_passed_the_place() -> None:
    streaming = Streaming()
    error = stream_error(INTERNAL_ERROR, "s", ("p",))
    assert streaming.may_stream(Lsn(50), Lsn(10))
    assert not streaming.fail(AWAY)
    assert streaming.may_stream(Lsn(50), Lsn(10))
    assert streaming.fail(error)
    assert not streaming.may_stream(Lsn(60), Lsn(10))
    # The next connections, whatever ends them: it is said once.
    assert not streaming.fail(error)
    assert not streaming.may_stream(Lsn(90), Lsn(59))
    assert streaming.may_stream(Lsn(90), Lsn(60))
    assert streaming.fail(error)


def link_that_began(*, streams: bool = True) -> Link:
    link = Link(3_600, 600, 1_000.0, streams=streams)
    assert link.state == Away(1_000.0)
    link.begin(Lsn(5), 1_000.0)
    return link


def state_of(link: Link) -> State:
    return link.state


def lost(link: Link, error: Error, now: float) -> Attempt | None:
    return link.lose(
        error, Lsn(5), now, is_known=True, is_final=False, has_given_up=False
    )


def test_a_server_that_does_not_answer_is_left() -> None:
    link = link_that_began()
    assert link.unanswered_until == 1_090
    link.answer(1_050.0)
    assert link.unanswered_until == 1_140
    # A large log takes long, and the server is not asked meanwhile.
    link.open()
    assert link.unanswered_until == math.inf
    link.answer(2_000.0)
    assert link.unanswered_until == 2_090
    link.stream(Comparison.FIRST, 2_001.0)
    assert link.unanswered_until == math.inf


def test_a_connection_that_only_compares_is_followed_by_another() -> None:
    link = link_that_began()
    seen = []
    for purpose in (Comparison.ONLY, Comparison.DONE, Comparison.FIRST):
        link.stream(purpose, 1_001.0)
        seen.append(link.only_compares)
        link.answer(1_002.0)
        seen.append(link.only_compares)
    assert seen == [True, False, False, False, False, False]


def test_a_lost_connection_is_away_or_has_ended() -> None:
    link = link_that_began()
    assert lost(link, AWAY, 1_001.0) is not None
    assert state_of(link) == Away(1_001.25)
    link.begin(Lsn(5), 1_001.25)
    refused = ReplicationError('password authentication failed for user "x"')
    assert lost(link, refused, 1_002.0) is None
    assert state_of(link) == Ended(refused)


def test_an_internal_error_turns_streaming_off_if_it_was_on() -> None:
    error = stream_error(INTERNAL_ERROR, "s", ("p",))
    for streams in (True, False):
        link = link_that_began(streams=streams)
        attempt = lost(link, error, 1_001.0)
        assert attempt is not None
        assert ("come at their commit" in attempt.note) == streams
        assert link.streaming.may_stream(Lsn(9), Lsn(5)) != streams
