"""The rows that a history and a target of changes must have, by a model after each transaction."""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import streams
import walrow
from spark.modelled import TYPES, Model, Moment, plain_row

Row = dict[str, Any]


def history_problem(
    rows: Sequence[Row], model: Model, moments: Sequence[Moment]
) -> str | None:
    """How a history differs from what the table was at each moment.

    Args:
        rows: The history.
        model: The table.
        moments: Its rows after each transaction. The history begins with the first load, or
            without a load, with the first transaction.
    """
    kinds = model.every
    keys = model.shape.keys
    found = [
        (
            plain_row(kinds, row),
            _micros(row["_valid_from"]),
            _until(row),
            row,
        )
        for row in rows
    ]
    origins: Counter[Any] = Counter()
    for row, since, until, whole in found:
        if until is not None and until <= since:
            return f"a version from {since} to {until}"
        if whole["_is_current"] != (until is None):
            return f"_is_current of {whole}"
        origins[whole["_commit_lsn"], *(row[key] for key in keys)] += 1
    if max(origins.values(), default=0) > 1:
        return f"two versions of a key in one transaction: {origins.most_common(1)}"
    first = next((at for at, it in enumerate(moments) if it.is_load), 0)
    for at, moment in enumerate(moments):
        later = moments[at + 1 :]
        if at < first or (later and later[0].time == moment.time):
            # Only the last one with its time is seen.
            continue
        of = {name: kinds[name] for name in moment.columns}
        wanted = Counter(_frozen(plain_row(of, row)) for row in moment.rows)
        end = later[0].time if later else moment.time + 1
        for time in {moment.time, end - 1}:
            true = Counter(
                _frozen({name: row[name] for name in of})
                for row, since, until, _ in found
                if since <= time and (until is None or until > time)
            )
            if true != wanted:
                return (
                    f"as of {time}: more {list((true - wanted).elements())[:2]}, less "
                    f"{list((wanted - true).elements())[:2]}"
                )
    return None


def state_problem(
    rows: Sequence[Row], model: Model, path: Path, since: int, source: random.Random
) -> str | None:
    """How a history differs from `Log.state` as of a random time, and at the end."""
    log = walrow.Log(path)
    start = since - streams.EPOCH
    last = max((_micros(row["_valid_from"]) for row in rows), default=start)
    time = source.randint(start, max(last, start) + 2)
    at = _EPOCH + dt.timedelta(microseconds=time)
    given: Row = {"types": TYPES} if "n" in model.columns else {}
    try:
        state = pa.table(log.state(f"public.{model.name}", as_of=at, **given))
    except walrow.errors.LogError as error:
        return None if error.code in ("too_early", "incomplete") else str(error)
    kinds = {name: model.every[name] for name in state.column_names}
    wanted = Counter(_frozen(plain_row(kinds, row)) for row in state.to_pylist())
    found = Counter(
        _frozen(plain_row(kinds, row))
        for row in rows
        if _micros(row["_valid_from"]) <= time
        and ((until := _until(row)) is None or until > time)
    )
    if found != wanted:
        return f"as of {at}: {found - wanted} and not {wanted - found}"
    return None


def changes_problem(rows: Sequence[Row], model: Model, path: Path) -> str | None:
    """How a target of changes differs from the changes in the log."""
    wanted: Counter[Any] = Counter()
    metadata = ["change_type", "commit_lsn", "seq", "key_only", "loaded"]
    given: Row = {"types": TYPES} if "n" in model.columns else {}
    log = walrow.Log(path)
    schema = log.schema(model.oid, metadata=metadata, **given)
    reader = log.read(table=model.oid, metadata=metadata, schema=schema, **given)
    names = ("_change_type", "_commit_lsn", "_seq", "_key_only", "_loaded")
    for batch in reader:
        for row in pa.record_batch(batch).to_pylist():
            own = _frozen(plain_row(model.every, row))
            wanted[(*(row[name] for name in names), own)] += 1
    found = Counter(
        (*(row[name] for name in names), _frozen(plain_row(model.every, row)))
        for row in rows
    )
    if found != wanted:
        return f"{list((found - wanted).elements())[:2]}, not {list((wanted - found).elements())[:2]}"
    return None


def _frozen(row: Row) -> tuple[Any, ...]:
    return tuple(sorted(row.items()))


def _micros(time: dt.datetime) -> int:
    """Microseconds since 2000, as the model counts them."""
    # Times of Spark's rows have no zone, and are local.
    return (time.astimezone(dt.UTC) - _EPOCH) // dt.timedelta(microseconds=1)


def _until(row: Row) -> int | None:
    return None if row["_valid_to"] is None else _micros(row["_valid_to"])


_EPOCH = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
assert (
    _EPOCH - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
).total_seconds() * 1_000_000 == streams.EPOCH
