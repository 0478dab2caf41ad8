"""Finds tables of a log that are incomplete, because the stream lacks some of their changes.

The receiver compares now and then what publications have with what they had: `load_needed` keeps
that. A load makes a table whole again.
"""

from __future__ import annotations

import contextlib
import shlex
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from walrow._core import LogObjects
from walrow._log.marks import LASTING, Mark, Why
from walrow._log.needs import read_record, write_published
from walrow._log.published import Published
from walrow._log.questions import first_row, truncates, versions_between
from walrow._log.requests import request
from walrow._lsn import Lsn
from walrow._postgres import published
from walrow._postgres.births import with_births
from walrow._postgres.connecting import connect_for_sql
from walrow._postgres.preflight.finding import listed
from walrow._postgres.printed_names import printed_names
from walrow._postgres.published import PublishedTable, Stamps
from walrow._postgres.running import literal
from walrow._postgres.slot_positions import position_after
from walrow._receive.askers import Asker
from walrow._receive.disk_states import LogEnds
from walrow._receive.marks import (
    Look,
    Questions,
    after_load,
    after_look,
    after_names,
    at_beginning,
    settled,
)
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
    ) -> None:
        """Stores the arguments.

        Args:
            given: The connection parameters.
            asker: Asks the server.
            log: The log's directory.
            publications: The publications.
            note: Is called with messages for the user.
            aged: Is called when a type was altered, so that the log needs the catalog again.
        """
        self._given = {**given, "connect_timeout": 5}
        self._asker = asker
        self._log = log
        self._publications = publications
        self._note, self._aged = note, aged
        self._lock = threading.Lock()
        self._due = 0.0
        self._seen = -1
        self._is_damaged = False
        self._answer: Future[None] | None = None
        self._generation = 0
        #: The stamps of the last look. None in a new process, which looks at everything.
        self._stamps: Stamps | None = None
        self._look: Look | None = None
        #: The open marks of tables that were looked at for rows.
        self._asked: dict[int, list[Mark]] = {}

    def look(self, ends: LogEnds, catalogs: int, *, is_other: bool) -> None:
        """Compares in the background, if it is time, or the catalog was read again.

        Args:
            ends: The ends of the log.
            catalogs: How often the catalog was read.
            is_other: Whether the server has other positions in SQL.
        """
        now = time.monotonic()
        if now < self._due and catalogs == self._seen:
            return
        if self._answer is None or self._answer.done():
            self._due, self._seen = now + _LOOK_SECONDS, catalogs
            compare = partial(self._compare_if_possible, ends, is_other)
            self._answer = self._asker.ask(compare)

    def begin(self, snapshot: str, start: Lsn) -> None:
        """Records what a log lacks that begins with a slot, and not with a load.

        Args:
            snapshot: The snapshot of the slot's start, which another connection has
                exported.
            start: The slot's start.
        """
        try:
            self._begin(snapshot, start)
        except (Error, OSError) as error:
            self._note(
                "warning: it is not known which tables had rows before the slot was "
                f"created, and need a load: {error}"
            )

    def _begin(self, snapshot: str, start: Lsn) -> None:

        with connect_for_sql(self._given) as conn, conn.transaction():
            conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            conn.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot)}".encode())
            conn.execute("SET LOCAL lock_timeout = '2s'")
            conn.execute("SET LOCAL statement_timeout = '10s'")
            tables = published.published_tables(conn, self._publications, sized=False)
            lacking = published.with_rows(conn, tables)
        record = at_beginning(tables, lacking, self._publications, start)
        self._store(record._replace(marks={}), record)

    def look_last(self, ends: LogEnds, *, is_other: bool) -> Future[Lsn]:
        """Compares before the end. The answer is a position of the stream behind the look."""

        def compare(conn: psycopg.Connection[Any]) -> Lsn:
            while not self._compare(ends, is_other, conn):
                pass
            return position_after(conn, self._given, is_other=is_other)

        return self._asker.ask(compare)

    def settle(self, durable: Lsn) -> None:
        """Compares what the looks have left open with the log, which is published up to here.

        Raises:
            LogError: It cannot be read, or the record is damaged.
        """
        with self._lock:
            before = self._record()
            self._store(before, self._compared(before, durable, durable))

    def loaded(self, tables: Sequence[PublishedTable], point: Lsn) -> None:
        """Tables are whole again, as they were at this LSN."""
        with self._lock:
            before = self._record()
            write_published(self._log, after_load(before, tables, point, self._look))
            # What was read before the load is not compared with what it has.
            self._generation += 1
            self._due, self._stamps = 0.0, None

    def _record(self) -> Published:
        """The record. An accepted mark is not open, so the same event gets a new one."""
        return read_record(self._object)

    def _object(self, name: str) -> bytes:
        return LogObjects(self._log).read(name)[0]

    def _compare_if_possible(
        self,
        ends: LogEnds,
        is_other: bool,  # noqa: FBT001 -- of a partial
        conn: psycopg.Connection[Any],
    ) -> None:
        try:
            self._compare(ends, is_other, conn)
        except LogError as error:
            # After another error, the next look tries again.
            if error.code == "damaged" and not self._is_damaged:
                self._is_damaged = True
                text = f"tables that need a load are no longer found: {error}"
                self._note(f"warning: {text}")
        except (Error, OSError):
            # The next look tries again.
            pass

    def _compare(
        self,
        ends: LogEnds,
        is_other: bool,  # noqa: FBT001 -- as above
        conn: psycopg.Connection[Any],
    ) -> bool:
        """Returns whether no load has come between."""
        generation = self._generation
        # Before the tables: what changes meanwhile moves the next ones.
        stamps = published.stamps(conn, self._publications)
        before, look = self._stamps, None
        record, tables = self._record(), []
        moved = None if before is None else stamps.moved(before)
        if moved is None or moved:
            names = self._publications
            tables = published.published_tables(conn, names, sized=False, oids=moved)
            if record.tables is not None:
                earlier = record.publications or names
                tables = with_births(conn, names, earlier, tables, record.parts())
            seen = position_after(conn, self._given, is_other=is_other)
            look = Look(tables, names, ends.durable, seen, moved)
        known = [
            it
            for table in (record.tables or {}).values()
            for it in table.get("names", ())
        ]
        types = {*known, *(it for table in tables for it in table.names)}
        printed = printed_names(conn, types)
        with self._lock:
            if generation != self._generation:
                return False
            self._take(look, ends, printed)
            self._stamps = stamps
        self._request_empty(conn)
        return True

    def _request_empty(self, conn: psycopg.Connection[Any]) -> None:
        """Requests loads of the tables that need one and are empty: no row is copied."""
        asked, marks = self._asked, self._record().marks
        self._asked = {
            oid: [mark for mark in each if mark.is_open] for oid, each in marks.items()
        }
        new = [
            it
            for it in (() if self._look is None else self._look.tables)
            if (open_ := self._asked.get(it.oid))
            and open_ != asked.get(it.oid)
            # Its next rows would need another load.
            and LASTING.isdisjoint(mark.code for mark in open_)
        ]
        if not new:
            return
        with conn.transaction():
            conn.execute("SET LOCAL lock_timeout = '100ms'")
            conn.execute("SET LOCAL statement_timeout = '2s'")
            filled = published.with_rows(conn, new)
        if empty := [it.name for it in new if it.oid not in filled]:
            request(self._log, empty)

    def _take(
        self,
        look: Look | None,
        ends: LogEnds,
        names: Mapping[str, Mapping[str, int]],
    ) -> None:
        before = self._record()
        after = after_names(before, names)._replace(last=ends.last)
        if look is None:
            after = after._replace(position=ends.durable)
        else:
            after = after_look(after, look)
            self._look = look if self._look is None else look.joined(self._look)
        # If the log cannot be read now, the next look tries again.
        with contextlib.suppress(Error, OSError):
            after = self._compared(after, ends.durable, ends.readable)
        self._store(before, after)

    def _compared(self, record: Published, durable: Lsn, readable: Lsn) -> Published:
        """Compares what waits for the log with the log."""
        log = Log(self._log)
        # To count the rows of each table, all segments are read.
        tables = {it.oid: it for it in log.tables()} if record.young else {}
        questions = Questions(
            partial(truncates, log._log),
            partial(first_row, log._log),
            partial(versions_between, log._log),
        )
        return settled(record, tables, max(log.end, readable), durable, questions)

    def _store(self, before: Published, after: Published) -> None:
        """Stores a record, and notes its new marks."""
        write_published(self._log, after)
        by_reasons: dict[str, list[str]] = {}
        for oid, marks in after.marks.items():
            known = before.marks.get(oid, [])
            if new := [mark for mark in marks if mark not in known and mark.is_open]:
                name = (after.tables or {}).get(oid, {}).get("name", f"OID {oid}")
                reasons = "; ".join(mark.reason for mark in new)
                by_reasons.setdefault(reasons, []).append(name)
                if any(mark.code == Why.TYPE for mark in new):
                    self._aged()
        for reasons, names in by_reasons.items():
            self._note(_said(names, reasons, self._log))


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
