"""Receives the changes of a live server into a log."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from walrow._amounts import duration, size
from walrow._calls import explained
from walrow._log.retention import Retainer
from walrow._postgres.connecting import psycopg_or_refuse
from walrow._sources.logs import directory_of
from walrow.errors import OptionError, Remedy

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from walrow._log.retention import Retention
    from walrow._receive.status import Received, Status
    from walrow.typing import Duration, Size, TableName

__all__ = ["receive"]


@explained
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
    snapshot: bool = False,
    jobs: int = 4,
    max_hold: Size | None = None,
    origin: Literal["any", "none"] | None = None,
    age: Duration = 10.0,
    segment_bytes: Size = "64MiB",
    compression_level: int = 1,
    spool_memory: Size = "64MiB",
    spool_directory: str | os.PathLike[str] | None = None,
    group_access: bool = False,
    give_up_after: Duration = 3600.0,
    start_within: Duration | None = None,
    retain: Retention | None = None,
    status: Callable[[Status], None] | None = None,
    stop: threading.Event | None = None,
) -> Received:
    """Receives committed transactions into a log, and confirms durable transactions.

    Nothing is lost and nothing comes twice, whenever it, the machine or the server stops:
    start it again. It connects again by itself if the connection is lost, and ends with an
    error if somebody must fix something.

    ```python
    walrow.receive("dbname=shop", log="log/", slot="shop", publications="shop")
    ```

    Args:
        conninfo: A connection string or URL, as for psycopg. Services, password files, the
            environment, TLS, several hosts and unix sockets work too.
        log: The log's directory. It is created if necessary, for its owner only.
        slot: A logical slot for pgoutput. Only this receiver may use it.
        publications: One publication or several.
        create: Creates the slot if it does not exist, and with `tables`, the publication.
            Changes begin there. Refused if the log has changes already: those since then
            are lost with the slot that had them.
        tables: With `create`, the tables of a new publication. An existing publication
            must have them.
        until: `"now"` ends when everything that is committed by now is in the log. Loads
            and prepared transactions that wait for somebody do not hold it: `Received.left`
            has them. Default: it never ends.
        streaming: Whether large transactions come before their commit. Default: yes, but
            not with `messages`, because in a streamed transaction, messages of rolled-back
            savepoints look like others. If you ask for both, `walrow.messages`
            marks such messages as `undecidable`.
        binary: Whether values come in binary. Refused if a published type has no send
            function: the server could never send such a value.
        messages: Whether logical messages come.
        two_phase: Whether prepared transactions come at PREPARE. They are in the log once
            they are committed.
        failover: Whether the slot is copied to standbys. From server 17.
        snapshot: With `create`, whether the log begins with a load: the rows that the
            tables have when the slot is created. Readers see later changes after it. If it
            is broken off, it starts over with a new slot.
        jobs: The number of connections that copy tables, for this load and for loads of
            `walrow.load`.
        max_hold: Cancels a load when more bytes of the stream wait for it. Default: the
            disk's size.
        origin: `"none"` skips transactions that came to the server by replication.
        age: Transactions are published for readers after this time, at least 0.1
            seconds: seconds, a timedelta, or a text such as `"10s"`.
        segment_bytes: A segment ends at this size of the stream: bytes, or a text such
            as `"64MiB"`.
        compression_level: The level of zstd, up to 22; levels below 0 are faster. 0 stores the
            stream as it is.
        spool_memory: The size of the memory that open transactions take together.
            Beyond it, they wait in files.
        spool_directory: The directory of these files. Default: the log's own.
        group_access: Whether the owner's group may read the log.
        give_up_after: A full disk, for example, is an error after this time. Until
            then, it stays connected and tries again: with `math.inf`, for ever.
        start_within: The time within which a server must be reached for the first time. Until
            then, it is tried again if the server is not reachable or starts, has no connection
            left, or its name is not known. A refused login, for example, is an error at
            once. Default: 600 with `until`, otherwise without end.
        retain: The retention of the log: `walrow.log.Retention(age=..., bytes=...)`. It
            is applied about once a minute, beside the writer, and at the end. See
            `Log.retain`. Default: everything.
        status: Is called about once a second.
        stop: Ends it within two seconds when set, as Ctrl-C does. Several receivers may share it.

    Returns:
        Counts of the received changes. Only with `until` or `stop`.

    Raises:
        OptionError: The options are invalid or contradict each other.
        ReplicationError: The server refused something that another attempt does not fix.
        LogError: The log belongs to another source, another process writes to it, or it
            cannot be written.
        SettingError: Something overrides a setting of the session, such as PGTZ.
    """
    if until not in {None, "now"}:
        text = f"until is {until!r}: it must be 'now', or None for no end"
        raise OptionError(text)
    age = duration(age, "age")
    give_up_after = duration(give_up_after, "give_up_after")
    if start_within is not None:
        start_within = duration(start_within, "start_within")
    segment_bytes = size(segment_bytes, "segment_bytes")
    spool_memory = size(spool_memory, "spool_memory")
    if max_hold is not None:
        max_hold = size(max_hold, "max_hold")
    for name, value, least, most in (
        ("age", age, _LEAST_AGE, _LONGEST_AGE),
        ("segment_bytes", segment_bytes, 1, _MOST_BYTES),
        ("spool_memory", spool_memory, 0, _MOST_BYTES),
        ("max_hold", max_hold, 0, _MOST_BYTES),
        ("compression_level", compression_level, *_LEVELS),
    ):
        # Not the other way round: each comparison with nan is false.
        if value is not None and not least <= value <= most:
            text = f"{name} is {value}: it must be from {least} to {most}"
            raise OptionError(text)
    if not publications:
        text = "publications is missing: name at least one"
        raise OptionError(text)
    if not create:
        _check_without_create(tables, snapshot=snapshot)
    if jobs < 1:
        text = "jobs must be at least 1"
        raise OptionError(text)
    options = {
        "streaming": streaming,
        "binary": binary,
        "messages": messages,
        "two_phase": two_phase,
        "origin": origin,
    }
    # The process may change its directory.
    directory = directory_of(log).absolute()
    writer_options = {
        "segment_bytes": segment_bytes,
        "level": compression_level or None,
        "spool_memory": spool_memory,
        "spool_directory": directory
        if spool_directory is None
        else Path(spool_directory).absolute(),
        "group_access": group_access,
    }
    psycopg_or_refuse()
    from walrow._receive.receiver import Receiver

    receiver = Receiver(
        conninfo,
        log=directory,
        slot=slot,
        publications=(publications,) if isinstance(publications, str) else publications,
        create=create,
        tables=tables,
        until=until,
        failover=failover,
        snapshot=snapshot,
        jobs=jobs,
        max_hold=max_hold,
        stream_options=options,
        writer_options=writer_options,
        age=age,
        give_up_after=give_up_after,
        start_within=_start_within(start_within, until),
        retainer=None if retain is None else Retainer(directory, retain),
        status=status,
        stop=stop or threading.Event(),
    )
    return receiver.run()


def _check_without_create(
    tables: Sequence[TableName] | None, *, snapshot: bool
) -> None:
    if tables is not None:
        text = "a publication that exists has its own tables"
        raise OptionError(text, remedies=_CREATE)
    if snapshot:
        text = "the first load begins with a slot that is created"
        raise OptionError(text, remedies=_CREATE)


def _start_within(given: float | None, until: str | None) -> float:
    if given is not None:
        return given
    return math.inf if until is None else _START_SECONDS


#: With `until`, somebody waits for the end.
_START_SECONDS = 600.0
_LEAST_AGE = 0.1
#: 30 years. A thread cannot wait longer.
_LONGEST_AGE = 1_000_000_000
_MOST_BYTES = (1 << 63) - 1
#: Those of zstd.
_LEVELS = (-131_072, 22)
_CREATE = (Remedy("create", None, value=True),)
