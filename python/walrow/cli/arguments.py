"""Command-line options. The library's options come from its own list."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin
from typing import get_type_hints as type_hints

import click

from walrow._amounts import at
from walrow._core import OPTIONS
from walrow._lsn import Lsn
from walrow._secrets import is_conninfo
from walrow.errors import OptionError
from walrow.typing import Options

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["LSN_OR_TIME", "TEXT", "Commands", "Number", "library_option", "pairs"]

F = TypeVar("F", bound="Callable[..., Any]")


class Text(click.types.StringParamType):
    """Text in UTF-8. Unlike file names, it must not contain other bytes."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Refuses text that is not UTF-8."""
        text: str = super().convert(value, param, ctx)
        try:
            text.encode()
        except UnicodeEncodeError:
            self.fail("the text is not UTF-8", param, ctx)
        return text


TEXT = Text()


class Commands(click.Group):
    """Commands, which help lists with their whole first sentence: click would cut it."""

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Lists the commands."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        lines = [
            (name, command.get_short_help_str(_WHOLE))
            for name, command in found.items()
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(lines)


_WHOLE = 1000


class _LsnOrTime(click.ParamType[Lsn | dt.datetime]):
    """An LSN, or a time: in ISO 8601, before now, such as -1h or "1h ago", or today."""

    name = "lsn|time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Lsn | dt.datetime:
        """Refuses other text."""
        try:
            return at(value, "")
        except OptionError:
            self.fail(
                f"{value} is neither an LSN, such as 0/1A2B3C, nor a time, such as "
                "2026-01-31T12:00:00Z, -1h or today",
                param,
                ctx,
            )


LSN_OR_TIME = _LsnOrTime()


class Number(click.IntRange):
    """An integer in a range. Errors say number, and which."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Refuses other text."""
        try:
            number = int(value)
        except ValueError:
            self.fail(f"{value} is not a {self.name}{self._range()}", param, ctx)
        return super().convert(number, param, ctx)

    def _range(self) -> str:
        least = "" if self.min is None else f" from {self.min}"
        return least if self.max is None else f"{least} up to {self.max}"


class _File(click.Path):
    """A path. Errors must not show a connection string."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        if isinstance(value, str) and is_conninfo(value):
            self.fail(
                "a connection string or a URL is not a file: see walrow catalog",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


def library_option(
    name: str, text: str, *, metavar: str | None = None, flag: str | None = None
) -> Callable[[F], F]:
    """Declares an option of `walrow.read`, with the type and the default that it has there.

    Args:
        name: The option's name in `walrow.typing.Options`.
        text: Its help.
        metavar: The name of its value in the help.
        flag: How it is written. Default: as its name.
    """
    hint = type_hints(Options)[name]
    kinds = [get_origin(each) or each for each in (hint, *get_args(hint))]
    default = OPTIONS[name]
    settings: dict[str, Any] = {"help": text, "metavar": metavar}
    if hint is bool:
        settings["is_flag"] = True
    elif Mapping in kinds:
        choices = [
            get_args(each) for each in get_args(hint) if get_origin(each) is Literal
        ]
        settings |= {"type": TEXT, "multiple": True}
        settings["callback"] = _policies(choices[0], default) if choices else _mapping
    elif Sequence in kinds:
        settings |= {"type": TEXT, "multiple": True, "callback": _sequence}
    elif Literal in kinds:
        (words,) = [
            each for each in (hint, *get_args(hint)) if get_origin(each) is Literal
        ]
        settings |= {"type": click.Choice(get_args(words)), "default": default}
    elif os.PathLike in kinds:
        settings["type"] = _File(exists=True, dir_okay=False, path_type=Path)
    else:
        settings |= {"type": TEXT, "default": default}
    settings["show_default"] = settings.get("default") is not None
    return click.option(flag or "--" + name.replace("_", "-"), name, **settings)


def _sequence(
    _context: click.Context, _parameter: click.Parameter, items: Sequence[str]
) -> Sequence[str] | None:
    return items or None


def _mapping(
    _context: click.Context, parameter: click.Parameter, items: Sequence[str]
) -> dict[str, str] | None:
    return pairs(parameter.opts[0], items) or None


def pairs(option: str, items: Sequence[str]) -> dict[str, str]:
    """Splits each NAME=VALUE that an option was given."""
    found = {}
    for item in items:
        at = _equals(item)
        key, equals, value = item[:at], item[at : at + 1], item[at + 1 :]
        if not (key and equals and value):
            text = f"{option} {item}: expected NAME=VALUE"
            raise click.UsageError(text)
        found[key] = value
    return found


def _equals(item: str) -> int:
    """Finds the `=` that ends a column's name, which may itself contain `=`.

    It is the last `=` outside of the brackets of a type: `timestamp[us, tz=UTC]`.
    """
    depth = 0
    for place in range(len(item) - 1, -1, -1):
        if item[place] in "])>}":
            depth += 1
        elif item[place] in "[(<{":
            depth -= 1
        elif item[place] == "=" and depth <= 0:
            return place
    return len(item)


def _policies(
    choices: Sequence[str], default: str
) -> Callable[[click.Context, click.Parameter, Sequence[str]], str | dict[str, str]]:
    """Splits [COLUMN=]POLICY. A policy without a column is for all other columns."""

    def split(
        _context: click.Context, parameter: click.Parameter, items: Sequence[str]
    ) -> str | dict[str, str]:
        option = parameter.opts[0]
        found = pairs(option, [it if "=" in it else f"*={it}" for it in items])
        for value in found.values():
            if value not in choices:
                text = f"{option} {value}: expected one of {', '.join(choices)}"
                raise click.UsageError(text)
        return found or default

    return split
