"""`walrow log`: the segments of a log."""

from __future__ import annotations

import json
from pathlib import Path

import click

from walrow.cli import grid
from walrow.cli.terminal import count
from walrow.log import Log
from walrow.lsn import Lsn

_directory = click.argument("directory", metavar="DIR", type=click.Path(path_type=Path))


@click.group()
def log() -> None:
    """Lists, checks and removes the segments of a log.

    walrow tables, inspect and decode read a log like a file.
    """


@log.command(name="list")
@_directory
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per segment."
)
def list_segments(*, directory: Path, as_json: bool) -> None:
    """Lists the segments."""
    segments = Log(directory).segments()
    if as_json:
        for each in segments:
            record = each._asdict() | {
                "path": str(each.path),
                "start": str(each.start),
                "end": str(each.end),
                "commit_times": each.commit_times
                and [time.isoformat() for time in each.commit_times],
            }
            click.echo(json.dumps(record))
        return
    grid.show(
        ["segment", "end", "transactions", "rows", "bytes", "last commit"],
        (
            [
                each.path.name,
                str(each.end),
                f"{each.transactions:,}",
                f"{each.rows:,}",
                f"{each.bytes:,}",
                each.commit_times[1].isoformat(timespec="seconds")
                if each.commit_times
                else "",
            ]
            for each in segments
        ),
        numbers={2, 3, 4},
    )


@log.command()
@_directory
def verify(*, directory: Path) -> None:
    """Reads all segments, and compares them with their checksums."""
    click.echo(f"{count(Log(directory).verify(), 'segment')} verified")


@log.command()
@_directory
@click.option(
    "--until", required=True, type=Lsn, help="Remove what ends at or before this LSN."
)
def prune(*, directory: Path, until: Lsn) -> None:
    """Removes old segments. The last one stays."""
    click.echo(f"{count(Log(directory).prune(until), 'segment')} removed")
