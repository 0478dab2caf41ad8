"""Decides about the loads of a receiver, at most one at a time: no thread, no file, no clock.

```text
Nothing ─► Wanted ─► Beginning ─► Copying ─► Placing ─► Recording ─► Unsure ─► Nothing
              ▲          │            │
              └─ broken ─┴────────────┘   after five attempts: Recording, with the failure
```
A load that was cancelled leads to Unsure: another request may have come. The load that a log begins
with is `First`. If it breaks, the log begins again.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, assert_never

from walrow.errors import Error, LogError

if TYPE_CHECKING:
    from collections.abc import Callable

    from walrow._log.requests import LoadRequest

__all__ = [
    "Action",
    "Attempt",
    "Begin",
    "Copies",
    "EndLoad",
    "Event",
    "Fail",
    "First",
    "FirstBegan",
    "Found",
    "GiveUp",
    "LoadDecisions",
    "LookForRequest",
    "LookIfWanted",
    "NotRecorded",
    "Note",
    "Nothing",
    "Placing",
    "Record",
    "Recorded",
    "Recording",
    "State",
    "StillWanted",
    "StopCopies",
    "Stopped",
    "Ticked",
    "Unsure",
    "Unwanted",
    "Wanted",
]


@dataclass(frozen=True, slots=True)
class First:
    """The load that a log begins with, instead of a request."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a load.

    Attributes:
        number: Its number in this process.
        request: The load that is wanted.
        failed: How many attempts at it have failed.
        look: When it is looked again whether somebody wants it.
    """

    number: int
    request: LoadRequest | First
    failed: int = 0
    look: float = 0.0

    @property
    def names(self) -> str:
        """The tables, in words."""
        tables = None if isinstance(self.request, First) else self.request.tables
        return "all tables" if tables is None else ", ".join(tables)


@dataclass(frozen=True, slots=True)
class Nothing:
    """Nobody wants a load, as far as is known."""

    due: float = 0.0


@dataclass(frozen=True, slots=True)
class Unsure:
    """Another request may have come during a load."""

    due: float = 0.0


@dataclass(frozen=True, slots=True)
class Wanted:
    """An attempt is due."""

    attempt: Attempt
    due: float


@dataclass(frozen=True, slots=True)
class Beginning:
    """Its slot is created, and its place in the log is reserved."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Copying:
    """Its rows are copied."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Placing:
    """It has all rows, and gets its place when everything before it has come."""

    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Recording:
    """It is over, and that is recorded.

    Attributes:
        attempt: The last attempt.
        failure: Why it was given up. None if the log has it.
        due: When it is recorded. Infinity while that goes on.
        refused: How often the disk has refused it.
    """

    attempt: Attempt
    failure: str | None
    due: float
    refused: int = 0


State = Nothing | Unsure | Wanted | Beginning | Copying | Placing | Recording


class Copies(enum.Enum):
    """How far the threads of a load are."""

    BEGINNING = enum.auto()
    COPYING = enum.auto()
    COPIED = enum.auto()


@dataclass(frozen=True, slots=True)
class Ticked:
    """The facts about the current load, and about the log.

    Attributes:
        copies: How far its threads are.
        failure: The error that has broken it.
        held: Bytes of the stream that wait for it.
        in_log: How many loads have no place in the log yet.
        is_compared: Whether the log takes what the server sends.
    """

    copies: Copies
    failure: BaseException | None
    held: int
    in_log: int
    is_compared: bool


@dataclass(frozen=True, slots=True)
class Found:
    """It was looked for a request."""

    request: LoadRequest | None


@dataclass(frozen=True, slots=True)
class StillWanted:
    """Somebody wants the load."""


@dataclass(frozen=True, slots=True)
class Unwanted:
    """Nobody wants the load any more."""


@dataclass(frozen=True, slots=True)
class FirstBegan:
    """The slot of the log was created, and its load begins."""


@dataclass(frozen=True, slots=True)
class Stopped:
    """The log is closed. Requests stay."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The outcome is recorded."""


@dataclass(frozen=True, slots=True)
class NotRecorded:
    """The outcome could not be recorded."""

    error: BaseException


