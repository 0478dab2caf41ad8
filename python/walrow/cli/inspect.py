"""`walrow inspect`: shows the contents of a capture, frame by frame."""

from __future__ import annotations

import itertools
import json
import sys
from typing import TYPE_CHECKING, Any

import click

import walrow
from walrow import _core
from walrow.cli import source
from walrow.cli.terminal import printable
from walrow.errors import ReplicationError, UnfinishedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from walrow.typing import Framing


@click.command()
@source.files
@source.framing
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@click.option("--count", is_flag=True, help="Only count frames, messages and cells.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help="Show only the first N frames.",
)
def inspect(
    *,
    files: tuple[str, ...],
    framing: Framing | None,
    as_json: bool,
    count: bool,
    limit: int | None,
) -> None:
    r"""Shows every frame and message in FILE, a capture, as in decode. - is stdin.

    The kind of a frame is w (XLogData) or k (keepalive) in CopyData, otherwise the
    letter of the server's message. Long values are shortened.

    With --json, each line contains offset, size, kind, name and fields of a frame.
    XLogData also has lsn, as text, and message with its kind, name and fields. LSNs in
    fields are numbers, clocks are microseconds since 2000. A value is a string as the
    server sent it, null, {"unchanged": true}, or {"hex": "..."} if it is binary or not
    UTF-8.

    The exit code is 3 if FILE ends inside a frame or a transaction, and 4 if the server
    ended it with an error.

    With --count --json, the output is one object:
    {"frames": {kind: n}, "messages": {kind: n}, "cells": {"n", "u", "t", "b": n},
    "bytes": n}.
    """
    if count and limit is not None:
        text = "--limit cannot be used with --count, which counts all frames"
        raise click.UsageError(text)
    if count:
        _count(files, framing, as_json=as_json)
    else:
        _frames(files, framing, limit, as_json=as_json)


def _count(files: Sequence[str], framing: Framing | None, *, as_json: bool) -> None:
    counts = _core.Counts()
    with source.opened(files, framing) as blocks:
        for block in blocks:
            if blocks.size == len(block):
                counts = _core.Counts(blocks.framing or "wire")
            counts.feed(block)
    result = counts.result() | {"bytes": blocks.size}
    if as_json:
        click.echo(json.dumps(result))
    else:
        _count_table(result)
    _check_end(counts, blocks.size)


def _check_end(seen: _core.Counts | _core.Frames, size: int) -> None:
    """Raises the error of a capture that is not complete."""
    if seen.server_error is not None:
        text = (
            f"the server ended the capture with an error, SQLSTATE {seen.server_error}"
        )
        raise ReplicationError(text, sqlstate=seen.server_error, offset=size)
    if seen.unfinished:
        text = "the capture ends inside a frame or a transaction"
        raise UnfinishedError(text, offset=size)


