"""Changes of tables that a look at the server shows, and the stream does not contain.

Pure: from a record and a look comes the next record. `completeness` looks, and stores the record.
"""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._log.marks import Mark, Reason, Why, emptied, ended, marked
from walrow._log.new_files import NewFile, NewFiles, Pending, is_explained
from walrow._log.published import Published
from walrow._log.told import Hearing
from walrow._log.young_tables import REWRITTEN, TYPE_ALTERED, YoungTable, plain_name
from walrow._lsn import Lsn
from walrow._postgres.births import Birth, Pair, Rows
from walrow._receive.told import LEFT, PUBLISHED_LESS, after_moves, covers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from walrow._log.items import LogTable
    from walrow._postgres.published import PublishedColumn, PublishedTable, TablePart


class Questions(NamedTuple):
    """Questions that only the changes in a log answer.

    Attributes:
        truncates: The transactions with a TRUNCATE of a table that were committed after an LSN:
            their IDs and the LSNs of their commits, in the order of these.
        first_row: The first transaction with a row of a table: its ID, and the LSN of its
            commit. None without one.
    """

    truncates: Callable[[int, Lsn], Sequence[tuple[int, Lsn]]]
    first_row: Callable[[int], tuple[int, Lsn] | None]


class Look(NamedTuple):
    """A look at the published tables.

    Attributes:
        tables: The tables.
        publications: The publications of the stream.
        durable: Where the log ended before.
        seen: The server's position after.
        moved: The OIDs of the tables that may differ from the last look. None: all.
        births: The creation of what is new: `newcomers`.
        last_oid: The greatest OID of a table, also of unpublished ones.
        trigger: The stamp of the event trigger. None if it does not work.
    """

    tables: Sequence[PublishedTable]
    publications: Sequence[str]
    durable: Lsn
    seen: Lsn
    moved: Collection[int] | None = None
    births: Mapping[Pair, Birth] = MappingProxyType({})
    last_oid: int = 0
    trigger: str | None = None

    def joined(self, before: Look) -> Look:
        """The look with the tables that have not moved since another look."""
        if self.moved is None:
            return self
        kept = [table for table in before.tables if table.oid not in self.moved]
        births = {**before.births, **self.births}
        return self._replace(tables=[*kept, *self.tables], moved=None, births=births)


def newcomers(before: Published, tables: Sequence[PublishedTable]) -> list[Pair]:
    """Published tables and their parts that the last look has not seen: their creation matters."""
    if before.tables is None:
        return []
    known = {
        (oid, part[0])
        for oid, table in before.tables.items()
        for part in table["parts"]
    }
    pairs = {(table.oid, part.oid) for table in tables for part in table.parts}
    return sorted(pairs - known)


def at_beginning(
    tables: Sequence[PublishedTable],
    lacking: Collection[int],
    publications: Sequence[str],
    start: Lsn,
) -> Published:
    """The record of a log that begins with a slot, and not with a load.

    Args:
        tables: The published tables.
        lacking: The OIDs of the tables that have rows.
        publications: The publications of the stream.
        start: The slot's start.
    """
    reason = Reason(Why.HAD_ROWS, "it had rows before the slot was created")
    marks = {oid: marked([], [reason], start) for oid in lacking}
    pictures = {table.oid: _picture(table, None) for table in tables}
    noticed = dict.fromkeys(lacking, start)
    oids = [part.oid for table in tables for part in table.parts]
    last_oid = max([*oids, *(table.oid for table in tables)], default=0)
    told = Hearing(start, start, [last_oid], None, {})
    return Published(pictures, start, list(publications), marks, {}, {}, noticed, told)


def after_look(before: Published, look: Look) -> Published:
    """The record after a look."""
    marks, young, files = dict(before.marks), dict(before.young), dict(before.new_files)
    known_tables = before.tables or {}
    asking = set()
    # An earlier record does not say when its marks were made: before this look.
    noticed = {**dict.fromkeys(_open(marks), look.seen), **before.noticed}
    for table in look.tables:
        if before.tables is None:
            continue
        oid, known = table.oid, known_tables.get(table.oid)
        if known is not None:
            keeps = _keeps_values(known, table)
            reasons = list(_differences(known, table, look.births))
            if PUBLISHED_LESS in reasons and _may_be_exact(before, look, known, table):
                reasons.remove(PUBLISHED_LESS)
                asking.add(oid)
            if not keeps and _is_rewritten(known, table):
                reasons.append(REWRITTEN)
            if not keeps and (new_files := _new_files(known, table, look.births)):
                first = files.get(oid)
                since = before.position if first is None else first.pending.since
                earlier = {} if first is None else first.files
                pending = Pending(since, look.seen)
                files[oid] = NewFiles(pending, earlier | new_files)
        else:
            doubted = [
                birth for birth in _births(look.births, table) if not birth.is_published
            ]
            # Later rows of an empty table are in the stream.
            has_rows = any(birth.rows is Rows.SOME for birth in doubted)
            is_doubted = any(birth.rows is not Rows.NEVER for birth in doubted)
            pending = Pending(before.position, look.seen)
            came = _young(table, pending, look.births, is_doubted=is_doubted)
            is_rewritten = came.is_rewritten and came.has_rows
            reasons = [NEW] if has_rows else [REWRITTEN] if is_rewritten else []
            files.pop(oid, None)
            if not reasons:
                young[oid] = came
        if reasons:
            marks[oid] = marked(marks.get(oid, ()), reasons, before.position)
            noticed[oid] = look.seen
            if any(reason.code != Why.TYPE for reason in reasons):
                young.pop(oid, None)
    moved = known_tables.keys() if look.moved is None else look.moved
    pictures = {oid: known_tables[oid] for oid in known_tables.keys() - moved}
    for table in look.tables:
        pictures[table.oid] = _picture(table, known_tables.get(table.oid))
    return Published(
        pictures,
        look.durable,
        list(look.publications),
        marks,
        young,
        files,
        noticed,
        after_moves(before, look, pictures, asking),
    )


