"""`walrow backup wal`: receives WAL into files."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from walrow import backup
from walrow.cli.arguments import TEXT
from walrow.cli.connection import dsn
from walrow.cli.log_options import DURATION
from walrow.cli.source import is_quiet, quiet
from walrow.cli.stopping import stopped_by_signals
from walrow.cli.terminal import count, printable, say
from walrow.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from walrow.backup import WalStatus


@click.command()
@dsn
@click.option(
    "--to",
    required=True,
    type=TEXT,
    metavar="DIR",
    help="The directory. It is created if necessary, for its owner only.",
)
@click.option(
    "--slot",
    type=TEXT,
    help="A physical slot, so that the server keeps WAL until it is durable here.",
)
@click.option("--create-slot", is_flag=True, help="Create the slot if it is missing.")
@click.option(
    "--until",
    type=TEXT,
    metavar="now|LSN",
    help="End when this position is durable. Default: it never ends.",
)
@click.option(
    "--synchronous",
    is_flag=True,
    help="Make WAL durable and report it as soon as it comes: commits wait for it if "
    "application_name is in synchronous_standby_names.",
)
@click.option(
    "--start-within",
    type=DURATION,
    metavar="DURATION",
    help="The time within which the server must be reached. Default: 10m with --until, "
    "otherwise without end.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the state as JSON lines.")
@quiet
def wal(*, dsn: str, to: str, as_json: bool, **options: Any) -> None:
    """Receives WAL into a directory, until it is stopped.

    Files are named and sized as the server's, and end with .partial until they are whole
    and durable. Start the command again after a crash: it goes on with the first segment
    that is not whole. It follows a promotion. Ctrl-C and SIGTERM end it within a second.

    With --json, each line contains state, timeline, written, flushed and note.
    """
    stop = threading.Event()
    show = _print_json if as_json else _Notes()
    with stopped_by_signals(stop), _installed():
        received = backup.receive_wal(
            dsn, to=Path(to), status=show, stop=stop, **options
        )
    if not (as_json or is_quiet()):
        say(
            f"walrow: {count(received.segments, 'segment')} whole; "
            f"durable up to {received.end} of timeline {received.timeline}"
            if received.end is not None
            else "walrow: stopped before a server was reached"
        )


@contextlib.contextmanager
def _installed() -> Iterator[None]:
    """Says what to install if psycopg is missing."""
    try:
        yield
    except ImportError as error:
        raise OptionError(str(error)) from None


class _Notes:
    """Prints a problem once, and its end."""

    def __init__(self) -> None:
        self._note: str | None = None

    def __call__(self, status: WalStatus) -> None:
        if status.note == self._note or is_quiet():
            return
        if status.note is None and status.state != "streaming":
            return
        self._note = status.note
        words = "" if status.note is None else f": {printable(status.note)}"
        say(f"walrow: {status.state}{words}")


def _print_json(status: WalStatus) -> None:
    click.echo(json.dumps(status.to_dict()))
    sys.stdout.flush()
