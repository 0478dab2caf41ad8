"""The options that `receive` and `seal` share."""

from __future__ import annotations

import os
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Any

from walrow._options import FOLDER, Kind, Option, Value, options
from walrow._sources.logs import new_directory_of
from walrow.typing import Size


@options
class WriterOptions:
    """The options that `receive` and `seal` share."""

    _: KW_ONLY
    log: Option[str | os.PathLike[str], Path] = Option(
        "The log's directory. It is created if necessary, for its owner only.",
        Kind(FOLDER.name, lambda value, _: new_directory_of(value)),
    )
    segment_size: Option[Size, int] = Option(
        "A segment ends at this size of the stream.", default="64MiB", least=1
    )
    spool_memory: Option[Size, int] = Option(
        "The memory of all open transactions. Beyond it, they wait in files.",
        default="64MiB",
    )
    spool_directory: Option[str | os.PathLike[str] | None, Path | None] = Option(
        "The directory of these files. Default: the log's for `receive`, otherwise the system's.",
        default=None,
    )
    group_access: Value[bool] = Option(
        "The owner's group may read the log.", default=False
    )

    def writer(self) -> dict[str, Any]:
        """The options as the log's writer takes them."""
        return {
            "segment_bytes": self.segment_size,
            "spool_memory": self.spool_memory,
            "spool_directory": self.spool_directory,
            "group_access": self.group_access,
        }
