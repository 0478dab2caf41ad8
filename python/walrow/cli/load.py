"""`walrow load`: asks the receiver of a log to load tables."""

from __future__ import annotations

import click

from walrow._log.requests import LoadOptions, cancel_load
from walrow._log.requests import load as load_tables
from walrow.cli.arguments import TEXT, options_of
from walrow.cli.source import note, quiet


@click.command()
@click.argument("log", metavar="LOG")
@click.argument("tables", nargs=-1, type=TEXT, metavar="[TABLE]...")
@click.option("--all", "is_all", is_flag=True, help="Load all published tables.")
@options_of(LoadOptions, only=("timeout",))
@click.option(
    "--no-wait",
    is_flag=True,
    help="Do not wait. The tables are loaded now, or when a receiver runs.",
)
@click.option(
    "--cancel",
    is_flag=True,
    help="Cancel the requests that name one of the tables, or with --all, each request. A load "
    "that has begun ends without a trace.",
)
@quiet
def load(
    *,
    tables: tuple[str, ...],
    log: str,
    is_all: bool,
    timeout: float | None,
    no_wait: bool,
    cancel: bool,
) -> None:
    """Loads tables, by the receiver of LOG, and waits until they are loaded.

    A load is a truncate of the tables, and then all rows that they have at one moment. If
    no receiver runs, the next one loads them. The load is cancelled if this command ends
    before, unless it was started with --no-wait.
    """
    if bool(tables) == is_all:
        raise click.UsageError("name tables, or pass --all")
    if (timeout is not None) + no_wait + cancel > 1:
        raise click.UsageError("--timeout, --no-wait and --cancel exclude each other")
    names = None if is_all else list(tables)
    words = "all tables" if is_all else ", ".join(tables)
    if cancel:
        count = cancel_load(names, log=log)
        if not count:
            raise click.ClickException(f"no load was requested of {words}")
        note(f"walrow: cancelled the load of {words}")
        return
    load_tables(
        names,
        log=log,
        wait=not no_wait,
        timeout=timeout,
        progress=lambda it: note(f"walrow: {it}"),
    )
    note(f"walrow: {'requested the load of' if no_wait else 'loaded'} {words}")
