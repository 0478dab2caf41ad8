"""The options of the data source. Spark passes them as texts, with names in lower case.

Errors name options as a query writes them: `.option("types", '{"total": "string"}')`.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from walrow import _options
from walrow._amounts import at, size
from walrow._core import Catalog
from walrow._lsn import Lsn
from walrow._options import Kind
from walrow._read.signatures import READ
from walrow._secrets import is_conninfo
from walrow._sources.urls import is_url
from walrow.errors import Error, OptionError, Remedy
from walrow.spark.paths import local
from walrow.spark.schemas import SIDE_TABLES
from walrow.typing import SparkOptions, TableName

#: As large as Spark's parts of files: decoding takes a quarter of a second, and Spark 40 to 150 ms for a
#: task.
PARTITION_BYTES = 128 << 20


@dataclass(frozen=True)
class SourceOptions:
    """The options for reading a log. It can be pickled.

    Attributes:
        path: The log's directory, as an absolute path, or its URL.
        storage_options: Options of fsspec's file system for a URL.
        table: The table, as in `walrow.read`. None for an envelope.
        start: The start: an LSN, or after the transactions up to a time.
        end: The end, likewise. None for the end of the log.
        partition_bytes: Bytes of the log's stream in a partition, about, if it has several segments.
        max_rows: Rows of the table in a micro-batch, if it has several transactions.
        max_bytes: Bytes of the log's stream in a micro-batch, likewise.
        reader: The name of a registered reader that a streaming query moves forward.
        read: Options of `walrow.read`.
    """

    path: str
    storage_options: dict[str, Any] | None = None
    table: TableName | None = None
    start: Lsn | dt.datetime | None = None
    end: Lsn | dt.datetime | None = None
    partition_bytes: int = PARTITION_BYTES
    max_rows: int | None = None
    max_bytes: int | None = None
    reader: str | None = None
    read: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, options: Mapping[str, str]) -> SourceOptions:
        """Reads the texts.

        Raises:
            OptionError: There is no such option, or a text is not a value of it.
        """
        found: dict[str, Any] = {}
        for name, text in options.items():
            plain = _plain(name)
            if plain == "paths":
                raise OptionError(_ONE_PATH)
            if plain not in _OPTIONS:
                known = ", ".join(sorted(each for each, _ in _OPTIONS.values()))
                raise OptionError(
                    f"{name} is not an option of the data source walrow, only {known}"
                )
            option, parse = _OPTIONS[plain]
            if option in found:
                raise OptionError(f"{option} is given twice")
            found[option] = parse(option, text)
        if "path" not in found:
            raise OptionError(_ONE_PATH)
        own = {
            attribute: found.pop(option)
            for option, (attribute, _) in _OWN.items()
            if option in found
        }
        return cls(**own, read=found)


@contextlib.contextmanager
def naming_options() -> Iterator[None]:
    """Errors name the options of the data source, instead of arguments of Python's functions."""
    try:
        yield
    except Error as error:
        error.args = (error.spelled(_spelled),)
        raise


def _spelled(remedy: Remedy) -> str | None:
    """Writes a remedy as an option of a query, if the data source has it, or as a step."""
    if remedy.is_step:
        return str(remedy)
    if remedy.option not in _PARSERS:
        return None
    if remedy.value is None:
        if remedy.code is None:
            return f"another option {remedy.option}"
        text = remedy.code
    elif remedy.key is not None:
        text = json.dumps({remedy.key: remedy.value})
    elif isinstance(remedy.value, str):
        text = remedy.value
    else:
        text = json.dumps(remedy.value)
    quoted = repr(text) if '"' in text else f'"{text}"'
    return f'.option("{remedy.option}", {quoted})'


_ONE_PATH = 'give the directory of one log: .load("/data/log")'


def _plain(name: str) -> str:
    """`maxRowsPerTrigger`, `max_rows_per_trigger` and `maxrowspertrigger` are one name."""
    return name.replace("_", "").lower()


def _path(_option: str, text: str) -> str:
    if is_conninfo(text, or_url=True):
        raise OptionError("path is a connection string: give the directory of a log")
    path = local(text)
    if is_url(path):
        return path
    if match := _HADOOP.match(path):
        raise OptionError(
            f"path begins with {match[0]}, which only Spark knows: give the path under "
            "which the volume is mounted, or a URL that fsspec opens"
        )
    # Workers have another working directory.
    return os.path.abspath(path)  # noqa: PTH100 - pathlib keeps `..`


