"""`walrow backup`: physical backups of a server."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

from walrow import backup as of_python
from walrow._backup.base.options import BackupOptions
from walrow._backup.wal.options import WalOptions
from walrow._results import counted
from walrow.cli.arguments import TEXT, Commands, as_json, options_of
from walrow.cli.connection import dsn
from walrow.cli.source import byte_progress, is_quiet, note, quiet
from walrow.cli.states import Notes, print_state
from walrow.cli.stopping import stopped_by_signals
from walrow.cli.terminal import print_json


@click.group(cls=Commands)
def backup() -> None:
    """Takes base backups of a server, and receives its WAL.

    The role needs the attribute REPLICATION. For WAL, pg_hba.conf must let it connect to
    "replication".
    """


def _moved(
    _context: click.Context, parameter: click.Parameter, items: tuple[str, ...]
) -> dict[str, str]:
    r"""Splits each OLD=NEW. A path may have `\=`."""
    found = {}
    for item in items:
        parts = [it.replace("\\=", "=") for it in _EQUALS.split(item)]
        if len(parts) != _PARTS or not all(parts):
            raise click.UsageError(f"{parameter.opts[0]} {item}: expected OLD=NEW")
        old, new = parts
        if old in found:
            raise click.UsageError(f"{parameter.opts[0]} {old} is there twice")
        found[old] = new
    return found


@backup.command()
@dsn
@options_of(BackupOptions, "conninfo", "verify_checksums")
@click.option(
    "--tablespace",
    "tablespaces",
    type=TEXT,
    multiple=True,
    callback=_moved,
    metavar="OLD=NEW",
    help="With --format plain, a new directory for a tablespace's. Repeatable.",
)
@click.option(
    "--no-verify-checksums",
    "verify_checksums",
    is_flag=True,
    flag_value=False,
    default=True,
    help="The server does not check the checksums of pages.",
)
@as_json("Print what was taken as a JSON object.")
@quiet
def base(*, dsn: str, as_json: bool, **options: Any) -> None:
    """Takes a base backup of a server into a directory, or with --to - as one tar to stdout.

    The directory is called DIR.partial until it has all files of the manifest, with their
    checksums, and the WAL that it needs. Ctrl-C cancels the backup, and leaves nothing.
    A tar on stdout has its end only if the backup is complete: check the exit code, too.

    With --json, the object contains path, format, system_identifier, start_lsn,
    start_timeline, end_lsn, end_timeline, files, bytes, tablespaces, wal, parent and
    notices.
    """
    with _shown() as progress:
        if str(options["to"]) == "-":
            if as_json:
                text = "--json prints to stdout, where --to - writes the backup"
                raise click.UsageError(text)
            _pipe(dsn, options | {"progress": progress})
            return
        done = of_python.base_backup(dsn, progress=progress, **options)
    _show_notices(done.notices)
    if as_json:
        print_json(done.to_dict())
    else:
        note(
            f"walrow: {done.path} has {counted(done.files, 'file')}, from {done.start_lsn} to"
            f" {done.end_lsn}"
        )
    if done.wal == "missing":
        note(
            f"walrow: it has no WAL, and needs that from {done.start_lsn} to {done.end_lsn} on"
            f" timeline {done.end_timeline} to be recovered"
        )


def _pipe(dsn: str, options: dict[str, Any]) -> None:
    del options["to"]
    if options.pop("format") != "tar" or options.pop("tablespaces"):
        raise click.UsageError("--to - writes a tar: --format plain needs a directory")
    if sys.stdout.isatty():
        text = "--to - writes a tar, which is not for a terminal: use a pipe"
        raise click.UsageError(text)
    with of_python.stream_base_backup(dsn, **options) as stream:
        for block in stream.tar():
            sys.stdout.buffer.write(block)
        sys.stdout.buffer.flush()
        _show_notices(stream.notices)


def _show_notices(notices: Iterable[str]) -> None:
    for each in notices:
        note(f"walrow: the server says: {each}")


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[int, int | None], None] | None]:
    """A bar on a terminal."""
    if is_quiet() or not sys.stderr.isatty():
        yield None
        return
    with byte_progress() as bar:
        task = bar.add_task("starting", total=None)

        def show(done: int, total: int | None) -> None:
            bar.update(task, description="receiving", completed=done, total=total)

        yield show


_EQUALS = re.compile(r"(?<!\\)=")
_PARTS = 2


@backup.command()
@dsn
@options_of(WalOptions, "conninfo")
@as_json("Print the state as JSON lines.")
@quiet
def wal(*, dsn: str, as_json: bool, **options: Any) -> None:
    """Receives WAL into a directory, until it is stopped.

    Files are named and sized as the server's, and end with .partial until they are whole
    and durable. Start the command again after a crash: it continues with the first segment
    that is not whole. It follows a promotion. Ctrl-C and SIGTERM end it within a second.

    With --json, each line contains state, timeline, written, flushed and note.
    """
    stop = threading.Event()
    show = print_state if as_json else Notes()
    with stopped_by_signals(stop):
        received = of_python.receive_wal(dsn, progress=show, stop=stop, **options)
    if not as_json:
        note(
            f"walrow: durable up to {received.flushed} of timeline {received.timeline}"
            if received.flushed is not None
            else "walrow: stopped before a server was reached"
        )
