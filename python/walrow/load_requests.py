"""Requests for loads: how another process asks the receiver of a log.

Each request is a file in the log's directory `_load-requests`. The receiver loads the tables of the
oldest one, and removes the file when it is done. So a request survives a crash. A process that
waits for the load renews the file. The load is cancelled a minute after the last time, or once somebody
removes the file. The result is a file with the request's key, which the waiting process removes: a missing
file never means success.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import secrets
import time
from typing import TYPE_CHECKING, NamedTuple

from walrow.errors import LogError
from walrow.log import Log
from walrow.log_files import write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

__all__ = [
    "LoadRequest",
    "LoadResult",
    "cancel_load",
    "complete",
    "is_wanted",
    "load",
    "request",
    "result_of",
    "take",
]


class LoadRequest(NamedTuple):
    """A request.

    Attributes:
        key: Names the request.
        tables: The tables, as `schema.name`. None for all that are published.
        is_awaited: Whether a process waits for the load, and renews the request.
        time: The time of the request, in seconds since 1970.
    """

    key: str
    tables: list[str] | None
    is_awaited: bool = False
    time: float = 0.0


class LoadResult(NamedTuple):
    """What has become of a request.

    Attributes:
        failure: Why it was given up. None if the tables are loaded.
    """

    failure: str | None


def load(
    tables: str | Sequence[str] | None = None,
    *,
    log: str | os.PathLike[str],
    wait: bool = True,
    timeout: float | None = None,
) -> None:
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
        tables: One table or several, as `schema.name`. Default: all that are published.
        log: The log's directory.
        wait: Whether to wait for the load. Otherwise the request stays until it is loaded, or
            `walrow.cancel_load` cancels it.
        timeout: The seconds to wait. Default: without end.

    Raises:
        LogError: The receiver has given the load up, or somebody has cancelled it. The directory
            is not a log, or cannot be written.
        TimeoutError: The receiver is not running, or needs more time.
    """
    path = Log(log).path
    names = [tables] if isinstance(tables, str) else tables
    wanted = request(path, names, is_awaited=wait)
    if not wait:
        return
    end = math.inf if timeout is None else time.monotonic() + timeout
    try:
        found = _awaited(path, wanted, end)
    except BaseException:
        _remove(_file(path, wanted))
        raise
    _remove(_result(path, wanted))
    if found.failure is not None:
        raise LogError(found.failure, code="load")


def _awaited(log: Path, wanted: LoadRequest, end: float) -> LoadResult:
    """Waits for the result of a request."""
    renewed = time.monotonic()
    while (found := result_of(log, wanted)) is None:
        now = time.monotonic()
        if now >= end:
            text = "the tables are not loaded yet: is walrow receive running?"
            raise TimeoutError(text)
        if now >= renewed + _RENEW_SECONDS:
            renewed = now
            with contextlib.suppress(OSError):
                os.utime(_file(log, wanted))
        if not _file(log, wanted).exists():
            # The result comes before the request goes.
            found = result_of(log, wanted)
            return found or LoadResult("the load was cancelled")
        time.sleep(_POLL_SECONDS)
    return found


def cancel_load(
    tables: str | Sequence[str] | None = None, *, log: str | os.PathLike[str]
) -> int:
    """Cancels requests for loads, also of a load that has begun.

    ```python
    walrow.cancel_load("public.orders", log="log/")
    ```

    Args:
        tables: One table or several, as `schema.name`: requests that name one of them are
            cancelled. Default: all requests.
        log: The log's directory.

    Returns:
        How many requests were cancelled.

    Raises:
        LogError: The directory is not a log, or cannot be written.
    """
    path = Log(log).path
    names = (
        None if tables is None else {tables} if isinstance(tables, str) else {*tables}
    )
    count = 0
    for wanted, _ in _requests(path):
        if names is None or not names.isdisjoint(wanted.tables or ()):
            try:
                _file(path, wanted).unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                text = f"the request cannot be removed: {error.strerror}"
                raise LogError(text, code="store", errno=error.errno) from error
            count += 1
    return count


