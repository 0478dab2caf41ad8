"""Receives the changes of a live server into a log."""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import os
import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from walrow._core import LogWriter
from walrow.errors import (
    ConnectionLostError,
    Error,
    OptionError,
    ReplicationError,
)
from walrow.interruption import Step, Wakeup
from walrow.landing import Counts, Landing, is_refusal
from walrow.lsn import Lsn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from walrow._core import Catalog
    from walrow.postgres import Finding, IdentifySystem, ReplicationStream
    from walrow.postgres.waiting import Waiting
    from walrow.typing import TableName

__all__ = ["Received", "Receiver", "Status", "receive"]


class Received(NamedTuple):
    """What `receive` has received.

    Attributes:
        position: Up to where everything is in the log, and confirmed.
        transactions: Transactions.
        rows: Rows that were inserted, updated or deleted in them.
        bytes: Bytes of the stream.
        segments: Published segments.
    """

    position: Lsn
    transactions: int
    rows: int
    bytes: int
    segments: int


class Status(NamedTuple):
    """The state of a receiver.

    Attributes:
        state: `connecting`, `streaming`, `degraded` (the log's file system refuses
            something, and it is tried again), or `stopping`.
        position: Up to where everything is durable.
        transactions: Transactions since the start.
        rows: Rows that were inserted, updated or deleted in them.
        bytes: Bytes of the stream.
        segments: Published segments.
        lag_bytes: The WAL between `position` and the server's end of WAL. None if the
            server was not asked yet.
        lag_seconds: The seconds since the commit of the last transaction, or 0 if there
            is no lag in bytes. None before the first one.
        kept_bytes: The WAL that the slot keeps on the server.
        note: What is wrong, in words.
    """

    state: Literal["connecting", "streaming", "degraded", "stopping"]
    position: Lsn
    transactions: int
    rows: int
    bytes: int
    segments: int
    lag_bytes: int | None
    lag_seconds: float | None
    kept_bytes: int | None
    note: str | None


def receive(
    conninfo: str = "",
    *,
    log: str | os.PathLike[str],
    slot: str,
    publications: str | Sequence[str] = (),
    create: bool = False,
    tables: Sequence[TableName] | None = None,
    until: Literal["now"] | None = None,
    streaming: bool | None = None,
    binary: bool = False,
    messages: bool = False,
    two_phase: bool = False,
    failover: bool = False,
    origin: Literal["any", "none"] | None = None,
    age: float = 10.0,
    segment_bytes: int = 64 << 20,
    compression_level: int | None = 3,
    spool_memory: int = 64 << 20,
    spool_directory: str | os.PathLike[str] | None = None,
    group_access: bool = False,
    give_up_after: float = 3600.0,
    status: Callable[[Status], None] | None = None,
    stop: threading.Event | None = None,
) -> Received:
    """Receives committed transactions into a log, and confirms what is durable there.

    Nothing is lost and nothing comes twice, whenever it, the machine or the server stops:
    start it again. It connects again by itself if the connection is lost, and ends with an
    error if somebody must mend something.

    ```python
    walrow.receive("dbname=shop", log="log/", slot="shop", publications="shop")
    ```

    Args:
        conninfo: A connection string or URL, as for psycopg. Services, password files, the
            environment, TLS, several hosts and unix sockets work too.
        log: The log's directory. It is created if necessary, for its owner only.
        slot: A logical slot for pgoutput, which nobody else uses.
        publications: One publication or several.
        create: Creates the slot if it does not exist, and with `tables`, the publication.
            Changes begin there. Refused if the log has changes already: those since then
            are lost with the slot that had them.
        tables: With `create`, the tables of a new publication.
        until: `"now"` ends when everything that is committed by now is in the log. Default:
            it never ends.
        streaming: Whether large transactions come before their commit. Default: yes, but
            not with `messages`, because in a streamed transaction, messages of rolled-back
            savepoints cannot be told from others.
        binary: Whether values come in binary. Refused if a published type has no send
            function: the server could never send such a value.
        messages: Whether logical messages come.
        two_phase: Whether prepared transactions come at PREPARE. They are in the log once
            they are committed.
        failover: With `create`, whether the slot is copied to standbys.
        origin: `"none"` skips transactions that came to the server by replication.
        age: The seconds after which transactions are published for readers.
        segment_bytes: The size of the stream after which a segment ends.
        compression_level: The level of zstd. None stores the stream as it is.
        spool_memory: The number of bytes of memory that open transactions take together.
            Beyond it, they wait in files.
        spool_directory: The directory of these files. Default: the log's own.
        group_access: Whether the owner's group may read the log.
        give_up_after: The seconds after which a full disk, for example, is an error. Until
            then, it stays connected and tries again.
        status: Is called about once a second.
        stop: Ends it within two seconds when set, as Ctrl-C does.

    Returns:
        What was received. Only with `until` or `stop`.

    Raises:
        OptionError: The options are invalid or contradict each other.
        ReplicationError: The server refused something that does not mend itself.
        LogError: The log belongs to another source, another process writes to it, or it
            cannot be written.
        SettingError: Something overrides a setting of the session, such as PGTZ.
    """
    options = {
        "streaming": streaming,
        "binary": binary,
        "messages": messages,
        "two_phase": two_phase,
        "origin": origin,
    }
    writer_options = {
        "segment_bytes": segment_bytes,
        "level": compression_level,
        "spool_memory": spool_memory,
        "spool_directory": log if spool_directory is None else spool_directory,
        "group_access": group_access,
    }
    receiver = Receiver(
        conninfo,
        log=log,
        slot=slot,
        publications=(publications,) if isinstance(publications, str) else publications,
        create=create,
        tables=tables,
        until=until,
        failover=failover,
        stream_options=options,
        writer_options=writer_options,
        age=age,
        give_up_after=give_up_after,
        status=status,
        stop=stop or threading.Event(),
    )
    return receiver.run()


