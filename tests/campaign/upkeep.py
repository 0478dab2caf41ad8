"""Steps on the receiver, the server's processes, the log and its files."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

import walrow
from campaign.changes import prepare, table_of
from campaign.day import Day
from campaign.looking import archive, received
from campaign.oracle import needed, published
from campaign.steps import Fault, step
from servers.receiving import ReceiverProcess

DATA = Path(__file__).resolve().parent.parent / "data" / "18"


# The receiver.


@step(is_harmless=True)
def up(day: Day) -> None:
    """A receiver runs from now on."""
    day.script.append("-- a receiver runs from here on")
    day.up()


@step(is_harmless=True)
def down(day: Day) -> None:
    """The receiver is stopped."""
    day.script.append("-- the receiver is stopped")
    day.down()


@step(40, is_harmless=True)
def look_killed(day: Day, at: int) -> None:
    """A receiver is killed at one of its operations on the log's files."""
    day.down()
    more = ("--until", "now", "--publish-after", "0.1")
    with (
        ReceiverProcess(
            day.dsn, day.log, *more, slot=day.slot, crash_at=5 * at + 1
        ) as process,
        contextlib.suppress(Exception),
    ):
        process.wait(6)
    active = (
        f"SELECT FROM pg_replication_slots WHERE slot_name = '{day.slot}' AND active"
    )
    deadline = time.monotonic() + 5
    while day.sql(active) and time.monotonic() < deadline:
        time.sleep(0.02)


# The server.


@step(3, is_harmless=True)
def restart(day: Day, number: int) -> None:
    """The server is started again."""
    day.disconnect()
    day.server.restart(("fast", "immediate", "kill")[number])


@step(is_harmless=True)
def copy_server(day: Day) -> None:
    """Somebody copies the files of the stopped server."""
    day.copy_server()


@step(2)
def set_back(day: Day, is_quiet: int) -> None:
    """The log has a row. Then the server's files are the copy again, and much is written."""
    day.down()
    if day.has_copy:
        day.attempt(f"INSERT INTO t (id) VALUES ({day.number()})")  # noqa: S608
        received(day)
        day.is_risky = True
        day.set_back()
        if not is_quiet:
            wal(day)


@step(2)
def set_back_under_receiver(day: Day, table: int) -> None:
    """The same while a receiver runs, which cannot connect before much is written."""
    if day.has_copy:
        day.up()
        day.attempt(f"INSERT INTO {('t', 'u')[table]} (id) VALUES ({day.number()})")  # noqa: S608
        day.wait_for_receiver()
        day.set_back()
        wal(day)


@step(4, is_harmless=True)
def wal(day: Day, how: int = 0) -> None:
    """Something is written that concerns no table of the log."""
    day.attempt(
        *(
            (
                "SELECT pg_logical_emit_message(true, 'other', 'x')",
                "SELECT pg_switch_wal()",
            ),
            ("CHECKPOINT",),
            ("VACUUM",),
            ("SELECT pg_logical_emit_message(false, 'other', 'x', true)",),
        )[how]
    )


@step(4, is_harmless=True)
def wal_and_look(day: Day, how: int) -> None:
    """The same, and a look: its position is later than the log's end."""
    wal(day, how)
    received(day)


@step()
def promote(day: Day) -> None:
    """The server becomes another timeline, as after a recovery."""
    day.disconnect()
    day.server.shut_down("fast")
    data = day.server.data_directory
    with (data / "postgresql.auto.conf").open("a") as settings:
        settings.write("restore_command = 'false'\n")
    (data / "recovery.signal").touch(mode=0o666)
    day.server.start()
    deadline = time.monotonic() + 20
    while day.sql("SELECT pg_is_in_recovery()") != [(False,)]:
        assert time.monotonic() < deadline, "the server stays in recovery"
        time.sleep(0.02)


