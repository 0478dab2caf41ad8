"""When a receiver connects again, as pure functions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from walrow import Error, Lsn
from walrow._postgres.commands import IdentifySystem
from walrow._postgres.failures import INTERNAL_ERROR
from walrow._postgres.server_errors import stream_error
from walrow._receive import events
from walrow._receive.attempts import Attempt, Attempts, Streaming
from walrow._receive.link import Link
from walrow._receive.link_states import (
    Away,
    Ended,
    LogSeen,
    Opening,
    Preparing,
    Settling,
    State,
    Step,
    Stopping,
    Streams,
    Want,
    Wishes,
)
from walrow._receive.resuming import SlotFound, XidStatus
from walrow._receive.same_server import Comparison, Last, asked_options
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


@pytest.mark.parametrize("sqlstate", ["55000", "25006", "54000"])
def test_three_alike_are_permanent(clock: list[float], sqlstate: str) -> None:
    attempts = Attempts(3_600, math.inf, NOW[0])
    error = ReplicationError("no", sqlstate=sqlstate)
    for _ in range(2):
        assert after(attempts, error) is not None
    # Another failure in between resets the count, as progress does.
    assert after(attempts, AWAY) is not None
    for _ in range(2):
        assert after(attempts, error) is not None
    assert after(attempts, error, has_advanced=True) is not None
    assert after(attempts, error) is not None
    assert after(attempts, error) is None
    # A slot that is lost does not come back.
    lost = ReplicationError("lost", sqlstate="55000", slot="s")
    assert after(Attempts(3_600, math.inf, clock[0]), lost) is None


def test_pauses_begin_anew_after_an_idle_connection_that_lived_long() -> None:
    attempts = Attempts(3_600, math.inf, NOW[0])
    pauses = []
    for lasted in (2, 2, 2, 2, 2, 2, 2, 31, 2, 31, 31):
        found = after(attempts, AWAY, lasted=lasted, has_streamed=True, is_known=True)
        assert found is not None
        pauses.append(found.pause)
    assert pauses == [0.25, 0.5, 1, 2, 4, 8, 15, 0.25, 0.5, 0.25, 0.25]


def test_an_internal_error_is_given_up(clock: list[float]) -> None:
    error = stream_error(INTERNAL_ERROR, "s", ("p",))
    assert "--no-streaming" in str(error)
    attempts = Attempts(3_600, math.inf, NOW[0])
    began = clock[0]
    while (found := after(attempts, error, is_known=True)) is not None:
        clock[0] += found.pause
    assert 90 <= clock[0] - began <= 105


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


SERVER = IdentifySystem("1", 1, Lsn(9), "db")
SLOT = SlotFound("pgoutput", "db", Lsn(5), "reserved", None)
OPEN = LogSeen(Lsn(5), asked={"messages": "true"}, is_open=True)


def link_that_began(*wanted: Want) -> Link:
    wishes = Wishes("s", ("p",), None, {}, "resume it", frozenset(wanted))
    link = Link(wishes, 3_600, 600, 1_000.0)
    assert link.state == Away(1_000.0)
    assert events.Connect(1) in link.tick(LogSeen(Lsn(5)), 1_000.0)
    return link


def state_of(link: Link) -> State:
    return link.state


def test_the_steps_of_a_connection() -> None:
    link = link_that_began()
    assert state_of(link) == Preparing(1, 1_000.0, Step.CONNECTING)
    linked = events.Linked(1, SERVER)
    assert link.on(linked, LogSeen(), 1_001.0) == [events.OpenLog(1, SERVER)]
    assert state_of(link) == Opening(1, SERVER)
    opened: Any = events.LogOpened(1, None, None, None, None, 1, None)  # type: ignore[arg-type]
    (inspect,) = link.on(opened, OPEN, 1_002.0)
    assert inspect == events.Inspect(1, SERVER, None)
    found = events.Found(1, SERVER, (), is_standby=False, slot=SLOT, status=None)
    (check,) = link.on(found, OPEN, 1_003.0)
    assert check == events.Check(1, frozenset({events.Part.PREFLIGHT}), Lsn(5))
    session, start = link.on(events.Checked(1, findings=()), OPEN, 1_004.0)
    assert isinstance(session, events.BeginSession)
    assert isinstance(start, events.StartStream)
    link.on(events.Started(1), OPEN, 1_005.0)
    # The log was received with other options: these are asked for first.
    assert state_of(link) == Streams(1, Comparison.ONLY)
    assert link.tick(OPEN, 1_006.0) == []
    compared = OPEN._replace(is_compared=True)
    assert link.tick(compared, 1_007.0) == [events.HangUp(1), events.Connect(2)]


@pytest.mark.parametrize("asks_for_all", [False, True])
def test_a_trigger_that_comes_is_asked_for_messages(*, asks_for_all: bool) -> None:
    wishes = Wishes(
        *("s", ("p",), None, {"messages": asks_for_all}, "", frozenset[Want]())
    )
    link = Link(wishes, 3_600, 600, 1_000.0)
    link.tick(LogSeen(Lsn(5)), 1_000.0)
    asked = asked_options(("p",), wishes.stream_options)
    log = OPEN._replace(asked=asked, is_compared=True)
    link.on(events.Linked(1, SERVER), log, 1_001.0)
    link.on(events.Found(1, SERVER, (), False, SLOT, None), log, 1_002.0)
    link.on(events.Checked(1, findings=()), log, 1_003.0)
    link.on(events.Started(1), log, 1_004.0)
    assert link.on(events.TriggerSeen(is_there=False), log, 1_005.0) == []
    again = link.on(events.TriggerSeen(is_there=True), log, 1_006.0)
    assert again == ([] if asks_for_all else [events.HangUp(1), events.Connect(2)])


def test_a_transaction_that_waits_for_standbys_is_waited_for() -> None:
    """The log has it already, but the server does not show it as committed yet."""
    last = Last(Lsn(3), Lsn(0), 7, is_prepare=False)
    log = OPEN._replace(last=last)
    for waits in (True, False):
        link = link_that_began()
        link.on(events.Linked(1, SERVER), log, 1_001.0)
        status = XidStatus("in progress", waits)
        found = events.Found(1, SERVER, (), is_standby=False, slot=SLOT, status=status)
        done = link.on(found, log, 1_002.0)
        assert isinstance(state_of(link), Away if waits else Stopping), done
        records = [it for it in done if isinstance(it, events.RecordStop)]
        assert bool(records) != waits


def test_a_server_with_another_timeline_waits_for_the_queue() -> None:
    link = link_that_began()
    link.timeline = 1
    link.on(events.Linked(1, SERVER), OPEN, 1_001.0)
    promoted = replace(SERVER, timeline=2)
    history = [(1, Lsn(7), "")]
    found = events.Found(1, promoted, history, is_standby=False, slot=SLOT, status=None)
    busy = OPEN._replace(is_settled=False)
    assert link.on(found, busy, 1_002.0) == []
    assert isinstance(state_of(link), Settling)
    assert link.tick(busy, 1_080.0) == []
    # The durable changes of the old timeline are missing on the new timeline.
    late = OPEN._replace(durable=Lsn(8))
    left, record = link.tick(late, 1_081.0)
    assert left == events.Leave(1)
    assert isinstance(record, events.RecordStop)
    assert isinstance(state_of(link), Stopping)
    assert link.on(events.StopRecorded(None), late, 1_082.0) == []
    ended = state_of(link)
    assert isinstance(ended, Ended)
    assert str(ended.error).endswith("resume it")


def test_a_server_that_does_not_answer_is_left() -> None:
    link = link_that_began()
    assert link.deadline == 1_090
    link.on(events.Heard(), OPEN, 1_050.0)
    assert link.deadline == 1_140
    assert link.tick(OPEN, 1_139.0) == []
    left, said = link.tick(OPEN, 1_140.0)
    assert left == events.Leave(1)
    assert isinstance(said, events.Say)
    # A late answer counts for nothing.
    assert link.on(events.Linked(1, SERVER), OPEN, 1_141.0) == []
    # A large log takes long, and the server is not asked meanwhile.
    link.tick(LogSeen(), link.deadline)
    link.on(events.Linked(2, SERVER), LogSeen(), 1_150.0)
    assert link.deadline == math.inf


def test_a_log_that_is_still_written_is_not_opened_again() -> None:
    link = link_that_began()
    link.on(events.Failed(1, AWAY), LogSeen(), 1_001.0)
    assert link.tick(LogSeen(is_free=False), 2_000.0) == []
    assert events.Connect(2) in link.tick(LogSeen(), 2_000.0)


def test_a_lost_connection_is_away_or_has_ended() -> None:
    link = link_that_began()
    link.on(events.Failed(1, AWAY), OPEN, 1_001.0)
    assert state_of(link) == Away(1_001.25)
    link.tick(OPEN, 1_001.25)
    refused = ReplicationError('password authentication failed for user "x"')
    assert link.on(events.Failed(2, refused), OPEN, 1_002.0) == [events.Leave(2)]
    assert state_of(link) == Ended(refused)


def test_an_internal_error_turns_streaming_off_if_it_was_on() -> None:
    error = stream_error(INTERNAL_ERROR, "s", ("p",))
    for wanted in ({Want.STREAMING}, set[Want]()):
        link = link_that_began(*wanted)
        _, said = link.on(events.Failed(1, error), OPEN, 1_001.0)
        assert isinstance(said, events.Say)
        assert ("come at their commit" in (said.note or "")) == bool(wanted)
        assert link.streaming.may_stream(Lsn(9), Lsn(5)) != bool(wanted)
