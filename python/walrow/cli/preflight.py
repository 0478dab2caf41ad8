"""`walrow preflight`: finds problems before a server's changes can be received."""

from __future__ import annotations

import click

from walrow import postgres
from walrow.cli.arguments import TEXT
from walrow.cli.connection import connected, dsn
from walrow.cli.terminal import count, print_json, printable


@click.command()
@dsn
@click.option(
    "--slot", type=TEXT, metavar="S", help="The slot. Default: one still to be created."
)
@click.option(
    "--publication",
    "publications",
    type=TEXT,
    multiple=True,
    metavar="P",
    help="A publication to be received. Repeatable.",
)
@click.option(
    "--table",
    "tables",
    type=TEXT,
    multiple=True,
    metavar="T",
    help="A table that must be published, as name or schema.name. Repeatable.",
)
@click.option("--two-phase", is_flag=True, help="For prepared transactions at PREPARE.")
@click.option("--binary", is_flag=True, help="For values in binary.")
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per finding."
)
def preflight(
    *,
    dsn: str,
    slot: str | None,
    publications: tuple[str, ...],
    tables: tuple[str, ...],
    two_phase: bool,
    binary: bool,
    as_json: bool,
) -> None:
    """Checks whether a server's changes can be received. Changes nothing.

    It prints the problems, with the SQL that fixes them: errors, then warnings and
    notes. Connect as the role that will receive.

    With --json, each line contains code, severity, text and sql, which may be null.

    The exit code is 1 if there are errors.
    """
    with connected(dsn) as conn:
        found = postgres.preflight(
            conn,
            slot=slot,
            publications=publications,
            tables=tables or None,
            two_phase=two_phase,
            binary=binary,
        )
    for each in found:
        if as_json:
            print_json(each.to_dict())
        else:
            _show(each)
    if not as_json:
        click.echo(count(len(found.errors), "error"))
    if found.errors:
        raise click.exceptions.Exit(1)


def _show(found: postgres.Finding) -> None:
    head = click.style(found.severity, fg=_COLORS[found.severity], bold=True)
    click.echo(f"{head}: {printable(found.text)} [{found.code}]")
    for line in (found.sql or "").splitlines():
        click.echo(f"    {printable(line)}")


_COLORS = {"error": "red", "warning": "yellow", "note": "cyan"}
