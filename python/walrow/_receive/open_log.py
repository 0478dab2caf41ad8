"""The log of a receiver: open, or held by a disk that has not finished with an earlier attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from walrow._core import LogWriter
from walrow._lsn import Lsn
from walrow._receive.askers import first_catalog
from walrow._receive.landing import Landing
from walrow._receive.orders import Counts

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from walrow._core import Catalog
    from walrow._postgres.commands import IdentifySystem
    from walrow._postgres.interruption import Step

__all__ = ["OpenLog"]


class OpenLog:
    """Opens and closes a log, and knows how far it is in between.

    Attributes:
        landing: The log that is written. None while it is closed.
        unended: Was left before its end: its disk stalls, and it still has the log.
        has_given_up: Whether the file system had refused it for too long.
    """

    def __init__(
        self,
        path: str,
        slot: str,
        *,
        options: dict[str, Any],
        age: float,
        give_up_after: float,
        read_catalog: Callable[[], Future[Catalog]],
        wake: Callable[[], None],
    ) -> None:
        """Stores the arguments.

        Args:
            path: The log's directory.
            slot: The slot that it comes from.
            options: The options of its writer.
            age: Transactions are published after these seconds.
            give_up_after: After these seconds, a refusal of the file system is final.
            read_catalog: Begins to read the definitions of types and tables.
            wake: Is called when something has changed.
        """
        self._path = path
        self._slot = slot
        self._options = options
        self._age = age
        self._give_up_after = give_up_after
        self._read_catalog = read_catalog
        self._wake = wake
        self._counts, self._durable = Counts(), Lsn(0)
        self.landing: Landing | None = None
        self.unended: Landing | None = None
        self.has_given_up = False

    @property
    def durable(self) -> Lsn:
        """Up to where everything is durable."""
        return self._durable if self.landing is None else self.landing.durable

    @property
    def counts(self) -> Counts:
        """Counts of the landed changes."""
        return self._counts if self.landing is None else self.landing.counts

    def open(
        self,
        system: IdentifySystem,
        step: Step[Any],
        begins: Callable[[], None],
        opened: Callable[[int | None, Lsn | None], None],
    ) -> Landing:
        """Opens the log, the first time and after a failure of the file system.

        Args:
            system: The server.
            step: The step that waits for it. If it was left, the log is closed again.
            begins: Is called before: a large log takes long, and the server is not asked meanwhile.
            opened: Is called with the log's timeline, and where that began.
        """
        found, failure = first_catalog(self._read_catalog)
        with step.unless_left():
            begins()
        writer = LogWriter(
            self._path,
            system_identifier=system.system_identifier,
            database=system.database,
            slot=self._slot,
            **self._options,
        )
        try:
            source = writer.source
            if found is not None and not writer.position:
                writer.extend_catalog(found)
                found = None
            with step.unless_left():
                landing = self.landing = Landing(
                    writer,
                    age=self._age,
                    give_up_after=self._give_up_after,
                    read_catalog=self._read_catalog,
                    found=found,
                    catalog_failure=failure,
                    wake=self._wake,
                    earlier=self._counts,
                )
                opened(source["timeline"], source["timeline_start"])
        except BaseException:
            writer.close()
            raise
        return landing

    def take(self) -> Landing | None:
        """Takes the log out, to close it."""
        landing, self.landing = self.landing, None
        if landing is not None:
            self._counts, self._durable = landing.counts, landing.durable
        return landing

    def close(self, landing: Landing, seconds: float) -> None:
        """Closes a log that was taken out, within these seconds if its disk allows that."""
        if not landing.finish(seconds):
            self.unended = landing
        self.has_given_up = landing.has_given_up
        self._counts, self._durable = landing.counts, landing.durable

    def is_free(self, seconds: float, is_stopped: Callable[[], bool]) -> bool:
        """Waits until an earlier attempt no longer writes to it, at most so long or until a stop."""
        earlier = self.unended
        if earlier is not None and earlier.wait(seconds, is_stopped):
            self.unended = None
            self._counts, self._durable = earlier.counts, earlier.durable
        return self.unended is None
