"""The options of functions. Each is declared once: its type, default, range and sentence.

>>> from walrow.typing import Duration
>>> @options
... class CopyOptions:
...     source: Value[str] = Option("The file.")
...     jobs: Value[int] = Option("The number of threads.", default=4, least=1)
...     pause: Option[Duration, float] = Option("The time between rows.", default="1s")
>>> @takes(CopyOptions)
... def copy(options: CopyOptions) -> float:
...     return options.jobs * options.pause
>>> copy("a", pause="1m")
240.0
>>> inspect.signature(copy)
<Signature (source: 'str', jobs: 'int' = 4, pause: 'Duration' = '1s') -> 'float'>
>>> copy("a", jobs=0)
Traceback (most recent call last):
    ...
walrow.errors.OptionError: jobs is 0: it must be from 1 on

Another list has the same option by its name:

>>> @options
... class RestoreOptions:
...     threads = CopyOptions.jobs
>>> RestoreOptions.threads.text, RestoreOptions().threads
('The number of threads.', 4)

Its type decides how it is checked: `kind_of` finds the kind. The signature of a function, its checks and
its docstring come from this list, as do the options of the command line (`walrow.cli.arguments`), the keys
of a file (`walrow._run.config`) and the tables in the docs. Spark's options have the same kinds.
"""

from __future__ import annotations

import ast
import copy
import dataclasses
import functools
import inspect
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping
from itertools import filterfalse
from pathlib import Path
from typing import (
    Any,
    Generic,
    ParamSpec,
    TypeAlias,
    TypeVar,
    dataclass_transform,
    get_args,
    overload,
)

from walrow import typing as types
from walrow._amounts import at, duration, size
from walrow._core import Catalog
from walrow._lsn import Lsn
from walrow._secrets import brief, is_conninfo
from walrow.errors import OptionError

In = TypeVar("In")
Out = TypeVar("Out")
O = TypeVar("O")  # noqa: E741
P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Kind:
    """The values that an option takes. Kinds of one name differ only in how they are checked.

    Attributes:
        name: Its name.
        parse: Reads a value. It gets the name of the option for its error.
        choices: The values, if there are only some.
        metavar: The name of a value in help texts. Default: the name that click takes.
    """

    name: str
    parse: Callable[[Any, str], Any] = dataclasses.field(
        default=lambda value, _: value, compare=False
    )
    choices: tuple[Any, ...] = ()
    metavar: str | None = dataclasses.field(default=None, compare=False)


class Option(Generic[In, Out]):
    """An option: the descriptor of a field of a frozen dataclass.

    Attributes:
        name: Its name.
        text: Its meaning, in sentences. Names of options have backticks.
        written: The type of a value, as its annotation has it.
        kind: How a value is checked. Default: as `kind_of` says for its type.
        default: Its default, as it is written. `dataclasses.MISSING` if it is required.
        more: Sentences that the command line does not show.
        least: The least value, and the most.
    """

    name: str
    kind: Kind
    written: str

    def __init__(
        self,
        text: str,
        kind: Kind | None = None,
        *,
        default: Any = dataclasses.MISSING,
        more: str = "",
        least: Any = None,
        most: Any = None,
    ) -> None:
        self.text, self.more = text, more
        if kind is not None:
            self.kind = kind
        self.default = default
        self.least, self.most = least, most

    @classmethod
    def of(
        cls, name: str, written: str, default: Any = None, text: str = ""
    ) -> Option[In, Out]:
        """An option that is no field of a list."""
        option = cls(text, kind_of(written), default=default)
        option.name, option.written = name, written
        return option

    @overload
    def __get__(self, instance: None, owner: type) -> Option[In, Out]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> Out: ...

    def __get__(self, instance: object, owner: type) -> Any:
        return self if instance is None else instance.__dict__[self.name]

    def __set__(self, instance: object, value: In) -> None:
        instance.__dict__[self.name] = self.parse(value)

    def but(self, text: str) -> Option[In, Out]:
        """The same option for another list, with another sentence."""
        other = copy.copy(self)
        other.text = text
        return other

    @property
    def is_required(self) -> bool:
        """Whether it has no default."""
        return self.default is dataclasses.MISSING

    def parse(self, value: Any, name: str | None = None) -> Any:
        """Reads and checks a value.

        Raises:
            OptionError: It is no value of the option.
        """
        if value is None and self.default is None:
            return None
        name = name or self.name
        parsed = self.kind.parse(value, name)
        # Not the other way round: each comparison with nan is false.
        if (self.least is None or parsed >= self.least) and (
            self.most is None or parsed <= self.most
        ):
            return parsed
        least = "up" if self.least is None else f"from {self.least}"
        most = "on" if self.most is None else f"to {self.most}"
        raise OptionError(f"{name} is {brief(parsed)}: it must be {least} {most}")


#: An option whose values stay as they are given.
Value: TypeAlias = Option[T, T]


