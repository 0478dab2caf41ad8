"""`walrow slot`: lists, creates, changes and drops replication slots."""

from __future__ import annotations

import contextlib

import click

from walrow import postgres
from walrow._postgres.slot_positions import has_other_positions
from walrow.cli import grid
from walrow.cli.arguments import TEXT, Commands, as_json
from walrow.cli.connection import connected, connected_for_replication, dsn
from walrow.cli.terminal import print_json, say
from walrow.errors import OptionError, ReplicationError

_json = as_json("Print one JSON object per slot.")


@click.group(cls=Commands)
def slot() -> None:
    """Lists, creates, changes and drops replication slots.

    A slot keeps WAL for its client until the client confirms it, also while no client
    is connected. The disk of the server can become full.
    """


@slot.command(name="list")
@dsn
@_json
def list_slots(*, dsn: str, as_json: bool) -> None:
    """Lists the slots of a server, in all databases, with the WAL that they keep.

    With --json, each line contains name, kind, plugin, database, active_pid,
    active_application, temporary, two_phase, failover, synced, restart_lsn, confirmed_flush,
    kept_bytes, wal_status, safe_wal_size, inactive_since, invalidation_reason and
    conflict. A field that the server's version does not have is null. So is kept_bytes if
    the server's SQL functions return other LSNs than its stream has.
    """
    with connected(dsn) as conn:
        found = postgres.slots(conn)
    is_other = False
    # A role that may not replicate cannot compare them.
    with (
        contextlib.suppress(ReplicationError),
        connected(dsn, replication="database") as conn,
    ):
        is_other = has_other_positions(conn)
    unknown = {"kept_bytes": None} if is_other else {}
    if as_json:
        for each in found:
            print_json(each.to_dict() | unknown)
    else:
        rows = [_row(each, is_other=is_other) for each in found]
        grid.show(_HEADS, rows, numbers=_NUMBERS)


@slot.command()
@click.argument("name", type=TEXT)
@dsn
@click.option(
    "--plugin",
    default="pgoutput",
    show_default=True,
    type=TEXT,
    metavar="PLUGIN",
    help="The output plugin. walrow reads pgoutput.",
)
@click.option(
    "--two-phase",
    is_flag=True,
    help="Send prepared transactions at PREPARE. From server 15.",
)
@click.option(
    "--failover", is_flag=True, help="Copy the slot to standbys. From server 17."
)
@_json
def create(
    *,
    name: str,
    dsn: str,
    plugin: str,
    two_phase: bool,
    failover: bool,
    as_json: bool,
) -> None:
    """Creates the logical slot NAME in the database.

    The server waits until all transactions that write have ended. They are listed after
    a few seconds. Ctrl-C cancels, and leaves no slot.
    """
    with connected(dsn, replication="database") as conn:
        created = postgres.create_slot(
            conn,
            name,
            plugin=plugin,
            two_phase=two_phase,
            failover=failover,
            progress=lambda it: say(f"walrow: {it}"),
        )
    if as_json:
        print_json(created.to_dict())
    else:
        click.echo(f"created slot {name} at {created.consistent_point}")


@slot.command()
@click.argument("name", type=TEXT)
@dsn
@click.option(
    "--failover/--no-failover",
    default=None,
    help="Whether the slot is copied to standbys.",
)
@click.option(
    "--two-phase/--no-two-phase",
    default=None,
    help="Whether prepared transactions are sent at PREPARE. From server 18.",
)
def alter(
    *, name: str, dsn: str, failover: bool | None, two_phase: bool | None
) -> None:
    """Changes the logical slot NAME, which no client uses. From server 17."""
    if failover is None and two_phase is None:
        text = "nothing to change: add --failover or --two-phase, or their --no- form"
        raise OptionError(text)
    with connected_for_replication(dsn) as conn:
        postgres.alter_slot(conn, name, failover=failover, two_phase=two_phase)
    click.echo(f"changed slot {name}")


@slot.command()
@click.argument("name", type=TEXT)
@dsn
@click.option("--wait", is_flag=True, help="Wait while another client uses the slot.")
def drop(*, name: str, dsn: str, wait: bool) -> None:
    """Drops the slot NAME. The changes that it has kept are lost."""
    with connected_for_replication(dsn) as conn:
        postgres.drop_slot(conn, name, wait=wait)
    click.echo(f"dropped slot {name}")


_HEADS = [
    "slot",
    "plugin",
    "database",
    "status",
    "WAL kept",
    "until lost",
    "confirmed",
    "used by",
    "options",
]
_NUMBERS = {4, 5}


def _row(slot: postgres.Slot, *, is_other: bool) -> list[str]:
    reason = f" ({slot.invalidation_reason})" if slot.invalidation_reason else ""
    options = ("temporary", "two_phase", "failover", "synced")
    return [
        slot.name,
        slot.plugin or slot.kind,
        slot.database or "",
        f"{slot.wal_status or 'unused'}{reason}",
        "unknown" if is_other else _size(slot.kept_bytes),
        _size(slot.safe_wal_size),
        "" if slot.confirmed_flush is None else str(slot.confirmed_flush),
        _client(slot),
        " ".join(each for each in options if getattr(slot, each)),
    ]


def _client(slot: postgres.Slot) -> str:
    if slot.active_pid is not None:
        application = slot.active_application or ""
        return f"process {slot.active_pid} {application}".rstrip()
    if slot.inactive_since is not None:
        return f"nobody since {slot.inactive_since:%Y-%m-%d %H:%M:%S%z}"
    return "nobody"


def _size(number: int | None) -> str:
    """Writes bytes as pg_size_pretty does."""
    if number is None:
        return ""
    size, unit = float(number), 0
    while abs(size) >= _NEXT_UNIT and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} {_UNITS[unit]}"


_UNITS = ["bytes", "kB", "MB", "GB", "TB", "PB"]
_NEXT_UNIT = 10 * 1024
