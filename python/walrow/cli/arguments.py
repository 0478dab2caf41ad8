"""Command-line options. The library's options come from its own list."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from walrow import _options
from walrow._options import Kind, Option, declared
from walrow._read.signatures import READ
from walrow._secrets import is_conninfo
from walrow.errors import OptionError
from walrow.typing import Policy

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
        if name not in self._names:
            raise KeyError(name)
        return _command(name, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _command(module: str, name: str) -> click.Command:
    command: click.Command = getattr(
        importlib.import_module(f"walrow.cli.{module}"), name
    )
    return command


class OrByFile(click.Command):
    """A command that takes either its options or `--config FILE`."""

    def __init__(self, *given: Any, by_file: str, **options: Any) -> None:
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
        self._kind = kind.kind if isinstance(kind, Option) else kind
        self._parse = kind.parse
        self.name = self._kind.name

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Refuses what the library refuses."""
        words = _AMOUNTS.get(self._kind)
        try:
            self._kind.parse(value, "the value")
            # Only the range can be wrong now.
            words = None
            return self._parse(value, "the value")
        except OptionError as error:
            self.fail(f"{value} is not {words}" if words else str(error), param, ctx)


#: What a text should have been.
_AMOUNTS = {
    _options.SIZE: "a size, such as 64MiB or 50GB",
    _options.DURATION: "a duration, such as 30s, 12h or 7d",
    _options.LSN: "an LSN, such as 16/B374D848",
    _options.AT: "an LSN, such as 16/B374D848, or a time, such as 2026-01-31T12:00:00Z, -1h or today",
}


def options_of(
    cls: type[Any], *without: str, only: Collection[str] = ()
) -> Callable[[F], F]:
    """Declares the options of a function of the library, from its list.

    Args:
        cls: The list. Options whose values are objects, such as functions, do not count.
        without: The names of options that are declared in another way.
        only: The names of the only options.
    """
    known = declared(cls)

    def declare(function: F) -> F:
        for name, each in reversed(known.items()):
            if name in without or (only and name not in only):
                continue
            if (settings := _settings(each)) is not None:
                text = _NAME.sub(
                    lambda it: (
                        _flag(known[it[1]]) if it[1] in known else it[1].strip('"')
                    ),
                    each.text,
                )
                if settings.get("multiple"):
                    text += " Repeatable."
                click.option(_flag(each), name, help=text, **settings)(function)
        return function

    return declare


def library_option(name: str, text: str = "") -> Callable[[F], F]:
    """Declares an option of `walrow.read`, with the default that it has there.

    Args:
        name: The option's name in `walrow.typing.Options`.
        text: Its help. Default: what several commands say.
    """
    settings = _settings(READ[name]) or {}
    return click.option(_flag(READ[name]), name, help=text or _TEXTS[name], **settings)


#: The help of options of `walrow.read` that several commands have.
_TEXTS = {
    "columns": "Only this column: total, orders.total. Repeatable.",
    "metadata_prefix": "The prefix of the metadata columns' names.",
    "profile": "Native types, Spark's types, or PostgreSQL's text.",
    "types": "The Arrow type for a column or a PostgreSQL type: total=float64. Repeatable.",
    "unrepresentable": "The policy for values that the Arrow type cannot hold: error (the default), "
    "null or sentinel, for one column or all. Repeatable.",
}


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
    kind, default = option.kind, option.default
    if kind is _options.FLAG:
        return {"is_flag": True, "default": default}
    settings: dict[str, Any] = {
        "required": option.is_required,
        "metavar": _METAVARS.get(option.name, kind.metavar),
    }
    if (split := _REPEATABLE.get(kind)) is not None:
        absent = None if option.is_required else default
        return settings | {
            "type": TEXT,
            "multiple": True,
            "callback": lambda _, given, items: split(given.opts[0], items) or absent,
        }
    if kind.choices:
        settings["type"] = click.Choice(kind.choices)
    elif kind == _options.NUMBER:
        settings["type"] = Number(option.least, option.most)
    elif kind in _TYPES:
        settings["type"] = _TYPES[kind]
    elif kind in _AMOUNTS or kind.metavar is not None:
        settings["type"] = Value(option)
    else:
        return None
    if not option.is_required:
        # For click, None would be a value of a required option.
        settings |= {"default": default, "show_default": default is not None}
    return settings


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


def repeatable(flag: str, name: str, *, metavar: str, help: str) -> Callable[[F], F]:  # noqa: A002 - as click
    """Declares an option of texts."""
    return click.option(
        flag, name, type=TEXT, multiple=True, metavar=metavar, help=help
    )


def as_json(help: str) -> Callable[[F], F]:  # noqa: A002 - as click
    """Declares the option `--json`."""
    return click.option("--json", "as_json", is_flag=True, help=help)


def pairs(option: str, items: Sequence[str]) -> dict[str, str]:
    """Splits each NAME=VALUE that an option was given."""
    found = {}
    for item in items:
        at = _equals(item)
        key, equals, value = item[:at], item[at : at + 1], item[at + 1 :]
        if not (key and equals and value):
            raise click.UsageError(f"{option} {item}: expected NAME=VALUE")
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


def _policies(option: str, items: Sequence[str]) -> dict[str, str]:
    """Splits [COLUMN=]POLICY. A policy without a column is for all other columns."""
    found = pairs(option, [it if "=" in it else f"*={it}" for it in items])
    choices = get_args(Policy)
    for value in found.values():
        if value not in choices:
            text = f"{option} {value}: expected one of {', '.join(choices)}"
            raise click.UsageError(text)
    return found


_NAME = re.compile("`([^`]+)`")
#: How the texts of options are put together that can be repeated.
_REPEATABLE: dict[Kind, Callable[[str, Sequence[str]], Any]] = {
    _options.NAMES: lambda _, items: items,
    _options.TABLES: lambda _, items: items,
    _options.MAPPING: pairs,
    _options.ARROW_TYPES: pairs,
    _options.POLICIES: _policies,
}
#: The names of values in the help, by option, where the kind does not say it.
_METAVARS = {
    **dict.fromkeys(("columns", "keys", "partition_by", "cluster_by"), "COLUMN"),
    "deleted_column": "COLUMN",
    "log": "LOG",
    "manifest_checksums": "ALGORITHM",
    "metadata_prefix": "PREFIX",
    "session": "SETTING=VALUE",
    "slot": "SLOT",
    "target": "TARGET",
}
_TYPES: dict[Kind, click.ParamType[Any]] = {
    _options.TEXT: TEXT,
    _options.TABLE: TABLE,
    _options.FOLDER: _Folder(),
    _options.CATALOG: _File(exists=True, dir_okay=False, path_type=Path),
}
