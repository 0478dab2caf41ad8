"""Each type of the grid: its values, and the Arrow type in each profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Literal

import pyarrow as pa

from grid import rendering

#: The values of a type in a binary stream: `read` gives the same arrays as text; `number` is
#: for regs, for which the server sends the OID instead of the name; `refused` if the bytes do
#: not determine the text. The server sends types without a send function as text.
Binary = Literal["read", "number", "refused"]


@dataclass(frozen=True)
class Form:
    """The form of a type in a profile.

    Attributes:
        type: The Arrow type.
        render: Writes PostgreSQL's text of its values.
    """

    type: pa.DataType
    render: Callable[[pa.Array], rendering.Texts]


@dataclass(frozen=True)
class Beyond:
    """A legal value that the Arrow type cannot hold.

    Attributes:
        literal: The text for PostgreSQL's input.
        because: A part of the error.
        profiles: The profiles that cannot hold it.
        since: The first server version that has it.
        sentinel: Its value under `unrepresentable="sentinel"`, if any.
    """

    literal: str
    because: str
    profiles: tuple[str, ...] = ("arrow", "spark")
    since: int = 14
    sentinel: int | None = None


@dataclass(frozen=True)
class Kind:
    """A PostgreSQL type.

    Attributes:
        name: Its name in table names.
        sql: Its name in CREATE TABLE.
        arrow: Its form in the profile `arrow`.
        spark: Its form in the profile `spark`.
        odd: Edge cases, as text for PostgreSQL's input.
        draw: Makes a random value.
        fill: A query for values in place of `odd` and `draw`, from tables of other kinds.
        beyond: Values that Arrow cannot hold.
        setup: Statements that create the type.
        extension: Its extension. `xml` is a build option instead.
        since: The first server version that has it.
        until: The last server version that has it in this form. None: all later ones.
        binary: Its values in a binary stream.
        delimiter: The delimiter of items in the text of an array.
        array: Whether the grid also has a table of its array type.
        is_opaque: Whether the type and its arrays are unknown to the decoder.
        of: For an array, the kind of its items.
    """

    name: str
    sql: str
    arrow: Form
    spark: Form
    odd: tuple[str, ...] = ()
    draw: Callable[[Random], str] | None = field(default=None, repr=False)
    fill: str | None = None
    beyond: tuple[Beyond, ...] = ()
    setup: tuple[str, ...] = ()
    extension: str | None = None
    since: int = 14
    until: int | None = None
    binary: Binary = "read"
    delimiter: str = ","
    array: bool = True
    is_opaque: bool = False
    of: Kind | None = field(default=None, repr=False)

    def form(self, profile: str) -> Form:
        return {"arrow": self.arrow, "spark": self.spark, "text": TEXT}[profile]


TEXT = Form(pa.string(), rendering.strings)


def words(name: str, sql: str, odd: tuple[str, ...], draw: Any, **more: Any) -> Kind:
    """A type that is text in every profile."""
    return Kind(name, sql, TEXT, TEXT, odd, draw, **more)


def opaque(name: str, odd: tuple[str, ...], **more: Any) -> Kind:
    """An unknown type: it and its arrays are the server's text."""
    return Kind(name, name, text_of(name), TEXT, odd, is_opaque=True, **more)


def text_of(name: str) -> Form:
    """The server's text of a type. The field names the type."""
    return Form(pa.opaque(pa.string(), name, "PostgreSQL"), rendering.storage)


def array_of(kind: Kind) -> Kind:
    """Arrays of a type, which the server makes from its values."""
    fill = _ARRAYS.format(name=kind.name)

    def form(of: Form, text: Form) -> Form:
        if kind.is_opaque:
            return text
        item = (
            of.type.storage_type
            if isinstance(of.type, pa.BaseExtensionType)
            else of.type
        )
        return Form(pa.list_(item), rendering.arrays(of.render, kind.delimiter))

    return Kind(
        f"{kind.name}_array",
        f"{kind.sql}[]",
        form(kind.arrow, text_of(f"_{kind.name}")),
        form(kind.spark, TEXT),
        fill=fill,
        extension=kind.extension,
        since=kind.since,
        until=kind.until,
        binary=kind.binary,
        is_opaque=kind.is_opaque,
        of=kind,
    )


#: Some arrays are empty, some begin with another subscript than 1, some items are null.
_ARRAYS = """
SELECT CASE WHEN i % 13 = 0 THEN '{{}}' WHEN i % 17 = 0 THEN
    array_fill((SELECT v FROM t_{name} WHERE id = i), ARRAY[2], ARRAY[i % 5 - 2])
ELSE (SELECT array_agg(CASE WHEN id % 11 <> 5 THEN v END ORDER BY id)
    FROM t_{name} WHERE id BETWEEN i AND i + i % 7) END
FROM generate_series(1, (SELECT max(id) FROM t_{name})) i
"""
