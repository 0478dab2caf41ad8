"""The ratio of walrow's instructions to the floor's, by valgrind: instructions.py [DIR].

It reads each capture once by walrow, as `walrow.read` does in Python, and once by the floor program,
which the same compiler builds. A busy machine gives the same numbers as a quiet one. DIR has captures
of benches/captures.py. Then it counts the instructions a row of writing and reading a log.

`--small` uses the captures of benches/data. `--check` uses them, too, and compares the ratios with
benches/data/instructions.json, as `make test` does. `--write` changes that file. `--json FILE`
writes all figures.
"""

from __future__ import annotations

import argparse
import gc
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "benches/data"
WRITTEN = DATA / "instructions.json"

#: The largest relative difference between a ratio and the written ratio, up or down.
TOLERANCE = 0.02
#: The same if another compiler built both programs.
OTHER_COMPILER = 0.1
#: The same for ratios with the copies of memory: their addresses vary, and change how many instructions
#: they take, by an eighth for large values. One more copy of all values is still found.
WITH_COPIES = 0.3
COPIES = re.compile(r"mem(cpy|move|set)")
#: A small capture is repeated until it has this many bytes, since memory grows only in the first batches.
#: Each repetition is a new session.
ENOUGH = 2_000_000
#: Both programs read each capture so often, and the least count is taken: where memory is free
#: changes how columns grow.
READS = 2
#: The small captures that are counted: each workload, and numbers and times in binary.
SMALL = (
    *("narrow", "wide", "mixed", "pgbench", "tiny", "updates", "toast", "toast-full"),
    *("streamed", "columns", "tables", "narrow.binary", "mixed.binary"),
)


