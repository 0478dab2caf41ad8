"""Reads the file of `walrow run`: everything is typed and checked before anything starts.

An error names the line of its key, which tomllib does not keep.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import re
import stat
import string
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from walrow._apply.engines import is_path
from walrow._apply.options import DeltaApplyOptions, SparkApplyOptions
from walrow._options import (
    DURATION,
    FLAG,
    MAPPING,
    NAMES,
    NUMBER,
    SIZE,
    TEXT,
    Kind,
    Option,
    declared,
)
from walrow._run.config import SPARK, Loaded, LogPart, RunFile, Source, Target
from walrow._run.matching import refuse_pattern
from walrow._secrets import is_secret
from walrow._sources.urls import is_url
from walrow.errors import OptionError

T = TypeVar("T")


def read(path: str | os.PathLike[str]) -> Loaded:
    """Reads the file, and checks what can be checked without the server and the log.

    Raises:
        OptionError: It is not as it must be. It names file, line and key.
        OSError: It cannot be read.
    """
    try:
        with Path(path).open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            data = file.read()
    except (FileNotFoundError, IsADirectoryError) as error:
        error.strerror = f"{error.strerror}: name the file, which walrow init writes"
        raise
    name = os.fsdecode(path)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        text = f"{name}, line {line}: the file is not UTF-8: save it as UTF-8"
        raise OptionError(text) from None
    is_private = not mode & (stat.S_IRWXG | stat.S_IRWXO)
    loaded = parse(text, Path(path), is_private=is_private)
    targets = enumerate(loaded.file.target)
    ignoring = frozenset(at for at, target in targets if _ignores_case(target.to))
    return dataclasses.replace(loaded, ignoring_case=ignoring)


def parse(text: str, path: Path, *, is_private: bool) -> Loaded:
    """Reads the text of the file.

    Args:
        text: The text.
        path: The path of the file, for messages, and where relative paths begin.
        is_private: Whether only the owner may read the file, so that it may have a password.

    Raises:
        OptionError: It is not as it must be. It names file, line and key.
    """
    reader = _Reader(str(path), text)
    try:
        found = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        # It has the line, and at most one character of the file.
        raise OptionError(f"{path}: it is not TOML: {error}") from None
    file = reader.file(found)
    reader.check(file, found, is_private=is_private)
    targets = {
        at: line
        for at in range(len(file.target))
        if (line := line_of(reader.places, ("target", at))) is not None
    }
    absolute = path.absolute()
    targets_ = tuple(_from_folder(it, absolute.parent) for it in file.target)
    file = dataclasses.replace(file, target=targets_)
    return Loaded(file=file, path=absolute, text=text, lines=targets)


class _Reader:
    """Turns what tomllib returns into the classes of `config`."""

    def __init__(self, name: str, text: str) -> None:
        self._name = name
        self.places = places(text)

    def error(self, place: Place, text: str) -> OptionError:
        """The error of a value."""
        line = line_of(self.places, place)
        where = self._name if line is None else f"{self._name}, line {line}"
        key = _spelled(place)
        return OptionError(f"{where}: {key}: {text}" if key else f"{where}: {text}")

    def file(self, found: dict[str, Any]) -> RunFile:
        """The whole file."""
        self._refuse_unknown(found, [it.name for it in dataclasses.fields(RunFile)], ())

        def part(name: str) -> Any:
            if name not in found:
                raise self.error((name,), _missing(name, ()))
            return found[name]

        return RunFile(
            source=self._table(Source, part("source"), ("source",)),
            log=self._table(LogPart, part("log"), ("log",)),
            target=self._targets(part("target")),
            spark=self._value(SPARK, found.get("spark", {}), ("spark",)),
        )

    def _refuse_unknown(
        self, found: dict[str, Any], known: list[str], place: Place
    ) -> None:
        for key in found:
            if key not in known:
                raise self.error((*place, key), _unknown(key, known))

    def _targets(self, found: Any) -> tuple[Target, ...]:
        if not isinstance(found, list) or not found:
            text = (
                "it must be an array of tables: write [[target]] above the keys of each"
            )
            raise self.error(("target",), text)
        return tuple(
            self._table(Target, it, ("target", at)) for at, it in enumerate(found)
        )

    def _table(self, kind: type[T], found: Any, place: Place) -> T:
        """A table, as one of the classes."""
        if not isinstance(found, dict):
            name = _spelled(place)
            raise self.error(
                place, f"it must be a table: write [{name}] above its keys"
            )
        known = declared(kind)
        self._refuse_unknown(found, list(known), place)
        values = {}
        for name, option in known.items():
            here = (*place, name)
            if name in found:
                values[name] = self._value(option, found[name], here)
            elif option.is_required:
                raise self.error(here, _missing(name, place))
        return kind(**values)

    def _value(self, option: Option[Any, Any], found: Any, place: Place) -> Any:
        """A value of an option.

        Raises:
            OptionError: It has another type, or is out of its range.
        """
        kind = option.kind
        type_, words = _TYPES.get(kind) or (object, _one_of(kind.choices))
        if isinstance(found, float) and kind == SIZE and found.is_integer():
            found = int(found)
        if not isinstance(found, type_) or (isinstance(found, bool) and kind != FLAG):
            raise self.error(place, f"it must be {words}{_is(found)}")
        if kind == MAPPING:
            self._texts(found, place)
        try:
            if kind != NAMES:
                kind.parse(found, "it")
            # Only the range can be wrong now.
            words = ""
            return option.parse(found, "it")
        except OptionError as error:
            text = f"it must be {words}" if words else str(error)
            raise self.error(place, text) from None

    def _texts(self, found: Any, place: Place) -> None:
        for key, value in found.items():
            if isinstance(value, dict):
                text = f'names with a dot need quotes: "{key}.…" = "…"'
                raise self.error((*place, key), text)
            if not isinstance(value, str):
                text = f"it must be a text in quotes{_is(value)}"
                raise self.error((*place, key), text)

    def check(self, file: RunFile, given: dict[str, Any], *, is_private: bool) -> None:
        """Checks what the options do not say, with the values that the file has.

        Raises:
            OptionError: Something is wrong.
        """
        source = ("source",)
        if not file.source.publications:
            raise self.error((*source, "publications"), "name at least one")
        for place, name in (
            ((*source, "slot"), file.source.slot),
            (("log", "path"), file.log.path),
        ):
            if not name:
                raise self.error(place, "it is empty")
        if file.source.snapshot and not file.source.create:
            text = "the log begins with rows only if the slot is created: add create = true"
            raise self.error((*source, "snapshot"), text)
        if is_url(file.log.path):
            text = "a log is written into a local directory: give its path"
            raise self.error(("log", "path"), text)
        self._check_dsn(file.source.dsn, is_private=is_private)
        self._check_secrets(
            file.spark, ("spark",), _SPARK_SECRET, is_private=is_private
        )
        for at, target in enumerate(file.target):
            self._check_target(
                target, given["target"][at], ("target", at), is_private=is_private
            )

    def _check_secrets(
        self,
        options: Mapping[str, str],
        place: Place,
        secret: re.Pattern[str],
        *,
        is_private: bool,
    ) -> None:
        for key in options:
            if not is_private and secret.search(key):
                text = (
                    "it may be secret, and others may read the file: use the environment, or "
                    f"make the file private with chmod 600 {self._name}"
                )
                raise self.error((*place, key), text)

    def _check_dsn(self, dsn: str, *, is_private: bool) -> None:
        from walrow._postgres.connecting import parameters_of

        place = ("source", "dsn")
        try:
            given = parameters_of(dsn)
        except (OptionError, ImportError) as error:
            raise self.error(place, str(error)) from None
        secret = next((it for it in given if is_secret(it)), None)
        if secret is not None and not is_private:
            text = (
                f"it has {secret}, and others may read the file: use PGPASSFILE, a service or "
                f"PGPASSWORD, or make the file private with chmod 600 {self._name}"
            )
            raise self.error(place, text)

    def _check_target(
        self, target: Target, given: dict[str, Any], place: Place, *, is_private: bool
    ) -> None:
        for key in ("tables", "exclude"):
            patterns: tuple[str, ...] = getattr(target, key)
            if key == "tables" and not patterns:
                raise self.error((*place, key), 'name a pattern, such as "public.*"')
            for pattern in patterns:
                if reason := refuse_pattern(pattern):
                    raise self.error((*place, key), reason)
        if reason := _bad_template(target.to):
            raise self.error((*place, "to"), reason)
        if target.every <= 0:
            raise self.error((*place, "every"), "it must be more than 0 seconds")
        is_of_spark = target.engine == "spark" or not is_path(target.to)
        if target.engine == "delta" and not is_path(target.to):
            text = (
                'deltalake writes delta:PATH only: engine = "spark" writes this target'
            )
            raise self.error((*place, "engine"), text)
        for key, value in given.items():
            if value and is_of_spark and key in _OF_DELTA:
                raise self.error((*place, key), "only deltalake has it: leave it out")
            if value and target.engine != "spark" and key in _OF_SPARK:
                text = 'only Spark has it: add engine = "spark"'
                raise self.error((*place, key), text)
        options = target.storage_options or {}
        where = (*place, "storage_options")
        self._check_secrets(options, where, _SECRET, is_private=is_private)


def _from_folder(target: Target, folder: Path) -> Target:
    """A target whose relative path begins at the file's directory."""
    kind, _, place = target.to.partition(":")
    if not is_path(target.to) or is_url(place):
        return target
    # Braces in the directory's own path have no meaning.
    around = str(folder).replace("{", "{{").replace("}", "}}")
    return dataclasses.replace(target, to=f"{kind}:{Path(around) / place}")


