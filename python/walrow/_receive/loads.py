"""The loads of a receiver: its first load, and requested loads."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Any, assert_never

from walrow._log import requests as load_requests
from walrow._postgres.commands import drop_slot
from walrow._postgres.connecting import connect
from walrow._postgres.failures import deserves_reconnect
from walrow._postgres.interruption import Left
from walrow._receive import load as decisions
from walrow._receive.disk_states import is_refusal
from walrow._receive.loading import TableLoad, was_busy
from walrow._receive.status import PendingLoad
from walrow._workers import Worker, answered, in_background
from walrow.errors import Error, LogError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    import psycopg

    from walrow._log.requests import LoadRequest
    from walrow._postgres.interruption import Step
    from walrow._postgres.waiting import Waiting
    from walrow._receive.completeness import Completeness
    from walrow._receive.landing import Landing
    from walrow._receive.loading import LoadProgress

__all__ = ["Loads"]


class Loads:
    """At most one load at a time. `LoadDecisions` makes the decisions."""

    def __init__(
        self,
        given: dict[str, Any],
        *,
        log: Path,
        publications: Sequence[str],
        binary: bool,
        jobs: int,
        max_hold: int | None,
        wake: Callable[[], None],
        note: Callable[[str], None],
        completeness: Completeness,
        files: Worker,
    ) -> None:
        """Stores the arguments.

        Args:
            given: The connection parameters.
            log: The log's directory.
            publications: The publications.
            binary: Whether values come in binary.
            jobs: The number of connections that copy.
            max_hold: The bytes of the stream that may wait for a load.
            wake: Is called when something has changed.
            note: Says something to people.
            completeness: Learns which tables were loaded.
            files: Writes the outcome: the disk may stall.
        """
        self._given = given
        self._log = log
        self._requests = load_requests.Requests(log)
        self._publications = publications
        self._binary = binary
        self._jobs = jobs
        self._wake = wake
        self._note = note
        self._completeness = completeness
        self._files = files
        self._decisions = decisions.LoadDecisions(max_hold, _may_pass)
        #: The current load. Until its tables are recorded as whole, it stays.
        self._load: TableLoad | None = None
        self._begun: Future[None] | None = None
        #: The load whose tables are not recorded yet, and the answer of that.
        self._done: TableLoad | None = None
        self._recording: Future[None] | None = None

    @property
    def is_first(self) -> bool:
        """Whether the log begins with the current load."""
        return self._decisions.is_first

    @property
    def is_pending(self) -> bool:
        """Whether something is still to be loaded."""
        return not isinstance(self._decisions.state, decisions.Nothing)

    @property
    def waits_for_position(self) -> bool:
        """Whether a load waits until everything before it has come."""
        return isinstance(self._decisions.state, decisions.Placing)

    @property
    def left(self) -> PendingLoad | None:
        """The load that waits for transactions of others, and may do so for ever."""
        load = self._load
        waits = None if load is None else load.waits_for
        if waits is None or load is None:
            return None
        tables = None if load.names is None else tuple(load.names)
        return PendingLoad(tables, tuple(waits.transactions or ()))

    def progress(self, held: int) -> LoadProgress | None:
        """How far the current load is, and how many bytes of the stream are held."""
        return None if self._load is None else self._load.progress(held)

    def begin_first(
        self,
        conn: psycopg.Connection[Any],
        slot: str,
        landing: Landing,
        *,
        step: Step[Any],
        waiting: Callable[[Waiting], None],
        **slot_options: Any,
    ) -> None:
        """Creates the slot of a log, and begins the load that the log begins with.

        Raises:
            Left: Nobody waits for the step any more. The next attempt drops the slot.
        """
        landing.plan_first_load(step.check)
        for attempt in range(1, decisions.ATTEMPTS + 1):
            step.check()
            load = self._new(None)
            try:
                load.begin(conn, slot, landing, waiting=waiting, **slot_options)
                break
            except Error as error:
                # It may belong to another attempt by now.
                step.check()
                with contextlib.suppress(Error):
                    # It would keep WAL for nobody.
                    drop_slot(conn, slot, wait=True)
                if attempt == decisions.ATTEMPTS or not was_busy(error):
                    raise
                self._note(f"the first load begins again: {error}")
                step.pause(_RETRY_SECONDS * attempt)
        try:
            with step.unless_left():
                self._load, self._begun = load, None
                self._decisions.on(decisions.FirstBegan(), time.monotonic())
        except Left:
            load.stop()
            raise

    def request_all(self) -> None:
        """Loads all published tables as soon as the stream runs."""
        self._decisions.request(load_requests.LoadRequest("", None))

    def tend(self, landing: Landing) -> None:
        """Does the next step. Call it often.

        Raises:
            Error: The first load is broken: open the log again, which empties it.
        """
        recording = self._recording
        if recording is not None and recording.done():
            self._recording, error = None, recording.exception()
            found: decisions.Event = decisions.Recorded()
            if error is not None:
                found = decisions.NotRecorded(error)
            self._tell(found, landing)
        load, begun = self._load, self._begun
        if begun is not None and not begun.done():
            copies, failure = decisions.Copies.BEGINNING, None
        else:
            is_copied = load is not None and load.is_copied
            copies = decisions.Copies.COPIED if is_copied else decisions.Copies.COPYING
            failure = None if load is None else load.failure
        seen = decisions.Ticked(
            copies,
            failure,
            landing.held_bytes,
            int(landing.has_load),
            landing.is_compared,
        )
        self._tell(seen, landing)

    def stop(self) -> None:
        """Stops the current load, also while it begins. A request stays."""
        self._decisions.on(decisions.Stopped(), time.monotonic())
        self._stop_copies()

    def _tell(self, event: decisions.Event, landing: Landing) -> None:
        for action in self._decisions.on(event, time.monotonic()):
            self._perform(action, landing)

    def _perform(self, action: decisions.Action, landing: Landing) -> None:
        match action:
            case decisions.LookForRequest():
                self._tell(decisions.Found(self._take()), landing)
            case decisions.LookIfWanted(request):
                is_wanted = load_requests.is_wanted(self._log, request)
                answer = decisions.StillWanted() if is_wanted else decisions.Unwanted()
                self._tell(answer, landing)
            case decisions.Begin(request):
                load = self._load = self._new(request.tables)
                begin = partial(self._begin, load, landing, request)
                self._begun = in_background("walrow-load", begin)
            case decisions.StopCopies():
                self._stop_copies()
            case decisions.EndLoad():
                landing.end_load()
            case decisions.GiveUp():
                landing.give_up_load()
            case decisions.Record(request, failure, refused):
                if not refused:
                    self._done = self._load if failure is None else None
                record = partial(self._record, request, failure)
                self._recording = self._files.do(record)
                self._recording.add_done_callback(lambda _: self._wake())
            case decisions.Note(text):
                self._note(text)
            case decisions.Fail(error):
                raise error
            case _:
                assert_never(action)

    def _take(self) -> LoadRequest | None:
        try:
            return self._requests.take()
        except LogError as error:
            self._note(str(error))
            return None

    def _stop_copies(self) -> None:
        load, self._load = self._load, None
        if load is not None:
            load.stop()
        begun, self._begun = self._begun, None
        if begun is not None:
            answered(begun, _STOP_SECONDS)

    def _new(self, names: Sequence[str] | None) -> TableLoad:
        return TableLoad(
            self._given,
            publications=self._publications,
            names=names,
            binary=self._binary,
            jobs=self._jobs,
            wake=self._wake,
        )

    def _begin(self, load: TableLoad, landing: Landing, request: LoadRequest) -> None:
        """Begins a load on a temporary slot, which ends with its connection."""

        def waiting(waits: Waiting) -> None:
            self._note(f"a load: {waits}")
            say(f"the receiver is {waits}")

        def say(text: str) -> None:
            if request.is_awaited:
                load_requests.note(self._log, request, text)

        slot = f"walrow_load_{os.getpid()}_{secrets.token_hex(4)}"
        try:
            conn = connect(self._given)
            try:
                load.begin(
                    conn,
                    slot,
                    landing,
                    temporary=True,
                    waiting=waiting,
                    longest_pause=_PAUSE_SECONDS,
                )
                say(
                    "the receiver copies the rows, and gives them their place in the log"
                )
            finally:
                # The snapshot was imported.
                conn.close()
        except BaseException as error:
            load.failure = error
        self._wake()

    def _record(
        self, request: LoadRequest | decisions.First, failure: str | None
    ) -> None:
        """Records an outcome. The disk may refuse it, or stall."""
        if self._done is not None:
            self._record_tables(self._done)
            self._done = None
        if not isinstance(request, decisions.First) and request.key:
            load_requests.complete(self._log, request, failure)

    def _record_tables(self, loaded: TableLoad) -> None:
        done = loaded.progress(0)
        if loaded.load is not None:
            try:
                self._completeness.loaded(loaded.tables, loaded.load.point)
            except LogError as error:
                if error.code != "damaged":
                    # The disk refuses it for now.
                    raise
                self._note(f"the tables are loaded, but: {error}")
        self._note(f"loaded {done.tables} tables with {done.rows} rows")


def _may_pass(failure: BaseException) -> bool:
    return deserves_reconnect(failure) or is_refusal(failure) or was_busy(failure)


_PAUSE_SECONDS = 5.0
_RETRY_SECONDS = 1.0
_STOP_SECONDS = 0.2
