"""Looks: the receiver takes all commits, and everything is compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import walrow
from campaign.oracle import compare, shown, state_rows
from campaign.steps import Fault, step

if TYPE_CHECKING:
    from campaign.day import Day


@step(is_harmless=True)
def look(day: Day) -> None:
    """The receiver takes all commits, looks, and ends. Everything is compared."""
    received(day)


def received(day: Day) -> bool:
    """As look. Whether everything was received."""
    day.end_together()
    was_up = day.is_up
    day.wait_for_receiver()
    day.down()
    day.script.append("-- a look")
    done = day.receive()
    if done.refusal is not None:
        if not day.is_risky:
            text = f"the receiver refuses without need: {done.refusal}"
            raise Fault(text) from done.refusal
        # The log's tables now differ from the server's tables.
        day.is_risky = True
        day.whole.clear()
        return False
    archive(day)
    compare(day)
    if was_up:
        day.up()
    return True


@step(is_harmless=True)
def look_back(day: Day) -> None:
    """Looks, and compares all tables at all earlier looks, by their names of then."""
    if not received(day) or day.erased:
        return
    log = walrow.Log(day.log)
    for it in day.past:
        try:
            state = log.state(it.name, as_of=it.end, profile="text")
            _, found = state_rows(state, without=set())
        except walrow.Error:
            continue
        # A column that was dropped or added is known with the first change after that.
        rows = sorted(
            (
                tuple((name, dict(row).get(name)) for name in it.columns)
                for row in found
            ),
            key=str,
        )
        if rows != it.rows:
            text = (
                f"{it.name} was another table at an earlier look, and nothing says so: "
                f"state {shown(rows)}, then {shown(it.rows)}"
            )
            raise Fault(text)


def archive(day: Day) -> None:
    """Notes the order of all changes, before anything removes them."""
    if day.loses_changes:
        return
    try:
        log = walrow.Log(day.log)
        day.archive += order(log.read(start=day.archived, batch_rows=1))
        day.archived = log.end
    except walrow.Error:
        day.loses_changes = True


def order(batches: object) -> list[tuple[int, int]]:
    """The LSN and seq of each change."""
    import pyarrow as pa

    found = []
    for batch in batches:  # type: ignore[attr-defined]
        rows = pa.record_batch(batch).select(["_commit_lsn", "_seq"]).to_pylist()
        found += [(int(row["_commit_lsn"]), int(row["_seq"])) for row in rows]
    return found
