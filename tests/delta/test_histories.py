"""Targets with `mode="history"`: versions, their times, loads, erasures and refusals."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import streams
import walrow
import walrow.delta
from targets.modelled_rounds import none_fits
from targets.written_log import SECOND, Told, second
from targets.written_tables import WrittenTables
from walrow._apply import keys, version_parts
from walrow._apply.items import Token
from walrow._apply.tables import AppliedTable
from walrow.delta import histories

UNSENT = streams.UNSENT
SECRET = "4711 is a value"  # noqa: S105 - it must not be in errors


def test_a_version_for_each_transaction(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", n="int", big="text")
    log.at(1).insert(["1", "1", "big 1"], ["2", "2", "big 2"])
    log.at(2).update(["1", "10", UNSENT])
    # Two changes in one transaction are one version.
    log.at(3).take(
        streams.update(["1", "11", UNSENT]), streams.update(["1", "12", UNSENT])
    )
    done = log.apply()
    assert (done.committed, done.rows, done.net_rows) == (True, 5, 4)
    assert second(done.since) == 1
    log.at(4).delete("2")
    log.at(5).move("1", ["5", "5", UNSENT])
    again = log.apply()
    assert (again.inserted, again.updated, again.deleted) == (1, 2, 0)
    assert again.since == done.since
    assert log.versions() == [
        (1, 1, "big 1", 1, 2),
        (1, 10, "big 1", 2, 3),
        (1, 12, "big 1", 3, 5),
        (2, 2, "big 2", 1, 4),
        (5, 5, "big 1", 5, None),
    ]
    lsns = {row[0]: row[1:] for row in log.rows("n", "_commit_lsn", "_seq")}
    assert lsns[12] == (0x1300, 1)
    assert lsns[5] == (0x1500, 0)
    assert not log.apply().committed


@pytest.mark.parametrize("batches", ["one", "several"])
def test_transactions_of_one_time(tmp_path: Path, batches: str) -> None:
    """No version is empty, in one batch or in several."""
    log = Told(tmp_path, id="int", n="int")

    def step() -> None:
        if batches == "several":
            log.apply()

    log.at(1).insert(["1", "1"], ["2", "1"])
    step()
    log.at(2).update(["1", "2"])
    step()
    # An earlier time is the greatest time so far, too.
    log.at(1.5).update(["1", "3"])
    log.insert(["3", "1"])
    step()
    log.at(2).update(["1", "4"])
    log.delete("3")
    log.delete("2")
    log.insert(["2", "5"])
    log.apply()
    assert log.versions() == [
        (1, 1, 1, 2),
        (1, 4, 2, None),
        (2, 1, 1, 2),
        (2, 5, 2, None),
    ]
    log.truncate()
    log.apply()
    assert log.versions() == [(1, 1, 1, 2), (2, 1, 1, 2)]


def test_the_time_is_that_of_all_transactions(tmp_path: Path) -> None:
    """Transactions without changes of the table count, and so do transactions before the last record."""
    log = Told(tmp_path, id="int")
    log.at(1).insert(["1"])
    log.at(9).take()
    log.apply()
    log.at(3).insert(["2"])
    done = log.apply()
    token = Token.from_json(done.token)
    assert token is not None
    assert token.time == streams.EPOCH + streams.TIME + 9 * SECOND
    log.at(12).take()
    log.at(4).insert(["3"])
    log.apply()
    assert log.versions() == [(1, 1, None), (2, 9, None), (3, 12, None)]


def test_a_truncate_closes_everything(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", big="text")
    log.at(1).insert(["1", "a"], ["2", "b"])
    log.apply()
    log.at(2).update(["1", UNSENT])
    log.at(3).take(streams.truncate(streams.TABLE), streams.insert(["2", "c"]))
    log.at(4).truncate()
    log.at(5).insert(["1", "d"])
    log.apply()
    wanted = [
        (1, "a", 1, 2),
        (1, "a", 2, 3),
        (1, "d", 5, None),
        (2, "b", 1, 3),
        (2, "c", 3, 4),
    ]
    assert log.versions() == wanted
    log.at(6).truncate()
    assert log.apply(truncates="ignore").committed
    assert log.versions() == wanted


@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("parts", [8, 1 << 22])
def test_a_load_is_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, parts: int, *, fits: bool
) -> None:
    monkeypatch.setattr(keys, "_GROWTH", parts)
    if not fits:
        monkeypatch.setattr(histories, "compared", none_fits)
    log = Told(tmp_path, id="int", n="int", f="float")
    log.at(1).insert(["7", "7", None])
    log.at(2).load(
        ["1", "1", "NaN"], ["2", "2", "\\N"], ["3", "3", "0"], ["4", "4", "1"]
    )
    first = log.apply()
    # The rows before the first load are not known.
    assert (second(first.since), first.net_rows) == (2, 4)
    log.at(3).update(["4", "40", "1"])
    log.at(4).load(
        ["1", "1", "NaN"], ["2", "2", "\\N"], ["3", "30", "0"], ["5", "5", "5"]
    )
    log.at(5).update(["5", "50", "5"])
    before = log.commits()
    done = log.apply()
    assert done.since == first.since
    # The changes before the load, the load, and the changes after it.
    assert log.commits() == before + 3
    found = [(row[0], row[1], *row[3:]) for row in log.versions()]
    assert found == [
        (1, 1, 2, None),
        (2, 2, 2, None),
        (3, 3, 2, 4),
        (3, 30, 4, None),
        (4, 4, 2, 3),
        (4, 40, 3, 4),
        (5, 5, 4, 5),
        (5, 50, 5, None),
    ]
    log.at(6).load()
    log.apply()
    assert all(row[-1] is not None for row in log.versions())


def test_a_load_with_more_differences_than_memory(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", v="text")
    log.at(1).load(*([str(at), "a" * 1500] for at in range(6_000)))
    log.apply(memory="64MiB")
    log.at(2).load(*([str(at), "b" * 1500] for at in range(30, 6_000)))
    before = log.commits()
    done = log.apply(memory="64MiB")
    assert (done.rows, done.net_rows) == (11_970, 5_970)
    assert (done.inserted, done.updated, done.deleted) == (5_970, 6_000, 0)
    assert log.commits() == before + 1
    counts = Counter(
        (value[0], second(since), second(until))
        for value, since, until in log.rows("v", "_valid_from", "_valid_to")
    )
    assert counts == {("a", 1, 2): 6_000, ("b", 2, None): 5_970}


def test_a_load_replaces_only_versions_that_it_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A MERGE, and rows that are replaced, give the same history."""
    found = []
    for fits in (True, False):
        log = Told(tmp_path / str(fits), id="int", n="int", v="text")
        log.at(1).load(["1", "1", "a"], ["2", "2", "b"], ["3", "3", "\\N"])
        log.apply()
        place = log.target.partition(":")[2]
        # Another writer's column, and its row, which is no version.
        table = deltalake.DeltaTable(place)
        table.alter.add_columns(deltalake.Field("own", "integer"))
        table.update(updates={"own": "id * 10"})
        rows = pa.table(table.scan()).slice(0, 1)
        rows = rows.set_column(0, "id", pa.array([99], pa.int32()))
        at = rows.column_names.index("_is_current")
        rows = rows.set_column(at, "_is_current", pa.nulls(1, pa.bool_()))
        deltalake.write_deltalake(place, rows, mode="append")
        log.at(2).update(["1", "10", "a"])
        log.at(3).delete("2")
        log.apply()
        # With the time of the load: a version that ends, and a version that would be empty.
        log.at(4).update(["3", "30", "\u00fc"])
        log.insert(["4", "4", "d"], ["5", "5", "e"])
        log.apply()
        if not fits:
            monkeypatch.setattr(histories, "compared", none_fits)
        before = log.commits()
        log.load(["1", "10", "a"], ["3", "31", "\\N"], ["5", "5", "e"], ["6", "6", "f"])
        done = log.apply()
        assert log.commits() == before + 1
        assert (done.inserted, done.updated, done.deleted) == (2, 0, 2)
        found.append(
            log.rows(
                "id",
                "n",
                "v",
                "own",
                "_valid_from",
                "_valid_to",
                "_is_current",
                "_commit_lsn",
                "_seq",
            )
        )
        log.at(5).update(["6", "60", UNSENT])
        log.apply()
        assert log.rows("id", "n", "v", "own")[-1][:3] == (99, 1, "a")
    assert found[0] == found[1]
    assert [
        (row[0], row[1], row[3], second(row[4]), second(row[5])) for row in found[0]
    ] == [
        (1, 1, 10, 1, 2),
        (1, 10, None, 2, None),
        (2, 2, 20, 1, 3),
        (3, 3, 30, 1, 4),
        (3, 31, None, 4, None),
        (5, 5, None, 4, None),
        (6, 6, None, 4, None),
        (99, 1, 10, 1, None),
    ]


