"""Where a source begins: the LSN of a time."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from walrow._amounts import at
from walrow._core import Reader
from walrow._lsn import Lsn
from walrow._sources.chunks import Chunks
from walrow._sources.logs import log_of, start_in
from walrow.errors import OptionError


def start_of(source: Any, options: Mapping[str, Any]) -> Any:
    """The option `start`, with the LSN that the source has for it if it is a time.

    Raises:
        OptionError: It is a time, and the source can be read only once.
    """
    log, start = log_of(source), options["start"]
    if log is not None:
        return start_in(log, start)
    found = at(start, "start")
    if isinstance(found, dt.datetime):
        return start_in_capture(source, found, options)
    return found


def start_in_capture(source: Any, time: dt.datetime, options: Mapping[str, Any]) -> Lsn:
    """The LSN where `end` with this time stops. A capture has no index, so it is read for it.

    Raises:
        OptionError: It can be read only once.
    """
    text = (
        "start is a time, which reads a capture twice, and this one can be read once: pass the LSN, "
        "which table='walrow.transactions' has for each time"
    )
    place = place_of(source, text)
    own = {key: options[key] for key in _OF_STREAMS if options.get(key) is not None}
    chunks = Chunks(source, unfinished="ignore")
    with (
        closing(chunks),
        Reader(
            chunks,
            table="walrow.transactions",
            end=time,
            unfinished="ignore",
            missing_table="ignore",
            gaps="cross",
            **own,
        ) as reader,
    ):
        for _ in reader:
            pass
        found = reader.position
    if place is not None:
        source.seek(place)
    return found


def place_of(source: Any, refusal: str) -> int | None:
    """Where a file object begins. None for a source that can be read twice as it is.

    Args:
        source: As in `walrow.read`.
        refusal: The text of the error.

    Raises:
        OptionError: It can be read only once.
    """
    if hasattr(source, "read"):
        if hasattr(source, "seekable") and source.seekable():
            place: int = source.tell()
            return place
    elif not isinstance(source, Iterator):
        files = source if isinstance(source, list | tuple) else [source]
        if not any(map(_is_pipe, files)):
            return None
    raise OptionError(refusal)


def _is_pipe(file: Any) -> bool:
    return isinstance(file, str | os.PathLike) and Path(file).is_fifo()


#: The options that a stream itself needs.
_OF_STREAMS = (
    "late_start",
    "message_limit",
    "spool_directory",
    "spool_memory",
)
