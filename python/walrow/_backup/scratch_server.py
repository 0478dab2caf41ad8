"""A server that recovers the copy of a backup up to a point, and then waits there.

It has a separate configuration, and does not read the backup's. So it archives nothing, loads no
library, and takes connections on one unix socket that only its user knows. It is a hot standby, so
it refuses writes. It ends, and its directory is removed, when its context ends. If this process is
killed, a shell does the same.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from walrow._backup.programs import ENVIRONMENT, identity
from walrow._backup.scratch_settings import PORT, config_file, configuration
from walrow._lsn import Lsn
from walrow._postgres.connecting import connect
from walrow._waiting import pause
from walrow.errors import BackupError, ReplicationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from walrow._backup.programs import Account, Control, Programs
    from walrow._backup.scratch_settings import Recovery

__all__ = [
    "Scratch",
    "ScratchServer",
    "refuse_out_of_reach",
    "scratch_directory",
    "shown_lines",
]


class Scratch(NamedTuple):
    """Where a server is.

    Attributes:
        directory: The directory of its files.
        sockets: The directory of its socket.
    """

    directory: Path
    sockets: Path


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
    # Their names are known before they are made, so that a signal in between leaves nothing.
    name = f".walrow-verify-{secrets.token_hex(6)}"
    made = [place.absolute() / name]
    # The path of a socket has at most about 100 bytes.
    if len(os.fsencode(made[0])) > _LONGEST_PATH:
        made.append(Path("/tmp") / name)  # noqa: S108 - TMPDIR may be longer
    watchdog: subprocess.Popen[bytes] | None = None
    try:
        for path in made:
            path.mkdir(mode=0o700)
        watchdog = subprocess.Popen(  # noqa: S603
            ["/bin/sh", "-c", _WATCHDOG, "walrow-verify", *made],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            # Ctrl-C at the terminal is for this process.
            start_new_session=True,
        )
        if account is not None:
            for path in made:
                os.chown(path, account.user, account.group)
                refuse_out_of_reach(path, account)
        yield Scratch(made[0], made[-1])
    finally:
        for path in made:
            shutil.rmtree(path, ignore_errors=True)
        if watchdog is not None:
            _end(watchdog, is_done=not any(path.exists() for path in made))


def _end(watchdog: subprocess.Popen[bytes], *, is_done: bool) -> None:
    """Ends the watchdog, or lets it do the rest."""
    if is_done:
        watchdog.kill()
    if watchdog.stdin is not None:
        watchdog.stdin.close()
    watchdog.wait()


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
            control: The backup's facts about itself.
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
        self._starter: threading.Thread | None = None
        self._failure: OSError | None = None

    def __enter__(self) -> Self:
        settings = configuration(self._control, self._recovery, self._sockets)
        config = self._directory / "postgresql.conf"
        files = {"hba_file": "pg_hba.conf", "ident_file": "pg_ident.conf"}
        for setting, name in files.items():
            settings[setting] = str(self._directory / name)
        config.write_text(config_file(settings), "utf-8", "surrogateescape")
        (self._directory / "pg_hba.conf").write_text("local all all trust\n")
        (self._directory / "pg_ident.conf").touch()
        kind = "standby" if self._recovery.may_wait else "recovery"
        (self._data / f"{kind}.signal").touch()
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
        # A signal becomes an exception in the main thread, wherever that is. In another thread, the
        # process is known once it has begun.
        self._starter = threading.Thread(target=self._run, args=(config,))
        self._starter.start()
        self._starter.join()
        if self._failure is not None:
            raise self._failure

    def _run(self, config: Path) -> None:
        command = [self._programs.directory / "postgres", "-D", self._data]
        try:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(  # noqa: S603
                    [*command, "-c", f"config_file={config}"],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    env=ENVIRONMENT,
                    start_new_session=True,
                    **identity(self._account),  # type: ignore[call-overload]
                )
        except OSError as error:
            self._failure = error

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
                if self._recovery.may_wait and _lsn(lsn) >= self._recovery.least:
                    conn.execute("SELECT pg_wal_replay_pause()")
                self._wait(begin, timeout, progress)
        self.lsn = _lsn(lsn)
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
        pause(min(0.02 + seconds / 50, 0.5))

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
            "port": str(PORT),
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
        if self._starter is not None:
            self._starter.join()
        process, self._process = self._process, None
        if process is not None and process.poll() is None:
            # Nothing is kept.
            process.send_signal(signal.SIGQUIT)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _lsn(text: str | bytes) -> Lsn:
    return Lsn(text if isinstance(text, str) else text.decode())


def _give(directory: Path, account: Account) -> None:
    """Gives a directory, with all in it, to a user."""
    for root, folders, files in os.walk(directory):
        for name in (*folders, *files):
            path = os.path.join(root, name)  # noqa: PTH118 - of many files
            os.chown(path, account.user, account.group, follow_symlinks=False)


def shown_lines(log: str) -> list[str]:
    r"""The last lines of a server's log that say why it ended. They contain no data of a user.

    >>> shown_lines("LOG:  a\nHINT:  x\nFATAL:  b\nDETAIL:  (id)=(1)\nHINT:  c\n")
    ['FATAL: b', 'HINT: c']
    """
    found, is_fatal = [], False
    for line in log.splitlines():
        level = re.match("([A-Z]+):", line)
        if level is None:
            continue
        # Details and hints follow their message.
        is_fatal = level[1] in _FATAL or (is_fatal and level[1] in ("DETAIL", "HINT"))
        if is_fatal and level[1] != "DETAIL":
            found.append(re.sub(r"\s+", " ", line))
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
_LONGEST_PATH = 80
_STATE_LINE = 7
_OPEN = ("standby", "ready")
_FATAL = ("FATAL", "PANIC")
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
