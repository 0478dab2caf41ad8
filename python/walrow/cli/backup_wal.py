"""`walrow backup wal`: receives WAL into files."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import click

from walrow import backup
from walrow._backup.wal.options import WalOptions
from walrow.cli.arguments import options_of
from walrow.cli.connection import dsn
from walrow.cli.source import is_quiet, quiet
from walrow.cli.states import Notes, print_state
from walrow.cli.stopping import stopped_by_signals
from walrow.cli.terminal import say
from walrow.errors import OptionError


@click.command()
@dsn
@options_of(WalOptions, "conninfo")
@click.option("--json", "as_json", is_flag=True, help="Print the state as JSON lines.")
@quiet
def wal(*, dsn: str, as_json: bool, **options: Any) -> None:
    """Receives WAL into a directory, until it is stopped.

    Files are named and sized as the server's, and end with .partial until they are whole
    and durable. Start the command again after a crash: it continues with the first segment
    that is not whole. It follows a promotion. Ctrl-C and SIGTERM end it within a second.

    With --json, each line contains state, timeline, written, flushed and note.
    """
    stop = threading.Event()
    show = print_state if as_json else None if is_quiet() else Notes()
    with stopped_by_signals(stop), _installed():
        received = backup.receive_wal(dsn, status=show, stop=stop, **options)
    if not (as_json or is_quiet()):
        say(
            f"walrow: durable up to {received.flushed} of timeline {received.timeline}"
            if received.flushed is not None
            else "walrow: stopped before a server was reached"
        )


@contextlib.contextmanager
def _installed() -> Iterator[None]:
    """Says what to install if psycopg is missing."""
    try:
        yield
    except ImportError as error:
        raise OptionError(str(error)) from None
