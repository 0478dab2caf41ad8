"""Instructions a row, for walrow, for the floor and for a log: instructions.py [DIR].

A log is appended to, decoded, and makes the state of its largest table with a key. Valgrind counts,
so a busy machine gives the same numbers as a quiet one. Without valgrind, it ends with a
message.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import walrow


def main() -> None:
    """Prints a line a capture."""
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        print("no valgrind: instructions are not counted")
        return
    root = Path(__file__).resolve().parent.parent
    directory = Path(sys.argv[1] if len(sys.argv) > 1 else root / "target/bench-data")
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
    subprocess.run(build, cwd=root, check=True)  # noqa: S603
    metadata = ["cargo", "metadata", "--format-version", "1", "--no-deps"]
    listed = subprocess.run(  # noqa: S603
        metadata, cwd=root, check=True, capture_output=True, text=True
    ).stdout
    found = re.search(r'"target_directory":"([^"]+)"', listed)
    once = Path(found.group(1) if found else root / "target") / "release/once"
    print(
        f"{'capture':<10}{'floor':>10}{'walrow':>10}{'ratio':>8}   instructions a row"
    )
    for name in ("narrow", "wide", "mixed", "pgbench", "tiny"):
        path = directory / f"{name}.wire"
        if not path.exists():
            continue
        rows = sum(len(batch) for batch in walrow.read(path))
        floor, own = (
            count(valgrind, once, reader, path) / rows for reader in ("floor", "walrow")
        )
        print(f"{name:<10}{floor:>10.0f}{own:>10.0f}{own / floor:>8.2f}")
    print(f"{'log':<10}{'append':>10}{'read':>10}{'state':>8}   instructions a row")
    for name, table in TABLES.items():
        path = directory / f"{name}.wire"
        if not path.exists():
            continue
        rows = sum(len(batch) for batch in walrow.read(path))
        with tempfile.TemporaryDirectory(dir=directory) as log:
            append, read = (
                count(valgrind, once, *arguments) / rows
                for arguments in (("append", path, log), ("read", log))
            )
            state = ""
            if table is not None:
                state = f"{count(valgrind, once, 'state', log, table) / rows:.0f}"
        print(f"{name:<10}{append:>10.0f}{read:>10.0f}{state:>8}")
    path = directory / "pgbench.wire"
    if path.exists():
        rows = sum(len(batch) for batch in walrow.read(path))
        with tempfile.TemporaryDirectory(dir=directory) as log:
            subprocess.run([once, "segments", path, log], check=True)  # noqa: S603
            read = count(valgrind, once, "read", log) / rows
        print(f"{'pgbench, small segments':<28}{read:>10.0f}")


#: Captures that a log is made of, and the table of its state.
TABLES = {"narrow": None, "pgbench": "pgbench_accounts", "tiny": None}


def count(valgrind: str, once: Path, *arguments: object) -> int:
    """Instructions of one run."""
    command = [valgrind, "--tool=callgrind", "--callgrind-out-file=/dev/null"]
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
