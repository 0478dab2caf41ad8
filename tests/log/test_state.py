"""`Log.state`: the rows of a table as of a point of a log."""

from __future__ import annotations

import datetime as dt
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from captures import Capture, capture, captures
from logs import (
    COLUMNS,
    Publisher,
    change,
    loaded,
    log_of,
    published,
    sealed,
    transaction,
    transactions,
)
from targets.written_log import WrittenLog
from walrow._log.marks import Mark, Why
from walrow._log.needs import write_published
from walrow._log.published import Published
from walrow._lsn import Lsn

pa = pytest.importorskip("pyarrow")

FOLDABLE = [
    capture for capture in captures("text", "v1", "binary") if capture.meta["foldable"]
]
#: The stream does not have the new values after ALTER COLUMN ... TYPE.
RETYPED = {"alter-columns", "alter-transaction"}
#: Types whose binary form walrow does not read.
TEXT_ONLY = {"types-other", "types-user"}
TABLE = streams.TABLE
OTHER = 16500


def rows_of(reader: walrow.Reader) -> list[list[Any]]:
    """The rows of a state, sorted as those of the golden tables."""
    rows = [list(row.values()) for row in reader.to_pyarrow().to_pylist()]
    return sorted(
        rows, key=lambda row: [(cell is not None, cell or "") for cell in row]
    )


