"""Versions of rows: the changes of whole transactions close and open them in a history.

```text
change rows, valid times ─► Fold ─► keys to close, versions to open ─► rows for a MERGE
```

A transaction gives each key that it touches at most one version: the last one. If transactions have one
valid time, the last transaction counts, so that no version is empty. Values that the server did not send come from
the version before, and if that is the target's, from its open row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from walrow._apply.items import PREFIX, Op
from walrow._apply.keys import bad_key, key_values, numbered
from walrow._apply.modes import IS_CURRENT, LSN, SEQ, VALID_FROM, VALID_TO, named
from walrow._apply.net_table import CHANGE_TYPES, PREIMAGE, TRUNCATE
from walrow._apply.options import ApplyOptions
from walrow._apply.tables import AppliedTable
from walrow._apply.targets import never_sent
from walrow._late import pa, pc
from walrow._log.tables import identity

#: Before the number of a column of the key, in rows that close a version. NULL in others.
MERGE_KEY = f"{PREFIX}merge_key"
#: The source of a value that nobody sent.
_LOST = None

Key = Any
#: The number of a change row, or for the open row of the target, -1 minus the place of its key.
_Place = int | None


class Source(NamedTuple):
    """The rows of a MERGE, and its effect on other rows.

    Attributes:
        rows: The columns of the table and of versions, with the keys to close.
        closed: When all other open versions end, in microseconds since 1970. None if they stay.
        opened: The number of new versions.
        never_sent: How many of them have NULL for a value that was never sent.
    """

    rows: pa.Table
    closed: int | None
    opened: int
    never_sent: int = 0


class _Open(NamedTuple):
    """A version that is open: its valid time, and the number of its change row."""

    since: int
    row: int


class Fold:
    """The versions of a number of whole transactions.

    Attributes:
        wanted: Numbers of change rows whose keys the target must be asked for: values of its open
            rows are kept.
        columns: The columns of these values.
    """

    def __init__(
        self,
        applied: AppliedTable,
        rules: ApplyOptions,
        changes: pa.Table,
        times: Mapping[int, int],
    ) -> None:
        """Folds change rows, in their order, by the valid time of each commit LSN.

        Raises:
            ApplyError: A key is NULL, or two rows have it.
        """
        self.applied, self.rules, self.changes = applied, rules, changes
        self.wanted: list[int] = []
        self.columns: set[str] = set()
        key = set(applied.keys)
        #: The server may not keep the key unique. Then two rows may have it for a while.
        self._is_loose = any(identity(it) != key for it in applied.table.versions)
        #: The columns that updates without an old image leave as they are.
        self._identity = set(applied.columns).intersection(
            *(
                identity(it)
                for it in applied.table.versions
                if it.replica_identity in ("default", "index")
            )
        )
        #: By key, its open version, or None if it has no row. The target knows other keys.
        self._state: dict[Key, _Open | None] = {}
        #: By key, a change row with the key, and when the target's open version ends.
        self._closings: dict[Key, tuple[int, int]] = {}
        self._closed: int | None = None
        self._versions: list[tuple[int, int, int]] = []
        #: By change row and column, where a value that was not sent comes from.
        self._filled: dict[int, dict[str, _Place]] = {}
        self._slots: dict[Key, int] = {}
        # The transaction: rows by key, keys whose earlier row was taken, a change row of each key.
        self._rows: dict[Key, list[int]] = {}
        self._taken: set[Key] = set()
        self._arrived: set[Key] = set()
        self._touched: dict[Key, int] = {}
        self._fold(times)

    def _fold(self, times: Mapping[int, int]) -> None:
        changes = self.changes
        kinds = pa.array(CHANGE_TYPES)
        ops = pc.index_in(changes.column(named("change_type")), value_set=kinds)
        lsns = changes.column(named("commit_lsn")).to_pylist()
        self._key_only = changes.column(named("key_only")).to_pylist()
        unsent = changes.column(named("unsent"))
        lists = dict(_lists(unsent))
        self._keys = key_values([changes.column(it) for it in self.applied.keys])
        before: int | None = None
        at, time = None, 0
        for row, (op, lsn) in enumerate(zip(ops.to_pylist(), lsns, strict=True)):
            if lsn != at:
                self._commit(time)
                at, time = lsn, times[lsn]
            if op == TRUNCATE:
                self._truncate(time)
                continue
            key = self._keys[row]
            if key is None:
                raise bad_key(self.applied, "null_key", "is NULL")
            if op == PREIMAGE:
                before = row
            elif op == Op.INSERT:
                self._fill(row, lists, _LOST, None)
                if not self._is_loose:
                    self._taken.add(key)
                self._put(key, row)
            elif op == Op.UPDATE:
                old = key if before is None else self._keys[before]
                self._fill(row, lists, self._take(old, row, before), before)
                if old != key:
                    self._arrived.add(key)
                self._put(key, row)
                before = None
            else:
                self._take(key, row, row)
        self._commit(time)

    # ------------------------------------------------------------- a transaction

    def _put(self, key: Key, row: int) -> None:
        self._touched[key] = row
        if self._is_loose:
            self._rows.setdefault(key, []).append(row)
        else:
            self._rows[key] = [row]

    def _take(self, key: Key, row: int, image: int | None) -> _Place:
        """Takes the row of a key, and says where its values are.

        Args:
            key: The key that it has.
            row: The number of the change row.
            image: The number of its old image. None if the identity stays.
        """
        self._touched.setdefault(key, row if image is None else image)
        rows = self._rows.get(key)
        has_no_other = key in self._taken or self._is_gone(key)
        if rows and len(rows) == 1 and has_no_other:
            return rows.pop()
        if rows:
            place = self._match(rows, row if image is None else image, image)
            if place is None and has_no_other:
                place = 0
            if place is not None:
                return rows.pop(place)
        if key in self._taken:
            return _LOST
        self._taken.add(key)
        return self._before(key, row if image is None else image)

    def _is_gone(self, key: Key) -> bool:
        """Whether a key is known to have had no row before the transaction."""
        if key in self._state:
            return self._state[key] is None
        return self._closed is not None

    def _before(self, key: Key, row: int) -> _Place:
        """Where the values are that a key had before the transaction."""
        if key in self._state:
            version = self._state[key]
            return None if version is None else version.row
        if self._closed is not None:
            return None
        if key not in self._slots:
            self._slots[key] = len(self.wanted)
            self.wanted.append(row)
        return -1 - self._slots[key]

    def _match(self, rows: Sequence[int], row: int, image: int | None) -> int | None:
        """The place of the row that an image means, among the rows of a key. None without one."""
        columns = self.changes
        names: Iterable[str]
        if image is None:
            names = self._identity
        elif self._key_only[image]:
            # The identity of its version, which is not NULL.
            names = [
                it for it in self.applied.columns if columns.column(it)[row].is_valid
            ]
        else:
            names = self.applied.columns
        for place in reversed(range(len(rows))):
            filled = self._filled.get(rows[place], {})
            for name in names:
                if name not in columns.column_names:
                    continue
                at = filled.get(name, rows[place])
                if at is None or at < 0:
                    continue
                column = columns.column(name)
                if not _same(column[at], column[row]):
                    break
            else:
                return place
        return None

    def _fill(
        self,
        row: int,
        lists: Mapping[int, Sequence[str]],
        place: _Place,
        before: int | None,
    ) -> None:
        """Notes where the values come from that a row lacks."""
        names = lists.get(row)
        if not names:
            return
        if before is not None and not self._key_only[before]:
            # A whole old image has them.
            place = before
        known = self._filled.get(place, {}) if place is not None else {}
        self._filled[row] = {name: known.get(name, place) for name in names}

    def _truncate(self, time: int) -> None:
        if self.rules.truncates == "ignore":
            return
        for key, version in self._state.items():
            if version is not None:
                self._close(version, time)
                self._state[key] = None
        if self._closed is None:
            self._closed = time
        self._rows.clear()
        self._taken.clear()
        self._arrived.clear()
        self._touched.clear()

    def _commit(self, time: int) -> None:
        """Ends a transaction: each key has one row, or none."""
        for key, row in self._touched.items():
            rows = self._rows.get(key, ())
            known = self._state.get(key)
            beside = known is not None and key not in self._taken
            if len(rows) > 1 or (rows and beside and key in self._arrived):
                raise bad_key(
                    self.applied, "duplicate_key", "is not unique: two rows have it"
                )
            if not rows and key not in self._taken:
                # It came and went.
                continue
            if known is not None:
                self._close(known, time)
            elif key not in self._state and self._closed is None:
                self._closings[key] = (row, time)
            self._state[key] = _Open(time, rows[0]) if rows else None
        self._rows.clear()
        self._taken.clear()
        self._arrived.clear()
        self._touched.clear()

    def _close(self, version: _Open, time: int) -> None:
        if version.since < time:
            self._versions.append((version.row, version.since, time))

    # ------------------------------------------------------------------ the rows

    def needs(self) -> tuple[pa.Table, list[str]]:
        """The keys whose open rows the target must be asked for, and the columns.

        They have no rows if no value of the target is kept.
        """
        slots: set[int] = set()
        names: set[str] = set()
        for row in self._chosen():
            for name, place in self._filled.get(row, {}).items():
                if place is not None and place < 0 and name in self.applied.columns:
                    slots.add(-1 - place)
                    names.add(name)
        rows = [self.wanted[slot] for slot in sorted(slots)]
        keys = _at(self.changes.select(list(self.applied.keys)), rows)
        return keys, [it for it in self.applied.columns if it in names]

    def _chosen(self) -> list[int]:
        opened = [it.row for it in self._state.values() if it is not None]
        return [row for row, *_ in self._versions] + opened

    def source(self, kinds: pa.Schema, found: pa.Table | None) -> Source:
        """The rows of the MERGE.

        Args:
            kinds: The types that the target has for the table's columns, in their order.
            found: The open rows that `needs` asks for, with their keys.

        Raises:
            ApplyError: A value was never sent.
        """
        opened = [it for it in self._state.values() if it is not None]
        versions: list[tuple[int, int, int | None]] = [
            *self._versions,
            *((it.row, it.since, None) for it in opened),
        ]
        rows = [row for row, *_ in versions]
        places: dict[Key, int] = {}
        if found is not None:
            keys = key_values([found.column(it) for it in self.applied.keys])
            places = {key: at for at, key in enumerate(keys)}
        slots = {slot: places.get(key) for key, slot in self._slots.items()}
        count = len(self.changes)
        taken: dict[str, list[int | None]] = {}
        lost: set[int] = set()
        nullable = set(self.applied.nullable)
        for at, row in enumerate(rows):
            for name, place in self._filled.get(row, {}).items():
                if name not in self.applied.columns:
                    continue
                source = place
                is_known = place is not None
                if place is not None and place < 0:
                    own = slots[-1 - place]
                    is_known = own is not None
                    # A column that the target has just got is NULL in its rows.
                    has_it = found is not None and name in found.column_names
                    source = None if own is None or not has_it else count + own
                if not is_known and name not in nullable:
                    if self.rules.never_sent == "error":
                        raise never_sent(self.applied.table.name, name)
                    lost.add(at)
                taken.setdefault(name, list(rows))[at] = source
        columns = {}
        for name in self.applied.columns:
            column = _cast(self.changes.column(name), kinds.field(name).type)
            if found is not None and name in taken and name in found.column_names:
                more = _cast(found.column(name), column.type)
                column = pa.chunked_array([*column.chunks, *more.chunks], column.type)
            columns[name] = column.take(pa.array(taken.get(name, rows), pa.int64()))
        for name, origin in ((LSN, "commit_lsn"), (SEQ, "seq")):
            places = pa.array(rows, pa.int64())
            columns[name] = self.changes.column(named(origin)).take(places)
        columns[VALID_FROM] = pa.array([since for _, since, _ in versions], pa.int64())
        columns[VALID_TO] = pa.array([until for *_, until in versions], pa.int64())
        closings = list(self._closings.values())
        keys_closed = self.changes.select(list(self.applied.keys))
        ended = _at(keys_closed, [row for row, _ in closings]).append_column(
            VALID_TO, [pa.array([until for _, until in closings], pa.int64())]
        )
        found_rows = merge_rows(self.applied.keys, kinds, pa.table(columns), ended)
        return Source(found_rows, self._closed, len(versions), len(lost))


def merge_rows(
    keys: Sequence[str], kinds: pa.Schema, opened: pa.Table, ended: pa.Table
) -> pa.Table:
    """The rows of a MERGE: new versions, and keys whose open versions end.

    Times are in microseconds since 1970.

    Args:
        keys: The columns of the key.
        kinds: The types that the target has for the table's columns.
        opened: The new versions: the columns of the table and of a history, without `_is_current`.
        ended: The target's versions that end: their keys, and when.
    """

    def time(column: Any) -> Any:
        return column.cast(pa.timestamp("us", "UTC"))

    columns = {it.name: opened.column(it.name) for it in kinds}
    columns[VALID_FROM] = time(opened.column(VALID_FROM))
    columns[VALID_TO] = time(opened.column(VALID_TO))
    columns[IS_CURRENT] = opened.column(VALID_TO).is_null()
    columns |= {name: opened.column(name) for name in (LSN, SEQ)}
    closings = {VALID_TO: time(ended.column(VALID_TO))}
    for at, name in enumerate(keys):
        kind = kinds.field(name).type
        closings[f"{MERGE_KEY}{at}"] = _cast(ended.column(name), kind)
    tables = [pa.table(columns), pa.table(closings)]
    return pa.concat_tables(tables, promote_options="default")


def _at(table: pa.Table, rows: Sequence[int]) -> pa.Table:
    return table.take(pa.array(rows, pa.int64()))


def _lists(unsent: Any) -> list[tuple[int, list[str]]]:
    """The lists that are not NULL, with their numbers."""
    if unsent.null_count == len(unsent):
        return []
    places = pc.indices_nonzero(unsent.is_valid())
    kept = unsent.take(places.cast(pa.int64()))
    return list(zip(places.to_pylist(), kept.to_pylist(), strict=True))


def _same(one: pa.Scalar[Any], other: pa.Scalar[Any]) -> bool:
    """Whether two values of one column are equal. NaN equals NaN."""
    first, second = (it.cast(numbered(it.type)).as_py() for it in (one, other))
    return bool(
        first == second or (first != first and second != second)  # noqa: PLR0124
    )


def _cast(column: Any, kind: pa.DataType) -> Any:
    # A value that does not fit was refused before, and is an error here.
    return column if column.type.equals(kind) else column.cast(kind, safe=True)
