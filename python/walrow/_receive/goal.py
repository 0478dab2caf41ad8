"""The end of a receiver that is not to go on for ever, and the work that it leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

from walrow._lsn import Lsn
from walrow._postgres.slot_positions import position_of_now, prepared_transactions
from walrow._postgres.waiting import OpenTransaction
from walrow._receive.askers import Asker
from walrow.errors import Error


class Goal:
    """The questions about the end of a receiver."""

    def __init__(
        self, given: dict[str, Any], publications: Sequence[str], asker: Asker
    ) -> None:
        self._given = given
        self._asker = asker
        self._ask = partial(prepared_transactions, publications=publications)
        #: The transactions that are prepared at the start.
        self._prepared: set[int] = set()
        self._left: Future[list[OpenTransaction]] | None = None

    def find(self, *, is_other: bool) -> Lsn:
        """Finds the position of the end: everything that is committed by now. Waits for it."""
        # In this order: a transaction that is prepared after the end is not left by it.
        self._prepared = {each.xid for each in self._asker.ask(self._ask).result()}
        return position_of_now(self._given, is_other=is_other)

    def find_left(self) -> Future[list[OpenTransaction]] | None:
        """Begins to find the transactions that were prepared before the end, and are not decided."""
        if self._prepared:
            self._left = self._asker.ask(self._ask)
        return self._left

    def left(self, note: Callable[[str], None]) -> list[OpenTransaction]:
        """These transactions. Empty if a stop has come before the answer."""
        if self._left is None or not self._left.done():
            return []
        try:
            return [it for it in self._left.result() if it.xid in self._prepared]
        except Error as error:
            note(f"it is not known which prepared transactions are left: {error}")
            return []
