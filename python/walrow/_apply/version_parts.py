"""The parts of a log that a history takes, one commit each: a load, or transactions between loads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from walrow._apply.calls import Work
from walrow._apply.clock import Reached, reached
from walrow._apply.items import Op, Token
from walrow._apply.keys import refuse_null_keys
from walrow._apply.modes import named
from walrow._apply.net_table import CHANGE_TYPES
from walrow._apply.tables import AppliedTable
from walrow._apply.units import columns_between
from walrow._late import pa, pc
from walrow._lsn import Lsn


class LoadPart(NamedTuple):
    """A load.

    Attributes:
        lsn: The LSN of its commit.
        end: Up to where the target has all changes after it.
        time: Its valid time, in microseconds since 1970.
        since: From when the target is true.
    """

    lsn: int
    end: Lsn
    time: int
    since: int | None


class TransactionsPart(NamedTuple):
    """Whole transactions without a load.

    Attributes:
        changes: Their changes of the table.
        end: Up to where the target has all changes after them.
        times: The valid time of each commit LSN.
        time: The greatest commit time up to the end. None if the log had no transaction.
        since: From when the target is true.
    """

    changes: pa.Table
    end: Lsn
    times: dict[int, int]
    time: int | None
    since: int | None


def dated(token: Token, part: LoadPart | TransactionsPart) -> Token:
    """The record of a part."""
    return token._replace(end=part.end, time=part.time, since=part.since)


def next_part(work: Work, limit: int) -> LoadPart | TransactionsPart | None:
    """The part of about `limit` bytes that the target takes next. None if one transaction is larger."""
    batch = work.batch
    if not batch.loads:
        return _transactions(work, int(batch.end), limit)
    first = batch.loads[0]
    if batch.barrier is None and first > batch.start:
        part = _transactions(work, first, limit)
        if part is None or len(part.changes):
            return part
    log, token = work.applied.log, _token(work)
    known = reached(log, int(batch.start), _time(work), [first], None)
    at = known.times[first]
    since = token.since if token is not None and batch.barrier is None else at
    return LoadPart(first, Lsn(known.ends[first]), at, since)


def _token(work: Work) -> Token | None:
    return None if work.found is None else work.found.token


def _time(work: Work) -> int | None:
    """The greatest commit time that the target has seen."""
    token, start = _token(work), int(work.batch.start)
    if token is not None:
        return token.time
    # A target without a record that goes on: the log knows it.
    return reached(work.applied.log, 0, None, [], start).time if start else None


def _transactions(work: Work, end: int, limit: int) -> TransactionsPart | None:
    """The next transactions before an LSN. None if one is larger than the limit."""
    start, token = int(work.batch.start), _token(work)
    changes, is_cut = _gathered(work.applied, start, end, limit)
    if changes is None:
        return None
    commits = _commits(changes)
    known = reached(
        work.applied.log, start, _time(work), commits, None if is_cut else end
    )
    if is_cut:
        end = known.ends[commits[-1]]
    since = _since(token, known, commits)
    return TransactionsPart(changes, Lsn(end), known.times, known.time, since)


def _since(token: Token | None, known: Reached, commits: list[int]) -> int | None:
    """From when the target is true: a table that was never loaded begins with its first change."""
    if token is not None:
        return token.since
    return known.times[commits[0]] if commits else None


def _commits(changes: pa.Table) -> list[int]:
    found: list[int] = pc.unique(changes.column(named("commit_lsn"))).to_pylist()
    return found


def _gathered(
    applied: AppliedTable, start: int, end: int, limit: int
) -> tuple[pa.Table | None, bool]:
    """The changes of whole transactions, and whether there are more. None if not one fits."""
    batches, size, is_cut = [], 0, False
    for batch in applied.changes(start, end):
        batches.append(batch)
        size += batch.nbytes + len(batch) * _ROW_BYTES
        if size > limit:
            is_cut = True
            break
    changes = pa.Table.from_batches(batches, applied.schema).combine_chunks()
    if is_cut:
        # The last transaction may not be whole.
        lsns = changes.column(named("commit_lsn"))
        changes = changes.filter(pc.not_equal(lsns, lsns[-1]))
        if not len(changes):
            return None, True
    return changes, is_cut


def loaded_rows(applied: AppliedTable, lsn: int) -> Iterator[pa.RecordBatch]:
    """The rows of a load, with metadata."""
    for batch in applied.changes(lsn, lsn + 1):
        kinds = batch.column(named("change_type"))
        yield batch.filter(pc.equal(kinds, CHANGE_TYPES[Op.INSERT]))


def opened_by_load(applied: AppliedTable, part: LoadPart) -> Iterator[pa.RecordBatch]:
    """The versions that a load opens in a history without open versions.

    Raises:
        ApplyError: A key is NULL.
    """
    kind = pa.timestamp("us", "UTC")
    since = pa.scalar(part.time, pa.int64()).cast(kind)
    for batch in loaded_rows(applied, part.lsn):
        refuse_null_keys(batch, applied)
        count = len(batch)
        columns = [batch.column(it) for it in applied.columns]
        found = dict(zip(applied.columns, columns, strict=True))
        found["_valid_from"] = pa.repeat(since, count)
        found["_valid_to"] = pa.nulls(count, kind)
        found["_is_current"] = pa.repeat(pa.scalar(True), count)
        found["_commit_lsn"] = batch.column(named("commit_lsn"))
        found["_seq"] = batch.column(named("seq"))
        yield pa.record_batch(found)


def loaded_columns(applied: AppliedTable, lsn: int) -> list[str]:
    """The columns that the table had at a load. Others are not part of it."""
    found = columns_between(applied.log, applied.table.oid, lsn, lsn + 1)
    return [it for it in applied.columns if it in found]


#: A fold needs about so much beside the values of a change.
_ROW_BYTES = 400
