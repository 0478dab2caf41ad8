"""Reads the catalog again for relations that a log may not describe, beside the stream."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._workers import answered
from walrow.errors import Error, OptionError, ReplicationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from concurrent.futures import Future

    import psycopg

    from walrow._core import Catalog

__all__ = ["CatalogReader", "first_catalog", "read_catalog"]


def read_catalog(
    conn: psycopg.Connection[Any],
    *,
    given: dict[str, Any],
    publications: Sequence[str],
) -> Catalog:
    """Reads the catalog for publications, and waits for locks only shortly.

    Args:
        conn: A connection with autocommit.
        given: The parameters of another connection, which asks who has a lock.
        publications: The publications.

    Raises:
        ReplicationError: It cannot be read. If somebody has a lock, it says who.
    """
    import psycopg

    from walrow._postgres.catalog import catalog
    from walrow._postgres.locks import waiting_shortly
    from walrow._postgres.server_errors import copy_error, replication_error

    failed = "the catalog cannot be read"
    try:
        with waiting_shortly(conn, {**given, "connect_timeout": 5}, failed):
            try:
                return catalog(conn, publications=publications)
            except OptionError:
                # A publication that does not exist is named by the preflight.
                return catalog(conn, publications=())
    except psycopg.Error as error:
        # The server's message may have a part of a name or a default.
        describe = replication_error if error.sqlstate is None else copy_error
        hint = "the server's log says more"
        raise describe(error, failed, hint=hint) from error


def first_catalog(
    read: Callable[[], Future[Catalog]],
) -> tuple[Catalog | None, ReplicationError | None]:
    """The catalog, or why a stream begins without it: a lock may last for long."""
    from walrow._postgres.failures import LOCK_NOT_AVAILABLE, QUERY_CANCELED

    try:
        return read().result(), None
    except ReplicationError as error:
        if error.sqlstate not in {LOCK_NOT_AVAILABLE, QUERY_CANCELED}:
            raise
        return None, error


class _Relation(NamedTuple):
    schema: str
    name: str
    types: list[int]


class CatalogReader:
    """Has the catalog read beside the stream: a lock on a table may delay it for long.

    One thread begins it, takes the catalog that was read, and does the rest.

    Attributes:
        trouble: Why it cannot be read, until it can.
        times: How often it was read.
    """

    def __init__(
        self,
        read: Callable[[], Future[Catalog]],
        known: Catalog,
        *,
        failure: Error | None,
        answered: Callable[[], None],
    ) -> None:
        """Stores the arguments.

        Args:
            read: Begins to read the catalog.
            known: The log's definition of it.
            failure: Why it could not be read before. It is tried again then.
            answered: Is called when there is something to take.
        """
        self._read = read
        self._known = _relations_of(known)
        self._answered = answered
        self.trouble: str | None = None
        self.times = 0
        self._is_asked = False
        #: Relations that the log does not describe, since the last reading began.
        self._unknown: dict[int, _Relation] = {}
        self._due = 0.0
        self._doubt_due = math.inf
        self._began: float | None = None
        self._is_urgent = self._is_outdated = False
        self._answer: Future[Catalog] | None = None
        if failure is not None:
            self._fail(failure)

    @property
    def due(self) -> float:
        """When there is something to do, if nothing happens before."""
        if self._began is not None:
            return 0.0 if self._has_answer else math.inf
        return self._due if self._is_wanted else max(self._due, self._doubt_due)

    @property
    def is_awaited(self) -> bool:
        """Whether a segment lacks something without it. Nothing waits while it cannot be read."""
        return self.trouble is None and (self._is_wanted or self._is_urgent)

    def awaited_until(self, seconds: float) -> float:
        """Until when a segment waits for it, if a reading may take these seconds."""
        if self._began is None or self._has_answer or not self.is_awaited:
            return 0.0
        return self._began + seconds

    def ask(self) -> None:
        """Has it read again, as soon as it is time."""
        self._is_asked = True

    def see(self, relations: Iterable[tuple[int, str, str, list[int]]]) -> None:
        """Takes relation versions that are new in the stream."""
        for oid, schema, name, types in relations:
            relation = _Relation(schema, name, types)
            if self._known.get(oid) != relation:
                self._unknown[oid] = relation
            # Names of columns and the key may differ all the same. Others come soon after a start.
            doubt_due = time.monotonic() + _DOUBT_SECONDS
            self._doubt_due = min(self._doubt_due, doubt_due)

    def begin_if_due(self, *, is_ending: bool) -> None:
        """Begins to read, if it is time.

        Args:
            is_ending: Whether the log is about to be closed. The next receiver reads the catalog
                at its start: then no doubt delays the end.
        """
        now = time.monotonic()
        is_doubted = not is_ending and now >= self._doubt_due
        if self._began is not None or now < self._due:
            return
        if self._is_wanted or is_doubted:
            self._began, self._is_urgent = now, self._is_wanted
            self._is_asked, self._doubt_due = False, math.inf
            self._unknown.clear()
            self._answer = self._read()
            self._answer.add_done_callback(lambda _: self._answered())

    def wait(self, seconds: float) -> None:
        """Waits for the end of the current reading, at most so long."""
        if self._answer is not None:
            answered(self._answer, seconds)

    def outdate(self) -> None:
        """The current reading is older than the catalog that the log gets now."""
        self._is_outdated = self._began is not None

    def take(self) -> Catalog | None:
        """Returns the catalog that was read, once. Raises what no other attempt mends."""
        answer = self._answer
        if answer is None or not answer.done():
            return None
        self._answer = self._began = None
        self._is_urgent = False
        is_outdated, self._is_outdated = self._is_outdated, False
        try:
            found = answer.result()
        except Error as error:
            self._fail(error)
            return None
        self.trouble = None
        if is_outdated:
            self.ask()
            return None
        self._due = time.monotonic() + _CATALOG_SECONDS
        return found

    def know(self, catalog: Catalog, *, is_first: bool = False) -> None:
        """Notes that the log has this catalog, which was read, or was there first."""
        self.times += not is_first
        self._known = _relations_of(catalog)
        # Relations that came meanwhile.
        self._unknown = {
            oid: relation
            for oid, relation in self._unknown.items()
            if self._known.get(oid) != relation
        }

    @property
    def _is_wanted(self) -> bool:
        return self._is_asked or bool(self._unknown)

    def _fail(self, failure: Error) -> None:
        self.trouble = f"{failure}. Rows go on; new tables and types are described when it can be read"
        self.ask()
        self._due = time.monotonic() + _RETRY_SECONDS

    @property
    def _has_answer(self) -> bool:
        return self._answer is not None and self._answer.done()


def _relations_of(catalog: Catalog) -> dict[int, _Relation]:
    tables: list[dict[str, Any]] = json.loads(catalog.to_json()).get("tables", [])
    return {
        table["oid"]: _Relation(
            table["schema"],
            table["name"],
            [column["type"] for column in table["columns"]],
        )
        for table in tables
    }


_CATALOG_SECONDS = 10.0
_RETRY_SECONDS = 2.0
#: A definition that may have changed is read after this time, with others that come meanwhile.
_DOUBT_SECONDS = 1.0
