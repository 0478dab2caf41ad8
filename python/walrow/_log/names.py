"""The table that a name means, for everything that reads a log.

A name means the table that has it. At the end of the log, the receiver's last look and the changes
after it say which table that is. At an earlier position, the changes before it do, and the record
of the names that got another table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from walrow._lsn import Lsn
from walrow._read.reading import frames
from walrow._sources.logs import is_named
from walrow.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from walrow._core import LogFile
    from walrow._log.items import LogTable
    from walrow._log.published import Published
    from walrow._sources.logs import OpenedLog
    from walrow.typing import TableName

    #: The rank of a claim to a name, the position that it is known of, the name, and the table.
    _Claim: TypeAlias = tuple[int, int, tuple[str, str], LogTable]


def resolve(
    log: OpenedLog,
    tables: Sequence[LogTable],
    record: Published,
    name: TableName,
    at: Lsn,
) -> LogTable:
    """The table that has a name at a position. `tables` includes published ones without a change.

    Raises:
        SchemaError: No table has it, or it is not known which one.
    """
    if isinstance(name, int) or at >= min(
        log._log.end, log._log.end if record.tables is None else record.position
    ):
        return find_table(tables, name, record)
    oids = owners_at(log, record, name, at)
    if len(oids) > 1:
        raise _several(name, {pair: max(found) for pair, found in oids.items()})
    for found in oids.values():
        if len(found) > 1:
            raise _unknown(name)
        for table in tables:
            if table.oid in found:
                return table
    # Its first change is later.
    had = (it for it in tables if any(_had(it, name)))
    return next(had, None) or find_table(tables, name, record)


def find_table(
    tables: Iterable[LogTable], name: TableName, record: Published
) -> LogTable:
    """The table that has a name at the end of a log.

    Raises:
        SchemaError: No table has it, or it is not known which one.
    """
    tables = list(tables)
    claims = [
        (rank, time, pair, table)
        for table in tables
        for rank, time, pair in _claims(table, record)
        if is_named(name, table.oid, *pair)
    ]
    if isinstance(name, str):
        claims = [it for it in claims if ".".join(it[2]) == name] or claims
    if not claims:
        now = sorted({it.name for it in tables if any(_had(it, name))})
        names = ", ".join(sorted({table.name for table in tables})) or "none"
        text = f"the log has no table {name!r}; its tables are {names}"
        if now:
            text = f"no table has the name {name!r} now: it is {' or '.join(now)}"
        raise SchemaError(text, table=str(name))
    # Those that left count only if no published table has the name.
    highest = max(rank for rank, *_ in claims)
    pairs = {pair: table.oid for rank, _, pair, table in claims if rank == highest}
    if len(pairs) > 1 and len(set(pairs.values())) > 1:
        raise _several(name, pairs)
    if (table := _first(claims)) is None:
        raise _unknown(name)
    if table.left is not None and table.left.why.is_end and not isinstance(name, int):
        text = f"no table has the name {name!r} now: {table.left}; its OID, {table.oid}, names its rows"
        raise SchemaError(text, table=str(name))
    return table


def owners(
    tables: Iterable[LogTable], record: Published
) -> dict[tuple[str, str], LogTable]:
    """The table of each schema and name at the end of a log, as far as it is known."""
    claims: dict[tuple[str, str], list[_Claim]] = {}
    for table in tables:
        for rank, time, pair in _claims(table, record):
            claims.setdefault(pair, []).append((rank, time, pair, table))
    first = {pair: _first(found) for pair, found in claims.items()}
    return {pair: table for pair, table in first.items() if table is not None}


def _first(claims: Sequence[_Claim]) -> LogTable | None:
    """The table of the last claim. None if two tables are that."""
    last = max(it[:2] for it in claims)
    found = {it[3].oid: it[3] for it in claims if it[:2] == last}
    return found.popitem()[1] if len(found) == 1 else None


def _claims(
    table: LogTable, record: Published
) -> Iterator[tuple[int, int, tuple[str, str]]]:
    """The names of a table, each with its rank, and the position that it is known of."""
    edge = max(record.position, record.seen)
    if table.left is not None:
        yield int(not table.left.why.is_end), table.last, table.pair
    elif record.tables is None:
        yield 2, table.last, table.pair
    elif table.oid in record.tables:
        yield 2, max(edge, table.last), table.pair
        if record.position < table.last <= edge:
            # Either the look or the change was first.
            yield 2, edge, table.versions[-1].pair
    elif table.last > record.position:
        # It came after the look, or came and went before it.
        yield 2, max(edge, table.last), table.pair
    else:
        yield 1, table.last, table.pair


def owners_at(
    log: OpenedLog, record: Published, name: TableName, at: Lsn
) -> dict[tuple[str, str], set[int]]:
    """The OIDs of the tables that had a name at an LSN: two if the look before does not tell them apart."""
    changed = _changed_until(log, name, at)
    found = {pair: {oid} for pair, oid in changed.items()}
    for pair, owners in record.owners.items():
        if not any(is_named(name, it.oid, *pair) for it in owners):
            continue
        certain = [
            it.oid
            for it in owners
            if it.first <= at and (it.last is None or at <= it.last)
        ]
        nexts = [it.oid for it in owners if it.first > at]
        if certain:
            found[pair] = {certain[-1]}
        elif pair in found and changed[pair] not in nexts[:1]:
            found[pair] |= set(nexts[:1])
    return found


def _changed_until(
    log: OpenedLog, name: TableName, at: Lsn
) -> dict[tuple[str, str], int]:
    """The last tables whose changes up to an LSN have a name."""
    found: dict[tuple[str, str], int] = {}
    versions = log._log.versions()
    for place in range(len(log._log)):
        segment = log._log.segment(place)
        if segment is None or segment["start"] >= at:
            break
        last: dict[tuple[str, str], tuple[Lsn, int]] = {}
        for number, *_, end, _ in segment["tables"]:
            oid, schema, table, _, _ = versions[number]
            if is_named(name, oid, schema, table):
                pair = (schema, table)
                last[pair] = max((end, oid), last.get(pair, (end, oid)))
        if segment["end"] <= at:
            found |= {pair: oid for pair, (_, oid) in last.items()}
        elif any(found.get(pair) != oid for pair, (_, oid) in last.items()):
            file = log._log.open(start=segment["start"], end=segment["end"])
            found |= _named_in(file, name, at)
    return found


def _named_in(file: LogFile, name: TableName, at: Lsn) -> dict[tuple[str, str], int]:
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


def _had(table: LogTable, name: TableName) -> Iterator[bool]:
    """For each version of a table, whether it has a name."""
    return (is_named(name, table.oid, *it.pair) for it in table.versions)


def _several(name: TableName, found: dict[tuple[str, str], int]) -> SchemaError:
    names = " and ".join(
        sorted({f"{'.'.join(it)} (OID {oid})" for it, oid in found.items()})
    )
    text = f"{name!r} is {names}: name one with its schema, as a pair, or by its OID"
    return SchemaError(text, table=str(name))


def _unknown(name: TableName) -> SchemaError:
    text = (
        f"{name!r} got another table between two looks of the receiver, perhaps before this "
        "position: name the OID of one, or another position"
    )
    return SchemaError(text, table=str(name))
