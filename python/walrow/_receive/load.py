"""Decides about the loads of a receiver, at most one at a time: no thread, no file, no clock.

```text
Nothing ─► Wanted ─► Beginning ─► Copying ─► Placing ─► Recording ─► Unsure ─► Nothing
              ▲          │            │
              └─ broken ─┴────────────┘   after five attempts: Recording, with the failure

Beginning: OPENING (connections) ─► PAUSING (the log) ─► MAKING (slot, snapshot) ─► RESERVING (its place)
                                       ▲   BLOCKED ◄────────┘ others' transactions take long
```
A load that was cancelled leads to Unsure: another request may have come. The load that a log begins
with is `First`. If its rows break off, the log begins again, without the tables that have broken them.
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, assert_never

from walrow.errors import ConnectionLostError, Error

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from walrow._log.requests import LoadRequest
    from walrow._postgres.waiting import Waiting
    from walrow._receive.orders import BeginLoad


class Culprits(NamedTuple):
    """Why tables have broken a load, by name, and the names of its other tables.

    Those in `gone` are not published any more.
    """

    refused: Mapping[str, str]
    others: Sequence[str]
    gone: Sequence[str] = ()


NO_CULPRITS = Culprits({}, ())


@dataclass(frozen=True, slots=True)
class First:
    """The load that a log begins with, and why tables are `apart` that have broken it, by name."""

    apart: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt at a load, after others that have failed. At `look`, it may be unwanted."""

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


class Step(enum.Enum):
    """How far the beginning of a load is."""

    OPENING = enum.auto()
    PAUSING = enum.auto()
    MAKING = enum.auto()
    BLOCKED = enum.auto()
    RESERVING = enum.auto()


@dataclass(frozen=True, slots=True)
class Beginning:
    """Its slot is created, and its place is reserved. Its slot `waits` while it is blocked."""

    attempt: Attempt
    step: Step = Step.OPENING
    waits: Waiting | None = None


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
    """It is over, and that is recorded."""

    attempt: Attempt
    #: Why it was given up. None if the log has it.
    failure: str | None
    #: Infinity while it is being recorded.
    due: float
    refused: int = 0
    culprits: Culprits = NO_CULPRITS


State = Nothing | Unsure | Wanted | Beginning | Copying | Placing | Recording


@dataclass(frozen=True, slots=True)
class Ticked:
    """The facts about the log: the loads without a place, and whether it takes and appends changes."""

    in_log: int
    is_compared: bool
    is_paused: bool


@dataclass(frozen=True, slots=True)
class Opened:
    """The connections of a load are open."""

    number: int


@dataclass(frozen=True, slots=True)
class Shared:
    """Its slot exists, and its connections share the snapshot. The order has its place."""

    number: int
    order: BeginLoad


@dataclass(frozen=True, slots=True)
class Blocked:
    """Its slot would wait for too long for these transactions. It does not exist."""

    number: int
    waits: Waiting


@dataclass(frozen=True, slots=True)
class Unblocked:
    """These transactions have ended."""

    number: int


@dataclass(frozen=True, slots=True)
class Reserved:
    """It has begun in the log."""

    number: int


@dataclass(frozen=True, slots=True)
class Copied:
    """All its rows are copied."""

    number: int


@dataclass(frozen=True, slots=True)
class Broken:
    """It has failed, by these tables as far as that is known."""

    number: int
    error: BaseException
    culprits: Culprits = NO_CULPRITS


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
    | Opened
    | Shared
    | Blocked
    | Unblocked
    | Reserved
    | Copied
    | Broken
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
class OpenCopies:
    """Opens the connections of a load. The answer is `Opened` or `Broken`."""

    number: int
    request: LoadRequest | First


@dataclass(frozen=True, slots=True)
class MakeSlot:
    """Creates its slot, and shares the snapshot. The answer is `Shared`, `Blocked` or `Broken`."""

    number: int
    request: LoadRequest | First


@dataclass(frozen=True, slots=True)
class Reserve:
    """Begins it in the log. The answer is `Reserved` or `Broken`."""

    order: BeginLoad


