"""`walrow log`: the segments of a log."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from typing import Any

import click

from walrow._log.retention import Retention
from walrow._log.writer_options import WriterOptions
from walrow._lsn import Lsn
from walrow._results import counted
from walrow._run.records import forget_target
from walrow.cli import grid, log_options
from walrow.cli.arguments import (
    LSN_OR_TIME,
    TABLE,
    TEXT,
    Commands,
    as_json,
    options_of,
    repeatable,
)
from walrow.cli.places import resolved
from walrow.cli.terminal import print_json, printable, say
from walrow.log import Log

_directory = click.argument("directory", metavar="LOG")


class _Key(click.ParamType[Any]):
    """A JSON object."""

    name = "json"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> dict[str, Any]:
        """Refuses other text, without printing it: it may be personal data."""
        with contextlib.suppress(ValueError, RecursionError):
            value = json.loads(value) if isinstance(value, str) else value
        if not isinstance(value, dict) or not value:
            self.fail("not a JSON object of columns and values", param, ctx)
        return value


_KEY = _Key()
_force = click.option(
    "--force", is_flag=True, help="Remove what readers and loads need, too."
)


@click.group(cls=Commands)
def log() -> None:
    """Lists, verifies, merges, rewrites and removes segments of a log.

    walrow tables, inspect and decode read a log like a file.
    """


@log.command(name="list")
@_directory
@as_json("Print one JSON object per segment.")
def list_segments(*, directory: str, as_json: bool) -> None:
    """Lists the segments."""
    segments = Log(directory).segments()
    if as_json:
        for each in segments:
            print_json(each.to_dict())
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
def verify(*, directory: str) -> None:
    """Reads all segments, and compares them with their checksums.

    Prints what the next receiver will repair, such as after a crash, and changes nothing. It
    is an error if the log is so damaged that a receiver would refuse it.
    """
    opened = Log(directory)
    repairs = opened.verify()
    click.echo(f"{counted(len(opened.segments()), 'segment')} verified")
    for repair in repairs:
        click.echo(f"the next receiver will {repair}")


@log.command()
@_directory
def resume(*, directory: str) -> None:
    """Lets a receiver go on that has found another server than the log's.

    Call it if the connection was to a wrong server. The next connection is checked again.
    A server that was set back to an older copy is refused again: begin with a new slot, a
    new log and a new copy of the tables.
    """
    found = Log(directory).resume()
    if found is None:
        click.echo("nothing had stopped the log")
    else:
        click.echo(f"the log may go on. A receiver had found: {printable(found)}")


@log.command()
@_directory
@log_options.kept
@click.option(
    "--end",
    type=LSN_OR_TIME,
    metavar="LSN|TIME",
    help="Remove what ends at or before this place, or nothing if some of it is needed.",
)
@options_of(Retention, only=("forget_after",))
@_force
def retain(
    *,
    directory: str,
    kept: tuple[dt.timedelta | int, ...],
    end: Lsn | dt.datetime | None,
    forget_after: float | None,
    force: bool,
) -> None:
    """Removes old segments by age and size, or up to a place. The last one stays.

    Segments that registered readers and the last loads of tables need stay, too.
    """
    limits = kept or forget_after is not None
    if end is not None:
        if limits:
            raise click.UsageError(
                "--end excludes --retain and --forget-after: use one command for each"
            )
        opened = Log(directory)
        removed = opened.prune(resolved(opened._log, "--end", end), force=force)
        click.echo(f"{counted(removed, 'segment')} removed")
        return
    if not limits:
        raise click.UsageError(
            "nothing to remove: add --retain, such as --retain 7d, --end, or "
            "--forget-after"
        )
    retention = log_options.retention(kept, forget_after)
    done = retention.apply(Log(directory)._log, force=force)
    for name in done.forgotten:
        click.echo(f"forgot the reader {printable(name)}")
    click.echo(f"{counted(done.segments, 'segment')}, {done.bytes:,} bytes removed")
    for hold in done.held:
        say(f"walrow: held back: {printable(str(hold))}")


@log.command()
@_directory
@click.option(
    "--table", required=True, type=TABLE, help="The table's name now, or its OID."
)
@repeatable(
    "--drop-column",
    "columns",
    metavar="COLUMN",
    help="A column to erase. Repeatable.",
)
@click.option(
    "--delete-key",
    "keys",
    type=_KEY,
    multiple=True,
    metavar="JSON",
    help="Erase all rows with these values, such as '{\"id\": 5}'. Repeatable.",
)
@_force
def rewrite(
    *,
    directory: str,
    table: str | int,
    columns: tuple[str, ...],
    keys: tuple[dict[str, Any], ...],
    force: bool,
) -> None:
    """Erases columns or rows of a table from all segments.

    Let all targets and readers take the delete of a row, and stop the receiver, first.
    Nothing is erased if a registered reader has not taken the change of a row. Repeat the
    command if it is interrupted.
    """
    done = Log(directory).erase(table, columns=columns, keys=keys, force=force)
    changes = f"{counted(done.changes, 'change')} erased, " if keys else ""
    click.echo(
        f"{changes}{counted(done.rewritten, 'segment')} of {done.segments:,} rewritten"
    )
    for other in done.others:
        say(f"walrow: another table had this name, and keeps its rows: --table {other}")


@log.command()
@_directory
@options_of(WriterOptions, only=("segment_size",))
def compact(*, directory: str, segment_size: int) -> None:
    """Merges small segments into large ones.

    Readers and a receiver may use the log meanwhile.
    """
    done = Log(directory).compact(segment_size=segment_size)
    click.echo(
        f"{counted(done.segments, 'segment')} merged into {done.merged:,}, "
        f"{done.bytes:,} bytes copied"
    )


@log.command()
@_directory
@click.argument("table", type=TABLE)
@click.option(
    "--reason", type=TEXT, required=True, metavar="CODE", help="The code of its marks."
)
def accept(*, directory: str, table: str | int, reason: str) -> None:
    """Accepts the rows of a table as the log has them, although the server's may differ.

    `walrow status` lists the codes: of marks, and of tables that left. Later events are not accepted.
    """
    for accepted in Log(directory).accept(table, reason=reason):
        click.echo(f"accepted: {printable(str(accepted))}")


@log.command()
@_directory
@click.argument("name", type=TEXT)
def forget(*, directory: str, name: str) -> None:
    """Forgets a registered reader, a table that left, or a target, such as delta:/lake/orders.

    A reader holds nothing back any more. `walrow status` no longer names the table, or the target,
    which is left unchanged.
    """
    opened = Log(directory)
    if name.startswith(("delta:", "iceberg:")):
        if not forget_target(opened.path, name):
            raise click.ClickException(f"the log has no target of this name: {name}")
        return
    opened.forget(name)
