"""Actors around the decisions for loads: people, threads that copy, a log, and its files."""

from __future__ import annotations

import random
from typing import Any

from walrow import Catalog, Lsn
from walrow._log.requests import LoadRequest
from walrow._receive import load as decisions
from walrow._receive.orders import BeginLoad
from walrow.errors import LogError

CATALOG = Catalog("{}")


class LoadWorld:
    """Requests that are loaded, cancelled or given up, while connections and disks fail."""

    def __init__(self, seed: int, module: Any = decisions) -> None:
        self.rng = random.Random(seed)  # noqa: S311
        self.now = 0.0
        self.module = module
        self.made = module.LoadDecisions(
            LoadRequest("", None),
            lambda error: "again" in str(error),
            lambda _: False,
        )
        self.open: list[LoadRequest] = []
        self.recorded: dict[str, str | None] = {}
        #: When somebody has cancelled a request.
        self.cancelled: dict[str, float] = {}
        #: The request that is copied, its number, and the next answer; whether it is in the log.
        self.copied: LoadRequest | decisions.First | None = None
        self.number = 0
        self.next: Any = None
        self.in_log = self.requests = 0
        self.is_placed = False
        self.recording: Any = None
        self.is_disturbed = True

    def tell(self, event: Any) -> None:
        """Reports an event, and does the actions that are decided."""
        for action in self.made.on(event, self.now):
            self._perform(action)

    def _perform(self, action: Any) -> None:  # noqa: PLR0912, PLR0915
        module = self.module
        match type(action).__name__:
            case "LookForRequest":
                assert self.copied is None, "it looks for a second load"
                found = [it for it in self.open if it.key not in self.recorded]
                self.tell(module.Found(found[0] if found else None))
            case "LookIfWanted":
                is_wanted = action.request in self.open
                self.tell(module.StillWanted() if is_wanted else module.Unwanted())
            case "OpenCopies":
                assert self.copied is None, "two loads at once"
                assert not self.in_log, "another load is in the log"
                assert action.request.key not in self.recorded, "it is loaded twice"
                self.copied, self.number = action.request, action.number
                self.is_placed = False
                self.next = module.Opened(action.number)
            case "MakeSlot":
                assert self.made.holds_log, "the stream goes on"
                order = BeginLoad(action.number, Lsn(0), 0, CATALOG, ())
                is_blocked = self.is_disturbed and self.rng.random() < 0.2
                self.next = module.Shared(action.number, order)
                if is_blocked:
                    self.next = module.Blocked(action.number, None)
            case "Reserve":
                self.in_log = 1
                self.next = module.Reserved(action.order.number)
            case "StartCopies":
                assert self.in_log, "it has no place"
                self.next = module.Copied(action.number)
            case "StopCopies":
                self.copied, self.next = None, None
            case "EndLoad":
                assert self.next is None, "a part is missing"
                assert self.copied is not None, "a part is missing"
                key = getattr(self.copied, "key", "")
                since = self.cancelled.get(key, self.now)
                assert self.now < since + 5, "nobody wants it any more"
                self.is_placed = True
            case "GiveUp":
                self.in_log = 0
            case "Record":
                assert self.recording is None, "it is recorded twice at once"
                if action.failure is None and not action.refused:
                    assert not self.in_log, "it is recorded before it has its place"
                    assert self.copied is not None, "another one is recorded"
                self.recording = action
            case "Note":
                pass
            case "Fail":
                self.in_log, self.is_placed = 0, False
            case other:
                raise AssertionError(other)

    def step(self) -> None:
        """One act of somebody, at random."""
        rng, module = self.rng, self.module
        self.now += rng.choice([0.05, 0.3, 1.5])
        act = rng.randrange(12)
        if act == 0 and self.is_disturbed and len(self.open) < 3:
            self.requests += 1
            self.open.append(LoadRequest(f"r{self.requests}", ["s.t"]))
        elif act == 1 and self.is_disturbed and self.open and rng.random() < 0.2:
            self.cancelled[self.open.pop(0).key] = self.now
        elif act in (2, 3, 4) and self.copied is not None:
            self._copy()
        elif act == 5 and self.copied is not None and self.is_disturbed:
            if rng.random() < 0.5 and not self.is_placed and self.next is not None:
                again = rng.random() < 0.8
                error = LogError("again" if again else "no", code="load")
                self.next = None
                self.tell(module.Broken(self.number, error))
        elif act == 6 and self.recording is not None:
            self._record()
        elif act == 7 and self.is_disturbed and rng.random() < 0.1:
            # The connection and the log are closed.
            self.tell(module.Stopped())
            self.copied, self.next, self.in_log = None, None, 0
            self.is_placed = False
        elif act == 8 and self.is_placed:
            self.in_log = 0
        self._tick()

    def _tick(self) -> None:
        is_compared = not self.is_disturbed or self.rng.random() < 0.9
        is_paused = self.made.holds_log and self.rng.random() < 0.5
        self.tell(self.module.Ticked(self.in_log, is_compared, is_paused))

    def _copy(self) -> None:
        answer, self.next = self.next, None
        if isinstance(answer, self.module.Blocked):
            self.next = self.module.Unblocked(self.number)
        if answer is not None:
            self.tell(answer)
            # A late answer of a load that is over counts for nothing.
            self.tell(self.module.Copied(self.number - 1))

    def _record(self) -> None:
        action, self.recording = self.recording, None
        if self.is_disturbed and self.rng.random() < 0.3:
            self.tell(self.module.NotRecorded(OSError("full")))
            return
        request = action.request
        if not isinstance(request, self.module.First):
            assert request.key not in self.recorded, "it is recorded twice"
            self.recorded[request.key] = action.failure
            self.open = [it for it in self.open if it.key != request.key]
        self.tell(self.module.Recorded())

    def play(self) -> None:
        """Plays it: disturbed, then quiet, until all requests are loaded."""
        for _ in range(self.rng.choice([50, 400])):
            self.step()
        self.is_disturbed = False
        for _ in range(1_500):
            self.step()
        assert not self.open, f"a request waits for ever: {self.made.state}"
        assert isinstance(self.made.state, self.module.Nothing), self.made.state
        assert self.in_log == 0, "a load is left in the log"
