"""`walrow seal`: writes captures into a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from walrow._log.sealing import seal as seal_into_log
from walrow.cli import log_options
from walrow.cli.source import files, framing, is_quiet, quiet
from walrow.cli.terminal import count, say

if TYPE_CHECKING:
    from walrow.typing import Framing


@click.command()
@files
@log_options.log
@click.option(
    "--catalog",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The definitions of types and tables, from walrow catalog.",
)
@framing
@click.option(
    "--unfinished",
    type=click.Choice(["error", "ignore"]),
    default="error",
    show_default=True,
    help="What to do if FILE is not complete.",
)
@log_options.segment_size
@log_options.level
@log_options.spool_memory
@log_options.spool_directory
@log_options.group_access
@quiet
def seal(
    *,
    files: tuple[str, ...],
    log: str,
    catalog: Path | None,
    framing: Framing | None,
    unfinished: str,
    segment_size: int,
    level: int,
    spool_memory: int,
    spool_directory: str | None,
    group_access: bool,
) -> None:
    """Writes the committed transactions of FILE to a log.

    Transactions that the log has already are skipped and counted, so the command can be
    repeated.
    """
    sealed = seal_into_log(
        list(files),
        log=Path(log),
        catalog=catalog,
        framing=framing,
        unfinished="ignore" if unfinished == "ignore" else "error",
        segment_bytes=segment_size,
        compression_level=level,
        spool_memory=spool_memory,
        spool_directory=spool_directory,
        group_access=group_access,
    )
    if not is_quiet():
        repeated = (
            f", {count(sealed.repeated, 'transaction')} that it had already"
            if sealed.repeated
            else ""
        )
        say(
            f"walrow: {count(sealed.transactions, 'transaction')}, "
            f"{count(sealed.rows, 'row')} in {count(sealed.segments, 'segment')}"
            f"{repeated}; the log ends at {sealed.position}"
        )
