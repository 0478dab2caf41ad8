"""Servers with small segments, receivers of WAL in processes, and recovery from files."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import walrow
from servers.embedded import EmbeddedServer, wheel_programs
from servers.fetched import fetched_programs
from servers.receiving import ReceiverProcess, Receiving, execute, until
from walrow import backup
from walrow.backup import WalStatus

#: The size of segments of these servers: there are many of them soon.
SEGMENT = 1 << 20


class SmallSegments(EmbeddedServer):
    """A server with segments of 1 MiB."""

    def _run(self, program: str, *arguments: str) -> None:
        added = ("--wal-segsize=1",) if program == "initdb" else ()
        super()._run(program, *arguments, *added)


def programs_of(major: int) -> Path | None:
    """The programs of a version that the wheel does not have. None if it has them."""
    return None if major in _OF_WHEEL else fetched_programs(major)


class Recovered(EmbeddedServer):
    """A server that recovers from a base backup and the files of WAL in a directory."""

    def __init__(self, base: Path, wal: Path, major: int) -> None:
        """Recovers to the end of the files."""
        self._base, self._wal = base, wal
        super().__init__(major, programs=programs_of(major))

    def _make_cluster(self, work_mem: str, settings: Any) -> None:
        shutil.copytree(self._base, self.data_directory)
        files = self.data_directory / "wal"
        shutil.copytree(self._wal, files)
        (self.data_directory / "recovery.signal").touch()
        for path in (self.data_directory, *self.data_directory.rglob("*")):
            if self._account is not None:
                os.chown(path, self._account["user"], self._account["group"])
        self.data_directory.chmod(0o700)
        # A segment that is not whole is the last one.
        command = f'cp "{files}/%f" "%p" || cp "{files}/%f.partial" "%p"'
        restore = {"restore_command": command, **settings}
        self._configure(work_mem, restore)

    def _is_ready(self) -> bool:
        # It takes connections before its recovery is complete.
        return super()._is_ready() and execute(
            self.dsn, "SELECT pg_is_in_recovery()"
        ) == [(False,)]


class WalProcess(ReceiverProcess):
    """`walrow backup wal` in a separate process, as a context manager that kills it."""

    def _command(self, dsn: str, log: Path, _slot: str, _publication: str) -> list[str]:
        return ["backup", "wal", "--json", "--dsn", dsn, "--to", str(log)]

    def until_flushed(self, lsn: str = "0/1", timeout: float = 30) -> dict[str, Any]:
        """Waits until everything up to a position is durable."""
        end = walrow.Lsn(lsn)

        def is_there(state: dict[str, Any]) -> bool:
            return state["state"] == "streaming" and walrow.Lsn(state["flushed"]) >= end

        return self.until(is_there, timeout)


def durable(result: WalStatus | None) -> walrow.Lsn:
    """Up to where a receiver has received."""
    assert result is not None
    assert result.flushed is not None
    return result.flushed


def receiving(dsn: str, to: Path, **options: Any) -> Receiving:
    """`receive_wal` in a thread."""
    return Receiving(backup.receive_wal, dsn, to=to, **options)


def until_reported(server: EmbeddedServer, lsn: str, name: str = "walrow") -> None:
    """Waits until a client has reported that everything up to a position is durable."""
    query = (
        "SELECT count(*) FROM pg_stat_replication"  # noqa: S608
        f" WHERE application_name = '{name}' AND flush_lsn >= '{lsn}'"
    )
    until(lambda: execute(server.dsn, query) == [(1,)])


def until_unused(server: EmbeddedServer) -> None:
    """Waits until no client uses a slot."""
    query = "SELECT 1 FROM pg_replication_slots WHERE active"
    until(lambda: not execute(server.dsn, query))


def end_of_wal(server: EmbeddedServer) -> str:
    """The server's position. On a standby, the end of the WAL that it has."""
    query = """
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn()
        ELSE pg_current_wal_flush_lsn() END::text
    """
    return str(execute(server.dsn, query)[0][0])


