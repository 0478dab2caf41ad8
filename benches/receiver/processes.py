"""The cost of a process: elapsed time, CPU time and peak memory."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psycopg

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Cost", "peak_of", "run", "server_cpu"]


class Cost(NamedTuple):
    """The cost of a process.

    Attributes:
        wall: Elapsed seconds.
        cpu: Seconds of CPU time, of the user and the system.
        sender: Seconds of CPU time of the server's processes that ended meanwhile, such as the walsender.
        peak: The greatest resident memory, in bytes.
    """

    wall: float
    cpu: float
    sender: float
    peak: int

    def beyond(self, begun: Cost) -> Cost:
        """The cost without the cost of a process that only begins and ends."""
        return Cost(
            self.wall - begun.wall,
            self.cpu - begun.cpu,
            self.sender - begun.sender,
            self.peak,
        )


def run(dsn: str, command: Sequence[str]) -> Cost:
    """Runs a program to its end.

    Raises:
        RuntimeError: The program failed.
    """
    sender, wall = server_cpu(dsn), time.perf_counter()
    process = subprocess.Popen(  # noqa: S603
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    peak, ended = 0, 0
    while not ended:
        time.sleep(_LOOK_SECONDS)
        # Not the resource usage of the process: it has the memory of its parent, too.
        peak = max(peak, peak_of(process.pid))
        ended, status, usage = os.wait4(process.pid, os.WNOHANG)
    wall = time.perf_counter() - wall
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        message = f"{command[0]} has ended with {process.returncode}"
        raise RuntimeError(message)
    cpu = usage.ru_utime + usage.ru_stime
    return Cost(wall, cpu, server_cpu(dsn) - sender, peak)


def peak_of(pid: int) -> int:
    """The greatest resident memory of a running process, in bytes."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def server_cpu(dsn: str) -> float:
    """The CPU seconds of a server's ended children, and its own."""
    with psycopg.connect(dsn) as connection:
        row = connection.execute(
            "SELECT pg_read_file('postmaster.pid', 0, 20)"
        ).fetchone()
    pid = int(str(row[0]).split()[0]) if row else 0
    time.sleep(0.3)  # until the walsender was waited for
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


_LOOK_SECONDS = 0.01
