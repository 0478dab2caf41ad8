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
    from walrow._receive.marks import Look

    Picture = Mapping[str, Any]


class Heard(NamedTuple):
    """The messages in a log.

    Attributes:
        messages: The messages from `first_place` on, in their order.
        end: Where the log ends.
        truncates: The transactions with a TRUNCATE of a table since the first message: their IDs,
            and the LSNs of their commits.
        is_last: Whether no look follows.
        has_exceptions: Whether publications of all tables may leave some out: from version 19 on.
    """

    messages: Sequence[Message]
    end: Lsn
    truncates: Callable[[int], Collection[tuple[int, Lsn]]] = lambda _oid: ()
    is_last: bool = False
    has_exceptions: bool = False


def after_moves(
    before: Published,
    look: Look,
    pictures: Mapping[int, Picture],
    asking: Collection[int],
) -> Hearing:
    """Notes the trigger, and the tables that have moved, as a look shows them.

    Args:
        before: The record before it.
        look: The look.
        pictures: The tables at the look.
        asking: Only messages can show that these tables are whole.
    """
    told, known = before.told, before.tables or {}
    if told is None:
        place = look.durable
        return Hearing(place, place, [look.last_oid], look.trigger, look.others, {})
    is_covered = covers(told, look)
    moved = dict(told.moved)

    def add(oid: int, was: Any) -> None:
        first = moved.get(oid)
        new = Moved(before.position, look.seen, was, oid in asking, not is_covered)
        if first is not None:
            new = first._replace(seen=look.seen, asks=first.asks or new.asks)
        moved[oid] = new

    # A new process does not know which ones have moved.
    is_same = look.moved is None and told.others == look.others
    some = set() if is_same else {0} if look.moved is None else set(look.moved)
    for oid in some - known.keys():
        add(oid, None)
    for oid in known.keys() & pictures.keys():
        # An earlier version of walrow has written no stamps.
        if "stamp" in known[oid] and _stamp(known[oid]) != _stamp(pictures[oid]):
            add(oid, known[oid])
    after = unmoved(told, look.durable, look.trigger)
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
    """The LSN from which on messages are read."""
    return min([told.place, *(each.since for each in told.moved.values() if each.asks)])


def after_messages(record: Published, heard: Heard) -> tuple[Published, list[int]]:
    """The record once messages were read, and the tables that changed without one."""
    told, tables = record.told, record.tables or {}
    if told is None:
        return record, []
    # Looks are later than the log, unless the log has waited for the last one.
    end = heard.end if heard.is_last else min(heard.end, told.seen)
    marks, moved, noticed = dict(record.marks), dict(told.moved), dict(record.noticed)
    for message in heard.messages:
        if not told.place <= message.lsn < end:
            continue
        for oid in _touched(tables, message.told):
            if oid in moved:
                moved[oid] = moved[oid]._replace(is_told=True)
            for reason in _reasons(oid, tables[oid], told, message, heard):
                marks[oid] = marked(marks.get(oid, ()), [reason], message.lsn)
                noticed.setdefault(oid, Lsn(message.lsn + 1))
    silent = []
    for oid, each in told.moved.items():
        is_read = end >= each.seen
        if not is_read and not (heard.is_last and each.asks):
            continue
        is_told, now = moved.pop(oid).is_told, tables.get(oid)
        if now is None or each.was is None:
            continue
        if each.asks and not (is_read and _is_exact(each.was, now, heard.messages)):
            marks[oid] = marked(marks.get(oid, ()), [PUBLISHED_LESS], each.since)
            noticed.setdefault(oid, each.seen)
        if is_read and not is_told and _facts(each.was) != _facts(now):
            silent.append(oid)
    after = told._replace(place=max(told.place, end), moved=moved)
    return record._replace(marks=marks, noticed=noticed, told=after), silent


def _touched(tables: Mapping[int, Picture], told: Told) -> Collection[int]:
    """The tables that a message is about."""
    match told:
        case TableTold():
            return {told.oid, *told.roots, *told.parts} & tables.keys()
        case Rewritten():
            return {told.oid, *told.roots} & tables.keys()
        case TypeTold(definitions):
            keys = definitions.keys()
            return [
                oid for oid, it in tables.items() if keys & it["definitions"].keys()
            ]
        case PublicationTold():
            return [oid for oid, it in tables.items() if told.oid in _options(it)]
        case Before():
            return tables.keys()
        case _:
            assert_never(told)


