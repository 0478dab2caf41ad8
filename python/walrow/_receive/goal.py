"""The end of a receiver that is not to go on for ever, and the work that it leaves."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any

from walrow._postgres.slot_positions import position_of_now, prepared_transactions
from walrow._workers import answered
from walrow.errors import Error

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import psycopg

    from walrow._lsn import Lsn
    from walrow._postgres.waiting import OpenTransaction
    from walrow._receive.askers import Asker
    from walrow._receive.landing import Landing
    from walrow._receive.loads import Loads
    from walrow._receive.status import PendingLoad

__all__ = ["Goal"]


class Goal:
    """The end of a receiver: a position, once that is known.

    Attributes:
        position: Everything up to it is in the log at the end. None without an end, or before the
            first connection.
        left: The work that the log lacks then, because it waits for somebody.
    """

    def __init__(
        self, given: dict[str, Any], publications: Sequence[str], asker: Asker
    ) -> None:
        """Stores the arguments.

        Args:
            given: The connection parameters.
            publications: The publications.
            asker: Asks the server.
        """
        self._given = given
        self._publications = publications
        self._asker = asker
        #: The transactions that are prepared at the start.
        self._prepared: set[int] = set()
        self.position: Lsn | None = None
        self.left: list[PendingLoad | OpenTransaction] = []

    def find(self) -> None:
        """Finds the position: everything that is committed by now."""
        if self.position is None:
            # In this order: a transaction that is prepared after the end is not left by it.
            ask = partial(prepared_transactions, publications=self._publications)
            self._prepared = {each.xid for each in self._asker.ask(ask).result()}
            self.position = position_of_now(self._given)

    def is_reached(self, landing: Landing, loads: Loads) -> bool:
        """Whether everything is in the log, and no load goes on.

        A load that waits for others may do so for ever: it is left.
        """
        position = self.position
        if position is None or landing.durable < position:
            return False
        if not landing.is_compared and landing.durable == position:
            # A standby that is behind does not show yet that it is the same.
            return False
        load = loads.left
        if load is not None:
            self.left = [load]
        return load is not None or not loads.is_pending

    def note_prepared(
        self, is_stopped: Callable[[], bool], note: Callable[[str], None]
    ) -> None:
        """Finds the transactions that were prepared before the end, and are not decided."""

        def ask(conn: psycopg.Connection[Any]) -> list[OpenTransaction]:
            found = prepared_transactions(conn, self._publications)
            return [each for each in found if each.xid in self._prepared]

        if not self._prepared:
            return
        answer = self._asker.ask(ask)
        if answered(answer, math.inf, is_stopped):
            try:
                self.left += answer.result()
            except Error as error:
                note(f"it is not known which prepared transactions are left: {error}")