@pytest.mark.parametrize("capture", FOLDABLE, ids=str)
def test_a_state_is_the_table_of_the_server(capture: Capture, tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", capture, 700)
    known = {table.oid for table in log.tables()}
    for table in capture.tables.values():
        if table["oid"] not in known:
            assert table["rows"] == []
            continue
        if capture.record == "binary" and capture.name in TEXT_ONLY:
            expected = {tuple(row[:1]) for row in table["rows"]}
            found = log.state(table["oid"], columns=["id"], profile="text")
            assert {tuple(row) for row in rows_of(found)} == expected
            continue
        reader = log.state(table["oid"], profile="text")
        if capture.name in RETYPED:
            with pytest.raises(
                walrow.errors.LogError, match="type of column b changed"
            ) as it:
                rows_of(reader)
            assert (it.value.code, it.value.table) == ("incomplete", "public.shape")
            continue
        columns = [column["name"] for column in table["columns"]]
        assert pa.schema(reader.schema).names == columns
        assert rows_of(reader) == table["rows"]
        assert reader.position == log.end


def test_enough_captures_are_compared() -> None:
    assert len(FOLDABLE) > 100


@pytest.mark.parametrize(
    ("name", "gap"),
    {
        "alter-names": "column a disappeared and alpha appeared; the stream does not say "
        "whether it was renamed",
        "row-filter-toast": "the value of body was never sent",
    }.items(),
)
def test_what_the_stream_lacks_is_an_error(name: str, gap: str, tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", capture(name), 1 << 20)
    found = []
    for table in log.tables():
        try:
            rows_of(log.state(table.oid, profile="text"))
        except walrow.errors.LogError as error:
            found.append((error.code, str(error).partition(": ")[2], error.lsn))
    code, text, lsn = found[0]
    assert code == "incomplete"
    assert text == f"{gap}; load the table again (lsn {lsn})"


# ----------------------------------------------------------------------- as of


def ids(log: walrow.Log, as_of: Any = None, table: Any = "t") -> list[int]:
    """The IDs of the rows."""
    found: list[int] = log.state(table, as_of=as_of).to_pyarrow()["id"].to_pylist()
    return found


@pytest.mark.parametrize("segment", [1, 1 << 20])
def test_as_of_an_lsn(tmp_path: Path, segment: int) -> None:
    source = streams.SESSION + b"".join(transactions(5, 1))
    log = sealed(tmp_path / "log", source, segment_size=segment)
    assert ids(log, "0/1000") == [100]
    assert ids(log, 0x2FFF) == [100, 200]
    assert ids(log, walrow.Lsn(0x3000)) == [100, 200, 300]
    assert ids(log) == ids(log, log.end) == ids(log, "F/0") == [100, 200, 300, 400, 500]
    for lsn, position in (("0/2FFF", 0x2FFF), ("F/0", log.end), (None, log.end)):
        reader = log.state("t", as_of=lsn)
        assert reader.position == 0
        list(reader)
        assert reader.position == position
    rest = log.read(table="t", start="0/2FFF")
    assert sum(len(batch) for batch in rest) == 3


@pytest.mark.parametrize("segment", [1, 1 << 20])
def test_as_of_a_time(tmp_path: Path, segment: int) -> None:
    begin = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    # Commit times are not in the order of the commits.
    times = [0, 20, 10, 30, 25]
    source = streams.SESSION + b"".join(
        transaction(0x1000 * number, (str(number), "x"), time=seconds)
        for number, seconds in enumerate(times, 1)
    )
    log = sealed(tmp_path / "log", source, segment_size=segment)
    for seconds, expected in {
        0: [1],
        15: [1],
        20: [1, 2, 3],
        29: [1, 2, 3],
        30: [1, 2, 3, 4, 5],
    }.items():
        as_of = begin + dt.timedelta(seconds=seconds)
        assert ids(log, as_of) == expected
        reader = log.read(table="t", end=as_of)
        assert sum(len(batch) for batch in reader) == len(expected)
    with pytest.raises(walrow.errors.LogError) as raised:
        log.state("t", as_of=begin - dt.timedelta(seconds=1))
    assert (raised.value.code, raised.value.lsn) == ("too_early", 0x1000)


def test_before_the_first_change_is_too_early(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(3))
    with pytest.raises(walrow.errors.LogError) as raised:
        log.state("public.t", as_of="0/FFF")
    assert (raised.value.code, raised.value.lsn) == ("too_early", 0x1000)
    assert (
        str(raised.value) == "public.t: its rows are known from 0/1000 on, not earlier"
    )
    assert len(ids(log, raised.value.lsn)) == 3


# ----------------------------------------------------------------------- loads


def many(count: int, rows: int) -> list[bytes]:
    """Transactions of this number of rows."""
    return [
        transaction(
            0x1000 * number,
            *((str(number * 100_000 + row), "x" * 500) for row in range(rows)),
        )
        for number in range(1, count + 1)
    ]


def delete(row: int) -> bytes:
    """A Delete with the key."""
    return streams.delete([str(row), None])


def test_a_state_begins_with_the_last_load(tmp_path: Path) -> None:
    with Publisher(tmp_path / "log") as publisher:
        # A row that is older than the log is changed: only the load has it.
        publisher.publish(transaction(0x1000, ("1", "x")), change(0x2000, delete(7)))
        loaded(publisher, 0x3000, 1, 2)
        publisher.publish(change(0x4000, delete(2)), transaction(0x5000, ("3", "x")))
        loaded(publisher, 0x6000, 5)
        publisher.publish(transaction(0x7000, ("6", "x")))
    log = walrow.Log(tmp_path / "log")
    assert [table.loaded for table in log.tables()] == [0x6000]
    for as_of in ("0/1000", "0/2FFF"):
        with pytest.raises(walrow.errors.LogError) as raised:
            log.state("t", as_of=as_of)
        assert (raised.value.code, raised.value.lsn) == ("too_early", 0x3000)
    assert ids(log, 0x3000) == [1, 2]
    assert ids(log, 0x4000) == [1]
    assert ids(log, 0x5FFF) == [1, 3]
    assert ids(log, 0x6000) == [5]
    assert ids(log) == [5, 6]
    log.prune(0x4000)
    with pytest.raises(walrow.errors.LogError) as raised:
        log.state("t", as_of=0x5000)
    assert (raised.value.code, raised.value.lsn) == ("too_early", 0x6000)
    assert ids(log) == [5, 6]


def test_without_a_load_nothing_may_be_removed(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(4))
    assert log.prune(0x2000) == 2
    for name in ("t", "public.t", TABLE):
        with pytest.raises(walrow.errors.LogError, match="walrow load") as raised:
            walrow.Log(log.path).state(name)
        assert (raised.value.code, raised.value.table) == ("pruned", "public.t")


def test_a_removed_table_is_not_loaded(tmp_path: Path) -> None:
    other = transaction(0x3000, ("1", "x"), oid=OTHER)
    log = published(tmp_path / "log", [*transactions(2), other])
    log.prune(0x2000)
    with pytest.raises(walrow.errors.LogError) as raised:
        walrow.Log(log.path).state("public.t")
    assert raised.value.code == "pruned"
    assert ids(log, table=f"t{OTHER}") == [1]


def test_a_changed_row_that_is_older_than_the_log_is_an_error(tmp_path: Path) -> None:
    log = published(tmp_path / "log", [*transactions(1), change(0x2000, delete(7))])
    assert len(ids(log, 0x1FFF)) == 3
    with pytest.raises(walrow.errors.LogError) as raised:
        ids(log)
    assert str(raised.value) == (
        "public.t: a changed row is not there: it is older than the changes; load the table "
        "again (lsn 0/1FF8)"
    )
    assert (raised.value.code, raised.value.lsn) == ("incomplete", 0x1FF8)


def test_a_table_that_needs_a_load_has_no_state_since_then(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(4))
    mark = Mark(Why.RETYPED, "column v has another type", Lsn(0x2800))
    earlier = Mark(Why.RENAMED, "it was renamed", Lsn(0x1800), Lsn(0x2000))
    needed = Published({}, Lsn(0x2800), None, {TABLE: [earlier, mark]}, {}, {})
    write_published(log.path, needed)
    assert log.tables()[0].needs_load == "column v has another type"
    assert len(ids(log, 0x27FF)) == 6
    # Between a change and the load after it, it is not known either.
    with pytest.raises(walrow.errors.LogError, match="it was renamed"):
        log.state("t", as_of=0x1FFF)
    for as_of in (0x2800, log.end, None):
        with pytest.raises(walrow.errors.LogError) as raised:
            log.state("t", as_of=as_of)
        error = raised.value
        assert str(error) == (
            "public.t is not whole since 0/2800, because column v has another type: "
            f"walrow load {log.path} public.t"
        )
        assert (error.code, error.table, error.lsn) == (
            "incomplete",
            "public.t",
            0x2800,
        )


def test_a_mark_is_accepted_for_its_reason_only(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(4))
    marks = [
        Mark(Why.FILTER, "filtered", Lsn(0x800)),
        Mark(Why.NEW, "new", Lsn(0x1800)),
    ]
    picture = {"name": "public.empty", "columns": []}
    other = [Mark(Why.NEW, "it is new", Lsn(0x800))]
    needed = Published(
        {OTHER: picture}, Lsn(0x2800), None, {TABLE: marks, OTHER: other}, {}, {}
    )
    write_published(log.path, needed)
    # A table without changes is there, too.
    assert [(it.name, it.needs_load, len(it.versions)) for it in log.tables()] == [
        ("public.t", "filtered; new", 1),
        ("public.empty", "it is new", 0),
    ]
    with pytest.raises(
        walrow.errors.LogError,
        match=r"public\.empty .*, because it is new: walrow load",
    ) as raised:
        log.state("empty")
    assert raised.value.code == "incomplete"
    with pytest.raises(
        walrow.errors.LogError, match="open are: new_in_publication, row_filter"
    ):
        log.accept("t", reason="none")
    with pytest.raises(walrow.errors.SchemaError, match="no table"):
        log.accept("none", reason="row_filter")
    (accepted,) = log.accept("t", reason="row_filter")
    assert isinstance(accepted, Mark)
    assert accepted.accepted is not None
    assert log.tables()[0].needs_load == "new"
    assert log.tables()[0].marks[0] == accepted
    assert len(ids(log, 0x17FF)) == 3
    with pytest.raises(walrow.errors.LogError, match="because new: walrow load"):
        log.state("t")
    log.accept("t", reason="new_in_publication")
    assert len(ids(log)) == 12
    # The same happens again, while the log has not gone on: that was not accepted.
    again = [*needed.marks[TABLE], Mark(Why.FILTER, "filtered", Lsn(0x800))]
    write_published(log.path, needed._replace(marks={TABLE: again}))
    with pytest.raises(walrow.errors.LogError, match="because filtered: walrow load"):
        log.state("t")


# ----------------------------------------------------------------------- names


def test_marks_that_are_accepted_at_once_are_all_accepted(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(1))
    marks = [Mark(code, code.value, Lsn(8)) for code in Why]
    write_published(log.path, Published({}, Lsn(8), None, {TABLE: marks}, {}, {}))
    with ThreadPoolExecutor(len(marks)) as pool:
        calls = [pool.submit(log.accept, "t", reason=code) for code in Why]
    assert [len(call.result()) for call in calls] == [1] * len(marks)
    (table,) = log.tables()
    assert table.needs_load is None


def looked(position: int, names: dict[int, str], columns: tuple[str, ...]) -> Published:
    """The result of the receiver's last look: tables by OID, and their columns."""
    numbered = [[at, name, 25, -1, False, None] for at, name in enumerate(columns, 1)]
    pictures = {oid: {"name": name, "columns": numbered} for oid, name in names.items()}
    return Published(pictures, Lsn(position), None, {}, {}, {})


def test_a_name_is_that_of_the_table_that_has_it_now(tmp_path: Path) -> None:
    first = transaction(0x1000, ("1", "x"))
    second = change(0x2000, streams.insert(("2", "x"), OTHER), oid=OTHER, name="u")
    log = published(tmp_path / "log", [first, second])
    swapped = {TABLE: "public.u", OTHER: "public.t"}
    write_published(log.path, looked(0x2000, swapped, ("id", "v")))
    assert (ids(log), ids(log, table="u"), ids(log, table=("public", "u"))) == (
        [2],
        [1],
        [1],
    )
    # As of an earlier LSN, it has the name that it had then.
    assert ids(log, 0x1000) == [1]
    assert [it.name for it in log.tables()] == ["public.u", "public.t"]
    # A new name is known without a change. The old one is nobody's.
    renamed = {TABLE: "public.fresh", OTHER: "public.u"}
    write_published(log.path, looked(0x2000, renamed, ("id", "v")))
    assert (ids(log, table="fresh"), ids(log, 0x1000)) == ([1], [1])
    for as_of in (None, log.end, 0x3000):
        with pytest.raises(walrow.errors.SchemaError, match=r"it is public\.fresh"):
            log.state("t", as_of=as_of)
    # A table without changes has the name now: the older table's rows are not returned.
    write_published(log.path, looked(0x2000, {7: "public.t"}, ("id", "v")))
    with pytest.raises(walrow.errors.SchemaError):
        log.state("t")


def test_changes_after_the_look_know_the_name_better(tmp_path: Path) -> None:
    first = change(0x1000, streams.insert(("1", "x")), name="before")
    second = change(0x2000, streams.insert(("2", "x"), OTHER), oid=OTHER)
    log = published(tmp_path / "log", [first, second])
    write_published(log.path, looked(0x1000, {TABLE: "public.t"}, ("id", "v")))
    assert ids(log) == [2]


def test_a_column_that_was_dropped_since_the_last_change(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(2))
    assert log.state("t").to_pyarrow().column_names == ["id", "v"]
    write_published(log.path, looked(0x2000, {TABLE: "public.t"}, ("id",)))
    assert log.state("t").to_pyarrow().column_names == ["id"]
    # Before the look, it was there.
    assert log.state("t", as_of=0x2000).to_pyarrow().column_names == ["id"]
    assert log.state("t", as_of=0x1FFF).to_pyarrow().column_names == ["id", "v"]
    write_published(log.path, looked(0x1000, {TABLE: "public.t"}, ("id",)))
    assert log.state("t").to_pyarrow().column_names == ["id", "v"]


@pytest.mark.parametrize(("last", "sees"), [(0x1FF8, True), (0x2FF8, False)])
def test_a_look_at_a_later_place_has_other_columns(
    tmp_path: Path, last: int, *, sees: bool
) -> None:
    log = published(tmp_path / "log", transactions(2))
    look = looked(0x4000, {TABLE: "public.t"}, ("id", "v", "new"))
    write_published(log.path, look._replace(last=Lsn(last)))
    columns = ["id", "v"] + ["new"] * sees
    assert log.state("t").to_pyarrow().column_names == columns


def test_a_mark_behind_the_end_of_the_log_counts_at_its_end(tmp_path: Path) -> None:
    """Other WAL came between the last transaction and the event."""
    log = published(tmp_path / "log", transactions(2))
    mark = Mark(Why.DEFAULT, "a default", Lsn(0x8000))
    write_published(log.path, Published({}, Lsn(0x9000), None, {TABLE: [mark]}, {}, {}))
    for as_of in (None, log.end, Lsn(0x7000)):
        with pytest.raises(walrow.errors.LogError, match="a default"):
            log.state("t", as_of=as_of)
    assert len(ids(log, log.end - 1)) == 3
    # A load that is not published yet has not ended it.
    ended = replace(mark, until=Lsn(0x8800))
    write_published(
        log.path, Published({}, Lsn(0x9000), None, {TABLE: [ended]}, {}, {})
    )
    with pytest.raises(walrow.errors.LogError, match="a default"):
        log.state("t")


def test_columns_that_were_added_since_the_last_change(tmp_path: Path) -> None:
    first, second = transaction(0x1000, ("1", "x")), transaction(0x2000, ("2", "x"))
    log = published(tmp_path / "log", [first, second])
    write_published(log.path, looked(0x2000, {TABLE: "public.t"}, ("v", "new", "id")))
    rows = log.state("t").to_pyarrow()
    assert rows.to_pylist() == [
        {"v": "x", "new": None, "id": 1},
        {"v": "x", "new": None, "id": 2},
    ]
    assert log.state("t", columns=["new"]).to_pyarrow().column_names == ["new"]
    assert log.state("t", as_of=0x1FFF).to_pyarrow().column_names == ["id", "v"]
    # All columns of the last change were dropped.
    write_published(log.path, looked(0x2000, {TABLE: "public.t"}, ("new",)))
    assert log.state("t").to_pyarrow().to_pylist() == [{"new": None}, {"new": None}]
    with pytest.raises(walrow.errors.SchemaError, match="id"):
        log.state("t", columns=["id"]).to_pyarrow()


def test_a_column_that_comes_with_a_change_has_its_values(tmp_path: Path) -> None:
    """After the look, changes know the columns better."""
    wider = streams.wired(
        streams.begin(xid=3, lsn=0x2FF8),
        streams.relation([*COLUMNS, streams.Column("new", 25)]),
        streams.insert(("3", "x", "y")),
        streams.commit(lsn=0x2FF8, end=0x3000),
    )
    first, second = transaction(0x1000, ("1", "x")), transaction(0x2000, ("2", "x"))
    log = published(tmp_path / "log", [first, second, wider])
    write_published(log.path, looked(0x2000, {TABLE: "public.t"}, ("id",)))
    assert log.state("t").to_pyarrow().column("new").to_pylist() == [None, None, "y"]


def test_a_name_is_that_of_its_last_table(tmp_path: Path) -> None:
    first, second = transaction(0x1000, ("1", "x")), transaction(0x2000, ("2", "x"))
    again = change(0x3000, streams.insert(("3", "x"), OTHER), oid=OTHER)
    for segment in (1, 1 << 20):
        path = tmp_path / str(segment)
        source = streams.SESSION + first + second + again
        log = sealed(path, source, segment_size=segment)
        assert ids(log) == [3]
        assert ids(log, "0/2FFF") == [1, 2]
        assert ids(log, table=TABLE) == [1, 2]
        with pytest.raises(walrow.errors.LogError) as raised:
            log.state(OTHER, as_of="0/2000")
        assert (raised.value.code, raised.value.lsn) == ("too_early", 0x3000)


def test_a_renamed_table_is_the_same_one(tmp_path: Path) -> None:
    first = change(0x1000, streams.insert(("1", "x")), name="before")
    log = published(tmp_path / "log", [first, transaction(0x2000, ("2", "x"))])
    assert ids(log) == ids(log, table="before") == [1, 2]


def test_names_of_no_table_or_two_are_errors(tmp_path: Path) -> None:
    row = streams.insert(("2", "x"), OTHER)
    other = change(0x2000, row, oid=OTHER, schema="other")
    log = published(tmp_path / "log", [*transactions(1), other])
    with pytest.raises(walrow.errors.SchemaError) as raised:
        log.state("none")
    assert str(raised.value) == (
        "the log does not have table none, only other.t, public.t"
    )
    with pytest.raises(
        walrow.errors.SchemaError, match=r"matches other\.t and public\.t"
    ):
        log.state("t")
    assert ids(log, table=("other", "t")) == [2]


# --------------------------------------------------------------------- options


def test_options_are_those_of_columns_and_batches(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(2, 5))
    batches = list(log.state("t", columns=["v"], batch_rows=3, types={"v": "binary"}))
    assert [len(batch) for batch in batches] == [3, 3, 3, 1]
    schema = pa.schema([("v", pa.string()), ("id", pa.int64())])
    assert log.state("t", schema=schema).to_pyarrow().schema.names == ["v", "id"]
    assert "_seq" not in pa.table(log.state("t")).column_names
    for wrong in ("metadata", "start", "end", "tables", "framing", "nonsense"):
        wrong_option: Any = {wrong: None}
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{wrong}'"):
            log.state("t", **wrong_option)
    with pytest.raises(walrow.errors.OptionError):
        log.state("t", spool_memory=-1)
    with pytest.raises(walrow.errors.OptionError, match="as_of must be an LSN"):
        log.state("t", as_of="yesterday")
    with pytest.raises(
        walrow.errors.OptionError, match="as_of: the datetime needs a time zone"
    ):
        log.state("t", as_of=dt.datetime(2024, 1, 1))
    with pytest.raises(walrow.errors.SchemaError, match="nope"):
        list(log.state("t", columns=["nope"]))


def test_user_defined_types_are_those_of_the_log(tmp_path: Path) -> None:
    columns = [streams.Column("id", 90_001, is_key=True), streams.Column("v", 90_002)]
    moods = {"oid": 90_001, "schema": "s", "name": "mood", "kind": "enum"}
    items = {"oid": 90_002, "schema": "s", "name": "_mood", "kind": "array"}
    moods |= {"labels": ["sad", "ok"]}
    items |= {"element": 90_001, "delimiter": ","}
    catalog = walrow.Catalog.from_json(json.dumps({"types": [moods, items]}))
    log = sealed(
        tmp_path / "log", streams.wire(columns, [["ok", "{sad,ok}"]]), catalog=catalog
    )
    state = log.state("t")
    found = state.to_pyarrow()
    assert found.to_pylist() == [{"id": "ok", "v": ["sad", "ok"]}]
    assert state.unresolved_types == []
    assert found.schema.field("v").metadata[b"pg.type"] == b"_mood"


def test_rows_beyond_memory_wait_in_a_file(tmp_path: Path) -> None:
    log = published(tmp_path / "log", many(20, 500))
    expected = pa.table(log.state("t"))
    spool = tmp_path / "spool"
    spool.mkdir()
    for memory in (0, 1000):
        small = log.state("t", spool_memory=memory, spool_directory=spool)
        assert pa.table(small).equals(expected)
    assert expected.num_rows == 10_000
    gone = log.state("t", spool_memory=0, spool_directory=tmp_path / "none")
    with pytest.raises(walrow.errors.SpoolError):
        list(gone)


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    empty = change(0x2000, delete(100))
    log = published(tmp_path / "log", [*transactions(1, 1), empty])
    found = log.state("t").to_pyarrow()
    assert (found.column_names, found.num_rows) == (["id", "v"], 0)


def test_progress_and_closing(tmp_path: Path) -> None:
    log = published(tmp_path / "log", many(3, 500))
    reader = log.state("t", batch_rows=10)
    total = reader.bytes_total
    assert reader.bytes_read == 0
    next(reader)
    assert reader.bytes_read == total == sum(it.stream_bytes for it in log.segments())
    reader.close()
    with pytest.raises(ValueError, match="closed"):
        next(reader)
    with log.state("t") as rows:
        assert sum(len(batch) for batch in rows) == 1500


def test_damage_is_an_error(tmp_path: Path) -> None:
    log = published(tmp_path / "log", many(3, 500))
    file = log.segments()[1].path
    data = bytearray(file.read_bytes())
    data[len(data) // 3] ^= 1
    file.write_bytes(data)
    with pytest.raises(walrow.errors.LogError) as raised:
        list(log.state("t"))
    assert (raised.value.code, raised.value.file) == ("damaged", file.name)


def test_a_load_is_no_truncate_of_a_user(tmp_path: Path) -> None:
    with Publisher(tmp_path) as publisher:
        publisher.publish(transaction(0x1000, ("1", "a"), ("2", "b")))
        loaded(publisher, 0x2000, 5, 6, 7)
        publisher.publish(transaction(0x3000, ("8", "c")))
    log = walrow.Log(tmp_path)
    (table,) = walrow.tables(log)
    assert (table.inserts, table.truncates) == (3, 0)
    assert (table.loads, table.loaded) == (1, 3)
    assert "1 load of 3 rows" in repr(table)
    chosen = log.read(table="public.t", metadata=["change_type", "loaded"])
    rows = pa.table(chosen).select(["id", "_change_type", "_loaded"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [
        (1, "insert", False),
        (2, "insert", False),
        (None, "truncate", True),
        (5, "insert", True),
        (6, "insert", True),
        (7, "insert", True),
        (8, "insert", False),
    ]
    # Nobody who does not ask for it gets it.
    assert "_loaded" not in pa.table(log.read(table="public.t")).column_names


@pytest.mark.timeout(60)
def test_a_replica_identity_that_alternates_takes_linear_time(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", v="text")
    for number in range(12_000):
        log.identity = "df"[number % 2]
        log.append(streams.insert([str(number), "a"]))
    log.take(streams.update(["0", "b"], key=["0", "a"], is_whole=True))
    rows = walrow.Log(log.path).state("t").to_pyarrow().to_pydict()
    assert rows == {"id": [*range(1, 12_000), 0], "v": ["a"] * 11_999 + ["b"]}


@pytest.mark.parametrize("back", [False, True])
def test_a_key_that_is_dropped_while_the_identity_is_full(
    tmp_path: Path, *, back: bool
) -> None:
    log = WrittenLog(tmp_path, id="int", v="text")
    log.take(streams.insert(["1", "a"]), streams.insert(["2", "b"]))
    log.identity = "f"
    one, two = ["1", "a"], ["2", "b"]
    log.take(
        streams.update(["1", "c"], key=one, is_whole=True),
        # The primary key is dropped now.
        streams.insert(["1", "c"]),
        streams.insert(["1", "d"]),
        streams.update(["1", "b"], key=two, is_whole=True),
        streams.delete(["1", "c"], is_whole=True),
    )
    rows = [(1, "b"), (1, "c"), (1, "d")]
    if back:
        log.take(*(streams.delete(["1", it], is_whole=True) for it in "bd"))
        log.identity, rows = "d", [(1, "e"), (5, "f")]
        log.take(
            streams.update(["1", "e"]),
            streams.insert(["3", "f"]),
            streams.update(["5", "f"], key=["3", None]),
        )
    found = walrow.Log(log.path).state("t").to_pyarrow().to_pylist()
    assert sorted((it["id"], it["v"]) for it in found) == rows
