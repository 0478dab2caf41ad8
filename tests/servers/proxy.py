"""A proxy in front of a server's socket, which stalls or cuts its connections."""

from __future__ import annotations

import contextlib
import socket
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from servers.embedded import EmbeddedServer


class Proxy:
    """Forwards connections to a server through a socket of its own, as a context manager.

    Example:
        with Proxy(server) as proxy:
            psycopg.connect(proxy.dsn)
    """

    def __init__(self, server: EmbeddedServer) -> None:
        """Listens."""
        self._upstream = str(server.socket_directory / ".s.PGSQL.5432")
        self._following = self._upstream
        self._directory = tempfile.TemporaryDirectory(dir="/tmp")
        self._flows = threading.Event()
        self._flows.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(Path(self._directory.name, ".s.PGSQL.5432")))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        """Returns the proxy."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Cuts all connections, and listens no more."""
        # A blocked accept is not woken by close.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        self._directory.cleanup()

    @property
    def dsn(self) -> str:
        """The connection string of the superuser."""
        return f"host={self._directory.name} user=postgres dbname=postgres"

    def next_to(self, server: EmbeddedServer) -> None:
        """Connects to another server from the second connection on."""
        self._following = str(server.socket_directory / ".s.PGSQL.5432")

    def stall(self) -> None:
        """Holds all bytes back, in both directions, without an end of the connections."""
        self._flows.clear()

    def flow(self) -> None:
        """Forwards again, first what was held back."""
        self._flows.set()

    def cut(self, after: int = 0) -> None:
        """Ends all connections, or only the connections after the first few."""
        self._flows.set()
        # Each connection has two sockets.
        for each in self._sockets[2 * after :]:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        del self._sockets[2 * after :]

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                self._sockets += (client, server)
                server.connect(self._upstream)
                self._upstream = self._following
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while block := source.recv(1 << 16):
                self._flows.wait()
                target.sendall(block)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
