"""The timeline on which a log was received last, beside its segments.

Each segment has it, too. But the log goes on without a segment as long as nothing changes, and
positions alone do not have it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from walrow.errors import LogError
from walrow.log_files import write_json

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_timeline", "write_timeline"]


def read_timeline(log: Path, of_segments: int | None) -> int | None:
    """The timeline of what is durable in a log.

    Args:
        log: The log's directory.
        of_segments: The timeline of its last segment. None if it has none.
    """
    try:
        found = int(json.loads((log / _TIMELINE).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return of_segments
    # Of the timelines of one history, a later one has a higher number.
    return max(found, of_segments or 0)


def write_timeline(log: Path, timeline: int) -> None:
    """Records the timeline of what comes next. Call it before that is in the log.

    Raises:
        LogError: The file system refused it.
    """
    temporary = log / f".walrow-{_TIMELINE}"
    try:
        write_json(temporary, timeline)
        temporary.replace(log / _TIMELINE)
    except OSError as error:
        text = f"the timeline cannot be written: {error.strerror}"
        raise LogError(text, code="store", file=_TIMELINE, errno=error.errno) from error


#: Other files that begin with a dot are none of the log's.
_TIMELINE = ".timeline"
