"""The status records of a log: the receiver and the applier each publish how they are, in one small file.

```text
LOG/_run/receive.status, LOG/_run/apply.status        262,144 bytes: two slots of 131,072 bytes

 0  magic    8 bytes  WALROWST        A writer fills the slots in turn, number % 2. Each slot stands alone:
 8  version  u16      1               of two valid ones, the greater number counts, and of one that is torn,
10  zero     u16                      the other one does.
12  length   u32      of the payload
16  number   u64      of this write   All numbers are little-endian. The checksum is that of the
24  crc32c   u32                      bytes 0 to 23 and the payload: a JSON object in ASCII. A reader ignores
28  payload                           fields that it does not know. This layout is final.
```

The file is allocated once and overwritten in place, so a full disk does not stop it (a file system that copies on
write may refuse a write: then the record becomes stale). Its owner writes at each change and at least every 5
seconds, in a thread that nothing waits for, and holds a `flock` of the file while it lives: so a killed owner and a
copy of the folder are recognised, and process numbers are not asked. An owner that is stopped or hangs is recognised
by the record's time, and because clocks may differ, by the number that does not grow.

A log in an object store has no such file: what a receiver does is not known there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import enum
import json
import os
import socket
import struct
import threading
import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from walrow._core import crc32c
from walrow._log.locks import is_locked
from walrow._log.values import value_of
from walrow._lsn import Lsn
from walrow._results import Result, result
from walrow._waiting import pause
from walrow._workers import answered, in_background
from walrow.errors import Error, LogError


class Part(enum.StrEnum):
    """A process that publishes a record."""

    RECEIVE = "receive"
    APPLY = "apply"


class Cause(enum.StrEnum):
    """The cause of a degraded state."""

    SERVER = "server"
    DISK = "disk"
    CATALOG = "catalog"
    TARGET = "target"


class PhaseName(enum.StrEnum):
    """What a process does."""

    #: No server has answered yet, and no attempt has failed.
    CONNECTING = "connecting"
    #: It works, and is behind: the receiver its server, the applier the log.
    CATCHING_UP = "catching_up"
    #: The receiver has what its server has.
    STREAMING = "streaming"
    #: Rows of `tables` are copied while the stream continues. None of them yet: all tables.
    SNAPSHOTTING = "snapshotting"
    #: The targets have all of the log.
    IDLE = "idle"
    #: It tries again, and may succeed without help.
    DEGRADED = "degraded"
    #: Another attempt does not help: a person must do something.
    WAITING_FOR_PERSON = "waiting_for_person"
    #: It has ended, after the error in `text`, or without one.
    STOPPED = "stopped"


@result
class Phase(Result):
    """What a process does, and why."""

    name: PhaseName
    cause: Cause | None = None
    text: str | None = None
    tables: tuple[str, ...] = ()

    @classmethod
    def degraded(cls, cause: Cause, text: str) -> Phase:
        """The phase of a process that tries again."""
        return cls(PhaseName.DEGRADED, cause, text)


@result
class ReceiverFacts(Result):
    """How far a receiver is: LSNs, when the server was heard last, the last error, which may be over,
    and why other `hosts` of its connection string cannot take over the slot.
    """  # noqa: D205

    server: Lsn | None = None
    received: Lsn | None = None
    durable: Lsn | None = None
    visible: Lsn | None = None
    heard: dt.datetime | None = None
    reconnects: int = 0
    error: str | None = None
    failed: dt.datetime | None = None
    hosts: tuple[str, ...] = ()


@result
class TargetFacts(Result):
    """How far a target is, when this process has committed to it last, and its problem since when."""

    oid: int
    table: str
    place: str
    end: Lsn | None = None
    committed: dt.datetime | None = None
    problem: str | None = None
    since: dt.datetime | None = None


@result
class StatusRecord(Result):
    """A status record: who wrote it when, the last turn of its main loop, and when the phase began.

    Targets that had no room are `omitted`.
    """

    process: int
    host: str
    started: dt.datetime
    time: dt.datetime
    turned: dt.datetime
    since: dt.datetime
    phase: Phase
    turn: int = 0
    receiver: ReceiverFacts | None = None
    targets: tuple[TargetFacts, ...] = ()
    omitted: int = 0

    @property
    def error(self) -> str | None:
        """The error that has ended its process."""
        has_ended = self.phase.name in (PhaseName.STOPPED, PhaseName.WAITING_FOR_PERSON)
        return self.phase.text if has_ended else None


class Life(enum.Enum):
    """Whether the owner of a record lives. A `STALE` owner lives, but does not write."""

    UNKNOWN = "unknown"
    NONE = "none"
    ALIVE = "alive"
    STALE = "stale"
    ENDED = "ended"


class StatusFile:
    """The record of this process. Nothing waits for its file.

    It belongs to the process that locks it first. Another one tries again with each write.
    """

    def __init__(self, log: Path, part: Part) -> None:
        """Publishes nothing before the first post, and before the log's directory exists."""
        self._log, self._path = log, log / FOLDER / f"{part}.status"
        self._wake = threading.Event()
        self._done: Future[None] | None = None
        self._is_closed = False
        self.record: StatusRecord | None = None
        self._file: int | None = None
        self._number = 0
        #: The last record of an earlier process.
        self.before: StatusRecord | None = None
        with contextlib.suppress(LogError, OSError):
            self.before = _read(self._path)[1]

    def post(
        self,
        phase: Phase,
        turn: int,
        receiver: ReceiverFacts | None = None,
        targets: tuple[TargetFacts, ...] = (),
        *,
        now: bool = True,
    ) -> None:
        """Publishes how this process is: now, or with the next beat."""
        time, before = _now(), self.record
        is_same = before is not None and before.phase.name is phase.name
        self.record = StatusRecord(
            process=os.getpid(),
            host=socket.gethostname(),
            started=before.started if before else time,
            time=time,
            turned=before.turned if before and before.turn == turn else time,
            since=before.since if before and is_same else time,
            phase=phase,
            turn=turn,
            receiver=receiver,
            targets=targets,
        )
        if now or before is None:
            self._wake_writer()

    def _wake_writer(self) -> None:
        self._wake.set()
        if self._done is None:
            self._done = in_background("walrow-status", self._keep)

    def close(self, seconds: float = 1.0) -> None:
        """Publishes the last post, and gives the file up. A stalled disk gets so many seconds."""
        self._is_closed = True
        self._wake.set()
        if self._done is not None:
            answered(self._done, seconds)

    def _keep(self) -> None:
        is_last = False
        try:
            while not is_last:
                self._wake.wait(BEAT_SECONDS)
                self._wake.clear()
                is_last = self._is_closed
                # The next beat tries again.
                with contextlib.suppress(OSError, ImportError):
                    self._write(self._opened())
        finally:
            self._let_go()

    def _opened(self) -> int:
        """The file, which this process has locked and allocated."""
        import fcntl

        if self._file is not None and not os.fstat(self._file).st_nlink:
            # The directory was removed.
            self._let_go()
        if self._file is None:
            mode = run_folder(self._log).stat().st_mode & 0o660
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            file = os.open(self._path, flags, mode)
            try:
                os.fchmod(file, mode)
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(file)
                raise
            self._file = file
            self._number = max((it[0] for it in _slots(file)), default=0)
        size = os.fstat(self._file).st_size
        if size < 2 * SLOT_BYTES:
            os.pwrite(self._file, bytes(2 * SLOT_BYTES - size), size)
            os.fsync(self._file)
        return self._file

    def _write(self, file: int) -> None:
        if self.record is not None:
            self._number += 1
            record = dataclasses.replace(self.record, time=_now())
            slot = encode(record, self._number)
            os.pwrite(file, slot, self._number % 2 * SLOT_BYTES)

    def _let_go(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


def encode(record: StatusRecord, number: int) -> bytes:
    """A slot, without the rest that is not used. Targets that have no room are counted."""
    payload = _payload(record)
    while len(payload) > SLOT_BYTES - _HEAD.size - _CRC.size and record.targets:
        kept = record.targets[: len(record.targets) * 3 // 4]
        omitted = record.omitted + len(record.targets) - len(kept)
        record = dataclasses.replace(record, targets=kept, omitted=omitted)
        payload = _payload(record)
    head = _HEAD.pack(_MAGIC, VERSION, 0, len(payload), number)
    return head + _CRC.pack(crc32c(payload, crc32c(head))) + payload


def _payload(record: StatusRecord) -> bytes:
    return json.dumps(_shortened(record.to_dict()), separators=(",", ":")).encode()


def _shortened(value: Any) -> Any:
    """JSON with shorter texts, and fewer names."""
    if isinstance(value, dict):
        return {key: _shortened(each) for key, each in value.items()}
    if isinstance(value, list):
        more = len(value) - _NAMES_SHOWN
        if more > 0 and isinstance(value[0], str):
            value = [*value[:_NAMES_SHOWN], f"{more:,} more"]
        return [_shortened(each) for each in value]
    return value[:_TEXT_CHARACTERS] if isinstance(value, str) else value


def read_status(log: Path, part: Part) -> tuple[Life, StatusRecord | None]:
    """Reads a record, and whether its owner lives. A record that looks stale is watched for some seconds.

    Raises:
        LogError: It is damaged, or of another version of walrow.
        OSError: It cannot be read.
    """
    path = log / FOLDER / f"{part}.status"
    number, record = _read(path)
    if not is_locked(path):
        return (Life.NONE if record is None else Life.ENDED), record
    end = time.monotonic() + BEAT_SECONDS + 1
    is_stale = not _is_fresh(record)
    while is_stale and time.monotonic() < end:
        pause(_PAUSE_SECONDS)
        later, record = _read(path)
        # If it was written again, only the clocks differ.
        is_stale = not (later > number > 0 or _is_fresh(record))
    if record is not None and record.receiver is not None:
        # An applier's turn may take long.
        is_stale |= record.time - record.turned >= _HANGS
    return (Life.STALE if is_stale else Life.ALIVE), record


def _is_fresh(record: StatusRecord | None) -> bool:
    return record is not None and abs(_now() - record.time) < _STALE


def _read(path: Path) -> tuple[int, StatusRecord | None]:
    """The number of the last write, and its record. 0 and None before the first one."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except (FileNotFoundError, NotADirectoryError):
        return 0, None
    try:
        for _ in range(_READS):
            if slots := _slots(file):
                return _decoded(path, *max(slots))
            if not any(os.pread(file, 2 * SLOT_BYTES, 0)):
                return 0, None
            # Two writes have torn both meanwhile.
            pause(_PAUSE_SECONDS)
    finally:
        os.close(file)
    text = "the status record is damaged: remove the file while nothing runs"
    raise LogError(text, code="damaged", file=f"{FOLDER}/{path.name}")


def _slots(file: int) -> list[tuple[int, int, bytes]]:
    """The valid slots of a file: number, version and payload."""
    whole, found = os.pread(file, 2 * SLOT_BYTES, 0), []
    for at in (0, SLOT_BYTES):
        slot = whole[at : at + SLOT_BYTES]
        if len(slot) < _HEAD.size + _CRC.size:
            continue
        magic, version, _, length, number = _HEAD.unpack_from(slot)
        (crc,) = _CRC.unpack_from(slot, _HEAD.size)
        payload = slot[_HEAD.size + _CRC.size :][:length]
        if magic == _MAGIC and crc32c(payload, crc32c(slot[: _HEAD.size])) == crc:
            found.append((number, version, payload))
    return found


def _decoded(
    path: Path, number: int, version: int, payload: bytes
) -> tuple[int, StatusRecord]:
    file = f"{FOLDER}/{path.name}"
    if version != VERSION:
        text = (
            f"the status record has version {version}, and this walrow reads {VERSION}: use the "
            "walrow that wrote it"
        )
        raise LogError(text, code="version", file=file)
    try:
        return number, value_of(StatusRecord, json.loads(payload))
    except (ValueError, TypeError, RecursionError) as error:
        text = "the status record has an unknown content: use the walrow that wrote it"
        raise LogError(text, code="version", file=file) from error


def run_folder(log: Path) -> Path:
    """Makes `_run`, as its log: for the owner only, or for the group, too."""
    folder, mode = log / FOLDER, log.stat().st_mode & 0o770
    if not folder.is_dir():
        folder.mkdir(exist_ok=True)
        # The umask has no effect here.
        folder.chmod(mode)
    return folder


def text_of(error: BaseException) -> str:
    """An error in words. Errors of libraries may have values of rows."""
    if isinstance(error, (Error, OSError, ImportError)):
        return str(error)
    name = type(error).__name__
    return f"{name}: its text is left out, as it may have values of rows"


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


#: The directory of what may be removed while nothing runs.
FOLDER = "_run"
VERSION = 1
SLOT_BYTES = 128 << 10
_MAGIC = b"WALROWST"
_HEAD = struct.Struct("<8sHHIQ")
_CRC = struct.Struct("<I")
#: The pause between two writes, at most.
BEAT_SECONDS = 5.0
#: A record that is older may be stale.
_STALE = dt.timedelta(seconds=20)
#: A main loop hangs if its last turn is so old.
_HANGS = dt.timedelta(seconds=30)
_NAMES_SHOWN, _TEXT_CHARACTERS = 100, 1000
_PAUSE_SECONDS = 0.1
_READS = 5
