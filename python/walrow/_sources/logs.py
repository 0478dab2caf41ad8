"""Where a log is: a directory or a URL. Whether there is one, and which part of it is read."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from walrow._amounts import at
from walrow._core import LogDirectory
from walrow._options import in_file_system
from walrow._secrets import is_conninfo, without_credentials
from walrow._sources.log_objects import LogStore
from walrow._sources.urls import is_url
from walrow.errors import LogError, OptionError
from walrow.typing import TableName


class OpenedLog:
    """The base of `walrow.Log`, by which functions that take paths recognise one."""

    _log: LogDirectory


def opened(location: str, store: LogStore | None = None) -> LogDirectory:
    """Opens the log at a path, or in a store.

    Raises:
        FileNotFoundError: There is no such directory.
        NotADirectoryError: It is a file.
        LogError: There is no log in it (`not_a_log`), or it is damaged.
    """
    try:
        return LogDirectory(location, store)
    except FileNotFoundError as error:
        error.strerror = f"No such file or directory: {_WRITERS}"
        raise
    except NotADirectoryError as error:
        error.strerror = "It is a file, and a log is a directory: name the log's"
        raise
    except LogError as error:
        if error.code != "not_a_log":
            raise
        text = f"there is no log in {without_credentials(location)}: {_WRITERS}"
        raise LogError(text, code="not_a_log") from None


_WRITERS = "walrow run, walrow receive and walrow seal write logs"


def new_directory_of(log: Any) -> Path:
    """The directory of a log that is written, and that may be new.

    Raises:
        OptionError: It is a file, empty, or a connection string.
        LogError: It is a URL (`read_only`).
    """
    # The process may change its directory.
    found = directory_of(log).absolute()
    if found.is_file():
        text = f"log is a file, and a log is a directory: {found}; name another"
        raise OptionError(text)
    return found


def find_log(source: str | os.PathLike[str]) -> LogDirectory | None:
    """Opens the log at a path or a URL. None if there is no log.

    A URL that ends with / may be a log's.
    """
    if isinstance(source, OpenedLog):
        return source._log
    text = os.fsdecode(source)
    try:
        if not is_url(text):
            return _at_path(text)
        if text.endswith("/") and "*" not in text:
            return LogDirectory(text, LogStore(text, {}))
    except FileNotFoundError:
        pass
    except LogError as error:
        if error.code != "not_a_log":
            raise
    return None


def _at_path(path: str) -> LogDirectory | None:
    try:
        return LogDirectory(path)
    except OSError:
        # The caller reads the path, and fails with a better error.
        return None


def start_in(log: LogDirectory | None, start: Any) -> Any:
    """A start, with the LSN that the log has for it if it is a time.

    Raises:
        OptionError: The start is a time, and there is no log: times are not known before.
    """
    if start is None:
        return None
    found = at(start, "start")
    if isinstance(found, dt.datetime):
        if log is None:
            raise OptionError(_NO_LOG)
        return log.lsn_of(found, "start")
    return found


_NO_LOG = (
    "start is a time, which needs a log: walrow.seal makes one of a capture. Or pass the LSN, such as "
    "Reader.position: table='walrow.transactions' has the LSNs and times of a capture"
)


def log_of(source: Any) -> LogDirectory | None:
    """A source of any kind, as a log. None if it is not a log."""
    is_path = isinstance(source, str | os.PathLike | OpenedLog)
    return find_log(source) if is_path else None


def part_of(options: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a log that the options of `walrow.read` choose."""
    table, tables = options.get("table"), options.get("tables")
    if table is not None:
        tables = [table]
    is_side = any(map(_may_be_side_table, tables or ()))
    named = [options.get(key) for key in ("types", "unrepresentable", "columns")]
    return {
        "tables": None if is_side or not tables else list(tables),
        "start": options.get("start"),
        "end": options.get("end"),
        "columns": [
            key
            for keys in named
            if isinstance(keys, Iterable) and not isinstance(keys, str)
            for key in keys
            if isinstance(key, str)
        ],
    }


def _may_be_side_table(table: Any) -> bool:
    schema = table[0] if isinstance(table, tuple) else str(table).partition(".")[0]
    return schema == "walrow"


def location_of(log: Any) -> str:
    """The path or the URL of a log.

    Raises:
        OptionError: It is empty, no path, or a connection string.
        TypeError: It is neither a path nor a URL.
    """
    if not isinstance(log, str | os.PathLike):
        text = f"log must be the path or the URL of a log, not {type(log).__name__}"
        raise TypeError(text)
    found = in_file_system(os.fspath(log), "log")
    refuse_conninfo(found)
    return found


def directory_of(log: str | os.PathLike[str]) -> Path:
    """The directory of a log that is written or changed.

    Raises:
        OptionError: It is empty, or a connection string.
        LogError: It is a URL (`read_only`).
    """
    if is_url(location_of(log)):
        text = (
            "a log at a URL can only be read: write and change it in a local directory"
        )
        raise LogError(text, code="read_only")
    return Path(os.fsdecode(log))


def refuse_conninfo(log: str) -> None:
    """Refuses a connection string where a log is expected. Does not show it.

    Raises:
        OptionError: It is one, or looks like one.
    """
    if is_conninfo(log, or_url=True):
        text = "the log is a connection string: give its directory, as in ./run=5"
        raise OptionError(text)


def is_named(table: TableName, oid: int, schema: str, name: str) -> bool:
    """Whether a table has an OID or a name, alone or joined as `schema.name`."""
    if isinstance(table, int):
        return table == oid
    if isinstance(table, tuple):
        return table == (schema, name)
    return table in (name, f"{schema}.{name}")
