"""Why a cost is not linear in time, or not constant in memory, by axis and way.

The page marks each curve that lacks its explanation.
"""

from __future__ import annotations

#: For linear instructions whose CPU time grows faster.
CACHES = (
    "the instructions of the program are linear. The rest grows faster: misses of the processor's "
    "caches, and the kernel's work for memory and files. A busy machine has the same effect."
)

_LAST_SEGMENT = (
    "all rows are in one segment, which is read from its beginning up to the last transaction. "
    "A segment ends at `segment_size` (64 MiB), and so does this growth."
)
_LONG_ROWS = (
    "copying and the checksum take 32 bytes or more at once, so that long rows and values need fewer "
    "instructions for each byte."
)
_NET_CELLS = (
    "a cell takes 70 to 95 instructions at all sizes. They are fewest at 100 columns, and the fit takes "
    "this for a curve."
)
_CHUNKS = (
    "the rows are the same, and most of the time is theirs. A chunk adds about 2 µs."
)
_STATE = (
    "the rows of the table are kept: in memory up to `spool_memory` (64 MiB), then in a file. The "
    "index takes 38 to 76 bytes of memory for each row, and 114 while it grows: "
    "[memory](../memory.md)."
)
_BATCHES = (
    "a batch has up to 16,384 rows, so that wide rows make large batches, up to "
    "`batch_bytes` (32 MiB)."
)
_TABLES = "each table has an unfinished batch. All of them together have 128 MiB."
_COPIED = (
    "a transaction that ends in the same block of input is read where it lies. A longer one is "
    "copied until its commit, and to a file beyond `spool_memory` (64 MiB)."
)
_OPEN = (
    "an open transaction waits for its commit in memory up to `spool_memory` (64 MiB), then in a "
    "file."
)
_VALUE = (
    "batches have up to `batch_bytes` (32 MiB), and open transactions `spool_memory` (64 MiB). "
    "One value is in its message and in its column at the same time."
)

#: By axis and way. Without a way, it is the explanation of the axis's other ways.
TIME: dict[tuple[str, str], str] = {
    ("rows", "follow"): _LAST_SEGMENT,
    ("tables", "follow"): _LAST_SEGMENT,
    ("transactions", "follow"): _LAST_SEGMENT,
    ("columns", "append"): _LONG_ROWS,
    ("columns", "read log"): _LONG_ROWS,
    ("columns", "state"): _LONG_ROWS,
    ("columns", "net"): _NET_CELLS,
    ("bytes of a value", ""): _LONG_ROWS,
    ("chunks", ""): _CHUNKS,
    ("rows of one transaction", ""): _COPIED,
}
MEMORY: dict[tuple[str, str], str] = {
    ("columns", ""): _BATCHES,
    ("tables", ""): _TABLES,
    ("rows of one transaction", ""): _OPEN,
    ("bytes of a value", ""): _VALUE,
} | {
    (axis, way): _STATE
    for axis in (
        "rows",
        "columns",
        "transactions",
        "rows of one transaction",
        "segments",
    )
    for way in ("state", "net")
}
