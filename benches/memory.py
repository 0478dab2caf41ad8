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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import walrow

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
import streams

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
        sides = "transactions", "messages", "relations"
        options["tables"] = [f"walrow.{side}" for side in sides]
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


def _frames(*messages: bytes, lsn: int = 0x1000) -> bytes:
    return b"".join(streams.data(it, lsn, lsn) for it in messages)


def _relation(oid: int, columns: int, xid: int | None = None) -> bytes:
    fields = [streams.Column(f"column_{place}", 25) for place in range(columns)]
    return _frames(streams.relation(fields, oid, f"t{oid}", xid=xid), lsn=0)


def _begin(xid: int = XID, lsn: int = 0x1000) -> bytes:
    return _frames(streams.begin(xid, lsn))


def _commit(lsn: int = 0x1000) -> bytes:
    return _frames(streams.commit(lsn))


def _chunk(frames: bytes, *, first: bool = False) -> bytes:
    """A chunk of the streamed transaction."""
    start = streams.stream_start(XID, first=first)
    return _frames(start) + frames + _frames(streams.STREAM_STOP)


_VALUES = [str(place * 7919) for place in range(8)] + ["a text of some length"] * 2


def _plain(size: int) -> Iterator[bytes]:
    yield _begin() + _relation(1, len(_VALUES))
    row = _frames(streams.insert(_VALUES, 1))
    block = row * (BLOCK // len(row))
    for _ in range(size // len(block)):
        yield block
    yield _commit()


def _streamed(size: int) -> Iterator[bytes]:
    row = _frames(streams.insert(_VALUES, 1, XID))
    chunk = _chunk(row * (65536 // len(row)))
    yield _chunk(_relation(1, len(_VALUES), XID), first=True)
    block = chunk * (BLOCK // len(chunk))
    for _ in range(size // len(block)):
        yield block
    yield _frames(streams.stream_commit(XID))


def _tables(
    tables: int = 5_000, columns: int = 100, rounds: int = 4
) -> Iterator[bytes]:
    values = [str(place) for place in range(columns)]
    for turn in range(rounds):
        for oid in range(1, tables + 1):
            lsn = (turn * tables + oid) << 8
            relation = _relation(oid, columns) if turn == 0 else b""
            row = _frames(streams.insert(values, oid))
            yield _begin(oid, lsn) + relation + row + _commit(lsn)


def _columns(columns: int = 1_600, rows: int = 20_000) -> Iterator[bytes]:
    yield _begin() + _relation(1, columns)
    row = _frames(streams.insert([str(place) for place in range(columns)], 1))
    block = row * (BLOCK // len(row))
    for _ in range(rows * len(row) // len(block)):
        yield block
    yield _commit()


def _unsent(columns: int = 1_600, rows: int = 50_000) -> Iterator[bytes]:
    fields = [
        streams.Column(f"{place:x<63}", 25, is_key=place == 0)
        for place in range(columns)
    ]
    yield _begin() + _frames(streams.relation(fields, 1), lsn=0)
    row = _frames(streams.update(["1", *[streams.UNSENT] * (columns - 1)], 1))
    block = row * (BLOCK // len(row))
    for _ in range(rows * len(row) // len(block)):
        yield block
    yield _commit()


def _nested(subtransactions: int = 60_000, rows: int = 20) -> Iterator[bytes]:
    yield _chunk(_relation(1, len(_VALUES), XID), first=True)
    for number in range(1, subtransactions + 1):
        xid = XID + number
        yield _chunk(_frames(streams.insert(_VALUES, 1, xid)) * rows)
        if number % 2:
            yield _frames(streams.stream_abort(XID, xid))
    yield _frames(streams.stream_commit(XID))


def _truncate(tables: int = 5_000, columns: int = 100) -> Iterator[bytes]:
    yield _begin()
    for oid in range(1, tables + 1):
        yield _relation(oid, columns)
    yield _frames(streams.truncate(*range(1, tables + 1)))
    yield _commit()


def _sides(transactions: int = 1_000_000) -> Iterator[bytes]:
    message = _frames(streams.message("prefix", b"x" * 20))
    block = []
    for number in range(1, transactions + 1):
        lsn = number << 8
        block.append(_begin(number, lsn) + message + _commit(lsn))
        if len(block) == BLOCK // 300:
            yield b"".join(block)
            block.clear()
    yield b"".join(block)


def _value(size: int = 500_000_000) -> Iterator[bytes]:
    # An insert of no bytes, with other lengths.
    frame = _frames(streams.insert([""], 1))
    length = struct.pack("!I", len(frame) - 1 + size)
    yield _begin() + _relation(1, 1) + frame[:1] + length + frame[5:-4]
    yield struct.pack("!I", size)
    for _ in range(size // 1_000_000):
        yield b"x" * 1_000_000
    yield _commit()


if __name__ == "__main__":
    main()
