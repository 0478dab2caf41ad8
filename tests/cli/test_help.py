"""Help: what it lists is whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from walrow.cli.app import cli
from walrow.cli.arguments import Value


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


def commands(
    command: click.Command, words: str = ""
) -> Iterator[tuple[str, click.Command]]:
    """The commands with their words, without the groups."""
    if not isinstance(command, click.Group):
        yield words, command
        return
    for name, each in command.commands.items():
        yield from commands(each, f"{words} {name}".strip())


@pytest.mark.parametrize(
    ("words", "command"), [pytest.param(*it, id=it[0]) for it in commands(cli)]
)
def test_a_value_is_named_by_what_it_is(words: str, command: click.Command) -> None:
    context = click.Context(command)
    for each in command.params:
        shown = each.make_metavar(context).strip("[]")
        if isinstance(each, click.Option) and not each.is_flag:
            assert shown not in ("TEXT", "STR", "INTEGER", "FLOAT"), each.name
            assert shown == METAVARS.get(each.opts[0], shown), each.name
            assert ("-o" in each.opts) == (
                each.name == "to" and not words.startswith("backup")
            )
            assert "--output" not in each.opts
        if words.startswith("log "):
            assert shown != "DIR"
            assert "--keep" not in each.opts


@pytest.mark.parametrize(
    ("words", "command"), [pytest.param(*it, id=it[0]) for it in commands(cli)]
)
def test_a_wrong_value_is_repeated_without_types_of_python(
    words: str, command: click.Command
) -> None:
    context = click.Context(command, info_name=words)
    for each in command.params:
        if isinstance(each.type, Value):
            with pytest.raises(click.BadParameter) as refused:
                each.type.convert("no such", each, context)
            text = refused.value.message
            assert "no such" in text, each.name
            assert not re.search("timedelta|datetime|a text|str|int|None", text), text


#: The names of values, the same in all commands.
METAVARS = {
    "--every": "DURATION",
    "--log": "LOG",
    "--publication": "NAME",
    "--retain": "DURATION|SIZE",
    "--slot": "SLOT",
    "--table": "TABLE",
    "--timeout": "DURATION",
}
