"""`Log.erase`: columns and rows go, and everything else stays as it is."""

from __future__ import annotations

import re
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from captures import Capture
from logs import SEALABLE, Publisher, fault, log_of, published, sampled, transaction
from targets.written_log import WrittenLog
from walrow._core import LogDirectory

pa = pytest.importorskip("pyarrow")


OPTIONS: dict[str, Any] = {
    "profile": "text",
    "unfinished": "ignore",
    "unrepresentable": "null",
}

TURNED = {"update_preimage": "delete", "update_postimage": "insert"}


def rows_of(source: Any, **options: Any) -> list[dict[str, Any]]:
    """All rows of all tables, in the order of their commits."""
    rows = []
    for batch in walrow.read(source, **(OPTIONS | options)):
        columns = pa.record_batch(batch).to_pylist()
        rows += [
            {"table": batch.table, "oid": batch.relation_oid} | it for it in columns
        ]
    return sorted(
        rows, key=lambda it: (it["_commit_lsn"], it["_seq"], it["_change_type"] != "x")
    )


def keyed(capture: Capture) -> tuple[str, int, dict[str, str]] | None:
    """A table of a capture, and the key of one of its rows."""
    for batch in walrow.read(capture.path, **OPTIONS):
        for row in pa.record_batch(batch).to_pylist():
            key = {name: row[name] for name in batch.key_columns}
            if key and None not in key.values() and row["_change_type"] == "insert":
                return batch.table, batch.relation_oid, key
    return None


@pytest.mark.parametrize(
    ("capture", "merges"),
    sampled(
        [(each, False) for each in SEALABLE] + [(each, True) for each in SEALABLE[::4]]
    ),
    ids=str,
)
def test_a_key_of_a_capture_is_erased(
    capture: Capture,
    tmp_path: Path,
    merges: bool,  # noqa: FBT001 - a parameter
) -> None:
    found = keyed(capture)
    if found is None:
        pytest.skip("no table with a key")
    _, oid, key = found
    log = log_of(tmp_path / "log", capture, 700)
    if merges:
        log.compact()
    before = rows_of(log)
    done = log.erase(oid, keys=[key])
    assert 0 < done.rewritten <= done.segments <= len(log.segments())
    after = rows_of(log)

    def is_erased(row: dict[str, Any]) -> bool:
        return row["oid"] == oid and all(row.get(it) == key[it] for it in key)

    erased = [it for it in before if is_erased(it)]
    assert done.changes == len({(it["_commit_lsn"], it["_seq"]) for it in erased})
    assert not any(is_erased(it) for it in after)
    # Where a row became an erased one, it is deleted for others, and the other way around.
    became = {(it["_commit_lsn"], it["_seq"]) for it in erased}
    expected = [
        it | {"_change_type": TURNED.get(it["_change_type"], it["_change_type"])}
        if (it["_commit_lsn"], it["_seq"]) in became
        else it
        for it in before
        if not is_erased(it)
    ]
    # Unchanged values of the old row are not there to be taken from it any more.
    if not any("_unsent" in it and it["_unsent"] for it in after):
        assert after == expected
    assert log.verify() == []
    if oid in {it.oid for it in log.tables()}:
        assert astuple(log.erase(oid, keys=[key])) == (0, 0, 0, ())
    rows = sum(it.rows for it in log.tables())
    assert rows == len({(it["_commit_lsn"], it["_seq"]) for it in after if _is_row(it)})
    # A writer goes on.
    with Publisher(log.path) as publisher:
        assert publisher.writer.position == log.end


def _is_row(row: dict[str, Any]) -> bool:
    return str(row["_change_type"]) != "truncate"


