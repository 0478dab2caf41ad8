"""The kinds of target: the columns that each has beside the table's, and the options that it takes.

| mode | a row is |
|---|---|
| `current` | a row of the table, as it is |
| `history` | a version of a row: it is true from `_valid_from` until before `_valid_to` |
| `changes` | a change, as `walrow.read` returns it |
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from walrow._apply.items import PREFIX
from walrow._apply.options import ApplyOptions
from walrow._late import pa
from walrow.errors import OptionError
from walrow.typing import Mode

VALID_FROM, VALID_TO, IS_CURRENT = "_valid_from", "_valid_to", "_is_current"
#: The change that began a version has these.
LSN, SEQ = "_commit_lsn", "_seq"
#: The metadata columns that `walrow.read` gives by default.
READ_METADATA = (
    "change_type",
    "commit_lsn",
    "seq",
    "commit_timestamp",
    "xid",
    "key_only",
    "unsent",
)
#: The metadata columns of changes.
CHANGE_METADATA = (*READ_METADATA, "loaded")
#: The metadata columns that net changes need.
NET_METADATA = ("change_type", "commit_lsn", "key_only", "unsent")


#: The options for a range of a log that may lack the table, and have gaps.
ANY_RANGE: Any = {"missing_table": "ignore", "gaps": "cross"}


def metadata_of(mode: Mode) -> tuple[str, ...]:
    """The metadata columns of the decoder that a target needs."""
    return NET_METADATA if mode == "current" else CHANGE_METADATA


def beside(mode: Mode) -> pa.Schema:
    """The columns that a target has beside the table's. `deletes="soft"` adds its own.

    >>> beside("history").names
    ['_valid_from', '_valid_to', '_is_current', '_commit_lsn', '_seq']
    """
    time = pa.timestamp("us", "UTC")
    fields: dict[Mode, list[tuple[str, Any]]] = {
        "current": [],
        "history": [
            (VALID_FROM, time),
            (VALID_TO, time),
            (IS_CURRENT, pa.bool_()),
            (LSN, pa.int64()),
            (SEQ, pa.int64()),
        ],
        "changes": [
            ("_change_type", pa.string()),
            (LSN, pa.int64()),
            (SEQ, pa.int64()),
            ("_commit_timestamp", time),
            ("_xid", pa.int64()),
            ("_key_only", pa.bool_()),
            ("_unsent", pa.list_(pa.field("element", pa.string()))),
            ("_loaded", pa.bool_()),
            # The day in UTC, for partitions.
            ("_commit_date", pa.date32()),
        ],
    }
    return pa.schema(fields[mode])


def named(metadata: str) -> str:
    """The name of a metadata column while it is read. The target has `_` before it."""
    return PREFIX + metadata


def check_mode(rules: ApplyOptions, keys: Sequence[str] | None) -> None:
    """Refuses options that mean nothing for a kind of target.

    Raises:
        OptionError: There is one.
    """
    mode = rules.mode
    given: dict[str, tuple[object, object]] = {}
    if mode != "current":
        given["deletes"] = (rules.deletes, "apply")
    if mode == "changes":
        given["truncates"] = (rules.truncates, "apply")
        given["never_sent"] = (rules.never_sent, "error")
        given["keys"] = (keys or None, None)
    for name, (value, default) in given.items():
        if value != default:
            text = f"{name}={value!r} means nothing for a target with mode={mode!r}: leave it out"
            raise OptionError(text)