Event = (
    Ticked
    | Found
    | StillWanted
    | Unwanted
    | FirstBegan
    | Stopped
    | Recorded
    | NotRecorded
)


@dataclass(frozen=True, slots=True)
class LookForRequest:
    """Looks for a request. The answer is `Found`."""


@dataclass(frozen=True, slots=True)
class LookIfWanted:
    """Looks whether somebody wants this. The answer is `StillWanted` or `Unwanted`."""

    request: LoadRequest


@dataclass(frozen=True, slots=True)
class Begin:
    """Begins a load."""

    request: LoadRequest


@dataclass(frozen=True, slots=True)
class StopCopies:
    """Stops the threads of the load."""


@dataclass(frozen=True, slots=True)
class EndLoad:
    """Gives the load its place."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The log goes on without the load."""


@dataclass(frozen=True, slots=True)
class Record:
    """Records the outcome, beside the stream. The answer is `Recorded` or `NotRecorded`."""

    request: LoadRequest | First
    failure: str | None
    refused: int = 0


@dataclass(frozen=True, slots=True)
class Note:
    """Says something to people."""

    text: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The first load is broken."""

    error: BaseException


Action = (
    LookForRequest
    | LookIfWanted
    | Begin
    | StopCopies
    | EndLoad
    | GiveUp
    | Record
    | Note
    | Fail
)


class LoadDecisions:
    """The loads of a receiver.

    Attributes:
        state: The state of the current load.
    """

    def __init__(
        self, max_hold: int | None, may_pass: Callable[[BaseException], bool]
    ) -> None:
        """Begins without a load.

        Args:
            max_hold: The bytes of the stream that may wait for a load.
            may_pass: Whether another attempt may succeed after this failure.
        """
        self.state: State = Nothing()
        self._max_hold, self._may_pass = max_hold, may_pass
        self._number = 0

    @property
    def is_first(self) -> bool:
        """Whether the log begins with the current load."""
        match self.state:
            case Copying(attempt) | Placing(attempt) | Recording(attempt):
                return isinstance(attempt.request, First)
            case _:
                return False

    def request(self, request: LoadRequest) -> None:
        """Wants a load that no user has requested."""
        self.state = Wanted(self._attempt(request), 0.0)

    def on(self, event: Event, now: float) -> list[Action]:  # noqa: PLR0911 -- a case for each kind
        """Notes an event. Returns the actions that are due."""
        match event:
            case Ticked():
                return self._tick(event, now)
            case Found(request):
                if request is not None:
                    return self._begin(self._attempt(request), now)
                self.state = Nothing(now + LOOK_SECONDS)
            case StillWanted():
                if isinstance(self.state, Wanted):
                    return self._begin(self.state.attempt, now)
            case Unwanted():
                return self._cancel(now)
            case FirstBegan():
                self.state = Copying(self._attempt(First()))
            case Stopped():
                self._stop()
            case Recorded():
                self.state = Unsure()
                return [StopCopies()]
            case NotRecorded(error):
                return self._not_recorded(error, now)
            case _:
                assert_never(event)
        return []

    def _attempt(self, request: LoadRequest | First) -> Attempt:
        self._number += 1
        return Attempt(self._number, request)

    def _tick(self, seen: Ticked, now: float) -> list[Action]:  # noqa: PLR0911 -- as above
        state = self.state
        match state:
            case Nothing(due) | Unsure(due):
                if now < due or not seen.is_compared:
                    return []
                self.state = replace(state, due=now + LOOK_SECONDS)
                return [LookForRequest()]
            case Wanted(attempt, due):
                if now < due or not seen.is_compared:
                    return []
                self.state = replace(state, due=now + LOOK_SECONDS)
                if isinstance(attempt.request, First) or not attempt.request.key:
                    return self._begin(attempt, now)
                return [LookIfWanted(attempt.request)]
            case Beginning(attempt) | Copying(attempt):
                return self._look(attempt, now) or self._go_on(seen, attempt, now)
            case Placing(attempt):
                if seen.failure is not None:
                    return self._break(seen.failure, attempt, seen.in_log, now)
                if not seen.in_log:
                    return self._conclude(attempt, None)
                return []
            case Recording(attempt, failure, due, refused):
                if now < due:
                    return []
                self.state = replace(state, due=math.inf)
                return [Record(attempt.request, failure, refused)]
            case _:
                assert_never(state)

    def _begin(self, attempt: Attempt, now: float) -> list[Action]:
        if isinstance(attempt.request, First):
            return []
        self.state = Beginning(replace(attempt, look=now + LOOK_SECONDS))
        return [Begin(attempt.request)]

    def _look(self, attempt: Attempt, now: float) -> list[Action]:
        """Looks once a second whether somebody still wants it."""
        request = attempt.request
        if isinstance(request, First) or not request.key or now < attempt.look:
            return []
        attempt = replace(attempt, look=now + LOOK_SECONDS)
        is_copying = isinstance(self.state, Copying)
        self.state = Copying(attempt) if is_copying else Beginning(attempt)
        return [LookIfWanted(request)]

    def _go_on(self, seen: Ticked, attempt: Attempt, now: float) -> list[Action]:
        if seen.failure is not None:
            return self._break(seen.failure, attempt, seen.in_log, now)
        if seen.copies is Copies.BEGINNING:
            return []
        if self._max_hold is not None and seen.held > self._max_hold:
            text = (
                f"more than {self._max_hold} bytes of the stream waited for it: allow"
                " more with max_hold, or load when there is less traffic"
            )
            last = replace(attempt, failed=ATTEMPTS)
            return self._break(LogError(text, code="load"), last, seen.in_log, now)
        if seen.copies is Copies.COPYING:
            self.state = Copying(attempt)
            return []
        self.state = Placing(attempt)
        return [EndLoad()]

    def _cancel(self, now: float) -> list[Action]:
        """Ends a load, or does not begin it, as nobody wants it any more."""
        match self.state:
            case Wanted(attempt):
                actions: list[Action] = []
            case Beginning(attempt) | Copying(attempt):
                actions = [StopCopies(), GiveUp()]
            case _:
                return []
        self.state = Unsure(now + LOOK_SECONDS)
        return [*actions, Note(f"the load of {attempt.names} was cancelled")]

    def _break(
        self, failure: BaseException, attempt: Attempt, in_log: int, now: float
    ) -> list[Action]:
        actions: list[Action] = [StopCopies()]
        if isinstance(attempt.request, First):
            self.state = Nothing()
            return [*actions, Fail(failure)]
        if in_log:
            actions.append(GiveUp())
        failed = attempt.failed + 1
        if failed < ATTEMPTS and self._may_pass(failure):
            again = replace(self._attempt(attempt.request), failed=failed)
            self.state = Wanted(again, now + _RETRY_SECONDS * 2**failed)
            text = f"a load was broken off, and begins again: {failure}"
            return [*actions, Note(text)]
        # The text of an error that is not walrow's own may contain values, so only its
        # kind is said.
        why = failure if isinstance(failure, Error) else type(failure).__name__
        text = f"a load was given up: {why}"
        return [*actions, Note(text), *self._conclude(attempt, text)]

    def _conclude(self, attempt: Attempt, failure: str | None) -> list[Action]:
        self.state = Recording(attempt, failure, math.inf)
        return [Record(attempt.request, failure)]

    def _not_recorded(self, error: BaseException, now: float) -> list[Action]:
        if not isinstance(self.state, Recording):
            return []
        refused = self.state.refused
        self.state = replace(self.state, due=now + LOOK_SECONDS, refused=refused + 1)
        text = f"the result of a load cannot be written: {error}"
        return [] if refused else [Note(text)]

    def _stop(self) -> None:
        match self.state:
            case Beginning(attempt) | Copying(attempt) | Placing(attempt):
                is_first = isinstance(attempt.request, First)
                again = replace(attempt, number=attempt.number + 1)
                self.state = Nothing() if is_first else Wanted(again, 0.0)
            case _:
                pass


ATTEMPTS = 5
LOOK_SECONDS = 1.0
_RETRY_SECONDS = 1.0
