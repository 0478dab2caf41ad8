"""A script as a user writes it around delta-rs: it merges lines from a pipe by their key."""

from __future__ import annotations

import os
import sys
import threading
import time
from queue import Empty, Queue
from typing import TYPE_CHECKING

import pyarrow as pa
from deltalake import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: A batch has at most so many lines, and waits for so many seconds.
MOST, SECONDS = 100_000, 1.0
#: One more column: `d` removes the row.
OP = "op"


def follow(
    target: str, schema: pa.Schema, parse: Callable[[list[bytes]], pa.Table]
) -> None:
    """Merges the changes in standard input into a table, until it ends.

    Args:
        target: The path of the table. It is created if it is not there.
        schema: Its columns. The first one is the key.
        parse: Makes rows of lines: `op` and the columns, in the order of the changes.
    """
    table = DeltaTable.create(target, schema, mode="ignore")
    for lines in _batches():
        _merge(table, schema, _last_of_each_key(parse(lines), schema.names[0]))


def _merge(table: DeltaTable, schema: pa.Schema, rows: pa.Table) -> None:
    key, *others = schema.names
    (
        table.merge(rows, f"t.{key} = s.{key}", source_alias="s", target_alias="t")
        .when_matched_delete(f"s.{OP} = 'd'")
        .when_matched_update({name: f"s.{name}" for name in others})
        .when_not_matched_insert(
            {name: f"s.{name}" for name in schema.names}, f"s.{OP} <> 'd'"
        )
        .execute()
    )


def _last_of_each_key(rows: pa.Table, key: str) -> pa.Table:
    places = pa.array(range(len(rows)), pa.int64())
    keys = pa.table({"key": rows[key], "place": places})
    last = keys.group_by("key").aggregate([("place", "max")])["place_max"]
    return rows.take(last)


def _batches() -> Iterator[list[bytes]]:
    """The lines, many at a time."""
    blocks: Queue[bytes] = Queue(maxsize=64)
    threading.Thread(target=_read, args=(blocks,), daemon=True).start()
    rest, lines, due, is_open = b"", [], 0.0, True
    while is_open or lines:
        if len(lines) < MOST and is_open:
            try:
                block = blocks.get(
                    timeout=max(due - time.monotonic(), 0) if lines else None
                )
            except Empty:
                block = None
            if block is not None:
                if not lines:
                    due = time.monotonic() + SECONDS
                *more, rest = (rest + block).split(b"\n")
                lines += more
                is_open = block != b""
        if len(lines) >= MOST or time.monotonic() >= due or not is_open:
            if lines:
                yield lines[:MOST]
            del lines[:MOST]


def _read(blocks: Queue[bytes]) -> None:
    """Reads while a batch is merged. An empty block is the end."""
    while block := os.read(sys.stdin.fileno(), 1 << 20):
        blocks.put(block)
    blocks.put(b"")