@step()
def make_slot_again(day: Day) -> None:
    """Somebody drops the slot, and makes one of the same name."""
    day.down()
    day.attempt(
        f"SELECT pg_drop_replication_slot('{day.slot}')",
        f"SELECT pg_create_logical_replication_slot('{day.slot}', 'pgoutput')",
    )


# Loads.


@step(3)
def load(day: Day, table: int) -> None:
    """A table is loaded. Then it is the server's."""
    if day.prepared or not _request(day, table):
        return
    name = table_of(day, table)
    day.script.append(f"-- {name} is loaded")
    before = _loaded(day, name)
    if not received(day) or day.is_partial:
        return
    if (after := _loaded(day, name)) is None or after == before:
        return
    if day.ask(
        f"SELECT 1 FROM pg_inherits i WHERE inhparent = {day.focus} AND EXISTS "  # noqa: S608
        "(SELECT FROM pg_class WHERE oid = i.inhparent AND relkind = 'r')"
    ):
        # The rows of its children are not published as its own: a person accepts that.
        return
    day.blind.discard(day.focus)
    oid = next((it[0] for it in published(day) if it[1] == _full(name)), None)
    reason = needed(walrow.Log(day.log)).get(oid or 0)
    if oid is not None and (reason is not None or oid not in day.whole):
        text = f"{name} is loaded, and not whole: {reason}"
        raise Fault(text)


@step(3)
def request_load(day: Day, table: int) -> None:
    """Somebody asks for a load, and does not wait for it."""
    if not day.prepared:
        _request(day, table)


@step(2)
def load_beside_prepared(day: Day, table: int) -> None:
    """As request_load, while a transaction is prepared, whose end a load waits for."""
    if not day.prepared:
        prepare(day, table)
    _request(day, table)


def _full(name: str) -> str:
    return name if "." in name else f"public.{name}"


def _loaded(day: Day, name: str) -> object:
    found = (it for it in walrow.Log(day.log).tables() if it.name == _full(name))
    return next((it.loaded for it in found), None)


def _request(day: Day, table: int) -> bool:
    try:
        walrow.load([_full(table_of(day, table))], log=day.log, wait=False)
    except walrow.Error:
        return False
    return True


@step(is_harmless=True)
def cancel_load(day: Day) -> None:
    """Somebody cancels all loads, also one that has begun."""
    with contextlib.suppress(walrow.Error):
        walrow.log.cancel_load(log=day.log)


@step(3, is_harmless=True)
def apply(day: Day, table: int) -> None:
    """A lake's table, which began with a load, takes the new changes, after a look."""
    _apply(day, ("t", "u", "part")[table])


@step(3, is_harmless=True)
def apply_to_copy(day: Day, table: int) -> None:
    """A lake's table, which began with a user's own copy, takes the new changes, after a look."""
    _apply(day, ("t", "u", "part")[table], is_copied=True)


def _apply(day: Day, name: str, *, is_copied: bool = False) -> None:
    target = day.targets.get(name)
    if target is None or target.is_copied != is_copied:
        return
    if received(day) and target.apply(walrow.Log(day.log)):
        target.compare(day)


@step(3)
def restore_target(day: Day, table: int) -> None:
    """Somebody puts a lake's table back to its first version."""
    if target := day.targets.get(("t", "u", "part")[table]):
        target.restore()


@step(3)
def lose_target(day: Day, table: int) -> None:
    """A lake's table is lost, with its record, and begins again."""
    if target := day.targets.get(("t", "u", "part")[table]):
        target.lose()


# The log.


@step()
def retain(day: Day) -> None:
    """Everything old is removed that nobody needs."""
    with contextlib.suppress(walrow.Error):
        archive(day)
        walrow.Log(day.log).retain(age=0)


@step(is_harmless=True)
def compact(day: Day) -> None:
    """Segments are merged."""
    with _changing(day):
        archive(day)
        walrow.Log(day.log).compact()


