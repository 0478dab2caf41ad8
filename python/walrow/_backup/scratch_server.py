"""A server that recovers the copy of a backup up to a point, and then waits there.

Its configuration is its own: nothing of the backup's is read, so it archives nothing, loads no
library, and takes connections on one unix socket, of which only its user knows. Hot standby: nobody
can write. It ends, and its directory is removed, when its context ends. If this process is killed,
a shell does the same.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from walrow._backup.programs import ENVIRONMENT, identity
from walrow._lsn import Lsn
from walrow._postgres.connecting import connect
from walrow.errors import BackupError, ReplicationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from walrow._backup.programs import Account, Control, Programs

__all__ = [
    "Recovery",
    "Scratch",
    "ScratchServer",
    "configuration",
    "refuse_out_of_reach",
    "scratch_directory",
    "shown_lines",
]


class Scratch(NamedTuple):
    """Where a server is.

    Attributes:
        directory: The directory of its files.
        sockets: That of its socket.
    """

    directory: Path
    sockets: Path


class Recovery(NamedTuple):
    """How far a server recovers a backup.

    Attributes:
        target: The LSN. None for the end of the backup.
        timeline: The timeline of the target. None for the backup's own.
        wal: A directory of WAL. None if the backup has it all.
        least: The LSN that it must reach.
    """

    target: Lsn | None
    timeline: int | None
    wal: Path | None
    least: Lsn


@contextlib.contextmanager
def scratch_directory(place: Path, account: Account | None) -> Iterator[Scratch]:
    """A new directory that is removed at the end.

    Args:
        place: The directory that it is made in.
        account: The user as whom the server runs.

    Raises:
        BackupError: The server's user cannot reach it.
        OSError: It cannot be made.
    """
    made = [Path(tempfile.mkdtemp(prefix=".walrow-verify-", dir=place)).absolute()]
    # The path of a socket has at most about 100 bytes.
    if len(os.fsencode(made[0])) > _LONGEST_PATH:
        made.append(Path(tempfile.mkdtemp(prefix="walrow-verify-", dir="/tmp")))
    watchdog = subprocess.Popen(  # noqa: S603
        ["/bin/sh", "-c", _WATCHDOG, "walrow-verify", *made],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        # Ctrl-C at the terminal is for this process.
        start_new_session=True,
    )
    try:
        if account is not None:
            for path in made:
                os.chown(path, account.user, account.group)
                refuse_out_of_reach(path, account)
        yield Scratch(made[0], made[-1])
    finally:
        for path in made:
            shutil.rmtree(path, ignore_errors=True)
        watchdog.kill()
        watchdog.wait()
        if watchdog.stdin is not None:
            watchdog.stdin.close()


def refuse_out_of_reach(path: Path, account: Account) -> None:
    """Refuses a directory that a user cannot read.

    Raises:
        BackupError: It cannot.
    """
    done = subprocess.run(  # noqa: S603
        ["/bin/sh", "-c", 'cd "$1" && ls . >/dev/null', "sh", path],
        capture_output=True,
        check=False,
        cwd="/",
        env=ENVIRONMENT,
        **identity(account),  # type: ignore[call-overload]
    )
    if done.returncode:
        text = (
            f"{account.name} cannot read {path}: choose a directory that it can reach"
        )
        raise BackupError(text, code="user", path=str(path))


class ScratchServer:
    """The server, as a context manager that starts it.

    Attributes:
        lsn: Up to where the backup is recovered, after `recover`.
    """

    def __init__(
        self,
        scratch: Scratch,
        programs: Programs,
        control: Control,
        recovery: Recovery,
        *,
        account: Account | None,
        user: str,
    ) -> None:
        """Prepares the server.

        Args:
            scratch: Where the copy of the backup is, as `copy_backup` makes it.
            programs: The programs.
            control: What the backup says of itself.
            recovery: How far it is recovered.
            account: The user as whom it runs.
            user: The name of a superuser in the backup.
        """
        self.lsn = Lsn(0)
        self._directory = scratch.directory
        self._sockets = scratch.sockets
        self._data = scratch.directory / "data"
        self._log = scratch.directory / "server.log"
        self._programs = programs
        self._control = control
        self._recovery = recovery
        self._account = account
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        settings = configuration(self._control, self._recovery, self._sockets)
        config = self._directory / "postgresql.conf"
        files = {"hba_file": "pg_hba.conf", "ident_file": "pg_ident.conf"}
        for setting, name in files.items():
            settings[setting] = str(self._directory / name)
        config.write_text(
            "".join(map(_line, settings.items())), "utf-8", "surrogateescape"
        )
        (self._directory / "pg_hba.conf").write_text("local all all trust\n")
        (self._directory / "pg_ident.conf").touch()
        if self._account is not None:
            _give(self._directory, self._account)
        try:
            self._start(config)
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_exception: object) -> None:
        self._stop()

    def _start(self, config: Path) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603
                [
                    self._programs.directory / "postgres",
                    "-D",
                    self._data,
                    "-c",
                    f"config_file={config}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=ENVIRONMENT,
                start_new_session=True,
                **identity(self._account),  # type: ignore[call-overload]
            )

    def recover(
        self,
        *,
        timeout: float,
        progress: Callable[[float], None] = lambda _seconds: None,
    ) -> None:
        """Waits until the backup is recovered.

        Args:
            timeout: The seconds within which that must be.
            progress: Is called with the seconds so far, several times a second.

        Raises:
            BackupError: The server ended, or does not get there.
            ReplicationError: There is no such superuser.
        """
        begin = time.monotonic()
        while not self._is_open():
            self._wait(begin, timeout, progress)
        with self.connect("template1") as conn:
            while True:
                [(is_recovering, state, lsn)] = conn.execute(_STATE).fetchall()
                # It has ended its recovery if its transactions have too many parts for a standby:
                # it has the same rows then.
                if not is_recovering or state == "paused":
                    break
                self._wait(begin, timeout, progress)
        self.lsn = Lsn(lsn if isinstance(lsn, str) else lsn.decode())
        least = self._recovery.least
        if self.lsn < least:
            text = (
                f"the recovery of the backup stopped at {self.lsn}, before {least}: its log says "
                f"{self._last_words()}"
            )
            raise BackupError(text, code="recovery")

    def _is_open(self) -> bool:
        """Whether it takes connections: a state in the file that pg_ctl reads."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) > _STATE_LINE and lines[_STATE_LINE].strip() in _OPEN

    def _wait(
        self, begin: float, timeout: float, progress: Callable[[float], None]
    ) -> None:
        seconds = time.monotonic() - begin
        if self._process is None or self._process.poll() is not None:
            text = (
                "a server cannot be recovered from the backup: it ended with "
                f"{self._last_words()}"
            )
            raise BackupError(text, code="recovery")
        if seconds > timeout:
            text = (
                f"the backup is not recovered after {timeout:.0f} seconds: its log says "
                f"{self._last_words()}"
            )
            raise BackupError(text, code="recovery")
        progress(seconds)
        time.sleep(min(0.02 + seconds / 50, 0.5))

    def _last_words(self) -> str:
        try:
            text = self._log.read_bytes().decode(errors="replace")
        except OSError:
            text = ""
        return "; ".join(shown_lines(text)) or "nothing"

    @contextlib.contextmanager
    def connect(self, database: str) -> Iterator[psycopg.Connection[Any]]:
        """Connects to a database with the settings of a stream.

        Raises:
            ReplicationError: That failed.
            BackupError: The server has ended meanwhile.
        """
        parameters = {
            "host": str(self._sockets),
            # No variable of the environment leads to another server.
            "hostaddr": "",
            "port": str(_PORT),
            "user": self._user,
            "dbname": database,
            "options": _OPTIONS
            + (_NO_TRIGGERS if self._major >= _WITH_LOGIN_TRIGGERS else ""),
            "sslmode": "disable",
            "gssencmode": "disable",
            "connect_timeout": "30",
            "application_name": "walrow",
        }
        try:
            conn = connect(parameters, replication=False)
        except ReplicationError as error:
            # A server that ends closes its connections first.
            self._refuse_ended(within=_ENDING_SECONDS)
            text = f"{error.reason}; name a superuser of the backup, and a database that it has"
            raise ReplicationError(text, sqlstate=error.sqlstate) from None
        try:
            yield conn
        finally:
            conn.close()

    def _refuse_ended(self, *, within: float) -> None:
        process = self._process
        if process is not None:
            try:
                process.wait(within)
            except subprocess.TimeoutExpired:
                return
        text = f"the server of the backup has ended: {self._last_words()}"
        raise BackupError(text, code="recovery")

    def check(self) -> None:
        """Refuses a server that has ended.

        Raises:
            BackupError: It has.
        """
        self._refuse_ended(within=_ENDING_SECONDS)

    @property
    def _major(self) -> int:
        found = re.match(r"\d+", self._programs.version)
        return int(found[0]) if found else 0

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            # Nothing is kept.
            process.send_signal(signal.SIGQUIT)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _give(directory: Path, account: Account) -> None:
    """Gives a directory, with all in it, to a user."""
    for root, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = os.path.join(root, name)  # noqa: PTH118 - of many files
            os.chown(path, account.user, account.group, follow_symlinks=False)


