"""Decides when the catalog is read again: for relations that a log may not describe.

A lock on a table may delay the reading for long, so it goes on beside the stream. Here is no thread
and no clock.
"""

from __future__ import annotations

import enum
import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from walrow._receive.orders import Relation
from walrow.errors import Error

if TYPE_CHECKING:
    from collections.abc import Iterable

    from walrow._core import Catalog


class Purpose(enum.Enum):
    """Why the catalog is read.

    Attributes:
        WANTED: The log lacks a definition: a segment waits for it.
        DOUBTED: A definition may have changed.
    """

    WANTED = enum.auto()
    DOUBTED = enum.auto()


@dataclass(frozen=True, slots=True)
class Reading:
    """The catalog is being read."""

    since: float
    purpose: Purpose
    generation: int


class Definitions:
    """A log's definitions from a server's catalog, and the definitions that it may lack."""

    def __init__(self, known: Catalog, failure: Error | None, now: float) -> None:
        self._known = _relations_of(known)
        self.trouble: str | None = None
        self.times = 0
        #: The number of requests for it since the last reading began.
        self._requests = 0
        #: Relations that the log does not describe, since the last reading began.
        self._unknown: dict[int, Relation] = {}
        self._due = 0.0
        self._doubt_due = math.inf
        self._generation = 0
        self._reading: Reading | None = None
        if failure is not None:
            self._fail(failure, now)

    def due(self, *, is_ending: bool) -> float:
        """When a reading begins, if nothing happens before. See `begins`."""
        if self._reading is not None:
            return math.inf
        doubted = math.inf if is_ending else self._doubt_due
        return self._due if self._is_wanted else max(self._due, doubted)

    @property
    def is_awaited(self) -> bool:
        """Whether a segment lacks something without it. Nothing waits while it cannot be read."""
        reading = self._reading
        is_urgent = reading is not None and reading.purpose is Purpose.WANTED
        return self.trouble is None and (self._is_wanted or is_urgent)

    def awaited_until(self, seconds: float) -> float:
        """Until when a segment waits for it, if a reading may take these seconds."""
        if self._reading is None or not self.is_awaited:
            return 0.0
        return self._reading.since + seconds

    def ask(self) -> None:
        """Has it read again, as soon as it is time."""
        self._requests += 1

    def see(self, relations: Iterable[Relation], now: float) -> None:
        """Takes relation versions that are new in the stream."""
        for relation in relations:
            if self._known.get(relation.oid) != relation:
                self._unknown[relation.oid] = relation
            # Names of columns and the key may differ all the same. Others come soon after a start.
            self._doubt_due = min(self._doubt_due, now + _DOUBT_SECONDS)

    def begins(self, now: float, *, is_ending: bool) -> bool:
        """Whether a reading begins now. No doubt delays the end: the next receiver reads at its start."""
        if now < self.due(is_ending=is_ending):
            return False
        purpose = Purpose.WANTED if self._is_wanted else Purpose.DOUBTED
        self._reading = Reading(now, purpose, self._generation)
        self._requests, self._doubt_due = 0, math.inf
        self._unknown.clear()
        return True

    def outdate(self) -> None:
        """The log gets definitions that are newer than the current reading."""
        self._generation += 1

    def take(self, found: Catalog | Error, now: float) -> Catalog | None:
        """Takes the catalog, or why it could not be read. Returns the catalog that the log gets."""
        reading, self._reading = self._reading, None
        if isinstance(found, Error):
            self._fail(found, now)
            return None
        self.trouble = None
        if reading is not None and reading.generation != self._generation:
            self.ask()
            return None
        self._due = now + _CATALOG_SECONDS
        return found

    def know(self, catalog: Catalog, *, times: int = 1) -> None:
        """Notes that the log has this catalog, which was read so often since."""
        self.times += times
        self._known = _relations_of(catalog)
        # Relations that came meanwhile.
        self._unknown = {
            oid: relation
            for oid, relation in self._unknown.items()
            if self._known.get(oid) != relation
        }

    @property
    def _is_wanted(self) -> bool:
        return self._requests > 0 or bool(self._unknown)

    def _fail(self, failure: Error, now: float) -> None:
        self.trouble = f"{failure}. Rows go on; new tables and types are described when it can be read"
        self.ask()
        self._due = now + _RETRY_SECONDS


def _relations_of(catalog: Catalog) -> dict[int, Relation]:
    tables: list[dict[str, Any]] = json.loads(catalog.to_json()).get("tables", [])
    return {
        table["oid"]: Relation(
            table["oid"],
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
