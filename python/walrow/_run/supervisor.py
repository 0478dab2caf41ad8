"""Decides about the processes of `walrow run`: what starts, what starts again, and how it ends.

```text
Keeping ─► Stopping ─► Over          Once: receive ─► apply (─► receive ─► apply) ─► Over
```
Here is no process, no I/O and no clock: the parent hands in each event with the time, and carries out
the actions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from walrow._log.status_record import Part


class Step(Enum):
    """The processes of `--once`, one after the other. The loads that the first round asks for come between."""

    RECEIVE = "receive"
    APPLY = "apply"
    LOAD = "load"
    APPLY_LOADED = "apply loaded"


@dataclass(frozen=True, slots=True)
class Running:
    """A process runs, after so many ended one after the other."""

    since: float
    ended: int


@dataclass(frozen=True, slots=True)
class Paused:
    """A process has ended. The next one starts then."""

    until: float
    ended: int


PartState: TypeAlias = Running | Paused


@dataclass(frozen=True, slots=True)
class Keeping:
    """Both parts run, or are started again."""

    parts: Mapping[Part, PartState]


@dataclass(frozen=True, slots=True)
class Once:
    """One process after the other runs. `code` is what the worst of them has ended with."""

    step: Step
    code: int


@dataclass(frozen=True, slots=True)
class Stopping:
    """The processes end in order, and are killed then. After that, only their ends count."""

    left: frozenset[Part]
    until: float
    code: int


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing runs any more."""

    code: int


State: TypeAlias = Keeping | Once | Stopping | Over


@dataclass(frozen=True, slots=True)
class Ended:
    """A process has ended, with this exit code, or minus the number of a signal."""

    part: Part
    code: int


@dataclass(frozen=True, slots=True)
class Signalled:
    """A signal has come."""

    number: int


@dataclass(frozen=True, slots=True)
class Ticked:
    """Time has passed."""


Event: TypeAlias = Ended | Signalled | Ticked


@dataclass(frozen=True, slots=True)
class Start:
    """Start a process. With `step`, it ends by itself."""

    part: Part
    step: Step | None = None


@dataclass(frozen=True, slots=True)
class Send:
    """Send a signal to a process."""

    part: Part
    number: int


@dataclass(frozen=True, slots=True)
class Restarts:
    """Say that a process has ended, how many ended one after the other, and the pause before the next."""

    part: Part
    code: int
    ended: int
    pause: float


@dataclass(frozen=True, slots=True)
class End:
    """End with this exit code."""

    code: int


Action: TypeAlias = Start | Send | Restarts | End


def begin(now: float) -> tuple[State, list[Action]]:
    """Both parts start."""
    return Keeping(dict.fromkeys(Part, Running(now, 0))), [Start(it) for it in Part]


def begin_once() -> tuple[State, list[Action]]:
    """The first process starts, and each ends by itself."""
    return Once(Step.RECEIVE, 0), [Start(Part.RECEIVE, Step.RECEIVE)]


def on(state: State, event: Event, now: float) -> tuple[State, list[Action]]:
    """The state after an event, and the actions."""
    match state:
        case Keeping():
            return _keeping(state, event, now)
        case Once():
            return _once(state, event, now)
        case Stopping(left, until, code):
            match event:
                case Signalled(number):
                    return _stopping(left, until, code, number)
                case Ended(part, _):
                    return _stopping(left - {part}, until, code)
                case Ticked() if now >= until:
                    return _stopping(left, math.inf, code, KILL)
    return state, []


def due(state: State) -> float:
    """When time alone changes something."""
    match state:
        case Keeping(parts):
            pauses = [it.until for it in parts.values() if isinstance(it, Paused)]
            return min(pauses, default=math.inf)
        case Stopping(_, until, _):
            return until
    return math.inf


def _keeping(state: Keeping, event: Event, now: float) -> tuple[State, list[Action]]:
    parts = dict(state.parts)
    match event:
        case Signalled(number):
            left = frozenset(
                part for part, it in parts.items() if isinstance(it, Running)
            )
            return _stopping(left, now + _STOP_SECONDS, 0, number)
        case Ended(part, code):
            before = parts[part]
            # After a long run, the count begins again.
            is_new = isinstance(before, Running) and now - before.since >= _LONG_SECONDS
            ended = 1 if is_new else before.ended + 1
            pause = min(_FIRST_PAUSE * 2 ** min(ended - 1, _DOUBLINGS), _LONGEST_PAUSE)
            parts[part] = Paused(now + pause, ended)
            return Keeping(parts), [Restarts(part, code, ended, pause)]
        case Ticked():
            actions: list[Action] = []
            for part, it in parts.items():
                if isinstance(it, Paused) and now >= it.until:
                    parts[part] = Running(now, it.ended)
                    actions.append(Start(part))
            return Keeping(parts), actions


def _once(state: Once, event: Event, now: float) -> tuple[State, list[Action]]:
    part = _PARTS[state.step]
    match event:
        case Signalled(number):
            until, code = now + _STOP_SECONDS, 128 + number
            return _stopping(frozenset({part}), until, code, number)
        case Ended(_, code):
            if state.step in (Step.APPLY, Step.APPLY_LOADED):
                if state.step is Step.APPLY and code == REQUESTED:
                    return _next(Once(Step.LOAD, state.code))
                # If the receiver has failed, the log is applied, and is not all.
                worst = state.code or (code if code in (0, 2) else 1)
                return Over(worst), [End(worst)]
            failed = 0 if code in (0, LEFT) else 2 if code == 2 else 1  # noqa: PLR2004
            next_ = Step.APPLY if state.step is Step.RECEIVE else Step.APPLY_LOADED
            return _next(Once(next_, max(state.code, failed)))
    return state, []


def _next(state: Once) -> tuple[State, list[Action]]:
    return state, [Start(_PARTS[state.step], state.step)]


def _stopping(
    left: frozenset[Part], until: float, code: int, number: int | None = None
) -> tuple[State, list[Action]]:
    """Waits for the end of processes, and sends them a signal."""
    if not left:
        return Over(code), [End(code)]
    sent = () if number is None else (Send(it, number) for it in Part if it in left)
    return Stopping(left, until, code), list(sent)


_PARTS = {
    Step.RECEIVE: Part.RECEIVE,
    Step.APPLY: Part.APPLY,
    Step.LOAD: Part.RECEIVE,
    Step.APPLY_LOADED: Part.APPLY,
}
#: SIGKILL.
KILL = 9
#: `walrow receive` ends so if something waits for somebody else. The applier names its tables.
LEFT = 5
#: The applier ends so if it has requested loads: the next receiver takes them.
REQUESTED = 6
_FIRST_PAUSE, _LONGEST_PAUSE, _DOUBLINGS = 1.0, 60.0, 6
#: A process that ran for so long counts as one that works.
_LONG_SECONDS = 60.0
#: A receiver ends within two seconds. A kill loses no change, either.
_STOP_SECONDS = 10.0
