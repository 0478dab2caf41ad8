"""The table that a name means, for everything that reads a log.

A name means the table that has it. At the end of the log, the receiver's last look and the changes
after it say which table that is. At an earlier position, the changes before it do, and the record
of the names that got another table.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from operator import add
from typing import TypeAlias

from walrow._core import LogDirectory, LogFile
from walrow._log.items import LogColumn, LogTable, LogVersion
from walrow._log.left import Ruling, split
from walrow._log.marks import needs_of
from walrow._log.published import Published
from walrow._lsn import Lsn
from walrow._read.reading import frames
from walrow._sources.logs import OpenedLog, is_named
from walrow.errors import SchemaError
from walrow.typing import TableName

_Pair: TypeAlias = tuple[str, str]


def tables_of(log: LogDirectory, record: Published) -> list[LogTable]:
    """The tables of a log, also published tables without changes."""
    versions = log.versions()
    counts = [[0, 0, 0] for _ in versions]
    last: dict[int, Lsn] = {}
    ends: dict[int, Lsn] = {}
    loads: dict[int, Lsn] = {}
    for place in range(len(log)):
        segment = log.segment(place) or {"tables": ()}
        for number, *more, end, loaded in segment["tables"]:
            counts[number] = [*map(add, counts[number], more)]
            oid = versions[number][0]
            last[oid] = max(end, last.get(oid, end))
            ends[number] = max(end, ends.get(number, end))
            if loaded is not None:
                loads[oid] = loaded
    tables: dict[int, list[LogVersion]] = {
        oid: [] for oid, *_ in versions if oid in last
    }
    # A table may have an earlier version again, and it is the same version then.
    for number in sorted(ends, key=lambda number: (ends[number], number)):
        oid, schema, name, columns, identity = versions[number]
        columns_ = tuple(LogColumn(*column) for column in columns)
        (rows, truncates, size), full = counts[number], f"{schema}.{name}"
        version = LogVersion(full, columns_, identity, rows, truncates, size, schema)
        tables[oid].append(version)
    pairs = {oid: versions[-1].pair for oid, versions in tables.items()}
    if record.tables is None:
        # Without a look, dropped tables are not known.
        removed = log.removed()
        pairs = {oid: split(it, None) for oid, (_, it) in removed.items()} | pairs
    for oid in record.tables or ():
        # Changes after the look know the name better.
        if last.get(oid, Lsn(0)) <= max(record.position, record.seen):
            pairs[oid] = record.pair_of(oid)
    erased = log.erased()
    for oid, left in record.left.items():
        # A dropped table is there as long as the log has changes of it, or had erased ones.
        if left.ruling is Ruling.FORGOTTEN:
            pairs.pop(oid, None)
        elif oid in pairs or left.needs_ruling or erased.get(oid, 0) > log.start:
            pairs[oid] = split(left.name, left.schema)
    marks = {oid: tuple(record.marks_of(oid)) for oid in pairs}
    return [
        LogTable(
            oid,
            tuple(tables.get(oid, ())),
            last.get(oid, Lsn(0)),
            loads.get(oid),
            # A table that left cannot be loaded.
            None if oid in record.left else needs_of(marks[oid]),
            marks[oid],
            f"{schema}.{name}",
            schema,
            record.left.get(oid),
        )
        for oid, (schema, name) in pairs.items()
    ]


class NamedTables:
    """The tables of a log, by the names that they have. They include published ones without a change."""

    def __init__(self, tables: Iterable[LogTable], record: Published) -> None:
        #: By OID.
        self.tables = {table.oid: table for table in tables}
        self.record = record

    @cached_property
    def _claims(self) -> dict[_Pair, tuple[tuple[int, int], list[int]]]:
        return _claims(self.tables.values(), self.record)

    @cached_property
    def _pairs(self) -> dict[TableName, list[_Pair]]:
        """The names at the end of the log that a text or a pair means."""
        found: dict[TableName, list[_Pair]] = {}
        for pair in self._claims:
            for name in (pair[1], ".".join(pair), pair):
                found.setdefault(name, []).append(pair)
        return found

    def at(self, log: OpenedLog, name: TableName, at: Lsn) -> LogTable:
        """The table that has a name at a position."""
        end, record = log._log.end, self.record
        if isinstance(name, int) or at >= min(
            end, end if record.tables is None else record.position
        ):
            return self.find(name)
        oid = _one(name, owners_at(log, record, name, at))
        if oid is None:
            # Without an owner, its first change is later.
            oid = next((it.oid for it in self._that_had(name)), None)
        return self.tables.get(oid or 0) or self.find(name)

    def find(self, name: TableName, *, takes_ended: bool = False) -> LogTable:
        """The table that has a name at the end of a log.

        If `takes_ended` and no table has it, the dropped one that had it last.
        """
        oid: int | None
        if isinstance(name, int):
            oid = name
        else:
            claims = {pair: self._claims[pair] for pair in self._pairs.get(name, ())}
            # Those that left count only if no published table has the name.
            highest = max((rank for (rank, _), _ in claims.values()), default=0)
            oid = _one(
                name, {it: c[1] for it, c in claims.items() if c[0][0] == highest}
            )
        if (table := self.tables.get(oid or 0)) is None:
            names = ", ".join(sorted({it.name for it in self.tables.values()}))
            text = f"the log has no table {name!r}; its tables are {names or 'none'}"
            if now := sorted({it.name for it in self._that_had(name)}):
                text = f"no table has the name {name!r} now: it is {' or '.join(now)}"
            raise SchemaError(text, table=str(name))
        if table.left and table.left.why.is_end and not isinstance(name, int):
            ended = [
                str(it.oid)
                for it in self.tables.values()
                if it.left and it.left.why.is_end and is_named(name, 0, *it.pair)
            ]
            text = f"{table.left}; its OID, {oid}, names its rows"
            if len(ended) > 1:
                text = (
                    f"name one of the tables that had it by its OID: {', '.join(ended)}"
                )
            elif takes_ended:
                return table
            text = f"no table has the name {name!r} now: {text}"
            raise SchemaError(text, table=str(name))
        return table

    def owners(self) -> dict[_Pair, LogTable]:
        """The table of each schema and name at the end of the log, if it is known."""
        return {
            pair: self.tables[oid]
            for pair, (_, (oid, *others)) in self._claims.items()
            if not others
        }

    def _that_had(self, name: TableName) -> list[LogTable]:
        return [it for it in self.tables.values() if had_name(it, name)]


def _claims(
    tables: Iterable[LogTable], record: Published
) -> dict[_Pair, tuple[tuple[int, int], list[int]]]:
    """By name, the OIDs of its last tables: two if either may be the last one.

    Before them, the rank of their claim, and the position that it is known of. Published
    tables have the highest rank, and tables whose rows have ended the lowest.
    """
    found: dict[_Pair, tuple[tuple[int, int], list[int]]] = {}
    edge = 0 if record.tables is None else max(record.position, record.seen)
    for table in tables:
        pairs = {table.pair}
        if table.left is not None:
            claim = (int(not table.left.why.is_end), int(table.last))
        elif (
            record.tables is None
            or table.oid in record.tables
            # It came after the look, or came and went before it.
            or table.last > record.position
        ):
            claim = (2, max(edge, table.last))
            if record.position < table.last <= edge:
                # Either the look or the change was first.
                pairs.add(table.versions[-1].pair)
        else:
            claim = (1, int(table.last))
        for pair in pairs:
            if pair not in found or claim > found[pair][0]:
                found[pair] = (claim, [])
            if claim == found[pair][0]:
                found[pair][1].append(table.oid)
    return found


def _one(name: TableName, owners: Mapping[_Pair, Collection[int]]) -> int | None:
    """The OID of the one table among the owners of a name, if there is one. Several are an error."""
    owners = {
        pair: its for pair, its in owners.items() if ".".join(pair) == name
    } or owners
    oids = sorted({oid for its in owners.values() for oid in its})
    if not oids[1:]:
        return oids[0] if oids else None
    names = " and ".join(
        sorted(f"{'.'.join(pair)} (OID {max(its)})" for pair, its in owners.items())
    )
    text = f"{name!r} is {names}: name one with its schema, as a pair, or by its OID"
    if len(owners) == 1:
        text = (
            f"{name!r} got another table between two looks of the receiver, perhaps before this "
            "position: name the OID of one, or another position"
        )
    raise SchemaError(text, table=str(name))


def owners_at(
    log: OpenedLog, record: Published, name: TableName, at: Lsn
) -> dict[tuple[str, str], set[int]]:
    """The OIDs of the tables that had a name at an LSN: two if the look before does not separate them."""
    changed = _changed_until(log, name, at)
    found = {pair: {oid} for pair, oid in changed.items()}
    for pair, owners in record.owners.items():
        if not any(is_named(name, it.oid, *pair) for it in owners):
            continue
        begun = [it for it in owners if it.first <= at]
        if begun and (begun[-1].last is None or at <= begun[-1].last):
            found[pair] = {begun[-1].oid}
        elif pair in found:
            found[pair] |= {it.oid for it in owners[len(begun) :][:1]}
    return found


def _changed_until(log: OpenedLog, name: TableName, at: Lsn) -> dict[_Pair, int]:
    """The last tables whose changes up to an LSN have a name."""
    found: dict[_Pair, int] = {}
    versions = log._log.versions()
    for place in range(len(log._log)):
        segment = log._log.segment(place)
        if segment is None or segment["start"] >= at:
            break
        ends = sorted((end, *versions[it][:3]) for it, *_, end, _ in segment["tables"])
        last = {
            (schema, table): oid
            for _, oid, schema, table in ends
            if is_named(name, oid, schema, table)
        }
        if segment["end"] <= at:
            found |= last
        elif last.items() - found.items():
            file = log._log.open(start=segment["start"], end=segment["end"])
            found |= _named_in(file, name, at)
    return found


def _named_in(file: LogFile, name: TableName, at: Lsn) -> dict[_Pair, int]:
    """The same, of the changes of one segment: each definition comes before them."""
    found = {}
    for frame in frames(file):
        message = frame.message
        if message is None:
            continue
        if message.name == "Begin" and message.fields["final_lsn"] >= at:
            break
        if message.name == "Relation":
            fields = message.fields
            pair = (fields["namespace"], fields["name"])
            if is_named(name, fields["oid"], *pair):
                found[pair] = fields["oid"]
    return found


def had_name(table: LogTable, name: TableName) -> bool:
    """Whether a table had a name in one of its versions."""
    return any(is_named(name, table.oid, *it.pair) for it in table.versions)
