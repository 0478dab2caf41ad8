"""What the grid knows of a type: values, and what each profile makes of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from grid import rendering

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

#: How the values of a type come in a binary stream: `read` as the same arrays as from
#: text; `number` for regs, of which the server sends the OID and not the name; `refused`
#: where the bytes do not tell the text. Types without a send function come as text.
Binary = Literal["read", "number", "refused"]


@dataclass(frozen=True)
class Form:
    """What a profile makes of a type.

    Attributes:
        type: The Arrow type.
        render: Writes PostgreSQL's text of its values.
    """

    type: pa.DataType
    render: Callable[[pa.Array], rendering.Texts]


@dataclass(frozen=True)
class Beyond:
    """A legal value for which the Arrow type has no place.

    Attributes:
        literal: As it is put in.
        because: A part of the error.
        profiles: Where it has no place.
        since: The first server that has it.
        sentinel: What stands for it by `unrepresentable="sentinel"`, if anything.
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
        name: For the table's name.
        sql: As in CREATE TABLE.
        arrow: What profile `arrow` makes of it.
        spark: What profile `spark` makes of it.
        odd: Values at the edges, as they are put in.
        draw: Makes one more value.
        fill: A query for values in place of `odd` and `draw`, from tables of other kinds.
        beyond: Values for which there is no place.
        setup: What makes the type.
        extension: Where it comes from; `xml` is compiled in or not.
        since: The first server that has it.
        binary: How it comes in binary.
        delimiter: What stands between the items of an array's text.
        array: Whether there is an array type of which the grid makes a table.
        is_opaque: Whether the decoder knows nothing of it, nor of its arrays.
        of: What the items are, of an array.
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
    """A type that nothing is known of: the server's text, and so its arrays."""
    return Kind(name, name, text_of(name), TEXT, odd, is_opaque=True, **more)


def text_of(name: str) -> Form:
    """The server's text of a type, which the field names."""
    return Form(pa.opaque(pa.string(), name, "PostgreSQL"), rendering.storage)


def array_of(kind: Kind) -> Kind:
    """Arrays of a type, put together by the server out of its values."""
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
        binary=kind.binary,
        is_opaque=kind.is_opaque,
        of=kind,
    )


#: Some are empty, some begin with another subscript than 1, some items are null.
_ARRAYS = """
SELECT CASE WHEN i % 13 = 0 THEN '{{}}' WHEN i % 17 = 0 THEN
    array_fill((SELECT v FROM t_{name} WHERE id = i), ARRAY[2], ARRAY[i % 5 - 2])
ELSE (SELECT array_agg(CASE WHEN id % 11 <> 5 THEN v END ORDER BY id)
    FROM t_{name} WHERE id BETWEEN i AND i + i % 7) END
FROM generate_series(1, (SELECT max(id) FROM t_{name})) i
"""
