"""`walrow status`: what a log, its receiver, its readers and its targets are like."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import click

from walrow._log.status_record import Life
from walrow._results import counted
from walrow._run.status import PartStatus, Status, status_of
from walrow.cli import grid
from walrow.cli.arguments import as_json
from walrow.cli.terminal import print_json, printable


@click.command()
@click.argument("directory", metavar="LOG")
@click.option(
    "--allow-stopped",
    is_flag=True,
    help="Accept that nothing runs: for `walrow run --once` by cron.",
)
@as_json("Print one JSON object.")
def status(*, directory: str, allow_stopped: bool, as_json: bool) -> None:
    """Show the state of a log, its receiver, readers, tables and targets.

    The receiver and the applier publish their states in the log's directory. Nothing is
    changed. A mark of a table has the code that `walrow log accept` takes.

    The exit code is 1, with the reasons, if you must do something: the receiver cannot
    reach its server or write its log, has had no word from the server for a minute, hangs,
    was killed, or has ended with an error; nothing runs, and the log has targets; a table
    needs a load without a request for it; or a target has an error.
    """
    found = status_of(directory, allow_stopped=allow_stopped)
    if as_json:
        print_json(found.to_dict())
    else:
        _show(found)
    if found.reasons:
        raise click.exceptions.Exit(1)


def _show(found: Status) -> None:
    known = {
        "database": found.source.database,
        "slot": found.source.slot,
        "system": found.source.system_identifier,
    }
    commit = (
        ""
        if found.last_commit is None
        else f", last commit {found.last_commit.isoformat(timespec='seconds')}"
    )
    for name, text in (
        ("receiver", _part(found.receiver)),
        ("applier", _part(found.applier)),
        (
            "source",
            ", ".join(f"{name} {it}" for name, it in known.items() if it is not None)
            or "not known yet",
        ),
        (
            "log",
            f"{found.start} to {found.end}, {counted(found.segments, 'segment')}, "
            f"{found.bytes:,} bytes{commit}",
        ),
    ):
        click.echo(f"{name + ':':<10}{printable(text)}")
    record = found.receiver.record
    for text in record.receiver.hosts if record and record.receiver else ():
        click.echo(f"{'host:':<10}{printable(text)}")
    _section(
        ["reader", "position", "last used", "bytes to read"],
        [(it.name, it.position, it.used, f"{it.bytes:,}") for it in found.readers],
        numbers={3},
    )
    if found.held is not None:
        click.echo(f"held back: {printable(found.held)}")
    _section(
        ["needs a load", "since", "requested", "because"],
        [
            (it.table, it.since, "yes" if it.is_requested else "no", it.reasons)
            for it in found.needs_load
        ],
    )
    _section(
        ["table", "code", "since", "until", "accepted", "reason"],
        [
            (it.table, it.code, it.since, it.until, it.accepted, it.reason)
            for it in found.marks
        ],
    )
    _section(
        ["left", "because", "since", "decided"],
        [(it.name, it.why, it.since, it.ruling) for it in found.left],
    )
    _section(
        ["table", "target", "up to", "committed", "state"],
        [
            (it.table, it.target, it.end, it.committed, _state(it))
            for it in found.targets
        ],
    )
    if found.reasons:
        click.echo()
    for reason in found.reasons:
        click.echo(f"to do: {printable(reason)}")


def _part(part: PartStatus) -> str:
    """A receiver or an applier in one line."""
    record = part.record
    if record is None:
        return _LIVES[part.life]
    phase = record.to_dict()["phase"]
    words = [phase.pop("name").replace("_", " ")]
    words += [
        ", ".join(it) if isinstance(it, list) else it for it in phase.values() if it
    ]
    parts = [_LIVES[part.life], ": ".join(words)]
    facts = record.receiver
    if facts is not None and facts.server is not None and facts.durable is not None:
        lag = max(0, facts.server - facts.durable)
        parts.append(f"{lag:,} bytes behind {facts.server}")
    if facts is not None and facts.heard is not None:
        parts.append(f"server heard {_cell(facts.heard)}")
    parts.append(f"process {record.process} on {record.host}, {_cell(record.time)}")
    return ", ".join(filter(None, parts))


def _section(
    heads: Sequence[str],
    rows: Sequence[Iterable[object]],
    numbers: Collection[int] = (),
) -> None:
    """Prints rows behind an empty line, if there are some."""
    if rows:
        click.echo()
        grid.show(heads, [list(map(_cell, row)) for row in rows], numbers=numbers)


def _cell(value: object) -> str:
    if isinstance(value, dt.datetime):
        return value.isoformat(timespec="seconds")
    return "" if value is None else str(value)


def _state(target: Any) -> str:
    if target.error is not None:
        return "error"
    if target.has_left:
        return "its table left"
    state = "has all of the log" if target.has_all else "behind"
    state = "current" if target.is_current else state
    return state if target.in_file else f"{state}, not in the file any more"


_LIVES = {
    Life.ALIVE: "",
    Life.STALE: "hangs",
    Life.ENDED: "does not run",
    Life.NONE: "does not run",
    Life.UNKNOWN: "not known: a log in an object store has no status records",
}
