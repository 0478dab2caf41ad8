"""The marks that the looks of a receiver make, as pure functions."""

from __future__ import annotations

import datetime as dt
import itertools
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walrow._log.items import LogColumn, LogTable, LogVersion
from walrow._log.left import Absence, Left, Owner
from walrow._log.marks import Reason, Why, ended, marked
from walrow._log.names import NamedTables
from walrow._log.needs import read_published
from walrow._log.new_files import Pending, is_explained
from walrow._log.published import Published
from walrow._log.young_tables import FirstRow, YoungTable
from walrow._lsn import Lsn
from walrow._postgres.published import (
    Birth,
    Membership,
    PublishedColumn,
    PublishedTable,
    Remains,
    TablePart,
)
from walrow._receive.looks import Look
from walrow._receive.marks import (
    Questions,
    absent,
    after_load,
    after_look,
    after_names,
    at_beginning,
    settled,
    unchanged_names,
    with_names,
)
from walrow.errors import SchemaError

PART = TablePart(20, "public.t", 20, 24, "p", "700", "", 0, False)
COLUMNS = [
    PublishedColumn(1, "id", 23, -1, True, None, False, 600),
    PublishedColumn(2, "v", 25, -1, False, None, False, 600),
]
FILLED = PublishedColumn(3, "w", 23, -1, True, None, True, 700)
ALL = Membership("16384 all", "700 {}", "iudt")
TABLE = PublishedTable(
    20, "public.t", "d", COLUMNS, [], [PART], [ALL], "", "", 600, 2, [], [], {}, False
)
VARCHAR = TABLE._replace(columns=[COLUMNS[0], COLUMNS[1]._replace(type_oid=1043)])
ONLY = Questions(lambda _oid, _since: (), lambda _oid: None, lambda _since, _until: ())


def part(**changes: Any) -> PublishedTable:
    return TABLE._replace(parts=[PART._replace(**changes)])


def looked(*tables: PublishedTable, start: int = 8) -> Published:
    """The record after looks at these definitions of one table."""
    record = at_beginning([tables[0]], (), ["p"], Lsn(start))
    for number, table in enumerate(tables[1:], 1):
        position = Lsn(start + 8 * number)
        look = Look([table], ["p"], position, position)
        record = settled(after_look(record, look), {}, position, position, ONLY)
    return record


def codes(record: Published) -> list[str]:
    return [mark.code.value for mark in record.marks.get(TABLE.oid, []) if mark.is_open]


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        (TABLE, []),
        # TRUNCATE and VACUUM FULL have new files, and keep the TOAST table.
        (part(file=30), []),
        (part(file=30, toast=33), ["rewritten"]),
        (part(persistence="u", file=30, toast=33), ["rewritten"]),
        # An index, or a grant, moves no fact.
        (TABLE._replace(identity="f"), []),
        (
            TABLE._replace(memberships=[ALL._replace(place="16390 all")]),
            ["left_publication"],
        ),
        (
            TABLE._replace(memberships=[ALL._replace(publication="701 {}")]),
            ["publication_changed"],
        ),
        # Another publication has published everything all the time.
        (TABLE._replace(memberships=[ALL, ALL._replace(place="9 all")]), []),
        (TABLE._replace(filter_digests=["(id > 1)"]), ["row_filter"]),
        (
            TABLE._replace(columns=[COLUMNS[0], COLUMNS[1]._replace(type_oid=17)]),
            ["column_type"],
        ),
        # From text to varchar. Another file may have other values.
        (VARCHAR, []),
        (
            VARCHAR._replace(parts=[PART._replace(file=30, toast=33)]),
            ["column_type", "rewritten"],
        ),
        (
            TABLE._replace(columns=[COLUMNS[0], COLUMNS[1]._replace(expression=7)]),
            ["generated_column"],
        ),
        (TABLE._replace(columns=COLUMNS[:1]), []),
    ],
)
def test_each_difference_has_its_code(now: PublishedTable, expected: list[str]) -> None:
    assert codes(looked(TABLE, now)) == expected
    # The change stays, and another look makes no second mark.
    assert codes(looked(TABLE, now, now)) == expected


