"""Changes of tables that a look at the server shows, and the stream does not contain.

Pure: from a record and a look comes the next record. `completeness` looks, and stores the record.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from walrow._log.left import Absence, Left, Owner
from walrow._log.marks import Gap, Mark, Reason, Why, emptied, ended, marked
from walrow._log.new_files import NewFiles, Pending, is_explained
from walrow._log.published import Published
from walrow._log.young_tables import (
    REWRITTEN,
    TYPE_ALTERED,
    FirstRow,
    YoungTable,
    may_differ,
    plain_name,
)
from walrow._lsn import Lsn
from walrow._receive.looks import Look, with_parts
from walrow._receive.told import LEFT, PUBLISHED_LESS, after_moves, covers, writers

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from walrow._log.items import LogTable
    from walrow._postgres.published import (
        PublishedColumn,
        PublishedTable,
        Remains,
        TablePart,
    )


class Questions(NamedTuple):
    """Questions that only the changes in a log answer: see `walrow._log.questions`."""

    truncates: Callable[[int, Lsn], Sequence[tuple[int, Lsn]]]
    first_row: Callable[[int], FirstRow | None]
    versions: Callable[[Lsn, Lsn], Sequence[tuple[int, Lsn, Mapping[str, int]]]]


def at_beginning(
    tables: Sequence[PublishedTable],
    lacking: Collection[int],
    publications: Sequence[str],
    start: Lsn,
) -> Published:
    """The record of a log that begins with a slot: it lacks the rows that some tables have then."""
    oids = [part.oid for table in tables for part in table.parts]
    last_oid = max([*oids, *(table.oid for table in tables)], default=0)
    look = Look(tables, publications, start, start, last_oid=last_oid)
    found = after_look(Published(None, start), look)
    marks = dict(found.marks)
    for oid in lacking:
        marks[oid] = marked(marks.get(oid, ()), [HAD_ROWS], start)
    return found._replace(
        marks=marks, noticed=dict.fromkeys(marks, start), compared=start
    )


def across(before: Published, gap: Gap, logged: Collection[int]) -> Published:
    """The record before the log crosses a gap: no table is whole, known or not."""
    oids = {*(before.tables or ()), *before.marks, *logged} - before.left.keys()
    return before._replace(
        tables=before.tables or {},
        marks={**before.marks}
        | {oid: gap.added_to(before.marks.get(oid, ())) for oid in oids},
        noticed={**before.noticed} | dict.fromkeys(oids, gap.end),
        gaps=[*(it for it in before.gaps if it.start != gap.start), gap],
        # Messages of the event trigger are lost, too.
        told=None,
    )


def absent(
    before: Published,
    tables: Sequence[PublishedTable],
    moved: Collection[int] | None,
    logged: Collection[int],
) -> set[int]:
    """The OIDs of known or logged tables that a look has not found among the published ones."""
    pictures = set(before.tables or ())
    known = {oid for oid, it in before.left.items() if it.why is not Absence.DROPPED}
    known |= set(logged) - pictures - before.left.keys()
    known |= pictures if moved is None else pictures & set(moved)
    return known - {table.oid for table in tables}


def as_at_slot(record: Published, look: Look) -> Published:
    """The record before the first look: the tables as they were where the log begins.

    A younger table is not among them. A younger fact has a value that differs from the one now.
    """
    if record.tables is not None or record.horizon is None:
        return record
    is_new, tables = _since(record, look), {}

    def has_new(entries: str, first: int = 1) -> bool:
        # Each entry is an OID and the transaction that wrote it.
        return any(map(is_new, entries.replace(",", " ").split()[first::2]))

    for table in look.tables:
        if table.created and is_new(table.created):
            continue
        parts = []
        # The creation of another part shows whether its root has all its rows.
        for part in (it for it in table.parts if not has_new(it.attached)):
            has_other = part.file_writers and all(map(is_new, part.file_writers))
            files = (0, None) if has_other else (part.file, part.toast)
            parts.append([part.oid, *files, part.persistence, part.attached])
        tables[table.oid] = _picture(table, {}, record.position) | {
            "children": [],
            "lacking": [],
            "stamp": "",
            "schema": "" if any(map(is_new, table.schema.split())) else table.schema,
            "changed": [
                table.created if is_new(it.changed) else it.changed
                for it in table.columns
            ],
            "parts": parts,
            "memberships": [
                [
                    f"{place} -" if has_new(place, 3) else place,
                    f"0 {options}" if is_new(xmin) else f"{xmin} {options}",
                    operations,
                ]
                for place, publication, operations in table.memberships
                for xmin, _, options in [publication.partition(" ")]
            ],
        }
    return record._replace(tables=tables)


def _since(record: Published, look: Look) -> Callable[[int | str], bool]:
    """Before the first look: whether a transaction may be later than the beginning of the log."""
    if record.tables is not None or record.horizon is None or look.next_xid is None:
        return lambda _: False
    first, last = record.horizon, look.next_xid
    # IDs wrap around, and a row keeps the ID of its transaction for ever.
    return lambda xid: (int(xid) - first) % (1 << 32) < (last - first) % (1 << 32)


def _reasons_since_slot(
    table: PublishedTable, is_new: Callable[[int | str], bool]
) -> Iterator[Reason]:
    """Why a table may have been altered after the slot was created that a log begins with."""
    for column in table.columns:
        if is_new(column.changed) and column.is_filled:
            text = f"column {column.quoted} was added with a value for existing rows"
            yield Reason(Why.DEFAULT, text)
        elif is_new(column.changed):
            text = f"column {column.quoted} was added or altered after the slot was created"
            yield Reason(Why.RENAMED, text)
    if any(map(is_new, table.type_writers)):
        yield TYPE_ALTERED


def after_look(before: Published, look: Look) -> Published:
    """The record after a look."""
    is_new = _since(before, look)
    before = as_at_slot(_completed(before, look), look)
    marks, young, files = dict(before.marks), dict(before.young), dict(before.new_files)
    known_tables = before.tables or {}
    asking = set()
    # An earlier record lacks the LSNs of its marks: they precede this look.
    known_since = {oid: it for oid, it in before.noticed.items() if it != _NEVER}
    noticed = {**dict.fromkeys(_open(marks), look.seen), **known_since}
    unsure = {*noticed, *before.noticed} - known_since.keys()
    left = _left(before, look)
    for table in look.tables:
        oid, known = table.oid, known_tables.get(table.oid)
        children = () if known is None else known["children"]
        _mark_children(marks, children, table, before.position, look.seen)
        since = before.position
        if (was := left.pop(oid, None)) is not None:
            since = was.since
            reasons = [LEFT, *_identity_differences((), table)]
            files.pop(oid, None)
        elif before.tables is None:
            reasons = list(_identity_differences((), table))
        elif known is not None:
            keeps = _keeps_values(known, table)
            reasons = [
                *_differences(known, table),
                *_reasons_since_slot(table, is_new),
            ]
            if _was_inherited(known, table) and _have_roots(look, known_tables):
                reasons.append(ATTACHED)
            if PUBLISHED_LESS in reasons and _may_be_exact(before, look, known, table):
                reasons.remove(PUBLISHED_LESS)
                asking.add(oid)
            if not keeps and _is_rewritten(known, table):
                reasons.append(REWRITTEN)
            if not keeps and (new_files := _new_files(known, table)):
                pending = Pending(since, look.seen)
                first = files.get(oid, NewFiles(pending, {}))
                pending = first.pending._replace(seen=look.seen, looks=0)
                files[oid] = NewFiles(pending, first.files | new_files)
        else:
            young[oid] = _young(table, Pending(since, look.seen))
            reasons = list(_birth_reasons(table, young[oid]))
            files.pop(oid, None)
        if reasons:
            marks[oid] = marked(marks.get(oid, ()), reasons, since)
            noticed[oid] = look.seen
            if any(reason.code != Why.TYPE for reason in reasons):
                young.pop(oid, None)
    moved = known_tables.keys() if look.moved is None else look.moved
    pictures = {oid: known_tables[oid] for oid in known_tables.keys() - moved}
    for table in look.tables:
        pictures[table.oid] = _picture(
            table, known_tables.get(table.oid, {}), look.seen
        )
    losers = {
        oid: marked(marks.get(oid, ()), [DETACHED], before.position)
        for oid in _losers(before, look, pictures, marks)
    }
    # An open transaction may have truncated it before it got rows that are not whole.
    unsure = {*unsure, *(table.oid for table in look.tables)}.intersection(
        look.truncated
    )
    after = before._replace(
        tables=pictures,
        position=look.durable,
        publications=list(look.publications),
        marks=marks | losers,
        young=young,
        new_files=files,
        left=left,
        seen=look.seen,
        noticed=noticed
        | dict.fromkeys(losers, look.seen)
        | dict.fromkeys(unsure, _NEVER),
        told=after_moves(before, look, pictures, asking),
        next_xid=look.next_xid,
        horizon=look.horizon or before.horizon,
    )
    return _behind_gaps(after._replace(owners=_owners(before, after)), look)


def _behind_gaps(record: Published, look: Look) -> Published:
    """Marks the tables that a look at all sees behind a gap: they may have come in it, with rows."""
    marks, noticed = dict(record.marks), dict(record.noticed)
    if look.moved is not None:
        return record
    for gap in (it for it in record.gaps if not it.has_marks):
        for table in look.tables:
            marks[table.oid] = gap.added_to(marks.get(table.oid, ()))
            noticed[table.oid] = max(noticed.get(table.oid, gap.end), gap.end)
    gaps = [it._replace(has_marks=True) for it in record.gaps]
    return record._replace(marks=marks, noticed=noticed, gaps=gaps)


def _losers(
    before: Published,
    look: Look,
    pictures: Mapping[int, Mapping[str, Any]],
    marks: Mapping[int, Sequence[Mark]],
) -> Iterator[int]:
    """Partitioned tables whose rows may have left, between the looks, with a partition that came then.

    The log has no row of that table, and it has their schema and columns.
    """
    known = before.tables
    last = before.told.oids[-1] if before.told is not None else 0
    if known is None or not last or not _have_roots(look, known):
        return
    left = {
        _shape(pictures[table.oid])
        for table in look.tables
        if table.oid > last
        and table.oid not in look.logged
        and any(it.code is Why.NEW and it.is_open for it in marks.get(table.oid, ()))
    }
    for oid, it in pictures.items() if left else ():
        is_changed = oid in look.logged and look.logged[oid][2] > before.position
        is_root = [part[0] for part in it["parts"]] != [oid]
        if is_root and (is_changed or oid not in known) and _shape(it) in left:
            yield oid


def _shape(picture: Mapping[str, Any]) -> tuple[Any, ...]:
    columns = frozenset(tuple(column[1:4]) for column in picture["columns"])
    return picture.get("namespace"), columns


def _birth_reasons(table: PublishedTable, came: YoungTable) -> Iterator[Reason]:
    """Why a table that no look has seen before is not whole."""
    yield from _identity_differences((), table)
    if any(part.birth.is_late and part.birth.has_rows for part in table.parts):
        yield NEW
    elif came.is_rewritten and came.has_rows:
        yield REWRITTEN


def _left(before: Published, look: Look) -> dict[int, Left]:
    """The tables that left, after a look. A dropped one is kept as long as the log has it."""
    left = {
        oid: it
        for oid, it in before.left.items()
        if it.why is not Absence.DROPPED or oid in look.logged or not look.logged
    }
    published = {*(before.tables or ()), *(table.oid for table in look.tables)}
    for oid, remains in look.remains.items():
        if (was := left.get(oid)) is not None:
            schema, name, since = was.schema, was.name, was.since
        else:
            is_known = oid in (before.tables or ())
            pair = before.pair_of(oid) if is_known else look.logged[oid][:2]
            schema, name = pair[0], ".".join(pair)
            since = before.position if is_known else look.logged[oid][2]
        why = _absence(schema, remains)
        if remains is not None and published.intersection(remains.roots):
            why = Absence.ATTACHED
        left[oid] = Left(schema, name, why, since)
    return left


def _absence(schema: str, remains: Remains | None) -> Absence:
    if remains is None:
        return Absence.DROPPED
    if remains.persistence == "u":
        return Absence.UNLOGGED
    return Absence.UNPUBLISHED if remains.schema == schema else Absence.MOVED


def _owners(before: Published, after: Published) -> dict[tuple[str, str], list[Owner]]:
    """The tables that had the names which have changed their table."""
    owners = {pair: [*found] for pair, found in before.owners.items()}
    then = {before.pair_of(oid): oid for oid in before.tables or ()}
    now = {after.pair_of(oid): oid for oid in after.tables or ()}
    for pair, oid in then.items():
        if now.get(pair) != oid:
            found = owners.setdefault(pair, [])
            first = found.pop().first if found and found[-1].oid == oid else Lsn(0)
            found.append(Owner(oid, first, before.position))
    for pair, oid in now.items():
        if pair in owners and then.get(pair) != oid:
            first = max(after.position, after.seen)
            owners[pair] = [*owners[pair][-_MOST_OWNERS:], Owner(oid, first, None)]
    return owners


def _completed(before: Published, look: Look) -> Published:
    """The record with all facts. A fact that an older version did not store proves nothing.

    It gets the value of a table that is as it was created, so that each difference leaves a mark.
    """
    if before.tables is None:
        return before
    tables = dict(before.tables)
    for table in look.tables:
        if (known := tables.get(table.oid)) is not None:
            columns = known["columns"]
            tables[table.oid] = {
                "schema": table.first_schema,
                "stamp": "",
                "children": [],
                "changed": [table.created] * len(columns),
                "since": {plain_name(it[1]): str(before.position) for it in columns},
                "lacking": [],
                "gone_since": dict.fromkeys(known["gone"], str(before.position)),
                # It had the conditions instead.
                "filter_digests": known.get("filters", []),
            } | known
    compared = before.position if before.compared is None else before.compared
    return before._replace(tables=tables, compared=compared)


def _mark_children(
    marks: dict[int, list[Mark]],
    known: Sequence[int],
    table: PublishedTable,
    since: Lsn,
    seen: Lsn,
) -> None:
    """Marks a table whose children by inheritance have changed. Without any, it is whole again."""
    found = marks.get(table.oid, [])
    open_ = [it for it in found if it.code is Why.INHERITED and it.is_open]
    if not open_ and [*known] == sorted(table.children):
        return
    names = sorted(table.children.values())
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""  # noqa: PLR2004
    text = f"rows of its children by inheritance are sent under their names: {', '.join(names[:5])}{more}"
    now: dict[str, Any] = {"reason": text} if names else {"until": seen}
    marks[table.oid] = [replace(it, **now) if it in open_ else it for it in found]
    if names and not open_:
        marks[table.oid].append(Mark(Why.INHERITED, text, since))


def _open(marks: Mapping[int, Sequence[Mark]]) -> list[int]:
    """The tables that are not whole."""
    return [oid for oid, each in marks.items() if any(mark.is_open for mark in each)]


def after_names(
    before: Published,
    names: Mapping[str, Mapping[str, int]],
    renamed: Collection[str],
    types: Mapping[int, Collection[str]],
    seen: Lsn,
) -> Published:
    """The record after a look at the names that values contain, as of the type regclass.

    The objects in `renamed` are new in `names`, and may have had another name. `types` has the types of
    the names in each table. The server was at `seen` after the look.
    """
    marks, noticed = dict(before.marks), dict(before.noticed)
    unchanged = unchanged_names(before.names, names, renamed)
    for oid, each in types.items() if before.tables is not None else ():
        if moved := sorted({*each} - unchanged):
            reasons = [_renaming(moved)]
            marks[oid] = marked(marks.get(oid, ()), reasons, before.position, seen)
            noticed[oid] = seen
    return before._replace(marks=marks, names=names, noticed=noticed)


def with_names(
    loaded: Published,
    tables: Sequence[PublishedTable],
    point: Lsn,
    names: Mapping[str, Mapping[str, int]],
    unchanged: Collection[str],
) -> Published:
    """The record after a load, during which the names of these types have not changed."""
    marks = dict(loaded.marks)
    for oid, each in ((table.oid, table.names) for table in tables):
        if moved := sorted({*each}.difference(unchanged)):
            marks[oid] = marked(marks.get(oid, ()), [_renaming(moved)], point)
    return loaded._replace(marks=marks, names={**names, **loaded.names})


def unchanged_names(
    before: Mapping[str, Mapping[str, int]],
    names: Mapping[str, Mapping[str, int]],
    renamed: Collection[str] = (),
) -> set[str]:
    """The types whose values cannot name an object that was renamed or dropped between two looks."""
    same = {
        type_
        for type_, now in names.items()
        if (then := before.get(type_)) is not None
        and all(now.get(oid, text) == text for oid, text in then.items())
        and (now.keys() - then.keys()).isdisjoint(renamed)
    }
    return {
        type_
        for type_ in same
        if before[type_].keys() <= names[type_].keys() and with_parts([type_]) <= same
    }


def _renaming(types: Sequence[str]) -> Reason:
    names = ", ".join(types)
    text = f"an object was renamed or dropped that values of {names} may name"
    return Reason(Why.NAMES, text)


def settled(
    before: Published,
    tables: Mapping[int, LogTable],
    end: Lsn,
    durable: Lsn,
    ask: Questions,
) -> Published:
    """Compares what waits for the log with what readers see of it.

    It ends at `end` for readers, and at `durable` for its writer.
    """
    marks, pictures = dict(before.marks), dict(before.tables or {})
    young, files, noticed = {}, {}, dict(before.noticed)
    for oid, table in before.young.items():
        found, picture = tables.get(oid), pictures.get(oid)
        columns = table.columns if picture is None else picture["columns"]
        pending = table.pending.later(end, durable)
        versions = [] if found is None else [it for it in found.versions if it.rows]
        first_row = partial(ask.first_row, oid)
        reason = table.alteration(versions, columns, first_row)
        if pending is None and reason is None:
            reason = _doubt(table, found, first_row, partial(ask.truncates, oid))
        if picture is not None:
            names = {it.name.lower() for version in versions for it in version.columns}
            now = {_folded(column[1]) for column in columns}
            gone = sorted((names | set(picture["gone"])) - now)
            pictures[oid] = picture | {"gone": gone}
        if reason is not None:
            marks[oid] = marked(marks.get(oid, ()), [reason], table.pending.since)
            noticed[oid] = max(table.pending.seen, noticed.get(oid, Lsn(0)))
        elif pending is not None:
            young[oid] = table._replace(pending=pending)
    for oid, each in before.new_files.items():
        since = each.pending.since
        if is_explained(each.files, [xid for xid, _ in ask.truncates(oid, since)]):
            continue
        if (pending := each.pending.later(end, durable)) is None:
            reason = REWRITTEN if oid in each.files else PARTITION_REWRITTEN
            marks[oid] = marked(marks.get(oid, ()), [reason], since)
            noticed[oid] = max(each.pending.seen, noticed.get(oid, Lsn(0)))
        else:
            files[oid] = each._replace(pending=pending)
    # The next look compares definitions that readers see later, or that are later than this look.
    until = min(end, durable)
    for oid, used, written in ask.versions(before.compared or until, until):
        picture = pictures.get(oid)
        if picture is None or oid in before.young or used <= picture.get("loaded", 0):
            continue
        known = marks.get(oid, ())
        if reasons := list(_changed_back(picture, used, written, known)):
            marks[oid] = marked(known, reasons, before.compared or until, used)
    record = before._replace(
        tables=None if before.tables is None else pictures,
        marks=marks,
        young=young,
        new_files=files,
        noticed=noticed,
        compared=max(until, before.compared or until),
    )
    return _emptied(record, end, ask)


def _emptied(record: Published, end: Lsn, ask: Questions) -> Published:
    """Ends the marks of tables that were emptied after the looks that have made them."""
    marks = dict(record.marks)
    noticed = {oid: it for oid, it in record.noticed.items() if it == _NEVER}
    for oid in record.noticed.keys() & _open(marks):
        since = record.noticed[oid]
        if later := ask.truncates(oid, since):
            _, commit = later[-1]
            marks[oid] = emptied(marks[oid], Lsn(commit + 1))
        noticed[oid] = max(since, end)
    return record._replace(marks=marks, noticed=noticed)


def _changed_back(
    picture: Mapping[str, Any],
    used: Lsn,
    types: Mapping[str, int],
    marks: Sequence[Mark],
) -> Iterator[Reason]:
    """Differences between a definition of a table in the log and the looks around it."""
    if (name := _renamed(picture, used, list(types))) is not None:
        yield Reason(Why.RENAMED, f"column {name} had another name for a while")
    elif (name := _retyped(picture, used, types)) is not None:
        # If it still has another type, a look has marked it.
        known = (it for it in marks if it.is_open and it.code == Why.RETYPED)
        text = f"column {name} had another type for a while"
        yield next(
            (Reason(it.code, it.reason) for it in known), Reason(Why.RETYPED, text)
        )


def _renamed(picture: Mapping[str, Any], used: Lsn, names: Sequence[str]) -> str | None:
    """A column that had another place in a definition in the log than in the looks around it.

    Definitions have their columns in the order of the numbers.
    """
    since = picture.get("since", {})
    then = [name for name in since if Lsn(since[name]) < used]
    places = [names.index(name) if name in names else -1 for name in then]
    for name, place, last in zip(then, places, [-1, *places], strict=False):
        if place <= last:
            return str(name)
    # Columns that came before the look have greater numbers, and their names since.
    came = [name for name in since if name not in then]
    later = names[max(places, default=-1) + 1 :]
    # A definition may have columns that a later look has not found any more.
    gone = dict.fromkeys(picture.get("gone", ()), used) | picture.get("gone_since", {})
    new = [it for it in later if Lsn(gone.get(it.lower(), 0)) < used]
    return next((now for it, now in zip(new, came, strict=False) if it != now), None)


def _retyped(
    picture: Mapping[str, Any], used: Lsn, types: Mapping[str, int]
) -> str | None:
    """A column that had another type in a definition in the log than in the looks around it.

    The server keeps the files where both types have the same bytes, as `int` and `oid`.
    """
    since = picture.get("since", {})
    now = {plain_name(column[1]): column[2] for column in picture["columns"]}
    then = {name: types[name] for name in types if Lsn(since.get(name, used)) < used}
    changed = (
        name
        for name, type_ in then.items()
        if may_differ([type_], [now[name]], is_rewritten=False)
    )
    return next(changed, None)


def _doubt(
    young: YoungTable,
    found: LogTable | None,
    first_row: Callable[[], FirstRow | None],
    truncates: Callable[[Lsn], Sequence[tuple[int, Lsn]]],
) -> Reason | None:
    """Why a young table is not whole, once the log has all changes before the look."""
    has_rows = found is not None and found.rows > 0
    # It was empty: rows that came after the look are whole.
    if young.is_doubted and has_rows and (first := first_row()):
        return NEW if first.commit < young.pending.seen else None
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

    The last look in this process may have been later than that.
    """
    pictures, marks = dict(before.tables or {}), dict(before.marks)
    young, files = dict(before.young), dict(before.new_files)
    left, later = dict(before.left), {}
    if look is not None and look.seen > point:
        # Its rows were compared with an earlier look, which may be later than the load.
        later = {
            it.oid: it._replace(parts=[p._replace(keeps_rows=False) for p in it.parts])
            for it in look.tables
        }
    for table in tables:
        young.pop(table.oid, None)
        files.pop(table.oid, None)
        if table.oid in later or before.seen <= point:
            # It was published at the load. The next look sees later changes.
            left.pop(table.oid, None)
        known = pictures.get(table.oid, {})
        _mark_children(marks, known.get("children", ()), table, point, point)
        picture = _picture(table, known, point)
        # Only a look may find another name.
        picture |= {key: known[key] for key in ("name", "namespace") if key in known}
        picture["since"] = dict.fromkeys(picture["since"], str(point))
        if table.oid in later:
            # Columns that the load does not have yet are no earlier ones.
            came = {_folded(column.quoted) for column in later[table.oid].columns}
            picture["gone"] = [name for name in picture["gone"] if name not in came]
        pictures[table.oid] = picture | {"loaded": point}
        if table.oid in marks:
            marks[table.oid] = ended(marks[table.oid], point)
        # Its next changes lack the same values.
        if reasons := list(_identity_differences((), table)):
            marks[table.oid] = marked(marks.get(table.oid, ()), reasons, point)
    loaded = before._replace(
        tables=pictures,
        position=point,
        marks=marks,
        young=young,
        new_files=files,
        left=left,
    )
    again = [later[table.oid] for table in tables if table.oid in later]
    if look is not None and again:
        moved = [table.oid for table in again]
        again_ = look._replace(tables=again, moved=moved, remains={}, logged={})
        loaded = after_look(loaded, again_)
    # It may have entries of publications that no look has seen.
    return loaded._replace(
        position=before.position, publications=before.publications, next_xid=None
    )


