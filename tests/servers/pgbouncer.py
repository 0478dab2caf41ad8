"""PgBouncer in front of a server, from Debian's packages: 1.18, and 1.24, which passes replication on."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from servers.debian import unpacked
from servers.embedded import ServerError, copy_tree, unprivileged_account

if TYPE_CHECKING:
    from servers.embedded import EmbeddedServer

VERSIONS = {"1.18": "bookworm", "1.24": "trixie"}
"""The suite of each version's packages."""


class PgBouncer:
    """A running pooler, which listens on its own socket, as a context manager.

    Example:
        with PgBouncer(server, "1.18") as pooler:
            psycopg.connect(pooler.dsn)
    """

    def __init__(
        self,
        server: EmbeddedServer,
        version: str,
        *,
        ignore: str = "",
        mode: Literal["transaction", "session"] = "transaction",
        connections: int = 1,
    ) -> None:
        """Fetches the version if it is not there yet, and starts it.

        Args:
            server: The server.
            version: One of `VERSIONS`.
            ignore: Startup parameters that it leaves out.
            mode: When a connection belongs to another client.
            connections: How many connections it may have to the server.

        Raises:
            ServerError: It cannot be fetched, or does not start.
        """
        packages = _PACKAGES[version]
        source = unpacked(f"pgbouncer-{version}", {VERSIONS[version]: packages})
        self._directory = Path(tempfile.mkdtemp(prefix="walrow-pool-", dir="/tmp"))
        root = copy_tree(source, self._directory / "files")
        account = unprivileged_account()
        settings = self._directory / "pgbouncer.ini"
        settings.write_text(
            _SETTINGS.format(
                server=server.socket_directory,
                here=self._directory,
                ignore=ignore,
                mode=mode,
                connections=connections,
            )
        )
        if account is not None:
            os.chown(self._directory, account["user"], account["group"])
            server.socket_directory.chmod(0o755)
        loader = next(root.rglob("ld-linux-x86-64.so.2"))
        libraries = f"{root}/usr/lib/x86_64-linux-gnu:{root}/lib/x86_64-linux-gnu"
        program = root / "usr/sbin/pgbouncer"
        user = None if account is None else account["user"]
        self._process = subprocess.Popen(  # noqa: S603
            [loader, "--library-path", libraries, program, settings],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self._directory,
            user=user,
            group=None if account is None else account["group"],
            extra_groups=None if account is None else [],
        )
        deadline = time.monotonic() + _START_SECONDS
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log = self._directory / "log"
                text = log.read_text() if log.exists() else "no log"
                self.__exit__()
                msg = f"PgBouncer {version} did not start: {text[-1000:]}"
                raise ServerError(msg)
            time.sleep(0.01)

    def __enter__(self) -> Self:
        """Returns the pooler."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Ends it."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)

    def _listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(f"{self._directory}/.s.PGSQL.6432") == 0

    @property
    def dsn(self) -> str:
        """The connection string of the superuser."""
        return f"host={self._directory} port=6432 user=postgres dbname=postgres"


_SETTINGS = """
[databases]
postgres = user=postgres dbname=postgres host={server} pool_size={connections}
[pgbouncer]
listen_addr =
unix_socket_dir = {here}
listen_port = 6432
auth_type = any
pool_mode = {mode}
ignore_startup_parameters = {ignore}
logfile = {here}/log
"""
_BOTH = """
libc6 libpam0g libsystemd0 libaudit1 libcap-ng0 libcap2 libgcrypt20 libgpg-error0 liblzma5 libzstd1
liblz4-1 libcrypt1
"""
_PACKAGES = {
    "1.18": f"pgbouncer libc-ares2 libevent-2.1-7 libssl3 {_BOTH}",
    "1.24": f"pgbouncer libcares2 libevent-2.1-7t64 libssl3t64 {_BOTH}",
}
_START_SECONDS = 20