def _text(_option: str, text: str) -> str:
    return text


def _table(option: str, text: str) -> TableName:
    if text.isdecimal():
        return int(text)
    if not text.lstrip().startswith("["):
        return text
    found = _names(option, text)
    if len(found) != len(("schema", "table")):
        reason = f'{option}: the JSON of a table is a pair: ["public", "orders"]'
        raise OptionError(reason)
    pair = found[0], found[1]
    # Elsewhere, a side table is recognised by its text.
    return ".".join(pair) if ".".join(pair) in SIDE_TABLES else pair


def _tables(option: str, text: str) -> list[TableName]:
    if not text.lstrip().startswith("["):
        return [_table(option, name) for name in _names(option, text)]
    return [
        _table(option, name if isinstance(name, str) else json.dumps(name))
        for name in _json(option, text, list)
    ]


def _names(option: str, text: str) -> list[str]:
    """Names as a JSON list, or with commas between them."""
    if not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",") if name.strip()]
    found = _json(option, text, list)
    if not all(isinstance(name, str) for name in found):
        raise OptionError(f"{option} must be a list of names, in JSON or with commas")
    return list(found)


def _mapping(option: str, text: str) -> dict[str, str]:
    found = _json(option, text, dict)
    if not all(isinstance(value, str) for value in found.values()):
        raise OptionError(f"{option} must be a JSON object whose values are texts")
    return dict(found)


def _storage_options(option: str, text: str) -> dict[str, Any]:
    return dict(_json(option, text, dict))


def _policy(option: str, text: str) -> str | dict[str, str]:
    return _mapping(option, text) if text.lstrip().startswith("{") else text


def _json(option: str, text: str, kind: type) -> Any:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, kind):
        name = "object" if kind is dict else "list"
        raise OptionError(f"{option} must be a JSON {name}")
    return found


def _flag(option: str, text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise OptionError(f"{option} must be true or false")
    return text.lower() == "true"


def _number(option: str, text: str) -> int:
    """A positive number, as bytes also `32m` or `64MiB`. Spark makes a text of a number."""
    text = text.strip()
    number = int(text) if text.isdecimal() and text.isascii() else size(text, option)
    if number > 0:
        return number
    raise OptionError(f"{option} must be a positive number, such as 1000000, or 32m")


def _point(option: str, text: str) -> Lsn | dt.datetime:
    return at(int(text) if text.isdecimal() else text, option)


def _catalog(option: str, text: str) -> Catalog:
    """The catalog itself: executors may not have its file."""
    path = Path(local(text))
    try:
        return Catalog.from_file(path)
    except OSError as error:
        reason = f"{option}: the file cannot be read: {error.strerror}"
        raise OptionError(reason) from error


# How the text of an option of `walrow.read` is read, by its kind. Others stay texts.
_BY_KIND: dict[Kind, Callable[[str, str], Any]] = {
    _options.POLICIES: _policy,
    _options.MAPPING: _mapping,
    _options.ARROW_TYPES: _mapping,
    _options.NAMES: _names,
    _options.CATALOG: _catalog,
    _options.FLAG: _flag,
    _options.NUMBER: _number,
    _options.SIZE: _number,
}
# `dbfs:/data` is a path of Spark's own.
_HADOOP = re.compile(r"[A-Za-z][\w+.-]+:/")
# The options of the data source: their attributes, and the readers of their texts.
_OWN: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "path": ("path", _path),
    "storage_options": ("storage_options", _storage_options),
    "table": ("table", _table),
    "start": ("start", _point),
    "end": ("end", _point),
    "partitionBytes": ("partition_bytes", _number),
    "maxRowsPerTrigger": ("max_rows", _number),
    "maxBytesPerTrigger": ("max_bytes", _number),
    "reader": ("reader", _text),
}
# These are fixed, or have no meaning for a log.
_FIXED = ("session", "late_start", "unfinished", "missing_table")
# And those of `walrow.read`.
_PARSERS: dict[str, Callable[[str, str], Any]] = {
    **{
        name: _BY_KIND.get(option.kind, _text)
        for name, option in READ.items()
        if name in SparkOptions.__annotations__ and name not in _FIXED
    },
    **{name: parse for name, (_, parse) in _OWN.items()},
    "tables": _tables,
}
_OPTIONS = {_plain(name): (name, parse) for name, parse in _PARSERS.items()}
