"""Runs the command line as a process and inside this one."""

from __future__ import annotations

import os
import pty
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("click", reason="needs click and rich: pip install 'walrow[cli]'")
pytest.importorskip("rich", reason="needs click and rich: pip install 'walrow[cli]'")
pytest.importorskip("pyarrow")

from click.testing import CliRunner

import walrow
from cli.fork_server import COMMAND, ForkServer

TESTS = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def data() -> Path:
    return TESTS / "data" / "18"


@pytest.fixture(scope="session")
def commands() -> Iterator[ForkServer]:
    """The process that forks commands."""
    server = ForkServer()
    yield server
    server.close()


@pytest.fixture
def run(
    start: Callable[..., subprocess.Popen[Any]],
) -> Callable[..., subprocess.CompletedProcess[Any]]:
    """Runs `walrow` with arguments, as `subprocess.run`, and returns its output."""

    def run(
        *arguments: Any,
        input: Any = None,  # noqa: A002
        timeout: float = 50,
        capture_output: bool = True,
        **options: Any,
    ) -> subprocess.CompletedProcess[Any]:
        pipe = subprocess.PIPE if capture_output else None
        stdin = None if input is None else subprocess.PIPE
        options = {"stdin": stdin, "stdout": pipe, "stderr": pipe} | options
        with start(*arguments, **options) as process:
            try:
                stdout, stderr = process.communicate(input, timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(
            process.args, process.returncode, stdout, stderr
        )

    return run


@pytest.fixture
def start(commands: ForkServer) -> Callable[..., subprocess.Popen[Any]]:
    """Starts `walrow` with arguments and all of its pipes."""

    def start(*arguments: Any, **options: Any) -> subprocess.Popen[Any]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return commands.popen([*map(str, arguments)], **(pipes | options))

    return start


@pytest.fixture
def invoke() -> Callable[..., str]:
    """Runs a command in this process and returns its stdout.

    If the server ended a capture with an error, it is shown completely, then the error is raised.
    """
    from walrow.cli.app import cli

    def invoke(*arguments: Any) -> str:
        result = CliRunner().invoke(cli, [*map(str, arguments)])
        if re.search(r"/error-|/16/missing-publication", str(arguments[-1])):
            assert type(result.exception) is walrow.errors.ReplicationError
        elif result.exception is not None:
            raise result.exception
        return result.stdout

    return invoke


@pytest.fixture
def on_terminal() -> Callable[..., str]:
    """Runs `walrow` on a terminal and returns what it writes there."""

    def on_terminal(*arguments: Any, stdout: bool = True) -> str:
        master, slave = pty.openpty()
        process = subprocess.Popen(  # noqa: S603
            [*COMMAND, *map(str, arguments)],
            env={**os.environ, "TERM": "xterm", "COLUMNS": "300"},
            stdout=slave if stdout else subprocess.DEVNULL,
            stderr=slave,
        )
        os.close(slave)
        shown = b""
        while True:
            try:
                block = os.read(master, 4096)
            except OSError:
                break
            if not block:
                break
            shown += block
        os.close(master)
        assert process.wait(30) == 0
        return shown.decode()

    return on_terminal
