"""Changes of tables that a look at the server shows, and the stream does not contain.

Pure: from a record and a look comes the next record. `completeness` looks, and stores the record.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._log.marks import Reason, Why, ended, marked
from walrow._log.new_files import NewFile, NewFiles, Pending, is_explained
from walrow._log.published import Published
from walrow._log.told import Hearing
from walrow._log.young_tables import REWRITTEN, TYPE_ALTERED, YoungTable, plain_name
from walrow._lsn import Lsn
from walrow._receive.told import LEFT, PUBLISHED_LESS, after_moves, covers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from walrow._log.items import LogTable
    from walrow._postgres.published import PublishedTable, TablePart


class Questions(NamedTuple):
    """Questions that only the changes in a log answer.

    Attributes:
        truncates: The transactions with a TRUNCATE of a table that were committed after an LSN,
            in their order.
        first_xid: The first transaction with a row of a table. None without one.
    """

    truncates: Callable[[int, Lsn], Sequence[int]]
    first_xid: Callable[[int], int | None]


class Look(NamedTuple):
    """A look at the published tables.

    Attributes:
        tables: The tables.
        last_oid: The greatest OID of a relation, read before them.
        durable: Where the log ended before.
        seen: The server's position after.
        moved: The OIDs of the tables that may differ from the last look. None: all.
        begun: The server's position before.
        trigger: The stamp of the event trigger. None if it does not work.
    """

    tables: Sequence[PublishedTable]
    last_oid: int
    durable: Lsn
    seen: Lsn
    moved: Collection[int] | None = None
    begun: Lsn = Lsn(0)
    trigger: str | None = None

    def joined(self, before: Look) -> Look:
        """The look with the tables that have not moved since another look."""
        if self.moved is None:
            return self
        kept = [table for table in before.tables if table.oid not in self.moved]
        return self._replace(tables=[*kept, *self.tables], moved=None)


def at_beginning(
    tables: Sequence[PublishedTable],
    lacking: Collection[int],
    last_oid: int,
    start: Lsn,
) -> Published:
    """The record of a log that begins with a slot, and not with a load.

    Args:
        tables: The published tables.
        lacking: The OIDs of the tables that have rows.
        last_oid: The greatest OID of a relation.
        start: The slot's start.
    """
    reason = Reason(Why.HAD_ROWS, "it had rows before the slot was created")
    marks = {oid: marked([], [reason], start) for oid in lacking}
    pictures = {table.oid: _picture(table, None) for table in tables}
    told = Hearing(start, start, last_oid, None, {})
    return Published(pictures, start, last_oid, marks, {}, {}, told)


def after_look(before: Published, look: Look) -> Published:
    """The record after a look."""
    marks, young, files = dict(before.marks), dict(before.young), dict(before.new_files)
    known_tables = before.tables or {}
    asking = set()
    for table in look.tables:
        if before.tables is None:
            continue
        oid, known = table.oid, known_tables.get(table.oid)
        if known is not None:
            reasons = list(_differences(known, table, before.last_oid))
            if PUBLISHED_LESS in reasons and _may_be_exact(before, look, known, table):
                reasons.remove(PUBLISHED_LESS)
                asking.add(oid)
            if new_files := _new_files(known, table):
                first = files.get(oid)
                since = before.position if first is None else first.pending.since
                earlier = {} if first is None else first.files
                pending = Pending(since, look.seen)
                files[oid] = NewFiles(pending, earlier | new_files)
        else:
            reasons = list(_newness(table, before.last_oid))
            files.pop(oid, None)
            if not reasons:
                young[oid] = _young(table, Pending(before.position, look.seen))
        if reasons:
            marks[oid] = marked(marks.get(oid, ()), reasons, before.position)
            if any(reason.code != Why.TYPE for reason in reasons):
                young.pop(oid, None)
    moved = known_tables.keys() if look.moved is None else look.moved
    pictures = {oid: known_tables[oid] for oid in known_tables.keys() - moved}
    for table in look.tables:
        pictures[table.oid] = _picture(table, known_tables.get(table.oid))
    told = after_moves(before, look, pictures, asking)
    return Published(pictures, look.durable, look.last_oid, marks, young, files, told)


def settled(
    before: Published,
    tables: Mapping[int, LogTable],
    end: Lsn,
    durable: Lsn,
    ask: Questions,
) -> Published:
    """Compares what waits for the log with what readers see of it.

    Args:
        before: The record.
        tables: The tables in the log, by OID.
        end: Where the log ends for readers.
        durable: Where it ends for its writer.
        ask: Asks the log.
    """
    marks, pictures = dict(before.marks), dict(before.tables or {})
    young, files = {}, {}
    for oid, table in before.young.items():
        found, picture = tables.get(oid), pictures.get(oid)
        columns = table.columns if picture is None else picture["columns"]
        reason = None
        if found is not None:
            first = partial(ask.first_xid, oid)
            reason = table.alteration(found.versions, columns, first)
            if (
                (
                    reason is None
                    and table.files
                    and any(version.rows for version in found.versions)
                )
                and not is_explained(table.files, ask.truncates(oid, Lsn(0)))
                and end >= table.pending.seen
            ):
                reason = REWRITTEN
            if picture is not None:
                names = {name.lower() for name in table.names(found.versions)}
                now = {_folded(column[1]) for column in columns}
                gone = sorted((names | set(picture["gone"])) - now)
                pictures[oid] = picture | {"gone": gone}
        if reason is not None:
            marks[oid] = marked(marks.get(oid, ()), [reason], table.pending.since)
        elif (later := table.later(end, durable)) is not None:
            young[oid] = later
    for oid, each in before.new_files.items():
        since = each.pending.since
        if is_explained(each.files, ask.truncates(oid, since)):
            continue
        if (pending := each.pending.later(end, durable)) is None:
            marks[oid] = marked(marks.get(oid, ()), [REWRITTEN], since)
        else:
            files[oid] = each._replace(pending=pending)
    return before._replace(
        tables=None if before.tables is None else pictures,
        marks=marks,
        young=young,
        new_files=files,
    )


def after_load(
    before: Published,
    tables: Sequence[PublishedTable],
    point: Lsn,
    look: Look | None = None,
) -> Published:
    """The record after a load: these tables are whole, as they were at its LSN.

    Args:
        before: The record.
        tables: The tables as they were at the load's LSN.
        point: That LSN.
        look: The last look in this process. It may have been later than that.
    """
    pictures, marks = dict(before.tables or {}), dict(before.marks)
    young, files = dict(before.young), dict(before.new_files)
    later = {}
    if look is not None and look.seen > point:
        later = {table.oid: table for table in look.tables}
    for table in tables:
        young.pop(table.oid, None)
        files.pop(table.oid, None)
        picture = _picture(table, pictures.get(table.oid))
        if table.oid in later:
            # Columns that the load does not have yet are no earlier ones.
            came = {_folded(column.quoted) for column in later[table.oid].columns}
            picture["gone"] = [name for name in picture["gone"] if name not in came]
        pictures[table.oid] = picture | {"loaded": point}
        if table.oid in marks:
            marks[table.oid] = ended(marks[table.oid], point)
    loaded = before._replace(
        tables=pictures,
        position=point,
        marks=marks,
        young=young,
        new_files=files,
    )
    again = [later[table.oid] for table in tables if table.oid in later]
    if look is not None and again:
        moved = [table.oid for table in again]
        loaded = after_look(loaded, look._replace(tables=again, moved=moved))
    return loaded._replace(position=before.position, last_oid=before.last_oid)


def _young(table: PublishedTable, pending: Pending) -> YoungTable:
    files = [part for part in table.parts if part.file != part.oid]
    return YoungTable(
        [list(column) for column in table.columns],
        pending,
        table.has_altered_types,
        # ALTER TABLE makes the TOAST table after the file. TRUNCATE and VACUUM keep an older one.
        any(part.toast is not None and part.toast > part.file for part in files),
        {
            part.oid: _new_file(part, table.last_column)
            for part in files
            if part.toast is None
        },
        table.altered,
        table.dropped,
    )


def _picture(table: PublishedTable, before: Mapping[str, Any] | None) -> dict[str, Any]:
    # A load ends no name: a target with `deletes="soft"` keeps values under it.
    now = {_folded(column.quoted) for column in table.columns}
    return {
        "name": table.name,
        "columns": [list(column) for column in table.columns],
        "gone": sorted(_earlier_names(before or {}, table) - now),
        "last_column": table.last_column,
        "filters": list(table.filters),
        "parts": [
            [part.oid, part.file, part.toast, part.persistence, part.attached]
            for part in table.parts
        ],
        "memberships": [list(each) for each in table.memberships],
        "definitions": dict(table.definitions),
        "stamp": table.stamp,
        "loaded": (before or {}).get("loaded", 0),
    }


def _earlier_names(before: Mapping[str, Any], table: PublishedTable) -> set[str]:
    """The names of columns that it does not have now, or has under another number."""
    kept = {column.number: column.quoted for column in table.columns}
    names = {
        _folded(name)
        for number, name, *_ in before.get("columns", ())
        if kept.get(number) != name
    }
    return names | set(before.get("gone", ()))


def _folded(quoted: str) -> str:
    """A name as Spark's tables know it: not by case."""
    return plain_name(quoted).lower()


