"""In executors: the net changes of keys that rows leave and get, change by change.

Keys that are connected by key changes form a component. Its events are applied in their order
to the rows of its keys. A row that was there before the batch is only known by the key that it
had then, its *head*: values of it that were not sent come from the target later.

Old images may have more than the key: under REPLICA IDENTITY FULL, they are whole rows. Two
rows may then have one key until the end of a transaction, so a row is found by its image.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from walrow.errors import ApplyError, Error
from walrow.spark.apply_failures import report
from walrow.spark.apply_items import KEYS
from walrow.spark.change_rows import EVENT_COLUMNS, Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from walrow.log_items import LogVersion
    from walrow.spark.apply_items import Deletes

__all__ = ["COMPONENT", "KeyChanges", "components", "identity_of", "plain_tuples"]

#: The column that says which keys are folded together.
COMPONENT = "_walrow_component"

_KIND, _LSN, _SEQ, _UNSENT, _FROM = EVENT_COLUMNS


class _Row:
    """A row: for each column, the event that has its value.

    Attributes:
        head: The key under which the target has it. None if it was inserted.
        base: The event with its values. `_BEFORE` if the target has them.
        others: Columns with values from elsewhere: an event, `_BEFORE` or `_NEVER`.
        gone: Whether it was deleted, and is kept.
        since: The event that gave it its key. `_BEFORE` if none did.
    """

    __slots__ = ("base", "gone", "head", "others", "since")

    def __init__(self, head: Any, base: int, others: dict[str, int]) -> None:
        self.head = head
        self.base = base
        self.others = others
        self.gone = False
        self.since = _BEFORE

    def update(self, event: int, unsent: list[str]) -> _Row:
        """Takes all values that an event has."""
        old, base = self.others, self.base
        self.others = {name: old.get(name, base) for name in unsent}
        self.base = event
        self.gone = False
        return self


class KeyChanges(NamedTuple):
    """A function for `applyInArrow` over the events of a component: its net changes.

    Attributes:
        table: The table's name, for errors.
        keys: The columns of the key.
        deletes: What deletes do. Those that mark rows, or do nothing, keep their values.
        identity: If rows are found by their old images, what these have in all versions of
            the table: the columns that an update without one leaves as they are.
    """

    table: str
    keys: tuple[str, ...]
    deletes: Deletes
    identity: tuple[str, ...] | None

    def __call__(self, table: pa.Table) -> pa.Table:
        """Folds one component. The result has the columns of events."""
        order = [(_LSN, "ascending"), (_SEQ, "ascending")]
        events = table.drop_columns([COMPONENT]).sort_by(order).combine_chunks()
        try:
            return self._net(events, self._rows(events))
        except Error as error:
            report(error)
            raise

    def _rows(self, events: pa.Table) -> dict[Any, list[_Row]]:
        """The rows of each key at the end."""
        kinds = events.column(_KIND).to_pylist()
        lsns = events.column(_LSN).to_pylist()
        unsent = events.column(_UNSENT).to_pylist()
        keys = plain_tuples([events.column(key) for key in self.keys])
        origin = events.column(_FROM).combine_chunks()
        origins = plain_tuples([origin.field(at) for at in range(len(self.keys))])
        images = None
        if self.identity is not None:
            images = _Images(events, kinds, unsent, self.identity)
        rows: dict[Any, list[_Row]] = {}

        def at(key: Any) -> list[_Row]:
            return rows.setdefault(key, [_Row(key, _BEFORE, {})])

        def take(key: Any, image: int) -> _Row:
            found = at(key)
            if not found:
                return _Row(None, _NEVER, {})
            return found.pop(-1 if images is None else images.place(found, image))

        def put(key: Any, row: _Row) -> None:
            found = at(key)
            if images is None:
                # A key has one row, so whatever was there is gone.
                found.clear()
            found.append(row)
            if kinds[event] in (Kind.INSERT, Kind.ARRIVE):
                row.since = event

        old: int | None = None
        for event, kind in enumerate(kinds):
            key, columns = keys[event], unsent[event] or []
            image = event if old is None else old
            if kind in (Kind.OLD, Kind.LEAVE):
                old = event
                continue
            if kind in (Kind.INSERT, Kind.INSERT_GONE):
                put(key, _Row(None, event, dict.fromkeys(columns, _NEVER)))
                at(key)[-1].gone = kind == Kind.INSERT_GONE
            elif kind == Kind.UPDATE:
                put(key, take(key, image).update(event, columns))
            elif kind == Kind.ARRIVE:
                put(key, take(origins[event], image).update(event, columns))
            else:
                row = take(key, event)
                # A row that comes and goes in one transaction may do so beside the one before.
                is_brief = row.since != _BEFORE and lsns[row.since] == lsns[event]
                is_second = any(it.base == _BEFORE for it in at(key))
                if self.deletes != "apply" and not (is_brief and is_second):
                    put(key, row.update(event, columns))
                    row.gone = True
            old = None
        return rows

    def _net(self, events: pa.Table, rows: dict[Any, list[_Row]]) -> pa.Table:
        import pyarrow as pa

        keys = plain_tuples([events.column(key) for key in self.keys])
        #: An event with this key as its own.
        place = dict(zip(keys, range(len(keys)), strict=True))
        names = [name for name in events.column_names if name not in EVENT_COLUMNS]
        sources: dict[str, list[int | None]] = {name: [] for name in names}
        ends: list[int] = []
        heads: list[int | None] = []
        kinds: list[int] = []
        missing: list[list[str] | None] = []
        for key, found in rows.items():
            at, row = place[key], self._last(found)
            if row is not None and row.base == _BEFORE:
                # It is there as it was.
                continue
            others: dict[str, int] = {}
            if row is None:
                if self.deletes == "soft":
                    # What the row left stays behind, marked.
                    others = {name: _BEFORE for name in names if name not in self.keys}
                base, head = at, None
                kind = Kind.UPDATE_GONE if self.deletes == "soft" else Kind.DELETE
            else:
                base, others, head = row.base, row.others, row.head
                is_update = _BEFORE in others.values()
                kind = Kind.UPDATE if is_update else Kind.INSERT
                if row.gone and self.deletes == "soft":
                    kind += Kind.INSERT_GONE
                if not is_update:
                    head = None
            for name in names:
                source = others.get(name, base)
                sources[name].append(source if source >= 0 else None)
            absent = [name for name, source in others.items() if source < 0]
            ends.append(at)
            heads.append(None if head is None else place[head])
            kinds.append(kind)
            missing.append(absent or None)
        columns = {
            name: events.column(name).take(pa.array(indices, pa.int64()))
            for name, indices in sources.items()
        }
        origins = pa.array(heads, pa.int64())
        schema = events.schema
        columns[_KIND] = pa.array(kinds, schema.field(_KIND).type)
        columns[_UNSENT] = pa.array(missing, schema.field(_UNSENT).type)
        for name in (_LSN, _SEQ):
            columns[name] = events.column(name).take(pa.array(ends, pa.int64()))
        parts = [events.column(key).combine_chunks().take(origins) for key in self.keys]
        labels = [f"k{at}" for at in range(len(self.keys))]
        columns[_FROM] = pa.StructArray.from_arrays(
            parts, labels, mask=origins.is_null()
        )
        return pa.table([columns[name] for name in schema.names], schema.names)

    def _last(self, found: list[_Row]) -> _Row | None:
        """The row that a key has at the end, of those that were found there."""
        if len(found) < _TWO:
            return found[0] if found else None
        rows = [row for row in found if row.base != _BEFORE]
        rows = [row for row in rows if not row.gone] or rows[-1:]
        if len(rows) > 1:
            text = (
                f"{self.table}: several rows have one key ({', '.join(self.keys)}) at the "
                "end of a transaction"
            )
            raise ApplyError(
                text,
                code="duplicate_key",
                table=self.table,
                advice="; choose columns that are unique with ",
                remedies=(KEYS,),
            )
        return rows[0]


class _Images:
    """Finds rows by their old images.

    An update without one leaves the identity as it is, so its new image has the identity's
    columns of the old one.
    """

    def __init__(
        self,
        events: pa.Table,
        kinds: list[int],
        unsent: list[Any],
        identity: tuple[str, ...],
    ) -> None:
        self._values = {
            name: _plain(events.column(name))
            for name in events.column_names
            if name not in EVENT_COLUMNS
        }
        self._identity = [name for name in identity if name in self._values]
        self._kinds = kinds
        self._unsent = unsent

    def place(self, rows: list[_Row], image: int) -> int:
        """Which of the rows of a key has this image. A row from before may have any."""
        before = 0
        for place, row in enumerate(rows):
            if row.base == _BEFORE:
                before = place
            elif not row.gone and self._has(row, image):
                return place
        return before

    def _has(self, row: _Row, image: int) -> bool:
        is_new = self._kinds[image] == Kind.UPDATE
        unsent = self._unsent[image] or ()
        return all(
            self._values[name][row.base] == self._values[name][image]
            for name in (self._identity if is_new else self._values)
            if name not in row.others and name not in unsent
        )


def identity_of(versions: Sequence[LogVersion]) -> tuple[str, ...]:
    """The columns that are in the replica identity of all versions that have one."""
    found = [[it.name for it in version.columns if it.key] for version in versions]
    found = [names for names in found if names] or [[]]
    return tuple(name for name in found[-1] if all(name in each for each in found))


def components(pairs: Any) -> dict[int, int]:
    """Which keys are connected, from pairs of their hashes: a number for each of them."""
    parents: dict[int, int] = {}

    def root(key: int) -> int:
        while (parent := parents.setdefault(key, key)) != key:
            parents[key] = key = parents[parent]
        return key

    for one, other in pairs:
        parents[root(one)] = root(other)
    return {key: root(key) for key in list(parents)}


def plain_tuples(columns: list[Any]) -> list[tuple[Any, ...]]:
    """The rows of columns, as values that can be compared."""
    return list(zip(*map(_plain, columns), strict=True))


def _plain(column: Any) -> list[Any]:
    """Values that can be compared: Python lacks some times, and NaN is not equal to itself."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_timestamp(kind):
        return list(column.cast(pa.int64()).to_pylist())
    if pa.types.is_date32(kind):
        return list(column.cast(pa.int32()).to_pylist())
    if pa.types.is_floating(kind):
        return ["NaN" if it != it else it for it in column.to_pylist()]  # noqa: PLR0124
    if pa.types.is_nested(kind):
        return [repr(it) for it in column]
    return list(column.to_pylist())


_BEFORE, _NEVER = -1, -2
_TWO = 2
