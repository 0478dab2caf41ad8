"""`walrow backup base`."""

from __future__ import annotations

import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from walrow import backup as of_python
from walrow.cli.arguments import TEXT
from walrow.cli.connection import dsn
from walrow.cli.source import is_quiet, quiet
from walrow.cli.terminal import count, print_json, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from walrow.backup import BackupProgress


def _rate(
    _context: click.Context, _parameter: click.Parameter, value: str | None
) -> int | None:
    """Reads a rate as pg_basebackup does: kilobytes, or with a suffix k or M."""
    if value is None:
        return None
    found = _RATE.fullmatch(value)
    if found is None:
        text = (
            f"{value} is not a rate: expected kilobytes per second, such as 512k or 32M"
        )
        raise click.BadParameter(text)
    return int(found[1]) * (1024 if found[2] == "M" else 1)


def _moved(
    _context: click.Context, parameter: click.Parameter, items: tuple[str, ...]
) -> dict[str, str]:
    r"""Splits each OLD=NEW. A path may have `\=`."""
    found = {}
    for item in items:
        parts = [it.replace("\\=", "=") for it in _EQUALS.split(item)]
        if len(parts) != _PARTS or not all(parts):
            text = f"{parameter.opts[0]} {item}: expected OLD=NEW"
            raise click.UsageError(text)
        old, new = parts
        if old in found:
            text = f"{parameter.opts[0]} {old} is there twice"
            raise click.UsageError(text)
        found[old] = new
    return found


@click.command()
@dsn
@click.option(
    "--to",
    required=True,
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="A new or an empty directory.",
)
@click.option(
    "--format",
    type=click.Choice(["tar", "plain"]),
    default="tar",
    show_default=True,
    help="An archive for each tablespace, or a data directory.",
)
@click.option(
    "--label", type=TEXT, default="walrow", show_default=True, help="Its name."
)
@click.option(
    "--checkpoint",
    type=click.Choice(["fast", "spread"]),
    default="spread",
    show_default=True,
    help="Whether the server begins at once, or spreads its writes over minutes.",
)
@click.option(
    "--max-rate",
    type=TEXT,
    callback=_rate,
    metavar="RATE",
    help="The most kilobytes per second, such as 512k or 32M.",
)
@click.option(
    "--wal",
    type=click.Choice(["stream", "fetch", "none"]),
    default="stream",
    show_default=True,
    help="stream: over a second connection, meanwhile. fetch: at the end, if the server still has"
    " it. none: it must come from an archive.",
)
@click.option(
    "--incremental",
    type=click.Path(exists=True, path_type=Path),
    metavar="MANIFEST",
    help="Take only what changed since the backup with this manifest. From server 17.",
)
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
    "--manifest",
    type=click.Choice(["yes", "no", "force-encode"]),
    default="yes",
    show_default=True,
    help="Without one, nothing can be verified.",
)
@click.option(
    "--manifest-checksums",
    type=click.Choice(
        ["NONE", "CRC32C", "SHA224", "SHA256", "SHA384", "SHA512"],
        case_sensitive=False,
    ),
    help="Default: CRC32C.",
)
@click.option(
    "--no-verify-checksums",
    "verify_checksums",
    is_flag=True,
    flag_value=False,
    default=True,
    help="The server does not check the checksums of pages.",
)
@click.option(
    "--compress",
    type=TEXT,
    metavar="gzip[:LEVEL]",
    help="The server compresses. From server 15.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print what was taken as a JSON object."
)
@quiet
def base(*, dsn: str, as_json: bool, **options: Any) -> None:
    """Takes a base backup of a server into DIR.

    It is called DIR.partial until it has all its files, with the checksums of the
    manifest, and the WAL that it needs. Ctrl-C cancels it, and leaves nothing.

    With --json, the object contains path, format, system_identifier, start_lsn,
    start_timeline, end_lsn, end_timeline, files, bytes, tablespaces, manifest, verified,
    wal and parent.
    """
    with _shown() as progress:
        done = of_python.base_backup(dsn, progress=progress, **options)
    if as_json:
        print_json(done.to_dict())
    elif not is_quiet():
        say(
            f"walrow: {done.path} has {count(done.files, 'file')}, from {done.start_lsn} to"
            f" {done.end_lsn}{'' if done.verified else '; without a manifest, nothing was verified'}"
        )
    if done.wal == "missing":
        say(
            f"walrow: it has no WAL, and needs that from {done.start_lsn} to {done.end_lsn} on"
            f" timeline {done.end_timeline} to be recovered"
        )


@contextlib.contextmanager
def _shown() -> Iterator[Callable[[BackupProgress], None] | None]:
    """A bar on a terminal."""
    if is_quiet() or not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TransferSpeedColumn,
    )

    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        console=Console(stderr=True),
        transient=True,
    ) as bar:
        task = bar.add_task("starting", total=None)

        def show(state: BackupProgress) -> None:
            bar.update(
                task,
                description=state.step,
                completed=state.bytes_done,
                total=state.bytes_total,
            )

        yield show


_RATE = re.compile("([0-9]{1,9})(k|M)?")
_EQUALS = re.compile(r"(?<!\\)=")
_PARTS = 2