def configuration(
    control: Control, recovery: Recovery, sockets: Path
) -> dict[str, str]:
    """All settings of a server that only recovers a backup, and answers on one socket."""
    target = (
        {"recovery_target": "immediate"}
        if recovery.target is None
        else {"recovery_target_lsn": str(recovery.target)}
    )
    timeline = "current" if recovery.timeline is None else str(recovery.timeline)
    # A recovery needs one, and one that fails says that there is no more WAL.
    restore = "false" if recovery.wal is None else _copying(recovery.wal)
    return {
        "listen_addresses": "",
        "port": str(_PORT),
        "unix_socket_directories": str(sockets),
        "unix_socket_permissions": "0700",
        "hot_standby": "on",
        "recovery_target_action": "pause",
        "recovery_target_timeline": timeline,
        **target,
        "restore_command": restore,
        # A standby must not have lower ones than its primary.
        **{name: str(value) for name, value in control.settings.items()},
        # Nobody cancels a question because of a record that is replayed.
        "max_standby_archive_delay": "-1",
        "max_standby_streaming_delay": "-1",
        # If its recovery ends, it connects to no other server, and changes nothing.
        "max_logical_replication_workers": "0",
        "autovacuum": "off",
        "restart_after_crash": "off",
        # The copy is removed anyway.
        "fsync": "off",
        "full_page_writes": "off",
        "lc_messages": "C",
        "log_timezone": "UTC",
        "timezone": "UTC",
        # Its log has no statement, and no row.
        "log_min_messages": "warning",
        "log_min_error_statement": "panic",
        "log_line_prefix": "",
        "huge_pages": "off",
        "jit": "off",
    }


