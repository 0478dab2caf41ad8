"""The reports of a receiver: its state while it runs, and its result."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from walrow._results import Result, result

if TYPE_CHECKING:
    from typing import Any

    from walrow._lsn import Lsn
    from walrow._postgres.waiting import OpenTransaction


State = Literal["connecting", "streaming", "degraded", "stopping"]


@result
class LoadProgress(Result):
    """How far a load is.

    Attributes:
        tables: How many tables it has.
        rows: Rows that were copied.
        bytes: Bytes of these rows.
        pieces: How many parts of tables were copied.
        pieces_in_all: How many there are.
        held_bytes: Bytes of the stream that came since, which readers see after the load.
    """

    tables: int
    rows: int
    bytes: int
    pieces: int
    pieces_in_all: int
    held_bytes: int


@result
class PendingLoad(Result):
    """A load that was asked for, and waits for transactions that others have begun, or has failed.

    Attributes:
        tables: The tables, as `schema.name`. None for all that are published.
        transactions: The transactions that its slot waits for.
        failure: Why it has failed. None if it waits.
    """

    tables: tuple[str, ...] | None
    transactions: tuple[OpenTransaction, ...]
    failure: str | None = None

    def __str__(self) -> str:
        """Describes it in words: one line."""
        what = "all tables" if self.tables is None else ", ".join(self.tables)
        if self.failure is not None:
            return f"the load of {what}, which has failed: {self.failure}"
        waits = "; ".join(map(str, self.transactions)) or "transactions of others"
        return f"the load of {what}, which waits for {waits}"


@result
class Received(Result):
    """What `receive` has received.

    Attributes:
        position: Up to where everything is in the log, and confirmed.
        transactions: Transactions.
        rows: Rows that were inserted, updated or deleted in them.
        bytes: Bytes of the stream.
        segments: Published segments.
        left: With `until`, the loads that the log lacks, because they wait for a person or have failed,
            and the transactions that were prepared before the end and are undecided. The next
            receiver takes the loads that wait as soon as it can.
    """

    position: Lsn
    transactions: int
    rows: int
    bytes: int
    segments: int
    left: tuple[PendingLoad | OpenTransaction, ...] = ()


@result
class Status(Result):
    """The state of a receiver.

    Attributes:
        state: `connecting`, `streaming`, `degraded` (the log's file system refuses
            something, and it is tried again), or `stopping`.
        position: Up to where everything is durable.
        transactions: Transactions since the start.
        rows: Rows that were inserted, updated or deleted in them.
        bytes: Bytes of the stream.
        segments: Published segments.
        lag_bytes: The WAL between `position` and the server's end of WAL. None if the
            server was not asked yet, or its SQL functions return other LSNs than its stream has.
        lag_seconds: The seconds since the commit of the last transaction, or since there was no
            lag in bytes, if that is less: 0 on an idle server. None before the first of both.
        kept_bytes: The WAL that the slot keeps on the server. None as for `lag_bytes`.
        load: How far a load is. None without one.
        note: The problem, in words.
        record: The fields of the status record, which `walrow status` shows. None at first.
    """

    state: State
    position: Lsn
    transactions: int
    rows: int
    bytes: int
    segments: int
    lag_bytes: int | None
    lag_seconds: float | None
    kept_bytes: int | None
    load: LoadProgress | None
    note: str | None
    record: dict[str, Any] | None = None
