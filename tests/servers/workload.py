"""Random histories for a server: interleaved operations of several connections.

A workload is a list of small operations. Any list is a valid workload: an operation
that makes no sense in its place (a commit without a transaction) does nothing. So a failing
workload can be made smaller by removing operations, and `servers.script` makes statements
from the rest.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Operation:
    """One operation of one connection. Its numbers choose among the existing objects.

    Attributes:
        session: Which connection.
        kind: A key of `KINDS`.
        table: Chooses the table.
        size: How many rows, or how long a message.
        pick: Chooses everything else: the columns, the savepoint, the option.
    """

    session: int
    kind: str
    table: int = 0
    size: int = 1
    pick: int = 0


@dataclass(frozen=True)
class Workload:
    """A history as a list of operations.

    Attributes:
        operations: In the order in which they are done, one after the other.
        via_root: Whether partitions are published as their root.
        seed: Its seed; None after it was made smaller.
    """

    operations: tuple[Operation, ...]
    via_root: bool = False
    seed: int | None = None

    def to_json(self) -> str:
        """Writes it as JSON."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Workload:
        """Reads what `to_json` wrote."""
        value: dict[str, Any] = json.loads(text)
        operations = tuple(Operation(**each) for each in value.pop("operations"))
        return cls(operations=operations, **value)


KINDS = {
    "begin": 16,
    "commit": 8,
    "rollback": 3,
    "prepare": 5,
    "commit_prepared": 4,
    "rollback_prepared": 2,
    "savepoint": 16,
    "rollback_to": 8,
    "release": 4,
    "insert": 26,
    "insert_wide": 5,
    "upsert": 3,
    "update": 12,
    "update_wide": 3,
    "update_key": 3,
    "move": 3,
    "delete": 6,
    "fail": 2,
    "truncate": 3,
    "add_column": 4,
    "drop_column": 3,
    "rename_column": 3,
    "alter_type": 2,
    "rename_table": 2,
    "create_table": 2,
    "drop_table": 1,
    "identity": 3,
    "refresh": 6,
    "rename_schema": 4,
    "message": 5,
    "origin": 3,
    "origin_at": 2,
}
"""Every kind of operation and how often it comes."""

SESSIONS = 4


def generate(seed: int, operations: int = 160) -> Workload:
    """Makes a workload; the same one for the same seed."""
    source = random.Random(seed)  # noqa: S311
    kinds, weights = list(KINDS), list(KINDS.values())
    made = [
        Operation(
            session=source.randrange(SESSIONS),
            kind=source.choices(kinds, weights)[0],
            table=source.randrange(100),
            # About 330 narrow rows fill 64 kB. A server streams larger transactions.
            size=source.choice((1, 2, 5, 20, 60, 150, 350, 400, 600)),
            pick=source.randrange(1000),
        )
        for _ in range(operations)
    ]
    return Workload(tuple(made), via_root=source.random() < 0.5, seed=seed)


def shrink(
    workload: Workload, fails: Callable[[Workload], bool], tries: int = 200
) -> Workload:
    """Removes operations, and makes sizes smaller, as long as it still fails.

    Args:
        workload: One that fails.
        fails: Whether one fails.
        tries: The maximum number of calls of `fails`.

    Returns:
        The smallest one that was found.
    """
    best = list(workload.operations)

    def still(candidate: list[Operation]) -> bool:
        nonlocal tries, best
        if tries <= 0 or candidate == best:
            return False
        tries -= 1
        if not fails(Workload(tuple(candidate), workload.via_root)):
            return False
        best = candidate
        return True

    step = max(1, len(best) // 2)
    while tries > 0:
        before = len(best)
        at = len(best) - step
        # From the end, because later operations rarely matter for earlier ones.
        while at > -step:
            still(best[: max(at, 0)] + best[max(at, 0) + step :])
            at -= step
        if step == 1 and len(best) == before:
            break
        step = max(1, step // 2)
    for at in range(len(best)):
        if best[at].size > 1:
            small = Operation(**{**asdict(best[at]), "size": 1})
            still([*best[:at], small, *best[at + 1 :]])
    return Workload(tuple(best), workload.via_root)
