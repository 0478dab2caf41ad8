"""The rows of a target that keeps old rows, whose changes were erased from the log."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from walrow._apply.items import Token
from walrow._apply.modes import LSN, SEQ, named
from walrow._apply.record import Record
from walrow._apply.tables import AppliedTable
from walrow._late import pa, pc
from walrow._log.erasures import read_erasures
from walrow._lsn import Lsn
from walrow.errors import ApplyError, Remedy

#: Whether a change row has the values before the change.
IMAGE = "_walrow_is_old"
#: The change types of such rows.
OLD_IMAGES = ("delete", "update_preimage")


def erased_rows(
    record: Record,
    applied: AppliedTable,
    token: Token,
    rows: Iterable[pa.RecordBatch],
) -> pa.Table:
    """Finds the rows of a target whose changes the log no longer has, by LSN, seq and `IMAGE`.

    Returns:
        The same columns of these rows.

    Raises:
        ApplyError: The target has rows from before the log, so it is unknown whether they were
            erased, and `resume_from` does not say that they are right.
    """
    schema = pa.schema([(LSN, pa.int64()), (SEQ, pa.int64()), (IMAGE, pa.bool_())])
    plain = (pa.record_batch(it.columns, schema=schema) for it in rows)
    target = pa.Table.from_batches(plain, schema)
    # The row of a gap has no seq.
    target = target.filter(pc.is_valid(target.column(SEQ)))
    # A log that was begun again lacks all earlier changes.
    start = max(int(applied.log.start), int(applied.log.slot_start or 0))
    is_known = pc.greater_equal(target.column(LSN), start)
    if record.rules.resume_from != token.end and not pc.all(is_known).as_py():
        raise _unknown(record, token, start)
    target = target.filter(is_known)
    left = target
    for stretch in record.contents.stretches(applied.table.oid):
        begin = max(int(stretch.start), applied.begin)
        end = min(int(stretch.end), int(token.end))
        if begin >= end:
            continue
        known = [_places(it) for it in applied.changes(begin, end)]
        if not known:
            continue
        is_here = pc.and_(
            pc.greater_equal(left.column(LSN), begin), pc.less(left.column(LSN), end)
        )
        here, others = left.filter(is_here), left.filter(pc.invert(is_here))
        if len(here):
            names = schema.names
            there = pa.Table.from_batches(known, schema)
            here = here.join(there, names, names, join_type="left anti")
        left = pa.concat_tables([others, here.cast(schema)])
    return left


def _places(changes: pa.RecordBatch) -> pa.RecordBatch:
    kinds = changes.column(named("change_type"))
    is_old = pc.is_in(kinds, value_set=pa.array(OLD_IMAGES))
    lsn, seq = (changes.column(named(it)) for it in ("commit_lsn", "seq"))
    return pa.record_batch([lsn, seq, is_old], [LSN, SEQ, IMAGE])


def erased_columns(
    record: Record, columns: Iterable[str], keys: Iterable[str]
) -> list[tuple[str, int]]:
    """The columns of a target whose values before an LSN were erased, with the LSN. Columns of a key are never among them."""
    found = read_erasures(record.contents.log.read_object).get(record.table.oid)
    gone = {} if found is None else found.columns
    own = {it.lower() for it in keys}
    known = {name.lower(): end for name, end in gone.items()}
    return [
        (name, known[name.lower()])
        for name in columns
        if name.lower() in known and name.lower() not in own
    ]


def _unknown(record: Record, token: Token, start: int) -> ApplyError:
    text = (
        f"{record.target}: rows or columns of {record.table.name} were erased from the log, and the "
        f"target has rows from before {Lsn(start)}, where the log begins: so it is not known which "
        "of them were erased. Delete the erased rows in the target, all versions of them, and "
        "go on once"
    )
    remedies: Any = (Remedy("resume_from", None, str(token.end)),)
    return record.error(text, code="erased", advice=" with ", remedies=remedies)