def _ignores_case(target: str) -> bool:
    """Whether the file system of a target ignores case, as far as directories that exist show it."""
    path = Path(target.partition(":")[2].removeprefix("file://"))
    for each in path.parents if is_path(target) else ():
        other = each.with_name(each.name.swapcase()) if each.name else each
        if each != other and each.exists():
            return other.exists() and each.samefile(other)
    return False


def _bad_template(to: str) -> str | None:
    """Why a text is no target. None if it is one."""
    kind, colon, place = to.partition(":")
    if kind not in ("delta", "iceberg") or not colon or not place:
        return 'it must be "delta:PATH", "delta:NAME" or "iceberg:NAME"'
    if kind == "delta" and not is_path(to) and "." not in place:
        return (
            'a path has a slash, such as "delta:./lake", and a name a dot, such as '
            '"delta:shop.orders"'
        )
    try:
        parts = list(string.Formatter().parse(place))
    except ValueError:
        return "a brace is alone: write {{ and }} for braces, and {schema} and {table}"
    for _, name, form, conversion in parts:
        if name is not None and (
            name not in ("schema", "table") or form or conversion is not None
        ):
            return "only {schema} and {table} may be in braces"
    return None


def _spelled(place: Place) -> str:
    """The keys to a value, in words: `target 2.engine`."""
    words: list[str] = []
    for each in place:
        if isinstance(each, int):
            words[-1] = f"{words[-1]} {each + 1}"
        else:
            words.append(each)
    return ".".join(words)


