"""The targets of a log, and two locks in `_run`.

The targets are an object of the log, because no other place names a target that was removed from the
file. The position here is the last known one, and the record in the target itself counts. `_run`
may be removed at any time.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from walrow._core import LogObjects
from walrow._log.locks import is_locked
from walrow._log.status_record import FOLDER, run_folder
from walrow._log.values import value_of
from walrow._lsn import Lsn
from walrow._results import Result, result
from walrow.errors import Error, LogError


@result
class Recorded(Result):
    """A target of a log, as its last call left it.

    Attributes:
        table: Its name, as `schema.name`.
        engine: The engine that wrote it last.
        keys: The columns that identify a row. Empty before the first commit.
        end: Up to where it had all changes at least. None before the first commit.
        in_file: Whether the file had it when it was read last.
        load: Whether the file lets `walrow run` ask for its loads, as the option `load`.
    """

    oid: int
    table: str
    place: str
    engine: str
    mode: str
    keys: tuple[str, ...] = ()
    end: Lsn | None = None
    in_file: bool = True
    load: str = "auto"


def read_targets(read: Callable[[str], bytes]) -> list[Recorded]:
    """The targets of a log.

    Args:
        read: Reads an object of the log, as `Log.read_object`.

    Raises:
        LogError: The object is damaged.
    """
    try:
        found: list[Recorded] = value_of(
            list[Recorded], json.loads(read(TARGETS))["targets"]
        )
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError, RecursionError):
        text = (
            "the record of the targets is damaged: remove the file. The next `walrow run` writes "
            "it anew"
        )
        raise LogError(text, code="damaged", file=TARGETS) from None
    return found


def write_targets(log: Path, targets: Iterable[Recorded]) -> None:
    """Replaces the record of the targets. Only who holds the lock does.

    Raises:
        LogError: It cannot be written.
    """
    found = {"targets": [it.to_dict() for it in targets]}
    LogObjects(log).replace(TARGETS, json.dumps(found).encode())


def forget_target(log: Path, place: str) -> bool:
    """Removes a target from the record. It stays as it is. Returns whether it was there.

    Raises:
        LogError: Another process keeps the targets current, or the record cannot be written.
    """
    with RunFolder(log).locked():
        objects = LogObjects(log)
        targets = read_targets(lambda name: objects.read(name)[0])
        left = [it for it in targets if it.place != place]
        if len(left) < len(targets):
            write_targets(log, left)
    return len(left) < len(targets)


class RunFolder:
    """Two locks in `_run` in a log's directory."""

    def __init__(self, log: Path) -> None:
        """Creates nothing yet."""
        self._log = log
        self._path = log / FOLDER

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the first lock, so that one command at a time keeps the targets of a log current.

        Raises:
            LogError: Another process holds it, or it cannot be written.
        """
        self.refuse_used()
        try:
            objects = self._objects()
            lock = objects.lock()
        except LogError as error:
            if error.code == "busy":
                raise self._in_use() from None
            raise
        with lock:
            holder = {"pid": os.getpid(), "host": socket.gethostname()}
            objects.replace(_HOLDER, json.dumps(holder).encode())
            yield

    def refuse_used(self) -> None:
        """Refuses a log that another command keeps the targets of.

        Raises:
            LogError: There is one.
        """
        if is_locked(self._path / _LOCK):
            raise self._in_use()

    def _in_use(self) -> LogError:
        who = ""
        with contextlib.suppress(Error, OSError, ValueError, TypeError, KeyError):
            holder = json.loads(LogObjects(self._path).read(_HOLDER)[0])
            who = f" (process {int(holder['pid'])} on {holder['host']})"
        text = (
            f"another `walrow run` or `walrow apply --config`{who} keeps the targets of {self._log} "
            "current: stop it first"
        )
        return LogError(text, code="locked")

    @contextlib.contextmanager
    def applying(
        self, stop: threading.Event, wait: Callable[[], None]
    ) -> Iterator[None]:
        """Holds the lock of the one process that applies.

        An applier whose parent was killed may need a moment for its end. The next one waits for it.

        Args:
            stop: Ends the wait.
            wait: Is called once, if it must wait.

        Raises:
            Error: It was stopped while it waited.
            OSError: The lock cannot be written.
        """
        import fcntl

        self._objects()
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        file = os.open(self._path / _APPLIER, flags, 0o600)
        try:
            for number in itertools.count():
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                if not number:
                    wait()
                if stop.wait(_PAUSE_SECONDS):
                    text = "it was stopped while it waited for an earlier applier"
                    raise Error(text)
            yield
        finally:
            os.close(file)

    def _objects(self) -> LogObjects:
        return LogObjects(run_folder(self._log))


#: The registered reader of a file's targets.
READER = "walrow run"
#: The object of a log that names its targets.
TARGETS = "_targets"
_LOCK = "_lock"
#: The process that holds the first lock, for a message.
_HOLDER = "holder"
_APPLIER = "applier"
_PAUSE_SECONDS = 0.05
