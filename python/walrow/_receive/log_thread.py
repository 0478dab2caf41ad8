"""The thread that writes a log: it opens it, and carries out one order after the other. It decides nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any, assert_never

from walrow._core import Catalog, LogLoad, LogWriter
from walrow._receive import orders
from walrow._receive.askers import first_catalog
from walrow._receive.disk_states import Did, Refused
from walrow._receive.events import Event, Failed, LogOpened
from walrow._receive.same_server import Comparison, Last
from walrow._workers import Worker


class LogThread:
    """The thread of a log. Each answer has the log's state. `loads` have begun, by their number."""

    def __init__(self, tell: Callable[[Event], None]) -> None:
        self._tell = tell
        self._worker = Worker("walrow-log", at_end=self._let_go)
        self._writer: LogWriter | None = None
        self.loads: dict[int, LogLoad] = {}

    def open(
        self,
        number: int,
        make: Callable[[], LogWriter],
        read_catalog: Callable[[], Future[Catalog]],
    ) -> None:
        """Opens the log for a connection. The answer is `LogOpened` or `Failed`."""
        self._worker.do(partial(self._open, number, make, read_catalog))

    def do(self, order: orders.Order) -> None:
        """Carries out an order, after the earlier ones. The answer is `Did` or `Refused`."""
        self._worker.do(partial(self._do, order))

    def close(self) -> None:
        """Ends the thread after its orders. If the log is still open, it is closed as it is."""
        self._worker.close()

    def _open(
        self,
        number: int,
        make: Callable[[], LogWriter],
        read_catalog: Callable[[], Future[Catalog]],
    ) -> None:
        try:
            found, failure = first_catalog(read_catalog)
            self._writer = writer = make()
            if found is not None and not writer.position:
                writer.extend_catalog(found)
                found = None
            source = writer.source
            self._tell(
                LogOpened(
                    number,
                    self._state(writer),
                    writer.catalog,
                    found,
                    failure,
                    source["timeline"],
                    source["timeline_start"],
                )
            )
        except BaseException as error:
            self._let_go()
            self._tell(Failed(number, error))

    def _do(self, order: orders.Order) -> None:
        writer = self._writer
        if writer is None:
            return
        try:
            if isinstance(order, orders.Close):
                state = self._state(writer)
                self._let_go()
                self._tell(Did(order, state))
            else:
                answer = self._carry_out(writer, order)
                self._tell(Did(order, self._state(writer), answer))
        except BaseException as error:
            self._tell(Refused(order, error))

    def _let_go(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            # Nothing of it may keep the directory's lock.
            with contextlib.suppress(RuntimeError):
                writer.close()

    def _state(self, writer: LogWriter) -> orders.LogState:
        last, counts = writer.last, writer.counts
        is_compared = writer.is_compared
        relations = writer.new_relations() if is_compared else []
        return orders.LogState(
            position=writer.position,
            is_compared=is_compared,
            last=None if last is None else Last(*last),
            asked=writer.asked,
            lacks_first_load=writer.lacks_first_load,
            is_full=writer.is_full,
            has_changes=writer.has_changes,
            counts=orders.Counts(
                counts["transactions"],
                counts["rows"],
                0,
                counts["segments"],
                counts["last_commit_time"],
                counts["last_message"],
            ),
            gap_end=writer.gap_end,
            open_commit=writer.open_commit,
            relations=tuple(orders.Relation(*each) for each in relations),
        )

    def _carry_out(self, writer: LogWriter, order: orders.Order) -> Any:  # noqa: PLR0912 -- a case for each kind
        """Carries an order out. Returns its answer."""
        match order:
            case orders.Append(block, end):
                writer.append(block)
                if end > writer.position or not writer.is_compared:
                    writer.advance(end)
            case orders.NewSession(_, session):
                _begin_session(writer, session)
            case orders.SetTimeline(timeline):
                writer.set_timeline(timeline)
            case orders.Sync():
                writer.sync()
            case orders.ExtendCatalog(catalog):
                writer.extend_catalog(catalog)
                return writer.catalog
            case orders.Fill():
                writer.fill()
            case orders.Publish():
                writer.publish()
            case orders.PlanLoad():
                writer.plan_first_load()
            case orders.BeginLoad(number, point, micros, catalog, tables):
                writer.extend_catalog(catalog)
                load = writer.begin_load(point, micros, catalog, tables)
                self.loads[number] = load
                return load
            case orders.EndLoad(number):
                is_placed = writer.end_load(self.loads[number])
                if is_placed:
                    del self.loads[number]
                return is_placed
            case orders.GiveUpLoad(number):
                writer.give_up_load(self.loads[number])
                del self.loads[number]
            case orders.Close():
                pass
            case _:
                assert_never(order)
        return None


def _begin_session(writer: LogWriter, session: orders.Session) -> None:
    if session.gap is not None:
        writer.cross_gap(session.gap.end, session.gap.cause)
    else:
        writer.new_session()
    if session.comparison is Comparison.DONE:
        writer.assume_compared()
    else:
        only = session.comparison is Comparison.ONLY
        writer.compare(session.confirmed, only=only)
    # Until the server is compared, these are not the log's.
    writer.set_timeline(session.timeline, session.timeline_start)
    writer.set_asked(session.asked)
    start = session.slot_start
    if start is not None:
        writer.set_slot_start(
            start.lsn, prepared_until=start.prepared_until, prepared=start.prepared
        )
