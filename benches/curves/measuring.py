"""Measures each way of an axis, in processes of their own and in interleaved rounds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from curves.inputs import TABLE, WARM, Input, Shape, make

if TYPE_CHECKING:
    from collections.abc import Sequence

    from curves.axes import Axis

ROOT = Path(__file__).resolve().parents[2]
#: How `benches/src/bin/once.rs` does a way. It has no others.
_ONCE = {
    "read": ("walrow", "stream"),
    "append": ("append", "stream", "new"),
    "read log": ("read", "log"),
    "state": ("state", "log", "t0"),
    "net": ("net", "log", TABLE),
}


@dataclass
class Curve:
    """The costs of one way on one axis, by size.

    Attributes:
        cpu: Seconds of CPU time.
        wall: Seconds.
        mib: Peak memory beyond the start of the process, in MiB.
        instructions: Instructions of the Rust program, of every second size: `None` where
            it needs a file that it does not have. Empty without a count.
    """

    cpu: list[float] = field(default_factory=list)
    wall: list[float] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)
    instructions: list[int | None] = field(default_factory=list)


def measure(
    axis: Axis, sizes: Sequence[int], rounds: int, once: Path | None, place: Path
) -> dict[str, Curve]:
    """Measures all ways of an axis: the least of some rounds counts.

    Args:
        axis: The axis.
        sizes: The sizes among its points.
        rounds: In each round, all sizes and ways have their turn.
        once: The program whose instructions are counted, if there is one.
        place: The directory for the inputs. They need up to 1 GB.

    Returns:
        A curve for each way.
    """
    with tempfile.TemporaryDirectory(dir=place) as folder:
        make(Shape(rows=100), Path(folder, WARM), 1)
        inputs = [
            make(axis.shape(size), Path(folder, str(size)), size) for size in sizes
        ]
        curves = {way: Curve() for way in axis.ways}
        taken = [
            {
                (way, source.size): _run(way, source)
                for source in inputs
                for way in axis.ways
            }
            for _ in range(rounds)
        ]
        for way, curve in curves.items():
            for source in inputs:
                costs = [a_round[way, source.size] for a_round in taken]
                for name in ("cpu", "wall", "mib"):
                    getattr(curve, name).append(min(cost[name] for cost in costs))
            if once is not None and way in _ONCE:
                curve.instructions = [_count(once, way, it) for it in inputs[::2]]
    return curves


def _run(way: str, source: Input) -> dict[str, float]:
    arguments = [str(part) for part in asdict(source).values()]
    found: dict[str, float] = json.loads(
        subprocess.check_output(  # noqa: S603
            [sys.executable, "-m", "curves.ways", way, *arguments],
            cwd=ROOT / "benches",
        )
    )
    return found


# ------------------------------------------------------------------------ instructions


def build_once() -> Path | None:
    """Compiles the program whose instructions are counted, if valgrind is there."""
    if shutil.which("valgrind") is None:
        return None
    command = ["cargo", "build", "-q", "--release", "--locked", "-p", "walrow-benches"]
    subprocess.run([*command, "--bin", "once"], cwd=ROOT, check=True)  # noqa: S603
    metadata = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    found = json.loads(subprocess.check_output(metadata, cwd=ROOT))  # noqa: S603
    return Path(found["target_directory"], "release/once")


def _count(once: Path, way: str, source: Input) -> int | None:
    """Instructions of one run of a way. The program keeps rows in memory only."""
    verb, *places = _ONCE[way]
    new = source.folder / "counted"
    paths = {"stream": source.stream, "log": source.log, "new": new}
    arguments = [str(paths.get(place, place)) for place in places]
    command = ["valgrind", "--tool=cachegrind", "--cache-sim=no"]
    ran = subprocess.run(  # noqa: S603
        [*command, "--cachegrind-out-file=/dev/null", str(once), verb, *arguments],
        check=False,
        capture_output=True,
        text=True,
    )
    shutil.rmtree(new, ignore_errors=True)
    if "there is no spool" in ran.stderr:
        return None
    found = re.search(r"I\s+refs:\s+([\d,]+)", ran.stderr)
    if ran.returncode or found is None:
        text = f"{verb} gave no count of instructions: {ran.stderr}"
        raise RuntimeError(text)
    return int(found.group(1).replace(",", ""))
