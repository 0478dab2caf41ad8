"""All kinds of the grid, and which of them a server has."""

from __future__ import annotations

from grid import containers, extensions, moments, numbers, scalars, shapes
from grid.kinds import Kind, array_of

SCALARS: tuple[Kind, ...] = (
    *numbers.KINDS,
    *moments.KINDS,
    *scalars.KINDS,
    *shapes.KINDS,
    *containers.KINDS,
    *extensions.KINDS,
)
#: Each kind comes after the kinds from which it is filled.
KINDS: tuple[Kind, ...] = tuple(
    each
    for kind in SCALARS
    for each in ((kind, array_of(kind)) if kind.array else (kind,))
)
BY_NAME = {kind.name: kind for kind in KINDS}

#: The extensions of a server: the wheel's have pgvector and no XML, fetched ones have the others.
CONTRIB = frozenset(
    kind.extension for kind in extensions.CONTRIB if kind.extension is not None
) | {"xml"}
PGVECTOR = frozenset({"vector"})


def on(major: int, extra: frozenset[str]) -> list[Kind]:
    """Lists the kinds that a server of this version and with these extensions has."""
    return [
        kind
        for kind in KINDS
        if kind.since <= major <= (kind.until or major)
        and (kind.extension is None or kind.extension in extra)
    ]
