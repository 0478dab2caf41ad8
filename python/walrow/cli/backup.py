"""`walrow backup`: physical backups of a server."""

from __future__ import annotations

import click

from walrow.cli.backup_verify import verify


@click.group()
def backup() -> None:
    """Verifies base backups of a server."""


backup.add_command(verify)
