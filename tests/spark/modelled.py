"""A table of a server that is not there: changes by chance, as pgoutput, and the rows after them.

A seed determines everything. The rows are kept in plain Python, change by change, so they are what a
server would have. Values are PostgreSQL's texts.
"""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import streams
import walrow
from walrow._core import LogWriter

INT4, TEXT, FLOAT8, NUMERIC = 23, 25, 701, 1700
#: Too large for its row, and so only sent if it changes.
LARGE = 200

Row = dict[str, str | None]
Key = tuple[Any, ...]


class Shape(NamedTuple):
    """How a table's rows are found.

    Attributes:
        primary: The columns of the primary key, or of the index, and their types.
        keys: The columns of the target's key.
        identity: The replica identity's letter: `d`, `i` or `f`.
        is_loose: Whether two rows may have one key until the end of a transaction.
    """

    primary: dict[str, int]
    keys: tuple[str, ...]
    identity: str = "d"
    is_loose: bool = False


SHAPES = {
    "key": Shape({"id": INT4}, ("id",)),
    "pair": Shape({"id": INT4, "k": TEXT}, ("id", "k")),
    # The target's key is a part of the server's.
    "part": Shape({"id": INT4, "k": TEXT}, ("id",), is_loose=True),
    "index": Shape({"k": TEXT}, ("k",), "i"),
    "full": Shape({"id": INT4}, ("id",), "f"),
    # A deferrable constraint.
    "late": Shape({"id": INT4}, ("id",), "f", is_loose=True),
    # Equal values have several texts: 1.5 and 1.50, 0 and -0.
    "digits": Shape({"n": NUMERIC}, ("n",)),
    "zeros": Shape({"f": FLOAT8}, ("f",)),
}
VALUES = {"a": INT4, "b": TEXT, "big": TEXT, "big2": TEXT}
#: The decoder's `types`: the target compares decimals.
TYPES = {"n": "decimal128(20, 4)"}


class Left(NamedTuple):
    """The rows that a batch leaves behind if deletes mark rows, or do nothing.

    Attributes:
        rows: By key, the last values of rows that were deleted. None if they do not matter.
        is_cleared: Whether a truncate or a load came.
        is_truncated: Whether a truncate came.
    """

    rows: dict[Key, Row | None]
    is_cleared: bool = False
    is_truncated: bool = False


