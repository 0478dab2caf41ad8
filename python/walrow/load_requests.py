"""Requests for loads: how another process asks the receiver of a log.

A request is a file in the log's directory, `_load-requested`. The receiver takes it by renaming
it to `_load-taken`, and removes that when the tables are loaded. So a request survives a crash.
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
from walrow.log_files import write_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

__all__ = [
    "LoadRequest",
    "finish",
    "give_back",
    "load",
    "request",
    "state_of",
    "take",
]


class LoadRequest(NamedTuple):
    """A request.

    Attributes:
        key: Names the request.
        tables: The tables, as `schema.name`. None for all that are published.
        failure: Why it was given up. None before.
    """

    key: str
    tables: list[str] | None
    failure: str | None = None


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
    from walrow.log import Log

    path = Log(log).path
    names = [tables] if isinstance(tables, str) else tables
    wanted = request(path, names)
    end = math.inf if timeout is None else time.monotonic() + timeout
    while (found := state_of(path, wanted)) is not None:
        if found.failure is not None:
            finish(path)
            raise LogError(found.failure, code="load")
        if time.monotonic() >= end:
            text = "the tables are not loaded yet: is walrow receive running?"
            raise TimeoutError(text)
        time.sleep(_POLL_SECONDS)


def request(log: Path, tables: Sequence[str] | None) -> LoadRequest:
    """Leaves a request.

    Raises:
        LogError: Another request was not taken yet, or the directory cannot be written.
    """
    wanted = LoadRequest(secrets.token_hex(8), None if tables is None else list(tables))
    temporary = log / f".walrow-{wanted.key}"
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
    """Takes a request, for the receiver: the one that it took before, or a new one."""
    taken = log / _TAKEN
    found = _read(taken)
    if found is not None and found.failure is None:
        return found
    requested = log / _REQUESTED
    if not requested.exists():
        return None
    with contextlib.suppress(OSError):
        requested.replace(taken)
    return _read(taken)


def finish(log: Path) -> None:
    """The tables are loaded."""
    (log / _TAKEN).unlink(missing_ok=True)


def give_back(log: Path, taken: LoadRequest, failure: str) -> None:
    """The request was given up: says why, for whoever waits."""
    temporary = log / f".walrow-{taken.key}"
    with contextlib.suppress(OSError):
        write_json(temporary, taken._replace(failure=failure)._asdict())
        temporary.replace(log / _TAKEN)


def state_of(log: Path, wanted: LoadRequest) -> LoadRequest | None:
    """The request as it is now. None once the tables are loaded."""
    for name in (_REQUESTED, _TAKEN):
        found = _read(log / name)
        if found is not None and found.key == wanted.key:
            return found
    return None


def _read(path: Path) -> LoadRequest | None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        return LoadRequest(
            str(found["key"]), _names(found["tables"]), found.get("failure")
        )
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        text = "the request for a load cannot be read: remove the file"
        raise LogError(text, code="damaged", file=path.name) from None


def _names(found: object) -> list[str] | None:
    if found is None:
        return None
    if not isinstance(found, list):
        raise TypeError
    return [str(name) for name in found]


_POLL_SECONDS = 0.2
_REQUESTED = "_load-requested"
_TAKEN = "_load-taken"
