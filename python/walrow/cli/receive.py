"""`walrow receive`: writes the changes of a live server to a log."""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
import time
from collections.abc import Iterator
from typing import Any

import click

from walrow._log.retention import Retention
from walrow._receive.options import ReceiveOptions
from walrow._receive.receiving import receive as receive_into_log
from walrow._receive.status import Status
from walrow._results import counted
from walrow._run.supervisor import LEFT
from walrow._waiting import StopEvent
from walrow.cli import log_options
from walrow.cli.arguments import OrByFile, as_json, options_of
from walrow.cli.connection import dsn
from walrow.cli.source import is_quiet, note, quiet
from walrow.cli.states import Notes, print_state
from walrow.cli.stopping import stopped_by_signals
from walrow.cli.terminal import printable, say


@click.command(cls=OrByFile, by_file="receive_by_file")
@dsn
@options_of(ReceiveOptions, "conninfo")
@log_options.kept
@options_of(Retention, only=("forget_after",))
@as_json("Print the state as JSON, line by line.")
@quiet
def receive(
    *,
    dsn: str,
    as_json: bool,
    kept: tuple[dt.timedelta | int, ...],
    forget_after: float | None,
    **options: Any,
) -> None:
    """Receives committed transactions into a log, until it is stopped.

    A transaction is confirmed to the server when it is durable. Start the command again
    after a crash: each change is in the log once. Ctrl-C and SIGTERM end it
    within two seconds.

    The exit code is 5 if something else waits for somebody with --until now: a load, or a
    prepared transaction.

    With --json, each line contains state, position, transactions, rows, bytes, segments,
    lag_bytes, lag_seconds, kept_bytes, load, note and record, which 'walrow status' shows.
    """
    retain = log_options.retention(kept, forget_after)
    stop = StopEvent()
    with stopped_by_signals(stop), _shown(as_json=as_json) as status:
        received = receive_into_log(
            dsn,
            retain=retain if retain != Retention() else None,
            progress=status,
            stop=stop,
            **options,
        )
    if not as_json:
        note(
            f"walrow: {counted(received.transactions, 'transaction')}, "
            f"{counted(received.rows, 'row')}; the log ends at {received.position}"
        )
    for each in received.left:
        say(f"walrow: the log lacks {printable(str(each))}")
    if received.left:
        raise click.exceptions.Exit(LEFT)


@contextlib.contextmanager
def _shown(*, as_json: bool) -> Iterator[Any]:
    """Shows a state: a line of JSON, a line on a terminal, or a new note."""
    if as_json:
        yield print_state
    elif not is_quiet() and sys.stderr.isatty():
        from rich.console import Console
        from rich.live import Live

        with Live(
            console=Console(stderr=True), refresh_per_second=2, transient=True
        ) as live:
            yield _Lines(live)
    else:
        yield Notes()


class _Lines(Notes):
    """Keeps a line up to date. Problems stay above it."""

    def __init__(self, live: Any) -> None:
        super().__init__()
        self._live = live
        self._rate = _Rate()

    def __call__(self, status: Any) -> None:
        if self.has_news(status) and status.note is not None:
            self._live.console.print(printable(status.note), markup=False)
        self._live.update(_line(status, self._rate))


class _Rate:
    """Rows and bytes a second, over the last reports."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, int, int]] = []

    def of(self, status: Status) -> tuple[float, float]:
        self._seen = [*self._seen[-5:], (time.monotonic(), status.rows, status.bytes)]
        (begin, rows, size), (end, more_rows, more) = self._seen[0], self._seen[-1]
        seconds = max(end - begin, 1e-3)
        return (more_rows - rows) / seconds, (more - size) / seconds


def _line(status: Status, rate: _Rate) -> str:
    rows, size = rate.of(status)
    parts = [
        status.state,
        f"{rows:,.0f} rows/s",
        f"{size / 1e6:,.1f} MB/s",
        counted(status.transactions, "transaction"),
        f"at {status.position}",
    ]
    if status.load is not None:
        done, every = status.load.pieces, status.load.pieces_in_all
        parts.append(
            f"loads {counted(status.load.tables, 'table')}: "
            f"{100 * done // max(every, 1)} %, {counted(status.load.rows, 'row')}"
            f", {status.load.held_bytes / 1e6:,.1f} MB wait"
        )
    if status.lag_bytes is not None:
        seconds = "" if status.lag_seconds is None else f", {status.lag_seconds:,.0f} s"
        parts.append(f"lag {status.lag_bytes / 1e6:,.1f} MB{seconds}")
    elif status.state == "streaming":
        parts.append("lag unknown")
    if status.kept_bytes is not None:
        parts.append(f"the slot keeps {status.kept_bytes / 1e6:,.0f} MB of WAL")
    return " · ".join(parts)
