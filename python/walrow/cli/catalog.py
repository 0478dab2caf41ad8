"""`walrow catalog`: saves a server's types and tables, for `walrow decode --catalog`."""

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
    help="Only tables of this publication. Default: all publications. Repeatable.",
)
@click.option(
    "-o",
    "--to",
    default="-",
    metavar="FILE",
    help="The output file. Default: -, which is stdout.",
)
def catalog(*, conninfo: str, publications: tuple[str, ...], to: str) -> None:
    """Writes the types and published tables of a database as JSON.

    CONNINFO is a connection string, as in psql: `dbname=shop` or postgresql://...
    Environment variables, such as PGHOST, supply missing parameters.
    """
    try:
        import psycopg
        from psycopg.conninfo import conninfo_to_dict
    except ImportError as error:
        text = "reading a catalog needs psycopg: pip install 'walrow[postgres]'"
        raise OptionError(text) from error
    try:
        conninfo_to_dict(conninfo)
    except psycopg.ProgrammingError:
        # libpq's message shows a part of the text, which may be of a password.
        text = (
            "CONNINFO is not a connection string: expected NAME=VALUE pairs, such as "
            "'host=db dbname=shop user=me', or postgresql://me@db/shop"
        )
        raise OptionError(text) from None
    try:
        with psycopg.connect(conninfo) as conn:
            found = postgres.catalog(conn, publications=publications or None)
    except psycopg.Error as error:
        # psycopg's messages have several lines.
        text = " ".join(str(error).split())
        raise ReplicationError(text, sqlstate=error.sqlstate) from error
    line = printable_json(found.to_json()) + "\n"
    if to == "-":
        click.echo(line, nl=False)
    else:
        Path(to).write_text(line, "utf-8")
