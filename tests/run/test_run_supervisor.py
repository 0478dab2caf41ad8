"""The decisions about the processes of `walrow run`, in simulated worlds.

A failure names its seed.
"""

from __future__ import annotations

import importlib.util
import math
import random
import signal
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest

from walrow._log.status_record import Part
from walrow._run import supervisor
from walrow._run.supervisor import Step


class World:
    """Processes that end and hang by chance, signals, and time.

    Attributes:
        seen: The kinds of events and actions, so that a test knows that it has tried something.
    """

    def __init__(self, seed: int, module: Any = supervisor) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._module = module
        self.now = 1000.0
        self.running: dict[str, float] = {}
        #: When each part ended last, and how often it has ended soon after its start.
        self.ended: dict[str, tuple[float, int]] = {}
        self.signals: list[int] = []
        self.code: int | None = None
        self.once = self._random.random() < 0.3
        self.codes: list[tuple[str, int]] = []
        self.seen: set[str] = set()
        self.stopped_at = math.inf
        self.sent: dict[str, list[int]] = {}
        self.first_stop = 0

    def play(self) -> None:
        begin, begin_once = self._module.begin, self._module.begin_once
        state, actions = begin_once() if self.once else begin(self.now)
        self._do(actions)
        for _ in range(self._random.randint(1, 60)):
            if self.code is not None:
                break
            state = self._step(state)
        # In the end, somebody stops it, and nobody ends by himself.
        for _ in range(3):
            if self.code is None:
                state = self._signal(state, signal.SIGTERM)
        for _ in range(10):
            if self.code is not None:
                break
            state = self._tick(state)
            for part in list(self.running):
                if "killed" in self.sent.get(part, []):  # type: ignore[comparison-overlap]
                    state = self._end(state, part, -9)
        assert self.code is not None, state
        assert not self.running
        self._check_code()

    def _step(self, state: Any) -> Any:
        choice = self._random.random()
        if self.running and choice < 0.5:
            part = self._random.choice(sorted(self.running))
            self.now += self._random.choice([0.01, 1, 100])
            code = self._random.choice([0, 0, 0, 1, 2, 5, 6, -9, -11])
            return self._end(state, part, code)
        if choice < 0.55:
            return self._signal(state, self._random.choice([2, 15, 1]))
        return self._tick(state)

    def _tick(self, state: Any) -> Any:
        due = self._module.due(state)
        early = self._random.random() < 0.3
        if due == math.inf or early:
            self.now += self._random.uniform(0, 3)
        else:
            self.now = max(self.now, due)
        return self._on(state, self._module.Ticked())

    def _signal(self, state: Any, number: int) -> Any:
        self.signals.append(number)
        if self.stopped_at == math.inf:
            self.stopped_at = self.now
            self.first_stop = number
        expected = set(self.running)
        self.sent = {part: [] for part in expected} | self.sent
        before = {part: len(self.sent[part]) for part in expected}
        is_killing = any("killed" in str(it) for it in self.sent.values())
        state = self._on(state, self._module.Signalled(number))
        if self.code is None and not is_killing:
            for part in expected:
                assert self.sent[part][before[part] :] == [number], "not passed on once"
        self.seen.add(f"signal {len(expected)}")
        return state

    def _end(self, state: Any, part: str, code: int) -> Any:
        begun = self.running.pop(part)
        _, soon = self.ended.get(part, (0.0, 0))
        self.ended[part] = (self.now, 1 if self.now - begun >= 60 else soon + 1)
        self.codes.append((part, code))
        others = dict(self.running)
        state = self._on(state, self._module.Ended(self._part(part), code))
        if not self.once and self.stopped_at == math.inf:
            assert others == self.running, "one that ends touches no other"
        self.seen.add(f"end {part} {self.once} {code}")
        return state

    def _part(self, name: str) -> Any:
        return self._module.Part(name)

    def _on(self, state: Any, event: Any) -> Any:
        state, actions = self._module.on(state, event, self.now)
        self._do(actions)
        return state

    def _do(self, actions: list[Any]) -> None:
        for action in actions:
            assert self.code is None, "nothing comes after the end"
            kind = type(action).__name__
            self.seen.add(kind)
            if kind == "End":
                assert not self.running, "a process is left"
                self.code = action.code
                continue
            part = action.part.value
            if kind == "Start":
                assert part not in self.running, "two of one kind"
                assert self.stopped_at == math.inf, "a start after a stop"
                if self.once:
                    assert not self.running, "one after the other"
                else:
                    self._check_pause(part)
                self.running[part] = self.now
            elif kind == "Restarts":
                assert not self.once
                assert action.ended == self.ended[part][1]
            else:
                assert part in self.running, "a signal for nobody"
                if action.number == signal.SIGKILL:
                    self.seen.add("kill")
                    assert self.now >= self.stopped_at + 10, "it had its time"
                    self.sent.setdefault(part, []).append("killed")  # type: ignore[arg-type]
                else:
                    self.sent.setdefault(part, []).append(action.number)

    def _check_pause(self, part: str) -> None:
        if part not in self.ended:
            return
        ended, times = self.ended[part]
        pause = min(2.0 ** min(times - 1, 10), 60)
        assert self.now >= ended + pause - 1e-6, "it starts too soon"

    def _check_code(self) -> None:
        if not self.once:
            assert self.code == 0
        elif self.stopped_at < math.inf:
            assert self.code == 128 + self.first_stop
        else:
            bad = [
                it
                for it in self.codes
                if it[1] not in ((0, 5) if it[0] == "receive" else (0, 6))
            ]
            last = [code for part, code in self.codes if part == "apply"][-1]
            assert (self.code == 0) == (not bad and last == 0)
            assert self.code in (0, 1, 2)


