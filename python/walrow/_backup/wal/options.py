"""The options of a receiver of WAL, and its state."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import KW_ONLY
from pathlib import Path
from typing import Literal

from walrow._lsn import Lsn
from walrow._options import ANY, Kind, Option, Value, options
from walrow._results import Result, result
from walrow._secrets import brief
from walrow.errors import OptionError
from walrow.typing import Duration


@result
class WalStatus(Result):
    """The state of a receiver of WAL.

    Attributes:
        state: `connecting`, `streaming`, `stopping`, or `stopped` as a result.
        timeline: The timeline that is received. None before the first connection.
        written: The LSN at the end of the written WAL.
        flushed: The LSN at the end of the durable WAL, as reported to the server.
        note: The problem, in words.
    """

    state: Literal["connecting", "streaming", "stopping", "stopped"]
    timeline: int | None
    written: Lsn | None
    flushed: Lsn | None
    note: str | None


def _until(value: int | str, name: str) -> Literal["now"] | Lsn:
    try:
        return "now" if value == "now" else Lsn(value)
    except ValueError as error:
        text = f"{name} is {brief(value)}: it must be 'now' or an LSN; {error}"
        raise OptionError(text) from None


@options
class WalOptions:
    """The options of `walrow.backup.receive_wal`."""

    conninfo: Value[str] = Option(
        "A connection string or URL, as for psycopg, of a role with REPLICATION. With "
        "application_name, it may be one of synchronous_standby_names.",
        default="",
    )
    _: KW_ONLY
    to: Option[str | os.PathLike[str], Path] = Option(
        "The directory. It is created if necessary, for its owner only.",
        more="Empty, it begins with what the slot keeps (from server 15), otherwise with the segment "
        "that the server writes now.",
    )
    slot: Value[str | None] = Option(
        "A physical slot, so that the server keeps WAL until it is durable here.",
        default=None,
        more="Without one, a gap is an error.",
    )
    create_slot: Value[bool] = Option(
        "Creates the slot if it does not exist.", default=False
    )
    until: Option[Lsn | int | str | None, Literal["now"] | Lsn | None] = Option(
        'Ends when this position is durable: an LSN, or `"now"` for the server\'s position at the '
        "start. Default: it never ends.",
        Kind("until", _until, metavar="now|LSN"),
        default=None,
    )
    synchronous: Value[bool] = Option(
        "Makes WAL durable and reports it as soon as it comes, and not within a second: commits of "
        "the server wait for it.",
        default=False,
    )
    start_within: Option[Duration | None, float | None] = Option(
        "The time within which a server must be reached for the first time. Default: 10 minutes with "
        "`until`, otherwise without end.",
        default=None,
    )
    progress: Value[Callable[[WalStatus], None] | None] = Option(
        "Is called about once a second.", default=None
    )
    stop: Value[threading.Event | None] = Option(
        "Ends it within a second when set. The received WAL is durable then.",
        ANY,
        default=None,
    )

    def __post_init__(self) -> None:
        """Refuses options that contradict each other."""
        if self.create_slot and self.slot is None:
            raise OptionError("create_slot needs the name of a slot: pass slot=")
