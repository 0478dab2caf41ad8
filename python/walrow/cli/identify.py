"""`walrow identify`, `walrow timeline` and `walrow show`: what a server says of itself."""

from __future__ import annotations

import click

from walrow import postgres
from walrow.cli import grid
from walrow.cli.arguments import TEXT, Number
from walrow.cli.connection import connected_for_replication, dsn
from walrow.cli.terminal import print_json, printable

_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


@click.command()
@dsn
@_json
def identify(*, dsn: str, as_json: bool) -> None:
    """Shows which server this is, its timeline and the end of its WAL.

    The servers of one cluster have one system identifier. With --json: system_identifier,
    timeline and xlogpos.
    """
    with connected_for_replication(dsn) as conn:
        system = postgres.identify_system(conn)
    record = {
        "system_identifier": system.system_identifier,
        "timeline": system.timeline,
        "xlogpos": str(system.xlogpos),
    }
    if as_json:
        print_json(record)
    else:
        grid.show(list(record), [list(map(str, record.values()))], numbers={1})


@click.command()
@click.argument("number", type=Number(1, (1 << 32) - 1), required=False)
@dsn
@_json
def timeline(*, number: int | None, dsn: str, as_json: bool) -> None:
    """Shows the timelines before timeline NUMBER, where each ended, and why.

    Without NUMBER: the timelines before the server's own. A server begins a timeline
    when it is promoted. With --json: filename, content and switches.
    """
    with connected_for_replication(dsn) as conn:
        if number is None:
            number = postgres.identify_system(conn).timeline
        history = postgres.timeline_history(conn, number)
    if as_json:
        print_json(history.to_dict())
    elif history.switches:
        rows = [
            [str(it.timeline), str(it.lsn), printable(it.reason)]
            for it in history.switches
        ]
        grid.show(["timeline", "ended at", "why"], rows, numbers={0})
    else:
        click.echo(f"timeline {number} is the first one")


@click.command()
@click.argument("setting", type=TEXT)
@dsn
@_json
def show(*, setting: str, dsn: str, as_json: bool) -> None:
    """Shows the value of a server's SETTING, such as wal_level."""
    with connected_for_replication(dsn) as conn:
        value = postgres.show(conn, setting)
    if as_json:
        print_json({"setting": setting, "value": value})
    else:
        click.echo(printable(value))
