"""Marks: why a table of a log is not whole, and since when."""

from __future__ import annotations

import datetime as dt
from enum import StrEnum
from typing import NamedTuple

from walrow.lsn import Lsn

__all__ = ["Mark", "Why"]


class Why(StrEnum):
    """What happened to a table that its stream does not contain, as a code."""

    HAD_ROWS = "had_rows"
    NEW = "new_in_publication"
    LEFT = "left_publication"
    FILTER = "row_filter"
    PARTITIONS = "partitions"
    TYPE = "type_altered"
    RENAMED = "column_renamed"
    RETYPED = "column_type"
    COLUMN = "column_added"
    RETURNED = "column_returned"
    DEFAULT = "column_default"


class Mark(NamedTuple):
    """Why a table is not whole.

    Attributes:
        code: The reason, as a code.
        reason: What happened to the table, in words.
        since: Where the log ended when the receiver looked last before. It happened later.
        until: The end of the load that made the table whole again. None before.
        accepted: When somebody accepted it. None if nobody did.
    """

    code: Why
    reason: str
    since: Lsn
    until: Lsn | None = None
    accepted: dt.datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether the table still needs a load because of it."""
        return self.until is None and self.accepted is None
