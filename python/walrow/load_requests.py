"""Requests for loads: how another process asks the receiver of a log.

A request is a file in the log's directory, `_load-requested`. The receiver takes it by renaming
it to `_load-taken`, and removes that when it is done. So a request survives a crash. The result is
a file with the request's key, which whoever waits removes: a missing file never means success.
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
    from collections.abc import Sequence
    from pathlib import Path

__all__ = [
    "LoadRequest",
    "LoadResult",
    "complete",
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
    """

    key: str
    tables: list[str] | None


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
    timeout: float | None = None,
) -> None:
    """Asks the receiver of a log to load tables, and waits until they are.

    A load is a truncate of the tables, and then all rows that they have at one moment. It takes
    its place among the transactions: readers see it before everything that was committed
    later. Load a table that was added to the publication, that was rewritten, or whose
    columns were renamed or have new defaults: the stream does not contain that.

    `walrow.receive` loads the tables, now or when it is started again: a request survives
    that.

    ```python
    walrow.load(["public.orders"], log="log/")
    ```

    Args:
        tables: One table or several, as `schema.name`. Default: all that are published.
        log: The log's directory.
        timeout: The seconds to wait. Default: without end.

    Raises:
        LogError: The receiver has given the load up, or another one waits. The directory is
            not a log, or cannot be written.
        TimeoutError: The receiver is not running, or needs more time. The request stays.
    """
    path = Log(log).path
    names = [tables] if isinstance(tables, str) else tables
    wanted = request(path, names)
    end = math.inf if timeout is None else time.monotonic() + timeout
    while (found := result_of(path, wanted)) is None:
        if time.monotonic() >= end:
            text = "the tables are not loaded yet: is walrow receive running?"
            raise TimeoutError(text)
        time.sleep(_POLL_SECONDS)
    with contextlib.suppress(OSError):
        _result(path, wanted).unlink()
    if found.failure is not None:
        raise LogError(found.failure, code="load")


def request(log: Path, tables: Sequence[str] | None) -> LoadRequest:
    """Leaves a request.

    Raises:
        LogError: Another request was not taken yet, or the directory cannot be written.
    """
    wanted = LoadRequest(secrets.token_hex(8), None if tables is None else list(tables))
    temporary = _temporary(log, wanted)
    try:
        write_json(temporary, wanted._asdict())
        try:
            # Never replaces another one.
            os.link(temporary, log / _REQUESTED)
        finally:
            temporary.unlink()
    except FileExistsError:
        text = "another load was requested, and no receiver has taken it yet"
        raise LogError(text, code="load", file=_REQUESTED) from None
    except OSError as error:
        text = f"the request cannot be written: {error.strerror}"
        raise LogError(text, code="store", errno=error.errno) from error
    return wanted


def take(log: Path) -> LoadRequest | None:
    """Takes a request, for the receiver: the one that it took before, or a new one.

    Raises:
        LogError: The request is damaged, and was removed.
    """
    taken = log / _TAKEN
    if not taken.exists():
        with contextlib.suppress(OSError):
            (log / _REQUESTED).replace(taken)
    try:
        found = json.loads(taken.read_text(encoding="utf-8"))
        return LoadRequest(_key(found["key"]), _names(found["tables"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        with contextlib.suppress(OSError):
            taken.unlink()
        text = "a request for a load was damaged, or of another user: request it again"
        raise LogError(text, code="load", file=_REQUESTED) from None


def complete(log: Path, taken: LoadRequest, failure: str | None) -> None:
    """Records what has become of a request, for whoever waits."""
    temporary = _temporary(log, taken)
    with contextlib.suppress(OSError):
        for old in [*log.glob(f"{_RESULT}*"), *log.glob(f"{_TEMPORARY}*")]:
            if old.stat().st_mtime < time.time() - _KEPT_SECONDS:
                # Nobody waits for it.
                old.unlink()
    write_json(temporary, LoadResult(failure)._asdict())
    temporary.replace(_result(log, taken))
    (log / _TAKEN).unlink(missing_ok=True)


def result_of(log: Path, wanted: LoadRequest) -> LoadResult | None:
    """What has become of a request. None before the receiver is done with it."""
    try:
        found = json.loads(_result(log, wanted).read_text(encoding="utf-8"))
        return LoadResult(found["failure"])
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return LoadResult("the result of the load cannot be read")


def _temporary(log: Path, wanted: LoadRequest) -> Path:
    return log / f"{_TEMPORARY}{wanted.key}"


def _result(log: Path, wanted: LoadRequest) -> Path:
    return log / f"{_RESULT}{wanted.key}"


def _key(found: object) -> str:
    # It becomes a part of a file's name.
    if not isinstance(found, str) or not found.isalnum():
        raise TypeError
    return found


def _names(found: object) -> list[str] | None:
    if found is None:
        return None
    if not isinstance(found, list):
        raise TypeError
    return [str(name) for name in found]


_POLL_SECONDS = 0.2
_REQUESTED = "_load-requested"
_TAKEN = "_load-taken"
_RESULT = "_load-result-"
#: Not that of a writer's temporary files: it removes them when it starts.
_TEMPORARY = ".load-"
_KEPT_SECONDS = 86_400