class Receiver:
    """A receiver that runs once. `receive` makes one."""

    def __init__(
        self,
        conninfo: str,
        *,
        log: str | os.PathLike[str],
        slot: str,
        publications: Sequence[str],
        create: bool,
        tables: Sequence[TableName] | None,
        until: Literal["now"] | None,
        failover: bool,
        stream_options: dict[str, Any],
        writer_options: dict[str, Any],
        age: float,
        give_up_after: float,
        status: Callable[[Status], None] | None,
        stop: threading.Event,
    ) -> None:
        """Checks the options."""
        from walrow.postgres.connecting import parameters_of
        from walrow.postgres.watch import Watch

        self._given = parameters_of(conninfo)
        if not publications:
            text = "publications is missing: name at least one"
            raise OptionError(text)
        if tables is not None and not create:
            text = (
                "tables needs create=True: otherwise the publication has its own tables"
            )
            raise OptionError(text)
        self._log = os.fspath(log)
        self._slot = slot
        self._publications = tuple(publications)
        self._create = create
        self._tables = tables
        self._until = until
        self._target: Lsn | None = None
        self._failover = failover
        self._stream_options = stream_options
        self._writer_options = writer_options
        self._age = age
        self._give_up_after = give_up_after
        self._status = status
        self._stop = stop
        self._system: IdentifySystem | None = None
        self._is_checked = False
        self._writer: LogWriter | None = None
        self._landing: Landing | None = None
        self._earlier = Counts()
        self._timeline: int | None = None
        self._position = Lsn(0)
        self._wakeup = Wakeup()
        self._watch = Watch(self._given, slot)
        self._reported = 0.0
        self._notes: deque[str] = deque()
        self._refused_since: float | None = None
        self._has_given_up = False
        self._answered = 0.0
        self._final: Error | None = None
        self._in_use_since: float | None = None

    def run(self) -> Received:
        """Receives until it is stopped."""
        watcher = threading.Thread(target=self._watch_stop, daemon=True)
        watcher.start()
        try:
            return self._run()
        finally:
            self._stop.set()
            # Only after an interruption: otherwise it is closed.
            self._abandon()
            watcher.join()
            self._wakeup.close()
            self._watch.close()

    def _watch_stop(self) -> None:
        self._stop.wait()
        self._wakeup.wake()

    def _run(self) -> Received:
        attempts = 0
        longest = 0.0
        try:
            while not self._stop.is_set():
                self._report("connecting", force=True)
                began, durable = time.monotonic(), self._durable
                try:
                    self._receive()
                    break
                except Error as error:
                    lasted = time.monotonic() - began
                    if self._durable > durable and not is_refusal(error):
                        attempts, self._in_use_since = 0, None
                    # What is refused at one place of the stream is refused there again.
                    if lasted > _STABLE_SECONDS + 2 * longest:
                        self._refused_since = None
                    longest = max(longest, lasted)
                    state = self._judge(error, is_first=attempts == 0)
                    pause = min(_LONGEST_PAUSE, 0.25 * 2**attempts)
                    attempts += 1
                    self._report(state, note=str(error), force=True)
                    self._stop.wait(pause)
        except KeyboardInterrupt:
            self._finish(None)
            raise
        self._finish(None)
        return self._received()

    @property
    def _durable(self) -> Lsn:
        return self._position if self._landing is None else self._landing.durable

    def _judge(
        self, error: Error, *, is_first: bool
    ) -> Literal["connecting", "degraded"]:
        """Raises an error that another attempt does not mend. Returns the state until then."""
        from walrow.postgres.failures import deserves_reconnect

        now = time.monotonic()
        if is_refusal(error) and not self._has_given_up:
            # What is on the disk is found out by opening the log again.
            since = self._refused_since = self._refused_since or now
            if now - since < self._give_up_after:
                return "degraded"
        elif error is not self._final and deserves_reconnect(error):
            sqlstate = getattr(error, "sqlstate", None)
            since = now
            if sqlstate == _IN_USE:
                since = self._in_use_since = self._in_use_since or now
            is_unknown = self._system is None and is_first and sqlstate is None
            if not is_unknown and now - since <= _BUSY_SECONDS:
                return "connecting"
        with contextlib.suppress(Error):
            self._finish(None)
        raise error

    def _receive(self) -> None:
        """Connects, and receives until the connection ends."""
        started = self._started()
        if started is None:
            return
        stream, landing = started
        with contextlib.closing(stream):
            try:
                self._pump(stream, landing)
            except KeyboardInterrupt:
                self._stop.set()
                self._finish(stream)
                raise
            self._finish(stream)

    def _started(self) -> tuple[ReplicationStream, Landing] | None:
        """The stream and where it lands. None if it is stopped before."""
        step = Step(self._start, lambda started: started[0].close(), self._wakeup.wake)
        self._answered = time.monotonic()
        try:
            while not step.is_done:
                if self._stop.is_set():
                    return None
                if time.monotonic() >= self._answered + _CONNECT_SECONDS:
                    text = "the server does not answer while the stream is prepared"
                    raise ConnectionLostError(text)
                self._report("connecting")
                self._wakeup.wait(_REPORT_SECONDS)
                self._wakeup.drain()
            return step.result()
        finally:
            if not step.is_done:
                step.leave()

    def _start(
        self, step: Step[tuple[ReplicationStream, Landing]]
    ) -> tuple[ReplicationStream, Landing]:
        import psycopg

        from walrow.postgres.server_errors import replication_error

        try:
            return self._connect(step)
        except psycopg.Error as error:
            failed = "the stream cannot be prepared"
            raise replication_error(error, failed, slot=self._slot) from error

    def _connect(
        self, step: Step[tuple[ReplicationStream, Landing]]
    ) -> tuple[ReplicationStream, Landing]:
        from walrow.postgres import identify_system
        from walrow.postgres.replication import ReplicationStream
        from walrow.postgres.resuming import in_use

        with contextlib.ExitStack() as stack:
            stream = ReplicationStream.connect(
                **self._given, wakeup_fd=self._wakeup.descriptor
            )
            stack.callback(stream.close)
            system = identify_system(stream.connection)
            with self._finally_refusing():
                self._check_system(system)
            found = None if self._landing is not None else self._read_catalog()
            with step.unless_left():
                landing = self._open(system, found)
            self._check_slot(stream, system, landing, step)
            self._preflight(stream)
            if self._until == "now" and self._target is None:
                from walrow.postgres.slot_positions import position_of_now

                self._target = position_of_now(self._given)
            with step.unless_left():
                landing.begin_session(system.timeline)
            try:
                stream.start(
                    self._slot,
                    publications=self._publications,
                    **self._stream_options,
                )
            except ReplicationError as error:
                if error.sqlstate != _IN_USE:
                    raise
                text = in_use(self._given, self._slot)
                raise ReplicationError(
                    text, sqlstate=_IN_USE, slot=self._slot
                ) from error
            stack.pop_all()
            return stream, landing

    def _pump(self, stream: ReplicationStream, landing: Landing) -> None:
        while not self._stop.is_set():
            if landing.failure is not None:
                self._abandon()
                raise landing.failure
            if self._target is not None and landing.durable >= self._target:
                return
            self._report("streaming" if landing.trouble is None else "degraded")
            if landing.is_full:
                # What the server asks meanwhile is not read, so answer without a question.
                stream.confirm(landing.durable)
                landing.wait_for_room(_ANSWER_SECONDS)
                continue
            block = stream.receive(_REPORT_SECONDS)
            self._wakeup.drain()
            if block is None:
                text = "the server has ended the stream"
                raise ConnectionLostError(text)
            if block:
                landing.put(block, stream.server_lsn)
            if landing.durable > stream.flushed:
                stream.confirm(landing.durable)

    @contextlib.contextmanager
    def _finally_refusing(self) -> Iterator[None]:
        """What is refused here was not said by the server: no other attempt mends it."""
        try:
            yield
        except ReplicationError as error:
            self._final = error
            raise

    def _check_system(self, system: IdentifySystem) -> None:
        known = self._system
        if known is not None and known.system_identifier != system.system_identifier:
            text = (
                f"the server is another one: system identifier {system.system_identifier}, "
                f"not {known.system_identifier}; use another log for it"
            )
            raise ReplicationError(text, slot=self._slot)

    def _open(self, system: IdentifySystem, found: Catalog | None) -> Landing:
        """Opens the log, the first time and after a failure of the file system."""
        if self._landing is not None:
            self._system = system
            return self._landing
        writer = LogWriter(
            self._log,
            system_identifier=system.system_identifier,
            database=system.database,
            slot=self._slot,
            **self._writer_options,
        )
        try:
            self._timeline = writer.source["timeline"]
            if found is not None:
                writer.extend_catalog(found)
            self._landing = Landing(
                writer,
                age=self._age,
                give_up_after=self._give_up_after,
                read_catalog=self._read_catalog,
                wake=self._wakeup.wake,
                earlier=self._earlier,
            )
        except BaseException:
            writer.close()
            raise
        self._writer, self._system = writer, system
        return self._landing

    def _read_catalog(self) -> Catalog:
        import psycopg

        from walrow.postgres import catalog
        from walrow.postgres.connecting import connect_for_sql

        given = {**self._given, "connect_timeout": 5}
        with connect_for_sql(given) as conn:
            conn.execute("SET statement_timeout = '30s'")
            try:
                return catalog(conn, publications=self._publications)
            except OptionError:
                # A publication that does not exist is named by the preflight.
                return catalog(conn, publications=())
            except psycopg.Error as error:
                text = "the catalog cannot be read"
                raise ReplicationError(text, sqlstate=error.sqlstate) from error

    def _check_slot(
        self,
        stream: ReplicationStream,
        system: IdentifySystem,
        landing: Landing,
        step: Step[Any],
    ) -> None:
        """Checks that the slot continues where the log ends. Creates it on request."""
        from walrow.postgres import create_slot, timeline_history
        from walrow.postgres.resuming import check_slot, check_timeline

        conn = stream.connection
        before, now = self._timeline, system.timeline
        if before is not None and before != now:
            history = timeline_history(conn, now)
            with self._finally_refusing():
                check_timeline(before, now, history, landing.durable, self._slot)
        self._timeline = now
        durable = landing.durable
        with self._finally_refusing():
            exists = check_slot(conn, self._slot, system, durable, create=self._create)
        if exists:
            return

        def waiting(waits: Waiting) -> None:
            with step.unless_left():
                self._answered = time.monotonic()
                self._notes.append(str(waits))

        if self._tables is not None:
            with step.unless_left():
                self._create_publication(self._tables)
        create_slot(
            conn,
            self._slot,
            two_phase=bool(self._stream_options["two_phase"]),
            failover=self._failover,
            waiting=waiting,
        )

    def _preflight(self, stream: ReplicationStream) -> None:
        """Refuses what would fail later. Warns once."""
        from walrow.postgres import preflight

        if self._is_checked:
            return
        found = preflight(
            stream.connection,
            slot=self._slot,
            publications=self._publications,
            two_phase=self._stream_options["two_phase"],
            binary=self._stream_options["binary"],
        )
        # Its last client may be gone without the server's knowledge: that is tried again.
        errors = [each for each in found.errors if each.code != "slot-active"]
        if errors:
            with self._finally_refusing():
                raise ReplicationError("; ".join(map(_line, errors)), slot=self._slot)
        warnings = (each for each in found if each.severity == "warning")
        self._notes.extend(f"warning: {_line(each)}" for each in warnings)
        self._is_checked = True

    def _create_publication(self, tables: Sequence[TableName]) -> None:
        from walrow.postgres.connecting import connect_for_sql
        from walrow.postgres.temporary_publication import create_publication_for

        if len(self._publications) != 1:
            text = "tables creates one publication: name one"
            raise OptionError(text)
        with connect_for_sql(self._given) as conn:
            found = conn.execute(
                "SELECT FROM pg_publication WHERE pubname = %s", self._publications
            ).fetchone()
            if found is None:
                create_publication_for(conn, self._publications[0], tables)

    def _finish(self, stream: ReplicationStream | None) -> None:
        """Publishes and confirms what is durable, and closes the log."""
        landing, self._landing = self._landing, None
        if landing is None:
            return
        self._earlier = landing.counts
        self._report("stopping", force=True, landing=landing)
        if stream is not None and not self._stop.is_set():
            # Whoever waits for a position reads the log then.
            landing.finish(math.inf, self._stop)
        self._close(landing)
        if stream is not None:
            with contextlib.suppress(Error):
                stream.confirm(landing.durable)
        failure = landing.failure
        if failure is None:
            return
        if not (self._stop.is_set() and is_refusal(failure)):
            raise failure
        # What is durable is published at the next start.
        self._report("stopping", note=str(failure), force=True, landing=landing)

    def _abandon(self) -> None:
        """Closes the log without another try."""
        landing, self._landing = self._landing, None
        if landing is not None:
            self._close(landing)

    def _close(self, landing: Landing) -> None:
        has_ended = landing.finish(_FINISH_SECONDS)
        self._position = landing.durable
        self._has_given_up = landing.has_given_up
        self._earlier = landing.counts
        if has_ended and self._writer is not None:
            self._writer.close()
        self._writer = None

    def _received(self) -> Received:
        counts = self._earlier
        return Received(
            self._position,
            counts.transactions,
            counts.rows,
            counts.bytes,
            counts.segments,
        )

    def _report(
        self,
        state: Literal["connecting", "streaming", "degraded", "stopping"],
        *,
        note: str | None = None,
        force: bool = False,
        landing: Landing | None = None,
    ) -> None:
        now = time.monotonic()
        if self._status is None or (not force and now < self._reported):
            return
        self._reported = now + _REPORT_SECONDS
        landing = landing or self._landing
        while self._notes:
            self._say(state, landing, self._notes.popleft())
        self._say(state, landing, note)

    def _say(
        self,
        state: Literal["connecting", "streaming", "degraded", "stopping"],
        landing: Landing | None,
        note: str | None,
    ) -> None:
        counts = self._earlier if landing is None else landing.counts
        durable = Lsn(0) if landing is None else landing.durable
        if landing is not None and landing.trouble is not None:
            note = note or landing.trouble
        end, kept = self._watch.look()
        lag = None if end is None or not durable else max(0, end - durable)
        if self._status is not None:
            self._status(
                Status(
                    state,
                    durable,
                    counts.transactions,
                    counts.rows,
                    counts.bytes,
                    counts.segments,
                    lag,
                    _lag_seconds(counts.last_commit_time, lag),
                    kept,
                    note,
                )
            )


def _line(finding: Finding) -> str:
    sql = " ".join((finding.sql or "").splitlines())
    text = f"{finding.text} [{finding.code}]"
    return f"{text}: {sql}" if sql else text


def _lag_seconds(micros: int | None, lag: int | None) -> float | None:
    if micros is None:
        return None
    if lag == 0:
        return 0.0
    now = dt.datetime.now(dt.UTC).timestamp()
    return max(0.0, now - micros / 1_000_000)


_IN_USE = "55006"
#: An old connection keeps the slot until the server notices that it is gone.
_BUSY_SECONDS = 90.0
_LONGEST_PAUSE = 15.0
#: Connecting, questions and the stream's start take less than this together.
_CONNECT_SECONDS = 90.0
#: After this long, the next failure is the first one again.
_STABLE_SECONDS = 30.0
_FINISH_SECONDS = 0.9
_REPORT_SECONDS = 1.0
_ANSWER_SECONDS = 0.4