def test_new_files_without_toast_are_a_rewrite_or_a_truncate() -> None:
    bare = part(toast=None)
    position = Lsn(16)
    look = Look([part(toast=None, file=30)], ["p"], position, position)
    record = after_look(at_beginning([bare], (), ["p"], Lsn(8)), look)
    assert codes(record) == []
    asked: list[tuple[int, int]] = []

    def truncates(oid: int, since: Lsn) -> list[tuple[int, Lsn]]:
        asked.append((oid, since))
        return [(700, Lsn(12))]

    truncated = settled(
        record, {}, position, position, ONLY._replace(truncates=truncates)
    )
    assert (codes(truncated), truncated.new_files, asked) == ([], {}, [(20, 8)])
    # Readers have not seen everything from before the look.
    waiting = settled(record, {}, Lsn(8), Lsn(8), ONLY)
    assert (codes(waiting), list(waiting.new_files)) == ([], [20])
    assert codes(settled(waiting, {}, position, position, ONLY)) == ["rewritten"]


def test_old_rows_explain_a_new_file_unless_a_load_came_before() -> None:
    bare, kept = part(toast=None), part(toast=None, file=30, keeps_rows=True)
    record = at_beginning([bare], (), ["p"], Lsn(8))
    look = Look([kept], ["p"], Lsn(16), Lsn(16))
    assert after_look(record, look).new_files == {}
    # A new column may have got a value in the rows.
    wider = look._replace(tables=[kept._replace(last_column=3)])
    assert list(after_look(record, wider).new_files) == [20]
    # The load is older than the look that the rows were compared with.
    loaded = after_load(after_look(record, look), [bare], Lsn(12), look)
    assert list(loaded.new_files) == [20]


def test_a_new_table_whose_rows_the_log_lacks_may_have_been_a_partition() -> None:
    via = ALL._replace(publication='700 {"pubviaroot": true}')
    root = part(oid=21)._replace(memberships=[via], namespace="public")
    birth = Birth(is_late=True, has_other_file=False, has_rows=True)
    leaf = root._replace(oid=40, parts=[PART._replace(oid=40, birth=birth)])
    record = at_beginning([root], (), ["p"], Lsn(8))
    logged = {20: ("public", "public.t", Lsn(12))}
    look = Look([leaf], ["p"], Lsn(16), Lsn(16), moved=[40], logged=logged, last_oid=40)
    marked = after_look(record, look)
    assert codes(marked) == ["partitions"]
    assert marked.noticed[20] == 16
    # The root is new, too.
    later = at_beginning([TABLE._replace(oid=7)], (), ["p"], Lsn(8))
    both = look._replace(tables=[leaf, root._replace(parts=[])], logged={})
    assert codes(after_look(later, both)) == ["partitions"]
    for other in (
        # The root did not change, the log has a row of the table, or no root is published.
        look._replace(logged={20: (*logged[20][:2], Lsn(8))}),
        look._replace(logged={**logged, 40: logged[20]}),
        look._replace(tables=[leaf._replace(columns=COLUMNS[:1])]),
        look._replace(tables=[leaf._replace(namespace="other")]),
        # It is older than the last look, or it is whole.
        look._replace(tables=[leaf._replace(oid=18)]),
        look._replace(
            tables=[
                leaf._replace(
                    parts=[PART._replace(oid=40, birth=Birth(False, False, True))]
                )
            ]
        ),
    ):
        assert codes(after_look(record, other)) == []


def test_a_truncate_explains_a_file_that_it_can_have_made() -> None:
    assert is_explained({20: "700 690"}, [650, 700])
    assert is_explained({20: "700", 21: "650"}, [650, 700])
    # Another transaction has rewritten the table, or nothing is proven.
    assert not is_explained({20: "703 702"}, [650, 700])
    assert not is_explained({20: "700", 21: ""}, [650, 700])
    assert not is_explained({20: "700"}, [])


def test_an_older_record_has_objects_and_texts(tmp_path: Path) -> None:
    pending = {"since": "0/8", "seen": "0/10", "looks": 1}
    file = [700, 690, False, True]
    found = {
        "published": {},
        "position": "0/10",
        "incomplete": {},
        "young": {},
        "new_files": {"20": {"pending": pending, "files": {"20": file}}},
        "of another version": 1,
    }
    (tmp_path / "_load-needed").write_text(json.dumps(found), "utf-8")
    record = read_published(lambda name: (tmp_path / name).read_bytes())
    assert record.new_files[20].pending == Pending(Lsn(8), Lsn(16), 1)
    # It does not say who may have made the file.
    assert not is_explained(record.new_files[20].files, [700, 690])
    assert (record.position, record.publications, record.compared) == (16, None, None)


