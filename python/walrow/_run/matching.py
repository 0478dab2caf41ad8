"""The tables that the targets of a file mean, and the place of each."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from posixpath import normpath
from typing import TYPE_CHECKING, NamedTuple

from walrow._apply.engines import is_path
from walrow._apply.places import check_place, encoded
from walrow._sources.urls import is_url
from walrow.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from walrow._run.config import Loaded, Target


class Table(NamedTuple):
    """A table."""

    oid: int
    schema: str
    table: str

    @property
    def name(self) -> str:
        """Both names, joined."""
        return f"{self.schema}.{self.table}"


class Claim(NamedTuple):
    """A table that a target of the file means.

    Attributes:
        at: The number of the target in the file.
        place: Where the table goes.
        problem: Why it cannot go there. None if it can.
    """

    table: Table
    at: int
    place: str
    problem: str | None = None


def refuse_pattern(pattern: str) -> str | None:
    """Why a text is no pattern. None if it is one.

    >>> refuse_pattern("sales.*"), refuse_pattern("orders")
    (None, '"orders" has no schema: write "public.orders", or "*.orders" for any schema')
    >>> refuse_pattern("a[.]b.*"), _split("a[.]b.*")
    (None, ('a[.]b', '.', '*'))
    """
    schema, dot, table = _split(pattern)
    if not dot:
        name = pattern or "orders"
        return f'"{name}" has no schema: write "public.{name}", or "*.{name}" for any schema'
    if not schema or not table:
        return f'"{pattern}" lacks a name: write schema.table, with * for any'
    return None


def _split(pattern: str) -> tuple[str, str, str]:
    """The two parts of a pattern: at its first dot, and `[.]` is a dot in a name."""
    schema = _SCHEMA.match(pattern)[0]  # type: ignore[index]  # it matches nothing, too
    return schema, pattern[len(schema) :][:1], pattern[len(schema) + 1 :]


def _matches(pattern: str, table: Table) -> bool:
    schema, _, name = _split(pattern)
    return fnmatchcase(table.schema, schema) and fnmatchcase(table.table, name)


def _means(target: Target, table: Table) -> bool:
    if any(_matches(it, table) for it in target.exclude):
        return False
    return any(_matches(it, table) for it in target.tables)


def claims(loaded: Loaded, tables: Iterable[Table]) -> list[Claim]:
    """The tables that the targets mean, by name. Tables that no target means are left out.

    Two targets may not mean one table, and two tables not one place: each of them has a problem,
    so that others go on.
    """
    found: list[Claim] = []
    places: dict[str, list[int]] = {}
    for table in sorted(tables, key=lambda it: (it.name, it.oid)):
        at = [at for at, it in enumerate(loaded.file.target) if _means(it, table)]
        if not at:
            continue
        first, *others = at
        try:
            claim = Claim(table, first, place_of(loaded.file.target[first], table))
        except OptionError as error:
            claim = Claim(table, first, "", f"{loaded.names(first)}: {error.reason}")
        if others:
            names = " and ".join(loaded.names(it) for it in at)
            text = f"{names} both claim it: exclude it in one of them"
            claim = claim._replace(problem=text)
        if claim.place:
            key = _same(claim.place, ignores_case=first in loaded.ignoring_case)
            places.setdefault(key, []).append(len(found))
        found.append(claim)
    for numbers in places.values():
        for number in numbers if len(numbers) > 1 else ():
            same = [found[it].table.name for it in numbers if it != number]
            text = (
                f"{found[number].place} is the place of {', '.join(same)}, too: put {{schema}} and "
                f"{{table}} into `to` of {loaded.names(found[number].at)}"
            )
            found[number] = found[number]._replace(problem=text)
    log = _same(f"delta:{loaded.log}")
    for key, numbers in places.items():
        around = [it for it in _around(key) if it in places]
        if key == log or log in _around(key) or key in _around(log):
            other = f"the log {loaded.log}"
        elif around:
            other = f"the place of {found[places[around[0]][0]].table.name}"
        else:
            continue
        for number in numbers:
            text = (
                f"{found[number].place} and {other} are one in the other, where one may remove files "
                f"of the other: choose another place in `to` of {loaded.names(found[number].at)}"
            )
            found[number] = found[number]._replace(problem=text)
    return found


def place_of(target: Target, table: Table) -> str:
    """The target of a table: its names are parts of it, and lead nowhere else.

    Raises:
        OptionError: It cannot be a place.
    """
    names = {"schema": encoded(table.schema), "table": encoded(table.table)}
    if not is_path(target.to):
        names = {key: _quoted(name) for key, name in names.items()}
    place = target.to.format_map(names)
    check_place(place)
    return place


def _quoted(name: str) -> str:
    """A name as a part of a name in a catalog."""
    return name if _WORD.fullmatch(name) else f"`{name}`"


def _same(place: str, *, ignores_case: bool = False) -> str:
    """The key of a place: two names in a catalog may differ only by case."""
    if not is_path(place):
        return place.casefold()
    path = place.partition(":")[2].removeprefix("file://")
    key = path.rstrip("/") if is_url(path) else normpath(path)
    return key.casefold() if ignores_case else key


def _around(key: str) -> list[str]:
    """The directories around a path or URL, the nearest one first."""
    parts = key.split("/")
    return ["/".join(parts[:end]) or "/" for end in range(len(parts) - 1, 0, -1)]


def unmatched(
    loaded: Loaded, tables: Sequence[Table], *, may_come: bool = False
) -> list[str]:
    """The patterns that no table matches, each with what to do.

    If the publication takes up new tables (`may_come`), a pattern with a wildcard may match one later.
    """
    found = []
    for at, target in enumerate(loaded.file.target):
        for key in ("tables", "exclude"):
            for pattern in getattr(target, key):
                may_match = may_come and not _WILDCARDS.isdisjoint(pattern)
                if may_match or any(_matches(pattern, table) for table in tables):
                    continue
                text = f'"{pattern}" matches no published table: mend it, or remove it'
                found.append(f"{loaded.names(at)}, {key}: {text}")
    return found


_SCHEMA = re.compile(r"(?:\[\.\]|[^.])*+")
_WORD = re.compile(r"\w+")
_WILDCARDS = {*"*?["}
