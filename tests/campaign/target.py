"""Tables that follow a log, as a lake's do: by the refusal of `walrow.spark`, and the change rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

import walrow
from campaign.oracle import published, server_rows, shown
from campaign.steps import Fault

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from campaign.day import Day


Row = dict[str, str | None]


@dataclass
class Target:
    """A table that has a log's changes up to a position, with a record of it.

    Attributes:
        oid: The table on the server.
        rows: Its rows by `id`.
        position: Up to where it has the changes. 0: it has no changes yet. None: it has the rows
            from before the slot, and so it begins there.
        is_copied: Whether it began with these rows.
    """

    oid: int
    position: walrow.Lsn | None
    rows: dict[str, Row] = field(default_factory=dict)
    is_copied: bool = False

    @classmethod
    def of(cls, day: Day, name: str, *, is_copied: bool) -> Self:
        """A copy of the server's rows at the slot's start, or an empty table."""
        found = next(it for it in published(day) if it[1] == f"public.{name}")
        oid, full, columns, where = found
        if not is_copied:
            return cls(oid, walrow.Lsn(0))
        rows = [dict(it) for it in server_rows(day, full, columns, where)]
        return cls(oid, None, {str(it["id"]): it for it in rows}, is_copied=True)

    def apply(self, log: walrow.Log) -> bool:
        """Takes the new changes. False if it is refused."""
        from walrow._apply.units import LogContents
        from walrow._log.net_refusals import problems

        rows = dict(self.rows)
        try:
            contents = LogContents(log)
            table = contents.tables.tables.get(self.oid)
            if table is None:
                return False
            start = log.slot_start if self.position is None else self.position
            if start is None:
                return False
            if [*problems(log.location, table, start, log.end, log.end)]:
                return False
            schema = walrow.schema(log, self.oid, profile="text")
            # 0 would mean all that is left of a log that was pruned.
            begin = max(start, walrow.Lsn(1))
            batches = log.read(
                table=self.oid, start=begin, profile="text", schema=schema
            )
            for batch in batches:
                for row in pa.record_batch(batch).to_pylist():
                    if not take(rows, row):
                        return False
        except walrow.Error:
            return False
        self.rows, self.position = rows, log.end
        return True

    def compare(self, day: Day) -> None:
        """Compares it with the server, by the columns that the server has.

        Raises:
            Fault: It is another.
        """
        compare_with_server(day, self.oid, self.rows.values())

    def restore(self) -> None:
        """Does nothing: only a Delta table can be restored."""

    def lose(self) -> None:
        """Somebody removes it: it begins again, as its record is gone, too."""
        if not self.is_copied:
            self.rows, self.position = {}, walrow.Lsn(0)


def compare_with_server(
    day: Day,
    oid: int,
    rows: Iterable[Mapping[str, Any]],
    what: str = "the target of ",
    but: Collection[str] = (),
) -> None:
    """Compares the rows of a target with the rows of its table on the server, but for some columns.

    Raises:
        Fault: They are others.
    """
    if day.erased.get(oid) or day.is_partial or (oid in day.blind and not day.is_told):
        return
    rows = list(rows)
    for published_oid, name, every, where in published(day):
        if published_oid != oid:
            continue
        columns = [it for it in every if it not in but]
        expected = server_rows(day, name, columns, where)
        found = sorted(
            (tuple((it, row.get(it)) for it in columns) for row in rows), key=str
        )
        if found != expected:
            text = (
                f"{what}{name} is not the server's, and nothing says so: "
                f"{shown(found)}, server {shown(expected)}"
            )
            raise Fault(text)


def take(rows: dict[str, Row], row: dict[str, Any]) -> bool:
    """Takes a change row. False if it cannot be done, which a lake's table refuses."""
    kind, unsent = row["_change_type"], row["_unsent"] or ()
    values = {key: it for key, it in row.items() if not key.startswith("_")}
    key = values.get("id")
    if kind == "truncate":
        rows.clear()
    elif key is None:
        return False
    elif kind in {"delete", "update_preimage"}:
        before = rows.pop(key, None)
        if kind == "update_preimage" and before is not None:
            # The new row comes next, and may lack values.
            rows[""] = before
    else:
        before = rows.pop("", None) or rows.get(key, {})
        if any(it not in before for it in unsent):
            return False
        rows[key] = before | {it: v for it, v in values.items() if it not in unsent}
    return True