@pytest.mark.parametrize(
    ("names", "used", "expected"),
    [
        (["id", "v"], 20, []),
        (["id", "brief", "v"], 20, []),
        # Names were swapped, or one was another, and came back before the next look.
        (["v", "id"], 20, ["column_renamed"]),
        (["id", "w"], 20, ["column_renamed"]),
        # A column had another type, which has the same bytes.
        (["id oid", "v"], 20, ["column_type"]),
        (["id oid", "v"], 25, []),
        # It is older than the first look, was compared, or is later than this look.
        (["v", "id"], 8, []),
        (["v", "id"], 10, []),
        (["v", "id"], 25, []),
    ],
)
def test_definitions_in_the_log_are_compared_with_the_looks_around_them(
    names: list[str], used: int, expected: list[str]
) -> None:
    types = {"id": 23, "brief": 23, "v": 25, "w": 25}
    written = {name.removesuffix(" oid"): types.get(name, 26) for name in names}
    wider = TABLE._replace(
        columns=[*COLUMNS, PublishedColumn(3, "new", 23, -1, False, None, False, 700)]
    )
    before = at_beginning([TABLE], (), ["p"], Lsn(8))._replace(compared=Lsn(10))
    # The same look sees another change.
    record = after_look(before, Look([wider], ["p"], Lsn(24), Lsn(24)))

    def versions(since: Lsn, until_: Lsn) -> list[tuple[int, Lsn, dict[str, int]]]:
        return [(20, Lsn(used), written)] if since < used <= until_ else []

    ask = ONLY._replace(versions=versions)
    record = settled(record, {}, Lsn(100), Lsn(24), ask)
    assert (codes(record), record.compared) == (expected, 24)
    # The next look compares later versions.
    assert codes(settled(record, {}, Lsn(100), Lsn(24), ask)) == expected
    loaded = after_load(record, [wider], Lsn(30))
    assert codes(settled(loaded, {}, Lsn(100), Lsn(29), ask)) == []


@pytest.mark.parametrize(
    ("then", "now", "dropped", "expected"),
    [
        (["id", "a", "b"], [(1, "id"), (2, "a"), (3, "b")], [], None),
        (["id", "a", "b"], [(1, "id"), (2, "b"), (3, "a")], [], Why.RENAMED),
        # b was dropped, and the name is a's.
        (["id", "a", "b"], [(1, "id"), (2, "b")], [3], Why.RENAMED),
        (["a", "b"], [(2, "a")], [1], Why.RENAMED),
        (["id", "a", "b"], [(1, "id"), (3, "b")], [2], None),
        (["id", "a", "b"], [(1, "id"), (2, "a"), (4, "c")], [3], Why.RENAMED),
        (["id", "a"], [(1, "id"), (3, "a")], [2], Why.RETURNED),
    ],
)
def test_columns_of_a_young_table(
    then: list[str], now: list[tuple[int, str]], dropped: list[int], expected: Why
) -> None:
    young = YoungTable(
        [[number, name, 23, -1, False] for number, name in now],
        Pending(Lsn(8), Lsn(8)),
        False,
        False,
        {},
        [],
        [[number, 710] for number in dropped],
    )
    columns = tuple(LogColumn(name, 23, -1, key=False) for name in then)
    version = LogVersion("public.t", columns, "default", 5, 0, 50)
    reason = young.alteration(
        [version], young.columns, lambda: FirstRow(700, Lsn(8), 2)
    )
    assert (reason and reason.code) == expected


def test_an_alter_after_the_snapshot_of_a_load_stays_marked() -> None:
    wider = TABLE._replace(columns=[*COLUMNS, FILLED], last_column=3)
    look = Look([wider], ["p"], Lsn(32), Lsn(40))
    before = at_beginning([TABLE], (), ["p"], Lsn(8))._replace(position=Lsn(16))
    record = after_look(before, look)
    assert codes(record) == ["column_default"]
    loaded = after_load(record, [TABLE], Lsn(24), look)
    # The table is not whole at any position between the two marks.
    spans = [(mark.code, mark.since, mark.until) for mark in loaded.marks[20]]
    assert spans == [(Why.DEFAULT, 16, 24), (Why.DEFAULT, 24, None)]
    # The column is new, and has not come back. The next look sees no other change.
    again = after_look(loaded, look._replace(durable=Lsn(48), seen=Lsn(56)))
    assert again.marks == loaded.marks
    assert again.position == 48
    # A look before the snapshot saw the same, and the load ends its mark.
    assert codes(after_load(record, [wider], Lsn(41), look)) == []