class Model:
    """A table, and the changes that give its rows.

    Attributes:
        rows: The rows.
        left: The rows that the current batch leaves behind.
    """

    def __init__(
        self, source: random.Random, shape: Shape, oid: int, name: str, keys: int = 12
    ) -> None:
        """Stores the arguments. There are about so many keys."""
        self.random = source
        self.shape = shape
        self.oid = oid
        self.name = name
        self.domain = keys
        self.columns = {**shape.primary, **VALUES}
        #: All columns that there were.
        self.every = dict(self.columns)
        self.rows: list[Row] = []
        self.added = 0
        self.is_described = False
        #: Binary values are sent.
        self.is_binary = False
        #: Row filters can make an insert of an update, which then lacks values.
        self.lacks = 0.0
        self._born: dict[int, int] = {}
        self._transaction = 0
        self.left = Left({})
        self._messages: list[bytes] = []

    # ------------------------------------------------------------------ batches

    def begin_batch(self) -> None:
        """Forgets what earlier batches have left behind."""
        self.left = Left({})

    def key(self, row: Row) -> Key:
        """The key of a row, as the target compares it."""
        return tuple(
            _compared(self.every[name], row[name] or "") for name in self.shape.keys
        )

    def transaction(self, changes: int | None = None) -> list[bytes]:
        """The messages of a random transaction, without Begin and Commit."""
        self._transaction += 1
        self._messages = []
        if not self.is_described or self.random.random() < _ALTERS:
            self._alter()
        for _ in range(changes or self.random.randint(1, 5)):
            kinds = {
                self._insert: 30,
                self._update: 30,
                self._move: 14,
                self._swap: 6,
                self._delete: 12,
                self._put_again: 8,
                self._come_and_go: 5,
                self._truncate: 1,
            }
            (kind,) = self.random.choices(list(kinds), list(kinds.values()))
            kind()
        self._separate()
        return self._messages

    def loaded(self) -> None:
        """Notes that all rows were loaded. The server has no values of dropped columns."""
        for row in self.rows:
            row.update(dict.fromkeys(self.every.keys() - self.columns.keys()))
        self.left = Left({}, is_cleared=True, is_truncated=self.left.is_truncated)

    # ------------------------------------------------------------------ changes

    def _alter(self) -> None:
        """Adds or drops a column, or only describes the table."""
        if self.is_described:
            extra = [it for it in self.columns if it.startswith("x")]
            if extra and self.random.random() < _HALF:
                del self.columns[self.random.choice(extra)]
            else:
                self.added += 1
                name = f"x{self.added}"
                self.columns[name] = self.every[name] = TEXT
                for row in self.rows:
                    row[name] = None
        self.is_described = True
        is_full = self.shape.identity == "f"
        columns = [
            streams.Column(name, oid, is_key=is_full or name in self.shape.primary)
            for name, oid in self.columns.items()
        ]
        self._messages.append(
            streams.relation(columns, self.oid, self.name, identity=self.shape.identity)
        )

    def _insert(self) -> None:
        for _ in range(self.random.randint(1, 3)):
            key = self._free()
            if key is not None:
                self._put(key | self._values())

    def _put(self, row: Row) -> Row:
        row = {name: row.get(name) for name in self.every}
        self.rows.append(row)
        self._born[id(row)] = self._transaction
        cells = self._cells(row)
        if self.random.random() < self.lacks:
            place = list(self.columns).index("big2")
            cells[place] = streams.UNSENT
        self._messages.append(streams.insert(cells, self.oid))
        self.left.rows.pop(self.key(row), None)
        return row

    def _update(self) -> None:
        for row in self._some():
            self._change(row, self._values(self.random.randint(0, 3)))

    def _move(self) -> None:
        """A row gets another key, sometimes several times, or the same one again."""
        for row in self._some(1):
            first = {name: row[name] for name in self.shape.primary}
            for _ in range(self.random.choice((1, 1, 2, 3))):
                if (key := self._free(near=row)) is not None:
                    self._change(row, key | self._values(self.random.randint(0, 2)))
            if self.random.random() < _BACK and self._is_free(first):
                self._change(row, first)

    def _swap(self) -> None:
        """Two rows swap their keys, through a third one. Or all keys move by one."""
        if self.shape.is_loose and self.random.random() < _HALF:
            for row in self.random.sample(self.rows, len(self.rows)):
                key = {it: row[it] for it in self.shape.primary}
                key["id"] = str(int(row["id"] or 0) + 1)
                # Only a deferred constraint lets two rows have one key of the server.
                if self.shape.identity == "f" or self._is_free(key, beside=row):
                    self._change(row, key)
            return
        rows = self._some(2)
        free = self._free()
        if len(rows) < _TWO or free is None:
            return
        one, two = rows
        keys = [{name: it[name] for name in self.shape.primary} for it in rows]
        self._change(one, free)
        self._change(two, keys[0])
        self._change(one, keys[1])

    def _delete(self) -> None:
        for row in self._some():
            self._remove(row)

    def _put_again(self) -> None:
        """Another row with the key of one that was there."""
        for row in self._some(1):
            key = {name: row[name] for name in self.shape.primary}
            if self.shape.is_loose and self.random.random() < _HALF:
                if "k" in key:
                    key["k"] = self._word()
                    if not self._is_free(key):
                        return
                other = self._put(key | self._values())
                if self.random.random() < _HALF:
                    self._change(
                        self.random.choice((row, other)),
                        self._values(self.random.randint(1, 3)),
                    )
                self._remove(self.random.choice((row, row, other)))
                return
            self._remove(row)
            if self.random.random() < _HALF and self._is_free(key):
                self._put(key | self._values())

    def _come_and_go(self) -> None:
        if (key := self._free()) is None:
            return
        row = self._put(key | self._values())
        if self.random.random() < _HALF:
            self._change(row, self._values(1))
        self._remove(row)

    def _truncate(self) -> None:
        self._messages.append(streams.truncate(self.oid))
        self.rows.clear()
        self.left = Left({}, is_cleared=True, is_truncated=True)

    def _separate(self) -> None:
        """At the end of a transaction, a key has one row."""
        seen: set[Key] = set()
        for row in list(self.rows):
            key = self.key(row)
            if key in seen:
                free = self._free(near=row)
                if free is None or self.random.random() < _HALF:
                    self._remove(row)
                    continue
                self._change(row, free)
                key = self.key(row)
                if sum(self.key(it) == key for it in self.rows) > 1:
                    self._remove(row)
                    continue
            seen.add(key)

    # ------------------------------------------------------------------- pieces

    def _change(self, row: Row, values: Row) -> None:
        before = dict(row)
        row.update({it: v for it, v in values.items() if it in self.columns})
        cells = self._cells(row)
        for place, name in enumerate(self.columns):
            value = row[name]
            if value == before[name] and value is not None and len(value) >= LARGE:
                cells[place] = streams.UNSENT
        key = None
        is_full = self.shape.identity == "f"
        if is_full:
            key = self._cells(before)
        elif any(row[name] != before[name] for name in self.shape.primary):
            key = self._identity(before)
        self._messages.append(streams.update(cells, self.oid, key, is_whole=is_full))
        was, now = self.key(before), self.key(row)
        if was != now:
            if all(self.key(it) != was for it in self.rows):
                self.left.rows[was] = None
            self._born[id(row)] = self._transaction
        self.left.rows.pop(now, None)

    def _remove(self, row: Row) -> None:
        is_full = self.shape.identity == "f"
        old = self._cells(row) if is_full else self._identity(row)
        self._messages.append(streams.delete(old, self.oid, is_whole=is_full))
        self.rows = [it for it in self.rows if it is not row]
        key = self.key(row)
        is_brief = self._born.get(id(row)) == self._transaction
        has_more = is_full or set(self.shape.keys) < set(self.shape.primary)
        if all(self.key(it) != key for it in self.rows):
            # Whether a row is kept that comes and goes in one transaction is not promised then.
            self.left.rows[key] = None if is_brief and has_more else dict(row)

    def _identity(self, row: Row) -> list[streams.Cell]:
        cells = self._cells(row)
        return [
            cell if name in self.shape.primary else None
            for name, cell in zip(self.columns, cells, strict=True)
        ]

    def _cells(self, row: Row) -> list[streams.Cell]:
        found: list[streams.Cell] = []
        for name, oid in self.columns.items():
            value = row[name]
            if value is None or not self.is_binary:
                found.append(value)
            elif oid == INT4:
                found.append(struct.pack("!i", int(value)))
            elif oid == FLOAT8:
                found.append(struct.pack("!d", float(value)))
            elif oid == TEXT:
                found.append(value.encode())
            else:
                found.append(value)
        return found

    def _some(self, count: int | None = None) -> list[Row]:
        count = min(count or self.random.randint(1, 3), len(self.rows))
        return self.random.sample(self.rows, count)

    def _word(self) -> str:
        return f"k{self.random.randrange(self.domain)}"

    def _free(self, near: Row | None = None) -> Row | None:
        """A key that no row has."""
        for _ in range(8):
            key: Row = {
                name: self._drawn(oid, near) for name, oid in self.shape.primary.items()
            }
            if near is not None and len(key) > 1 and self.random.random() < _HALF:
                kept = self.random.choice(list(key))
                key[kept] = near[kept]
            if self._is_free(key, beside=near):
                return key
        return None

    def _drawn(self, oid: int, near: Row | None) -> str:
        number = self.random.randrange(self.domain)
        if oid == INT4:
            return str(number)
        if oid == FLOAT8:
            return self.random.choice(("0", "-0", "NaN", f"{number}", f"{number}.5"))
        if oid == NUMERIC:
            # Often the same number with other digits.
            digits = "0" * self.random.randrange(3)
            if near is not None and self.random.random() < _HALF:
                number = int(float(near["n"] or 0))
            return f"{number}.5{digits}"
        return self._word()

    def _is_free(self, key: Row, beside: Row | None = None) -> bool:
        """Whether no other row has this primary key, and if keys are strict, the target's."""

        def compared(row: Row, names: Iterable[str]) -> Key:
            return tuple(_compared(self.every[it], row[it] or "") for it in names)

        wanted = compared(key, self.shape.primary)
        for row in self.rows:
            if row is beside:
                continue
            if compared(row, self.shape.primary) == wanted:
                return False
            if not self.shape.is_loose and self.key(row) == compared(
                key, self.shape.keys
            ):
                return False
        return True

    def _values(self, count: int | None = None) -> Row:
        """New values of some columns."""
        names = [it for it in self.columns if it not in self.shape.primary]
        if count is not None:
            names = self.random.sample(names, min(count, len(names)))
        return {name: self._value(name) for name in names}

    def _value(self, name: str) -> str | None:
        if self.random.random() < _NULLS:
            return None
        if self.columns[name] == INT4:
            return str(self.random.randrange(4))
        word = f"v{self.random.randrange(1000)}"
        if name.startswith("big") and self.random.random() < _LARGE:
            return word.ljust(LARGE, "x")
        return word

    def catalog(self) -> str:
        """The table as a catalog's JSON, for loads."""
        columns = [
            {
                "name": name,
                "type": oid,
                "type_modifier": -1,
                "key": self.shape.identity == "f" or name in self.shape.primary,
            }
            for name, oid in self.columns.items()
        ]
        table = {"schema": "public", "name": self.name, "oid": self.oid}
        return json.dumps({"types": [], "tables": [{**table, "columns": columns}]})

    def copied(self) -> bytes:
        """The rows as COPY gives them."""
        lines = (
            "\t".join("\\N" if row[it] is None else str(row[it]) for it in self.columns)
            for row in self.rows
        )
        return "".join(f"{line}\n" for line in lines).encode()


