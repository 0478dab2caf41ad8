"""The results of public functions: frozen values, as JSON. Lists of them are tables in notebooks.

>>> @result
... class Copied(Result):
...     rows: int
...     time: dt.datetime | None = None
>>> done = Copied(5, dt.datetime(2026, 1, 31, tzinfo=dt.UTC))
>>> done.to_dict()
{'rows': 5, 'time': '2026-01-31T00:00:00+00:00'}
>>> Results([done], "copy")._repr_html_()[:58]
'<table><caption>1 copy</caption><thead><tr><th>rows</th><t'
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import html
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, TypeVar, dataclass_transform

from walrow._lsn import Lsn
from walrow.errors import Error

T = TypeVar("T")
R = TypeVar("R", bound="Result")


@dataclass_transform(frozen_default=True)
def result(cls: type[T]) -> type[T]:
    """Makes a frozen dataclass of a `Result`."""
    return dataclasses.dataclass(frozen=True, slots=True)(cls)


class Result:
    """A result of a public function, which shows itself as JSON."""

    __slots__ = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields as JSON has them: LSNs, times and paths are texts."""
        names = [it.name for it in dataclasses.fields(self)]  # type: ignore[arg-type]
        return {name: as_json(getattr(self, name)) for name in names}

    def _row(self) -> dict[str, Any]:
        """The cells of this result in a table of several, by column."""
        return self.to_dict()


class Results(list[R]):
    """Several results of one kind, which notebooks show as a table."""

    def __init__(self, results: Iterable[R], what: str) -> None:
        """Has the results. `what` is the word for one of them."""
        super().__init__(results)
        self._what = what

    def _repr_html_(self) -> str:
        found = [as_json(each._row()) for each in self]
        heads = list(found[0]) if found else []
        caption = counted(len(self), self._what)
        return html_table(caption, heads, (map(_shown, it.values()) for it in found))


def counted(count: int, what: str) -> str:
    """The count of something, in words."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def html_table(
    caption: str, heads: Sequence[str], rows: Iterable[Iterable[Any]]
) -> str:
    """Returns a table of text. The caption is HTML."""
    cells = ([html.escape(str(value)) for value in row] for row in rows)
    return table(caption, [html.escape(each) for each in heads], cells)


def table(caption: str, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Returns a table of HTML."""
    head = "".join(f"<th>{each}</th>" for each in heads)
    body = "".join(
        f"<tr>{''.join(f'<td>{value}</td>' for value in row)}</tr>" for row in rows
    )
    return (
        f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def aligned(
    rows: Sequence[Sequence[str]], numbers: Collection[int] = ()
) -> Iterator[str]:
    """Rows of text as lines with columns. The columns of `numbers` are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = (
            cell.rjust(width) if at in numbers else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()


def as_json(value: Any) -> Any:
    """A value as JSON has it."""
    if type(value) in _AS_THEY_ARE:
        return value
    for type_, convert in _CONVERTERS.items():
        if isinstance(value, type_):
            return convert(value)
    return value


def _key(key: Any) -> Any:
    """A key of JSON. A table may have a pair of names."""
    return ".".join(key) if isinstance(key, tuple) else key


def _shown(value: Any) -> str:
    """A cell: short, as a row has many of them."""
    if value is None:
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int | float):
        return f"{value:,}"
    if isinstance(value, list | tuple) and value and isinstance(value[0], dict):
        return f"{len(value):,}"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


_AS_THEY_ARE = {type(None), bool, int, float, str}
#: The first that fits counts: an Lsn is a number, too.
_CONVERTERS: dict[type, Callable[[Any], Any]] = {
    Result: lambda it: it.to_dict(),
    Lsn: str,
    os.PathLike: str,
    dt.date: lambda it: it.isoformat(),
    bytes: lambda it: it.decode("utf-8", "backslashreplace"),
    enum.Enum: lambda it: it.value,
    # Others may have values of rows in their text.
    Exception: lambda it: str(it) if isinstance(it, Error) else type(it).__name__,
    dict: lambda it: {_key(key): as_json(value) for key, value in it.items()},
    list: lambda it: [as_json(value) for value in it],
    tuple: lambda it: [as_json(value) for value in it],
}