def _missing(key: str, place: Place) -> str:
    if place:
        return f"it is missing: add {key} = …"
    head = f"[[{key}]]" if key == "target" else f"[{key}]"
    return f"it is missing: add {head} with its keys"


def _unknown(key: str, known: list[str]) -> str:
    near = difflib.get_close_matches(key, known, 1)
    if near:
        return f"there is no such key: did you mean {near[0]}?"
    return f"there is no such key here: there are {', '.join(known)}"


def _one_of(choices: Iterable[str]) -> str:
    return "one of " + ", ".join(f'"{it}"' for it in choices)


def _is(found: Any) -> str:
    """The type of a value. The value itself may be secret."""
    kind = next(
        (name for it, name in _FOUND.items() if isinstance(found, it)), "a time"
    )
    return f", not {kind}"


#: Names of options of object stores whose values may be secret.
_SECRET = re.compile("key|secret|token|password|credential", re.IGNORECASE)
#: Names of Spark's settings with such values: as `spark.redaction.regex`, and keys of Azure.
_SPARK_SECRET = re.compile(
    "secret|password|token|(access|account)[.]?key", re.IGNORECASE
)
#: The options of one engine alone.
_OF_SPARK = declared(SparkApplyOptions).keys() - declared(DeltaApplyOptions).keys()
_OF_DELTA = declared(DeltaApplyOptions).keys() - declared(SparkApplyOptions).keys()
_TYPES: dict[Kind, tuple[Any, str]] = {
    TEXT: (str, "a text in quotes"),
    FLAG: (bool, "true or false"),
    NUMBER: (int, "a whole number"),
    NAMES: (list, 'a list of texts: ["…"]'),
    MAPPING: (dict, "a table of names and texts"),
    DURATION: (object, 'a duration: seconds, or a text such as "10s", "12h" or "7d"'),
    SIZE: (object, 'a size: bytes, or a text such as "64MiB" or "50GB"'),
}
_FOUND = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "a table",
}