def main() -> None:
    """Prints a line a capture, and compares or writes if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dir", nargs="?", type=Path, default=ROOT / "target/bench-data")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--read", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        _read(options.read)
        return
    if shutil.which("valgrind") is None:
        print(
            "no valgrind: instructions are not counted. Install it and run this again."
        )
        return
    with tempfile.TemporaryDirectory() as folder:
        if options.small or options.check or options.write:
            captures = _small(Path(folder))
            # A log takes each transaction once, so this one is not repeated.
            stream, segment = _unpacked("pgbench", Path(folder) / "once.wire"), 20_000
        else:
            captures = {
                path.name.removesuffix(".wire"): path
                for path in sorted(options.dir.glob("*.wire"))
            }
            stream, segment = captures["pgbench"], 100_000
        counts = counted(captures, Path(folder), stream, segment)
    print(
        f"{'capture':<20}{'floor':>14}{'walrow':>14}{'ratio':>8}{'no copies':>11}"
        "   instructions"
    )
    ratios = {}
    for name, (floor, own) in counts.items():
        with_copies = own.total / floor.total
        without = (own.total - own.copies) / (floor.total - floor.copies)
        ratios[name] = {"all": round(with_copies, 3), "no copies": round(without, 3)}
        print(
            f"{name:<20}{floor.total:>14,}{own.total:>14,}{with_copies:>8.3f}{without:>11.3f}"
        )
    if options.json:
        figures = {
            name: {"floor": floor.total, "walrow": own.total} | ratios[name]
            for name, (floor, own) in counts.items()
        }
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
    if options.write:
        written = {"compiler": compiler(), "ratios": ratios}
        WRITTEN.write_text(json.dumps(written, indent=2) + "\n")
    elif options.check:
        found = differences(ratios, json.loads(WRITTEN.read_text()), compiler())
        for line in found:
            print(line)
        sys.exit(bool(found))
    elif not options.small:
        _logs(options.dir)


def differences(
    ratios: Mapping[str, Mapping[str, float]], written: Mapping[str, Any], compiler: str
) -> list[str]:
    """Compares ratios with the written ratios. Each difference is a line.

    Args:
        ratios: The ratios of instructions of each capture, by name: `all`, and `no copies`.
        written: The contents of benches/data/instructions.json.
        compiler: The compiler of both programs, as it is written there.
    """
    is_own = compiler == written["compiler"]
    tolerances = {
        "all": WITH_COPIES,
        "no copies": TOLERANCE if is_own else OTHER_COMPILER,
    }
    lines = []
    for name in sorted(ratios.keys() | written["ratios"].keys()):
        if name not in ratios or name not in written["ratios"]:
            lines.append(
                f"{name}: only {'written' if name not in ratios else 'counted'}"
            )
            continue
        for kind, tolerance in tolerances.items():
            now, then = ratios[name][kind], written["ratios"][name][kind]
            what = f"{name} ({kind}): {now:.3f} times the floor's instructions, {then:.3f} before"
            if now > then * (1 + tolerance):
                lines.append(
                    f"{what}: {now / then - 1:.1%} more. Find out why, or write the new ones down."
                )
            elif now < then * (1 - tolerance):
                lines.append(
                    f"{what}: {1 - now / then:.1%} fewer. Write them down, so that they stay."
                )
    if lines:
        lines.append("benches/instructions.py --write writes the new ratios down")
    return lines


class Instructions(NamedTuple):
    """The instructions of one read. `copies` are a part of `total`: they copy or fill memory."""

    total: int
    copies: int


def compiler() -> str:
    """The Rust compiler and its version."""
    out = subprocess.run(["rustc", "--version"], check=True, capture_output=True)  # noqa: S607
    return " ".join(out.stdout.decode().split()[:2])


def counted(
    captures: Mapping[str, Path], folder: Path, stream: Path, segment: int
) -> dict[str, tuple[Instructions, Instructions]]:
    """Counts the instructions of the floor and of walrow for captures.

    Args:
        captures: Files by name.
        folder: For a log, and for what valgrind writes.
        stream: The capture that a log of many small segments is made of: `segments`.
        segment: The bytes of a small segment.

    Returns:
        The instructions of both by name.
    """
    floor = built()
    log = folder / "segments"
    _seal(stream, log, segment)
    names = [f"{at:02}" for at in range(len(captures) + 1)]
    for program, sources in (
        ("rust", [*captures.values(), stream]),
        ("python", [*captures.values(), log]),
    ):
        (folder / program).mkdir()
        for name, source in zip(names, sources, strict=True):
            (folder / program / name).symlink_to(source.resolve())
    rust = [floor, READS, *names]
    python = [sys.executable, Path(__file__).resolve(), "--read", *names]
    with ThreadPoolExecutor() as threads:
        counts = threads.map(
            _counts, (rust, python), (folder / "rust", folder / "python")
        )
    floors, own = (
        [
            min(reads[at : at + READS], key=attrgetter("total"))
            for at in range(0, len(reads), READS)
        ]
        for reads in counts
    )
    return dict(
        zip((*captures, "segments"), zip(floors, own, strict=True), strict=True)
    )


def _seal(capture: Path, log: Path, segment: int) -> None:
    """Writes a capture into a log of small segments, as `walrow.seal` does.

    The segments are stored: zstd's own instructions would be most.
    """
    from walrow._core import LogWriter
    from walrow._sources.chunks import Chunks

    writer = LogWriter(
        log,
        segment_bytes=segment,
        spool_memory=64 << 20,
        level=None,
        syncs=False,
        captures=True,
    )
    for block in Chunks(capture):
        writer.append(block)
        if writer.is_full:
            writer.publish()
        else:
            writer.fill()
    writer.publish()
    writer.sync()
    writer.close()


def built() -> Path:
    """Builds the floor program as walrow is built, and returns it."""
    command = ["cargo", "build", "--release", "--locked", "-p", "walrow-floor"]
    out = subprocess.run(  # noqa: S603
        [*command, "--message-format=json"],
        cwd=ROOT,
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    found = (json.loads(line).get("executable") for line in out.splitlines())
    return next(Path(it) for it in found if it)


def _small(folder: Path) -> dict[str, Path]:
    """Writes the small captures, each so often that it is long enough."""
    captures = {name: _unpacked(name, folder / f"{name}.wire") for name in SMALL}
    for path in captures.values():
        capture = path.read_bytes()
        path.write_bytes(capture * math.ceil(ENOUGH / len(capture)))
    return captures


def _unpacked(name: str, path: Path) -> Path:
    """Writes a capture of benches/data to a path, and returns that."""
    import pyarrow as pa

    stored = DATA / f"{name}.wire.zst"
    with pa.input_stream(str(stored), compression="zstd") as file:
        path.write_bytes(file.read())
    return path


def _counts(command: Iterable[object], folder: Path) -> list[Instructions]:
    """Runs a command in a folder and returns the instructions between each two calls of `getppid`.

    Callgrind begins to count anew at each call, so the start and the end of a process count nothing.
    The names of the files are short and always the same, because the addresses of large copies
    change how many instructions they take.
    """
    out = folder / "count"
    valgrind = [
        *(
            "valgrind",
            "--tool=callgrind",
            "--dump-before=getppid",
            "--compress-strings=no",
        ),
        f"--callgrind-out-file={out}",
    ]
    subprocess.run(  # noqa: S603
        [*valgrind, *map(str, command)],
        cwd=folder,
        check=True,
        capture_output=True,
        # The same hash tables in each run. Large memory grows without a copy, which would depend on
        # the addresses that are free.
        env={
            **os.environ,
            "PYTHONHASHSEED": "0",
            "MALLOC_MMAP_THRESHOLD_": "65536",
        },
    )
    counts = []
    while (part := out.with_name(f"{out.name}.{2 * len(counts) + 2}")).exists():
        counts.append(_parsed(part.read_text().splitlines()))
    return counts


def _parsed(lines: Iterable[str]) -> Instructions:
    """Sums the costs of a file of Callgrind, whose format the manual of Valgrind has."""
    total = copies = 0
    is_copy = is_call = False
    for line in lines:
        if line.startswith("fn="):
            is_copy = COPIES.search(line) is not None
        elif line.startswith("calls="):
            # The next line has what the called function took.
            is_call = True
        elif line[:1] in "+-*0123456789" and line:
            if not is_call:
                cost = int(line.split()[1])
                total += cost
                copies += cost * is_copy
            is_call = False
    return Instructions(total, copies)


def _read(captures: list[str]) -> None:
    """Reads captures by walrow, each between two calls of `getppid`."""
    import walrow

    gc.disable()
    # A capture is bytes in memory, a log is not.
    sources = [
        path if path.is_dir() else path.read_bytes() for path in map(Path, captures)
    ]
    # The first call imports modules.
    for source in (sources[0], sources[-1]):
        for _ in walrow.read(source):
            pass
    for source in sources:
        for _ in range(READS):
            os.getppid()
            for _ in walrow.read(source):
                pass
            os.getppid()


#: Captures that a log is made of, and the table of its state.
TABLES = {"narrow": None, "pgbench": "pgbench_accounts", "tiny": None}


def _logs(directory: Path) -> None:
    """Prints what a log takes: to append, to decode, and to make the state of a table with a key."""
    import walrow

    build = [
        "cargo",
        "build",
        "-q",
        "--release",
        "-p",
        "walrow-benches",
        "--bin",
        "once",
    ]
    subprocess.run(build, cwd=ROOT, check=True)  # noqa: S603
    once = built().with_name("once")
    print(f"{'log':<10}{'append':>10}{'read':>10}{'state':>8}   instructions a row")
    for name, table in TABLES.items():
        path = directory / f"{name}.wire"
        if not path.exists():
            continue
        rows = sum(len(batch) for batch in walrow.read(path))
        with tempfile.TemporaryDirectory(dir=directory) as log:
            append, read = (
                _all(once, *arguments) / rows
                for arguments in (("append", path, log), ("read", log))
            )
            state = ""
            if table is not None:
                state = f"{_all(once, 'state', log, table) / rows:.0f}"
        print(f"{name:<10}{append:>10.0f}{read:>10.0f}{state:>8}")


def _all(once: Path, *arguments: object) -> int:
    """Instructions of a whole run."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    out = subprocess.run(  # noqa: S603
        [*command, str(once), *map(str, arguments)],
        check=True,
        capture_output=True,
        text=True,
    ).stderr
    found = re.search(r"Collected\s*:\s*(\d+)", out)
    if found is None:
        message = "valgrind printed no count"
        raise RuntimeError(message)
    return int(found.group(1))


if __name__ == "__main__":
    main()