def test_a_name_that_changes_while_a_table_is_loaded() -> None:
    named = TABLE._replace(names=["regproc", "regrole"])
    then = {"regproc": {"0": 1, "7": 1}, "regnamespace": {"0": 1}, "regrole": {"0": 1}}
    record = after_load(looked(named), [named], Lsn(24))

    def loaded(now: dict[str, dict[str, int]]) -> list[str]:
        unchanged = unchanged_names(then, now)
        return codes(with_names(record, [named], Lsn(24), now, unchanged))

    assert loaded(then) == []
    assert loaded(then | {"regproc": {"0": 1, "7": 1, "8": 1}}) == []
    for changed in (
        {"regproc": {"0": 1}},
        {"regproc": {"0": 1, "7": 2}},
        {"regnamespace": {"0": 2}},
        {"regrole": {"0": 2}},
    ):
        assert loaded(then | changed) == ["names_changed"]
    # The server has not answered.
    assert loaded({}) == ["names_changed"]
    # The next look compares names with these.
    after = with_names(record, [named], Lsn(24), then, then)
    types = {20: named.names}
    assert codes(after_names(after, then, (), types, Lsn(32))) == []
    assert codes(after_names(after, then | {"regrole": {}}, (), types, Lsn(32))) == [
        "names_changed"
    ]
    assert codes(
        after_names(
            after,
            then | {"regproc": {**then["regproc"], "8": 1}},
            ["8"],
            types,
            Lsn(32),
        )
    ) == ["names_changed"]
    # A type that this version does not know.
    assert codes(after_names(after, then, (), {20: ["regnew"]}, Lsn(32))) == [
        "names_changed"
    ]


def test_a_mark_that_may_be_later_than_the_snapshot_of_a_load_stays() -> None:
    table = TABLE._replace(names=["regclass"])
    types = {20: table.names}
    before = at_beginning([table], (), ["p"], Lsn(8))
    before = before._replace(names={"regclass": {"1": 2}})
    renamed = after_names(before, {"regclass": {"1": 3}}, (), types, Lsn(40))
    again = after_names(renamed, {"regclass": {"1": 4}}, (), types, Lsn(60))
    ask = ONLY._replace(
        versions=lambda _since, _until: [(20, Lsn(40), {"v": 25, "id": 23})]
    )
    swapped = settled(before, {}, Lsn(56), Lsn(56), ask)
    for record, point, is_open in [
        (renamed, 24, True),
        (renamed, 40, False),
        (again, 50, True),
        (again, 60, False),
        (swapped, 24, True),
        (swapped, 40, False),
    ]:
        loaded = after_load(record, [table], Lsn(point))
        assert bool(codes(loaded)) == is_open
        # The table is not whole at any position before the event.
        assert all(mark.holds_at(Lsn(16), Lsn(80)) for mark in loaded.marks[20])


def test_a_look_at_some_tables_keeps_the_others() -> None:
    other, third = TABLE._replace(oid=30), TABLE._replace(oid=40)
    first = Look([TABLE, other, third], ["p"], Lsn(8), Lsn(8))
    before = at_beginning(first.tables, (), ["p"], Lsn(8))
    moved = other._replace(filter_digests=["(id > 1)"])
    second = Look([moved], ["p"], Lsn(16), Lsn(16), moved={30, 40, 99})
    record = after_look(before, second)
    # 40 is gone, and 99 is not published.
    assert list(record.tables or {}) == [20, 30]
    assert list(record.marks) == [30]
    assert second.joined(first) == Look([TABLE, moved], ["p"], Lsn(16), Lsn(16))


def test_no_mark_hides_another() -> None:
    record = at_beginning([TABLE], {20}, ["p"], Lsn(8))
    look = Look([part(file=30, toast=33)], ["p"], Lsn(16), Lsn(16))
    record = after_look(record, look)
    assert codes(record) == ["had_rows", "rewritten"]
    # A load before the second one ends only the first.
    assert [mark.until for mark in ended(record.marks[20], Lsn(8))] == [8, 8]
    loaded = after_load(record, [part(file=30, toast=33)], Lsn(24))
    assert codes(loaded) == []
    assert [mark.until for mark in loaded.marks[20]] == [24, 24]


