"""A server that answers replication commands with a script, also wrongly."""

from __future__ import annotations

import hashlib
import io
import json
import re
import socket
import struct
import tarfile
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self

SYSTEM = "7700000000000000001"


class Session:
    """One connection of a client."""

    def __init__(self, link: socket.socket) -> None:
        """Answers nothing yet."""
        self.link = link
        self.options: dict[str, str] = {}

    def send(self, kind: bytes, body: bytes = b"") -> None:
        """Sends a message."""
        self.link.sendall(kind + struct.pack(">i", len(body) + 4) + body)

    def data(self, payload: bytes) -> None:
        """Sends a message of a COPY."""
        self.send(b"d", payload)

    def rows(self, *rows: Iterable[str | None]) -> None:
        """Sends a result."""
        cells = [[*row] for row in rows]
        column = b"x\0" + struct.pack(">ihihih", 0, 0, 25, -1, -1, 0)
        self.send(b"T", struct.pack(">h", len(cells[0])) + column * len(cells[0]))
        for row in cells:
            parts = [
                struct.pack(">i", -1)
                if it is None
                else struct.pack(">i", len(it.encode())) + it.encode()
                for it in row
            ]
            self.send(b"D", struct.pack(">h", len(row)) + b"".join(parts))
        self.send(b"C", b"SELECT\0")

    def ready(self) -> None:
        """Takes another command."""
        self.send(b"Z", b"I")

    def receive(self) -> tuple[bytes, bytes]:
        """The next message of the client."""
        head = self._exactly(5)
        return head[:1], self._exactly(int.from_bytes(head[1:], "big") - 4)

    def start(self) -> None:
        """Takes the connection."""
        body = self._body()
        if body[:4] != struct.pack(">hh", 3, 0):
            # It cancels a command of another connection.
            raise EOFError
        words = body[4:].decode().split("\0")
        options = dict(zip(words[::2], words[1::2], strict=False)).get("options", "")
        self.options = dict(re.findall(r"-c (\w+)=((?:\\ |\S)*)", options))
        self.send(b"R", bytes(4))
        known = {"server_version": "18.0", "server_encoding": "UTF8"}
        for name, value in {**known, "client_encoding": "UTF8"}.items():
            self.send(b"S", f"{name}\0{value}\0".encode())
        self.send(b"K", bytes(8))
        self.ready()

    def _body(self) -> bytes:
        return self._exactly(int.from_bytes(self._exactly(4), "big") - 4)

    def _exactly(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            block = self.link.recv(size - len(found))
            if not block:
                raise EOFError
            found += block
        return found


class Scripted:
    """A server, as a context manager. It knows no more than a receiver asks for.

    Attributes:
        commands: The commands that it got.
    """

    def __init__(self, scripts: Mapping[str, Callable[[Session], None]]) -> None:
        """Listens.

        Args:
            scripts: The answers to commands, by the command's first word.
        """
        self.commands: list[str] = []
        self._scripts = scripts
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def dsn(self) -> str:
        """The connection string."""
        port = self._socket.getsockname()[1]
        return f"host=127.0.0.1 port={port} user=x dbname=x sslmode=disable gssencmode=disable"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        # Closing does not wake the thread, which may then take connections of the next server.
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                link, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: socket.socket) -> None:
        session = Session(link)
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with link:
            try:
                session.start()
                while (message := session.receive())[0] != b"X":
                    if message[0] == b"Q":
                        self._answer(session, message[1][:-1].decode())
            except (EOFError, OSError):
                return

    def _answer(self, session: Session, command: str) -> None:
        self.commands.append(command)
        word, _, rest = command.strip().partition(" ")
        known = {"wal_segment_size": "1MB", "server_encoding": "UTF8"}
        answers: dict[str, tuple[str | None, ...]] = {
            "IDENTIFY_SYSTEM": (SYSTEM, "1", "0/300028", "x"),
            "CREATE_REPLICATION_SLOT": ("x", "0/0", None, None),
            "SELECT": ("x",),
            "SHOW": ((known | session.options).get(rest.strip('"'), "0"),),
        }
        if settings := re.findall(r"current_setting\('(\w+)'", command):
            answers[word] = tuple(session.options.get(it) for it in settings)
        if command == "SHOW search_path":
            # It shows whether the connection has its options.
            answers[word] = (session.options.get("search_path"),)
        elif word in self._scripts:
            self._scripts[word](session)
            return
        if word in answers:
            session.rows(answers[word])
        else:
            session.send(b"C", b"OK\0")
        session.ready()


def member(
    name: str, data: bytes = b"", kind: bytes = tarfile.REGTYPE, **fields: Any
) -> bytes:
    """A member of a tar archive."""
    found = tarfile.TarInfo(name)
    found.size, found.type = len(data), kind
    for field, value in fields.items():
        setattr(found, field, value)
    return found.tobuf(tarfile.USTAR_FORMAT) + data + bytes(-len(data) % 512)


def manifest(
    files: Mapping[str, bytes],
    *,
    system: str | None = SYSTEM,
    algorithm: str = "SHA256",
    wal: tuple[str, str] = ("0/300028", "0/300100"),
) -> bytes:
    """A manifest as servers write it."""
    entries = ",\n".join(
        f'{{ "Path": {json.dumps(path)}, "Size": {len(data)}, "Last-Modified":'
        f' "2026-11-27 01:00:00 GMT", "Checksum-Algorithm": "{algorithm}", "Checksum":'
        f' "{hashlib.sha256(data).hexdigest()}" }}'
        for path, data in files.items()
    )
    head = f'{{ "PostgreSQL-Backup-Manifest-Version": {1 if system is None else 2},\n'
    if system is not None:
        head += f'"System-Identifier": {system},\n'
    return sealed(
        f'{head}"Files": [\n{entries}\n],\n"WAL-Ranges": [\n{{ "Timeline": 1, "Start-LSN":'
        f' "{wal[0]}", "End-LSN": "{wal[1]}" }}\n],\n'
    )


def sealed(body: str) -> bytes:
    """A manifest with its own checksum."""
    checksum = hashlib.sha256(body.encode()).hexdigest()
    return f'{body}"Manifest-Checksum": "{checksum}"}}\n'.encode()


def unpacked(archive: bytes) -> dict[str, bytes]:
    """The files of an archive, by another reader than walrow's."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return {
            it.name: file.read()
            for it in tar
            if (file := tar.extractfile(it)) is not None
        }
