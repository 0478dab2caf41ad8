"""`walrow catalog`: what a server knows of types and tables, for `walrow decode --catalog`."""

from __future__ import annotations

from pathlib import Path

import click

from walrow import postgres
from walrow.cli.arguments import TEXT
from walrow.cli.terminal import printable_json
from walrow.errors import OptionError, ReplicationError


@click.command()
@click.argument("conninfo", default="", type=TEXT)
@click.option(
    "--publication",
    "publications",
    type=TEXT,
    multiple=True,
    metavar="P",
    help="Only the tables of this publication; of all by default. Repeatable.",
)
@click.option(
    "-o",
    "--to",
    default="-",
    metavar="FILE",
    help="Where to write it; - (the default) is stdout.",
)
def catalog(*, conninfo: str, publications: tuple[str, ...], to: str) -> None:
    """Writes the types and published tables of a database as JSON.

    CONNINFO is what psql takes: a database's name in `dbname=shop`, or postgresql://...;
    what it leaves out comes from the environment, PGHOST and so on.
    """
    try:
        import psycopg
    except ImportError as error:
        text = "reading a catalog needs psycopg: pip install 'walrow[postgres]'"
        raise OptionError(text) from error
    try:
        with psycopg.connect(conninfo) as conn:
            found = postgres.catalog(conn, publications=publications or None)
    except psycopg.Error as error:
        # psycopg's texts have several lines.
        text = " ".join(str(error).split())
        raise ReplicationError(text, sqlstate=error.sqlstate) from error
    line = printable_json(found.to_json()) + "\n"
    if to == "-":
        click.echo(line, nl=False)
    else:
        Path(to).write_text(line, "utf-8")
