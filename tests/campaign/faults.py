"""Known faults, each with the shortest day that shows it."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["FAULTS", "Known", "not_drawn"]


class Known(NamedTuple):
    """A fault that was found.

    Attributes:
        name: What the user does.
        steps: The day, as `printed` writes it.
        kinds: What is not drawn until it is mended.
        is_mended: Whether the day must pass. Until then, it must fail.
    """

    name: str
    steps: str
    kinds: frozenset[str] = frozenset()
    is_mended: bool = True


FAULTS: tuple[Known, ...] = ()


def not_drawn() -> set[str]:
    """The kinds of steps that have a known fault."""
    return {kind for it in FAULTS if not it.is_mended for kind in it.kinds}