class Expected:
    """The rows that a target must have after each batch.

    Attributes:
        model: The table.
        deletes: The effect of deletes: `apply`, `soft` or `ignore`.
        live: The rows of the table, by key.
        gone: Other rows that the target keeps. None where it may have any row, or none.
    """

    def __init__(self, model: Model, deletes: str) -> None:
        """Stores the arguments. The target has no rows yet."""
        self.model = model
        self.deletes = deletes
        self.live: dict[Key, Row] = {}
        self.gone: dict[Key, Row | None] = {}

    def take(self) -> None:
        """Takes the model's finished batch, and begins the next."""
        model, left = self.model, self.model.left
        gone: dict[Key, Row | None] = {}
        if self.deletes != "apply":
            is_emptied = self.deletes == "ignore" and left.is_truncated
            gone = {} if is_emptied else dict(self.gone)
            if left.is_cleared and not is_emptied:
                gone |= self.live
            gone |= left.rows
        self.live = {model.key(row): dict(row) for row in model.rows}
        self.gone = {key: row for key, row in gone.items() if key not in self.live}
        model.begin_batch()

    def problem(self, found: list[dict[str, Any]], mark: str) -> str | None:
        """How the rows of a target differ. `mark` is the column of deleted rows."""
        columns = self.model.every
        rows: dict[Key, dict[str, Any]] = {}
        for row in found:
            # Some come as texts.
            plain = {
                it: None if row.get(it) is None else _plain(_value(oid, str(row[it])))
                for it, oid in columns.items()
            }
            key = tuple(plain[name] for name in self.model.shape.keys)
            if key in rows:
                return f"two rows have the key {key}"
            rows[key] = plain | {mark: row.get(mark)}
        both: Any = ((self.live, False), (self.gone, True))
        for wanted, is_gone in both:
            for values in wanted.values():
                if values is None:
                    continue
                plain = {
                    it: _plain(_value(columns[it], values.get(it))) for it in columns
                }
                key = tuple(plain[name] for name in self.model.shape.keys)
                has = rows.pop(key, None)
                if has is None:
                    return f"no row {key}, is_gone={is_gone}"
                if self.deletes == "soft" and bool(has[mark]) != is_gone:
                    return f"row {key} has {mark} {has[mark]}"
                if any(has[it] != plain[it] for it in columns):
                    return f"row {key} is {has}, and not {plain}"
        may_be = {
            tuple(
                _plain(_value(columns[name], str(part)))
                for name, part in zip(self.model.shape.keys, key, strict=True)
            )
            for key, row in self.gone.items()
            if row is None
        }
        more = {
            key
            for key, row in rows.items()
            if key not in may_be or (self.deletes == "soft" and not row[mark])
        }
        return f"rows that should not be there: {more}" if more else None