def _newness(table: PublishedTable, last_oid: int) -> Iterator[Reason]:
    """Why a table that was not published before is not whole."""
    if table.oid <= last_oid or (table.is_chosen and not table.is_partition):
        yield Reason(Why.NEW, "it is new in the publication")


def _new_files(before: Mapping[str, Any], table: PublishedTable) -> dict[int, NewFile]:
    """The files of a truncated or rewritten table, as far as its TOAST table does not show it.

    VACUUM FULL keeps the TOAST table, but writes the default of a new column into old rows: then no
    column shows any more that they have a value.
    """
    last_column = before["last_column"]
    is_wider = table.last_column > last_column
    files = {
        oid: file
        for oid, file, toast, *_ in before["parts"]
        if toast is None or is_wider
    }
    return {
        part.oid: _new_file(part, last_column)
        for part in table.parts
        if files.get(part.oid, part.file) != part.file
    }


def _new_file(part: TablePart, last_column: int) -> NewFile:
    """The file of a part of a table, whose columns up to a number are known."""
    is_known = any(number <= last_column for number in part.changed_columns)
    return NewFile(part.changed, part.frozen, bool(part.changed_columns), is_known)


def _differences(
    before: Mapping[str, Any], table: PublishedTable, last_oid: int
) -> Iterator[Reason]:
    """The reasons why a table is not whole since the last look."""
    yield from _publication_differences(before, table)
    yield from _partition_differences(before, table, last_oid)
    # A new label of an enum changes no row.
    if before["definitions"] != {
        key: text
        for key, text in table.definitions.items()
        if key in before["definitions"] or not key.startswith("label ")
    }:
        yield TYPE_ALTERED
    yield from _column_differences(before, table)
    if _is_rewritten(before, table):
        yield REWRITTEN