@dataclass(frozen=True, slots=True)
class StartCopies:
    """Copies its rows. The answer is `Copied` or `Broken`."""

    number: int


@dataclass(frozen=True, slots=True)
class StopCopies:
    """Stops the threads of the load."""


@dataclass(frozen=True, slots=True)
class EndLoad:
    """Gives the load its place."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The log goes on without the load, if it has begun there."""

    number: int


@dataclass(frozen=True, slots=True)
class Record:
    """Records the outcome, beside the stream. The answer is `Recorded` or `NotRecorded`."""

    request: LoadRequest | First
    failure: str | None
    refused: int = 0
    culprits: Culprits = NO_CULPRITS


@dataclass(frozen=True, slots=True)
class Note:
    """Says something to people."""

    text: str


@dataclass(frozen=True, slots=True)
class Fail:
    """The first load is broken, before or after it began in the log."""

    error: BaseException


#: The core does these itself.
Wish = Reserve | EndLoad | GiveUp | Fail

#: The driver does these.
Action = (
    LookForRequest
    | LookIfWanted
    | OpenCopies
    | MakeSlot
    | StartCopies
    | StopCopies
    | Record
    | Note
)


class LoadDecisions:
    """The loads of a receiver.

    The stream waits for a load in the log's directory, however much it is: the disk limits both.
    """

    def __init__(
        self,
        everything: LoadRequest,
        may_pass: Callable[[BaseException], bool],
        is_busy: Callable[[BaseException], bool],
    ) -> None:
        """Begins without a load."""
        self.state: State = Nothing()
        self._everything = everything
        # Whether another attempt may succeed after a failure, and whether a lock was the reason.
        self._may_pass, self._is_busy = may_pass, is_busy
        self._number = 0
        self._first = First()

    @property
    def is_first(self) -> bool:
        """Whether the log begins with the current load."""
        match self.state:
            case Copying(attempt) | Placing(attempt) | Recording(attempt):
                return isinstance(attempt.request, First)
            case _:
                return False

    @property
    def holds_log(self) -> bool:
        """Whether appends must wait: the place of the load is not known yet."""
        match self.state:
            case Beginning(_, Step.PAUSING | Step.MAKING | Step.RESERVING):
                return True
            case _:
                return False

    def due(self, *, is_compared: bool) -> float:
        """When a tick has something to do, if nothing happens before."""
        match self.state:
            case Nothing(due) | Unsure(due):
                return due if is_compared else math.inf
            case Wanted(attempt, due):
                is_first = isinstance(attempt.request, First)
                return due if is_compared or is_first else math.inf
            case Beginning(attempt) | Copying(attempt):
                has_key = not isinstance(attempt.request, First) and attempt.request.key
                return attempt.look if has_key else math.inf
            case Recording(_, _, due):
                return due
            case Placing():
                return math.inf
            case _:
                assert_never(self.state)

    def request_all(self) -> None:
        """Wants a load that no user has requested."""
        self.state = Wanted(self._attempt(self._everything), 0.0)

    def begin_first(self, now: float) -> list[Action | Wish]:
        """Begins the load that the log begins with."""
        return self._begin(self._attempt(self._first), now)

    def on(self, event: Event, now: float) -> list[Action | Wish]:  # noqa: PLR0911, PLR0912 -- a case for each kind
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
            case Stopped():
                return self._stop()
            case Recorded():
                self.state = Unsure()
                return [StopCopies()]
            case NotRecorded(error):
                return self._not_recorded(error, now)
            case Opened() | Shared() | Blocked() | Unblocked() | Reserved():
                return self._step(event)
            case Copied(number):
                if isinstance(self.state, Copying) and number == self._current:
                    self.state = Placing(self.state.attempt)
                    return [EndLoad()]
            case Broken(number, error, culprits):
                if number == self._current:
                    return self._break(error, culprits, now)
            case _:
                assert_never(event)
        return []

    @property
    def _current(self) -> int:
        """The number of the load that goes on. 0 without one."""
        match self.state:
            case Beginning(attempt) | Copying(attempt) | Placing(attempt):
                return attempt.number
            case _:
                return 0

    def _step(
        self, event: Opened | Shared | Blocked | Unblocked | Reserved
    ) -> list[Action | Wish]:
        """The next step of the beginning. Late answers of earlier loads do not count."""
        state = self.state
        if not isinstance(state, Beginning) or event.number != state.attempt.number:
            return []
        match event, state.step:
            case (Opened(), Step.OPENING) | (Unblocked(), Step.BLOCKED):
                self.state = Beginning(state.attempt, Step.PAUSING)
            case Shared(_, order), Step.MAKING:
                self.state = Beginning(state.attempt, Step.RESERVING)
                return [Reserve(order)]
            case Blocked(_, waits), Step.MAKING:
                self.state = Beginning(state.attempt, Step.BLOCKED, waits)
            case Reserved(number), Step.RESERVING:
                self.state = Copying(state.attempt)
                return [StartCopies(number)]
            case _:
                pass
        return []

    def _attempt(self, request: LoadRequest | First, failed: int = 0) -> Attempt:
        self._number += 1
        return Attempt(self._number, request, failed)

    def _tick(self, seen: Ticked, now: float) -> list[Action | Wish]:  # noqa: PLR0911 -- as above
        state = self.state
        match state:
            case Nothing(due) | Unsure(due):
                if now < due or not seen.is_compared:
                    return []
                self.state = Unsure(now + LOOK_SECONDS)
                return [LookForRequest()]
            case Wanted(attempt, due):
                is_first = isinstance(attempt.request, First)
                if now < due or not (seen.is_compared or is_first):
                    return []
                self.state = replace(state, due=now + LOOK_SECONDS)
                if isinstance(attempt.request, First) or not attempt.request.key:
                    return self._begin(attempt, now)
                return [LookIfWanted(attempt.request)]
            case Beginning(attempt) | Copying(attempt):
                return self._look(attempt, now) or self._go_on(seen, attempt)
            case Placing(attempt):
                if not seen.in_log:
                    return self._conclude(attempt, None)
                return []
            case Recording(attempt, failure, due, refused, culprits):
                if now < due:
                    return []
                self.state = replace(state, due=math.inf)
                return [Record(attempt.request, failure, refused, culprits)]
            case _:
                assert_never(state)

    def _begin(self, attempt: Attempt, now: float) -> list[Action | Wish]:
        self.state = Beginning(replace(attempt, look=now + LOOK_SECONDS))
        return [OpenCopies(attempt.number, attempt.request)]

    def _look(self, attempt: Attempt, now: float) -> list[Action | Wish]:
        """Looks once a second whether somebody still wants it."""
        request = attempt.request
        if isinstance(request, First) or not request.key or now < attempt.look:
            return []
        if isinstance(self.state, (Beginning, Copying)):
            attempt = replace(attempt, look=now + LOOK_SECONDS)
            self.state = replace(self.state, attempt=attempt)
        return [LookIfWanted(request)]

    def _go_on(self, seen: Ticked, attempt: Attempt) -> list[Action | Wish]:
        state = self.state
        if not isinstance(state, Beginning) or state.step is not Step.PAUSING:
            return []
        # Nothing is queued before the load that the log begins with.
        if not seen.is_paused and not isinstance(attempt.request, First):
            return []
        self.state = Beginning(attempt, Step.MAKING)
        return [MakeSlot(attempt.number, attempt.request)]

    def _cancel(self, now: float) -> list[Action | Wish]:
        """Ends a load, or does not begin it, as nobody wants it any more."""
        match self.state:
            case Wanted(attempt):
                actions: list[Action | Wish] = []
            case Beginning(attempt) | Copying(attempt):
                actions = [StopCopies(), GiveUp(attempt.number)]
            case _:
                return []
        self.state = Unsure(now + LOOK_SECONDS)
        return [*actions, Note(f"the load of {attempt.names} was cancelled")]

    def _break(
        self, failure: BaseException, culprits: Culprits, now: float
    ) -> list[Action | Wish]:
        match self.state:
            case Beginning(attempt) | Copying(attempt) | Placing(attempt):
                pass
            case _:
                return []
        if isinstance(attempt.request, First):
            return self._break_first(attempt, attempt.request, failure, culprits, now)
        failed, request = attempt.failed + 1, attempt.request
        may_pass = failed < ATTEMPTS and self._may_pass(failure)
        actions: list[Action | Wish] = [StopCopies(), GiveUp(attempt.number)]
        if request.is_automatic and (gone := culprits.gone):
            text = f"no load is needed any more of {', '.join(gone)}: not published"
            actions.append(Note(text))
            rest = [name for name in request.tables or () if name not in gone]
            if not rest:
                return [*actions, *self._conclude(attempt, None)]
            again = self._attempt(request._replace(tables=rest), attempt.failed)
            self.state = Wanted(again, now)
            return actions
        if may_pass:
            again = self._attempt(attempt.request, failed)
            self.state = Wanted(again, now + _RETRY_SECONDS * 2**failed)
            text = f"a load was broken off, and begins again: {failure}"
            return [*actions, Note(text)]
        # The text of an error that is not walrow's own may contain values, so only its
        # kind is said.
        why = str(failure) if isinstance(failure, Error) else type(failure).__name__
        if refused := [f"{name}: {text}" for name, text in culprits.refused.items()]:
            more = f"; and {len(refused) - _NAMED} more"
            why = "; ".join(refused[:_NAMED]) + (more if len(refused) > _NAMED else "")
        text = f"a load was given up: {why}"
        note = text if refused else f"the load of {attempt.names} was given up: {why}"
        return [*actions, Note(note), *self._conclude(attempt, text, culprits)]

    def _break_first(
        self,
        attempt: Attempt,
        first: First,
        failure: BaseException,
        culprits: Culprits,
        now: float,
    ) -> list[Action | Wish]:
        is_beginning = isinstance(self.state, Beginning)
        is_busy, failed = self._is_busy(failure), attempt.failed + 1
        may_pass = self._may_pass(failure) and (failed < ATTEMPTS or not is_busy)
        left: list[Action | Wish] = [StopCopies(), GiveUp(attempt.number)]
        if is_beginning and may_pass and is_busy:
            # Somebody else had a table for a moment.
            due = now + _RETRY_SECONDS * failed
            self.state = Wanted(self._attempt(first, failed), due)
            return [*left, Note(f"the first load begins again: {failure}")]
        if culprits.refused and culprits.others and (is_busy or not may_pass):
            self._first = First({**first.apart, **culprits.refused})
            text = f"the first load begins again without {', '.join(culprits.refused)}"
            failure = ConnectionLostError(f"{text}: {failure}")
            if is_beginning:
                self.state = Wanted(self._attempt(self._first), now)
                return [*left, Note(str(failure))]
        self.state = Nothing()
        # Without a place in the log, its slot is dropped by the next attempt.
        return [*(left if is_beginning else left[:1]), Fail(failure)]

    def _conclude(
        self, attempt: Attempt, failure: str | None, culprits: Culprits = NO_CULPRITS
    ) -> list[Action | Wish]:
        self.state = Recording(attempt, failure, math.inf, 0, culprits)
        return [Record(attempt.request, failure, 0, culprits)]

    def _not_recorded(self, error: BaseException, now: float) -> list[Action | Wish]:
        if not isinstance(self.state, Recording):
            return []
        refused = self.state.refused
        self.state = replace(self.state, due=now + LOOK_SECONDS, refused=refused + 1)
        text = f"the result of a load cannot be written: {error}"
        return [] if refused else [Note(text)]

    def _stop(self) -> list[Action | Wish]:
        match self.state:
            case Beginning(attempt) | Copying(attempt) | Placing(attempt):
                is_first = isinstance(attempt.request, First)
                again = self._attempt(attempt.request, attempt.failed)
                is_beginning = isinstance(self.state, Beginning)
                self.state = Nothing() if is_first else Wanted(again, 0.0)
                # The end of the log gives up a load that has begun there.
                return [StopCopies(), *[GiveUp(attempt.number)] * is_beginning]
            case Wanted(attempt) if isinstance(attempt.request, First):
                self.state = Nothing()
                return []
            case _:
                return []


ATTEMPTS = 5
LOOK_SECONDS = 1.0
_NAMED = 3
_RETRY_SECONDS = 1.0
