"""Peak memory of hard streams: `python benches/memory.py [GIGABYTES]`.

Each case runs in a process of its own, fed by a generator that holds one block, and prints
the process's peak memory beside what an empty decoder takes:

    plain       one transaction of 2 GB, whole
    streamed    the same in chunks of 64 kB, as `streaming 'on'` sends it
    batched     the same plain one, its batches taken as Arrow in pyarrow
    tables      5,000 tables of 100 columns, a row each now and then
    columns     a table of 1,600 columns, rows of integers
    envelope    the same rows under one schema (envelope=True)
    unsent      rows of 1,600 columns with names of 63 bytes, all but the key unchanged
    nested      a transaction in 60,000 subtransactions, every second one rolled back
    truncate    a TRUNCATE of 5,000 tables of 100 columns
    sides       a million logical messages and transactions, side tables read as well
    value       one value of 500 MB

docs/memory.md says what each limit counts.
"""

from __future__ import annotations

import argparse
import resource
import struct
import subprocess
import sys
import tempfile
import time
from typing import TYPE_CHECKING, Any

import walrow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: What the promise allows.
LIMIT_MB = 256
CASES = (
    "empty",
    "plain",
    "streamed",
    "batched",
    "tables",
    "columns",
    "envelope",
    "unsent",
    "nested",
    "truncate",
    "sides",
    "value",
)
BLOCK = 8 << 20
XID = 700


