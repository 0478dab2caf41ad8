"""The message of each wrong command names the problem, the place and the remedy."""

from __future__ import annotations

import shlex
import signal
from typing import TYPE_CHECKING

import click
import pytest

import walrow
from probes import Probe, faults_of
from probes.commands import COMMANDS
from walrow.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytest.importorskip("psycopg")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory, data: Path) -> dict[str, str]:
    """The paths in the commands."""
    folder = tmp_path_factory.mktemp("probes")
    walrow.seal(data / "rows.text.wire", log=folder / "log")
    return {
        "CAP": str(data / "rows.text.wire"),
        "LOG": str(folder / "log"),
        "NEW": str(folder / "new"),
    }


@pytest.fixture(autouse=True)
def kept_signals() -> Iterator[None]:
    """A command changes them for its process."""
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for each, handler in before.items():
        signal.signal(each, handler)


@pytest.mark.parametrize("probe", COMMANDS, ids=lambda probe: probe.call)
def test_a_message_has_all_parts(
    probe: Probe, names: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = probe.call
    for name, path in names.items():
        words = words.replace(name, path)
    code = app.run(shlex.split(words))
    printed = capsys.readouterr()
    assert code in {1, 2}
    # Other lines are notes of what went before. Rows before an error are printed.
    message = printed.err.splitlines()[-1]
    assert faults_of(message, probe) == [], message


def _leaves(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from _leaves(each, (*words, name))
    else:
        yield " ".join(words)


def test_every_command_is_probed() -> None:
    missing = [
        words
        for words in _leaves(app.cli)
        if not any(f"{probe.call} ".startswith(f"{words} ") for probe in COMMANDS)
    ]
    assert missing == []
