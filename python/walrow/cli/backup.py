"""`walrow backup`: physical backups of a server."""

from __future__ import annotations

import click

from walrow.cli.arguments import Commands
from walrow.cli.backup_base import base
from walrow.cli.backup_wal import wal


@click.group(cls=Commands)
def backup() -> None:
    """Takes base backups of a server, and receives its WAL.

    The role needs the attribute REPLICATION. For WAL, pg_hba.conf must let it connect to
    "replication".
    """


backup.add_command(base)
backup.add_command(wal)