def _reasons(  # noqa: PLR0912 -- a case for each kind
    oid: int, now: Picture, told: Hearing, message: Message, heard: Heard
) -> Iterator[Reason]:
    """Why a table is not whole that was in a state that no look has seen."""
    it, lsn = message.told, message.lsn
    if lsn < now.get("loaded", 0):
        return
    window = told.moved.get(oid)
    was = window.was if window is not None and _has(window, lsn) else None
    files = _files(now) if was is None else _files(was) | _files(now)
    both = [now] if was is None else [was, now]
    match it:
        case TableTold():
            if any(_is_new(told, part, lsn) for part in _parts(oid, it) - files.keys()):
                yield Reason(Why.PARTITIONS, "partitions were attached or detached")
            is_own = it.oid == oid
            if is_own and was is not None:
                yield from _column_reasons(was, now, it)
                ours = _options(was).keys() & _options(now)
                if ours and not ours & it.publications.keys():
                    yield LEFT
            # The catalog keeps no trace of an exception that was made and taken back.
            is_about = heard.has_exceptions and (is_own or oid in it.parts)
            if is_about and _of_all(now) - it.publications.keys():
                yield LEFT
        case TypeTold(definitions) if was is not None:
            for key in definitions.keys() & was["definitions"].keys():
                if definitions[key] not in [it["definitions"].get(key) for it in both]:
                    yield TYPE_ALTERED
        case PublicationTold() if was is not None:
            if it.options not in [_options(each).get(it.oid) for each in both]:
                yield PUBLISHED_LESS
        case Rewritten(part) if was is not None:
            then, later = _changes(was), _changes(now)
            # It may have other values of columns that are not published.
            has_others = any(then[it] != later[it] for it in then.keys() & later)
            is_new = has_others and _files(was).get(part) != _files(now).get(part)
            if is_new and all(commit <= lsn for _, commit in heard.truncates(oid)):
                yield REWRITTEN
        case _:
            pass


def _column_reasons(was: Picture, now: Picture, it: TableTold) -> Iterator[Reason]:
    then, later = ({c[0]: c for c in each["columns"]} for each in (was, now))
    for number in sorted(then.keys() & later.keys() & it.columns.keys()):
        name, *type_ = it.columns[number]
        both, shown = (then[number], later[number]), later[number][1]
        if name not in [plain_name(each[1]) for each in both]:
            yield Reason(Why.RENAMED, f"column {shown} had another name for a while")
        if type_ not in [each[2:4] for each in both]:
            yield Reason(Why.RETYPED, f"column {shown} had another type for a while")


def _parts(oid: int, it: TableTold) -> Collection[int]:
    """The parts that a message shows of a partitioned table."""
    if it.oid == oid:
        return it.parts if it.is_partitioned else frozenset()
    return frozenset() if it.is_partitioned or oid not in it.roots else {it.oid}


def _is_new(told: Hearing, part: int, lsn: Lsn) -> bool:
    """Whether a part that no look has seen may have been there for a while."""
    windows = [told.moved[oid] for oid in (0, part) if oid in told.moved]
    return part > told.oids[0] or any(_has(window, lsn) for window in windows)


def _is_exact(was: Picture, now: Picture, messages: Sequence[Message]) -> bool:
    """Whether messages show all changes of the publications of a table, and that none matters.

    Each row of a publication was written by the transaction of its message, and the message before
    names the row that it replaced. So the messages are complete, and no other role has written them.
    """
    then, later = (
        {place.split()[0]: it for place, it, _ in each["memberships"]}
        for each in (was, now)
    )
    return all(
        _is_chain(int(oid), then[oid], later[oid], messages)
        for oid in then.keys() & later
    )


def _is_chain(oid: int, then: str, later: str, messages: Sequence[Message]) -> bool:
    first, _, options = then.partition(" ")
    at, is_next = first, False
    for _, xid, is_certain, told in messages:
        if isinstance(told, Before) and oid in told.xmins:
            is_next = is_certain and told.xmins[oid] == at
        elif isinstance(told, PublicationTold) and told.oid == oid:
            if at == first and not is_next:
                # The look before has seen that.
                continue
            is_own = is_next and is_certain and told.xmin == str(xid)
            if not is_own or told.options != options:
                return False
            at, is_next = told.xmin, False
    return at == later.partition(" ")[0]


def _has(window: Moved, lsn: Lsn) -> bool:
    return window.since <= lsn < window.seen


def _options(picture: Picture) -> dict[int, str]:
    """The options of the publications of a table."""
    return {
        int(place.split()[0]): publication.partition(" ")[2]
        for place, publication, _ in picture["memberships"]
    }


def _changes(picture: Picture) -> dict[int, int]:
    """The transaction that changed each column last."""
    numbers = (column[0] for column in picture["columns"])
    return dict(zip(numbers, picture.get("changed", ()), strict=False))


def _of_all(picture: Picture) -> set[int]:
    """The publications of all tables that publish a table."""
    places = (place.split() for place, *_ in picture["memberships"])
    return {int(publication) for publication, kind, *_ in places if kind == "all"}


def _files(picture: Picture) -> dict[int, int]:
    return {part[0]: part[1] for part in picture["parts"]}


def _stamp(picture: Picture) -> list[Any]:
    return [picture[key] for key in ("stamp", "memberships", "definitions", "parts")]


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
