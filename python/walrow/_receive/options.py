"""The options of `walrow.receive`."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY
from typing import Any, Literal

from walrow._log.retention import Retention
from walrow._log.writer_options import WriterOptions
from walrow._options import (
    Option,
    Value,
    of_kind,
    options,
)
from walrow._postgres.names import check_publication_names, check_slot_name
from walrow._receive.status import Status
from walrow.errors import OptionError, Remedy
from walrow.typing import Duration, TableName


@options
class ReceiveOptions(WriterOptions):
    """The options of `walrow.receive`."""

    conninfo: Value[str] = Option(
        "A connection string or URL, as for psycopg. Services, password files, the environment, "
        "TLS, several hosts and unix sockets work too.",
        default="",
    )
    _: KW_ONLY
    slot: Value[str] = Option(
        "A logical slot for pgoutput. Only this receiver may use it."
    )
    publications: Option[str | Sequence[str], tuple[str, ...]] = Option(
        "One publication or several."
    )
    create: Value[bool] = Option(
        "Creates the slot if it does not exist, and with `tables`, the publication.",
        default=False,
        more="Changes begin there. Refused if the log has changes already: those since then are "
        "lost with the slot that had them.",
    )
    tables: Option[Sequence[TableName] | None, tuple[TableName, ...] | None] = Option(
        "With `create`, the tables of a new publication. An existing publication must have them.",
        default=None,
    )
    until: Value[Literal["now"] | None] = Option(
        '`"now"` ends when everything that is committed by now is in the log. Default: it never '
        "ends.",
        default=None,
        more="Loads and prepared transactions that wait for somebody do not hold it: "
        "`Received.left` has them.",
    )
    streaming: Value[bool | None] = Option(
        "Large transactions come before their commit. Default: yes, but not with `messages`.",
        default=None,
        more="In a streamed transaction, messages of rolled-back savepoints look like others. If "
        "you ask for both, `walrow.messages` marks such messages as `undecidable`.",
    )
    binary: Value[bool] = Option(
        "Values come in binary. Refused if a published type has no send function.",
        default=False,
        more="The server could never send such a value.",
    )
    messages: Value[bool] = Option("Logical messages come.", default=False)
    cross_gap: Value[bool] = Option(
        "If changes are lost, because the slot was dropped, invalidated, advanced or created again, or "
        "a transaction cannot be decoded, the log continues behind them.",
        default=False,
        more="All tables are loaded then, and readers refuse their rows until that. Otherwise, it is an "
        "error.",
    )
    two_phase: Value[bool] = Option(
        "Prepared transactions come at PREPARE. They are in the log once they are committed.",
        default=False,
    )
    failover: Value[bool] = Option(
        "The slot is copied to standbys. From server 17.", default=False
    )
    snapshot: Value[bool] = Option(
        "With `create`, the log begins with a load: the rows that the tables have when the slot is "
        "created.",
        default=False,
        more="Readers see later changes after it. If it is broken off, it starts over with a new "
        "slot.",
    )
    jobs: Value[int] = Option(
        "The number of connections that copy tables for a load, up to 64.",
        default=4,
        least=1,
        # A server has 100 connections by default.
        most=64,
    )
    origin: Value[Literal["any", "none"] | None] = Option(
        '`"none"` skips transactions that came to the server by replication.',
        default=None,
    )
    publish_after: Option[Duration, float] = Option(
        "Transactions are published for readers after this time.",
        default="10s",
        least=0.01,
        # 30 years. A thread cannot wait longer.
        most=1_000_000_000,
    )
    start_within: Option[Duration | None, float | None] = Option(
        "The time within which a server must be reached for the first time. Default: 10 minutes "
        "with `until`, otherwise without end.",
        default=None,
        more="Until then, it is tried again if the server is not reachable or starts, has no "
        "connection left, or its name is not known. A refused login, for example, is an error at "
        "once.",
    )
    retain: Value[Retention | None] = Option(
        "The retention of the log: `walrow.log.Retention(age=..., bytes=...)`. Default: everything.",
        of_kind(
            "retention",
            lambda it: isinstance(it, Retention),
            "a walrow.log.Retention(age=..., bytes=...)",
        ),
        default=None,
        more="It is applied about once a minute, beside the writer, and at the end. See "
        "`Log.retain`.",
    )
    compact: Value[bool] = Option(
        "Small segments are merged, up to `segment_size`.",
        default=False,
        more="It is done about once a minute, beside the writer, and at the end. See "
        "`Log.compact`.",
    )
    progress: Value[Callable[[Status], None] | None] = Option(
        "Is called about once a second.", default=None
    )
    stop: Value[threading.Event | None] = Option(
        "Ends it within two seconds when set, as Ctrl-C does. Several receivers may share it.",
        of_kind("event", lambda it: hasattr(it, "is_set"), "a threading.Event()"),
        default=None,
    )

    def __post_init__(self) -> None:
        """Refuses options that contradict each other."""
        text = None
        if not self.slot:
            raise OptionError("slot is empty: name the slot")
        if not self.publications:
            raise OptionError("publications is missing: name at least one")
        check_slot_name(self.slot)
        check_publication_names(self.publications)
        if self.create:
            return
        if self.tables is not None:
            text = "a publication that exists has its own tables"
        elif self.snapshot:
            text = "the first load begins with a slot that is created"
        if text is not None:
            raise OptionError(text, remedies=(Remedy("create", None, value=True),))

    def stream(self) -> dict[str, Any]:
        """The options of the replication stream."""
        names = "streaming", "binary", "messages", "two_phase", "origin"
        return {name: getattr(self, name) for name in names}

    def writer(self) -> dict[str, Any]:
        """The options as the log's writer takes them."""
        return super().writer() | {"spool_directory": self.spool_directory or self.log}

    @property
    def start_seconds(self) -> float:
        """How long the server may be away at the start. With `until`, somebody waits for the end."""
        if self.start_within is not None:
            return self.start_within
        return math.inf if self.until is None else _START_SECONDS


_START_SECONDS = 600.0
