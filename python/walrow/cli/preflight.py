"""`walrow preflight`: finds problems before a server's changes can be received."""

from __future__ import annotations

from collections.abc import Iterable

import click

from walrow import postgres
from walrow._postgres.connecting import parameters_of
from walrow._postgres.preflight.hosts import look_at_hosts
from walrow._results import counted
from walrow.cli.arguments import TEXT, as_json, repeatable
from walrow.cli.connection import connected, dsn
from walrow.cli.terminal import print_json, printable


@click.command()
@dsn
@click.option(
    "--slot",
    type=TEXT,
    metavar="SLOT",
    help="The slot. Default: one still to be created.",
)
@repeatable(
    "--publication",
    "publications",
    metavar="NAME",
    help="A publication to be received. Repeatable.",
)
@repeatable(
    "--table",
    "tables",
    metavar="TABLE",
    help="A table that must be published, as name or schema.name. Repeatable.",
)
@click.option("--two-phase", is_flag=True, help="For prepared transactions at PREPARE.")
@click.option("--binary", is_flag=True, help="For values in binary.")
@click.option(
    "--all",
    "is_all",
    is_flag=True,
    help="Print all findings, with all SQL. Otherwise, many of one kind are one line.",
)
@as_json("Print one JSON object per finding.")
def preflight(
    *,
    dsn: str,
    slot: str | None,
    publications: tuple[str, ...],
    tables: tuple[str, ...],
    two_phase: bool,
    binary: bool,
    is_all: bool,
    as_json: bool,
) -> None:
    """Checks whether a server's changes can be received. Changes nothing.

    It prints the problems, with the SQL that fixes them: errors, then warnings and
    notes. Connect as the role that will receive. Each of several hosts in the
    connection string is asked whether it can take over.

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
    hosts = look_at_hosts(parameters_of(dsn), slot)
    found = postgres.Preflight(dict.fromkeys([*found, *hosts]))
    if as_json:
        for each in found:
            print_json(each.to_dict())
    else:
        for kind, several in _by_kind(found).items():
            shown = several if is_all else several[:1]
            for each in shown:
                _show(each, is_all=is_all)
            if more := len(several) - len(shown):
                head = click.style(kind[0], fg=_COLORS[kind[0]], bold=True)
                click.echo(
                    f"{head}: {more:,} more of this kind [{kind[1]}]: --all shows them"
                )
        click.echo(counted(len(found.errors), "error"))
    if found.errors:
        raise click.exceptions.Exit(1)


def _by_kind(
    found: Iterable[postgres.Finding],
) -> dict[tuple[str, str], list[postgres.Finding]]:
    """The findings by severity and code, in order."""
    kinds: dict[tuple[str, str], list[postgres.Finding]] = {}
    for each in found:
        kinds.setdefault((each.severity, each.code), []).append(each)
    return kinds


def _show(found: postgres.Finding, *, is_all: bool) -> None:
    head = click.style(found.severity, fg=_COLORS[found.severity], bold=True)
    click.echo(f"{head}: {printable(found.text)} [{found.code}]")
    lines = (found.sql or "").splitlines()
    shown = lines if is_all or len(lines) <= _LINES else lines[:1]
    for line in shown:
        click.echo(f"    {printable(line)}")
    if more := len(lines) - len(shown):
        click.echo(f"    -- and {more:,} more statements: --all shows them")


#: A finding about one table has so many statements.
_LINES = 2
_COLORS = {"error": "red", "warning": "yellow", "note": "cyan"}
