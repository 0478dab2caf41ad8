"""The objects that a reader of changes creates on a server, and must not leave there."""

from __future__ import annotations

import os
from typing import Any

from walrow._postgres.connecting import connect_for_sql
from walrow._postgres.replication import ReplicationStream
from walrow._postgres.temporary_publication import drop_if_exists
from walrow.errors import ReplicationError


class Leftovers:
    """A stream, whose end drops a temporary slot, and a publication."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        self._process = os.getpid()
        self.stream: ReplicationStream | None = None
        self.publication: str | None = None

    def remove(self) -> None:
        """Closes the stream, which drops a temporary slot, and drops the publication."""
        if os.getpid() != self._process:
            # A fork has the same objects, but they belong to its parent.
            return
        try:
            if self.stream is not None:
                self.stream.close()
        finally:
            if self.publication is not None:
                self._drop(self.publication)

    def check(self) -> None:
        """Raises an error if the publication could not be dropped."""
        if self.publication is not None:
            raise ReplicationError(self._advice())

    def explain(self, error: BaseException) -> None:
        """Adds to another error what `check` would raise."""
        if self.publication is not None:
            error.add_note(f"walrow: {self._advice()}")

    def _drop(self, publication: str) -> None:
        try:
            with connect_for_sql({**self._given, "connect_timeout": 2}) as conn:
                drop_if_exists(conn, publication)
        except ReplicationError:
            # `check` and `explain` say so.
            return
        self.publication = None

    def _advice(self) -> str:
        return (
            "a publication is left, because the server did not answer: drop it with"
            f" DROP PUBLICATION {self.publication}"
        )
