"""The way to a stream: a connection, checks, the log, a session, and the stream itself."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from walrow._postgres.commands import identify_system
from walrow._postgres.failures import OBJECT_IN_USE
from walrow._postgres.replication import ReplicationStream
from walrow._postgres.server_errors import replication_error
from walrow._receive.resuming import in_use
from walrow._receive.same_server import asked_options, stream_arguments
from walrow.errors import ReplicationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from walrow._lsn import Lsn
    from walrow._postgres.interruption import Step
    from walrow._receive.askers import Asker
    from walrow._receive.beginning import Beginning
    from walrow._receive.goal import Goal
    from walrow._receive.landing import Landing
    from walrow._receive.link import Link
    from walrow._receive.open_log import OpenLog
    from walrow._receive.same_server import Comparison
    from walrow._receive.watch import TimelineWatch
    from walrow._waiting import Waiter

__all__ = ["Started", "Starting"]


class Started(NamedTuple):
    """A stream that has started.

    Attributes:
        stream: The stream.
        landing: Where it lands.
        purpose: Its purpose.
    """

    stream: ReplicationStream
    landing: Landing
    purpose: Comparison


class Starting:
    """Starts a stream, the first time and after each loss of the connection."""

    def __init__(
        self,
        given: dict[str, Any],
        slot: str,
        *,
        publications: Sequence[str],
        stream_options: dict[str, Any],
        goal: Goal | None,
        link: Link,
        log: OpenLog,
        beginning: Beginning,
        asker: Asker,
        timeline_watch: TimelineWatch,
        waiter: Waiter,
    ) -> None:
        """Stores the arguments.

        Args:
            given: The connection parameters.
            slot: The slot.
            publications: The publications.
            stream_options: The options of the stream.
            goal: Where the receiver ends. None without an end.
            link: Decides how it streams.
            log: The log.
            beginning: Checks the server and the slot.
            asker: Asks the server beside the stream.
            timeline_watch: Notices a promotion.
            waiter: Wakes whoever waits for the stream.
        """
        self._given = given
        self._slot = slot
        self._publications = publications
        self._stream_options = stream_options
        self._goal = goal
        self._link = link
        self._log = log
        self._beginning = beginning
        self._asker = asker
        self._timeline_watch = timeline_watch
        self._waiter = waiter

    def start(self, step: Step[Started]) -> Started:
        """Connects, checks, opens the log and starts the stream, in another thread.

        Raises:
            Left: Nobody waits for the step any more.
        """
        try:
            return self._connect(step)
        except psycopg.Error as error:
            failed = "the stream cannot be prepared"
            raise replication_error(error, failed, slot=self._slot) from error

    def _connect(self, step: Step[Started]) -> Started:

        with contextlib.ExitStack() as stack:
            stream = ReplicationStream.connect(
                **self._given, wakeup_fd=self._waiter.descriptor
            )
            stack.callback(stream.close)
            # If there are several hosts, another may be right now.
            self._asker.renew()
            system = identify_system(stream.connection)
            self._beginning.check_system(system)
            landing = self._log.landing
            if landing is None:
                landing = self._log.open(system, step, self._link.open, self._opened)
            with step.unless_left():
                self._beginning.system = system
            slot_start = self._beginning.check(stream.connection, system, landing, step)
            self._beginning.preflight()
            if self._goal is not None:
                self._goal.find()
            with step.unless_left():
                wanted = asked_options(self._publications, self._stream_options)
                plan = self._beginning.plan(landing, wanted)
                session = self._beginning.session(system, slot_start, plan)
                landing.begin_session(session)
            asked = stream_arguments(plan.asked, self._stream_options)
            if not self._link.streaming.may_stream(system.xlogpos, landing.durable):
                asked["streaming"] = False
            try:
                stream.start(self._slot, plan.start, **asked)
            except ReplicationError as error:
                if error.sqlstate != OBJECT_IN_USE:
                    raise
                text = in_use(self._given, self._slot)
                raise ReplicationError(
                    text, sqlstate=OBJECT_IN_USE, slot=self._slot
                ) from error
            with step.unless_left():
                self._timeline_watch.begin(stream.connection)
            stack.pop_all()
            return Started(stream, landing, plan.comparison)

    def _opened(self, timeline: int | None, start: Lsn | None) -> None:
        self._beginning.timeline, self._beginning.timeline_start = timeline, start
        self._link.answer(time.monotonic())
