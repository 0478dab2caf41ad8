"""`walrow backup`: base backups of a server."""

from __future__ import annotations

import click

from walrow.cli.backup_base import base, verify


@click.group()
def backup() -> None:
    """Takes base backups of a server, and verifies them."""


backup.add_command(base)
backup.add_command(verify)
