"""Tables that follow by the public functions: `Log.net` into SQLite, and Delta tables in three modes."""

from __future__ import annotations

import contextlib
import sqlite3
import uuid
from typing import TYPE_CHECKING, Any, Literal

import walrow
import walrow.delta
from campaign.looking import received
from campaign.oracle import needed, published
from campaign.steps import step
from campaign.target import compare_with_server, take
from sqlite_target import apply

if TYPE_CHECKING:
    from campaign.day import Day


MODES: tuple[Literal["current", "history", "changes"] | None, ...] = (
    None,
    "current",
    "history",
    "changes",
)


@step(6, 4)
def follow_table(day: Day, table: int, mode: int) -> None:
    """A target takes the new changes of a published table, after a look: the last one or a new one.

    The mode None is net changes, into SQLite.
    """
    if not received(day):
        return
    tables = [it for it in published(day) if '"' not in it[1]]
    roots = f"SELECT {day.focus}, pg_partition_root({day.focus})::oid::bigint"
    tables.sort(key=lambda it: (it[0] not in day.sql(roots)[0], it[0]))
    if not tables:
        return
    oid, name, *_ = tables[table % len(tables)]
    if (name, mode) not in day.followers:
        day.followers[name, mode] = Follower(day, name, MODES[mode])
        kind = f"SELECT atttypid::regtype::text FROM pg_attribute WHERE attrelid = {oid} AND attname = 'id'"  # noqa: S608
        for (type_,) in day.ask(kind) if MODES[mode] != "changes" else ():
            day.followers[name, mode].options = _OPTIONS.get(type_, {})
    # A look costs more: all that follow take their changes.
    known = {name: oid for oid, name, _, _ in tables}
    for each in [it for it in day.followers if it[0] in known]:
        _follow(day, known[each[0]], *each)


def _follow(day: Day, oid: int, name: str, mode: int) -> None:
    follower = day.followers[name, mode]
    what = f"{MODES[mode] or 'net'} of "
    day.script.append(f"-- {what}{name}")
    try:
        has_key = day.sql(
            f"SELECT 1 FROM pg_index WHERE indrelid = {oid} AND indisprimary"  # noqa: S608
        )
        rows = follower.rows(walrow.Log(day.log), None if has_key else ["id"])
    except walrow.Error:
        # Its user makes a new follower, as the message says.
        del day.followers[name, mode]
        return
    # Changes are the stream's, under the names of then. They are not refused because of a mark.
    is_like_stream = oid not in day.renamed and oid not in needed(walrow.Log(day.log))
    # Of rows with one key, targets have the last one, unless one transaction makes both.
    equal = f"SELECT 1 FROM {name} GROUP BY id HAVING count(*) > 1 OR id IS NULL"  # noqa: S608
    if not has_key and mode and day.ask(equal):
        return
    if rows is not None and (MODES[mode] != "changes" or is_like_stream):
        but = {"id"} if follower.options else set()
        compare_with_server(day, oid, rows, what, but=but)


@step(6, 3)
def follow_lake(day: Day, table: int, mode: int) -> None:
    """The same, of a Delta table."""
    follow_table(day, table, mode + 1)


class Follower:
    """A target of a table, by its name.

    Attributes:
        options: Options that would make keys equal, or NULL, if they took effect on keys.
    """

    def __init__(
        self, day: Day, name: str, mode: Literal["current", "history", "changes"] | None
    ) -> None:
        """Makes none yet."""
        self.name = name
        self.mode = mode
        self.path = day.directory / f"{mode}-{uuid.uuid4().hex[:8]}"
        self.oid: int | None = None
        self.options: dict[str, Any] = {}

    def rows(
        self, log: walrow.Log, keys: list[str] | None
    ) -> list[dict[str, Any]] | None:
        """Takes the new changes, by these keys if the table has none, and returns its rows as text. None if they cannot be known.

        Raises:
            Error: It is refused.
        """
        if self.mode is None:
            return self._net(log)
        walrow.delta.apply_changes(
            log,
            table=self.name,
            target=f"delta:{self.path}",
            mode=self.mode,
            keys=None if self.mode == "changes" else keys,
            **self.options,
        )
        from deltalake import DeltaTable

        found = DeltaTable(str(self.path)).to_pyarrow_table().to_pylist()
        if self.mode == "history":
            found = [row for row in found if row["_is_current"]]
        if self.mode == "changes":
            folded: dict[str, Any] = {}
            found.sort(key=lambda row: (row["_commit_lsn"], row["_seq"]))
            if not all(take(folded, row) for row in found):
                return None
            found = list(folded.values())
        texts = [
            {key: None if it is None else str(it) for key, it in row.items()}
            for row in found
        ]
        return _by_key(texts) if self.options else texts

    def _net(self, log: walrow.Log) -> list[dict[str, Any]] | None:
        oid = log.net(self.name, start=log.end, profile="text").oid
        if self.oid is None:
            self.oid = oid
        if self.oid != oid:
            # docs/net.md demands it.
            text = "another table has the name"
            raise walrow.errors.SchemaError(text)
        if self.options:
            return self._least(log)
        with sqlite3.connect(self.path, isolation_level=None) as db:
            apply(log, self.name, db)
            db.row_factory = sqlite3.Row
            found = db.execute(f'SELECT * FROM "{self.name}"').fetchall()  # noqa: S608
        return [dict(row) for row in found]

    def _least(self, log: walrow.Log) -> list[dict[str, Any]] | None:
        """Reads the state and the net changes, and returns the rows with fewer keys. None if both are refused."""
        found = []
        with contextlib.suppress(walrow.Error):
            state = log.state(self.name, **self.options)
            found.append(_by_key(state.to_pyarrow().to_pylist()))
        with contextlib.suppress(walrow.Error):
            net = log.net(self.name, start=0, **self.options).to_pyarrow().to_pylist()
            kept = [row for row in net if row["_change_type"] != "delete"]
            found.append(_by_key(kept))
        return min(found, key=len, default=None)


def _by_key(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows whose keys are neither NULL nor equal."""
    return list({row["id"]: row for row in rows if row["id"] is not None}.values())


#: By the type of `id`: see `fresh_key`.
_OPTIONS: dict[str, dict[str, Any]] = {
    "numeric": {"types": {"id": "float64"}},
    "date": {"unrepresentable": "null"},
}