def _young(table: PublishedTable, pending: Pending) -> YoungTable:
    files = [part for part in table.parts if part.birth.has_other_file]
    moved = [part for part in table.parts if part.file != part.oid]

    def may_fill(column: PublishedColumn) -> bool:
        # VACUUM FULL has written a default into the rows, and it may be gone.
        is_copied = any(not part.birth.has_other_file for part in moved)
        return column.is_filled or is_copied or (bool(moved) and column.has_default)

    columns = [_column(it._replace(has_default=may_fill(it))) for it in table.columns]
    return YoungTable(
        columns,
        pending,
        table.has_altered_types,
        # ALTER TABLE makes the TOAST table after the file. TRUNCATE and VACUUM keep an older one.
        any(part.toast is not None and part.toast > part.file for part in files),
        {part.oid: part.truncates for part in files},
        table.altered,
        table.dropped,
        # A partitioned table without partitions is empty: they may have left with rows.
        not table.parts or any(part.birth.is_late for part in table.parts),
        any(part.birth.has_rows for part in files),
    )


def _column(column: PublishedColumn) -> list[Any]:
    """A column for the record: what a later look compares."""
    number, quoted, oid, modifier, has_default, expression, is_filled, _ = column
    return [number, quoted, oid, modifier, has_default or is_filled, expression]


