"""Commands, forked from a process that has imported their modules.

A short command needs most of its time for imports. A forked command has its own descriptors, signals
and exit code, and ends as every interpreter does.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from io import BufferedReader, BufferedWriter, FileIO, TextIOWrapper
from pathlib import Path
from typing import Any

COMMAND = [sys.executable, "-m", "walrow"]

#: An interpreter reads these variables when it starts. A command with other values gets a new one.
_AT_START = ("PYTHON", "LANG", "LC_", "TZ", "LD_", "DYLD_")


class ForkServer:
    """A process that forks commands. It ends with this object."""

    def __init__(self) -> None:
        """Starts it."""
        self._requests, theirs = socket.socketpair(
            socket.AF_UNIX, socket.SOCK_SEQPACKET
        )
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )

    def close(self) -> None:
        """Ends it."""
        self._requests.close()
        self._process.wait(20)

    def popen(self, arguments: list[str], **options: Any) -> subprocess.Popen[Any]:
        """Starts `walrow` with arguments and options of Popen."""
        env = options.pop("env", None)
        env = dict(os.environ if env is None else env)
        plain = {"stdin", "stdout", "stderr", "cwd", "text", "encoding", "bufsize"}
        if options.keys() - plain or _of_start(env) != _of_start(os.environ):
            command = [*COMMAND, *arguments]
            return subprocess.Popen(command, env=env, **options)  # noqa: S603
        return _Forked(arguments, env=env, requests=self._requests, **options)


def _of_start(env: Any) -> dict[str, str]:
    return {name: env[name] for name in env if name.startswith(_AT_START)}


class _Forked(subprocess.Popen[Any]):
    """A command, which is no child of this process. A pipe has its exit status."""

    def __init__(
        self, arguments: list[str], *, requests: socket.socket, **options: Any
    ) -> None:
        self._requests = requests
        self._status = -1
        super().__init__(arguments, **options)

    def _execute_child(self, args: list[str], *given: Any) -> None:
        # The other arguments of the method, by their places.
        cwd, env = given[4], given[5]
        pipes = given[9:15]
        read, write = os.pipe()
        self._status = read
        descriptors = [
            mine if mine != -1 else number
            for number, mine in enumerate((pipes[0], pipes[3], pipes[5]))
        ]
        request = json.dumps([args, str(cwd or Path.cwd()), env]).encode()
        descriptors.append(write)
        rights = struct.pack(f"{len(descriptors)}i", *descriptors)
        control = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)]
        self._requests.sendmsg([request], control)
        os.close(write)
        self.pid = int.from_bytes(os.read(read, 4), "little")
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: Any, **__: Any) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], 0)[0]:
            self._ended()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self.returncode is None:
            if not select.select([self._status], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self._ended()
        return self.returncode

    def _ended(self) -> None:
        status = int.from_bytes(os.read(self._status, 4), "little")
        os.close(self._status)
        self.returncode = os.waitstatus_to_exitcode(status)


def _serve(requests: socket.socket) -> list[str] | None:
    """Forks for each request. Returns the arguments in the process of a command."""
    # Nobody waits for the processes that wait for commands.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        request, descriptors, *_ = socket.recv_fds(requests, 1 << 20, 4)
        if not request:
            return None
        if os.fork():
            for each in descriptors:
                os.close(each)
            continue
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        requests.close()
        *streams, status = descriptors
        pid = os.fork()
        if pid:
            os.write(status, pid.to_bytes(4, "little"))
            for each in streams:
                os.close(each)
            for number in range(3):
                os.close(number)
            os.write(status, os.waitpid(pid, 0)[1].to_bytes(4, "little"))
            os._exit(0)
        os.close(status)
        arguments, cwd, env = json.loads(request)
        for number, each in enumerate(streams):
            os.dup2(each, number)
        for each in streams:
            if each > 2:
                os.close(each)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(env)
        _open_streams()
        given: list[str] = arguments
        return given


def _open_streams() -> None:
    """The standard streams, as an interpreter opens them."""
    old = sys.stdin, sys.stdout, sys.stderr
    reader = BufferedReader(FileIO(0, "r", closefd=False))
    sys.stdin = TextIOWrapper(
        reader, encoding=old[0].encoding, errors=old[0].errors, newline=None
    )
    for number, name in (1, "stdout"), (2, "stderr"):
        writer = BufferedWriter(FileIO(number, "w", closefd=False))
        stream = TextIOWrapper(
            writer,
            encoding=old[number].encoding,
            errors=old[number].errors,
            newline="\n",
            line_buffering=number == 2 or os.isatty(number),
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    setattr(sys, "__stdin__", sys.stdin)  # noqa: B010


if __name__ == "__main__":
    # All that commands import.

    import walrow.cli.app

    given = _serve(socket.socket(fileno=int(sys.argv[1])))
    if given is not None:
        sys.argv = ["walrow", *given]
        walrow.cli.main()