@pytest.mark.parametrize("capture", sampled(SEALABLE), ids=str)
def test_a_column_of_a_capture_is_erased(capture: Capture, tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", capture, 700)
    for table in log.tables():
        names = {it.name for version in table.versions for it in version.columns}
        keys = {it.name for each in table.versions for it in each.columns if it.key}
        if not (free := sorted(names - keys)):
            continue
        column = free[0]
        before = rows_of(log)
        try:
            log.erase(table.oid, columns=[column])
        except walrow.errors.LogError as error:
            # A capture has no catalog: the column may have had another name before.
            assert error.code == "earlier_name"  # noqa: PT017
            assert any(
                column not in {it.name for it in version.columns}
                for version in table.versions
            )
            assert rows_of(log) == before
            return
        expected = [
            {name: value for name, value in row.items() if name != column}
            if row["oid"] == table.oid
            else row
            for row in before
        ]
        for row in expected:
            if row.get("_unsent") and row["oid"] == table.oid:
                left = [it for it in row["_unsent"] if it != column]
                row["_unsent"] = left or None
        assert rows_of(log) == expected
        of_table = next(it for it in log.tables() if it.oid == table.oid)
        for version in of_table.versions:
            assert column not in {it.name for it in version.columns}
        assert log.verify() == []
        with pytest.raises(walrow.errors.SchemaError):
            log.erase(table.oid, columns=[column])
        return
    pytest.skip("no column outside of keys")


@pytest.fixture
def log(tmp_path: Path) -> walrow.Log:
    rows = [
        transaction(0x1000 * it, (str(it), f"v{it}"), ("7", "x")) for it in range(1, 6)
    ]
    return published(tmp_path / "log", rows)


def test_texts_numbers_and_booleans_are_keys(log: walrow.Log) -> None:
    assert log.erase("t", keys=[{"id": 3}, {"id": "4", "v": "v4"}]).changes == 2
    assert astuple(log.erase("public.t", keys=[{"id": "4"}])) == (0, 0, 0, ())
    assert astuple(log.erase(("public", "t"), keys=[{"id": 7, "v": "y"}])) == (
        0,
        0,
        0,
        (),
    )
    assert log.erase(streams.TABLE, keys=[{"v": "x"}]).changes == 5
    assert [(it["id"], it["_seq"]) for it in rows_of(log)] == [
        ("1", 0),
        ("2", 0),
        ("5", 0),
    ]
    assert astuple(log.erase("t", columns=["v"])) == (0, 3, 3, ())
    assert "v" not in rows_of(log)[0]


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (walrow.errors.SchemaError, {"table": "absent", "columns": ["v"]}),
        (walrow.errors.SchemaError, {"table": "t", "columns": ["w"]}),
        (walrow.errors.SchemaError, {"table": "t", "keys": [{"w": 1}]}),
        (walrow.errors.OptionError, {"table": "t"}),
        (walrow.errors.OptionError, {"table": "t", "keys": [{}]}),
        (walrow.errors.OptionError, {"table": "t", "columns": 5}),
        (walrow.errors.OptionError, {"table": "t", "columns": {"v": 1}}),
        (walrow.errors.OptionError, {"table": "t", "columns": [{"v": 1}]}),
        (walrow.errors.OptionError, {"table": "t", "keys": 5}),
        (walrow.errors.OptionError, {"table": "t", "keys": True}),
        (walrow.errors.OptionError, {"table": "t", "keys": [{"id": None}]}),
        (walrow.errors.OptionError, {"table": "t", "keys": [{"id": 1.5}]}),
    ],
)
def test_what_is_wrong_is_refused(
    log: walrow.Log, error: type[Exception], options: dict[str, Any]
) -> None:
    before = {it.name: it.read_bytes() for it in log.path.iterdir()}
    with pytest.raises(error) as caught:
        log.erase(**options)
    if caught.type is walrow.errors.OptionError and len(options) > 1:
        option = [*options][1]
        assert re.match(f"{option}\\b|name a column", str(caught.value))
    assert {it.name: it.read_bytes() for it in log.path.iterdir()} == before


def test_a_writer_and_a_key_column_are_refused(log: walrow.Log) -> None:
    assert fault(lambda: log.erase("t", columns=["id"]))[0] == "key_column"
    with Publisher(log.path) as publisher:
        assert fault(lambda: log.erase("t", columns=["v"])) == ("locked", None)
        # Durable, but not published.
        publisher.writer.append(transaction(0x6000, ("9", "late")))
        publisher.writer.sync()
    assert log.erase("t", keys=[{"id": 9}]).changes == 1
    assert log.end == 0x6000
    assert b"late" not in (log.path / "_open").read_bytes()


def test_values_are_in_no_error(log: walrow.Log) -> None:
    given: list[Any] = [[{"id": 1.25}], [{"absent": "personal"}]]
    for keys in given:
        with pytest.raises(walrow.Error) as raised:
            log.erase("t", keys=keys)
        assert "1.25" not in str(raised.value)
        assert "personal" not in str(raised.value)


