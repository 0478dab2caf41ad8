"""A server that refuses every connection with one error, as PostgreSQL or a pooler writes it."""

from __future__ import annotations

import socket
import struct
import threading
from typing import NamedTuple, Self


class Refusal(NamedTuple):
    """An error. A pooler's has no place in the source. Without an SQLSTATE, the connection just ends."""

    sqlstate: str | None
    text: str = "refused"
    severity: str = "FATAL"
    has_place: bool = True

    def to_bytes(self) -> bytes:
        """The message of the protocol."""
        if self.sqlstate is None:
            return b""
        fields = {"S": self.severity, "V": "FATAL", "C": self.sqlstate, "M": self.text}
        if self.has_place:
            fields |= {"F": "miscinit.c", "L": "742", "R": "InitializeSessionUserId"}
        body = b"".join(f"{key}{it}\0".encode() for key, it in fields.items()) + b"\0"
        return b"E" + struct.pack(">i", len(body) + 4) + body


class Refusing:
    """Listens on the loopback interface, as a context manager.

    Attributes:
        refusal: How it refuses the next connections.
        connections: How many it has refused.
    """

    def __init__(self, refusal: Refusal) -> None:
        """Listens."""
        self.refusal = refusal
        self.connections = 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        """Returns the server."""
        return self

    def __exit__(self, *_exception: object) -> None:
        """Listens no more."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._socket.close()

    @property
    def dsn(self) -> str:
        """The connection string."""
        port = self._socket.getsockname()[1]
        return f"host=127.0.0.1 port={port} user=x dbname=x sslmode=disable gssencmode=disable"

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._socket.accept()
            except OSError:
                return
            with link:
                link.settimeout(10)
                if link.recv(1 << 16):
                    self.connections += 1
                    link.sendall(self.refusal.to_bytes())
