"""Help: what it lists is whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from walrow.cli.app import cli

if TYPE_CHECKING:
    from collections.abc import Iterator


def groups(
    command: click.Command, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, ...]]:
    """The groups of commands, as words."""
    if isinstance(command, click.Group):
        yield words
        for name, each in command.commands.items():
            yield from groups(each, (*words, name))


@pytest.mark.parametrize("words", list(groups(cli)), ids=" ".join)
def test_no_summary_is_cut(words: tuple[str, ...]) -> None:
    shown = CliRunner().invoke(cli, [*words, "--help"]).output
    _, title, lines = shown.partition("\nCommands:\n")
    assert title
    assert "..." not in lines


@pytest.mark.parametrize("words", [["load"], ["log", "nothing"]])
def test_a_wrong_word_is_a_usage_error(words: list[str]) -> None:
    assert CliRunner().invoke(cli, words).exit_code == 2