def test_readers_go_on_while_segments_are_rewritten(log: walrow.Log) -> None:
    opened = walrow.Log(log.path)
    reader = opened.read(profile="text", batch_rows=1)
    first = pa.record_batch(next(iter(reader))).to_pylist()
    log.erase("t", keys=[{"v": "x"}])
    rest = [row for batch in reader for row in pa.record_batch(batch).to_pylist()]
    assert first[0]["id"] == "1"
    assert {row["id"] for row in first + rest} >= {"1", "2", "3", "4", "5"}
    assert opened.verify() == []


def test_an_erased_log_that_is_sealed_again_keeps_its_seqs(
    log: walrow.Log, tmp_path: Path
) -> None:
    rows = [transaction(0x6000, *((str(it % 3), "y") for it in range(9)))]
    with Publisher(log.path) as publisher:
        publisher.publish(*rows)
    log = walrow.Log(log.path)
    log.erase("t", keys=[{"id": 1}, {"id": 0, "v": "y"}])
    expected = [(it["_seq"], it["id"]) for it in rows_of(log)]
    assert expected[-3:] == [(2, "2"), (5, "2"), (8, "2")]
    stream = b"".join(iter(LogDirectory(log.path).open().read, b""))
    again = tmp_path / "again"
    # In parts, which begin in the middle of what was erased.
    walrow.seal(stream, log=again, segment_size=1)
    assert [(it["_seq"], it["id"]) for it in rows_of(again)] == expected


def state_of(log: WrittenLog) -> list[tuple[Any, ...]]:
    rows = walrow.Log(log.path).state("public.t").to_pyarrow().to_pylist()
    return [tuple(row.values()) for row in rows]


def refused(log: WrittenLog, *keys: dict[str, Any]) -> None:
    """A refusal that names the replica identity, and changes nothing."""
    before = {it: it.read_bytes() for it in log.path.glob("*.seg*")}
    with pytest.raises(walrow.errors.SchemaError, match=r"erase them by \(id\)"):
        log.erase(keys=keys)
    assert {it: it.read_bytes() for it in log.path.glob("*.seg*")} == before
    log.writer = log._writer()
    log.writer.next_session()


@pytest.mark.parametrize("last", ["update", "move", "delete"])
def test_a_key_that_finds_some_changes_of_a_row_is_refused(
    tmp_path: Path, last: str
) -> None:
    log = WrittenLog(tmp_path, id="int", person="int", v="text")
    log.insert(["1", "7", "a"], ["2", "8", "b"], ["3", "9", "c"])
    if last == "update":
        log.update(["1", "8", "c"])
    elif last == "move":
        log.move("1", ["4", "8", "c"])
    else:
        log.delete("1")
    before = state_of(log)
    refused(log, {"person": 7})
    refused(log, {"id": 2}, {"person": 7})
    refused(log, {"id": 1, "person": 7})
    assert state_of(log) == before
    # A row without other changes may be found by any column.
    log.erase(keys=[{"id": 1}, {"person": 9}])
    left = [row for row in before if row[0] not in (1, 3)]
    assert state_of(log) == left
    assert log.apply().net_rows == len(left)


def test_large_values_of_a_whole_old_row_are_kept(tmp_path: Path) -> None:
    """The row of another person is left: its large value was sent in the old image only."""
    log = WrittenLog(tmp_path, "f", id="int", person="int", big="text")
    log.insert(["1", "7", "large"], ["2", "7", "x"])
    log.take(
        streams.update(
            ["1", "8", streams.UNSENT], key=["1", "7", "large"], is_whole=True
        ),
        streams.delete(["2", "7", "x"], is_whole=True),
    )
    log.erase(keys=[{"person": 7}])
    assert state_of(log) == [(1, 8, "large")]
    [row] = walrow.Log(log.path).read(table="public.t").to_pyarrow().to_pylist()
    assert (row["_change_type"], row["big"], row["_unsent"]) == (
        "insert",
        "large",
        None,
    )
    assert log.apply(keys=["id"]).net_rows == 1
    assert log.rows() == [(1, 8, "large")]
