"""Replication commands: the system, its timelines, and replication slots."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import psycopg

from walrow import _core
from walrow._lsn import Lsn
from walrow._postgres.hints import Command
from walrow._postgres.names import check_publication_names, check_slot_name
from walrow._postgres.running import (
    check_database,
    check_replication,
    is_replication,
    literal,
    major_version,
    row_of,
    run,
)
from walrow._postgres.session import text_of
from walrow._postgres.waiting import Observer, Waiting
from walrow._results import Result, result
from walrow.errors import OptionError, ReplicationError

Snapshot = Literal["export", "nothing", "use"]


@result
class IdentifySystem(Result):
    """A server: the result of `identify_system`.

    Attributes:
        system_identifier: Identifies the cluster. Its standbys have the same.
        timeline: The current timeline.
        xlogpos: The end of the WAL that is flushed; on a standby, also replayed.
        database: The database. None on a connection for physical replication.
    """

    system_identifier: str
    timeline: int
    xlogpos: Lsn
    database: str | None


@result
class TimelineSwitch(Result):
    """The end of an earlier timeline of a server.

    Attributes:
        timeline: The timeline that ended.
        lsn: Its end. The next timeline of the history begins there.
        reason: Why it ended, in the server's words.
    """

    timeline: int
    lsn: Lsn
    reason: str


@result
class TimelineHistory(Result):
    """How a server came to a timeline: the result of `timeline_history`.

    Attributes:
        filename: The name of the history file, such as `00000002.history`.
        content: The file's bytes. Empty for timeline 1, which has no such file.
        switches: The earlier timelines with their ends, oldest first.
    """

    filename: str
    content: bytes
    switches: tuple[TimelineSwitch, ...]


@result
class PhysicalSlot(Result):
    """A physical slot: the result of `read_slot`.

    Attributes:
        restart_lsn: The oldest WAL that the slot keeps. None before its first use.
        restart_timeline: The timeline of that WAL.
    """

    restart_lsn: Lsn | None
    restart_timeline: int | None


@result
class CreatedSlot(Result):
    """A new slot: the result of `create_slot`.

    Attributes:
        name: Its name.
        consistent_point: From here on, the slot has all changes. For a physical slot,
            from here on it keeps WAL; 0/0 if that begins with its first use.
        snapshot: The exported snapshot. None if the server exported no snapshot. It
            ends with the next command on the connection.
        plugin: Its output plugin. None for a physical slot.
    """

    name: str
    consistent_point: Lsn
    snapshot: str | None
    plugin: str | None


def identify_system(conn: psycopg.Connection[Any]) -> IdentifySystem:
    """Returns which server this is, and its position.

    LSNs of two servers can be compared only if their system identifiers are equal and
    one's timeline is in the history of the other's: see `timeline_history`.

    ```python
    with psycopg.connect("dbname=shop", replication="database") as conn:
        print(walrow.postgres.identify_system(conn).xlogpos)
    ```

    Args:
        conn: A psycopg connection. On a standby, it must be a replication connection.

    Raises:
        ReplicationError: The server refused the command.
        OptionError: The connection cannot be used.
    """
    command = "IDENTIFY_SYSTEM" if is_replication(conn) else _IDENTIFY_SQL
    failed = "cannot identify the system"
    cells = row_of(run(conn, command, failed, Command.IDENTIFY))
    identifier, timeline, lsn, database = _core.parse_identify_system(cells)
    if timeline == 0:
        text = "the server is on timeline 0, which does not exist"
        raise ReplicationError(text, sqlstate="08P01")
    name = None if database is None else text_of(conn, database)
    return IdentifySystem(identifier, timeline, Lsn(lsn), name)


def timeline_history(conn: psycopg.Connection[Any], timeline: int) -> TimelineHistory:
    """Returns the timelines before this one, with their ends, and the history file.

    The first timeline has no history. A position before the end of a timeline means the
    same on the next one. Positions after it do not.

    ```python
    with psycopg.connect("dbname=shop", replication="database") as conn:
        system = walrow.postgres.identify_system(conn)
        history = walrow.postgres.timeline_history(conn, system.timeline)
        for timeline, lsn, reason in history.switches:
            print(f"timeline {timeline} ended at {lsn}: {reason}")
    ```

    Args:
        conn: A replication connection of psycopg.
        timeline: The timeline, as from `identify_system`.

    Raises:
        ReplicationError: The server does not have its history.
        OptionError: The connection cannot be used, or the timeline is not positive.
    """
    check_replication(conn, "TIMELINE_HISTORY")
    if not 0 < timeline < 1 << 32:
        raise OptionError("a timeline is a number from 1 to 4294967295")
    if timeline == 1:
        # The server has no history file for it, and would report that as an error.
        return TimelineHistory("00000001.history", b"", ())
    command = _core.timeline_history_command(timeline)
    failed = f"cannot read the history of timeline {timeline}"
    cells = row_of(run(conn, command, failed, Command.TIMELINE_HISTORY))
    filename, content, rows = _core.parse_timeline_history(cells)
    if not rows or rows[-1][0] >= timeline:
        text = f"{failed}: the server sent the history of another timeline"
        raise ReplicationError(text, sqlstate="08P01")
    return TimelineHistory(
        text_of(conn, filename),
        content,
        tuple(
            TimelineSwitch(it, Lsn(end), text_of(conn, why)) for it, end, why in rows
        ),
    )


def create_slot(
    conn: psycopg.Connection[Any],
    name: str,
    *,
    plugin: str = "pgoutput",
    temporary: bool = False,
    snapshot: Snapshot = "nothing",
    two_phase: bool = False,
    failover: bool = False,
    progress: Callable[[Waiting], None] | None = None,
) -> CreatedSlot:
    """Creates a logical replication slot.

    The server waits until all transactions that write, in any database, have ended.
    `progress=` reports them. Ctrl-C cancels the command, and leaves no slot.

    ```python
    with psycopg.connect("dbname=shop", replication="database") as conn:
        slot = walrow.postgres.create_slot(conn, "shop", progress=print)
        print(slot.consistent_point)
    ```

    Args:
        conn: A psycopg connection. A snapshot needs a replication connection.
        name: The name: lower-case letters, digits and underscores.
        plugin: The output plugin. walrow reads pgoutput.
        temporary: Whether the slot ends with the connection, or with any error on it.
        snapshot: `"export"` returns the name of a snapshot of the tables as of the
            slot's start, which other sessions can import with SET TRANSACTION SNAPSHOT
            until the connection's next command. `"use"` gives it to the transaction in
            which the command is the first one.
        two_phase: Whether prepared transactions are sent at PREPARE. From server 15.
        failover: Whether the slot is copied to standbys. From server 17.
        progress: Is called every few seconds while the server waits, with the open
            transactions, which are read on a second connection. If it raises, the
            command is canceled.

    Raises:
        ReplicationError: The server refused the command: the slot exists, all slots are
            in use, the role lacks a privilege.
        OptionError: The server's version lacks an option, or the connection cannot be
            used.
    """
    check_slot_name(name)
    command = _core.create_slot_command(
        major_version(conn),
        name,
        plugin=plugin,
        temporary=temporary,
        snapshot=snapshot,
        two_phase=two_phase,
        failover=failover,
    )
    if is_replication(conn):
        check_database(conn, "a logical slot")
    else:
        if snapshot != "nothing":
            check_replication(conn, f"snapshot={snapshot!r}")
        command = _create_sql(conn, name, plugin, temporary, two_phase, failover)
    failed = f'cannot create slot "{name}"'
    # A cancel may come too late.
    undo = _drop_text(conn, name)
    with contextlib.closing(Observer(conn)) as observer:
        tick = None if progress is None else _reporter(observer, progress)
        result = run(
            conn, command, failed, Command.CREATE_SLOT, slot=name, tick=tick, undo=undo
        )
    return _created(conn, row_of(result))


def create_physical_slot(
    conn: psycopg.Connection[Any],
    name: str,
    *,
    temporary: bool = False,
    reserve_wal: bool = False,
) -> CreatedSlot:
    """Creates a physical replication slot: the server then keeps WAL for a client.

    ```python
    with psycopg.connect("dbname=shop", replication="true") as conn:
        walrow.postgres.create_physical_slot(conn, "backup", reserve_wal=True)
    ```

    Args:
        conn: A psycopg connection of any kind.
        name: The name: lower-case letters, digits and underscores.
        temporary: Whether the slot ends with the connection, or with any error on it.
        reserve_wal: Whether WAL is kept from now on, and not from the first use on.

    Raises:
        ReplicationError: The server refused the command: the slot exists, all slots are
            in use, the role lacks a privilege.
        OptionError: The connection cannot be used.
    """
    check_slot_name(name)
    command = _core.create_physical_slot_command(
        major_version(conn), name, temporary=temporary, reserve_wal=reserve_wal
    )
    if not is_replication(conn):
        command = _create_physical_sql(name, reserve_wal, temporary)
    failed = f'cannot create slot "{name}"'
    undo = _drop_text(conn, name)
    result = run(conn, command, failed, Command.CREATE_SLOT, slot=name, undo=undo)
    return _created(conn, row_of(result))


def read_slot(conn: psycopg.Connection[Any], name: str) -> PhysicalSlot | None:
    """Returns the position of a physical slot, or None if there is no such slot.

    From server 15. `slots` has more about all slots, but needs a connection for SQL.

    Args:
        conn: A replication connection of psycopg.
        name: The slot.

    Raises:
        ReplicationError: The slot is a logical slot, or the role lacks a privilege.
        OptionError: The server's version lacks the command, or the connection cannot be
            used.
    """
    check_replication(conn, "READ_REPLICATION_SLOT")
    check_slot_name(name)
    command = _core.read_slot_command(major_version(conn), name)
    failed = f'cannot read slot "{name}"'
    found = _core.parse_read_slot(
        row_of(run(conn, command, failed, Command.READ_SLOT, slot=name))
    )
    if found is None:
        return None
    lsn, timeline = found
    return PhysicalSlot(None if lsn is None else Lsn(lsn), timeline)


def _created(conn: psycopg.Connection[Any], cells: list[bytes | None]) -> CreatedSlot:
    found, lsn, exported, used = _core.parse_created_slot(cells)
    return CreatedSlot(
        text_of(conn, found),
        Lsn(lsn),
        None if exported is None else text_of(conn, exported),
        None if used is None else text_of(conn, used),
    )


def _reporter(
    observer: Observer, waiting: Callable[[Waiting], None]
) -> Callable[[float], None]:
    """Reports after the first seconds, then less often."""
    due = _REPORT_SECONDS

    def tick(seconds: float) -> None:
        nonlocal due
        if seconds >= due:
            due = seconds + _REPORT_SECONDS
            waiting(observer.look(seconds))

    return tick


def drop_slot(conn: psycopg.Connection[Any], name: str, *, wait: bool = False) -> None:
    """Drops a replication slot. The changes that it has kept are lost.

    Args:
        conn: A psycopg connection.
        name: The slot.
        wait: Whether to wait while another process uses the slot. Needs a replication
            connection. Otherwise that is an error.

    Raises:
        ReplicationError: The server refused the command: there is no such slot, or it
            is in use.
        OptionError: The connection cannot be used.
    """
    if wait:
        check_replication(conn, "wait=True")
    check_slot_name(name)
    command = _drop_text(conn, name, wait=wait)
    run(conn, command, f'cannot drop slot "{name}"', Command.DROP_SLOT, slot=name)


def alter_slot(
    conn: psycopg.Connection[Any],
    name: str,
    *,
    failover: bool | None = None,
    two_phase: bool | None = None,
) -> None:
    """Changes a replication slot that no process uses. From server 17.

    Args:
        conn: A replication connection of psycopg.
        name: The slot.
        failover: Whether the slot is copied to standbys. Default: as it is.
        two_phase: Whether prepared transactions are sent at PREPARE. From server 18.
            Default: as it is.

    Raises:
        ReplicationError: The server refused the command: there is no such slot, or it
            is in use.
        OptionError: The server's version lacks the command or an option, nothing
            changes, or the connection cannot be used.
    """
    check_replication(conn, "ALTER_REPLICATION_SLOT")
    if failover is None and two_phase is None:
        raise OptionError("alter_slot changes nothing: pass failover= or two_phase=")
    check_slot_name(name)
    command = _core.alter_slot_command(
        major_version(conn), name, failover=failover, two_phase=two_phase
    )
    run(conn, command, f'cannot change slot "{name}"', Command.ALTER_SLOT, slot=name)


def start_replication_command(
    slot: str,
    start: int | str | Lsn,
    options: Mapping[str, str | int | bool | Sequence[str] | None],
) -> str:
    """Writes the command that starts the stream of a logical slot.

    >>> from walrow import postgres
    >>> options = {"proto_version": 1, "publication_names": ["shop", "Été"]}
    >>> print(postgres.start_replication_command("shop", "0/0", options))
    START_REPLICATION SLOT "shop" LOGICAL 0/0 ("proto_version" '1', "publication_names" '"shop","Été"')

    Args:
        slot: The slot.
        start: Where to start. The server never starts before the slot's confirmed
            position; 0/0 starts there.
        options: The plugin's options. A bool is written as `true` or `false`, None is
            left out, and with `()`, an option has no value. `publication_names` is one name
            or several, unquoted.

    Raises:
        OptionError: A text contains a NUL character, or a name is too long.
        TypeError: An option has another type.
        ValueError: The start is not an LSN.
    """
    check_slot_name(slot)
    publications = options.get("publication_names")
    names = [publications] if isinstance(publications, str) else publications
    if isinstance(names, Sequence):
        check_publication_names(map(str, names))
    return _core.start_replication_command(slot, Lsn(start), dict(options))


def _drop_text(conn: psycopg.Connection[Any], name: str, *, wait: bool = False) -> str:
    command = _core.drop_slot_command(name, wait=wait)
    if is_replication(conn):
        return command
    return f"SELECT pg_catalog.pg_drop_replication_slot({literal(name)})"


def _create_sql(
    conn: psycopg.Connection[Any],
    name: str,
    plugin: str,
    *flags: bool,
) -> str:
    """The function for connections that accept only SQL."""
    # Each version has the parameters for its options, and options are checked before.
    count = 2 if major_version(conn) < _FAILOVER_SINCE else 3
    words = [literal(name), literal(plugin), *map(str, flags[:count])]
    return (
        f"SELECT slot_name, lsn, NULL, {literal(plugin)}"  # noqa: S608
        f" FROM pg_catalog.pg_create_logical_replication_slot({', '.join(words)})"
    )


def _create_physical_sql(name: str, *flags: bool) -> str:
    words = ", ".join([literal(name), *map(str, flags)])
    return (
        "SELECT slot_name, COALESCE(lsn, '0/0'), NULL, NULL"  # noqa: S608
        f" FROM pg_catalog.pg_create_physical_replication_slot({words})"
    )


_REPORT_SECONDS = 3.0
_FAILOVER_SINCE = 17

# The name of the current WAL file begins with the timeline, in hexadecimal.
_IDENTIFY_SQL = """
SELECT system_identifier,
    ('x' || substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8))
        ::bit(32)::bigint,
    pg_catalog.pg_current_wal_flush_lsn(),
    pg_catalog.current_database()
FROM pg_catalog.pg_control_system()
"""
