"""Faults that were put into the decisions on purpose. The worlds must find each."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import walrow._receive


class Fault(NamedTuple):
    """A line of a module, and the line with the fault."""

    name: str
    module: str
    line: str
    wrong: str


def with_fault(fault: Fault) -> Any:
    """The class `Disk`, with a fault in it or in a module that it uses."""
    disk = module_with("disk", fault)
    if fault.module != "disk":
        for name, found in vars(module_with(fault.module, fault)).items():
            if isinstance(found, type) and found.__module__.endswith("_with_fault"):
                setattr(disk, name, found)
    return disk.Disk


def module_with(name: str, fault: Fault) -> ModuleType:
    """A module, with the fault if that is in it."""
    source = Path(*walrow._receive.__path__, f"{name}.py").read_text("utf-8")
    if name == fault.module:
        assert source.count(fault.line) == 1, fault
        source = source.replace(fault.line, fault.wrong)
    spec = importlib.util.spec_from_loader(f"{name}_with_fault", loader=None)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look there for their module.
    sys.modules[module.__name__] = module
    exec(compile(source, f"{name}.py", "exec"), vars(module))  # noqa: S102
    return module


FAULTS = [
    Fault(
        "a publication that was refused comes before definitions that were read",
        "disk",
        "if isinstance(trouble.order, Publish) and self._extensions:",
        "if isinstance(trouble.order, Publish) and not self._extensions and False:",
    ),
    Fault(
        "a block is appended again after a refusal",
        "disk",
        'return replace(trouble.order, block=b"")',
        "return trouble.order",
    ),
    Fault(
        "a session begins without a sync",
        "disk",
        "if self._queue.has_session and not self._progress.is_just_synced:",
        "if self._queue.has_session and not self._progress.is_durable:",
    ),
    Fault(
        "what was received is confirmed before a comparison ends",
        "disk",
        "return self._confirmable if self.is_compared else Lsn(0)",
        "return self._log.position if self._progress.bytes else Lsn(0)",
    ),
    Fault(
        "what is appended is confirmed",
        "disk",
        "self.durable = self._confirmable = log.position",
        "self.durable = self._confirmable = Lsn(log.position + 1)",
    ),
    Fault(
        "blocks are appended in a pause",
        "disk",
        "return None if is_idle else self._next_item(now)",
        "return None if self._queue.is_empty else self._next_item(now)",
    ),
    Fault(
        "a load that was cancelled while it began goes on",
        "disk",
        "began = GivingUp if number == self._unwanted else Loading",
        "began = Loading",
    ),
    Fault(
        "a load that waits for its place is tried once only",
        "progress",
        "if isinstance(order, (Append, NewSession, SetTimeline)):",
        "if isinstance(order, (NewSession, SetTimeline)):",
    ),
    Fault(
        "a full disk ends another attempt",
        "disk",
        "again = now + _RETRY_SECONDS",
        "again = math.inf",
    ),
    Fault(
        "an attempt begins at once after a refusal",
        "disk",
        "again = now + _RETRY_SECONDS",
        "again = now",
    ),
    Fault(
        "nothing is synced without more blocks",
        "progress",
        "return self._synced + (_IDLE_SECONDS if is_idle else _SYNC_SECONDS)",
        "return math.inf if is_idle else self._synced + _SYNC_SECONDS",
    ),
    Fault(
        "the age of what is not published is not looked at",
        "progress",
        "since = min(self._changed_since, now)",
        "since = now",
    ),
    Fault(
        "a stop waits for a disk that is full",
        "disk",
        "if self.has_given_up or now >= self._latest:",
        "if self.has_given_up:",
    ),
    Fault(
        "a stop publishes nothing",
        "disk",
        "Last((Sync(), Publish(), Close()))",
        "Last((Sync(), Close()))",
    ),
    Fault(
        "a log stays open after a failure",
        "disk",
        "if is_other else (Close(),)",
        "if is_other else (Sync(),)",
    ),
    Fault(
        "rows do not wait for their definitions",
        "disk",
        "return None if self._awaits_catalog(now) else Publish()",
        "return Publish()",
    ),
    Fault(
        "blocks overtake a session",
        "backlog",
        "self._items.append(item)",
        "self._items.appendleft(item)",
    ),
    Fault(
        "a catalog that could not be read is not read again",
        "definitions",
        "        self.ask()\n        self._due = now + _RETRY_SECONDS",
        "        self._due = math.inf",
    ),
    Fault(
        "an old catalog replaces that of a load",
        "definitions",
        "if reading is not None and reading.generation != self._generation:",
        "if reading is None:",
    ),
    Fault(
        "a load that was given up gets its place",
        "disk",
        "is_over = isinstance(trouble.order, (type(order), EndLoad))",
        "is_over = isinstance(trouble.order, type(order))",
    ),
]

FAULTS_OF_LOADS = [
    Fault(
        "a load that was broken stays in the log",
        "load",
        "actions: list[Action | Wish] = [StopCopies(), GiveUp(attempt.number)]",
        "actions: list[Action | Wish] = [StopCopies()]",
    ),
    Fault(
        "a load is recorded before it has its place",
        "load",
        "if not seen.in_log:\n",
        "if True:\n",
    ),
    Fault(
        "an answer of another load ends this one",
        "load",
        "if isinstance(self.state, Copying) and number == self._current:",
        "if isinstance(self.state, Copying):",
    ),
    Fault(
        "nobody looks whether a load is still wanted",
        "load",
        "return self._look(attempt, now) or self._go_on(seen, attempt)",
        "return self._go_on(seen, attempt)",
    ),
    Fault(
        "an outcome that was refused is not recorded again",
        "load",
        "self.state = replace(self.state, due=now + LOOK_SECONDS, refused=refused + 1)",
        "self.state = replace(self.state, due=math.inf, refused=refused + 1)",
    ),
    Fault(
        "an outcome is recorded while it is being recorded",
        "load",
        "self.state = Recording(attempt, failure, math.inf, 0, culprits)",
        "self.state = Recording(attempt, failure, 0.0, 0, culprits)",
    ),
    Fault(
        "a request is forgotten when the connection is lost",
        "load",
        "self.state = Nothing() if is_first else Wanted(again, 0.0)",
        "self.state = Nothing(math.inf)",
    ),
    Fault(
        "a load that was recorded goes on",
        "load",
        "                self.state = Unsure()\n                return [StopCopies()]\n",
        "                self.state = Unsure()\n                return []\n",
    ),
    Fault(
        "a load that was cancelled is copied on",
        "load",
        "actions = [StopCopies(), GiveUp(attempt.number)]",
        "actions = [GiveUp(attempt.number)]",
    ),
]

# Some faults are not found here, as the comparison with the log finds the wrong server later. These
# are checks of timelines and of the end of WAL: `test_reconnecting.py` tests them. A promotion that is
# not noted needs a crash in the same moment: `test_receiver_standby.py` tests it.
FAULTS_OF_RECEIVERS = [
    Fault(
        "the end does not wait for the place of the last look",
        "core",
        "self.link.goal = max(self.link.goal or position, position)",
        "self.link.goal = self.link.goal or position",
    ),
    Fault(
        "a last look that has failed is taken as done",
        "core",
        "self._last_look = LastLook.DUE\n            return",
        "self._last_look = LastLook.DONE\n            return",
    ),
    Fault(
        "a server that was not compared is taken as compared",
        "link",
        "was_compared=self._before is Comparison.ONLY,",
        "was_compared=True,",
    ),
    Fault(
        "an answer of an earlier connection counts",
        "link",
        'if getattr(event, "number", self.number) != self.number:',
        "if not event:",
    ),
    Fault(
        "a server that does not answer is waited for",
        "link",
        "return answered + ANSWER_SECONDS",
        "return math.inf",
    ),
    Fault(
        "a transaction that cannot be streamed is streamed again",
        "link",
        "if Want.STREAMING in self._wishes.wanted and self.streaming.fail(error):",
        "if not error:",
    ),
    Fault(
        "a server that the log has refused is asked again and again",
        "link",
        "if confirmed is None or confirmed > self._confirmed:",
        "if True:",
    ),
    Fault(
        "a connection that was left stays open",
        "link",
        "return [Leave(number), *[AbandonLog()] * is_broken]",
        "return [AbandonLog()] * is_broken",
    ),
    Fault(
        "it is not recorded that the server is another one",
        "link",
        "return [*left, RecordStop(reason)]",
        "return left",
    ),
    Fault(
        "the log is opened while an earlier attempt writes to it",
        "link",
        "if now >= until and log.is_free:",
        "if now >= until:",
    ),
    Fault(
        "the end confirms too much",
        "core",
        "actions.append(events.Confirm(self.disk.confirmable))",
        "actions.append(events.Confirm(Lsn(self.disk.confirmable + 1)))",
    ),
    Fault(
        "a stop waits for the disk",
        "core",
        "until = math.inf if waits else now + self.allowed(_FINISH_SECONDS, now)",
        "until = math.inf",
    ),
    Fault(
        "it ends while a load goes on",
        "core",
        "return self.left is not None or isinstance(self.loads.state, load.Nothing)",
        "return True",
    ),
    Fault(
        "the stream goes on while the place of a load is not known",
        "core",
        "if disk is not None and self.loads.holds_log != disk.is_held:",
        "if not actions and not wanted and disk is not None and disk.is_held:",
    ),
    Fault(
        "a log whose first load broke goes on",
        "core",
        "return [*self._lose(error, now), *self._abandon(now)]",
        "return self._lose(error, now)",
    ),
    Fault(
        "an idle server is not asked for its position",
        "core",
        "if now >= self._ask_due:",
        "if now < 0:",
    ),
]