def _publication_differences(
    before: Mapping[str, Any], table: PublishedTable
) -> Iterator[Reason]:
    if before["filters"] != table.filters:
        yield Reason(Why.FILTER, "its row filter has changed")
    then = {tuple(each) for each in before["memberships"]}
    now = {tuple(each) for each in table.memberships}
    if then and not {each[0] for each in then} & {each[0] for each in now}:
        yield LEFT
    elif len({_operations(it) for it in (then, now, then & now)}) > 1:
        yield PUBLISHED_LESS


def _may_be_exact(
    before: Published, look: Look, known: Mapping[str, Any], table: PublishedTable
) -> bool:
    """Whether messages tell if a publication that has the same options has had others."""
    then, now = (
        {(place, it.partition(" ")[2], operations) for place, it, operations in each}
        for each in (known["memberships"], table.memberships)
    )
    return then == now and covers(before.told, look)


def _operations(memberships: Collection[tuple[Any, ...]]) -> frozenset[str]:
    return frozenset("".join(operations for _, _, operations in memberships))


def _partition_differences(
    before: Mapping[str, Any], table: PublishedTable, last_oid: int
) -> Iterator[Reason]:
    then = {oid: more for oid, *more in before["parts"]}
    now = {part.oid: part for part in table.parts}
    attached = [
        part.quoted
        for oid, part in now.items()
        if (oid not in then and not (oid > last_oid and part.is_born))
        or (oid in then and then[oid][3] != part.attached)
    ]
    if attached or then.keys() - now.keys():
        words = f": {', '.join(attached)}" if attached else ""
        text = f"partitions were attached or detached{words}"
        yield Reason(Why.PARTITIONS, text)


def _is_rewritten(before: Mapping[str, Any], table: PublishedTable) -> bool:
    """Whether ALTER TABLE has rewritten a table with TOAST, or has made it unlogged.

    VACUUM FULL, CLUSTER and TRUNCATE keep the TOAST table. A new column may bring the first one.
    """
    now = {part.oid: part for part in table.parts}
    return any(
        toast not in {None, now[oid].toast} or persistence != now[oid].persistence
        for oid, _, toast, persistence, _ in before["parts"]
        if oid in now
    )


def _column_differences(
    before: Mapping[str, Any], table: PublishedTable
) -> Iterator[Reason]:
    known = {column[0]: column for column in before["columns"]}
    earlier = _earlier_names(before, table)
    for number, name, *type_, has_default, expression in table.columns:
        if number in known:
            _, old_name, *old_type, _, old_expression = known[number]
            if old_name != name:
                text = f"column {old_name} was renamed to {name}"
                yield Reason(Why.RENAMED, text)
            if old_type != type_:
                yield Reason(Why.RETYPED, f"column {name} has another type")
            if old_expression != expression:
                text = f"the expression of column {name} has changed"
                yield Reason(Why.EXPRESSION, text)
        elif number <= before["last_column"]:
            yield Reason(Why.COLUMN, f"column {name} was added to the publication")
        elif _folded(name) in earlier:
            # Its Relation messages look like the old ones: readers keep the old values.
            text = f"column {name} was dropped and added again"
            yield Reason(Why.RETURNED, text)
        elif has_default:
            text = f"column {name} was added with a value for existing rows"
            yield Reason(Why.DEFAULT, text)
