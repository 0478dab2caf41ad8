"""Processes that are measured together: their CPU time, with all they have started. On Linux."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_TICKS = os.sysconf("SC_CLK_TCK")
_STOP_SECONDS = 60.0
_UNCOMPILED = "PYTHONDONTWRITEBYTECODE"


class Pipeline:
    """Programs in a row: each reads the output of the program before it.

    Args:
        commands: The programs, with their arguments.
        log: The file for their messages.
    """

    def __init__(self, commands: Sequence[Sequence[str]], log: Path) -> None:
        self.log = log
        self._processes: list[subprocess.Popen[bytes]] = []
        source: Any = subprocess.DEVNULL
        # Programs that are installed have been compiled.
        environment = {k: v for k, v in os.environ.items() if k != _UNCOMPILED}
        with log.open("ab") as said:
            for at, command in enumerate(commands):
                is_last = at == len(commands) - 1
                process = subprocess.Popen(  # noqa: S603
                    command,
                    stdin=source,
                    stdout=said if is_last else subprocess.PIPE,
                    stderr=said,
                    env=environment,
                )
                # Nobody else holds the pipe: its reader sees the end of its writer.
                if source is not subprocess.DEVNULL:
                    source.close()
                source = process.stdout
                self._processes.append(process)

    def cpu(self) -> float:
        """CPU seconds until now. Ended processes count: they are not waited for before `stop`."""
        return sum(cpu_of(it) for root in self._processes for it in _tree(root.pid))

    def has_failed(self) -> bool:
        """Whether one has ended with an error."""
        # Without a reap: the times of an ended process must stay readable.
        ended = os.WEXITED | os.WNOWAIT | os.WNOHANG
        for process in self._processes:
            result = os.waitid(os.P_PID, process.pid, ended)
            if result is not None and result.si_status != 0:
                return True
        return False

    def stop(self) -> None:
        """Ends the first one, and waits until all have ended."""
        first = self._processes[0]
        first.send_signal(signal.SIGTERM)
        for process in self._processes:
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def cpu_of(pid: int) -> float:
    """CPU seconds of a process, and of its children that it has waited for. 0 if it is gone."""
    return sum(map(int, _fields(pid)[11:15])) / _TICKS


def _tree(root: int) -> Iterator[int]:
    yield root
    for task in Path(f"/proc/{root}/task").glob("*/children"):
        try:
            children = task.read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _tree(int(child))


def _fields(pid: int) -> list[str]:
    """The kernel's numbers for a process, after its name."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []
