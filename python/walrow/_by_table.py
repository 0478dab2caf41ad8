"""The result for each table: a mapping that has errors, too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from walrow.errors import SchemaError


class ByTable(Mapping[str, Any]):
    """DataFrames or tables by `schema.table`, in the tables' order of appearance.

    One table's error does not take the others away. A table that could not be made raises
    its error when you ask for it. Iterating, which is for all tables, raises the first
    error.

    >>> import walrow
    >>> found = walrow.read("tests/data/18/rows.text.wire").to_pyarrow()
    >>> list(found), found.errors
    (['public.item', 'public.stock'], {})

    Attributes:
        errors: The errors of the tables that could not be made, by `schema.table`.
    """

    __slots__ = ("_made", "errors")

    def __init__(self, made: dict[str, Any], errors: dict[str, SchemaError]) -> None:
        """Takes the results, and the errors of the other tables."""
        self._made = made
        self.errors = errors

    def __getitem__(self, table: str) -> Any:
        """Returns the result for the table, or raises its error."""
        if table in self.errors:
            raise self.errors[table]
        try:
            return self._made[table]
        except KeyError:
            names = ", ".join(self._made) or "none"
            text = f"{table!r} has no rows here; tables that have are {names}"
            raise KeyError(text) from None

    def __iter__(self) -> Iterator[str]:
        """Iterates over the names of all tables.

        Raises:
            SchemaError: A table could not be made.
        """
        for error in self.errors.values():
            raise error
        return iter(self._made)

    def __contains__(self, table: object) -> bool:
        """Whether there is such a table. `errors` may have it."""
        return table in self._made or table in self.errors

    def __len__(self) -> int:
        """The number of tables, with the tables that could not be made."""
        return len(self._made) + len(self.errors)

    def __repr__(self) -> str:
        """Shows the names and the kinds of the results."""
        made = [f"{name!r}: {type(it).__name__}" for name, it in self._made.items()]
        failed = [f"{name!r}: {type(it).__name__}" for name, it in self.errors.items()]
        return f"<ByTable {', '.join(made + failed) or 'without tables'}>"
