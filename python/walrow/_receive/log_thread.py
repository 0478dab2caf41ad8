"""Carries out the orders for a log, in its thread. It decides nothing."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, assert_never

from walrow._receive.orders import (
    Append,
    BeginLoad,
    Close,
    Counts,
    EndLoad,
    ExtendCatalog,
    Fill,
    GiveUpLoad,
    LogState,
    NewSession,
    Order,
    PlanLoad,
    Publish,
    Relation,
    Session,
    SetTimeline,
    Sync,
)
from walrow._receive.same_server import Comparison, Last

if TYPE_CHECKING:
    from walrow._core import LogLoad, LogWriter

__all__ = ["LogThread"]


class LogThread:
    """A log's writer and its loads."""

    def __init__(self, writer: LogWriter) -> None:
        """Stores the writer."""
        self._writer = writer
        self._loads: dict[int, LogLoad] = {}

    def state(self) -> LogState:
        """The state of the log now."""
        writer = self._writer
        last, counts = writer.last, writer.counts
        is_compared = writer.is_compared
        relations = writer.new_relations() if is_compared else []
        return LogState(
            position=writer.position,
            is_compared=is_compared,
            last=None if last is None else Last(*last),
            asked=writer.asked,
            lacks_first_load=writer.lacks_first_load,
            is_full=writer.is_full,
            has_changes=writer.has_changes,
            counts=Counts(
                counts["transactions"],
                counts["rows"],
                0,
                counts["segments"],
                counts["last_commit_time"],
            ),
            relations=tuple(Relation(*each) for each in relations),
        )

    def carry_out(self, order: Order) -> Any:  # noqa: PLR0912 -- a case for each kind
        """Carries an order out. Returns its answer."""
        writer = self._writer
        match order:
            case Append(block, end):
                writer.append(block)
                if end > writer.position or not writer.is_compared:
                    writer.advance(end)
            case NewSession(_, session):
                self._begin_session(session)
            case SetTimeline(timeline):
                writer.set_timeline(timeline)
            case Sync():
                writer.sync()
            case ExtendCatalog(catalog):
                writer.extend_catalog(catalog)
                return writer.catalog
            case Fill():
                writer.fill()
            case Publish():
                writer.publish()
            case PlanLoad():
                writer.plan_first_load()
            case BeginLoad(number, point, micros, catalog, tables):
                writer.extend_catalog(catalog)
                load = writer.begin_load(point, micros, catalog, tables)
                self._loads[number] = load
                return load
            case EndLoad(number):
                return writer.end_load(self._loads[number])
            case GiveUpLoad(number):
                writer.give_up_load(self._loads[number])
            case Close():
                with contextlib.suppress(RuntimeError):
                    writer.close()
            case _:
                assert_never(order)
        return None

    def _begin_session(self, session: Session) -> None:
        writer = self._writer
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
