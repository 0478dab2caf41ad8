"""Logs beside what they cannot be faster than: log.py [DIR].

Sealing is compared with a copy of the same bytes with fsync, and compressed with zstd's own
time; reading a log with reading the capture and decompressing. Times are the best of some
turns, each beside the other in one turn. `*` marks what misses its aim.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

import walrow

if TYPE_CHECKING:
    from collections.abc import Callable

TURNS = 7
#: Frames of a segment have about this many bytes.
FRAME = 1 << 20


def main() -> None:
    """Prints a line for each capture and aim."""
    root = Path(__file__).resolve().parent.parent
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else root / "target/bench-data")
    for name in ("narrow", "wide", "pgbench", "tiny"):
        path = directory / f"{name}.wire"
        if path.exists():
            # Beside the captures: the directory for temporary files may be memory.
            with tempfile.TemporaryDirectory(dir=directory) as folder:
                measure(name, path, Path(folder))


def measure(name: str, path: Path, folder: Path) -> None:
    """Prints the lines of a capture."""
    data = path.read_bytes()
    mib = len(data) / 1e6
    codec = pa.Codec("zstd", compression_level=3)
    pieces = [data[at : at + FRAME] for at in range(0, len(data), FRAME)]
    frames = [codec.compress(piece, asbytes=True) for piece in pieces]
    stored, small = folder / "stored", folder / "small"

    wall, cpu = time.perf_counter, time.process_time
    copy, sealed = best(
        wall, lambda: copied(path, folder / "copy"), lambda: seal(path, stored, 0)
    )
    report(name, "seal, of a copy with fsync", copy / sealed, 0.7, mib / sealed)
    zstd, sealed = best(
        cpu,
        lambda: [codec.compress(piece) for piece in pieces],
        lambda: seal(path, small, 3),
    )
    report(name, "seal at level 3, of zstd's CPU", sealed / zstd, -1.3, mib / sealed)
    sizes = list(map(len, pieces))
    capture, unzstd, read = best(
        wall,
        lambda: drain(path),
        lambda: [*map(codec.decompress, frames, sizes)],
        lambda: drain(small),
    )
    aim = capture + 1.1 * unzstd
    report(name, "read, of capture + 1.1 zstd", read / aim, -1.0, mib / read)
    many = folder / "many"
    walrow.seal(data, log=many, segment_size=100_000, compression_level=0)
    for log, what in (
        (small, "two threads, of one"),
        (many, "the same, small segments"),
    ):
        one, two = best(wall, partial(drain, log), partial(drain, log, threads=2))
        report(name, what, one / two, 1.7, mib / two)
    (verified,) = best(wall, lambda: walrow.Log(stored).verify())
    report(name, "verify, in GB/s", mib / 1000 / verified, 1.0, mib / verified)


def report(name: str, what: str, ratio: float, aim: float, speed: float) -> None:
    """Prints a ratio beside its aim: at least that, or, if it is negative, at most."""
    is_met = ratio >= aim if aim > 0 else ratio <= -aim
    bound = f"{'>=' if aim > 0 else '<='} {abs(aim):.1f}"
    print(
        f"{name:<9}{what:<33}{ratio:>6.2f} {bound}{' ' if is_met else '*'}{speed:>7.0f} MB/s"
    )


def best(clock: Callable[[], float], *calls: Callable[[], object]) -> list[float]:
    """The shortest time of each call."""
    times = [float("inf")] * len(calls)
    for _ in range(TURNS):
        for at, call in enumerate(calls):
            began = clock()
            call()
            times[at] = min(times[at], clock() - began)
    return times


def copied(path: Path, target: Path) -> None:
    """Copies a file in blocks, durably."""
    target.unlink(missing_ok=True)
    with path.open("rb", buffering=0) as source, target.open("wb", buffering=0) as file:
        while block := source.read(FRAME):
            file.write(block)
        os.fsync(file.fileno())


def seal(path: Path, log: Path, level: int) -> None:
    """Seals a capture in a new log."""
    shutil.rmtree(log, ignore_errors=True)
    walrow.seal(path, log=log, compression_level=level)


def drain(source: Path, threads: Literal[1, 2] = 1) -> None:
    """Decodes everything."""
    for _ in walrow.read(source, threads=threads):
        pass


if __name__ == "__main__":
    main()
