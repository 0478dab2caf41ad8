"""`walrow load`: asks the receiver of a log to load tables."""

from __future__ import annotations

import click

from walrow.cli import log_options
from walrow.cli.arguments import TEXT
from walrow.cli.source import quiet
from walrow.cli.terminal import say
from walrow.load_requests import load as load_tables


@click.command()
@click.argument("tables", nargs=-1, type=TEXT, metavar="[TABLE]...")
@log_options.log
@click.option("--all", "is_all", is_flag=True, help="Load all published tables.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    help="How long to wait. Default: without end.",
)
@quiet
def load(
    *, tables: tuple[str, ...], log: str, is_all: bool, timeout: float | None
) -> None:
    """Loads tables, by the receiver of the log, and waits until they are loaded.

    A load is a truncate of the tables, and then all rows that they have at one moment. If
    no receiver runs, the next one loads them.
    """
    if bool(tables) == is_all:
        text = "name tables as schema.name, or pass --all"
        raise click.UsageError(text)
    try:
        load_tables(None if is_all else list(tables), log=log, timeout=timeout)
    except TimeoutError as error:
        raise click.ClickException(str(error)) from None
    say(f"walrow: loaded {'all tables' if is_all else ', '.join(tables)}")