# Frozen, but mypy takes inherited fields of a frozen class for values as they are passed.
@dataclass_transform(field_specifiers=(Option,))
def options(cls: type[T]) -> type[T]:
    """Makes a frozen dataclass of options. Each of its fields is an `Option`.

    The option of another list needs no annotation, if only values of it are used: a type checker then
    takes it for no argument.

    It has no `repr`, because a connection string may have a password.
    """
    # A copy: in another list, an option may have another name.
    own = {
        name: copy.copy(each)
        for name, each in vars(cls).items()
        if isinstance(each, Option)
    }
    for name, each in own.items():
        each.name = name
        if name in cls.__annotations__:
            each.written = _given(cls.__annotations__[name])
            if "kind" not in vars(each):
                each.kind = kind_of(each.written)
        cls.__annotations__.setdefault(name, Option)
        setattr(cls, name, dataclasses.field(default=each.default))
    made = dataclasses.dataclass(frozen=True, repr=False)(cls)
    for name, each in own.items():
        setattr(made, name, each)
    return made


def _given(annotation: str) -> str:
    """The type of the values that are given: `T` of `Value[T]` and of `Option[T, R]`."""
    found: Any = ast.parse(annotation, mode="eval").body
    given = found.slice.elts[0] if isinstance(found.slice, ast.Tuple) else found.slice
    return ast.unparse(given)


def kind_of(written: str) -> Kind:
    """The kind of the values of a type, as an annotation writes it.

    >>> kind_of("Duration | None") is DURATION, kind_of("Literal['a', 'b']").choices
    (True, ('a', 'b'))
    >>> kind_of("Deletes").choices
    ('apply', 'soft', 'ignore')
    """
    known = written.removesuffix(" | None")
    if known.startswith("Literal"):
        return _choice(tuple(ast.literal_eval(known.removeprefix("Literal"))))
    if known.startswith("Callable"):
        return _CALLED
    return _KINDS.get(known) or _choice(get_args(getattr(types, known)))


def declared(cls: Any) -> dict[str, Option[Any, Any]]:
    """The options of a dataclass by name: first positional arguments, then required ones."""
    known = {
        name: each
        for base in cls.__mro__
        for name, each in vars(base).items()
        if isinstance(each, Option)
    }
    named = {each.name: each.kw_only for each in dataclasses.fields(cls)}
    order = sorted(known, key=lambda it: (named[it], not known[it].is_required))
    return {name: known[name] for name in order}


def takes(
    options: Callable[P, O],
) -> Callable[[Callable[[O], R]], Callable[P, R]]:
    """Lets a function take options as arguments, which it gets as one value.

    Its signature lists them. Its docstring describes them, instead of the line `options: ...`.
    """

    def decorate(function: Callable[[O], R]) -> Callable[P, R]:
        @functools.wraps(function)
        def call(*args: P.args, **given: P.kwargs) -> R:
            return function(options(*args, **given))

        # Python's errors of wrong arguments name the function.
        made: Any = options.__init__
        made.__qualname__ = function.__name__
        signed: Any = call
        signed.__signature__ = _signature(options, function)
        signed.__doc__ = described(function.__doc__ or "", options)
        return call

    return decorate


def _signature(cls: Any, function: Callable[..., Any]) -> inspect.Signature:
    made = inspect.signature(cls).parameters
    parameters = [
        made[name].replace(annotation=each.written)
        for name, each in declared(cls).items()
    ]
    return inspect.Signature(
        parameters, return_annotation=function.__annotations__["return"]
    )


def described(text: str, cls: Any) -> str:
    """The docstring with the options instead of its line `options: ...`."""
    indent, _, rest = text.partition("options: ")
    if not rest:
        return text
    blank = indent[indent.rindex("\n") :]
    lines = [
        textwrap.fill(
            f"{each.name}: {each.text} {each.more}".rstrip(),
            92,
            initial_indent=blank[1:],
            subsequent_indent=f"{blank[1:]}    ",
            break_on_hyphens=False,
        )
        for each in declared(cls).values()
    ]
    return (
        indent.removesuffix(blank) + "\n" + "\n".join(lines) + rest[rest.index("\n") :]
    )


def _choice(texts: tuple[str, ...]) -> Kind:
    def parse(value: object, name: str) -> object:
        if value in texts:
            return value
        allowed = " or ".join(map(repr, texts))
        raise OptionError(f"{name} is {brief(value)}: it must be {allowed}")

    return Kind("choice", parse, texts)


def of_kind(kind: str, is_one: Callable[[Any], bool], words: str) -> Kind:
    """The values that a test accepts. `words` describe the values."""

    def parse(value: Any, name: str) -> Any:
        if is_one(value):
            return value
        raise _wrong(name, words, value)

    return Kind(kind, parse)


def _wrong(name: str, words: str, value: object) -> OptionError:
    return OptionError(f"{name} must be {words}, not {type(value).__name__}")


def listed(value: Any) -> tuple[Any, ...] | None:
    """The items of a list. None for a text, bytes or a mapping, which are no lists."""
    if isinstance(value, str | bytes | bytearray | memoryview | Mapping):
        return None
    return tuple(value) if isinstance(value, Iterable) else None


