"""The record of erasures of a log, for targets that keep old versions of rows.

The log itself notes the last transaction whose rows were erased. A later erasure of earlier rows does
not change that, and erased columns are not part of it. So each erasure is counted here, when it
begins and when it has ended: a target that follows it in between follows it again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import NamedTuple

from walrow._core import LogObjects


class Erasures(NamedTuple):
    """The erasures of a table: how many have begun and ended, and where the log ended, by column."""

    number: int
    columns: Mapping[str, int]


def read_erasures(read: Callable[[str], bytes]) -> dict[int, Erasures]:
    """The erasures of each table, by OID. `read` is as `Log.read_object`."""
    try:
        found = json.loads(read(_ERASED))
    except FileNotFoundError:
        return {}
    return {
        int(oid): Erasures(
            int(number), {str(name): int(end) for name, end in columns.items()}
        )
        for oid, (number, columns) in found.items()
    }


def counts(erasures: Mapping[int, Erasures]) -> dict[int, int]:
    """The number of erasures of each table."""
    return {oid: it.number for oid, it in erasures.items()}


def note_erasure(log: Path, oid: int, columns: Collection[str], end: int) -> None:
    """Counts an erasure that begins or has ended: a log that ends here no longer has the columns."""
    objects = LogObjects(log)
    with objects.lock():
        known = read_erasures(lambda name: objects.read(name)[0])
        number, ends = known.get(oid, Erasures(0, {}))
        known[oid] = Erasures(number + 1, {**ends, **dict.fromkeys(columns, end)})
        record = {str(oid): [it.number, dict(it.columns)] for oid, it in known.items()}
        objects.replace(_ERASED, json.dumps(record).encode())


_ERASED = "_load-erased"
