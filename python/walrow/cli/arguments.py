"""Command-line options. The library's options come from its own list."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin
from typing import get_type_hints as type_hints

import click

from walrow import _options
from walrow._amounts import at
from walrow._core import OPTIONS
from walrow._options import Kind, Option, declared
from walrow._secrets import is_conninfo
from walrow.errors import OptionError
from walrow.typing import Options

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


class ByName(Mapping[str, click.Command]):
    """Commands by name. A module is imported when its command is asked for."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> click.Command:
        """The command."""
        if name not in self._names:
            raise KeyError(name)
        return _command(name, name)

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._names)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._names)


def _command(module: str, name: str) -> click.Command:
    command: click.Command = getattr(
        importlib.import_module(f"walrow.cli.{module}"), name
    )
    return command


class OrByFile(click.Command):
    """A command that takes either its options or `--config FILE`."""

    def __init__(self, *given: Any, by_file: str, **options: Any) -> None:
        """Adds the option to the help."""
        super().__init__(*given, **options)
        self._by_file = by_file
        text = "Do so as the file of walrow run says. Only --json and -q are for both."
        self.params.append(click.Option(["--config"], metavar="FILE", help=text))

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        """The context of the command that is meant."""
        if any(it.partition("=")[0] == "--config" for it in args):
            command = _command("configured", self._by_file)
            try:
                return command.make_context(info_name, args, parent, **extra)
            except click.NoSuchOption as error:
                if not any(error.option_name in it.opts for it in self.params):
                    raise
                text = f"with --config, the file has {error.option_name}: leave it out here"
                raise click.UsageError(text, error.ctx) from None
        return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Invokes the command, whose function has no `--config`."""
        ctx.params.pop("config", None)
        return super().invoke(ctx)


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


class _Table(Text):
    """A table, by its name or its OID."""

    name = "table"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Takes a number for an OID."""
        text = super().convert(value, param, ctx)
        return int(text) if text.isdecimal() else text


TABLE = _Table()


class _Folder(Text):
    """A directory."""

    name = "dir"


