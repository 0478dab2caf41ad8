"""An error of a wrong command names its parts, one command of each kind: see `probes`."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

import walrow
from probes import Command, faults_of
from probes.commands import COMMANDS
from walrow.cli import app

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
def test_an_error_names_its_parts(
    probe: Command, names: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = probe.call
    for name, path in names.items():
        words = words.replace(name, path)
    code = app.run(shlex.split(words))
    printed = capsys.readouterr()
    # Other lines are notes of what went before. Rows before an error are printed.
    message = printed.err.splitlines()[-1]
    assert faults_of(message, probe.names) == [], message
    assert code == probe.code, message


def commands(command: click.Command, words: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            yield from commands(each, (*words, name))
    else:
        yield " ".join(words)


@pytest.mark.parametrize("words", list(commands(app.cli)))
def test_an_unknown_option_is_refused_by_name(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run([*words.split(), "--no-such-option"]) == 2
    message = capsys.readouterr().err
    names = ("'--no-such-option'", f"walrow {words} --help")
    assert faults_of(message, names) == [], message
