"""`walrow catalog`: saves a server's types and tables, for `walrow decode --catalog`."""

from __future__ import annotations

from pathlib import Path

import click

from walrow import postgres
from walrow.cli.arguments import repeatable
from walrow.cli.connection import connected, dsn
from walrow.cli.terminal import printable_json


@click.command()
@dsn
@repeatable(
    "--publication",
    "publications",
    metavar="NAME",
    help="Only tables of this publication. Default: all publications. Repeatable.",
)
@click.option(
    "--to",
    "-o",
    default="-",
    metavar="FILE",
    help="The output file. Default: -, which is stdout.",
)
def catalog(*, dsn: str, publications: tuple[str, ...], to: str) -> None:
    """Writes the types and published tables of a database as JSON."""
    with connected(dsn) as conn:
        found = postgres.catalog(conn, publications=publications or None)
    line = printable_json(found.to_json()) + "\n"
    if to == "-":
        click.echo(line, nl=False)
    else:
        Path(to).write_text(line, "utf-8")