def _open(marks: Mapping[int, Sequence[Mark]]) -> list[int]:
    """The tables that are not whole."""
    return [oid for oid, each in marks.items() if any(mark.is_open for mark in each)]


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
    young, files, noticed = {}, {}, dict(before.noticed)
    for oid, table in before.young.items():
        found, picture = tables.get(oid), pictures.get(oid)
        columns = table.columns if picture is None else picture["columns"]
        later = table.later(end, durable)
        first_row = partial(ask.first_row, oid)
        reason = None
        if found is not None:
            reason = table.alteration(found.versions, columns, first_row)
        if later is None and reason is None:
            reason = _doubt(table, found, first_row, partial(ask.truncates, oid))
        if found is not None and picture is not None:
            names = {name.lower() for name in table.names(found.versions)}
            now = {_folded(column[1]) for column in columns}
            gone = sorted((names | set(picture["gone"])) - now)
            pictures[oid] = picture | {"gone": gone}
        if reason is not None:
            marks[oid] = marked(marks.get(oid, ()), [reason], table.pending.since)
            noticed[oid] = max(table.pending.seen, noticed.get(oid, Lsn(0)))
        elif later is not None:
            young[oid] = later
    for oid, each in before.new_files.items():
        since = each.pending.since
        if is_explained(each.files, [xid for xid, _ in ask.truncates(oid, since)]):
            continue
        if (pending := each.pending.later(end, durable)) is None:
            marks[oid] = marked(marks.get(oid, ()), [REWRITTEN], since)
            noticed[oid] = max(each.pending.seen, noticed.get(oid, Lsn(0)))
        else:
            files[oid] = each._replace(pending=pending)
    noticed = {oid: noticed[oid] for oid in _open(marks) if oid in noticed}
    for oid, since in noticed.items():
        if later_ones := ask.truncates(oid, since):
            _, commit = later_ones[-1]
            marks[oid] = emptied(marks[oid], Lsn(commit + 1))
        noticed[oid] = max(since, end)
    return before._replace(
        tables=None if before.tables is None else pictures,
        marks=marks,
        young=young,
        new_files=files,
        noticed=noticed,
    )


def _doubt(
    young: YoungTable,
    found: LogTable | None,
    first_row: Callable[[], tuple[int, Lsn] | None],
    truncates: Callable[[Lsn], Sequence[tuple[int, Lsn]]],
) -> Reason | None:
    """Why a young table is not whole, once the log has everything from before the look."""
    has_rows = found is not None and found.rows > 0
    # It was empty: rows that came after the look are whole.
    if young.is_doubted and has_rows and (first := first_row()):
        return NEW if first[1] < young.pending.seen else None
    if young.files and (has_rows or young.has_rows):
        xids = [xid for xid, _ in truncates(Lsn(0))]
        return None if is_explained(young.files, xids) else REWRITTEN
    return None


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
    publications = before.publications
    return loaded._replace(position=before.position, publications=publications)


def _births(births: Mapping[Pair, Birth], table: PublishedTable) -> Iterator[Birth]:
    """The creation of the tables that have the rows of a new table."""
    for part in table.parts:
        # It may have been altered while the receiver looked.
        yield births.get((table.oid, part.oid), Birth([], keeps_file=False))


def _young(
    table: PublishedTable,
    pending: Pending,
    births: Mapping[Pair, Birth],
    *,
    is_doubted: bool,
) -> YoungTable:
    found = {
        part.oid: birth
        for part, birth in zip(table.parts, _births(births, table), strict=True)
        if not birth.keeps_file and birth.rows is not Rows.NEVER
    }
    files = [part for part in table.parts if part.oid in found]
    columns = [_column(column) for column in table.columns]
    for record, column in zip(columns, table.columns, strict=True):
        if all(part.file == part.oid for part in table.parts):
            record[4] = column.is_filled
        elif any(part.toast is not None for part in table.parts):
            # VACUUM FULL has written a default into the rows, which may be gone.
            record[4] = True
    return YoungTable(
        columns,
        pending,
        table.has_altered_types,
        # ALTER TABLE makes the TOAST table after the file. TRUNCATE and VACUUM keep an older one.
        any(part.toast is not None and part.toast > part.file for part in files),
        {part.oid: _new_file(part, table.last_column) for part in files},
        table.altered,
        table.dropped,
        is_doubted,
        any(birth.rows is Rows.SOME for birth in found.values()),
    )


