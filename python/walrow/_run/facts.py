"""The facts of a log for a plan: its tables and targets."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from walrow._apply.engines import is_path
from walrow._log.erasures import read_erasures
from walrow._log.items import LogTable
from walrow._log.marks import Why, is_unsure
from walrow._log.requests import pending
from walrow._log.tables import begin_of, between, keys_of
from walrow._run.matching import Table
from walrow._run.plan import Facts
from walrow._run.records import FOLDER, read_targets
from walrow._sources.urls import is_url
from walrow.errors import Error, LogError
from walrow.log import Log


def opened(path: Path) -> Log:
    """The log of a directory.

    Raises:
        FileNotFoundError: There is no log yet.
        LogError: The directory has something else, or the log is damaged.
    """
    try:
        return Log(path)
    except LogError as error:
        # The lock of `walrow run` may be there before the receiver creates the log.
        if error.code != "not_a_log" or any(it.name != FOLDER for it in path.iterdir()):
            raise
        raise FileNotFoundError(str(path)) from None


def facts_of(
    log: Log,
    more: Iterable[Table] = (),
    inherited: Mapping[int, str] = MappingProxyType({}),
) -> Facts:
    """The facts of a log, and of tables that the server publishes now.

    `inherited` has the problem of tables with children that the receiver may not have seen yet.

    Raises:
        LogError: The log is damaged.
    """
    record = log._record()
    # A name means the table that has it now. The next look finds the rest.
    tables = [*log._tables(record).owners().values()]
    now = {it.oid: it for it in more}
    found = [it for it in tables if it.oid not in now]
    by_pair = {it.pair: Table(it.oid, *it.pair) for it in found if it.left is None}
    by_pair |= {(it.schema, it.table): it for it in now.values()}
    recorded = read_targets(log.read_object)
    known = {it.oid for it in recorded}
    seen = {it.oid for it in tables for mark in it.marks if mark.code is Why.INHERITED}
    erased = known & read_erasures(log.read_object).keys()
    return Facts(
        tables=tuple(by_pair.values()),
        left={Table(it.oid, *it.pair): it.left for it in found if it.left is not None},
        last={it.oid: it.last for it in found if it.left is not None},
        unaccepted={oid: it for oid, it in inherited.items() if oid not in seen}
        | {it.oid: text for it in tables for text in it.undecided(log.location)},
        changed={it.oid for it in tables if it.versions}
        | log._log.removed().keys()
        | erased,
        erased=erased,
        needs={it.oid: it.needs_load for it in tables if it.needs_load is not None},
        unsure=frozenset(it.oid for it in tables if is_unsure(it.marks)),
        loaded={it.oid: it.loaded for it in tables if it.loaded is not None},
        requested=requested_in(log),
        recorded=tuple(recorded),
        identities={it.oid: _key(log, it) for it in tables if it.oid in known},
    )


def requested_in(log: Log) -> frozenset[str] | None:
    """The names of tables with a request for their load. None after a request for all tables.

    Raises:
        OSError: The directory cannot be opened.
    """
    names: set[str] = set()
    for request in pending(log.path):
        if request.tables is None:
            return None
        names |= set(request.tables)
    return frozenset(names)


def _key(log: Log, table: LogTable) -> tuple[str, ...]:
    with contextlib.suppress(Error):
        begin = begin_of(log, table, log.end)
        return keys_of(log, between(log, table, begin, log.end), None)
    return ()


def existing(places: Iterable[str]) -> set[str]:
    """The places that have a table. One in a catalog counts, as only Spark knows it."""
    return {it for it in places if _exists(it)}


def _exists(place: str) -> bool:
    if not is_path(place):
        return True
    uri = place.partition(":")[2]
    if not is_url(uri):
        return (Path(uri) / "_delta_log").exists()
    try:
        from deltalake import DeltaTable

        return bool(DeltaTable.is_deltatable(uri))
    except Exception:
        # It may exist, so walrow must not write there.
        return True
