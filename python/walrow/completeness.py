"""Finds tables of a log that are incomplete, because the stream lacks some of their changes.

The receiver compares now and then what publications have with what they had: `load_needed` keeps
that. A load makes a table whole again.
"""

from __future__ import annotations

import math
import threading
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from walrow.askers import Asker, is_answered
from walrow.errors import Error, LogError
from walrow.load_needed import Published, read_published, write_published
from walrow.log import Log
from walrow.young_tables import TYPE_ALTERED, YoungTable, plain_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from concurrent.futures import Future
    from pathlib import Path

    import psycopg

    from walrow.lsn import Lsn
    from walrow.postgres.published import PublishedTable

__all__ = ["Completeness"]


class Completeness:
    """Compares, beside the stream, what is published with what was published before.

    Attributes:
        is_catalog_old: Whether a type was altered, so that the log needs the catalog again.
    """

    def __init__(
        self,
        given: dict[str, Any],
        *,
        asker: Asker,
        log: Path,
        publications: Sequence[str],
        note: Callable[[str], None],
    ) -> None:
        """Stores the arguments.

        Args:
            given: The connection parameters.
            asker: Asks the server.
            log: The log's directory.
            publications: The publications.
            note: Is called with messages for the user.
        """
        self._given = {**given, "connect_timeout": 5}
        self._asker = asker
        self._log = log
        self._publications = publications
        self._note = note
        self._lock = threading.Lock()
        self._due = 0.0
        self._seen = -1
        self._is_damaged = False
        self._answer: Future[None] | None = None
        self._generation = 0
        self.is_catalog_old = False

    def look(self, durable: Lsn, catalogs: int) -> None:
        """Compares in the background, if it is time, or the catalog was read again.

        Args:
            durable: Where the log ends.
            catalogs: How often the catalog was read.
        """
        now = time.monotonic()
        if now < self._due and catalogs == self._seen:
            return
        if self._answer is None or self._answer.done():
            self._due, self._seen = now + _LOOK_SECONDS, catalogs
            self._answer = self._asker.ask(partial(self._compare, durable))

    def begin(self, snapshot: str, start: Lsn) -> None:
        """Records what a log lacks that begins with a slot, and not with a load.

        Args:
            snapshot: That of the slot's start, as another connection has exported it.
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
        from walrow.postgres.connecting import connect_for_sql
        from walrow.postgres.published import last_oid, published_tables, with_rows
        from walrow.postgres.running import literal

        with connect_for_sql(self._given) as conn, conn.transaction():
            conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            conn.execute(f"SET TRANSACTION SNAPSHOT {literal(snapshot)}".encode())
            conn.execute("SET LOCAL lock_timeout = '2s'")
            conn.execute("SET LOCAL statement_timeout = '10s'")
            last = last_oid(conn)
            tables = published_tables(conn, self._publications, sized=False)
            lacking = with_rows(conn, tables)
        marks: dict[int, list[Mark]] = {}
        for table in tables:
            if table.oid in lacking:
                reason = "it had rows before the slot was created"
                self._mark(marks, table.oid, table.name, reason, start)
        pictures = {table.oid: _picture(table, None) for table in tables}
        write_published(self._log, Published(pictures, start, last, marks, {}))

    def compare_now(self, durable: Lsn, stop: threading.Event) -> None:
        """Compares once more. All that is durable is published.

        Args:
            durable: Where the log ends.
            stop: Ends the wait for it.
        """
        answer = self._answer = self._asker.ask(partial(self._compare, durable))
        is_answered(answer, math.inf, stop)

    def loaded(self, tables: Sequence[PublishedTable], point: Lsn) -> None:
        """Tables are whole again, as they were at this LSN."""
        with self._lock:
            before = read_published(self._object)
            pictures = dict(before.tables or {})
            marks = dict(before.marks)
            young = dict(before.young)
            for table in tables:
                young.pop(table.oid, None)
                pictures[table.oid] = _picture(table, pictures.get(table.oid))
                marks[table.oid] = [
                    mark if mark.until is not None else mark._replace(until=point)
                    for mark in marks.get(table.oid, ())
                ]
            found = before._replace(tables=pictures, marks=marks, young=young)
            write_published(self._log, found)
            # What was read before the load is not compared with what it has.
            self._generation += 1
            self._due = 0.0

    def _object(self, name: str) -> bytes:
        return (self._log / name).read_bytes()

    def _compare(self, durable: Lsn, conn: psycopg.Connection[Any]) -> None:
        from walrow.postgres.published import (
            end_of_wal,
            last_oid,
            published_tables,
        )

        generation = self._generation
        try:
            # First: a relation that is created between them is looked at again.
            last = last_oid(conn)
            tables = published_tables(conn, self._publications, sized=False)
            seen = end_of_wal(conn)
            with self._lock:
                if generation == self._generation:
                    self._note_changes(tables, durable, last, seen)
        except LogError as error:
            if not self._is_damaged:
                self._is_damaged = True
                text = f"tables that need a load are no longer found: {error}"
                self._note(f"warning: {text}")
        except (Error, OSError):
            # The next look tries again.
            pass

    def _note_changes(
        self, tables: Sequence[PublishedTable], durable: Lsn, last: int, seen: Lsn
    ) -> None:
        before = read_published(self._object)
        marks = dict(before.marks)
        young = dict(before.young)
        for table in tables:
            reason = None
            if before.tables is not None:
                known = before.tables.get(table.oid)
                reason = (
                    _newness(table, before.last_oid)
                    if known is None
                    else "; ".join(_differences(known, table, before.last_oid)) or None
                )
                if known is None and reason is None:
                    young[table.oid] = YoungTable(
                        [list(column) for column in table.columns],
                        before.position,
                        seen,
                        table.has_altered_types,
                        table.dropped,
                    )
            if reason is not None and TYPE_ALTERED in reason:
                self.is_catalog_old = True
            if reason is not None:
                young.pop(table.oid, None)
                self._mark(marks, table.oid, table.name, reason, before.position)
        known_tables = before.tables or {}
        pictures = {
            table.oid: _picture(table, known_tables.get(table.oid)) for table in tables
        }
        left = self._compare_young(young, marks, pictures, durable)
        write_published(self._log, Published(pictures, durable, last, marks, left))

    def _compare_young(
        self,
        young: Mapping[int, YoungTable],
        marks: dict[int, list[Mark]],
        pictures: Mapping[int, dict[str, Any]],
        durable: Lsn,
    ) -> dict[int, YoungTable]:
        """Compares young tables with the log. Returns those to compare once more.

        Names that rows in the log have, and the table has no longer, come into its picture.
        """
        if not young:
            return {}
        try:
            log = Log(self._log)
            known = {table.oid: table for table in log.tables()}
        except (Error, OSError):
            return dict(young)
        left = {}
        for oid, table in young.items():
            found = known.get(oid)
            picture = pictures.get(oid)
            columns = table.columns if picture is None else picture["columns"]
            reason = None
            if found is not None:
                reason = table.alteration(found.versions, columns)
                if picture is not None:
                    names = {name.lower() for name in table.names(found.versions)}
                    now = {_folded(column[1]) for column in columns}
                    picture["gone"] = sorted((names | set(picture["gone"])) - now)
            if found is not None and reason is not None:
                self._mark(marks, oid, found.name, reason, table.since)
            elif (later := table.later(log.end, durable)) is not None:
                left[oid] = later
        return left

    def _mark(
        self,
        marks: dict[int, list[Mark]],
        oid: int,
        name: str,
        reason: str,
        since: Lsn,
    ) -> None:
        earlier = marks.get(oid, [])
        if all(it.until is not None for it in earlier):
            marks[oid] = [*earlier, Mark(Why.NEW, reason, since)]
            self._note(
                f"{name} needs a load, because {reason}: walrow load --log DIR {name}"
            )


def _picture(table: PublishedTable, before: Mapping[str, Any] | None) -> dict[str, Any]:
    # A load ends no name: a target with `deletes="soft"` keeps values under it.
    now = {_folded(column.quoted) for column in table.columns}
    return {
        "columns": [list(column) for column in table.columns],
        "gone": sorted(_earlier_names(before or {}, table) - now),
        "last_column": table.last_column,
        "filters": list(table.filters),
        "parts": [part.oid for part in table.parts],
        "memberships": list(table.memberships),
        "definitions": dict(table.definitions),
    }


def _earlier_names(before: Mapping[str, Any], table: PublishedTable) -> set[str]:
    """The names of columns that it does not have now, or has under another number."""
    kept = {column.number: column.quoted for column in table.columns}
    names = {
        _folded(name)
        for number, name, *_ in before.get("columns", ())
        if kept.get(number) != name
    }
    return names | set(before.get("gone", ()))


def _folded(quoted: str) -> str:
    """A name as Spark's tables know it: not by case."""
    return plain_name(quoted).lower()


