"""A process that measures one way through walrow.

`python -m curves.ways WAY FOLDER SIZE SEGMENT_SIZE` prints seconds and peak memory as JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import walrow
from curves.inputs import DISTANCE, TABLE, WARM, Input

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

#: A short way is repeated until it took so much CPU time, and the best turn counts.
SECONDS = 0.2
#: Bytes of a chunk, as a receiver has them.
BLOCK = 1 << 20


@dataclass(frozen=True)
class Cost:
    """The cost of a way.

    Attributes:
        cpu: Seconds of all threads' CPU time.
        wall: Seconds.
        mib: Peak memory beyond what the process had before, in MiB.
    """

    cpu: float
    wall: float
    mib: float


def main() -> None:
    """Measures the way that the arguments name."""
    way, folder, size, segment_size = sys.argv[1:]
    source = Input(Path(folder), int(size), int(segment_size))
    # Modules and tables that are loaded at the first use are no cost of an input.
    WAYS[way](Input(source.folder.parent / WARM, 1, source.segment_size))
    print(json.dumps(asdict(measure(WAYS[way], source))))


def measure(way: Callable[[Input], None], source: Input) -> Cost:
    """Runs a way several times: memory is the first turn's, times are the best turn's."""
    before = _reset_peak()
    began = time.process_time()
    turns = [_timed(way, source)]
    mib = _status("VmHWM") - before
    while time.process_time() - began < SECONDS:
        turns.append(_timed(way, source))
    cpu, wall = (min(times) for times in zip(*turns, strict=True))
    return Cost(cpu, wall, mib)


def _timed(way: Callable[[Input], None], source: Input) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    way(source)
    return time.process_time() - cpu, time.perf_counter() - wall


def _reset_peak() -> float:
    """Forgets the peak memory of the start, and returns the memory in use, in MiB.

    `ru_maxrss` would begin with the peak of the parent process.
    """
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = (line for line in lines if line.startswith(f"{field}:"))
    return int(line.split()[1]) / 1024


# --------------------------------------------------------------------------- ways


def read(source: Input) -> None:
    """Decodes a capture."""
    _drain(walrow.read(source.stream))


def append(source: Input) -> None:
    """Writes a new log, durably."""
    log = source.folder / "appended"
    # A segment ends between two chunks.
    chunks = _chunks(source, min(source.segment_size, BLOCK))
    walrow.seal(chunks, log=log, segment_size=source.segment_size)
    shutil.rmtree(log)


def read_log(source: Input) -> None:
    """Decodes a log."""
    _drain(walrow.read(source.log))


def state(source: Input) -> None:
    """Makes the rows of a table."""
    _drain(walrow.Log(source.log).state(TABLE))


def net(source: Input) -> None:
    """Makes the net changes of a table since the log's beginning."""
    _drain(walrow.Log(source.log).net(TABLE))


def open_log(source: Input) -> None:
    """Opens a log and asks for its end."""
    _ = walrow.Log(source.log).end


def follow(source: Input) -> None:
    """Opens a log, and takes the batch of the last transaction."""
    log = walrow.Log(source.log)
    with log.follow(start=log.end - DISTANCE) as follower:
        next(follower)


def read_chunks(source: Input) -> None:
    """Decodes a capture that comes in chunks."""
    _drain(walrow.read(_chunks(source, _chunk_size(source))))


def feed(source: Input) -> None:
    """Feeds a decoder chunk by chunk."""
    decoder = walrow.Decoder()
    for chunk in _chunks(source, _chunk_size(source)):
        _drain(decoder.feed(chunk))
    _drain(decoder.finish())


def _drain(batches: Iterable[walrow.Batch]) -> None:
    for _ in batches:
        pass


def _chunk_size(source: Input) -> int:
    """So that there are as many chunks as the axis says."""
    return -(-source.stream.stat().st_size // source.size)


def _chunks(source: Input, size: int) -> Iterator[bytes]:
    with source.stream.open("rb", buffering=0) as file:
        while chunk := file.read(size):
            yield chunk


WAYS: dict[str, Callable[[Input], None]] = {
    "read": read,
    "append": append,
    "read log": read_log,
    "state": state,
    "net": net,
    "open": open_log,
    "follow": follow,
    "read chunks": read_chunks,
    "feed": feed,
}


if __name__ == "__main__":
    main()
