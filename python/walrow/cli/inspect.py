"""`walrow inspect`: shows the contents of a capture, frame by frame."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Sequence
from typing import Any

import click

from walrow import _core
from walrow._core import UNCHANGED
from walrow._lsn import Lsn
from walrow.cli import source
from walrow.cli.arguments import LSN_OR_TIME, TEXT, Number, as_json
from walrow.cli.frames import FrameFilter, FrameLines, clock, fact_of, is_clock
from walrow.cli.places import say_time
from walrow.cli.terminal import printable
from walrow.typing import Frame


class _Xid(Number):
    """A transaction's ID. Errors use the name."""

    name = "XID"


@click.command()
@source.files
@source.quiet
@as_json("Print one JSON object per line.")
@click.option("--count", is_flag=True, help="Only count frames, messages and cells.")
@click.option(
    "--limit",
    type=Number(min=0),
    metavar="N",
    help="Show only the first N frames.",
)
@click.option(
    "--table",
    type=TEXT,
    metavar="TABLE",
    help="Show only this table's definitions, changes and truncates.",
)
@click.option(
    "--xid",
    type=_Xid(min=0, max=2**32 - 1),
    metavar="XID",
    help="Show only the transaction with this ID, or the changes of this subtransaction.",
)
@click.option(
    "--start",
    "since",
    type=LSN_OR_TIME,
    metavar="LSN|TIME",
    help="Show only transactions that were committed at or after this LSN or time. Chunks "
    "of streamed transactions have no commit time: the time is that of sending.",
)
@click.option("--full", is_flag=True, help="Do not shorten lines on a terminal.")
def inspect(
    *,
    files: tuple[str, ...],
    as_json: bool,
    count: bool,
    limit: int | None,
    table: str | None,
    xid: int | None,
    since: Lsn | dt.datetime | None,
    full: bool,
) -> None:
    r"""Shows every frame and message in FILE, a capture, as in decode. - is stdin.

    The kind of a frame is w (XLogData) or k (keepalive) in CopyData, otherwise the
    letter of the server's message. Times are in UTC. On a terminal, long values and lines
    are shortened, except errors of the server.

    With --json, each line contains offset, size, kind, name and fields of a frame.
    XLogData also has lsn, and message with its kind, name and fields; walrow's own facts in a log
    have fact. LSNs and times are
    text; a time outside of the years 1 to 9999 is a number, the microseconds since 2000. A
    value is a string as the server sent it, null, {"unchanged": true}, or {"hex": "..."}
    if it is binary or not UTF-8.

    The exit code is 3 if FILE ends inside a frame or a transaction, and 4 if the server
    ended it with an error.

    With --count --json, the output is one object:
    {"frames": {kind: n}, "messages": {kind: n}, "cells": {"n", "u", "t", "b": n},
    "bytes": n}.
    """
    chosen = {"--limit": limit, "--table": table, "--xid": xid, "--start": since}
    given = [name for name, value in chosen.items() if value is not None]
    if count and given:
        text = f"{given[0]} cannot be used with --count, which counts all frames"
        raise click.UsageError(text)
    if count:
        _count(files, as_json=as_json)
        return
    say_time("--start", since)
    out = _Json() if as_json else FrameLines(full=full)
    _frames(files, limit, FrameFilter(table, xid, since), out)


def _count(files: Sequence[str], *, as_json: bool) -> None:
    with source.opened(files) as blocks:
        counts = _core.Counts(blocks.begin())
        for block in blocks:
            counts.feed(block)
    result = counts.result() | {"bytes": blocks.size}
    if as_json:
        click.echo(json.dumps(result))
    else:
        _count_table(result, counts.names())
    source.check_end(counts, blocks.size)


def _count_table(result: dict[str, Any], names: dict[str, dict[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("what", "kind", "count")
    table.columns[-1].justify = "right"
    for what in ("frames", "messages", "cells"):
        for kind, number in result[what].items():
            label = f"{kind} {names[what][kind]}"
            table.add_row(what, Text(printable(label)), f"{number:,}")
        table.add_section()
    table.add_row("bytes", "", f"{result['bytes']:,}")
    Console().print(table)


def _frames(
    files: Sequence[str],
    limit: int | None,
    shown: FrameFilter,
    out: _Json | FrameLines,
) -> None:
    count = 0
    with source.opened(files, show=not sys.stdout.isatty()) as blocks:
        # The end is checked below, in the words of the command.
        frames = _core.Frames(blocks, unfinished="ignore")
        for frame in frames if limit != 0 else ():
            if not shown(frame):
                out.skip(frame)
                continue
            out.write(frame)
            count += 1
            if count == limit:
                return
        if limit != 0:
            source.check_end(frames, blocks.size)
            shown.check()


class _Json:
    """Prints frames as JSON."""

    def skip(self, frame: Frame) -> None:
        """Does not need other frames."""

    def write(self, frame: Frame) -> None:
        """Prints a frame."""
        record: dict[str, Any] = {
            "offset": frame.offset,
            "size": frame.size,
            "kind": frame.kind,
            "name": frame.name,
        }
        fields = frame.fields
        if frame.kind == "w":
            record["lsn"] = str(fields["start"])
        record["fields"] = plain(fields)
        message = frame.message
        if message is not None:
            record["message"] = {
                "kind": message.kind,
                "name": message.name,
                "fields": plain(message.fields),
            }
            if message.kind == "M" and (fact := fact_of(message.fields)) is not None:
                record["fact"] = fact
        sys.stdout.write(json.dumps(record) + "\n")


def plain(value: Any) -> Any:
    """Converts a field's value for JSON."""
    if value is None or isinstance(value, str | int | float):
        return str(value) if isinstance(value, Lsn) else value
    if value is UNCHANGED:
        return {"unchanged": True}
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dict):
        return {
            name: clock(item) if is_clock(name, item) else plain(item)
            for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)