def test_parts_end_at_transactions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A row counts for 2 MiB, and 8 MiB fit.
    monkeypatch.setattr(version_parts, "_ROW_BYTES", 2 << 20)
    log = Told(tmp_path, id="int", n="int")
    log.at(0).insert(["1", "0"])
    for at in range(1, 20):
        log.at(at).append(streams.update(["1", str(at)]))
    log.publish()
    monkeypatch.setattr(walrow._apply.tables.AppliedTable, "changes", _in_small_batches)
    log.apply(memory="64MiB")
    assert log.commits() > 4
    assert log.versions() == sorted(
        ((1, at, at, at + 1 if at < 19 else None) for at in range(20)), key=repr
    )
    log.at(21).insert(*([str(at), "1"] for at in range(2, 9)))
    with pytest.raises(walrow.errors.ApplyError) as caught:
        log.apply(memory="64MiB")
    assert caught.value.code == "too_large"


def _in_small_batches(applied: Any, start: int, end: int) -> Any:
    for batch in _CHANGES(applied, start, end):
        for at in range(0, len(batch), 3):
            yield batch.slice(at, 3)


_CHANGES = AppliedTable.changes


def test_a_new_column_is_null_in_closed_versions(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", big="text")
    log.at(1).insert(["1", "a"])
    log.at(2).update(["1", UNSENT])
    log.apply()
    log.columns["more"] = "text"
    log.at(3).update(["1", UNSENT, "x"])
    log.at(4).update(["1", "b", UNSENT])
    log.apply()
    log.at(5).update(["1", "c", UNSENT])
    log.apply()
    assert log.versions() == [
        (1, "a", "x", 3, 4),
        (1, "a", None, 1, 2),
        (1, "a", None, 2, 3),
        (1, "b", "x", 4, 5),
        (1, "c", "x", 5, None),
    ]


def test_a_dropped_column_keeps_its_values(tmp_path: Path) -> None:
    """So a current target does. A row that is inserted or changed by a load has NULL."""
    log = Told(tmp_path, id="int", old="int", big="text")
    log.at(1).insert(["1", "1", "a"], ["2", "2", "b"], ["3", "3", "c"])
    log.apply()
    del log.columns["old"]
    log.at(2).update(["1", UNSENT])
    log.insert(["4", "d"])
    log.at(3).load(["1", "a"], ["2", "x"], ["3", "c"], ["4", "d"])
    log.apply()
    log.columns = {"id": "int", "big": "text", "old": "int"}
    rows = [(row[0], row[2], *row[3:]) for row in log.versions()]
    assert rows == [
        (1, 1, 1, 2),
        (1, 1, 2, None),
        (2, 2, 1, 3),
        (2, None, 3, None),
        (3, 3, 1, None),
        (4, None, 2, None),
    ]


def test_values_that_were_never_sent(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", n="int", big="text")
    log.at(1).insert(["1", "1", "a"])
    log.apply()
    log.at(2).update(["2", "2", UNSENT])
    with pytest.raises(walrow.errors.ApplyError) as caught:
        log.apply()
    assert (caught.value.code, caught.value.column) == ("never_sent", "big")
    done = log.apply(never_sent="null")
    assert done.never_sent == 1
    assert log.versions() == [(1, 1, "a", 1, None), (2, 2, None, 2, None)]


def test_a_history_whose_record_is_lost(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", n="int")
    log.at(9).insert(["1", "1"])
    end = log.apply().end
    table = deltalake.DeltaTable(log.target.partition(":")[2])
    rows = table.to_pyarrow_table()
    log.target = f"delta:{tmp_path}/copy"
    deltalake.write_deltalake(f"{tmp_path}/copy", rows)
    log.at(3).update(["1", "2"])
    with pytest.raises(walrow.errors.ApplyError) as caught:
        log.apply()
    assert caught.value.code == "no_token"
    log.apply(resume_from=end)
    # Its times do not go back.
    assert log.versions() == [(1, 2, 9, None)]


def test_a_gap_ends_with_a_load(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", n="int")
    log.at(1).insert(["1", "1"], ["2", "2"])
    log.apply()
    # The slot was created again, later.
    after = Told(tmp_path / "again", id="int", n="int")
    after.target, after.lsn = log.target, log.lsn + 0x1000
    after.writer.set_slot_start(after.lsn)
    after.at(5).insert(["3", "3"])
    with pytest.raises(walrow.errors.ApplyError) as caught:
        after.apply()
    assert caught.value.code == "not_received"
    after.at(6).load(["1", "1"], ["3", "3"])
    done = after.apply()
    assert second(done.since) == 6
    assert after.versions() == [(1, 1, 1, None), (2, 2, 1, 6), (3, 3, 6, None)]


def test_a_gap_in_changes_stays(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int")
    log.insert(["1"])
    log.apply(mode="changes")
    after = Told(tmp_path / "again", id="int")
    after.target, after.lsn = log.target, log.lsn + 0x1000
    after.writer.set_slot_start(after.lsn)
    after.load(["1"])
    with pytest.raises(walrow.errors.ApplyError) as caught:
        after.apply(mode="changes")
    assert caught.value.code == "not_received"
    assert str(caught.value).endswith("Use another target")


def test_erasure_reaches_closed_versions(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", name="text")
    for at in (1, 2, 3):
        log.at(at).insert([str(at), f"{SECRET} {at}"])
        log.at(at + 0.5).update([str(at), f"{SECRET}, too {at}"])
    log.at(5).delete("3", "1")
    log.at(6).take(streams.update(["4", "d"], key=["2", None]))
    log.at(7).update(["4", "e"])
    log.apply()
    assert len(log.versions()) == 8
    log.erase(keys=[{"id": 3}])
    done = log.apply()
    assert (done.committed, done.erased, done.start) == (True, 2, done.end)
    assert [row[0] for row in log.versions()] == [1, 1, 2, 2, 4, 4]
    assert not log.apply().committed
    # All changes of this one are before the last erased one.
    log.erase(keys=[{"id": 2}])
    assert log.apply().erased == 2
    assert [row[0] for row in log.versions()] == [1, 1, 4, 4]
    log.erase(columns=["name"])
    log.at(9).insert(["9", "after"])
    done = log.apply()
    assert (done.erased, done.inserted) == (0, None)
    assert [row[:2] for row in log.versions()] == [
        (1, None),
        (1, None),
        (4, None),
        (4, None),
        (9, "after"),
    ]
    # The record has begun another line, and goes on.
    log.at(10).delete("9")
    assert log.apply().updated == 1


@pytest.mark.parametrize("mode", ["history", "changes"])
def test_an_erasure_of_another_table_takes_nothing(tmp_path: Path, mode: str) -> None:
    """Also if the wrong table is named, or the table was created again."""
    log = WrittenTables(tmp_path / "log")
    log.insert(1, 2)
    log.insert(1, 2, row=("2", "2"))
    target = f"delta:{tmp_path}/t1"
    given: dict[str, Any] = {"target": target, "mode": mode}
    walrow.delta.apply_changes(log.path, table="sales.t1", **given)
    log.writer.close()
    walrow.Log(log.path).erase("sales.t2", keys=[{"id": 1}])
    with pytest.raises(walrow.errors.ApplyError) as caught:
        walrow.delta.apply_changes(log.path, table="sales.t2", **given)
    assert caught.value.code == "other_table"
    # A log of another server, whose table has the same OID.
    other = WrittenTables(tmp_path / "other", system="8")
    other.insert(1)
    other.insert(1, row=("2", "2"))
    other.writer.close()
    walrow.Log(other.path).erase("sales.t1", keys=[{"id": 1}])
    with pytest.raises(walrow.errors.ApplyError) as caught:
        walrow.delta.apply_changes(other.path, table="sales.t1", **given)
    assert caught.value.code == "other_source"
    end = walrow.Log(other.path).end
    given["resume_from"] = end
    walrow.delta.apply_changes(other.path, table="sales.t1", **given)
    assert deltalake.DeltaTable(target.partition(":")[2]).count() == 2


def test_a_log_that_was_begun_again_erases_no_older_rows(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", n="int")
    log.at(1).insert(["1", "1"], ["2", "2"])
    log.apply()
    log.erase(keys=[{"id": 1}])
    assert log.apply().erased == 1
    after = Told(tmp_path / "again", id="int", n="int")
    after.target, after.lsn = log.target, log.lsn + 0x1000
    after.writer.set_slot_start(after.lsn)
    after.at(5).load(["2", "2"], ["3", "3"])
    assert after.apply().erased == 0
    wanted = [(2, 2, 1, None), (3, 3, 5, None)]
    assert after.versions() == wanted
    after.at(6).insert(["4", "4"])
    # Now something is erased from that log, too: older rows may be of the same person.
    after.erase(keys=[{"id": 4}])
    with pytest.raises(walrow.errors.ApplyError) as caught:
        after.apply()
    assert caught.value.code == "erased"
    assert after.versions() == wanted


def test_an_erasure_before_the_target_has_the_delete(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", name="text")
    log.at(1).insert(["1", SECRET], ["2", "b"])
    log.apply()
    log.at(2).delete("1")
    log.erase(keys=[{"id": 1}])
    log.apply()
    assert log.versions() == [(2, "b", 1, None)]


def test_an_erasure_that_cannot_be_followed(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", name="text")
    log.at(1).insert(["1", SECRET], ["2", "b"])
    log.at(2).delete("1")
    done = log.apply()
    log.at(3).insert(["3", "c"], ["5", "e"])
    walrow.Log(log.path).prune(done.end)
    log.erase(keys=[{"id": 3}])
    with pytest.raises(walrow.errors.ApplyError) as caught:
        log.apply()
    assert caught.value.code == "erased"
    assert f'resume_from="{done.end}"' in str(caught.value)
    assert SECRET not in str(caught.value)
    deltalake.DeltaTable(log.target.partition(":")[2]).delete("id = 1")
    log.apply(resume_from=done.end)
    log.at(4).insert(["4", "d"])
    log.apply()
    assert log.versions() == [
        (2, "b", 1, None),
        (4, "d", 4, None),
        (5, "e", 3, None),
    ]


def test_a_target_has_one_mode(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int")
    log.at(1).insert(["1"])
    for own in ("history", "changes", "current"):
        log.target = f"delta:{tmp_path}/{own}"
        log.apply(mode=own)
        log.insert([str(log.lsn)])
        before = log.commits()
        for other in {"history", "changes", "current"} - {own}:
            with pytest.raises(walrow.errors.ApplyError) as caught:
                log.apply(mode=other)
            assert caught.value.code == "other_mode"
            assert f'mode="{own}"' in str(caught.value)
            assert log.commits() == before
        assert log.apply(mode=own).committed


@pytest.mark.parametrize("mode", ["history", "changes"])
def test_rows_of_others_are_no_versions(tmp_path: Path, mode: str) -> None:
    log = Told(tmp_path, id="int")
    log.insert(["1"])
    place = log.target.partition(":")[2]
    plain = pa.table({"id": pa.array([5], pa.int32())})
    deltalake.write_deltalake(place, plain)
    with pytest.raises(walrow.errors.ApplyError) as caught:
        log.apply(mode=mode, resume_from=0x1001)
    assert caught.value.code == "other_mode"
    assert log.rows() == [(5,)]
    # Without rows, the table gets the columns.
    deltalake.DeltaTable(place).delete()
    assert log.apply(mode=mode).committed
    assert log.rows("id") == [(1,)]


@pytest.mark.parametrize("mode", ["history", "changes"])
def test_a_load_is_no_remedy_for_old_rows(tmp_path: Path, mode: str) -> None:
    log = Told(tmp_path, id="int", n="int", more="int")
    log.insert(["1", "1", "1"])
    log.apply(mode=mode, columns=["id", "n"])
    log.load(["1", "2", "1"])
    with pytest.raises(walrow.errors.ApplyError) as caught:
        log.apply(mode=mode)
    assert caught.value.code == "other_options"
    assert "load the table" not in str(caught.value)
    log.columns["n"] = "bigint"
    log.insert(["3", "3", "3"])
    with pytest.raises(walrow.errors.ApplyError) as caught:
        log.apply(mode=mode, columns=["id", "n"])
    assert caught.value.code == "widening"
    assert "load the table" not in str(caught.value)


def test_options_and_names_that_are_refused(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", _Valid_To="int")
    log.insert(["1", None])
    with pytest.raises(
        walrow.errors.SchemaError, match="has a column _valid_to itself"
    ):
        log.apply()
    log.apply(columns=["id"])
    refused: tuple[dict[str, Any], ...] = ({"deletes": "soft"}, {"mode": "scd"})
    for options in refused:
        with pytest.raises(walrow.errors.OptionError):
            log.apply(**options)
    refused = ({"keys": ["id"]}, {"truncates": "ignore"}, {"never_sent": "null"})
    for options in refused:
        with pytest.raises(walrow.errors.OptionError, match="means nothing"):
            log.apply(mode="changes", **options)


def test_an_identity_that_changes(tmp_path: Path) -> None:
    """An old image has the columns of the identity of its time."""
    log = Told(tmp_path, id="int", n="int", big="text")
    log.at(1).take(
        streams.insert(["1", "1", "big"]),
        streams.update(["1", "2", UNSENT]),
        streams.update(["2", "3", UNSENT], key=["1", None, None]),
    )
    log.identity = "f"
    log.at(2).insert(["9", "9", "other"])
    log.apply(keys=["id"])
    assert log.versions() == [(2, 3, "big", 1, None), (9, 9, "other", 2, None)]


def test_a_table_without_a_key(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", v="text")
    log.lsn += 0x100
    for message in (
        streams.begin(lsn=log.lsn),
        streams.relation(
            [streams.Column("id", 23, -1), streams.Column("v", 25, -1)], identity="n"
        ),
        streams.insert(["1", "a"]),
        streams.insert(["1", "a"]),
        streams.commit(lsn=log.lsn),
    ):
        log.writer.append(message)
    log.publish()
    for mode in ("current", "history"):
        with pytest.raises(walrow.errors.SchemaError) as caught:
            log.apply(mode=mode)
        assert 'mode="changes"' in str(caught.value) or "mode='changes'" in str(
            caught.value
        )
        assert 'mode="history"' in str(caught.value)
    assert log.apply(mode="changes").net_rows == 2
    assert log.rows("id", "v", "_change_type", "_seq") == [
        (1, "a", "insert", 0),
        (1, "a", "insert", 1),
    ]


def test_changes_are_added(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", v="text")
    log.at(1).load(["1", "a"])
    log.at(86_400).update(["1", UNSENT])
    first = log.apply(mode="changes", partition_by=["_commit_date"])
    assert (first.committed, first.rows, first.inserted) == (True, 3, 3)
    assert not log.apply(mode="changes").committed
    log.at(86_401).truncate()
    log.insert(["2", "b"])
    log.delete("2")
    assert log.apply(mode="changes").inserted == 3
    day = dt.date(2024, 1, 1)
    next_day = dt.date(2024, 1, 2)
    assert log.rows(
        "_commit_lsn", "_change_type", "id", "_loaded", "_unsent", "_commit_date"
    ) == [
        (0x10FF, "insert", 1, True, None, day),
        (0x10FF, "truncate", None, True, None, day),
        (0x1300, "update_postimage", 1, False, ["v"], next_day),
        (0x1400, "truncate", None, False, None, next_day),
        (0x1500, "insert", 2, False, None, next_day),
        (0x1600, "delete", 2, False, None, next_day),
    ]
    log.columns["more"] = "int"
    log.insert(["3", "c", "3"])
    assert log.apply(mode="changes").inserted == 1
    assert log.rows("id", "more")[-1] == (None, None)


def test_erasure_reaches_changes(tmp_path: Path) -> None:
    log = Told(tmp_path, id="int", v="text")
    log.insert(["1", SECRET], ["2", "b"])
    # The row gets the key of a person, and loses it.
    log.move("2", ["3", SECRET])
    log.move("3", ["4", "d"])
    log.delete("1")
    log.apply(mode="changes")
    log.erase(keys=[{"id": 1}, {"id": 3}])
    assert log.apply(mode="changes").erased == 4
    assert log.rows("id", "v", "_change_type") == [
        (2, "b", "insert"),
        (2, None, "update_preimage"),
        (4, "d", "update_postimage"),
    ]