class Value(click.ParamType[Any]):
    """A value that a parser of the library reads."""

    def __init__(self, kind: Kind | Option[Any, Any]) -> None:
        named = kind.kind if isinstance(kind, Option) else kind
        self.name = named.name.partition(" ")[0].lower()
        self._kind, self._parse = named, kind.parse

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Refuses what the library refuses."""
        try:
            return self._parse(value, "the value")
        except OptionError as error:
            self.fail(self._refusal(value) or str(error), param, ctx)

    def _refusal(self, value: Any) -> str | None:
        """The error in words of the command line. None if only the range is wrong."""
        words = _AMOUNTS.get(self._kind.parse)
        try:
            self._kind.parse(value, "")
        except OptionError:
            return None if words is None else f"{value} is {words}"
        return None


#: The ends of errors, by the parser that refuses a text.
_AMOUNTS = {
    _options.SIZE.parse: "not a size, such as 64MiB or 50GB",
    _options.DURATION.parse: "not a duration, such as 30s, 12h or 7d",
    _options.LSN.parse: "not an LSN, such as 16/B374D848",
    at: "not an LSN, such as 16/B374D848, or a time, such as 2026-01-31T12:00:00Z, -1h or today",
}


def options_of(
    cls: type[Any], *without: str, only: str | None = None
) -> Callable[[F], F]:
    """Declares the options of a function of the library, from its list.

    Args:
        cls: The list. Options whose values are objects, such as functions, do not count.
        without: The names of options that are declared in another way.
        only: The name of the only option.
    """
    known = declared(cls)
    flags = {name: _flag(each) for name, each in known.items()}

    def declare(function: F) -> F:
        for name, each in reversed(known.items()):
            if name in without or only not in (None, name):
                continue
            if (settings := _settings(each)) is not None:
                text = _NAME.sub(
                    lambda it: flags.get(it[1], it[1].strip('"')), each.text
                )
                if settings.get("multiple"):
                    text += " Repeatable."
                click.option(flags[name], name, help=text, **settings)(function)
        return function

    return declare


def _flag(option: Option[Any, Any]) -> str:
    """The name of an option. If it can be repeated, the name is singular."""
    name = option.name.replace("_", "-")
    if option.kind in _REPEATABLE:
        return f"--{name.removesuffix('s')}"
    if option.kind is _options.FLAG and option.default is None:
        return f"--{name}/--no-{name}"
    return f"--{name}"


def _settings(option: Option[Any, Any]) -> dict[str, Any] | None:
    """The settings of click for an option. None if the command line cannot have it."""
    kind, required = option.kind, {"required": option.is_required}
    if kind is _options.FLAG:
        return {"is_flag": True, "default": option.default}
    if kind in _REPEATABLE:
        callback = _sequence if option.default is None else None
        return required | {
            "type": TEXT,
            "multiple": True,
            "callback": callback,
            "metavar": kind.metavar,
        }
    if kind.choices:
        type_: Any = click.Choice(kind.choices)
    elif kind is _options.NUMBER:
        type_ = Number(option.least, option.most)
    elif kind in _PARSED or kind.metavar is not None:
        type_ = Value(option)
    elif kind.name in _TEXTS:
        type_ = _TEXTS[kind.name]
    else:
        return None
    metavar = kind.metavar or _METAVARS.get(option.name)
    settings = required | {"type": type_, "metavar": metavar}
    if option.is_required:
        # For click, None would be a value.
        return settings
    default = option.default
    return settings | {"default": default, "show_default": default is not None}


_NAME = re.compile("`([^`]+)`")
_REPEATABLE = (_options.NAMES, _options.COLUMNS, _options.TABLES)
#: The names of values in the help, by option, where the kind is a text or a directory.
_METAVARS = {
    "compress": "METHOD",
    "deleted_column": "COLUMN",
    "label": "LABEL",
    "log": "LOG",
    "manifest_checksums": "ALGORITHM",
    "slot": "SLOT",
    "target": "TARGET",
}
_PARSED = (_options.AT, _options.SIZE, _options.DURATION, _options.LSN)
_TEXTS = {
    _options.TEXT.name: TEXT,
    _options.TABLE.name: TABLE,
    _options.FOLDER.name: _Folder(),
}


LSN_OR_TIME = Value(_options.AT)


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
    name: str, text: str = "", *, metavar: str | None = None
) -> Callable[[F], F]:
    """Declares an option of `walrow.read`, with the type and the default that it has there.

    Args:
        name: The option's name in `walrow.typing.Options`.
        text: Its help. Default: what several commands say.
        metavar: The name of its value in the help.
    """
    hint = type_hints(Options)[name]
    kinds = [get_origin(each) or each for each in (hint, *get_args(hint))]
    default = OPTIONS[name]
    shared = _SHARED.get(name, ("", None))
    settings: dict[str, Any] = {
        "help": text or shared[0],
        "metavar": metavar or shared[1],
    }
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
    flag = "--" + name.replace("_", "-")
    if settings.get("multiple"):
        flag = flag.removesuffix("s")
    return click.option(flag, name, **settings)


#: Texts and values of options that several commands have.
_SHARED = {
    "columns": ("Only this column: total, orders.total. Repeatable.", "COLUMN"),
    "metadata_prefix": ("The prefix of the metadata columns' names.", "PREFIX"),
    "profile": ("Native types, Spark's types, or PostgreSQL's text.", None),
    "types": (
        "The Arrow type for a column or a PostgreSQL type: total=float64. Repeatable.",
        "COLUMN=TYPE",
    ),
    "unrepresentable": (
        "The policy for values that the Arrow type cannot hold: error (the default), null or "
        "sentinel, for one column or all. Repeatable.",
        "[COLUMN=]POLICY",
    ),
}


def repeatable(flag: str, name: str, *, metavar: str, help: str) -> Callable[[F], F]:  # noqa: A002 - as click
    """Declares an option of texts."""
    return click.option(
        flag, name, type=TEXT, multiple=True, metavar=metavar, help=help
    )


def as_json(help: str) -> Callable[[F], F]:  # noqa: A002 - as click
    """Declares the option `--json`."""
    return click.option("--json", "as_json", is_flag=True, help=help)


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
