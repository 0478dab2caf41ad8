"""The file of a status record: torn writes, other versions, copies, owners and clocks."""

from __future__ import annotations

import dataclasses
import datetime as dt
import os
import shutil
import struct
import threading
from pathlib import Path

import pytest

import walrow
from walrow._core import crc32c
from walrow._log import status_record
from walrow._log.status_record import (
    SLOT_BYTES,
    Cause,
    Life,
    Part,
    Phase,
    PhaseName,
    ReceiverFacts,
    StatusFile,
    StatusRecord,
    TargetFacts,
    encode,
    read_status,
)
from walrow._lsn import Lsn
from walrow._run.status import part_of

NOW = dt.datetime(2026, 11, 29, 9, 30, 15, 250, tzinfo=dt.UTC)
PHASES: list[Phase] = [
    Phase(PhaseName.CONNECTING),
    Phase(PhaseName.CATCHING_UP),
    Phase(PhaseName.STREAMING),
    Phase(PhaseName.SNAPSHOTTING, tables=("public.a", "public.b\udcff")),
    Phase(PhaseName.IDLE),
    *(Phase.degraded(cause, "away") for cause in Cause),
    Phase(PhaseName.WAITING_FOR_PERSON, text="the slot is lost"),
    Phase(PhaseName.STOPPED),
    Phase(PhaseName.STOPPED, text="no server"),
]


class Written(StatusFile):
    """A record that is written at once, by this thread."""

    def _wake_writer(self) -> None:
        self._write(self._opened())

    def let_go(self) -> None:
        self._let_go()


def path_of(log: Path) -> Path:
    return log / "_run" / "receive.status"


def slot(number: int, version: int, payload: bytes) -> bytes:
    """A slot, as the layout says."""
    head = b"WALROWST" + struct.pack("<HHIQ", version, 0, len(payload), number)
    return head + struct.pack("<I", crc32c(head + payload)) + payload


@pytest.mark.parametrize("phase", PHASES, ids=repr)
def test_what_is_posted_is_read(tmp_path: Path, phase: Phase) -> None:
    file = Written(tmp_path, Part.RECEIVE)
    facts = ReceiverFacts(
        Lsn(0x30), Lsn(0x28), Lsn(0x20), Lsn(0x18), NOW, 2, "lost", NOW
    )
    target = TargetFacts(7, "s.t", "delta:x", Lsn(0x20), NOW, "no", NOW)
    file.post(phase, 5, facts, (target,))
    life, found = read_status(tmp_path, Part.RECEIVE)
    assert found is not None
    assert (life, found.phase, found.turn) == (Life.ALIVE, phase, 5)
    assert (found.receiver, found.targets) == (facts, (target,))
    assert (found.process, found.omitted) == (os.getpid(), 0)
    assert abs(found.time - dt.datetime.now(dt.UTC)) < dt.timedelta(seconds=5)
    # It never grows, and each write goes to the other slot.
    assert path_of(tmp_path).stat().st_size == 2 * SLOT_BYTES
    file.post(Phase(PhaseName.STOPPED), 6)
    file.let_go()
    life, found = read_status(tmp_path, Part.RECEIVE)
    assert found is not None
    assert (life, found.phase) == (Life.ENDED, Phase(PhaseName.STOPPED))
    assert found.since <= found.turned


def test_the_layout(tmp_path: Path) -> None:
    file = Written(tmp_path, Part.RECEIVE)
    for turn in (1, 2, 3):
        file.post(Phase(PhaseName.STREAMING), turn)
    whole = path_of(tmp_path).read_bytes()
    for number in (2, 3):
        at = number % 2 * SLOT_BYTES
        magic, version, zero, length, found = struct.unpack_from("<8sHHIQ", whole, at)
        (crc,) = struct.unpack_from("<I", whole, at + 24)
        payload = whole[at + 28 : at + 28 + length]
        assert (magic, version, zero, found) == (b"WALROWST", 1, 0, number)
        assert crc == crc32c(whole[at : at + 24] + payload)
        assert payload.isascii()
        assert b'"turn":%d,' % number in payload
    file.let_go()


