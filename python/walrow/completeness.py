"""Which tables of a log are not whole: what happened to them is not in the stream.

The receiver keeps what publications have in the log's directory, in `_load-needed`, and compares
it now and then. A load makes a table whole again.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow.errors import Error
from walrow.log_files import write_json
from walrow.lsn import Lsn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from walrow.postgres.published import PublishedTable

__all__ = ["Completeness", "Incomplete", "incomplete_tables"]


class Incomplete(NamedTuple):
    """Why a table is not whole.

    Attributes:
        reason: What happened to it, in words.
        since: Where the receiver has noticed it.
    """

    reason: str
    since: Lsn


def incomplete_tables(log: Path) -> dict[int, Incomplete]:
    """The tables of a log that need a load, by OID."""
    _, marks = _read(log)
    return marks


class Completeness:
    """Compares, in a thread of its own, what is published with what was published before."""

    def __init__(
        self,
        given: dict[str, Any],
        *,
        log: Path,
        publications: Sequence[str],
        note: Callable[[str], None],
    ) -> None:
        """Compares nothing yet.

        Args:
            given: The connection parameters.
            log: The log's directory.
            publications: The publications.
            note: Says something to people.
        """
        self._given = {**given, "connect_timeout": 5}
        self._log = log
        self._publications = publications
        self._note = note
        self._lock = threading.Lock()
        self._due = 0.0
        self._seen = -1
        self._thread: threading.Thread | None = None

    def look(self, durable: Lsn, catalogs: int) -> None:
        """Compares in the background, if it is time, or the catalog was read again.

        Args:
            durable: Where the log ends.
            catalogs: How often the catalog was read.
        """
        now = time.monotonic()
        if now < self._due and catalogs == self._seen:
            return
        if self._thread is None or not self._thread.is_alive():
            self._due, self._seen = now + _LOOK_SECONDS, catalogs
            self._thread = threading.Thread(
                target=self._compare, args=(durable,), daemon=True
            )
            self._thread.start()

    def loaded(self, tables: Sequence[PublishedTable], point: Lsn) -> None:
        """Tables are whole again, as they were at this LSN."""
        with self._lock:
            before, marks = _read(self._log)
            for table in tables:
                before[table.oid] = _picture(table)
                if table.oid in marks and marks[table.oid].since <= point:
                    del marks[table.oid]
            _write(self._log, before, marks)

    def _compare(self, durable: Lsn) -> None:
        from walrow.postgres.connecting import connect_for_sql
        from walrow.postgres.published import published_tables

        # The next look tries again.
        with contextlib.suppress(Error, OSError), connect_for_sql(self._given) as conn:
            conn.execute("SET statement_timeout = '30s'")
            tables = published_tables(conn, self._publications, sized=False)
            self._note_changes(tables, durable)

    def _note_changes(self, tables: Sequence[PublishedTable], durable: Lsn) -> None:
        with self._lock:
            before, marks = _read(self._log)
            found = {table.oid: _picture(table) for table in tables}
            is_first = not before
            changed = dict(marks)
            for table in tables:
                known = before.get(table.oid)
                if known is None:
                    is_new = not is_first and table.is_chosen
                    reason = "it is new in the publication" if is_new else None
                else:
                    reason = _difference(known, found[table.oid])
                if reason is not None and table.oid not in marks:
                    changed[table.oid] = Incomplete(reason, durable)
                    self._note(
                        f"{table.name} needs a load, because {reason}: "
                        f"walrow load --log DIR {table.name}"
                    )
            # A table that is published no longer may come back.
            after = before | found
            if (after, changed) != (before, marks):
                _write(self._log, after, changed)


def _picture(table: PublishedTable) -> dict[str, Any]:
    return {
        "columns": [list(column) for column in table.columns],
        "filters": list(table.filters),
        "parts": sorted(part.quoted for part in table.parts)
        if len(table.parts) != 1
        else [],
    }


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> str | None:
    """What has happened to a table that its stream does not contain."""
    return "; ".join(_differences(before, after)) or None


def _differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    if before["filters"] != after["filters"]:
        yield "its row filter has changed"
    if moved := set(before["parts"]) ^ set(after["parts"]):
        yield f"partitions were attached or detached: {', '.join(sorted(moved))}"
    known = {column[0]: column for column in before["columns"]}
    last = max(known, default=0)
    for number, name, *type_, has_default in after["columns"]:
        if number in known:
            _, old_name, *old_type, _ = known[number]
            if old_name != name:
                yield f"column {old_name} was renamed to {name}"
            if old_type != type_:
                yield f"column {name} has another type"
        elif number <= last:
            yield f"column {name} was added to the publication"
        elif has_default:
            yield f"column {name} was added with a value for existing rows"


def _read(log: Path) -> tuple[dict[int, dict[str, Any]], dict[int, Incomplete]]:
    try:
        found = json.loads((log / _NEEDED).read_text(encoding="utf-8"))
        tables = {int(oid): table for oid, table in found["published"].items()}
        marks = {
            int(oid): Incomplete(str(mark["reason"]), Lsn(mark["since"]))
            for oid, mark in found["incomplete"].items()
        }
    except FileNotFoundError:
        return {}, {}
    except (ValueError, KeyError, TypeError, AttributeError):
        # It is written as a whole: somebody has changed it. The next look writes it again.
        return {}, {}
    return tables, marks


def _write(
    log: Path,
    tables: Mapping[int, dict[str, Any]],
    marks: Mapping[int, Incomplete],
) -> None:
    value = {
        "published": tables,
        "incomplete": {
            oid: {"reason": mark.reason, "since": str(mark.since)}
            for oid, mark in marks.items()
        },
    }
    temporary = log / f".walrow-{_NEEDED}"
    write_json(temporary, value)
    temporary.replace(log / _NEEDED)


_NEEDED = "_load-needed"
_LOOK_SECONDS = 30.0