def _newness(table: PublishedTable, last_oid: int) -> str | None:
    """Why a table that was not published before is not whole."""
    is_born = table.oid > last_oid and (not table.is_chosen or table.is_partition)
    return None if is_born else "it is new in the publication"


def _differences(
    before: Mapping[str, Any], table: PublishedTable, last_oid: int
) -> Iterator[str]:
    """What has happened to a table that its stream does not contain."""
    if before["filters"] != table.filters:
        yield "its row filter has changed"
    memberships = set(before["memberships"])
    if memberships and not memberships & set(table.memberships):
        yield "it was not in the publication for a while"
    parts = {part.oid: part for part in table.parts}
    attached = [
        part.quoted
        for oid, part in parts.items()
        if oid not in before["parts"] and not (oid > last_oid and part.is_born)
    ]
    if attached or set(before["parts"]) - set(parts):
        words = f": {', '.join(attached)}" if attached else ""
        yield f"partitions were attached or detached{words}"
    # A new label of an enum changes no row.
    if before["definitions"] != {
        key: text
        for key, text in table.definitions.items()
        if key in before["definitions"] or not key.startswith("label ")
    }:
        yield TYPE_ALTERED
    known = {column[0]: column for column in before["columns"]}
    earlier = _earlier_names(before, table)
    for number, name, *type_, has_default in table.columns:
        if number in known:
            _, old_name, *old_type, _ = known[number]
            if old_name != name:
                yield f"column {old_name} was renamed to {name}"
            if old_type != type_:
                yield f"column {name} has another type"
        elif number <= before["last_column"]:
            yield f"column {name} was added to the publication"
        elif _folded(name) in earlier:
            # Its Relation messages are those of the one before: readers keep the old values.
            yield f"column {name} was dropped and added again"
        elif has_default:
            yield f"column {name} was added with a value for existing rows"


_LOOK_SECONDS = 30.0
