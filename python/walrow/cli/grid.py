"""Tables of text: with lines on a terminal, plain elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence

import click

from walrow._results import aligned
from walrow.cli.terminal import printable


def show(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Collection[int] = (),
) -> None:
    """Prints rows below their heads. `numbers` are the columns that are right-aligned."""
    cells = [[printable(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        show_grid(heads, cells, numbers=numbers)
        return
    for line in aligned([heads, *cells], numbers):
        click.echo(line)


def show_grid(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers: Collection[int] = (),
) -> None:
    """Prints a grid. The cells must be printable."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(*heads)
    for at, column in enumerate(grid.columns):
        column.overflow = "fold"
        column.justify = "right" if at in numbers else "left"
    for row in rows:
        grid.add_row(*map(Text, row))
    Console().print(grid)