def _column(column: PublishedColumn) -> list[Any]:
    """A column for the record: what a later look compares."""
    number, quoted, oid, modifier, has_default, expression, is_filled, _ = column
    return [number, quoted, oid, modifier, has_default or is_filled, expression]


def _picture(table: PublishedTable, before: Mapping[str, Any] | None) -> dict[str, Any]:
    # A load ends no name: a target with `deletes="soft"` keeps values under it.
    now = {_folded(column.quoted) for column in table.columns}
    return {
        "name": table.name,
        "columns": [_column(column) for column in table.columns],
        "changed": [column.changed for column in table.columns],
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
        "primary_key": list(table.primary_key),
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


def _new_files(
    before: Mapping[str, Any], table: PublishedTable, births: Mapping[Pair, Birth]
) -> dict[int, NewFile]:
    """The files of a truncated or rewritten table, as far as its TOAST table does not show it.

    VACUUM FULL keeps the TOAST table, but writes the default of a new column into old rows: then no
    column shows any more that they have a value. The stream lacks the TRUNCATE of a partition.
    """
    last_column = before["last_column"]
    files = {oid: file for oid, file, *_ in before["parts"]}
    toasts = {oid: toast for oid, _, toast, *_ in before["parts"]}
    is_wider = table.last_column > last_column
    found = {}
    for part, birth in zip(table.parts, _births(births, table), strict=True):
        is_partition = part.oid != table.oid
        if part.oid not in files:
            is_new = not birth.keeps_file and birth.rows is not Rows.NEVER
        else:
            is_new = files[part.oid] != part.file and (
                is_partition or is_wider or toasts[part.oid] is None
            )
        if is_new:
            found[part.oid] = _new_file(part, last_column)
    return found


def _new_file(part: TablePart, last_column: int) -> NewFile:
    """The file of a part of a table, whose columns up to a number are known."""
    is_known = any(number <= last_column for number in part.changed_columns)
    return NewFile(part.changed, part.frozen, bool(part.changed_columns), is_known)


def _differences(
    before: Mapping[str, Any], table: PublishedTable, births: Mapping[Pair, Birth]
) -> Iterator[Reason]:
    """The reasons why a table is not whole since the last look."""
    yield from _publication_differences(before, table)
    yield from _partition_differences(before, table, births)
    # A new label of an enum changes no row.
    if before["definitions"] != {
        key: text
        for key, text in table.definitions.items()
        if key in before["definitions"] or not key.startswith("label ")
    }:
        yield TYPE_ALTERED
    yield from _column_differences(before, table)


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
    before: Mapping[str, Any], table: PublishedTable, births: Mapping[Pair, Birth]
) -> Iterator[Reason]:
    then = {oid: more for oid, *more in before["parts"]}
    now = {part.oid: part for part in table.parts}
    born = {
        part.oid
        for part, birth in zip(table.parts, _births(births, table), strict=True)
        if birth.is_published or birth.rows is Rows.NEVER
    }
    attached = [
        part.quoted
        for oid, part in now.items()
        if (oid not in then and oid not in born)
        or (oid in then and then[oid][3] != part.attached)
    ]
    if attached or then.keys() - now.keys():
        words = f": {', '.join(attached)}" if attached else ""
        text = f"partitions were attached or detached{words}"
        yield Reason(Why.PARTITIONS, text)


def _keeps_values(before: Mapping[str, Any], table: PublishedTable) -> bool:
    """Whether a new file must have the values of the old one, as after VACUUM FULL or CLUSTER.

    A table that is named in a publication cannot be made unlogged, its own TRUNCATE is in the log,
    and ALTER TABLE changes the catalog's row of a column whose values it writes.
    """
    then = {tuple(each) for each in before["memberships"]}
    # A partition has the places of its ancestors, with a path to them.
    is_named = any(
        place.split(" ", 4)[1::3] == ["table", ""] and "t" in operations
        for place, _, operations in then & set(table.memberships)
    )
    numbers = [number for number, *_ in before["columns"]]
    changed = dict(zip(numbers, before.get("changed", ()), strict=False))
    return (
        is_named
        and [part.oid for part in table.parts] == [table.oid]
        and all(changed.get(it.number) == it.changed for it in table.columns)
    )


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
    files = {oid: file for oid, file, *_ in before["parts"]}
    has_new_file = any(files.get(it.oid, it.file) != it.file for it in table.parts)
    for column in table.columns:
        number, name, *type_, has_default, expression, is_filled, _ = column
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
        elif is_filled or (has_default and has_new_file):
            # Otherwise it was NULL: a value that is not NULL was written, and is in the log.
            text = f"column {name} was added with a value for existing rows"
            yield Reason(Why.DEFAULT, text)


NEW = Reason(Why.NEW, "it is new in the publication")