def _copying(wal: Path) -> str:
    """The restore command. A segment that is not complete yet has another name.

    >>> _copying(Path("/wal"))
    'cp /wal/%f %p 2>/dev/null || cp /wal/%f.partial %p'
    """
    quoted = shlex.quote(str(wal)).replace("%", "%%")
    return f"cp {quoted}/%f %p 2>/dev/null || cp {quoted}/%f.partial %p"


def _line(setting: tuple[str, str]) -> str:
    name, value = setting
    quoted = value.replace("\\", "\\\\").replace("'", "''")
    return f"{name} = '{quoted}'\n"


def shown_lines(log: str) -> list[str]:
    r"""The last lines of a server's log that say why it ended. They contain no data of a user.

    >>> shown_lines("LOG:  a\nFATAL:  b\nDETAIL:  Key (id)=(1)\nHINT:  c\n")
    ['FATAL: b', 'HINT: c']
    """
    found = [
        re.sub(r"\s+", " ", line)
        for line in log.splitlines()
        if re.match("(FATAL|PANIC|HINT):", line)
    ]
    return found[-_SHOWN_LINES:]


_STATE = """
SELECT pg_is_in_recovery(), CASE WHEN pg_is_in_recovery() THEN pg_get_wal_replay_pause_state() END,
    pg_last_wal_replay_lsn()::text
"""
#: Settings of a role or a database do not count.
_OPTIONS = (
    "-c session_preload_libraries= -c local_preload_libraries= -c statement_timeout=0"
    " -c lock_timeout=0 -c idle_in_transaction_session_timeout=0 -c idle_session_timeout=0"
    " -c default_transaction_isolation=read\\ committed -c row_security=off"
)
_NO_TRIGGERS = " -c event_triggers=off"
_WITH_LOGIN_TRIGGERS = 17
_PORT = 5432
_LONGEST_PATH = 80
_STATE_LINE = 7
_OPEN = ("standby", "ready")
_SHOWN_LINES = 4
_STOP_SECONDS = 20.0
_ENDING_SECONDS = 1.0
# Its standard input ends when this process does, whatever ends it. A pid of a single-user backend
# is negative: skipped.
_WATCHDOG = """
read -r _
pid=
read -r pid < "$1/data/postmaster.pid"
case "$pid" in
    '' | *[!0-9]*) ;;
    *)
        kill -QUIT "$pid"
        tries=0
        while kill -0 "$pid" && [ "$tries" -lt 100 ]; do
            sleep 0.05
            tries=$((tries + 1))
        done
        ;;
esac
rm -rf "$@"
"""
