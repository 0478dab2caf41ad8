"""Messages of the event trigger show states that no look has seen.

Pure, as `marks`. A message only adds marks. Looks find changes that last. A message counts only if a
look shows that its table has moved, because each role can write such messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from walrow._log.marks import Reason, Why, marked
from walrow._log.told import (
    Before,
    Hearing,
    Moved,
    PublicationTold,
    Rewritten,
    TableTold,
    TypeTold,
)
from walrow._log.young_tables import REWRITTEN, TYPE_ALTERED, plain_name
from walrow._lsn import Lsn

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from walrow._log.published import Published
    from walrow._log.told import Message, Told
    from walrow._receive.looks import Look

    Picture = Mapping[str, Any]


class Heard(NamedTuple):
    """The messages that a log has between `first_place` and its end, in their order."""

    messages: Sequence[Message]
    end: Lsn
    #: The transactions with a TRUNCATE of a table since then, as `Questions.truncates`.
    truncates: Callable[[int], Collection[tuple[int, Lsn]]] = lambda _oid: ()
    #: Whether no look follows.
    is_last: bool = False
    #: Whether publications of all tables may leave some out: from version 19 on.
    has_exceptions: bool = False


def after_moves(
    before: Published,
    look: Look,
    pictures: Mapping[int, Picture],
    asking: Collection[int],
) -> Hearing:
    """Notes the trigger, and the tables that have moved, as a look shows them in `pictures`.

    Only messages can show that the tables in `asking` are whole.
    """
    told, known, place = before.told, before.tables or {}, look.durable
    if told is None and before.tables is None:
        return Hearing(place, place, [look.last_oid], look.trigger, look.others, {})
    if told is None:
        # An older version did not ask for it: all messages since its last look count.
        told = Hearing(before.position, before.position, [0], None, -1, {})
    if look.moved is not None:
        unpublished = set(look.moved) - known.keys()
    else:
        # A new process does not know which ones have moved.
        unpublished = {0} if told.others != look.others else set()
    was = dict.fromkeys(unpublished) | {
        oid: known[oid]
        for oid in known.keys() & pictures.keys()
        if _stamp(known[oid]) != _stamp(pictures[oid])
    }
    # Without a trigger that works, no message is missing.
    is_told = not covers(told, look)
    moved = dict(told.moved)
    for oid, picture in was.items():
        new = Moved(before.position, look.seen, picture, oid in asking, is_told)
        if (first := moved.get(oid)) is not None:
            new = first._replace(seen=look.seen, asks=first.asks or new.asks)
        moved[oid] = new
    after = unmoved(told, place, look.trigger)
    oids = [*after.oids[:-1], look.last_oid]
    return after._replace(oids=oids, others=look.others, moved=moved)


def unmoved(told: Hearing, durable: Lsn, trigger: str | None) -> Hearing:
    """Notes the trigger after a look that found the same tables."""
    # Messages were read up to the last look, which began later.
    first = told.oids[-2:] if told.place >= told.seen else told.oids[:1]
    return told._replace(seen=durable, trigger=trigger, oids=[*first, told.oids[-1]])


def covers(told: Hearing | None, look: Look) -> bool:
    """Whether the trigger has worked since the last look."""
    return told is not None and told.trigger == look.trigger is not None


def first_place(told: Hearing) -> Lsn:
    """The LSN where the messages to read begin."""
    return min([told.place, *(each.since for each in told.moved.values() if each.asks)])


def after_messages(record: Published, heard: Heard) -> tuple[Published, list[int]]:
    """The record once messages were read, and the tables that changed without one."""
    told, tables = record.told, record.tables or {}
    if told is None:
        return record, []
    # Looks are later than the log, unless the log has waited for the last one.
    end = heard.end if heard.is_last else min(heard.end, told.seen)
    marks, moved, noticed = dict(record.marks), dict(told.moved), dict(record.noticed)

    def mark(oid: int, reason: Reason, since: Lsn, seen: Lsn) -> None:
        marks[oid] = marked(marks.get(oid, ()), [reason], since)
        noticed[oid] = max(noticed.get(oid, Lsn(0)), seen)

    for message in heard.messages:
        if not told.place <= message.lsn < end:
            continue
        for oid in _touched(tables, moved, message.told):
            if oid in moved:
                moved[oid] = moved[oid]._replace(is_told=True)
            for reason in _reasons(oid, tables[oid], told, message, heard):
                # An earlier TRUNCATE may have been committed before the look.
                mark(oid, reason, message.lsn, max(Lsn(message.lsn + 1), record.seen))
    silent = []
    for oid, each in told.moved.items():
        is_read = end >= each.seen
        if not is_read and not (heard.is_last and each.asks):
            continue
        is_told, now = moved.pop(oid).is_told, tables.get(oid)
        if now is None or each.was is None:
            continue
        names = record.publications or ()
        if each.asks and not (
            is_read and _is_exact(each.was, now, heard.messages, names)
        ):
            mark(oid, PUBLISHED_LESS, each.since, each.seen)
        if is_read and not is_told and _facts(each.was) != _facts(now):
            silent.append(oid)
    after = told._replace(place=max(told.place, end), moved=moved)
    return record._replace(marks=marks, noticed=noticed, told=after), silent


def _touched(
    tables: Mapping[int, Picture], moved: Mapping[int, Moved], it: Told
) -> Collection[int]:
    """The tables that a message is about."""
    match it:
        case TableTold():
            return {it.oid, *it.roots, *it.parts} & tables.keys()
        case Rewritten():
            return {it.rewritten, *it.roots} & tables.keys()
        case TypeTold(told):
            return [
                oid for oid, at in tables.items() if told.keys() & at["definitions"]
            ]
        case PublicationTold():
            return [
                oid for oid, at in tables.items() if it.publication in _publications(at)
            ]
        case Before():
            # A look has not seen the others move. Each role may write many of these messages.
            return tables.keys() & moved.keys()
        case _:
            assert_never(it)


def _reasons(
    oid: int, now: Picture, told: Hearing, message: Message, heard: Heard
) -> Iterator[Reason]:
    """Why a table is not whole that was in a state that no look has seen."""
    it, lsn = message.told, message.lsn
    if lsn < now.get("loaded", 0):
        return
    window = told.moved.get(oid)
    was = window.was if window is not None and _has(window, lsn) else None
    if isinstance(it, TableTold):
        known = _files(now).keys() | _files(was or now)
        if any(_is_new(told, part, lsn) for part in _parts(oid, it) - known):
            yield Reason(Why.PARTITIONS, "partitions were attached or detached")
        # The catalog keeps no trace of an exception that was made and taken back.
        if heard.has_exceptions and oid in {it.oid, *it.parts}:
            every = [
                at for at, each in _publications(now).items() if each.kind == "all"
            ]
            if not set(it.publications).issuperset(every):
                yield LEFT
    if was is not None:
        yield from _changed_back(oid, [was, now], message, heard)


def _changed_back(
    oid: int, both: Sequence[Picture], message: Message, heard: Heard
) -> Iterator[Reason]:
    """The reasons of a state that neither look around it has seen."""
    match message.told:
        case TableTold() as it if it.oid == oid:
            yield from _column_reasons(both, it)
            kept = _publications(both[0]).keys() & _publications(both[1])
            if kept and kept.isdisjoint(it.publications):
                yield LEFT
        case TypeTold(definitions):
            first, last = (each["definitions"] for each in both)
            # A label of an enum may be new, and have another name already.
            for key in definitions.keys() & (first.keys() | last):
                if definitions[key] not in {first.get(key), last.get(key)}:
                    yield TYPE_ALTERED
        case PublicationTold(publication, _, _, options):
            ours = [_publications(each).get(publication) for each in both]
            if options not in {each.options for each in ours if each}:
                yield PUBLISHED_LESS
        case Rewritten(part) if message.told.has_new_values:
            first, last = (writers(each) for each in both)
            files = {_files(each).get(part) for each in both}
            # It may have other values of columns that are not published.
            has_others = not first or any(
                first[it] != last[it] for it in first.keys() & last
            )
            commits = (commit for _, commit in heard.truncates(oid))
            if has_others and len(files) > 1 and max(commits, default=0) <= message.lsn:
                yield REWRITTEN
        case _:
            pass


def _column_reasons(both: Sequence[Picture], it: TableTold) -> Iterator[Reason]:
    then, later = ({column[0]: column for column in each["columns"]} for each in both)
    for number, name, *type_ in it.columns:
        if number not in then.keys() & later.keys():
            continue
        (_, old, *old_type), (_, new, *new_type) = then[number], later[number]
        if name not in {plain_name(old), plain_name(new)}:
            yield Reason(Why.RENAMED, f"column {new} had another name for a while")
        if type_ not in (old_type[:2], new_type[:2]):
            yield Reason(Why.RETYPED, f"column {new} had another type for a while")


def _parts(oid: int, it: TableTold) -> set[int]:
    """The parts that a message shows of a partitioned table."""
    if it.oid == oid:
        return set(it.parts if it.is_partitioned else ())
    return {it.oid} if oid in it.roots and not it.is_partitioned else set()


def _is_new(told: Hearing, part: int, lsn: Lsn) -> bool:
    """Whether a part that no look has seen may have been there for a while."""
    windows = [told.moved[oid] for oid in (0, part) if oid in told.moved]
    return part > told.oids[0] or any(_has(window, lsn) for window in windows)


def _is_exact(
    was: Picture, now: Picture, messages: Sequence[Message], names: Collection[str]
) -> bool:
    """Whether messages show all changes of the publications of a table, and that none matters.

    Each row of a publication was written by the transaction of its message, and the message before
    names the row that it replaced. So the messages are complete, and no other role has written them.
    """
    then, later = _publications(was), _publications(now)
    return all(
        _is_chain(oid, then[oid], later[oid].xmin, messages, names)
        for oid in then.keys() & later
    )


def _is_chain(
    oid: int,
    first: _Publication,
    last: str,
    messages: Sequence[Message],
    names: Collection[str],
) -> bool:
    at, is_next = first.xmin, False
    for _, xid, is_certain, told in messages:
        if isinstance(told, Before):
            is_next = is_certain and told.before.get(oid) == at
        elif isinstance(told, PublicationTold) and told.publication == oid:
            if at == first.xmin and not is_next:
                # The look before has seen that.
                continue
            new = PublicationTold(oid, told.name, str(xid), first.options)
            # With another name, it may have had no receiver for a while.
            if told.name not in names or told != new or not (is_next and is_certain):
                return False
            at, is_next = told.xmin, False
    return at == last


def _has(window: Moved, lsn: Lsn) -> bool:
    return window.since <= lsn < window.seen


class _Publication(NamedTuple):
    kind: str
    xmin: str
    options: str


def _publications(picture: Picture) -> dict[int, _Publication]:
    """The publications of a table."""
    found = {}
    for place, row, _ in picture["memberships"]:
        oid, kind, *_ = place.split()
        found[int(oid)] = _Publication(kind, *row.partition(" ")[::2])
    return found


def writers(picture: Picture) -> dict[int, int]:
    """The transaction that wrote the catalog's row of each column last."""
    numbers = (column[0] for column in picture["columns"])
    return dict(zip(numbers, picture.get("changed", ()), strict=False))


def _files(picture: Picture) -> dict[int, int]:
    return {part[0]: part[1] for part in picture["parts"]}


def _stamp(picture: Picture) -> list[Any]:
    return [
        picture.get(key) for key in ("stamp", "memberships", "definitions", "parts")
    ]


def _facts(picture: Picture) -> list[Any]:
    """The facts that only change by commands that fire the trigger."""
    return [
        [[*column[:4], column[5]] for column in picture["columns"]],
        sorted(picture["memberships"]),
        picture["definitions"],
        [[oid, *more] for oid, _, _, *more in picture["parts"]],
    ]


LEFT = Reason(Why.LEFT, "it was not in the publication for a while")
PUBLISHED_LESS = Reason(
    Why.PUBLISHES,
    "its publication has changed, and may have published less for a while",
)