CHANGES = [
    lambda table: table._replace(filter_digests=["(id > 1)"]),
    lambda table: table._replace(parts=[table.parts[0]._replace(toast=33, file=30)]),
    lambda table: table._replace(memberships=[ALL._replace(publication="9 {}")]),
    lambda table: table._replace(columns=[*table.columns, FILLED]),
]


@given(st.permutations(range(4)), st.lists(st.booleans(), min_size=4, max_size=4))
def test_marks_do_not_depend_on_when_the_receiver_looks(
    order: Sequence[int], looks: Sequence[bool]
) -> None:
    table, seen = TABLE, [TABLE]
    for change, is_seen in itertools.zip_longest(order, looks):
        table = CHANGES[change](table)
        if is_seen:
            seen.append(table)
    seen.append(table)
    found = {mark.code for mark in looked(*seen).marks[20]} - {Why.REWRITTEN}
    assert found == {Why.FILTER, Why.PUBLISHES, Why.DEFAULT}


@given(st.lists(st.sampled_from([Why.NEW, Why.FILTER, Why.TYPE]), max_size=8))
def test_one_mark_is_open_for_each_reason(codes_: list[Why]) -> None:
    marks = marked([], (), Lsn(8))
    for number, code in enumerate(codes_):
        marks = marked(marks, [Reason(code, code.value)], Lsn(8 * number))
    assert sorted(mark.code for mark in marks) == sorted(set(codes_))
    first = {code: codes_.index(code) for code in codes_}
    assert {mark.code: mark.since for mark in marks} == {
        code: 8 * at for code, at in first.items()
    }


def gone(record: Published, at: int, **options: Any) -> Published:
    """The record after a look that does not find the table among the published ones."""
    look = Look([], ["p"], Lsn(at), Lsn(at), **options)
    return after_look(record, look)


def test_a_table_that_left_has_a_reason_until_it_comes_back() -> None:
    record = at_beginning([TABLE], (), ["p"], Lsn(8))
    assert absent(record, [], {20}, ()) == {20}
    assert absent(record, [], set(), {20, 30}) == {30}
    record = gone(record, 16, remains={20: Remains("public", "p")})
    assert record.left[20] == Left("public", "public.t", Absence.UNPUBLISHED, Lsn(8))
    assert absent(record, [], None, ()) == absent(record, [], set(), ()) == {20}
    # It is dropped later. Then, no look asks for it, and the log has it no longer.
    other = {30: ("public", "u", Lsn(4))}
    record = gone(record, 24, remains={20: None, 30: None}, logged=other)
    whys = {oid: (it.why, it.since) for oid, it in record.left.items()}
    assert whys == {20: (Absence.DROPPED, 8), 30: (Absence.DROPPED, 4)}
    assert absent(record, [], None, {20, 30}) == set()
    assert set(gone(record, 32, logged=other).left) == {30}
    # Until its load, it lacks unpublished changes.
    look = Look([TABLE], ["p"], Lsn(40), Lsn(40))
    back = after_look(record, look)
    assert (20 in back.left, codes(back)) == (False, ["left_publication"])
    assert back.marks[20][0].since == 8
    for remains, why in (
        (Remains("public", "u"), Absence.UNLOGGED),
        (Remains("other", "p"), Absence.MOVED),
    ):
        assert gone(back, 48, remains={20: remains}).left[20].why is why


def test_a_load_after_a_table_came_back_is_enough() -> None:
    before = at_beginning([TABLE], (), ["p"], Lsn(8))
    remains = {20: Remains("public", "p")}
    loaded = after_load(gone(before, 16, remains=remains), [TABLE], Lsn(24))
    record = after_look(loaded, Look([TABLE], ["p"], Lsn(32), Lsn(32)))
    assert (codes(record), record.left) == ([], {})
    # It has left again since.
    assert gone(loaded, 32, remains=remains).left[20].since == 16
    late = gone(before, 40, remains=remains)
    look = Look([], ["p"], Lsn(40), Lsn(40), remains=remains)
    loaded = after_load(late, [TABLE], Lsn(24), look)
    assert loaded.left[20].why is Absence.UNPUBLISHED
    record = after_look(loaded, Look([TABLE], ["p"], Lsn(48), Lsn(48)))
    assert codes(record) == ["left_publication"]