def _count_table(result: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table("what", "kind", "count")
    table.columns[-1].justify = "right"
    for what in ("frames", "messages", "cells"):
        for kind, number in result[what].items():
            names = _NAMES[what]
            label = f"{kind} {names[kind]}" if kind in names else kind
            table.add_row(what, Text(printable(label)), f"{number:,}")
        table.add_section()
    table.add_row("bytes", "", f"{result['bytes']:,}")
    Console().print(table)


def _frames(
    files: Sequence[str], framing: Framing | None, limit: int | None, *, as_json: bool
) -> None:
    write = _json_writer() if as_json else _line_writer()
    with source.opened(files, framing, show=not sys.stdout.isatty()) as blocks:
        frames = _core.Frames(blocks, framing)
        for frame in itertools.islice(frames, limit):
            write(frame)
        if limit is None:
            _check_end(frames, blocks.size)


def _json_writer() -> Callable[[walrow.Frame], None]:
    def write(frame: walrow.Frame) -> None:
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
        sys.stdout.write(json.dumps(record) + "\n")

    return write


def plain(value: Any) -> Any:
    """Converts a field's value for JSON."""
    if value is None or isinstance(value, str | int | float):
        return value
    if value is walrow.UNCHANGED:
        return {"unchanged": True}
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return str(value)


def _line_writer() -> Callable[[walrow.Frame], None]:
    columns: dict[int, tuple[str, list[str]]] = {}
    write = _printer()
    heading = True

    def line(frame: walrow.Frame) -> None:
        nonlocal heading
        if heading:
            write(f"{'OFFSET':>12}  {'LSN':>12}  {'FRAME':<17} ", "bold", "CONTENTS")
            heading = False
        fields = frame.fields
        message = frame.message
        if frame.kind == "w":
            lsn, name = str(fields["start"]), "XLogData"
        else:
            lsn = str(fields.get("end", ""))
            name = frame.name
        if message is not None:
            name = message.name
            style = _STYLES.get(message.kind, "")
            text = _summary(message, columns)
        else:
            style = "dim"
            text = " ".join(_field(key, value) for key, value in fields.items())
        head = f"{frame.offset:>12}  {lsn:>12}  {name:<17} "
        write(printable(head), style, printable(text))

    return line


def _printer() -> Callable[[str, str, str], None]:
    """Prints lines, in colour on a terminal."""
    if not sys.stdout.isatty():
        return lambda head, _style, text: print(head + text)  # noqa: T201
    from rich.console import Console
    from rich.text import Text

    console = Console()

    def show(head: str, style: str, text: str) -> None:
        line = Text.assemble((head, style), text)
        console.print(line, no_wrap=True, overflow="ellipsis", crop=True)

    return show


def _summary(message: Any, columns: dict[int, tuple[str, list[str]]]) -> str:
    """Summarizes a message in one line. Remembers relations for their rows."""
    fields = message.fields
    if message.kind == "R":
        name = f"{printable(fields['namespace'])}.{printable(fields['name'])}"
        names = [printable(column["name"]) for column in fields["columns"]]
        columns[fields["oid"]] = (name, names)
        listed = ", ".join(
            names[at] + ("*" if column["flags"] & 1 else "")
            for at, column in enumerate(fields["columns"])
        )
        identity = fields["replica_identity"]
        return f"{name} oid={fields['oid']} identity={identity} ({listed})"
    if message.kind in "IUD":
        unknown = (f"relation {fields['relation']}", list[str]())
        name, names = columns.get(fields["relation"], unknown)
        parts = [name]
        if fields.get("xid") is not None:
            parts.append(f"xid={fields['xid']}")
        parts += [
            f"{key}({_row(fields[key], names)})"
            for key in ("key", "old", "new")
            if fields.get(key) is not None
        ]
        return " ".join(parts)
    shown = []
    for key, value in fields.items():
        if value is None:
            continue
        if key == "relations":
            known = [columns[oid][0] if oid in columns else str(oid) for oid in value]
            shown.append(", ".join(known))
        else:
            shown.append(_field(key, value))
    return " ".join(shown)


def _row(cells: list[Any], names: list[str]) -> str:
    pairs = itertools.zip_longest(names, cells, fillvalue="?")
    return ", ".join(f"{name}={_short(cell)}" for name, cell in pairs)


def _field(key: str, value: Any) -> str:
    if isinstance(value, bytes) and key != "content":
        # Text that is not UTF-8. The content of a message is always bytes.
        quoted = f"'{printable(value)}'"
        return f"{key}={_cut(quoted)}"
    return f"{key}={_short(value)}"


def _short(value: Any) -> str:
    if value is None:
        return "NULL"
    if value is walrow.UNCHANGED:
        return "(unchanged)"
    if isinstance(value, bytes):
        text = "\\x" + value[:_SHORT].hex()
    elif isinstance(value, str):
        text = repr(value[: _SHORT + 2])
    else:
        return ascii(value) if not isinstance(value, int) else str(value)
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= _SHORT else f"{text[: _SHORT - 1]}…"


_SHORT = 40
_STYLES = {"I": "green", "U": "yellow", "D": "red", "T": "red", "R": "cyan"}
_NAMES = {
    "frames": {
        "w": "XLogData",
        "k": "keepalive",
        "r": "standby status update",
        "h": "hot standby feedback",
        "W": "CopyBothResponse",
        "N": "NoticeResponse",
        "S": "ParameterStatus",
        "E": "ErrorResponse",
        "c": "CopyDone",
        "C": "CommandComplete",
        "Z": "ReadyForQuery",
        "T": "RowDescription",
        "D": "DataRow",
        "A": "NotificationResponse",
    },
    "messages": {
        "B": "Begin",
        "C": "Commit",
        "O": "Origin",
        "R": "Relation",
        "Y": "Type",
        "I": "Insert",
        "U": "Update",
        "D": "Delete",
        "T": "Truncate",
        "M": "Message",
        "S": "Stream Start",
        "E": "Stream Stop",
        "c": "Stream Commit",
        "A": "Stream Abort",
        "b": "Begin Prepare",
        "P": "Prepare",
        "K": "Commit Prepared",
        "r": "Rollback Prepared",
        "p": "Stream Prepare",
    },
    "cells": {"n": "null", "u": "unchanged", "t": "text", "b": "binary"},
}
