"""The loads of a receiver: its first load, and requested loads."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from walrow._log import requests as load_requests
from walrow._postgres.commands import drop_slot
from walrow._postgres.connecting import connect
from walrow._postgres.failures import deserves_reconnect
from walrow._receive.disk_states import is_refusal
from walrow._receive.interruption import Left
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
    from walrow._postgres.waiting import Waiting
    from walrow._receive.completeness import Completeness
    from walrow._receive.interruption import Step
    from walrow._receive.landing import Landing
    from walrow._receive.loading import LoadProgress

__all__ = ["Loads"]


class Loads:
    """At most one load at a time.

    Attributes:
        is_first: Whether the log begins with the current one.
    """

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
        self._max_hold = max_hold
        self._wake = wake
        self._note = note
        self._completeness = completeness
        self._files = files
        self._load: TableLoad | None = None
        self._request: LoadRequest | None = None
        self._beginning: Future[None] | None = None
        self._is_ending = False
        self._outcome: _Outcome | None = None
        self._attempts = 0
        self._due = 0.0
        #: Whether another request may have come during a load.
        self._may_have_more = False
        self.is_first = False

    @property
    def is_pending(self) -> bool:
        """Whether something is still to be loaded."""
        parts = (self._load, self._request, self._outcome)
        return self._may_have_more or any(part is not None for part in parts)

    @property
    def waits_for_position(self) -> bool:
        """Whether a load waits until everything before it has come."""
        is_over = self._load is None or self._outcome is not None
        return self._is_ending and not is_over

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
        for attempt in range(1, _ATTEMPTS + 1):
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
                if attempt == _ATTEMPTS or not was_busy(error):
                    raise
                self._note(f"the first load begins again: {error}")
                step.pause(_RETRY_SECONDS * attempt)
        try:
            with step.unless_left():
                self._load, self.is_first = load, True
        except Left:
            load.stop()
            raise

    def request_all(self) -> None:
        """Loads all published tables as soon as the stream runs."""
        self._request = load_requests.LoadRequest("", None)

    def tend(self, landing: Landing) -> None:
        """Does the next step. Call it often.

        Raises:
            Error: The first load is broken: open the log again, which empties it.
        """
        if self._outcome is not None:
            self._tend_outcome(self._outcome)
            return
        if self._load is None:
            self._look(landing)
            return
        if not self._is_ending and not self._is_wanted():
            self._cancel(landing)
            return
        if self._beginning is not None and not self._beginning.done():
            return
        self._beginning = None
        failure = self._load.failure
        if failure is not None:
            self._break(failure, landing)
        elif self._is_ending:
            if not landing.has_load:
                self._conclude(_Outcome(self._load, None))
        elif self._max_hold is not None and landing.held_bytes > self._max_hold:
            self._attempts = _ATTEMPTS
            text = (
                f"more than {self._max_hold} bytes of the stream waited for it: allow"
                " more with max_hold, or load when there is less traffic"
            )
            self._break(LogError(text, code="load"), landing)
        elif self._load.is_copied:
            landing.end_load()
            self._is_ending = True

    def stop(self) -> None:
        """Stops the current load, also while it begins. A request stays."""
        load, self._load = self._load, None
        if load is not None:
            load.stop()
        beginning, self._beginning = self._beginning, None
        if beginning is not None:
            answered(beginning, _STOP_SECONDS)
        self._is_ending, self.is_first = False, False

    def _new(self, names: Sequence[str] | None) -> TableLoad:
        return TableLoad(
            self._given,
            publications=self._publications,
            names=names,
            binary=self._binary,
            jobs=self._jobs,
            wake=self._wake,
        )

    def _is_wanted(self) -> bool:
        """Whether somebody still wants the current load. Looks once a second."""
        now = time.monotonic()
        if self._request is None or not self._request.key or now < self._due:
            return True
        self._due = now + _LOOK_SECONDS
        return load_requests.is_wanted(self._log, self._request)

    def _cancel(self, landing: Landing) -> None:
        """Ends the current load, which nobody wants any more."""
        request, self._request = self._request, None
        self.stop()
        if landing.has_load:
            landing.give_up_load()
        self._may_have_more = True
        self._note_cancelled(request)

    def _note_cancelled(self, request: LoadRequest | None) -> None:
        names = None if request is None else request.tables
        words = "all tables" if names is None else ", ".join(names)
        self._note(f"the load of {words} was cancelled")

    def _look(self, landing: Landing) -> None:
        now = time.monotonic()
        if now < self._due or not landing.is_compared:
            return
        self._due = now + _LOOK_SECONDS
        request = self._request
        if (
            request is not None
            and request.key
            # An attempt failed, and the next is due.
            and not load_requests.is_wanted(self._log, request)
        ):
            self._request = None
            self._note_cancelled(request)
        if self._request is None:
            self._may_have_more = False
            try:
                self._request = self._requests.take()
            except LogError as error:
                self._note(str(error))
            self._attempts = 0
        if self._request is not None:
            load = self._load = self._new(self._request.tables)
            self._is_ending = False
            self._beginning = in_background(
                "walrow-load", partial(self._begin, load, landing)
            )

    def _begin(self, load: TableLoad, landing: Landing) -> None:
        """Begins a load on a temporary slot, which ends with its connection."""

        def waiting(waits: Waiting) -> None:
            self._note(f"a load: {waits}")

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
            finally:
                # The snapshot was imported.
                conn.close()
        except BaseException as error:
            load.failure = error
        self._wake()

    def _break(self, failure: BaseException, landing: Landing) -> None:

        is_first = self.is_first
        self.stop()
        if is_first:
            raise failure
        if landing.has_load:
            landing.give_up_load()
        self._attempts += 1
        may_succeed = deserves_reconnect(failure) or is_refusal(failure)
        if self._attempts < _ATTEMPTS and (may_succeed or was_busy(failure)):
            self._due = time.monotonic() + _RETRY_SECONDS * 2**self._attempts
            self._note(f"a load was broken off, and begins again: {failure}")
            return
        # The text of an error that is not walrow's own may contain values, so only its
        # kind is said.
        why = failure if isinstance(failure, Error) else type(failure).__name__
        text = f"a load was given up: {why}"
        self._note(text)
        self._conclude(_Outcome(None, text))

    def _conclude(self, outcome: _Outcome) -> None:
        self._outcome = outcome
        self._tend_outcome(outcome)

    def _tend_outcome(self, outcome: _Outcome) -> None:
        """Records an outcome. The disk may stall, so another thread does it."""
        now = time.monotonic()
        if outcome.is_recorded:
            self._outcome = self._request = None
            self._may_have_more, self._due = True, 0.0
            self.stop()
        elif now >= outcome.due and not outcome.is_being_recorded:
            outcome.due = now + _LOOK_SECONDS
            outcome.is_being_recorded = True
            self._files.do(partial(self._record, outcome, self._request))

    def _record(self, outcome: _Outcome, request: LoadRequest | None) -> None:
        try:
            if outcome.loaded is not None:
                self._record_tables(outcome.loaded)
                outcome.loaded = None
            if request is not None and request.key:
                load_requests.complete(self._log, request, outcome.failure)
            outcome.is_recorded = True
        except (Error, OSError) as error:
            if not outcome.is_refused:
                self._note(f"the result of a load cannot be written: {error}")
            outcome.is_refused = True
        finally:
            outcome.is_being_recorded = False
            self._wake()

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


class _Outcome:
    """The outcome of a load. It is recorded as soon as the disk allows it.

    Attributes:
        loaded: The load, until its tables are recorded as whole. None if it was given up.
        failure: Why it was given up.
        due: When it is recorded.
        is_being_recorded: Whether a thread does that now.
        is_refused: Whether the disk has refused it.
        is_recorded: Whether it is recorded.
    """

    def __init__(self, loaded: TableLoad | None, failure: str | None) -> None:
        self.loaded = loaded
        self.failure = failure
        self.due = 0.0
        self.is_being_recorded = self.is_refused = self.is_recorded = False


_ATTEMPTS = 5
_LOOK_SECONDS = 1.0
_PAUSE_SECONDS = 5.0
_RETRY_SECONDS = 1.0
_STOP_SECONDS = 0.4