#: The keys that lead to a value, and the numbers of tables in arrays.
Place: TypeAlias = tuple[str | int, ...]


def places(text: str) -> dict[Place, int]:
    r"""The lines of tables and of the keys that begin a line.

    >>> found = places("[source]\nslot = 's'\n[[target]]\n[[target]]\nto = 'x'")
    >>> found["source", "slot"], found["target", 0], found["target", 1, "to"]
    (2, 3, 5)
    """
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    quote = ""
    for number, line in enumerate(text.split("\n"), 1):
        was_inside = bool(quote)
        for each in _QUOTES.findall(line):
            # Three quotes begin a text of several lines, and the same ones end it.
            quote = ("" if each == quote else quote) if quote else each
        if was_inside:
            continue
        if head := _ARRAY.match(line):
            name = _keys(head[1])
            at = counts.get(name, 0)
            counts[name] = at + 1
            table = (*name, at)
            found.setdefault(table, number)
        elif head := _TABLE.match(line):
            name = _keys(head[1])
            # A table below the last one of an array.
            table = name
            for depth in range(len(name) - 1, 0, -1):
                if name[:depth] in counts:
                    table = (*name[:depth], counts[name[:depth]] - 1, *name[depth:])
            found.setdefault(table, number)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_keys(key[1])), number)
    return found


def line_of(known: dict[Place, int], place: Place) -> int | None:
    """The line of a value, or of the table around it."""
    while place:
        # A table may only be there as the beginning of its keys.
        lines = [line for key, line in known.items() if key[: len(place)] == place]
        if lines:
            return known.get(place, min(lines))
        place = place[:-1]
    return None


def _keys(text: str) -> Place:
    return tuple(it[1:-1] if it[0] in "\"'" else it for it in _PART.findall(text))


_PART = re.compile(r"""[A-Za-z0-9_-]+|"[^"]*"|'[^']*'""")
_NAME = rf"(?:{_PART.pattern})(?:\s*\.\s*(?:{_PART.pattern}))*"
_ARRAY = re.compile(rf"\s*\[\[\s*({_NAME})\s*\]\]")
_TABLE = re.compile(rf"\s*\[\s*({_NAME})\s*\]")
_KEY = re.compile(rf"\s*({_NAME})\s*=")
_QUOTES = re.compile(r'"""|\'\'\'')