def _picture(
    table: PublishedTable, before: Mapping[str, Any], seen: Lsn
) -> dict[str, Any]:
    known = before.get("since", {})
    kept = {tuple(column[:2]) for column in before.get("columns", ())}
    names = [plain_name(column.quoted) for column in table.columns]
    # A load ends no name: a target with `deletes="soft"` keeps values under it.
    now = {_folded(column.quoted) for column in table.columns}
    gone = sorted(_earlier_names(before, table) - now)
    gone_since = before.get("gone_since", {})
    return {
        **{name: getattr(table, name) for name in _COPIED},
        "namespace": table.namespace,
        "children": sorted(table.children),
        "columns": [_column(column) for column in table.columns],
        "changed": [column.changed for column in table.columns],
        "gone": gone,
        "gone_since": {name: gone_since.get(name, str(seen)) for name in gone},
        # The LSN since which each column has its number and its name.
        "since": {
            name: known.get(name, str(seen))
            if (column.number, column.quoted) in kept
            else str(seen)
            for name, column in zip(names, table.columns, strict=True)
        },
        "parts": [
            [part.oid, part.file, part.toast, part.persistence, part.attached]
            for part in table.parts
        ],
        "lacking": [
            part.oid
            for part in table.parts
            if part.lacks_identity or _is_unlogged(table, part)
        ],
        "memberships": [list(each) for each in table.memberships],
        "loaded": before.get("loaded", 0),
        "primary_key": list(table.primary_key),
        "filter_digests": list(table.filter_digests),
        "names": list(table.names),
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


def _new_files(before: Mapping[str, Any], table: PublishedTable) -> dict[int, str]:
    """The files of a truncated or rewritten table, as far as its TOAST table does not show it.

    VACUUM FULL keeps the TOAST table, but writes the default of a new column into old rows: then no
    column shows any more that they have a value. The stream lacks the TRUNCATE of a partition.
    """
    is_wider = table.last_column > before["last_column"]
    known = {oid: (file, toast) for oid, file, toast, *_ in before["parts"]}
    found = {}
    for part in table.parts:
        file, toast = known.get(part.oid, (None, None))
        is_new = part.birth.has_other_file if file is None else file != part.file
        is_unsure = not part.keeps_rows and (toast is None or part.oid != table.oid)
        if is_new and (is_unsure or is_wider):
            found[part.oid] = part.truncates
    return found


def _differences(before: Mapping[str, Any], table: PublishedTable) -> Iterator[Reason]:
    """The reasons why a table is not whole since the last look."""
    yield from _publication_differences(before, table)
    yield from _partition_differences(before, table)
    # A new label of an enum changes no row.
    if before["definitions"] != {
        key: text
        for key, text in table.definitions.items()
        if key.removesuffix(" written") in before["definitions"]
        or not key.startswith("label ")
    }:
        yield TYPE_ALTERED
    yield from _column_differences(before, table)
    yield from _identity_differences(before["lacking"], table)


def _publication_differences(
    before: Mapping[str, Any], table: PublishedTable
) -> Iterator[Reason]:
    if before["filter_digests"] != list(table.filter_digests):
        yield Reason(Why.FILTER, "its row filter has changed")
    then = {tuple(each) for each in before["memberships"]}
    now = {tuple(each) for each in table.memberships}
    kept = {each[0] for each in then} & {each[0] for each in now}
    if before["schema"] != table.schema:
        # It may have left the schema, and come back.
        kept = {place for place in kept if place.split()[1] != "schema"}
    is_narrow = _filtered(table, then & now) != _filtered(table, now)
    if then and not kept:
        yield LEFT
    elif is_narrow or len({_operations(it) for it in (then, now, then & now)}) > 1:
        yield PUBLISHED_LESS


def _may_be_exact(
    before: Published, look: Look, known: Mapping[str, Any], table: PublishedTable
) -> bool:
    """Whether messages can show that a publication always had the same options."""
    then, now = (
        {(place, it.partition(" ")[2], operations) for place, it, operations in each}
        for each in (known["memberships"], table.memberships)
    )
    return then == now and covers(before.told, look)


def _was_inherited(before: Mapping[str, Any], table: PublishedTable) -> bool:
    """Whether it may have been a partition: ATTACH and DETACH write the rows of all columns."""
    then = writers(before)
    kept = [it for it in table.columns if it.number in then]
    # They also write the row of the table, which is the first of the stamp.
    return (
        bool(kept)
        and all(then[it.number] != it.changed for it in kept)
        and before["stamp"].split(" ")[0] != table.stamp.split(" ")[0]
    )


def _have_roots(look: Look, known: Mapping[int, Mapping[str, Any]]) -> bool:
    """Whether a publication sends changes of a root for its partitions, or may leave both out."""
    places = [*(it["memberships"] for it in known.values())]
    places += [table.memberships for table in look.tables]
    options = (it for each in places for _, it, _ in each)
    return any(
        '"pubviaroot": true' in it
        or ('"puballtables": true' in it and "puballsequences" in it)
        for it in options
    )


def _filtered(
    table: PublishedTable, memberships: Collection[tuple[Any, ...]]
) -> set[tuple[str, str | None]]:
    """The operations that entries publish, each with a row filter, or without one."""
    return {
        (operation, table.narrow.get(place))
        for place, _, operations in memberships
        for operation in operations
    }


def _operations(memberships: Collection[tuple[Any, ...]]) -> frozenset[str]:
    return frozenset("".join(operations for _, _, operations in memberships))


def _partition_differences(
    before: Mapping[str, Any], table: PublishedTable
) -> Iterator[Reason]:
    then = {oid: more for oid, *more in before["parts"]}
    now = {part.oid: part for part in table.parts}
    attached = [
        part.quoted
        for oid, part in now.items()
        if (oid not in then and part.birth.is_late)
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
    changed = writers(before)
    return (
        is_named
        and [part.oid for part in table.parts] == [table.oid]
        and all(changed.get(it.number) == it.changed for it in table.columns)
    )


def _identity_differences(
    before: Collection[int], table: PublishedTable
) -> Iterator[Reason]:
    """Partitions that begin to send less than their root: of old rows, or no change at all."""
    came = [part for part in table.parts if part.oid not in before]
    if lacking := [part.quoted for part in came if part.lacks_identity]:
        text = (
            f"old rows of partitions lack values of its replica identity: {', '.join(lacking)}; "
            "give them REPLICA IDENTITY FULL, or the identity of the table"
        )
        yield Reason(Why.IDENTITY, text)
    if unlogged := [part.quoted for part in came if _is_unlogged(table, part)]:
        text = (
            f"the server sends no changes of unlogged partitions: {', '.join(unlogged)}; "
            "use ALTER TABLE … SET LOGGED"
        )
        yield Reason(Why.UNLOGGED, text)


def _is_unlogged(table: PublishedTable, part: TablePart) -> bool:
    return part.persistence == "u" and part.oid != table.oid


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
    may_be_rewritten = any(
        files.get(it.oid, it.oid) != it.file and not it.keeps_rows for it in table.parts
    )
    # Columns that came and went between the looks.
    lost = [number for number, _ in table.dropped if number > before["last_column"]]
    for column in table.columns:
        number, name, *type_, has_default, expression, is_filled, _ = column
        if number in known:
            _, old_name, *old_type, _, old_expression = known[number]
            if old_name != name:
                text = f"column {old_name} was renamed to {name}"
                yield Reason(Why.RENAMED, text)
            if may_differ(old_type, type_, may_be_rewritten):
                yield Reason(Why.RETYPED, f"column {name} has another type")
            if old_expression != expression:
                text = f"the expression of column {name} has changed"
                yield Reason(Why.EXPRESSION, text)
        elif number <= before["last_column"]:
            yield Reason(Why.COLUMN, f"column {name} was added to the publication")
        elif _folded(name) in earlier or number > min(lost, default=number):
            # Its Relation messages look like the old ones: readers keep the old values.
            text = f"column {name} was dropped and added again"
            yield Reason(Why.RETURNED, text)
        elif is_filled or (has_default and has_new_file):
            # Otherwise it was NULL: a value that is not NULL was written, and is in the log.
            text = f"column {name} was added with a value for existing rows"
            yield Reason(Why.DEFAULT, text)


#: No TRUNCATE is later.
_NEVER = Lsn((1 << 64) - 1)
#: The fields of a table that a picture of it has, too.
_COPIED = ("name", "last_column", "schema", "definitions", "stamp")
#: How many earlier tables of a name the record keeps.
_MOST_OWNERS = 100
HAD_ROWS = Reason(Why.HAD_ROWS, "it had rows before the slot was created")
ATTACHED = Reason(Why.LEFT, "it may have been a partition of another table for a while")
DETACHED = Reason(Why.PARTITIONS, "a partition may have been attached for a while")
NEW = Reason(Why.NEW, "it is new in the publication")
PARTITION_REWRITTEN = Reason(
    Why.REWRITTEN,
    "a partition was truncated or rewritten, which the stream of the table does not show",
)