def test_a_torn_slot_falls_back_to_the_other(tmp_path: Path) -> None:
    file = Written(tmp_path, Part.RECEIVE)
    file.post(Phase(PhaseName.STREAMING), 1)
    file.post(Phase(PhaseName.CATCHING_UP), 2)
    file.let_go()
    whole = path_of(tmp_path).read_bytes()
    # The write of the third one is cut after any of its bytes.
    _, record = read_status(tmp_path, Part.RECEIVE)
    assert record is not None
    third = encode(dataclasses.replace(record, phase=Phase(PhaseName.IDLE)), 3)
    for size in (*range(1, 64), len(third) // 2, len(third) - 1):
        torn = bytearray(whole)
        torn[SLOT_BYTES : SLOT_BYTES + size] = third[:size]
        path_of(tmp_path).write_bytes(torn)
        _, found = read_status(tmp_path, Part.RECEIVE)
        assert found is not None
        assert found.phase == Phase(PhaseName.CATCHING_UP)
    # The next owner continues behind the valid one.
    again = Written(tmp_path, Part.RECEIVE)
    again.post(Phase(PhaseName.STREAMING), 1)
    assert read_status(tmp_path, Part.RECEIVE)[0] is Life.ALIVE
    again.let_go()
    path_of(tmp_path).write_bytes(bytes([*b"x"]) * 2 * SLOT_BYTES)
    with pytest.raises(walrow.errors.LogError, match="is damaged") as caught:
        read_status(tmp_path, Part.RECEIVE)
    assert (caught.value.code, caught.value.file) == ("damaged", "_run/receive.status")


@pytest.mark.parametrize("version", [0, 2, 65535])
def test_another_version_is_an_error_that_says_so(tmp_path: Path, version: int) -> None:
    file = Written(tmp_path, Part.RECEIVE)
    file.post(Phase(PhaseName.STREAMING), 1)
    file.let_go()
    with path_of(tmp_path).open("r+b") as opened:
        opened.write(slot(10, version, b"{}"))
    with pytest.raises(
        walrow.errors.LogError, match=f"has version {version}, and this walrow reads 1"
    ) as caught:
        read_status(tmp_path, Part.RECEIVE)
    assert caught.value.code == "version"
    # This version takes the file over.
    file = Written(tmp_path, Part.RECEIVE)
    file.post(Phase(PhaseName.STREAMING), 1)
    assert read_status(tmp_path, Part.RECEIVE)[0] is Life.ALIVE
    file.let_go()


@pytest.mark.parametrize(
    "payload", [b"{}", b"[]", b"\xff", b"[" * 100_000, b'{"phase":{"name":"new"}}']
)
def test_a_content_that_is_not_known(tmp_path: Path, payload: bytes) -> None:
    path_of(tmp_path).parent.mkdir()
    path_of(tmp_path).write_bytes(slot(1, 1, payload))
    with pytest.raises(walrow.errors.LogError, match="an unknown content"):
        read_status(tmp_path, Part.RECEIVE)


def test_a_later_field_is_ignored(tmp_path: Path) -> None:
    file = Written(tmp_path, Part.RECEIVE)
    file.post(Phase(PhaseName.STREAMING), 1, ReceiverFacts())
    file.let_go()
    whole = path_of(tmp_path).read_bytes()
    (length,) = struct.unpack_from("<I", whole, SLOT_BYTES + 12)
    payload = whole[SLOT_BYTES + 28 :][:length]
    later = payload.replace(b'"turn":1', b'"turn":2,"later":{}').replace(
        b'"reconnects":0', b'"reconnects":3,"later":1'
    )
    path_of(tmp_path).write_bytes(slot(2, 1, later))
    _, found = read_status(tmp_path, Part.RECEIVE)
    assert found is not None
    assert found.receiver is not None
    assert (found.turn, found.receiver.reconnects) == (2, 3)


def test_a_copy_of_the_folder_is_not_alive(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.mkdir()
    file = Written(log, Part.RECEIVE)
    file.post(Phase(PhaseName.STREAMING), 1)
    shutil.copytree(log, tmp_path / "copy")
    assert read_status(log, Part.RECEIVE)[0] is Life.ALIVE
    assert read_status(tmp_path / "copy", Part.RECEIVE)[0] is Life.ENDED
    (reason,) = part_of(tmp_path / "copy", Part.RECEIVE, is_wanted=False).reasons
    assert "or this is a copy of its log" in reason
    file.let_go()


def test_the_first_owner_keeps_it(tmp_path: Path) -> None:
    first, second = (
        StatusFile(tmp_path, Part.RECEIVE),
        StatusFile(tmp_path, Part.RECEIVE),
    )
    first.post(Phase(PhaseName.STREAMING), 1)
    while read_status(tmp_path, Part.RECEIVE)[0] is not Life.ALIVE:
        pass
    second.post(Phase(PhaseName.CONNECTING), 1)
    second.post(Phase(PhaseName.WAITING_FOR_PERSON, text="the log is locked"), 2)
    second.close()
    life, found = read_status(tmp_path, Part.RECEIVE)
    assert found is not None
    assert (life, found.phase) == (Life.ALIVE, Phase(PhaseName.STREAMING))
    first.post(Phase(PhaseName.STOPPED), 2)
    first.close()
    assert read_status(tmp_path, Part.RECEIVE)[0] is Life.ENDED


def test_it_needs_the_logs_directory_and_comes_again_after_its_removal(
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    file = StatusFile(log, Part.RECEIVE)
    file.post(Phase(PhaseName.CONNECTING), 1)
    file.close()
    assert not log.exists()
    assert read_status(log, Part.RECEIVE) == (Life.NONE, None)
    log.mkdir(mode=0o750)
    written = Written(log, Part.RECEIVE)
    written.post(Phase(PhaseName.CONNECTING), 1)
    assert path_of(log).stat().st_mode & 0o777 == 0o640
    shutil.rmtree(log / "_run")
    written.post(Phase(PhaseName.STREAMING), 2)
    assert read_status(log, Part.RECEIVE)[0] is Life.ALIVE
    written.let_go()


def test_a_reader_beside_a_writer_always_finds_one(tmp_path: Path) -> None:
    file = Written(tmp_path, Part.RECEIVE)
    file.post(Phase(PhaseName.STREAMING), 1)
    is_over = threading.Event()

    def write() -> None:
        turn = 1
        while not is_over.is_set():
            turn += 1
            file.post(Phase.degraded(Cause.SERVER, "x" * (turn % 900)), turn)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        turns = []
        for _ in range(200):
            _, found = read_status(tmp_path, Part.RECEIVE)
            assert found is not None
            turns.append(found.turn)
        assert turns == sorted(turns)
    finally:
        is_over.set()
        writer.join()
        file.let_go()


def test_targets_that_have_no_room_are_counted(tmp_path: Path) -> None:
    targets = tuple(
        TargetFacts(number, f"s.t{number}", "delta:" + "p" * 90, problem="x" * 5000)
        for number in range(3000)
    )
    file = Written(tmp_path, Part.APPLY)
    file.post(
        Phase(PhaseName.SNAPSHOTTING, tables=tuple(f"s.t{it}" for it in range(5000))),
        1,
        None,
        targets,
    )
    _, found = read_status(tmp_path, Part.APPLY)
    assert found is not None
    assert len(found.targets) + found.omitted == 3000
    assert [it.oid for it in found.targets] == list(range(len(found.targets)))
    assert found.phase.name is PhaseName.SNAPSHOTTING
    assert found.phase.tables[-2:] == ("s.t99", "4,900 more")
    file.let_go()


def record(phase: Phase, *, seconds: float, heard: float | None = None) -> StatusRecord:
    """A record that was written so many seconds ago."""
    time = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=seconds)
    at = None if heard is None else time - dt.timedelta(seconds=heard)
    facts = ReceiverFacts(heard=at)
    return StatusRecord(1, "h", time, time, time, time, phase, 1, facts)


def put(log: Path, found: StatusRecord, number: int = 1) -> None:
    path_of(log).parent.mkdir(exist_ok=True)
    with path_of(log).open("r+b" if path_of(log).exists() else "wb") as file:
        file.seek(number % 2 * SLOT_BYTES)
        file.write(encode(found, number))


@pytest.mark.parametrize("ago", [3600.0, -3600.0], ids=["behind", "ahead"])
@pytest.mark.parametrize("writes", [True, False])
def test_a_clock_that_differs_is_told_from_an_owner_that_hangs(
    tmp_path: Path, ago: float, *, writes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr(status_record, "BEAT_SECONDS", 0.0)
    put(tmp_path, record(Phase(PhaseName.STREAMING), seconds=ago))
    paused = []

    def pause(seconds: float) -> None:
        paused.append(seconds)
        if writes and len(paused) == 2:
            put(tmp_path, record(Phase(PhaseName.STREAMING), seconds=ago), 2)

    monkeypatch.setattr(status_record, "pause", pause)
    with path_of(tmp_path).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        life, _ = read_status(tmp_path, Part.RECEIVE)
    assert life is (Life.ALIVE if writes else Life.STALE)


def test_a_main_loop_that_hangs(tmp_path: Path) -> None:
    import fcntl

    found = record(Phase(PhaseName.STREAMING), seconds=1)
    turned = found.time - dt.timedelta(seconds=31)
    put(tmp_path, dataclasses.replace(found, turned=turned))
    with path_of(tmp_path).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert read_status(tmp_path, Part.RECEIVE)[0] is Life.STALE
        # An applier may work on one table for long.
        put(tmp_path, dataclasses.replace(found, turned=turned, receiver=None))
        assert read_status(tmp_path, Part.RECEIVE)[0] is Life.ALIVE


@pytest.mark.parametrize(
    ("phase", "heard", "reason"),
    [
        (Phase(PhaseName.STREAMING), 1.0, None),
        (Phase(PhaseName.CATCHING_UP), 1.0, None),
        (Phase(PhaseName.SNAPSHOTTING, tables=("s.t",)), 59.0, None),
        (Phase(PhaseName.STREAMING), 60.0, "has had no word from the server for 60 s"),
        (Phase.degraded(Cause.SERVER, "refused"), 1.0, "is degraded since 20"),
        (Phase.degraded(Cause.DISK, "full"), 1.0, ": full"),
        (Phase(PhaseName.WAITING_FOR_PERSON, text="lost"), 1.0, "waits for you: lost"),
    ],
    ids=repr,
)
def test_what_a_living_receiver_is_a_reason_for(
    tmp_path: Path, phase: Phase, heard: float, reason: str | None
) -> None:
    import fcntl

    put(tmp_path, record(phase, seconds=1, heard=heard))
    with path_of(tmp_path).open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        found = part_of(tmp_path, Part.RECEIVE, is_wanted=True)
    assert [reason in it for it in found.reasons if reason] == [True] * bool(reason)
    assert found.is_healthy == (
        phase.name in (PhaseName.STREAMING, PhaseName.SNAPSHOTTING) and not reason
    )


@pytest.mark.parametrize("is_wanted", [True, False])
@pytest.mark.parametrize(
    ("phase", "words"),
    [
        (
            Phase(PhaseName.STOPPED),
            "no receiver runs, and a target is configured: the last one",
        ),
        (
            Phase(PhaseName.STOPPED, text="no server"),
            "receive has ended: no server (at 20",
        ),
        (
            Phase(PhaseName.WAITING_FOR_PERSON, text="lost"),
            "receive has ended: lost (at 20",
        ),
        (
            Phase(PhaseName.STREAMING),
            "the receiver was killed (process 1 on h, last seen at 20",
        ),
        (Phase.degraded(Cause.DISK, "full"), "the receiver was killed"),
    ],
    ids=repr,
)
def test_what_a_receiver_that_does_not_run_is_a_reason_for(
    tmp_path: Path, phase: Phase, words: str, *, is_wanted: bool
) -> None:
    put(tmp_path, record(phase, seconds=4000, heard=1))
    found = part_of(tmp_path, Part.RECEIVE, is_wanted=is_wanted)
    assert found.life is Life.ENDED
    if phase == Phase(PhaseName.STOPPED) and not is_wanted:
        assert found.reasons == ()
    else:
        (reason,) = found.reasons
        assert words in reason
    assert not found.is_healthy


def test_a_log_in_an_object_store_has_no_record() -> None:
    found = part_of(None, Part.RECEIVE, is_wanted=True)
    assert (found.life, found.record, found.reasons) == (Life.UNKNOWN, None, ())