def _tables(value: Any, name: str) -> tuple[Any, ...]:
    tables = (value,) if isinstance(value, str | int) else listed(value)
    if tables is not None and not tables:
        raise OptionError(f"{name} is empty: name a table, or leave it out")
    if tables is not None and all(map(_is_table, tables)):
        return tables
    wrong = value if tables is None else next(filterfalse(_is_table, tables))
    kind = "an empty name" if wrong == "" else type(wrong).__name__
    text = f"{name} must be tables: each is a name, a pair of schema and name, or an OID, not {kind}"
    raise OptionError(text)


def _is_table(value: object) -> bool:
    if isinstance(value, tuple):
        is_pair = len(value) == len(("schema", "table"))
        return is_pair and all(isinstance(it, str) and it for it in value)
    if isinstance(value, str):
        return bool(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _mapping(value: Any, name: str) -> Any:
    words = "names with their values, all of them texts"
    if not isinstance(value, Mapping):
        raise _wrong(name, words, value)
    if all(isinstance(it, str) for pair in value.items() for it in pair):
        return value
    raise OptionError(f"{name} must be {words}")


def _names(value: Any, name: str) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else listed(value)
    if names is None or not all(isinstance(it, str) for it in names):
        raise _wrong(name, "a name or a sequence of names", value)
    if not all(names):
        raise OptionError(f"{name} has an empty name: leave it out, or name one")
    return names


def _catalog(value: Any, name: str) -> Any:
    if isinstance(value, Catalog):
        return value
    if not isinstance(value, str | os.PathLike):
        raise TypeError(
            f"{name} must be a walrow.Catalog or the path of its file, not "
            f"{type(value).__name__}; to read one from a server, use walrow.postgres.catalog"
        )
    in_file_system(os.fspath(value), name)
    return value


def _path(value: Any, name: str) -> Path:
    if not isinstance(value, str | os.PathLike):
        raise _wrong(name, "a path", value)
    found = in_file_system(os.fspath(value), name)
    if is_conninfo(found):
        text = f"{name} is a connection string or a URL, and must be a local path, as in ./run=5"
        raise OptionError(text)
    # The process may change its directory.
    return Path(found).absolute()


def in_file_system(path: str | bytes, name: str) -> str:
    """The text of a path that a file system can have.

    Raises:
        OptionError: It is empty, or has a character that no path has.
    """
    if not path:
        raise OptionError(f"{name} is empty: name a directory or a file")
    found = os.fsdecode(path)
    try:
        is_possible = b"\0" not in os.fsencode(found)
    except UnicodeEncodeError:
        is_possible = False
    if is_possible:
        return found
    text = f"{name} has a character that no path can have: NUL, or a half of a surrogate pair"
    raise OptionError(text)


def _lsn(value: object, name: str) -> Lsn:
    found = at(value, name)
    if isinstance(found, Lsn):
        return found
    raise OptionError(f"{name} must be an LSN, such as '16/B374D848'")


#: A value that something else checks.
ANY = Kind("any")
FLAG = of_kind("flag", lambda it: isinstance(it, bool), "True or False")
NUMBER = of_kind(
    "number", lambda it: isinstance(it, int) and not isinstance(it, bool), "a number"
)
TEXT = of_kind("text", lambda it: isinstance(it, str), "a text")
#: One name or several.
NAMES = Kind("names", _names, metavar="NAME")
#: A table, and one or several, as in `walrow.read`.
TABLE, TABLES = Kind("table"), Kind("tables", _tables, metavar="TABLE")
MAPPING = Kind("mapping", _mapping, metavar="NAME=VALUE")
#: Arrow types and policies by name, as in `walrow.read`, which checks them.
ARROW_TYPES = Kind("types", metavar="COLUMN=TYPE")
POLICIES = Kind("policies", metavar="[COLUMN=]POLICY")
#: A directory or a file.
FOLDER = Kind("folder", _path)
#: A `Catalog`, or the path of its file.
CATALOG = Kind("catalog", _catalog)
SIZE, DURATION = Kind("size", size), Kind("duration", duration)
LSN = Kind("lsn", _lsn)
#: An LSN or a time.
AT = Kind("at", at, metavar="LSN|TIME")
_CALLED = of_kind("function", callable, "a function")
_KINDS = {
    "bool": FLAG,
    "int": NUMBER,
    "str": TEXT,
    "str | Sequence[str]": NAMES,
    "Sequence[str]": NAMES,
    "ArrowSchemaExportable": ANY,
    "TableName": TABLE,
    "Sequence[TableName]": TABLES,
    "Mapping[str, str]": MAPPING,
    "Mapping[str, ArrowSchemaExportable | str]": ARROW_TYPES,
    "Policy | Mapping[str, Policy]": POLICIES,
    "Catalog | str | os.PathLike[str]": CATALOG,
    "str | os.PathLike[str]": FOLDER,
    "Size": SIZE,
    "Duration": DURATION,
    "Lsn | int | str": LSN,
    "At": AT,
}