def test_a_name_has_its_owners_from_look_to_look() -> None:
    other = TABLE._replace(oid=30, name="public.n")
    record = at_beginning([TABLE, other], (), ["p"], Lsn(8))
    assert record.owners == {}
    swapped = [TABLE._replace(name="public.n"), other._replace(name="public.t")]
    record = after_look(record, Look(swapped, ["p"], Lsn(16), Lsn(20)))
    t = [Owner(20, Lsn(0), Lsn(8)), Owner(30, Lsn(20), None)]
    n = [Owner(30, Lsn(0), Lsn(8)), Owner(20, Lsn(20), None)]
    assert record.owners == {("public", "t"): t, ("public", "n"): n}
    record = gone(record, 24, remains={20: None, 30: None})
    assert record.owners["public", "t"] == [t[0], Owner(30, Lsn(20), Lsn(16))]


def logged(oid: int, name: str, last: int, left: Left | None = None) -> LogTable:
    """A table of a log, as `Log.tables` has it."""
    version = LogVersion(name, (), "default", 1, 0, 8)
    return LogTable(oid, (version,), Lsn(last), None, None, (), name, left=left)


DROPPED = Left("public", "public.t", Absence.DROPPED, Lsn(16))
UNPUBLISHED = Left("public", "public.t", Absence.UNPUBLISHED, Lsn(16))


@pytest.mark.parametrize(
    ("tables", "expected"),
    [
        # The look is later than the changes.
        ([logged(20, "public.t", 8), logged(40, "public.t", 12)], 20),
        # The other one was created after the look.
        ([logged(20, "public.t", 8), logged(40, "public.t", 32)], 40),
        # The first is unknown: its change, or the look.
        ([logged(20, "public.t", 8), logged(40, "public.t", 20)], None),
        # A published table comes first, then an unpublished one.
        ([logged(40, "public.t", 32, UNPUBLISHED), logged(20, "public.t", 8)], 20),
        ([logged(40, "public.t", 8, UNPUBLISHED)], 40),
        ([logged(40, "public.t", 8, DROPPED)], None),
        ([logged(20, "public.t", 8), logged(50, "other.t", 8)], None),
    ],
)
def test_a_name_means_one_table_or_none(
    tables: list[LogTable], expected: int | None
) -> None:
    record = at_beginning([TABLE], (), ["p"], Lsn(16))._replace(seen=Lsn(24))
    record = record._replace(tables={20: {"name": "public.t"}, 50: {"name": "other.t"}})
    if expected is None:
        with pytest.raises(SchemaError):
            NamedTables(tables, record).find("t")
    else:
        assert NamedTables(tables, record).find("t").oid == expected
        assert NamedTables(tables, record).owners()["public", "t"].oid == expected


def test_children_are_marked_until_they_are_accepted() -> None:
    parent = TABLE._replace(children={30: "public.c"})
    record = looked(TABLE, parent)
    assert codes(record) == ["inherited"]
    # A load has the rows of the parent only.
    assert codes(after_load(record, [parent], Lsn(24))) == ["inherited"]
    assert codes(after_load(looked(TABLE), [parent], Lsn(24))) == ["inherited"]
    more = TABLE._replace(children={30: "public.c", 31: "public.d"})
    assert [it.reason[-18:] for it in looked(TABLE, parent, more).marks[20]] == [
        "public.c, public.d"
    ]
    assert codes(looked(parent, more, TABLE)) == []
    # The last child went while it was not published.
    left = gone(looked(TABLE, parent), 32, remains={20: Remains("public", "p")})
    back = after_look(left, Look([TABLE], ["p"], Lsn(40), Lsn(40)))
    assert codes(back) == ["left_publication"]
    assert codes(after_load(left, [TABLE], Lsn(40))) == []
    (mark,) = record.marks[20]
    accepted = replace(mark, accepted=dt.datetime.now(dt.UTC))
    record = record._replace(marks={20: [accepted]})
    for number, table in enumerate((parent, more)):
        at = Lsn(24 + 8 * number)
        record = after_look(record, Look([table], ["p"], at, at))
        assert codes(record) == ["inherited"] * number
