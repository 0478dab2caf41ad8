"""`walrow.delta.apply_changes` beside deltalake's own MERGE: delta.py [DIR] [--rows N] ...

A table has N rows. A part of them is updated, some more than once, and a fifth of the updates do not
send one column. `apply` reads the log, folds the changes, merges them and keeps its record.
`merge` merges the same net rows, which are ready in memory: deltalake's MERGE with the same clauses.
Both begin with the same files. They take turns, and ratios are the medians of all turns, of elapsed
time and of CPU time. Then the rows are compared. `*` marks what misses its aim.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import deltalake
import pyarrow as pa
import pyarrow.compute as pc

import walrow
import walrow.delta
from apply import COLUMNS, OID, history, messages
from walrow._core import LogWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walrow._lsn import Lsn

T = TypeVar("T")

AIM = 1.15
TABLE = "public.orders"


class Times(NamedTuple):
    """Seconds of a call: elapsed, and of the CPU in all threads."""

    elapsed: float
    cpu: float


def main() -> None:
    """Prints a line."""
    root = Path(__file__).resolve().parent.parent
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", nargs="?", type=Path, default=root / "target/bench-data")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the target")
    parser.add_argument("--changes", type=int, default=200_000)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    options.dir.mkdir(parents=True, exist_ok=True)
    # The system's directory for temporary files may be memory.
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        measure(Path(folder), options.rows, options.changes, options.turns)


def measure(folder: Path, rows: int, changes: int, turns: int) -> None:
    """Prints the line."""
    log = folder / "log"
    base, own, bare = (folder / name for name in ("base", "own", "bare"))
    begin = write(log, rows, changes)
    walrow.delta.apply_changes(log, table=TABLE, target=f"delta:{base}", end=begin)
    shutil.copytree(base, own)
    walrow.delta.apply_changes(log, table=TABLE, target=f"delta:{own}")
    net = net_rows(own)
    pairs = []
    for _ in range(turns):
        for place in (own, bare):
            shutil.rmtree(place, ignore_errors=True)
            shutil.copytree(base, place)
        apply = partial(walrow.delta.apply_changes, table=TABLE, target=f"delta:{own}")
        _, ours = timed(partial(apply, log))
        _, theirs = timed(partial(merge, bare, net))
        pairs.append((ours, theirs))
    if not all_rows(own).equals(all_rows(bare)):
        print("THE ROWS DIFFER")
    what = f"{changes:,} changes of {rows:,} rows: apply, of merge"
    print(report(what, pairs, AIM))


def report(what: str, pairs: list[tuple[Times, Times]], aim: float) -> str:
    """A ratio beside its aim, with a description."""
    ours, bare = (
        Times(*map(median, zip(*each, strict=True)))
        for each in zip(*pairs, strict=True)
    )
    elapsed = median(one.elapsed / other.elapsed for one, other in pairs)
    cpu = median(one.cpu / other.cpu for one, other in pairs)
    return (
        f"{what:<56}{elapsed:>6.2f} <= {aim}{'*' if elapsed > aim else ''}"
        f" (CPU {cpu:.2f}{'*' if cpu > aim else ''})"
        f"   {ours.elapsed:.3f} of {bare.elapsed:.3f} s, CPU {ours.cpu:.3f} of {bare.cpu:.3f} s"
    )


def timed(call: Callable[[], T]) -> tuple[T, Times]:
    """The result of a call, and its seconds."""
    elapsed, cpu = time.perf_counter(), time.process_time()
    result = call()
    return result, Times(time.perf_counter() - elapsed, time.process_time() - cpu)


def merge(place: Path, net: pa.Table) -> None:
    """Merges net rows by the key."""
    (
        deltalake.DeltaTable(place)
        .merge(
            net, "t.id = s.id", source_alias="s", target_alias="t", streamed_exec=False
        )
        .when_matched_update({it: f"s.{it}" for it in COLUMNS if it != "id"})
        .when_not_matched_insert({it: f"s.{it}" for it in COLUMNS})
        .execute()
    )


def net_rows(place: Path) -> pa.Table:
    """The rows that were changed."""
    rows = all_rows(place)
    return rows.filter(pc.not_equal(rows["note"], "base"))


def all_rows(place: Path) -> pa.Table:
    """All rows, by their keys."""
    table = deltalake.DeltaTable(place)
    # A scan gives texts as views.
    kinds = pa.schema(table.schema().to_arrow())
    return pa.table(table.scan()).cast(kinds).sort_by("id").combine_chunks()


def write(log: Path, rows: int, changes: int) -> Lsn:
    """Writes a log of inserts and updates. Returns the LSN between them."""
    writer = LogWriter(
        log,
        segment_bytes=64 << 20,
        level=1,
        spool_memory=64 << 20,
        framing="message",
        syncs=False,
        system_identifier="7",
        database="written",
        slot="written",
    )
    for message in inserts(rows):
        writer.append(message)
    writer.sync()
    writer.publish()
    begin = walrow.Log(log).end
    for message in messages(history(rows, changes, changes // 2)):
        writer.append(message)
    writer.sync()
    writer.publish()
    writer.close()
    return begin


def inserts(rows: int) -> Iterator[bytes]:
    """One transaction with all rows."""
    import streams

    columns = [
        streams.Column(name, oid, is_key=name == "id") for name, oid in COLUMNS.items()
    ]
    yield streams.begin(lsn=0x100)
    yield streams.relation(columns, OID, "orders")
    for n in range(rows):
        row = (n, n % 100_000, "base", n % 1000, f"{n:X}" * 8)
        yield streams.insert([str(it) for it in row], OID)
    yield streams.commit(lsn=0x100)


if __name__ == "__main__":
    main()