class Moment(NamedTuple):
    """The rows of a table after a transaction.

    Attributes:
        time: The greatest commit time so far, in microseconds since 2000.
        columns: The columns that the table had.
        rows: The rows.
        is_load: Whether it was a load.
    """

    time: int
    columns: tuple[str, ...]
    rows: list[Row]
    is_load: bool


class Moments:
    """The transactions of a log, each with a time by chance.

    Attributes:
        of: The moments of each table, by OID.
    """

    def __init__(self) -> None:
        """Begins in 2024."""
        self._time = self._greatest = streams.TIME
        self.of: dict[int, list[Moment]] = {}

    def next_time(self, source: random.Random) -> int:
        """The next commit time. Often it is the same one, or an earlier one."""
        self._time += source.choice((0, 0, -1_500_000, 1, 1_000_000, 60_000_000))
        self._greatest = max(self._greatest, self._time)
        return self._time

    def note(self, models: Iterable[Model], *, is_load: bool = False) -> None:
        """Notes what a transaction has made of tables."""
        for model in models:
            moment = Moment(
                self._greatest,
                tuple(model.columns),
                [dict(row) for row in model.rows],
                is_load,
            )
            self.of.setdefault(model.oid, []).append(moment)


class ModelLog:
    """A log that takes the changes of models."""

    def __init__(self, path: Path, segment_size: int = 20_000) -> None:
        """Creates it."""
        self.path = path
        self.lsn = 0x1000
        #: If it is set, transactions have times by chance, and each is noted.
        self.moments: Moments | None = None
        self.writer = LogWriter(
            path,
            segment_bytes=segment_size,
            level=1,
            spool_memory=1 << 20,
            framing="message",
            syncs=False,
            system_identifier="7",
            database="modelled",
            slot="modelled",
        )

    def take(self, *models: Model, transactions: int) -> None:
        """Takes so many transactions, each of some of the tables, and publishes them."""
        source = models[0].random
        self.writer.next_session()
        for model in models:
            # Each session describes its tables again.
            model.is_described = False
        for _ in range(transactions):
            chosen = [it for it in models if source.random() < _HALF] or [models[0]]
            messages = [message for it in chosen for message in it.transaction()]
            self.lsn += 0x100
            time = None if self.moments is None else self.moments.next_time(source)
            for message in (
                streams.begin(xid=self.lsn, lsn=self.lsn, time=time),
                *messages,
                streams.commit(lsn=self.lsn, time=time),
            ):
                self.writer.append(message)
            if self.moments is not None:
                self.moments.note(chosen)
            if self.writer.is_full or source.random() < _CUTS:
                self.writer.sync()
                self.writer.publish()
        self.writer.sync()
        self.writer.publish()

    def load(self, model: Model) -> None:
        """Loads a table."""
        self.lsn += 0x100
        catalog = walrow.Catalog.from_json(model.catalog())
        time = 0
        if self.moments is not None:
            time = streams.EPOCH + self.moments.next_time(model.random)
        load = self.writer.begin_load(
            self.lsn, time, catalog, [(model.oid, model.shape.identity)]
        )
        load.copy(0, binary=False).append(model.copied())
        self.lsn += 0x100
        self.writer.advance(self.lsn)
        self.writer.sync()
        assert self.writer.end_load(load)
        self.writer.publish()
        model.loaded()
        if self.moments is not None:
            self.moments.note([model], is_load=True)

    def close(self) -> None:
        """Closes its writer."""
        self.writer.close()


def _compared(oid: int, value: str) -> Any:
    """A value of a key, so that equal ones are equal."""
    if oid in (FLOAT8, NUMERIC):
        return "NaN" if value == "NaN" else float(value) + 0.0
    return int(value) if oid == INT4 else value


def _value(oid: int, text: str | None) -> Any:
    """A value as Spark gives it."""
    if text is None:
        return None
    kinds: dict[int, Any] = {INT4: int, FLOAT8: float, NUMERIC: Decimal}
    return kinds.get(oid, str)(text)


def plain_row(kinds: dict[str, int], row: Mapping[str, Any]) -> dict[str, str | None]:
    """A row whose values can be compared, whether they are texts or a target's."""
    return {
        name: None if row.get(name) is None else _plain(_value(oid, str(row[name])))
        for name, oid in kinds.items()
    }


def _plain(value: Any) -> str | None:
    """A value that can be compared: equal numbers have one text."""
    if isinstance(value, float):
        return repr(value + 0.0)
    if isinstance(value, Decimal):
        return str(value.normalize())
    return None if value is None else str(value)


_HALF, _BACK, _CUTS, _NULLS, _LARGE, _ALTERS = 0.5, 0.15, 0.1, 0.1, 0.6, 0.03
_TWO = 2
