"""Requests for loads: how another process asks the receiver of a log.

Each request is an object of the log, `_load-request-…`. The receiver loads the tables of the oldest
one, and removes the request when it is done. So a request survives a crash. A process that waits
for the load renews it. The load is cancelled a minute after the last time, or once somebody removes the
request. The receiver writes into it what the load waits for. The result is an object with the request's key, which the waiting process removes: a missing
one never means success. If no process waits, and the load of several tables is given up, the tables
that have not broken it get a new request. So the error of a table does not stop the others.
The failure of a table stays as a result, for `walrow status`.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from walrow import errors
from walrow._core import LogObjects
from walrow._log.locks import is_locked
from walrow._log.needs import read_record
from walrow._log.values import value_of
from walrow._options import FOLDER, NAMES, Kind, Option, Value, options, takes
from walrow._secrets import brief
from walrow._sources.logs import directory_of, opened
from walrow._waiting import pause
from walrow.errors import Error, LogError, OptionError
from walrow.typing import Duration


class LoadRequest(NamedTuple):
    """A request for tables, as `schema.name`. None for all that are published.

    A process that waits for the load renews it. `time` is in seconds since 1970. If it `is_automatic`, no
    person has asked for it, and tables that are gone need no load.
    """

    key: str
    tables: list[str] | None
    is_awaited: bool = False
    time: float = 0.0
    is_automatic: bool = False


class LoadResult(NamedTuple):
    """The outcome of a request. Without a `failure`, the tables are loaded."""

    failure: str | None
    time: float = 0.0
    tables: list[str] | None = None
    is_awaited: bool = True


def _listed(tables: Any, name: str) -> list[str]:
    """The tables of a request."""
    names = NAMES.parse(tables, name)
    if not names:
        text = f"{name} is empty: name a table, or leave it out for all tables"
        raise OptionError(text)
    for each in names:
        if not all(each.split(".", 1)):
            text = (
                f"{name} has {brief(each)}, which is no name: write name or schema.name"
            )
            raise OptionError(text)
    return [*names]


@options
class LoadOptions:
    """The options of `walrow.load`."""

    tables: Option[str | Sequence[str] | None, list[str] | None] = Option(
        "One table or several, as `name` or `schema.name`. Two tables with the same `schema.name`, "
        "because of dots in it, are both loaded. Default: all that are published.",
        Kind(NAMES.name, _listed),
        default=None,
    )
    _: KW_ONLY
    log: Option[str | os.PathLike[str], Path] = Option(
        "The log's directory.",
        Kind(FOLDER.name, lambda value, _: directory_of(value)),
    )
    wait: Value[bool] = Option(
        "Whether to wait for the load. Otherwise the request stays until it is loaded, or "
        "`walrow.log.cancel_load` cancels it.",
        default=True,
    )
    timeout: Option[Duration | None, float | None] = Option(
        'How long to wait, such as `"5m"`. Default: without end.',
        default=None,
    )
    progress: Value[Callable[[str], None] | None] = Option(
        "Is called with what the load waits for: at once, when that changes, and every 30 seconds.",
        default=None,
    )


@takes(LoadOptions)
def load(options: LoadOptions) -> None:
    """Asks the receiver of a log to load tables, and waits until they are.

    A load is a truncate of the tables, and then all rows that they have at one moment. It takes
    its place among the transactions: readers see it before everything that was committed
    later. Load a table that was added to the publication, that was rewritten, or whose
    columns were renamed or have new defaults: the stream does not contain that.

    `walrow.receive` loads the tables, now or when it is started again. The load is cancelled if
    this call ends before, by a timeout or Ctrl-C, or if its process ends (within a minute).

    ```python
    walrow.load(["public.orders"], log="log/")
    ```

    Args:
        options: As in the signature.

    Raises:
        OptionError: The options are invalid, or a name has no schema, and not just one published
            table has it.
        LogError: The receiver has given the load up, or somebody has cancelled it. The directory
            is not a log, or cannot be written.
        walrow.errors.TimeoutError: The receiver is not running, or needs more time.
    """
    path = _opened(options.log)
    objects = LogObjects(path)
    names = _with_schemas(objects, options.tables)
    wanted = request(path, names, is_awaited=options.wait)
    if not options.wait:
        return
    seconds = math.inf if options.timeout is None else options.timeout
    end = time.monotonic() + seconds
    try:
        found = _awaited(
            objects, path, wanted, end, options.progress or (lambda _: None)
        )
    except BaseException:
        _remove(objects, _name(wanted))
        raise
    _remove(objects, _result(wanted))
    if found.failure is not None:
        raise LogError(found.failure, code="load")


def _awaited(
    objects: LogObjects,
    log: Path,
    wanted: LoadRequest,
    end: float,
    waiting: Callable[[str], None],
) -> LoadResult:
    """Waits for the result of a request."""
    renewed = time.monotonic()
    said, said_at = "", -math.inf
    while (found := result_of(objects, wanted)) is None:
        now = time.monotonic()
        if now >= end:
            text = "the tables are not loaded yet: is walrow receive running?"
            raise errors.TimeoutError(text)
        if now >= renewed + _RENEW_SECONDS:
            renewed = now
            with contextlib.suppress(Error, OSError):
                _renew(objects, wanted)
        try:
            waits = _waits(objects, log, wanted)
        except FileNotFoundError:
            # The result comes before the request goes.
            found = result_of(objects, wanted)
            return found or LoadResult("the load was cancelled")
        if waits != said or now >= said_at + _SAY_SECONDS:
            said, said_at = waits, now
            waiting(waits)
        pause(_POLL_SECONDS)
    return found


def _waits(objects: LogObjects, log: Path, wanted: LoadRequest) -> str:
    """The reason why a load waits, in words."""
    data, _ = objects.read(_name(wanted))
    with contextlib.suppress(*_DAMAGED):
        waits = json.loads(data).get("waits")
        if isinstance(waits, str):
            return waits
    if is_locked(log / "_open"):
        return "waiting for the receiver of the log, which has not begun the load yet"
    return "waiting for the receiver of the log: walrow receive must run"


def note(log: Path, taken: LoadRequest, waits: str) -> None:
    """Says in a request what its load waits for, for the process that waits for it."""
    objects = LogObjects(log)
    with contextlib.suppress(Error, OSError):
        _change(objects, taken, {"waits": waits})


def _opened(log: str | os.PathLike[str]) -> Path:
    """The directory of a log, which was opened once, so that it is one."""
    path = directory_of(log)
    opened(os.fspath(path))
    return path


def _with_schemas(objects: LogObjects, names: list[str] | None) -> list[str] | None:
    """The names with their schemas. Without one, exactly one published table must have the name."""
    if names is None:
        return None
    record = read_record(lambda it: objects.read(it)[0])
    pairs = [record.pair_of(oid) for oid in record.tables or ()]
    published = {".".join(pair) for pair in pairs}
    found: list[str] = []
    for name in names:
        whole = {name} & published or {".".join(it) for it in pairs if it[1] == name}
        if not whole and name.count(".") == 1:
            # The table may be new.
            whole = {name}
        if len(whole) != 1:
            reason = "several tables have it" if whole else "no published table has it"
            text = f"tables has {brief(name)}, which needs its schema, as schema.name: {reason}"
            raise OptionError(text)
        found += whole
    return found


def cancel_load(
    tables: str | Sequence[str] | None = None, *, log: str | os.PathLike[str]
) -> int:
    """Cancels requests for loads, also of a load that has begun.

    ```python
    walrow.log.cancel_load("public.orders", log="log/")
    ```

    Args:
        tables: One table or several, as `name` or `schema.name`: requests that name one of them are
            cancelled. Default: all requests.
        log: The log's directory.

    Returns:
        How many requests were cancelled.

    Raises:
        OptionError: As in `walrow.load`.
        LogError: The directory is not a log, or cannot be written.
    """
    path = _opened(log)
    objects = LogObjects(path)
    given = None if tables is None else _listed(tables, "tables")
    names = _with_schemas(objects, given)
    count = 0
    with objects.lock():
        for wanted, _ in _requests(objects):
            if names is None or {*names} & {*(wanted.tables or ())}:
                objects.remove(_name(wanted))
                count += 1
    return count


def request(
    log: Path,
    tables: Sequence[str] | None,
    *,
    is_awaited: bool = False,
    is_automatic: bool = False,
) -> LoadRequest:
    """Leaves a request."""
    names, now = None if tables is None else list(tables), time.time()
    wanted = LoadRequest(secrets.token_hex(8), names, is_awaited, now, is_automatic)
    try:
        LogObjects(log).create(_name(wanted), _record(wanted))
    except OSError as error:
        text = f"the request cannot be written: {error.strerror}"
        raise LogError(text, code="store", errno=error.errno) from error
    return wanted


class Requests:
    """The requests of a log, for its receiver, which asks for them again and again.

    All names of a log are many, so they are listed only if one came or went.
    """

    def __init__(self, log: Path) -> None:
        """Looks at nothing yet."""
        self._log = log
        #: The time when names changed that have no request.
        self._empty = 0

    def take(self) -> LoadRequest | None:
        """The oldest request that somebody still wants. See `take`."""
        try:
            changed = LogObjects(self._log).changed()
        except OSError:
            # The writer describes the problem.
            return None
        if changed == self._empty:
            return None
        found = take(self._log)
        # Another name may come at what is the same time for a coarse clock.
        if found is None and changed < time.time_ns() - _SETTLED_NANOSECONDS:
            self._empty = changed
        return found


def take(log: Path) -> LoadRequest | None:
    """The oldest request that somebody still wants. Requests that nobody wants are removed.

    A damaged one is removed, and a LogError.
    """
    objects = LogObjects(log)
    found = []
    for wanted, age in _requests(objects):
        if _is_expired(wanted, age):
            _remove(objects, _name(wanted))
        else:
            found.append(wanted)
    return min(found, key=lambda it: (it.time, it.key), default=None)


def pending(log: Path) -> list[LoadRequest]:
    """The requests that somebody still wants, the oldest first. Nothing is removed."""
    objects = LogObjects(log)
    found = []
    for name in objects.list(_REQUEST):
        # It may be gone, and the receiver removes one that is damaged.
        with contextlib.suppress(Error, FileNotFoundError, *_DAMAGED):
            wanted, age = _read(objects, name)
            if not _is_expired(wanted, age):
                found.append(wanted)
    return sorted(found, key=lambda it: (it.time, it.key))


def is_wanted(log: Path, taken: LoadRequest) -> bool:
    """Whether somebody still wants a load."""
    try:
        wanted, age = _read(LogObjects(log), _name(taken))
    except FileNotFoundError:
        return False
    except (Error, OSError, *_DAMAGED):
        # The next look asks again.
        return True
    return not _is_expired(wanted, age)


def _is_expired(wanted: LoadRequest, age: float) -> bool:
    return wanted.is_awaited and age > _EXPIRY_SECONDS


def _requests(objects: LogObjects) -> Iterator[tuple[LoadRequest, float]]:
    """The requests, and the seconds since they were made or renewed. A damaged one is removed."""
    for name in objects.list(_REQUEST):
        try:
            yield _read(objects, name)
        except FileNotFoundError:
            continue
        except (Error, *_DAMAGED):
            try:
                objects.remove(name)
            except LogError:
                # It is none, and stays as it is.
                continue
            text = (
                "a request for a load was damaged, or of another user: request it again"
            )
            raise LogError(text, code="load", file=name) from None


def _read(objects: LogObjects, name: str) -> tuple[LoadRequest, float]:
    found = json.loads(objects.read(name)[0])
    wanted: LoadRequest = value_of(LoadRequest, found)
    # The key becomes the name of the result.
    if _name(wanted) != name or not wanted.key.isalnum():
        raise TypeError
    return wanted, time.time() - float(found["renewed"])


def _record(wanted: LoadRequest) -> bytes:
    return json.dumps({**wanted._asdict(), "renewed": time.time()}).encode()


def _renew(objects: LogObjects, wanted: LoadRequest) -> None:
    """Says that somebody still waits."""
    _change(objects, wanted, {"renewed": time.time()})


def _change(objects: LogObjects, wanted: LoadRequest, change: dict[str, Any]) -> None:
    name = _name(wanted)
    # A request that is removed meanwhile does not come back.
    with objects.lock():
        data, tag = objects.read(name)
        found = json.loads(_record(wanted))
        with contextlib.suppress(*_DAMAGED):
            found |= json.loads(data)
        objects.swap(name, json.dumps(found | change).encode(), tag)


def complete(
    log: Path,
    taken: LoadRequest,
    failure: str | None,
    refused: Mapping[str, str] = MappingProxyType({}),
    others: Sequence[str] = (),
) -> None:
    """Records the outcome of a request, for the process that waits for it or for `failures`.

    If no process waits, the `refused` tables do not stop the `others`. If they are not known, each
    table gets a new request.
    """
    objects = LogObjects(log)
    names = sorted({*(taken.tables or ())})
    done = {*names} - {*(others if refused else ())}
    for name, found in _results(objects):
        is_over = not found.is_awaited and done.issuperset(found.tables or ())
        if is_over or found.time < time.time() - _KEPT_SECONDS:
            with contextlib.suppress(Error, OSError):
                objects.remove(name)
    results: list[tuple[str | None, list[str] | None]] = [(failure, taken.tables)]
    again: list[list[str]] = []
    if taken.is_awaited or failure is None:
        results = results if taken.is_awaited else []
    elif refused:
        results = [(text, [table]) for table, text in sorted(refused.items())]
        again = [sorted(others)] if others else []
    elif len(names) > 1:
        results, again = [], [[it] for it in names]
    # After a crash, the keys are the same again.
    for number, each in enumerate(again):
        part = taken._replace(key=f"{taken.key}{number}", tables=each)
        with contextlib.suppress(FileExistsError):
            objects.create(_name(part), _record(part))
    for number, (text, tables) in enumerate(results):
        result = LoadResult(text, time.time(), tables, taken.is_awaited)
        with contextlib.suppress(FileExistsError):
            key = f"{_result(taken)}{number or ''}"
            objects.create(key, json.dumps(result._asdict()).encode())
    with objects.lock():
        objects.remove(_name(taken))


def failures(log: Path) -> dict[str, str]:
    """Why the last load of a table was given up, by table, if nobody waited for it."""
    return {
        table: found.failure
        for _, found in _results(LogObjects(log))
        if found.failure is not None and not found.is_awaited
        for table in found.tables or ()
    }


def _results(objects: LogObjects) -> Iterator[tuple[str, LoadResult]]:
    """The results that can be read, by the names of their objects."""
    for name in objects.list(_RESULT):
        with contextlib.suppress(Error, OSError, *_DAMAGED):
            yield name, _result_at(objects, name)


def result_of(objects: LogObjects, wanted: LoadRequest) -> LoadResult | None:
    """The outcome of a request. None before the receiver is done with it."""
    try:
        return _result_at(objects, _result(wanted))
    except FileNotFoundError:
        return None
    except (Error, *_DAMAGED):
        return LoadResult("the result of the load cannot be read")


def _result_at(objects: LogObjects, name: str) -> LoadResult:
    found: LoadResult = value_of(LoadResult, json.loads(objects.read(name)[0]))
    return found


def _name(wanted: LoadRequest) -> str:
    return f"{_REQUEST}{wanted.key}"


def _result(wanted: LoadRequest) -> str:
    return f"{_RESULT}{wanted.key}"


def _remove(objects: LogObjects, name: str) -> None:
    with contextlib.suppress(LogError), objects.lock():
        objects.remove(name)


_POLL_SECONDS = 0.2
#: A waiting process renews its request so often. One without that for so long is not wanted.
_RENEW_SECONDS = 5.0
_EXPIRY_SECONDS = 60.0
#: A caller hears again what a load waits for.
_SAY_SECONDS = 30.0
_SETTLED_NANOSECONDS = 2_000_000_000
_REQUEST = "_load-request-"
_RESULT = "_load-result-"
#: The errors of reading an object that is damaged.
_DAMAGED = (ValueError, KeyError, TypeError, RecursionError)
_KEPT_SECONDS = 86_400
