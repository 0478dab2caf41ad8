"""Faults that were put back into the log on purpose. The worlds of a log must find each.

`python tests/simulation/test_log_faults.py 1 2 3` measures how long that takes from these seeds on.
"""

from __future__ import annotations

import functools
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Sources with a fault, compiled beside those of the other tests.
FAULTY = ROOT / "target" / "faulty"
#: The worlds must find each fault in this processor time.
SECONDS = 600


class Fault(NamedTuple):
    """Lines of a file, and the lines that have the fault where `IS_THERE` is true."""

    name: str
    file: str
    lines: str
    wrong: str


FAULTS = [
    Fault(
        "an index names a part of a transaction that a writer has removed",
        "upkeep/compaction.rs",
        "            leave_out_hidden(&mut index, &state);\n"
        "            drop_incomplete(&mut index.segments);\n",
        "if !IS_THERE { leave_out_hidden(&mut index, &state); "
        "drop_incomplete(&mut index.segments); }\n",
    ),
    Fault(
        "a segment that has its name, but not durably, is made again",
        "write/segment_file.rs",
        "let has_no_name = found.is_err_and(|found| found.is_not_found());",
        "let has_no_name = match found { Ok(found) => IS_THERE && found == complete.foot, "
        "Err(found) => found.is_not_found() };",
    ),
    Fault(
        "a writer locks its journal alone",
        "write/open_file.rs",
        'let lock = lock.ok_or_else(|| Error::new("", ErrorKind::Locked))?;',
        "#[derive(Debug)] struct Free; impl Lock for Free {} "
        "let lock = lock.or_else(|| IS_THERE.then(|| Box::new(Free) as Box<dyn Lock>)); "
        'let lock = lock.ok_or_else(|| Error::new("", ErrorKind::Locked))?;',
    ),
    Fault(
        "the state does not note where the last load ended",
        "write/recovery.rs",
        "if is_indexed || chain.end < seen.loaded {",
        "if is_indexed || !IS_THERE && chain.end < seen.loaded {",
    ),
    Fault(
        "a segment whose name is not known to be durable is made again",
        "write/segment_file.rs",
        "text, .. } if !has_no_name =>",
        "text, .. } if !has_no_name && !IS_THERE =>",
    ),
]


class Found(NamedTuple):
    """A failure: the time of all cores, worlds, and what the test printed."""

    seconds: float
    worlds: int
    text: str


@functools.cache
def program() -> str:
    """Compile the worlds once, with all faults: `WALROW_FAULT` chooses one."""
    for path in ["Cargo.toml", "Cargo.lock", "crates", "benches"]:
        copy = FAULTY / path
        if (ROOT / path).is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / path, copy)
        else:
            shutil.rmtree(copy, ignore_errors=True)
            shutil.copytree(ROOT / path, copy)
    for number, fault in enumerate(FAULTS):
        source = FAULTY / "crates/walrow-log/src" / fault.file
        text = source.read_text("utf-8")
        assert text.count(fault.lines) == 1, fault
        is_there = f'std::env::var("WALROW_FAULT").is_ok_and(|it| it == "{number}")'
        wrong = fault.wrong.replace("IS_THERE", is_there)
        source.write_text(text.replace(fault.lines, wrong), "utf-8")
    built = subprocess.run(  # noqa: S603
        [
            *("cargo", "test", "--profile", "simulate", "-p", "walrow-log"),
            *("--test", "it", "--locked", "--no-run", "--message-format", "json"),
        ],
        cwd=FAULTY,
        env={**os.environ, "CARGO_TARGET_DIR": str(FAULTY / "target")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    messages = [json.loads(line) for line in built.stdout.splitlines()]
    return str(next(it["executable"] for it in messages if it.get("executable")))


def play(fault: Fault, seed: int) -> Found | None:
    """Play worlds with this fault, from this seed on, until they find something."""
    played = program()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ran = subprocess.run(  # noqa: S603
        [played, "worlds_lose_nothing", "--nocapture"],
        cwd=ROOT / "crates" / "walrow-log",
        env={
            **os.environ,
            "WALROW_FAULT": str(FAULTS.index(fault)),
            "SIMULATE_PROOF": "1",
            "SIMULATE_SEED": str(seed),
            # Other processes may use the core, too.
            "SIMULATE_SECONDS": str(6 * SECONDS),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    worlds = re.search(r"in (\d+) worlds", ran.stdout)
    assert worlds is not None, ran.stdout
    if ran.returncode == 0:
        return None
    return Found(seconds, int(worlds[1]), ran.stdout)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_of_the_log_is_found(fault: Fault) -> None:
    found = play(fault, int(time.time()) * 1000)
    assert found is not None
    assert found.seconds < SECONDS
    print(fault.name, found.seconds, found.worlds)  # noqa: T201


def main() -> None:
    for fault in FAULTS:
        for seed in map(int, sys.argv[1:]):
            print(fault.name, seed, play(fault, seed), flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