def test_worlds() -> None:
    seen: set[str] = set()
    for seed in range(2000):
        world = World(seed)
        try:
            world.play()
        except AssertionError as error:
            error.add_note(f"seed {seed}, at {world.now - 1000:.3f} s")
            raise
        seen |= world.seen
    assert len(seen) > 30
    assert {"Start", "Send", "kill", "Restarts", "End", "signal 2"} <= seen


class Fault(NamedTuple):
    line: str
    wrong: str


FAULTS = [
    Fault(
        "            parts[part] = Paused(now + pause, ended)\n            return",
        "            parts[Part.RECEIVE] = parts[Part.APPLY] = Paused(now + pause, ended)\n            return",
    ),
    Fault("if isinstance(it, Paused) and now >= it.until:", "if isinstance(it, Paused):"),
    Fault("* 2 ** min(ended - 1, _DOUBLINGS)", ""),
    Fault("ended = 1 if is_new else before.ended + 1", "ended = before.ended + 1"),
    Fault("case Ticked() if now >= until:", "case Ticked():"),
    Fault("    if not left:\n        return Over(code), [End(code)]\n", ""),
    Fault("return _stopping(left, until, code, number)", "return state, []"),
    Fault("return _stopping(left - {part}, until, code)", "return _stopping(frozenset(), until, code)"),
    Fault("part for part, it in parts.items() if isinstance(it, Running)", "part for part in parts"),
    Fault("worst = state.code or (code if code in (0, 2) else 1)", "worst = code if code in (0, 2) else 1"),
    Fault("if state.step is Step.APPLY and code == REQUESTED:", "if code == REQUESTED:\n                    return Over(0), [End(0)]\n                if False:"),
    Fault("code = now + _STOP_SECONDS, 128 + number", "code = now + _STOP_SECONDS, 0"),
    Fault("return _stopping(left, math.inf, code, KILL)", "return _stopping(left, until, code)"),
]  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS, ids=lambda it: it.line.strip()[:40])
def test_each_fault_is_found(fault: Fault) -> None:
    module = with_fault(fault)
    for seed in range(2000):
        try:
            World(seed, module).play()
        except Exception:
            return
    pytest.fail("2000 worlds do not find it")


def with_fault(fault: Fault) -> ModuleType:
    source = Path(supervisor.__file__).read_text("utf-8")
    assert source.count(fault.line) == 1
    spec = importlib.util.spec_from_loader("supervisor_with_fault", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module
    code = compile(source.replace(fault.line, fault.wrong), "supervisor.py", "exec")
    exec(code, vars(module))  # noqa: S102
    return module


def test_a_round_that_asks_for_loads_has_two_more_steps() -> None:
    state, actions = supervisor.begin_once()
    steps = []
    for code in (0, supervisor.REQUESTED, supervisor.LEFT, 0):
        (start,) = actions
        assert isinstance(start, supervisor.Start)
        steps.append((start.part, start.step))
        state, actions = supervisor.on(state, supervisor.Ended(start.part, code), 0.0)
    assert actions == [supervisor.End(0)]
    assert steps == [
        (Part.RECEIVE, Step.RECEIVE),
        (Part.APPLY, Step.APPLY),
        (Part.RECEIVE, Step.LOAD),
        (Part.APPLY, Step.APPLY_LOADED),
    ]


def test_pauses_grow_up_to_a_minute_for_ever() -> None:
    state, _ = supervisor.begin(0.0)
    now, pauses = 0.0, []
    for _ in range(2000):
        state, actions = supervisor.on(state, supervisor.Ended(Part.APPLY, 1), now)
        (said,) = actions
        assert isinstance(said, supervisor.Restarts)
        pauses.append(said.pause)
        now = supervisor.due(state)
        state, actions = supervisor.on(state, supervisor.Ticked(), now)
        assert actions == [supervisor.Start(Part.APPLY)]
    assert pauses[:8] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert set(pauses[8:]) == {60}