def write(server: EmbeddedServer, segments: int) -> None:
    """Writes about so many small segments, in several commits."""
    for number in range(2 * segments):
        execute(
            server.dsn,
            "CREATE TABLE IF NOT EXISTS filled (id bigserial, text text)",
            "INSERT INTO filled (text) SELECT md5(g::text || random()) || repeat('x', 60)"  # noqa: S608
            f" FROM generate_series(1, {3500 + number}) g",
        )


def contents(directory: Path) -> dict[str, bytes]:
    """The files of WAL of a directory."""
    found = {}
    for path in sorted(directory.iterdir()):
        # It may get its name meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if path.name != "_lock" and not path.is_dir():
                found[path.name] = path.read_bytes()
    return found


def whole(directory: Path) -> dict[str, bytes]:
    """The whole segments of a directory."""
    return {
        name: data
        for name, data in contents(directory).items()
        if len(name) == len("000000010000000000000001")
    }


def base_backup(server: EmbeddedServer, to: Path) -> None:
    """Makes a base backup without WAL, with the server's own program."""
    command = [str(_tool("pg_basebackup")), "-d", server.dsn, "-D", str(to)]
    subprocess.run(  # noqa: S603
        [*command, "-X", "none", "-c", "fast", "--no-sync", "--no-manifest"],
        check=True,
        capture_output=True,
    )


@contextlib.contextmanager
def side_by_side(
    server: EmbeddedServer, ours: Path, theirs: Path
) -> Iterator[Receiving]:
    """`receive_wal` and PostgreSQL's own receiver, each with a slot, to the same end."""
    create = "SELECT pg_create_physical_replication_slot('{}', true)"
    execute(server.dsn, create.format("ours"), create.format("theirs"))
    theirs.mkdir()
    command = [str(_tool("pg_receivewal")), "-d", server.dsn, "-D", str(theirs)]
    with (
        subprocess.Popen([*command, "-S", "theirs", "--synchronous"]) as process,  # noqa: S603
        receiving(server.dsn, ours, slot="ours") as receiver,
    ):
        try:
            for name in ("walrow", "pg_receivewal"):
                until_reported(server, "0/0", name)
            yield receiver
            end = end_of_wal(server)
            for name in ("walrow", "pg_receivewal"):
                until_reported(server, end, name)
        finally:
            process.terminate()
    assert receiver.failure is None


def receive(server: EmbeddedServer, to: Path, **options: Any) -> WalStatus:
    """Receives until now."""
    return backup.receive_wal(server.dsn, to=to, until="now", **options)


def check(server: EmbeddedServer, to: Path, result: WalStatus | None) -> None:
    """Compares files with the server's files that are still there, and refuses gaps."""
    compared = 0
    found = contents(to)
    assert result is not None
    end = durable(result)
    for name, data in found.items():
        source = server.data_directory / "pg_wal" / name.removesuffix(".partial")
        if source.exists() and not name.endswith(".history"):
            assert len(data) == SEGMENT
            used = SEGMENT if source.name == name else end % SEGMENT
            if name[:8] != f"{result.timeline:08X}":
                continue
            assert data[:used] == source.read_bytes()[:used], name
            compared += 1
    assert compared
    # If a timeline ends in a segment, that segment is there twice.
    numbers = sorted({int(it[16:24], 16) for it in found if len(it) >= 24})
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def until_there(standby: EmbeddedServer, lsn: str) -> None:
    """Waits until a standby has everything up to a position."""
    until(lambda: walrow.Lsn(end_of_wal(standby)) >= walrow.Lsn(lsn))


def waldump(to: Path, major: int) -> str:
    """The records of all whole segments of a directory, as PostgreSQL's program reads them."""
    names = sorted(whole(to))
    program = wheel_programs(major) / "pg_waldump"
    command = [str(program), "--path", str(to), names[0], names[-1]]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    return done.stdout


def _tool(name: str) -> Path:
    """A program of the newest version, which knows older servers."""
    return wheel_programs(max(_OF_WHEEL)) / name


_OF_WHEEL = (16, 18)
