"""walrow's own facts in the segments of a log, in words. docs/log.md has the list."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def fact_of(fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fact that a logical message is. None for a message of a user.

    No server sends a message at LSN 0/0.
    """
    if fields.get("prefix") != "walrow" or fields.get("lsn") != 0:
        return None
    try:
        found = json.loads(fields["content"])
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and "fact" in found else None


def in_words(fact: Mapping[str, Any]) -> str:
    """Writes a fact in words, with its values."""
    kind = fact["fact"]
    words = _WORDS.get(kind, "a fact of a later version of walrow")
    rest = " ".join(
        f"{name}={_value(value)}"
        for name, value in fact.items()
        if name != "fact" and value not in (None, [], {})
    )
    return f"walrow's fact {kind}: {words}{f' ({rest})' if rest else ''}"


def _value(value: Any) -> str:
    if isinstance(value, list | dict):
        return f"{len(value)} entries" if len(value) > _MOST else json.dumps(value)
    return str(value)


_MOST = 3
_WORDS = {
    "segment": "a segment of the log begins",
    "catalog": "definitions of types and tables that the segment uses",
    "prepared": "how the next transaction was prepared",
    "snapshot": "the next transaction is a load: a truncate, and all rows at one moment",
    "rolled_back": "savepoints of the next transaction were rolled back",
    "part": "the next transaction continues one of an earlier segment",
    "seq": "changes of the current transaction were erased here",
    "continues": "the current transaction continues in the next segment",
    "position": "everything up to this LSN is in the log",
    "undecided": "a transaction was prepared, and its rows are a file of the log",
    "decided": "a prepared transaction was committed or rolled back",
    "timeline": "what comes next was received on this timeline",
    "asked": "the options of the stream from here on",
    "taken": "a transaction was prepared, and nothing came after it",
    "slot_start": "where the slot was when the log was begun",
    "prepared_before": "what may have been prepared before the slot was there",
}
