"""`walrow backup`: physical backups of a server."""

from __future__ import annotations

import click

from walrow.cli.backup_wal import wal


@click.group()
def backup() -> None:
    """Backs up a server physically: its WAL as files.

    The role needs the attribute REPLICATION, and pg_hba.conf must let it connect to
    "replication".
    """


backup.add_command(wal)