def main() -> None:
    """Runs the cases, or the one that is named."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gigabytes", nargs="?", type=float, default=2.0)
    parser.add_argument("--case", choices=CASES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        _run(options.case, int(options.gigabytes * 1e9))
        return
    print("case          rows     in MB    MB/s   peak MB")
    worst = 0
    for case in CASES:
        command = [sys.executable, __file__, str(options.gigabytes), "--case", case]
        line = subprocess.run(  # noqa: S603
            command, check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        print(line, end="", flush=True)
        # A value of 500 MB has to lie somewhere.
        worst = max(worst, 0 if case == "value" else int(line.split()[-1]))
    print(f"at most {worst} MB, {LIMIT_MB} MB are allowed")
    sys.exit(worst > LIMIT_MB)


def _run(case: str, size: int) -> None:
    streams: dict[str, Callable[[], Iterator[bytes]]] = {
        "empty": lambda: iter(()),
        "plain": lambda: _plain(size),
        "streamed": lambda: _streamed(size),
        "batched": lambda: _plain(size),
        "tables": _tables,
        "columns": _columns,
        "envelope": _columns,
        "unsent": _unsent,
        "nested": _nested,
        "truncate": _truncate,
        "sides": _sides,
        "value": _value,
    }
    source = streams[case]()
    options: dict[str, Any] = {}
    if case == "envelope":
        options["envelope"] = True
    elif case == "sides":
        options["side_tables"] = ["transactions", "messages", "relations"]
    fed = 0

    def counted() -> Iterator[bytes]:
        nonlocal fed
        for block in source:
            fed += len(block)
            yield block

    convert = None
    if case == "batched":
        import pyarrow as pa

        convert = pa.record_batch
    rows = 0
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as directory:
        for batch in walrow.read(counted(), spool_directory=directory, **options):
            rows += batch.num_rows
            if convert:
                convert(batch)
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(
        f"{case:<10} {rows:>9,} {fed / 1e6:>8.0f} {fed / 1e6 / seconds:>7.0f} {peak:>9}"
    )


def _frame(message: bytes, lsn: int = 0x1000) -> bytes:
    head = struct.pack("!cIcQQq", b"d", len(message) + 29, b"w", lsn, lsn, 0)
    return head + message


def _relation(oid: int, columns: int, xid: bytes = b"") -> bytes:
    names = b"".join(
        b"\0" + f"column_{place}".encode() + b"\0" + struct.pack("!Ii", 25, -1)
        for place in range(columns)
    )
    head = b"R" + xid + struct.pack("!I", oid) + b"public\0" + f"t{oid}".encode()
    return _frame(head + b"\0d" + struct.pack("!H", columns) + names, lsn=0)


def _insert(oid: int, values: list[bytes], xid: bytes = b"") -> bytes:
    cells = b"".join(b"t" + struct.pack("!I", len(value)) + value for value in values)
    head = b"I" + xid + struct.pack("!I", oid) + b"N"
    return _frame(head + struct.pack("!H", len(values)) + cells)


def _begin(xid: int = XID, lsn: int = 0x1000) -> bytes:
    return _frame(b"B" + struct.pack("!QqI", lsn, 0, xid))


def _commit(lsn: int = 0x1000) -> bytes:
    return _frame(b"C\0" + struct.pack("!QQq", lsn, lsn + 0x30, 0))


_VALUES = [b"%d" % (place * 7919) for place in range(8)] + [
    b"a text of some length"
] * 2


def _plain(size: int) -> Iterator[bytes]:
    yield _begin() + _relation(1, len(_VALUES))
    row = _insert(1, _VALUES)
    block = row * (BLOCK // len(row))
    for _ in range(size // len(block)):
        yield block
    yield _commit()


def _streamed(size: int) -> Iterator[bytes]:
    xid = struct.pack("!I", XID)
    row = _insert(1, _VALUES, xid)
    rows = row * (65536 // len(row))
    chunk = _frame(b"S" + xid + b"\0") + rows + _frame(b"E")
    yield _frame(b"S" + xid + b"\1") + _relation(1, len(_VALUES), xid) + _frame(b"E")
    block = chunk * (BLOCK // len(chunk))
    for _ in range(size // len(block)):
        yield block
    yield _frame(b"c" + xid + b"\0" + struct.pack("!QQq", 0x1000, 0x1030, 0))


def _tables(
    tables: int = 5_000, columns: int = 100, rounds: int = 4
) -> Iterator[bytes]:
    values = [b"%d" % place for place in range(columns)]
    for turn in range(rounds):
        for oid in range(1, tables + 1):
            lsn = (turn * tables + oid) << 8
            relation = _relation(oid, columns) if turn == 0 else b""
            yield _begin(oid, lsn) + relation + _insert(oid, values) + _commit(lsn)


def _columns(columns: int = 1_600, rows: int = 20_000) -> Iterator[bytes]:
    yield _begin() + _relation(1, columns)
    row = _insert(1, [b"%d" % place for place in range(columns)])
    block = row * (BLOCK // len(row))
    for _ in range(rows * len(row) // len(block)):
        yield block
    yield _commit()


def _unsent(columns: int = 1_600, rows: int = 50_000) -> Iterator[bytes]:
    names = b"".join(
        bytes([place == 0])
        + f"{place:x<63}".encode()
        + b"\0"
        + struct.pack("!Ii", 25, -1)
        for place in range(columns)
    )
    head = b"R" + struct.pack("!I", 1) + b"public\0t\0d" + struct.pack("!H", columns)
    yield _begin() + _frame(head + names, lsn=0)
    cells = b"t" + struct.pack("!I", 1) + b"1" + b"u" * (columns - 1)
    row = _frame(b"U" + struct.pack("!IcH", 1, b"N", columns) + cells)
    block = row * (BLOCK // len(row))
    for _ in range(rows * len(row) // len(block)):
        yield block
    yield _commit()


def _nested(subtransactions: int = 60_000, rows: int = 20) -> Iterator[bytes]:
    top = struct.pack("!I", XID)
    yield _frame(b"S" + top + b"\1") + _relation(1, len(_VALUES), top) + _frame(b"E")
    for number in range(1, subtransactions + 1):
        xid = struct.pack("!I", XID + number)
        chunk = _frame(b"S" + top + b"\0") + _insert(1, _VALUES, xid) * rows
        abort = _frame(b"A" + top + xid) if number % 2 else b""
        yield chunk + _frame(b"E") + abort
    yield _frame(b"c" + top + b"\0" + struct.pack("!QQq", 0x1000, 0x1030, 0))


def _truncate(tables: int = 5_000, columns: int = 100) -> Iterator[bytes]:
    yield _begin()
    for oid in range(1, tables + 1):
        yield _relation(oid, columns)
    oids = b"".join(struct.pack("!I", oid) for oid in range(1, tables + 1))
    yield _frame(b"T" + struct.pack("!IB", tables, 0) + oids)
    yield _commit()


def _sides(transactions: int = 1_000_000) -> Iterator[bytes]:
    message = b"M\1" + struct.pack("!Q", 0x1000) + b"prefix\0" + struct.pack("!I", 20)
    block = []
    for number in range(1, transactions + 1):
        lsn = number << 8
        block.append(_begin(number, lsn) + _frame(message + b"x" * 20) + _commit(lsn))
        if len(block) == BLOCK // 300:
            yield b"".join(block)
            block.clear()
    yield b"".join(block)


def _value(size: int = 500_000_000) -> Iterator[bytes]:
    head = b"I" + struct.pack("!I", 1) + b"N" + struct.pack("!H", 1)
    cell = b"t" + struct.pack("!I", size)
    frame = _frame(head + cell)
    length = struct.pack("!I", 29 + len(head) + len(cell) + size)
    yield _begin() + _relation(1, 1) + frame[:1] + length + frame[5:]
    for _ in range(size // 1_000_000):
        yield b"x" * 1_000_000
    yield _commit()


if __name__ == "__main__":
    main()