def request(
    log: Path, tables: Sequence[str] | None, *, is_awaited: bool = False
) -> LoadRequest:
    """Leaves a request.

    Raises:
        LogError: The directory cannot be written.
    """
    names = None if tables is None else list(tables)
    wanted = LoadRequest(secrets.token_hex(8), names, is_awaited, time.time())
    try:
        (log / _REQUESTS).mkdir(mode=0o700, exist_ok=True)
        temporary = log / _REQUESTS / f"{_TEMPORARY}{wanted.key}"
        write_json(temporary, wanted._asdict(), log=log)
        temporary.replace(_file(log, wanted))
    except OSError as error:
        text = f"the request cannot be written: {error.strerror}"
        raise LogError(text, code="store", errno=error.errno) from error
    return wanted


def take(log: Path) -> LoadRequest | None:
    """The oldest request that somebody still wants. Requests that nobody wants are removed.

    Raises:
        LogError: A request is damaged, and was removed.
    """
    found = []
    for wanted, age in _requests(log):
        if _is_expired(wanted, age):
            _remove(_file(log, wanted))
        else:
            found.append(wanted)
    return min(found, key=lambda it: (it.time, it.key), default=None)


def is_wanted(log: Path, taken: LoadRequest) -> bool:
    """Whether somebody still wants a load."""
    try:
        age = time.time() - _file(log, taken).stat().st_mtime
    except FileNotFoundError:
        return False
    except OSError:
        # The next look asks again.
        return True
    return not _is_expired(taken, age)


def _is_expired(wanted: LoadRequest, age: float) -> bool:
    return wanted.is_awaited and age > _EXPIRY_SECONDS


def _requests(log: Path) -> Iterator[tuple[LoadRequest, float]]:
    """The requests, and the seconds since they were made or renewed.

    Raises:
        LogError: A request is damaged, and was removed.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in sorted((log / _REQUESTS).iterdir()):
            if path.name.startswith(_TEMPORARY) or not path.is_file():
                continue
            try:
                found = json.loads(path.read_text(encoding="utf-8"))
                wanted = LoadRequest(
                    _key(found["key"], path.name),
                    _names(found["tables"]),
                    bool(found["is_awaited"]),
                    float(found["time"]),
                )
                yield wanted, time.time() - path.stat().st_mtime
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, TypeError, RecursionError):
                _remove(path)
                text = "a request for a load was damaged, or of another user: request it again"
                raise LogError(text, code="load", file=_REQUESTS) from None


def complete(log: Path, taken: LoadRequest, failure: str | None) -> None:
    """Records the outcome of a request, for the process that waits for it."""
    with contextlib.suppress(OSError):
        for old in log.glob(f"{_RESULT}*"):
            if old.stat().st_mtime < time.time() - _KEPT_SECONDS:
                # Nobody waits for it.
                old.unlink()
    if taken.is_awaited:
        temporary = log / f"{_TEMPORARY}{taken.key}"
        write_json(temporary, LoadResult(failure)._asdict())
        temporary.replace(_result(log, taken))
    _file(log, taken).unlink(missing_ok=True)


def result_of(log: Path, wanted: LoadRequest) -> LoadResult | None:
    """What has become of a request. None before the receiver is done with it."""
    try:
        found = json.loads(_result(log, wanted).read_text(encoding="utf-8"))
        return LoadResult(found["failure"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return LoadResult("the result of the load cannot be read")


def _file(log: Path, wanted: LoadRequest) -> Path:
    return log / _REQUESTS / wanted.key


def _result(log: Path, wanted: LoadRequest) -> Path:
    return log / f"{_RESULT}{wanted.key}"


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _key(found: object, name: str) -> str:
    # It becomes the name of a file.
    if found != name or not name.isalnum():
        raise TypeError
    return name


def _names(found: object) -> list[str] | None:
    if found is None:
        return None
    if not isinstance(found, list):
        raise TypeError
    return [str(name) for name in found]


_POLL_SECONDS = 0.2
#: A waiting process renews its request so often. One without that for so long is not wanted.
_RENEW_SECONDS = 5.0
_EXPIRY_SECONDS = 60.0
_REQUESTS = "_load-requests"
_RESULT = "_load-result-"
#: Not the prefix of a writer's temporary files: it removes them when it starts.
_TEMPORARY = ".load-"
_KEPT_SECONDS = 86_400
