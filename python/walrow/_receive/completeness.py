"""Finds tables of a log that are incomplete, because the stream lacks some of their changes.

The receiver compares now and then what publications have with what they had: `load_needed` keeps
that. A load makes a table whole again.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from functools import cache, partial
from pathlib import Path
from typing import Any

import psycopg

from walrow._core import LogObjects
from walrow._log.marks import LASTING, Gap, Mark, Why, needs_of
from walrow._log.needs import read_record, write_published
from walrow._log.published import Published
from walrow._log.questions import first_row, truncates, uses, versions_between
from walrow._log.requests import request
from walrow._log.told import PREFIX, Message, told_by
from walrow._lsn import Lsn
from walrow._postgres import published
from walrow._postgres.births import with_births
from walrow._postgres.connecting import connect_for_sql
from walrow._postgres.ddl_trigger import (
    Absent,
    Broken,
    Trigger,
    Working,
    trigger_state,
)
from walrow._postgres.preflight.finding import listed
from walrow._postgres.printed_names import printed_names, renamed_since
from walrow._postgres.published import PublishedTable, Remains, Stamps
from walrow._postgres.running import literal
from walrow._postgres.slot_positions import position_after
from walrow._receive.askers import Asker
from walrow._receive.disk_states import LogEnds
from walrow._receive.looks import Look, with_parts
from walrow._receive.marks import (
    Questions,
    absent,
    across,
    after_load,
    after_look,
    after_names,
    as_at_slot,
    at_beginning,
    settled,
    unchanged_names,
    with_names,
)
from walrow._receive.told import Heard, after_messages, first_place, unmoved
from walrow._results import counted
from walrow.errors import Error, LogError
from walrow.log import Log


class Completeness:
    """Compares, beside the stream, the published tables with the record of the last look."""

    def __init__(
        self,
        given: dict[str, Any],
        *,
        asker: Asker,
        log: Path,
        publications: Sequence[str],
        note: Callable[[str], None],
        aged: Callable[[], None],
        trigger: Callable[[bool], None],
        is_other: Callable[[], bool],
    ) -> None:
        """Stores the arguments.

        A type that was altered calls `aged`: the log needs the catalog again. `trigger` hears whether
        the database has an event trigger of walrow. `is_other` is whether the server's SQL functions
        return other LSNs than its stream has.
        """
        self._given = {**given, "connect_timeout": 5}
        self._asker = asker
        self._log = log
        self._publications = publications
        self._note, self._aged, self._tell_trigger = note, aged, trigger
        self._is_other = is_other
        self._lock = threading.Lock()
        self._due = 0.0
        self._seen = -1
        self._is_damaged = False
        self._answer: Future[None] | None = None
        self._generation = 0
        #: The stamps of the last look. None in a new process, which looks at everything.
        self._stamps: Stamps | None = None
        self._look: Look | None = None
        self._logged: dict[int, tuple[str, str, Lsn]] = {}
        #: The end of the log when it was read for them.
        self._read = Lsn(0)
        #: The open marks of tables that were looked at for rows.
        self._asked: dict[int, list[Mark]] = {}
        #: The entries of publications before the slot was made.
        self._entries: set[published.Membership] = set()
        self._trigger: Trigger = Absent()
        self._has_read = False
        self._has_exceptions = False

    def look(self, ends: LogEnds, catalogs: int) -> None:
        """Compares in the background, if it is time, or the catalog was read again."""
        now = time.monotonic()
        if now < self._due and catalogs == self._seen:
            return
        if self._answer is None or self._answer.done():
            self._due, self._seen = now + _LOOK_SECONDS, catalogs
            compare = partial(self._compare_if_possible, ends)
            self._answer = self._asker.ask(compare)

    def begin_unknown(self) -> None:
        """Records that any table may lack rows, before the slot is made that a log begins with."""
        write_published(self._log, Published({}, Lsn(0), []))
        with contextlib.suppress(Error), connect_for_sql(self._given) as conn:
            tables = published.published_tables(conn, self._publications)
            self._entries = published.entries_of(tables)

    def begin_with_slot(self, start: Lsn, xmin: int | None) -> None:
        """Records where a log begins whose slot exists, before the slot is confirmed further."""
        before = self._record()
        # Behind a gap, all tables are loaded.
        if before.tables is None and not before.gaps:
            begun = Published(None, start, self._publications, horizon=xmin)
            write_published(self._log, begun)

    def has_begun(self, start: Lsn | None) -> bool:
        """Whether the log has begun with a slot at this position, although it may still be empty."""
        before = self._record()
        return before.tables is not None or before.position == start

    def begin(self, snapshot: str, start: Lsn) -> None:
        """Records what a log lacks that begins with a slot, whose start has a snapshot."""
        try:
            with connect_for_sql(self._given) as conn, conn.transaction():
                conn.execute(
                    "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"
                )
                conn.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot)}".encode())
                conn.execute("SET LOCAL statement_timeout = '10s'")
                names = self._publications
                tables = published.published_tables(conn, names)
                lacking = published.with_rows(conn, tables)
                types = with_parts(it for table in tables for it in table.names)
                printed = printed_names(conn, types)
                next_xid = published.next_xid(conn)
            # A transaction that is still open may have written rows before a new entry existed.
            lacking |= {
                it.oid for it in tables if not self._entries.issuperset(it.memberships)
            }
            self.begin_without(tables, lacking, start, printed, next_xid)
        except (Error, OSError) as error:
            self._note(
                "warning: it is not known which tables had rows before the slot was "
                f"created: each table with rows needs a load: {error}"
            )

    def begin_without(
        self,
        tables: Sequence[PublishedTable],
        lacking: Collection[int],
        start: Lsn,
        names: Mapping[str, Mapping[str, int]],
        next_xid: int | None = None,
    ) -> None:
        """Records a log that begins without the rows that some of its tables have then."""
        record = at_beginning(tables, lacking, self._publications, start)
        record = record._replace(names=names, next_xid=next_xid)
        self._store(record._replace(marks={}), record)

    def cross(self, gap: Gap) -> None:
        """Records that no table is whole, before the log crosses a gap, and requests a load of all."""
        with self._lock:
            before = self._record()
            # An attempt that has failed before the log has crossed it.
            if not any(it.start == gap.start for it in before.gaps):
                request(self._log, None)
            logged: Collection[int] = ()
            # An empty log may not be there yet.
            with contextlib.suppress(Error, OSError):
                logged = self._read_log(Log(self._log))
            self._store(before, across(before, gap, logged))
            # A look that has begun may have seen the tables before.
            self._look_anew()

    def files(self) -> list[int]:
        """The OIDs of the tables and partitions that a look has seen."""
        return [part for _, part in self._record().parts()]

    def look_last(self, ends: LogEnds) -> Future[Lsn]:
        """Compares before the end. The answer is a position of the stream behind the look."""

        def compare(conn: psycopg.Connection[Any]) -> Lsn:
            while not self._compare(ends, conn):
                pass
            return position_after(conn, self._given, is_other=self._is_other())

        return self._asker.ask(compare)

    def settle(self, durable: Lsn, message: Lsn | None) -> None:
        """Compares what the looks have left open with the log, which is published up to here."""
        log, ends = Log(self._log), LogEnds(durable, durable, Lsn(0), message)
        logged, record = self._read_log(log), self._record()
        oids = absent(record, (), (), logged)
        gone: dict[int, Remains | None] = {}
        if record.tables is not None and oids:
            # Without an answer, the next look asks again.
            with contextlib.suppress(Error, OSError):
                gone = self._asker.ask(partial(self._gone, oids=oids)).result()
        with self._lock:
            before = self._record()
            at, names = before.position, self._publications
            look = Look((), names, at, before.seen, (), gone, logged)
            after = after_look(before, look) if gone else before
            # That look has not asked for the event trigger, for locks or for transactions.
            after = after._replace(
                told=before.told, noticed=before.noticed, next_xid=before.next_xid
            )
            self._store(before, self._settled(after, log, ends, is_last=True))

    def _gone(
        self, conn: psycopg.Connection[Any], *, oids: Collection[int]
    ) -> dict[int, Remains | None]:
        """Asks the server for the tables among these that it does not publish."""
        names = self._publications
        there = published.published_tables(conn, names, oids=oids)
        # The next look sees the new roots.
        new = [it for it in there if it.oid not in (self._record().tables or {})]
        parts = {part.oid for it in new for part in it.parts}
        oids = {*oids} - parts - {it.oid for it in there}
        return published.remains_of(conn, oids)

    def loaded(
        self,
        tables: Sequence[PublishedTable],
        point: Lsn,
        printed: Mapping[str, Mapping[str, int]],
    ) -> None:
        """Tables are whole again, as they were at this LSN.

        Their rows have the names that the server printed then, or later.
        """
        now = printed
        if printed:
            now = {}
            # Without an answer, these tables need another load.
            with contextlib.suppress(Error, OSError):
                ask = partial(printed_names, types=printed.keys())
                now = self._asker.ask(ask).result()
        with self._lock:
            before = self._record()
            if before.tables is None:
                before = before._replace(publications=self._publications)
            after = after_load(before, tables, point, self._look)
            unchanged = unchanged_names(printed, now)
            after = with_names(after, tables, point, now, unchanged)
            write_published(self._log, after)
            # What was read before the load is not compared with what it has.
            self._look_anew()

    def _look_anew(self) -> None:
        """Drops a look that has begun, and makes the next one due."""
        self._generation += 1
        self._due, self._stamps = 0.0, None

    def _record(self) -> Published:
        """The record. An accepted mark is not open, so the same event gets a new one."""
        return read_record(lambda name: LogObjects(self._log).read(name)[0])

    def _compare_if_possible(
        self, ends: LogEnds, conn: psycopg.Connection[Any]
    ) -> None:
        try:
            self._compare(ends, conn)
        except (Error, OSError) as error:
            # After another error, the next look tries again.
            is_damaged = isinstance(error, LogError) and error.code == "damaged"
            if is_damaged and not self._is_damaged:
                self._is_damaged = True
                text = f"tables that need a load are no longer found: {error}"
                self._note(f"warning: {text}")

    def _read_log(self, log: Log) -> dict[int, tuple[str, str, Lsn]]:
        """The schema, the name and the end of the last change of each table in the log."""
        for (oid, schema, name, *_), end in uses(log._log, self._read):
            if oid not in self._logged or end >= self._logged[oid][2]:
                self._logged[oid] = (schema, name, end)
        self._read = log.end
        return self._logged

    def _compare(self, ends: LogEnds, conn: psycopg.Connection[Any]) -> bool:
        """Returns whether no load has come between."""
        generation = self._generation
        # Before the tables: what changes meanwhile moves the next ones.
        self._has_exceptions = conn.info.server_version >= _HAS_EXCEPTIONS
        self._see_trigger(trigger_state(conn))
        log, logged = None, self._logged
        # The log may not exist yet. If it cannot be read now, the next look tries again.
        with contextlib.suppress(Error, OSError):
            log = Log(self._log)
            logged = self._read_log(log)
        stamps = published.stamps(conn, self._publications)
        before, look, names = self._stamps, None, self._publications
        record, tables = self._record(), []
        moved = None if before is None else stamps.moved(before)
        come = logged.keys() - (record.tables or {}).keys() - record.left.keys()
        # A table may have come and gone between two looks.
        if moved is None or moved or come:
            tables = published.published_tables(conn, names, oids=moved)
            oids = absent(record, tables, moved, logged)
            remains = published.remains_of(conn, oids)
            others = stamps.tables.keys() - (record.tables or {}).keys()
            look = Look(
                tables,
                names,
                ends.durable,
                Lsn(0),
                moved,
                remains,
                logged,
                max(stamps.tables, default=0),
                self._stamp,
                sum(stamps.tables[oid] for oid in others),
                next_xid=published.next_xid(conn),
                horizon=stamps.horizon,
            )
            if (known := as_at_slot(record, look)).tables is not None:
                tables = with_births(
                    conn,
                    names,
                    record.publications or (),
                    tables,
                    known=known.parts(),
                    entries=record.entries(),
                    next_xid=record.next_xid,
                    horizon=known.horizon,
                )
                look = look._replace(tables=tables)
            truncated = published.locked(conn, "AccessExclusiveLock")
            look = look._replace(truncated=truncated)
        names_now, seen = look_at_names(conn, record, tables), Lsn(0)
        if look is not None or names_now[0] != record.names:
            seen = position_after(conn, self._given, is_other=self._is_other())
        if look is not None:
            look = look._replace(seen=seen)
        with self._lock:
            if generation != self._generation:
                return False
            last = self._record()
            named = after_names(last, *names_now, seen)
            after = self._taken(named, look, log, ends)
            self._store(last, after)
            self._stamps = stamps
        self._request_empty(conn, after.marks)
        return True

    @property
    def _stamp(self) -> str | None:
        return self._trigger.stamp if isinstance(self._trigger, Working) else None

    def _see_trigger(self, found: Trigger) -> None:
        if isinstance(found, Broken) and found != self._trigger:
            self._note(f"{_UNRELIABLE}: {found.why}")
        self._trigger = found
        self._tell_trigger(not isinstance(found, Absent))

    def _request_empty(
        self, conn: psycopg.Connection[Any], marks: Mapping[int, Sequence[Mark]]
    ) -> None:
        """Requests loads of the tables that need one and are empty: no row is copied."""
        asked = self._asked
        self._asked = {
            oid: [it for it in each if it.is_open and it.code.needs_load]
            for oid, each in marks.items()
        }
        new = [
            it
            for it in (() if self._look is None else self._look.tables)
            if (open_ := self._asked.get(it.oid))
            and open_ != asked.get(it.oid)
            # Its next rows would need another load. A gap has requested one of all tables.
            and {Why.GAP, *LASTING}.isdisjoint(mark.code for mark in open_)
        ]
        if not new:
            return
        with conn.transaction():
            conn.execute("SET LOCAL statement_timeout = '2s'")
            filled = published.with_rows(conn, new)
        if empty := [it.name for it in new if it.oid not in filled]:
            request(self._log, empty, is_automatic=True)

    def _taken(
        self, named: Published, look: Look | None, log: Log | None, ends: LogEnds
    ) -> Published:
        after = named._replace(last=ends.last)
        if look is None:
            told = after.told and unmoved(after.told, ends.durable, self._stamp)
            after = after._replace(position=ends.durable, told=told)
        else:
            after = after_look(after, look)
            self._look = look if self._look is None else look.joined(self._look)
        if log is not None:
            with contextlib.suppress(Error, OSError):
                return self._settled(after, log, ends, is_last=False)
        return after

    def _settled(
        self, record: Published, log: Log, ends: LogEnds, *, is_last: bool
    ) -> Published:
        """Compares what waits for the log with the log."""
        if record.told is not None:
            heard = self._heard(log, ends, first_place(record.told))
            record, silent = after_messages(record, heard._replace(is_last=is_last))
            self._has_read = True
            if silent:
                tables = record.tables or {}
                names = listed(sorted(tables[oid]["name"] for oid in silent))
                self._note(f"{_UNRELIABLE}: no message came of a change of {names}")
        # To count the rows of each table, all segments are read.
        logged = {it.oid: it for it in log.tables()} if record.young else {}
        questions = Questions(
            partial(truncates, log._log),
            partial(first_row, log._log),
            partial(versions_between, log._log),
        )
        end = max(log.end, ends.readable)
        return settled(record, logged, end, ends.durable, questions)

    def _heard(self, log: Log, ends: LogEnds, start: Lsn) -> Heard:
        if self._has_read and (ends.message or Lsn(0)) < start:
            return Heard([], ends.durable)
        # The log may have had messages before this process.
        messages = [
            Message(lsn, xid, not is_doubtful, it)
            for lsn, xid, is_doubtful, content in log._log.messages(PREFIX, start)
            if (it := told_by(content)) is not None
        ]
        commits = cache(lambda oid: truncates(log._log, oid, start))
        return Heard(messages, log.end, commits, has_exceptions=self._has_exceptions)

    def _store(self, before: Published, after: Published) -> None:
        """Stores a record, and notes its new marks."""
        write_published(self._log, after)
        by_reasons: dict[str, list[str]] = {}
        for oid, marks in after.marks.items():
            known = before.marks.get(oid, [])
            new = [mark for mark in marks if mark not in known and mark.is_open]
            name = (after.tables or {}).get(oid, {}).get("name", f"OID {oid}")
            if (reasons := needs_of(new)) is not None:
                by_reasons.setdefault(reasons, []).append(name)
            for mark in new:
                if not mark.code.needs_load:
                    remedy = mark.remedy(str(self._log), name)
                    self._note(f"{name}: {mark.reason}: {remedy}")
                if mark.code is Why.TYPE:
                    self._aged()
        for oid, left in after.left.items():
            was = before.left.get(oid)
            if left.needs_ruling and (was is None or was.why is not left.why):
                self._note(f"{left.name}: {left}: {left.remedy(str(self._log))}")
        for reasons, names in by_reasons.items():
            self._note(_said(names, reasons, self._log))


def look_at_names(
    conn: psycopg.Connection[Any], record: Published, tables: Sequence[PublishedTable]
) -> tuple[dict[str, dict[str, int]], set[str], dict[int, set[str]]]:
    """The arguments of `after_names`: what values contain of known and of other tables."""
    known = (record.tables or {}).items()
    types = {oid: {*table.get("names", ())} for oid, table in known}
    for table in tables:
        types[table.oid] = types.get(table.oid, set()).union(table.names)
    printed = printed_names(conn, with_parts(set().union(*types.values())))
    return printed, renamed_since(conn, printed, record.names), types


def _said(names: list[str], reasons: str, log: Path) -> str:
    """One line for tables that need a load for the same reasons."""
    if len(names) == 1:
        command = shlex.join(["walrow", "load", str(log), *names])
        return f"{names[0]} needs a load, because {reasons}: {command}"
    command = shlex.join(["walrow", "status", str(log)])
    return (
        f"{counted(len(names), 'table')} need a load, each because {reasons}: {listed(sorted(names))}. "
        f"{command} has the command for each"
    )


_LOOK_SECONDS = 30.0
#: From version 19 on, a publication of all tables may leave some out.
_HAS_EXCEPTIONS = 190_000
_UNRELIABLE = "warning: the event trigger of walrow is not reliable"
