"""How a batch is divided at transactions, so that each part fits into the memory."""

from __future__ import annotations

from collections.abc import Sequence

from walrow._apply.modes import ANY_RANGE
from walrow._apply.units import Batch
from walrow._late import pa
from walrow.log import Log


def first_end(batch: Batch, limit: int) -> int | None:
    """Where the first part of a batch, of about `limit` bytes in segments, ends. None if it is all.

    A load is a separate part if the batch has more than the load.
    """
    if batch.stream_bytes <= limit:
        return None
    if batch.barrier is not None and batch.barrier.is_load and not batch.is_plain_load:
        return batch.barrier.lsn + 1
    size = 0
    for at, (_, end, each) in enumerate(batch.pieces):
        size += each
        if size > limit:
            place = at - 1 if at else at
            found = batch.pieces[place][1] if at else end
            return None if place == len(batch.pieces) - 1 else found
    return None


def halved(known: Sequence[int], end: int) -> int | None:
    """The end of about half of the changes, of known ends in order. None if they cannot be divided."""
    earlier = [it for it in known if it < end]
    return earlier[(len(earlier) - 1) // 2] if earlier else None


def ends(log: Log, batch: Batch, end: int) -> list[int]:
    """The ends of segments up to an LSN, or if there is only one, of its transactions."""
    start = int(batch.start)
    if batch.barrier is not None:
        # The rows begin there.
        start = max(start, batch.barrier.lsn)
    known = [last for _, last, _ in batch.pieces if start < last < end]
    if known:
        return known
    reader = log.read(table="walrow.transactions", start=start, end=end, **ANY_RANGE)
    return [
        it
        for rows in reader
        for it in pa.record_batch(rows).column("end_lsn").to_pylist()
        if start < it < end
    ]
