"""`walrow seal`: writes captures into a log."""

from __future__ import annotations

from typing import Any

import click

from walrow._log.sealing import SealOptions
from walrow._log.sealing import seal as seal_into_log
from walrow._results import counted
from walrow.cli.arguments import options_of
from walrow.cli.source import files, note, quiet


@click.command()
@files
@options_of(SealOptions)
@quiet
def seal(*, files: tuple[str, ...], **options: Any) -> None:
    """Writes the committed transactions of FILE to a log.

    Transactions that the log has already are skipped and counted, so the command can be
    repeated.
    """
    sealed = seal_into_log(list(files), **options)
    repeated = (
        f", {counted(sealed.repeated, 'transaction')} that it had already"
        if sealed.repeated
        else ""
    )
    note(
        f"walrow: {counted(sealed.transactions, 'transaction')}, "
        f"{counted(sealed.rows, 'row')} in {counted(sealed.segments, 'segment')}"
        f"{repeated}; the log ends at {sealed.position}"
    )
