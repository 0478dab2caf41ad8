"""Receives the WAL of a live server into a directory."""

from __future__ import annotations

import math
import os
import threading
from typing import TYPE_CHECKING, Literal

from walrow._amounts import duration
from walrow._calls import explained
from walrow._lsn import Lsn
from walrow._postgres.connecting import parameters_of, psycopg_or_refuse
from walrow._secrets import is_conninfo
from walrow.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from walrow._backup.wal_status import ReceivedWal, WalStatus
    from walrow.typing import Duration

__all__ = ["receive_wal"]


@explained
def receive_wal(
    conninfo: str = "",
    *,
    to: str | os.PathLike[str],
    slot: str | None = None,
    create_slot: bool = False,
    until: int | str | None = None,
    synchronous: bool = False,
    start_within: Duration | None = None,
    status: Callable[[WalStatus], None] | None = None,
    stop: threading.Event | None = None,
) -> ReceivedWal:
    """Receives WAL into files that are named and sized as the server's.

    A segment's file is `….partial` until it is whole and durable. Start it again after
    a stop or a crash: it goes on with the first segment that is not whole. It follows
    promotions, connects again by itself if the connection is lost, and ends with an
    error if somebody must fix something.

    ```python
    walrow.backup.receive_wal("dbname=shop", to="wal/", slot="backup", create_slot=True)
    ```

    Args:
        conninfo: A connection string or URL, as for psycopg, of a role with REPLICATION.
            With `application_name`, it may be one of `synchronous_standby_names`.
        to: The directory. It is created if necessary, for its owner only. Empty, it
            begins with what the slot keeps (from server 15), otherwise with the segment
            that the server writes now.
        slot: A physical slot, so that the server keeps WAL until it is durable here.
            Without one, a gap is an error.
        create_slot: Whether the slot is created if it does not exist.
        until: Ends when this position is durable: an LSN, or `"now"` for the server's
            position at the start. Default: it never ends.
        synchronous: Whether WAL is made durable and reported as soon as it comes, and
            not within a second: commits of the server wait for it.
        start_within: The time within which a server must be reached for the first time.
            Default: 600 seconds with `until`, otherwise without end.
        status: Is called about once a second.
        stop: Ends it within a second when set. The received WAL is durable then.

    Returns:
        A summary of the received WAL. Only with `until` or `stop`.

    Raises:
        OptionError: The options are invalid.
        BackupError: The directory has a gap, WAL of another server or another receiver,
            or cannot be written.
        ReplicationError: The server refused something that another attempt does not
            fix, such as WAL that it has removed.
    """
    psycopg_or_refuse()
    from walrow._backup.wal_beginning import Source
    from walrow._backup.wal_files import WalDirectory
    from walrow._backup.wal_landing import Syncing
    from walrow._backup.wal_receiver import WalReceiver

    target = _target(until)
    directory = os.fspath(to)
    if not directory or "://" in directory or is_conninfo(directory):
        text = "to is empty, a URL or a connection string: name a local directory"
        raise OptionError(text)
    if create_slot and slot is None:
        text = "create_slot needs the name of a slot: pass slot="
        raise OptionError(text)
    if start_within is not None:
        start_within = duration(start_within, "start_within")
    elif until is not None:
        start_within = _START_SECONDS
    source = Source(parameters_of(conninfo), slot, create_slot)
    with WalDirectory(directory) as locked:
        receiver = WalReceiver(
            source,
            locked,
            until=target,
            syncing=Syncing.AT_ONCE if synchronous else Syncing.RELAXED,
            start_within=math.inf if start_within is None else start_within,
            status=status,
            stop=stop or threading.Event(),
        )
        return receiver.run()


def _target(until: int | str | None) -> Literal["now"] | Lsn | None:
    if until is None or until == "now":
        return until  # type: ignore[return-value]
    try:
        return Lsn(until)
    except ValueError as error:
        text = f"until is {until!r}: it must be 'now' or an LSN; {error}"
        raise OptionError(text) from None


#: With `until`, somebody waits for the end.
_START_SECONDS = 600.0
