"""The attempts to open one connection, to each address of each host, and why they failed."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any

import psycopg
from psycopg import pq
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.pq.misc import find_libpq_full_path
from psycopg.waiting import Wait

from walrow._postgres.failures import Cause, Lost, OfClient, causes_in, decisive
from walrow._postgres.open_connections import ENDED, OpenConnections
from walrow._postgres.session import BYTES


class Attempts:
    """The attempts, which end if the owner of the connection has ended."""

    def __init__(self, owner: OpenConnections | None) -> None:
        self._owner = owner
        self._hosts: list[str] = []
        self._causes: list[Cause] = []

    def connection_class(self) -> type[psycopg.Connection[Any]]:
        """A class of psycopg's that connects by these attempts."""
        attempt = self._attempt

        class Connection(psycopg.Connection[Any]):
            @classmethod
            def _connect_gen(cls, conninfo: str = "") -> Generator[Any, Any, Any]:
                # If psycopg gives it another name, psycopg itself connects: then there is no SQLSTATE,
                # and a receiver that ends leaves a thread behind that still connects.
                return cls((yield from attempt(conninfo)))

        return Connection

    def cause(self, reason: str, hosts: Sequence[str]) -> Cause:
        """Why no host has let us in. A host without an attempt has no address now."""
        if not self._hosts:
            return OfClient(reason)
        if not self._causes or not {*hosts} <= {*self._hosts}:
            return Lost()
        return decisive(self._causes)

    def _attempt(self, conninfo: str) -> Generator[Any, Any, Any]:
        self._hosts.append(
            str(psycopg.conninfo.conninfo_to_dict(conninfo).get("host") or "")
        )
        pgconn = pq.PGconn.connect_start(conninfo.encode())
        # If this ends early, the time is over.
        causes: list[Cause] = [Lost()]
        try:
            _set_verbosity(pgconn, _VERBOSE)
            while (step := _poll(pgconn)) in _WAITS:
                while not (yield pgconn.socket, _WAITS[step]):
                    if self._owner is not None and self._owner.has_ended:
                        raise psycopg.OperationalError(ENDED)
            if step == pq.PollingStatus.OK:
                _set_verbosity(pgconn, _DEFAULT)
                pgconn.nonblocking = 1
                causes = []
                return pgconn
            causes, plain = causes_in(pgconn.get_error_message())
            raise psycopg.OperationalError(plain)
        finally:
            self._causes += causes
            if causes:
                pgconn.finish()


class TextLoader(Loader):
    """Returns a text of a SQL_ASCII session as of other sessions. psycopg itself returns bytes."""

    def load(self, data: Buffer) -> str:
        """Decodes it."""
        return bytes(data).decode("utf-8", BYTES)


def _poll(pgconn: Any) -> pq.PollingStatus:
    if pgconn.status == pq.ConnStatus.BAD:
        return pq.PollingStatus.FAILED
    return pq.PollingStatus(pgconn.connect_poll())


def _set_verbosity(pgconn: Any, verbosity: int) -> None:
    """Sets how much libpq writes into the texts of errors. psycopg has no function for this."""
    function = _verbosity_function()
    if function is not None:
        function(pgconn.pgconn_ptr, verbosity)


@functools.cache
def _verbosity_function() -> Callable[[int, int], int] | None:
    """The function of the libpq that psycopg has loaded. None if it is not found."""
    path = sys.modules[pq.PGconn.__module__].__file__
    try:
        # A symbol is also looked for in the libraries that a compiled module depends on.
        library = ctypes.CDLL(
            find_libpq_full_path() if pq.__impl__ == "python" else path
        )
        found = library.PQsetErrorVerbosity
    except (AttributeError, OSError):
        return None
    found.argtypes = [ctypes.c_void_p, ctypes.c_int]
    return found


_DEFAULT, _VERBOSE = 1, 2
_WAITS = {
    pq.PollingStatus.READING: Wait.R,
    pq.PollingStatus.WRITING: Wait.W,
}