@step()
def prune(day: Day) -> None:
    """All but the last segment is removed, by force if the log has no reader."""
    with contextlib.suppress(walrow.Error):
        archive(day)
        log = walrow.Log(day.log)
        log.prune(log.end, force=not log.readers())


@step(is_harmless=True)
def verify(day: Day) -> None:
    """All segments are read."""
    with _changing(day):
        walrow.Log(day.log).verify()


@contextlib.contextmanager
def _changing(day: Day):  # type: ignore[no-untyped-def]
    """An operation that must succeed, unless somebody has damaged the log."""
    try:
        yield
    except walrow.Error:
        if not day.loses_changes:
            raise


@step(3)
def erase_column(day: Day, table: int) -> None:
    """The values of a column are erased."""
    _erase(day, table_of(day, table), columns=["v"], keys=[])


@step(3)
def erase_key(day: Day, table: int) -> None:
    """A row is erased."""
    name = table_of(day, table)
    for (key,) in day.sql(f"SELECT min(id)::text FROM {name}"):  # noqa: S608
        if key is not None:
            _erase(day, name, columns=[], keys=[key])


def _erase(day: Day, name: str, columns: list[str], keys: list[str]) -> None:
    was_up = day.is_up
    day.down()
    try:
        walrow.Log(day.log).erase(
            _full(name), columns=columns, keys=[{"id": it} for it in keys], force=True
        )
    except walrow.Error:
        return
    finally:
        if was_up:
            day.up()
    # Positions of changes go with the rows.
    day.loses_changes = True
    for it in walrow.Log(day.log).tables():
        if _full(name) in {version.name for version in it.versions}:
            hidden, gone = day.erased.setdefault(it.oid, (set(), set()))
            hidden.update(columns)
            gone.update(keys)


# Files of the log.


def _segments(day: Day) -> list[Path]:
    return sorted(day.log.glob("[0-9A-F]*.wire*"))


def _damaged(day: Day) -> None:
    day.loses_changes = True
    day.follower = None


@step()
def lose_newest_segment(day: Day) -> None:
    """The file of the newest segment is lost."""
    day.down()
    if found := _segments(day):
        found[-1].unlink()
        _damaged(day)


@step(4)
def lose_a_segment(day: Day, number: int) -> None:
    """The file of a segment is lost."""
    day.down()
    if found := _segments(day):
        found[number % len(found)].unlink()
        _damaged(day)


@step(4)
def cut_a_segment(day: Day, number: int) -> None:
    """The file of a segment loses its end."""
    day.down()
    if found := _segments(day):
        path = found[number % len(found)]
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        _damaged(day)


@step()
def copy_log(day: Day) -> None:
    """Somebody copies the log's directory, perhaps while it is in use."""
    target = day.directory / "log-copy"
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(day.log, target, ignore_dangling_symlinks=True)


@step()
def put_log_back(day: Day) -> None:
    """The log's directory is the copy again."""
    day.down()
    source = day.directory / "log-copy"
    if source.is_dir():
        shutil.rmtree(day.log)
        shutil.copytree(source, day.log)
        _damaged(day)


@step()
def replace_log(day: Day) -> None:
    """The log's directory is moved away, perhaps under a receiver, and put back later."""
    moved = day.directory / "log-moved"
    if moved.exists():
        day.down()
        shutil.rmtree(day.log, ignore_errors=True)
        moved.rename(day.log)
    else:
        day.log.rename(moved)
        shutil.copytree(moved, day.log)
    _damaged(day)


@step()
def lose_prepared(day: Day) -> None:
    """The files of prepared transactions are lost."""
    day.down()
    for path in day.log.glob("*prepared*"):
        if path.is_file():
            path.unlink()
            _damaged(day)


@step()
def seal_a_capture(day: Day) -> None:
    """Somebody seals a capture of another server into the log."""
    day.down()
    with contextlib.suppress(walrow.Error):
        walrow.seal(DATA / "rows.text.wire", log=day.log)
