"""Types that neither a stream nor a catalog defines."""

from __future__ import annotations

from walrow._results import Result, result


@result
class UnresolvedType(Result):
    """An unknown type, neither built in nor in the catalog, and a column that needs it.

    Attributes:
        table: The table, as `schema.name`.
        column: The column.
        type_oid: The OID of the column's type, or of a type inside it.
    """

    table: str
    column: str
    type_oid: int
