"""Runs `pg_recvlogical`, which writes a slot's messages to a file."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Self

import psycopg

from servers.embedded import wheel_programs
from walrow import postgres

if TYPE_CHECKING:
    from pathlib import Path

    from servers.embedded import EmbeddedServer
    from servers.recording import Reading


class Recvlogical:
    """A running `pg_recvlogical`, as a context manager that stops it.

    It is the program of the server's version, or the wheel's newest one: any version
    reads from any server. When the connection breaks, it reconnects by itself after
    five seconds and continues the same file.

    Attributes:
        path: The file.
    """

    def __init__(
        self,
        server: EmbeddedServer,
        slot: str,
        reading: Reading,
        path: Path,
        *,
        status_seconds: int = 10,
        until_lsn: str | None = None,
    ) -> None:
        """Starts it.

        Args:
            server: The server.
            slot: A logical slot for pgoutput.
            reading: The options of the stream.
            path: The file, to which it appends.
            status_seconds: How often it confirms what it wrote.
            until_lsn: Where it ends by itself. It does not reconnect then.
        """
        self.path = path
        self._dsn, self._slot = server.dsn, slot
        program = server.bin / "pg_recvlogical"
        if not program.exists():
            program = wheel_programs(_NEWEST) / "pg_recvlogical"
        options = [f"--option={k}={v}" for k, v in reading.options().items()]
        if until_lsn is not None:
            options += [f"--endpos={until_lsn}", "--no-loop"]
        self._process = subprocess.Popen(  # noqa: S603
            [
                program,
                f"--dbname={server.dsn}",
                f"--slot={slot}",
                f"--file={path}",
                f"--status-interval={status_seconds}",
                *options,
                "--start",
            ],
            env=os.environ | {"PGOPTIONS": postgres.options()},
            stderr=subprocess.PIPE,
        )

    def __enter__(self) -> Self:
        """Returns the running program."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stops it."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
        self.wait()

    def wait(self) -> str:
        """Waits for its end, and returns what it wrote to stderr."""
        _, errors = self._process.communicate(timeout=_SECONDS)
        return errors.decode()

    def break_connection(self) -> None:
        """Ends the walsender, and waits until the next one is connected."""
        before = self._walsender()
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", (before,))
        deadline = time.monotonic() + _SECONDS
        while self._walsender(wait=False) in {None, before}:
            if time.monotonic() > deadline:
                msg = "pg_recvlogical did not reconnect"
                raise TimeoutError(msg)
            time.sleep(0.05)

    def wait_until_connected(self) -> None:
        """Waits for the first connection."""
        self._walsender()

    def _walsender(self, *, wait: bool = True) -> int | None:
        deadline = time.monotonic() + _SECONDS
        with psycopg.connect(self._dsn, autocommit=True) as connection:
            while True:
                row = connection.execute(
                    "SELECT active_pid FROM pg_replication_slots WHERE slot_name = %s",
                    (self._slot,),
                ).fetchone()
                if not wait or (row and row[0]):
                    return row[0] if row else None
                if time.monotonic() > deadline:
                    msg = "pg_recvlogical did not connect"
                    raise TimeoutError(msg)
                time.sleep(0.02)


_NEWEST = 18
_SECONDS = 30
