"""`walrow.delta.apply_changes`: rows, records, refusals, parts and interruptions."""

from __future__ import annotations

import datetime as dt
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

import streams
import walrow
import walrow.delta
from servers.s3 import BUCKET, S3
from targets.written_log import WrittenLog
from walrow._apply.items import Token
from walrow._apply.targets import Conflict
from walrow._apply.units import contents_of
from walrow.delta import snapshots, threads
from walrow.delta.threads import call

UNSENT = streams.UNSENT
SECRET = "4711 is a value"  # noqa: S105 - it must not be in errors


def table_of(log: WrittenLog) -> deltalake.DeltaTable:
    return deltalake.DeltaTable(log.target.partition(":")[2])


def versions(log: WrittenLog) -> int:
    return int(table_of(log).version())


def refused(log: WrittenLog, code: str, *texts: str, **options: Any) -> str:
    """The text of a refusal that changes nothing."""
    before = versions(log)
    with pytest.raises(walrow.errors.ApplyError) as caught:
        log.apply(**options)
    assert caught.value.code == code, caught.value
    for text in texts:
        assert text in str(caught.value)
    assert SECRET not in str(caught.value)
    assert versions(log) == before
    return str(caught.value)


def test_changes_of_every_kind(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", n="int", big="text")
    log.insert(*([str(at), str(at), f"big {at}"] for at in range(1, 7)))
    first = log.apply()
    assert (first.committed, first.overwritten, first.net_rows) == (True, False, 6)
    assert first.engine == "delta"
    log.update(["1", "10", UNSENT], ["2", None, None])
    log.delete("3", "4")
    log.insert(["4", "40", None])
    log.move("5", ["50", "5", UNSENT])
    second = log.apply()
    assert second.start == first.end
    assert (second.inserted, second.updated, second.deleted) == (1, 3, 2)
    assert log.rows() == [
        (1, 10, "big 1"),
        (2, None, None),
        (4, 40, None),
        (50, 5, "big 5"),
        (6, 6, "big 6"),
    ]
    again = log.apply()
    assert not again.committed
    assert again.token == second.token
    log.truncate()
    third = log.apply()
    assert (third.committed, third.overwritten) == (True, True)
    assert log.rows() == []
    log.insert(["1", "1", SECRET])
    log.apply()
    log.delete("1")
    log.insert(["1", "2", None])
    # Nothing is left of it in the target, and its position is there.
    log.insert(["7", None, None])
    log.delete("7")
    assert log.apply().committed
    assert log.rows() == [(1, 2, None)]


def test_an_end_is_an_lsn_or_a_time(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", n="int")
    ends = []
    for second in (1, 2, 3):
        log.time = streams.TIME + second * 1_000_000
        log.insert([str(second), "0"])
        ends.append(walrow.Log(log.path).end)
    first = dt.datetime(2024, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    done = log.apply(end=first)
    place = walrow.Log(log.path)._log.lsn_of(first, "end")
    assert (done.net_rows, done.end) == (1, place)
    assert log.rows() == [(1, 0)]
    # Before the record, there is nothing to do.
    assert not log.apply(end="2023-12-31").committed
    assert log.apply(end="2024-01-01T00:00:02.5Z").net_rows == 1
    assert log.rows() == [(1, 0), (2, 0)]
    done = log.apply(end="-1h")
    assert (done.net_rows, done.end) == (1, ends[-1])
    with pytest.raises(
        walrow.errors.OptionError, match=r"^end must be an LSN, .* or a time"
    ):
        log.apply(end="soon")


def test_a_batch_that_changes_nothing_moves_the_record(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", n="int")
    log.insert(["1", "1"])
    log.apply()
    for key in ("9", "8"):
        if key == "8":
            log.insert([key, "8"])
        log.delete(key)
        before = versions(log)
        done = log.apply()
        assert done.committed
        assert versions(log) == before + 1
        token = Token.from_json(done.token)
        assert token is not None
        assert table_of(log).transaction_version(token.application) == int(done.end)
    assert log.rows() == [(1, 1)]


@pytest.mark.parametrize(
    ("kind", "one", "two"),
    [
        ("int", "1", "2"),
        ("bigint", "-9223372036854775808", "9223372036854775807"),
        ("text", "it's", 'a "b" `c` \\ ${x}'),
        ("text", "", "x" * 2000),
        ("bool", "t", "f"),
        ("float", "NaN", "-0"),
        ("float", "NaN", "1.5"),
        ("real", "0", "NaN"),
        ("bytea", "\\x00ff", "\\x"),
        ("date", "0001-01-01", "9999-12-31"),
        ("timestamp", "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"),
        ("timestamptz", "0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"),
        ("numeric(15,2)", "-9999999999999.99", "0.05"),
        ("numeric(20,2)", "-999999999999999999.99", "123456789012345678.91"),
        (
            "numeric(38,18)",
            "0.123456789012345678",
            "99999999999999999999.999999999999999999",
        ),
    ],
)
def test_keys_of_every_type(tmp_path: Path, kind: str, one: str, two: str) -> None:
    log = WrittenLog(tmp_path, k=kind, v="text")
    for value in (one, two):
        # Each has its own file, with its own statistics.
        log.insert([value, "a"])
        log.apply()
    log.update([one, "b"], [two, UNSENT])
    log.apply()
    assert sorted(log.rows("v")) == [("a",), ("b",)]
    log.update([one, "c"])
    log.delete(two)
    log.apply()
    assert log.rows("v") == [("c",)]
    if kind == "bool":
        return
    log.update([two, UNSENT])
    refused(log, "never_sent", "column v")
    done = log.apply(never_sent="null")
    assert done.never_sent == 1
    assert sorted(log.rows("v"), key=repr) == [("c",), (None,)]


def test_a_key_that_statistics_do_not_have(tmp_path: Path) -> None:
    """deltalake leaves NaN out of the statistics of a file that has other values, too."""
    log = WrittenLog(tmp_path, k="float", v="text")
    log.insert(["NaN", "a"], ["0", "b"], ["1.5", "c"])
    log.apply()
    log.update(["NaN", "d"], ["-0", "e"])
    done = log.apply()
    assert (done.inserted, done.updated) == (0, 2)
    # The server takes -0 for the same key, and has it now.
    assert sorted(str(key) for (key,) in log.rows("k")) == ["-0.0", "1.5", "nan"]
    log.delete("NaN")
    log.apply()
    assert sorted(log.rows("v")) == [("c",), ("e",)]


def test_values_of_every_type_are_kept(tmp_path: Path) -> None:
    values = {
        "bool": ("t", "f"),
        "smallint": ("-32768", "32767"),
        "real": ("NaN", "1.5"),
        "float": ("Infinity", "-0"),
        "numeric(38,0)": ("9" * 38, "-1"),
        "bytea": ("\\x00", "\\x"),
        "date": ("0001-01-01", "9999-12-31"),
        "timestamp": ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999"),
        "timestamptz": ("0001-01-01 00:00:00+00", "9999-12-31 23:59:59.999999+00"),
        "int[]": ("{1,NULL,3}", "{}"),
        "text[]": ('{"a b",NULL,""}', "{}"),
        "json": ('{"a": 1}', "[]"),
        "uuid": ("00000000-0000-0000-0000-000000000001",) * 2,
        "interval": ("1 day", "00:00:01"),
        "time": ("24:00:00", "00:00:00"),
        "numeric": ("NaN", "1.50"),
    }
    names = {f"c{at}": kind for at, kind in enumerate(values)}
    log = WrittenLog(tmp_path, id="int", **names)
    log.insert(
        ["1", *(it[0] for it in values.values())],
        ["2", *(it[1] for it in values.values())],
        ["3", *[None] * len(values)],
    )
    log.apply()
    first = log.rows()
    whole = walrow.Log(log.path).state("public.t", profile="spark").to_pyarrow()
    assert repr(first) == repr([tuple(row.values()) for row in whole.to_pylist()])
    # Kept as they are, also under another key, and in another file.
    log.update(["1", *[UNSENT] * len(values)], ["3", *[UNSENT] * len(values)])
    log.move("2", ["4", *[UNSENT] * len(values)])
    done = log.apply()
    assert (done.inserted, done.updated, done.deleted) == (1, 2, 1)
    kept = {row[0]: row[1:] for row in log.rows()}
    assert repr([kept[1], kept[4], kept[3]]) == repr([row[1:] for row in first])


def test_many_columns_are_kept_by_their_own_bits(tmp_path: Path) -> None:
    names = [f"c{at}" for at in range(150)]
    log = WrittenLog(tmp_path, id="int", **dict.fromkeys(names, "text"))
    log.insert(["1", *names], ["2", *names])
    log.apply()
    cells: list[streams.Cell] = [UNSENT if at % 3 else "new" for at in range(150)]
    log.update(["1", *cells], ["2", *reversed(cells)])
    log.apply()
    wanted = [name if at % 3 else "new" for at, name in enumerate(names)]
    other = [name if (149 - at) % 3 else "new" for at, name in enumerate(names)]
    assert log.rows() == [(1, *wanted), (2, *other)]


def test_names_are_taken_as_they_are(tmp_path: Path) -> None:
    names = [
        "Id",
        'a"b',
        "`tick`",
        "dot.ted",
        "größe",
        "$x",
        "back\\slash",
        "_seq",
        "select",
    ]
    log = WrittenLog(tmp_path, **dict.fromkeys(names, "text"))
    log.insert(names)
    log.apply()
    log.update(["Id", *[UNSENT] * 4, *names[5:8], "new"])
    log.apply()
    assert log.rows() == [(*names[:8], "new")]
    bad = WrittenLog(tmp_path / "bad", **{"id": "int", "a b": "text"})
    bad.insert(["1", "x"])
    with pytest.raises(walrow.errors.SchemaError, match="--engine spark"):
        bad.apply()
    assert not (tmp_path / "bad" / "t").exists()
    # With another name, or in a table that exists, it is right.
    deltalake.DeltaTable.create(
        tmp_path / "bad" / "t", pa.schema([("id", pa.int32()), ("a b", pa.string())])
    )
    bad.apply()
    assert bad.rows() == [(1, "x")]


def test_new_columns_and_types(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", n="int")
    log.insert(["1", "1"])
    log.apply()
    log.columns["more"] = "numeric(30,2)"
    log.insert(["2", "2", "1234567890123456789.01"])
    log.apply()
    assert [str(it) for row in log.rows() for it in row] == [
        *("1", "1", "None", "2", "2", "1234567890123456789.01")
    ]
    assert (
        table_of(log).metadata().configuration["delta.dataSkippingStatsColumns"]
        == "id,n"
    )
    log.columns["n"] = "bigint"
    log.update(["1", "5000000000", UNSENT])
    before = versions(log)
    refused(log, "widening", "column n is int64", "load the table", "widen_types=True")
    log.truncate()
    log.insert(["3", "5000000000", None])
    log.apply()
    assert log.rows() == [(3, 5_000_000_000, None)]
    assert versions(log) == before + 1


def test_soft_deletes(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", v="text")
    log.insert(["1", "a"], ["2", "b"], ["3", "c"])
    log.apply()
    log.delete("1")
    log.apply(deletes="soft")
    assert log.rows() == [(1, "a", True), (2, "b", False), (3, "c", False)]
    log.truncate()
    log.insert(["3", "d"])
    log.apply(deletes="soft")
    assert log.rows() == [(1, "a", True), (2, "b", True), (3, "d", False)]
    log.insert(["4", "e"])
    refused(log, "other_options", deletes="apply")


# ---------------------------------------------------------------- the record


def test_the_record_is_looked_at(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", v="text")
    log.insert(["1", "a"])
    log.apply()
    log.insert(["2", "b"])
    log.apply()
    # It is set back.
    table_of(log).restore(1)
    log.insert(["3", "c"])
    refused(log, "restored")
    foreign = tmp_path / "foreign"
    deltalake.write_deltalake(
        foreign, pa.table({"id": pa.array([1], pa.int32()), "v": ["x"]})
    )
    log.target = f"delta:{foreign}"
    text = refused(log, "no_token")
    assert "resume_from" in text
    done = log.apply(resume_from=log.lsn)
    assert done.committed


def test_a_version_is_not_committed_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """deltalake would: from a new object, too, and set it back."""
    log = WrittenLog(tmp_path, id="int", n="int")
    log.insert(["1", "1"])
    log.apply()
    log.update(["1", "2"])
    merge = snapshots.Snapshot.merge
    calls = []

    def late(self: Any, *args: Any, **options: Any) -> Any:
        calls.append(self.version)
        if len(calls) == 1:
            # Another driver is first.
            log.apply()
        return merge(self, *args, **options)

    monkeypatch.setattr(snapshots.Snapshot, "merge", late)
    done = log.apply()
    assert not done.committed
    assert len(calls) == 2
    assert versions(log) == 2
    assert log.rows() == [(1, 2)]


def test_an_answer_that_was_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WrittenLog(tmp_path, id="int", n="int")
    log.insert(["1", "1"])
    log.apply()
    log.update(["1", "2"])
    merge = snapshots.Snapshot.merge

    def lost(self: Any, *args: Any, **options: Any) -> Any:
        merge(self, *args, **options)
        raise Conflict

    monkeypatch.setattr(snapshots.Snapshot, "merge", lost)
    done = log.apply()
    assert done.committed
    assert versions(log) == 2


def test_others_are_always_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WrittenLog(tmp_path, id="int", n="int")
    log.insert(["1", "1"])
    log.apply()
    merge = snapshots.Snapshot.merge

    def late(self: Any, *args: Any, **options: Any) -> Any:
        rows = pa.table(
            {"id": pa.array([1], pa.int32()), "n": pa.array([7], pa.int32())}
        )
        theirs = table_of(log).merge(
            rows, "t.id = s.id", source_alias="s", target_alias="t"
        )
        theirs.when_matched_update_all().when_not_matched_insert_all().execute()
        return merge(self, *args, **options)

    monkeypatch.setattr(snapshots.Snapshot, "merge", late)
    log.update(["1", "2"])
    with pytest.raises(walrow.errors.ApplyError) as caught:
        log.apply()
    assert caught.value.code == "conflict"
    monkeypatch.undo()
    log.apply()
    assert log.rows() == [(1, 2)]


def test_a_load_replaces_rows_that_others_append_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WrittenLog(tmp_path, id="int", n="int")
    log.insert(["1", "1"])
    log.apply()
    log.truncate()
    log.insert(["2", "2"])
    write = snapshots.Snapshot.write
    calls: list[int] = []

    def late(self: Any, *args: Any, **options: Any) -> Any:
        if not calls:
            rows = pa.table(
                {"id": pa.array([7], pa.int32()), "n": pa.array([7], pa.int32())}
            )
            deltalake.write_deltalake(table_of(log), rows, mode="append")
        calls.append(1)
        return write(self, *args, **options)

    monkeypatch.setattr(snapshots.Snapshot, "write", late)
    log.apply()
    assert log.rows() == [(2, 2)]


def test_many_drivers_make_one_table(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", n="int")
    log.insert(*([str(at), "1"] for at in range(50)))
    code = (
        "import sys, walrow.delta\n"
        "sys.stdin.readline()\n"
        f"walrow.delta.apply_changes({str(log.path)!r}, table='public.t', target={log.target!r})"
    )
    drivers = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, text=True)  # noqa: S603
        for _ in range(4)
    ]
    time.sleep(1)
    for driver in drivers:
        assert driver.stdin is not None
        driver.stdin.write("\n")
        driver.stdin.close()
    assert [driver.wait(60) for driver in drivers] == [0] * 4
    assert len(log.rows()) == 50


def test_kills_change_nothing(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", n="int")
    log.insert(*([str(at), "0"] for at in range(20_000)))
    log.apply()
    code = (
        "import walrow.delta\nprint('ready', flush=True)\n"
        f"walrow.delta.apply_changes({str(log.path)!r}, table='public.t', target={log.target!r})"
    )
    for number in range(1, 9):
        log.update(*([str(at), str(number)] for at in range(number, 20_000, 7)))
        log.delete(str(number))
        driver = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", code], stdout=subprocess.PIPE
        )
        assert driver.stdout is not None
        driver.stdout.readline()
        time.sleep(number * 0.03)
        driver.kill()
        driver.wait()
        driver.stdout.close()
        log.apply()
        rows = dict(log.rows())
        assert len(rows) == 20_000 - number
        assert all(rows[at] == number for at in range(number + 7, 20_000, 7))


@pytest.mark.parametrize("given", [{"max_retries": 1}, [("AWS_REGION", "eu")]])
def test_options_of_a_store_are_texts(tmp_path: Path, given: Any) -> None:
    log = WrittenLog(tmp_path, id="int")
    log.insert(["1"])
    with pytest.raises(walrow.errors.OptionError, match="all of them texts"):
        log.apply(storage_options=given)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("mode", ["current", "history", "changes"])
def test_another_driver_has_seen_more_of_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    log = WrittenLog(tmp_path, id="int")
    log.insert(["1"])
    shutil.copytree(log.path, tmp_path / "old")

    def overtaken(path: Any) -> Any:
        found = contents_of(path)
        monkeypatch.undo()
        log.insert(["2"])
        assert log.apply(mode=mode).committed
        return found

    monkeypatch.setattr("walrow.delta.modes.contents_of", overtaken)
    done = log.apply(mode=mode)
    assert (done.committed, done.end) == (False, walrow.Log(log.path).end)
    # An older copy of the log lacks what the target has.
    log.path = tmp_path / "old"
    with pytest.raises(walrow.errors.ApplyError) as caught:
        log.apply(mode=mode)
    assert caught.value.code == "older_log"


# ---------------------------------------------------------------- the guards


@pytest.mark.parametrize("kind", ["numeric(20,2)", "timestamptz", "bytea", "float"])
def test_partitions_that_would_not_come_back(tmp_path: Path, kind: str) -> None:
    log = WrittenLog(tmp_path, id="int", p=kind)
    value = {"timestamptz": "2024-01-01 00:00:00+00", "bytea": "\\x6162"}.get(
        kind, "-1.5"
    )
    log.insert(["1", value])
    with pytest.raises(
        walrow.errors.ApplyError, match="partitioned by column p"
    ) as caught:
        log.apply(partition_by=["p"])
    assert caught.value.code == "engine"
    assert "--engine spark" in str(caught.value)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("names", "what"), [(["p", "P"], "twice"), (["p", "id"], "all columns")]
)
def test_partitions_that_deltalake_does_not_make(
    tmp_path: Path, names: list[str], what: str
) -> None:
    log = WrittenLog(tmp_path, id="int", p="text")
    log.insert(["1", "a"])
    with pytest.raises(walrow.errors.OptionError, match=what):
        log.apply(partition_by=names)
    assert not (tmp_path / "t").exists()


def test_partitions(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", p="text", d="date")
    log.insert(["1", "a b%/#?+ü", "2024-01-01"], ["2", None, None])
    log.apply(partition_by=["P", "d"])
    log.update(["1", "c", UNSENT], ["2", UNSENT, "2024-01-02"])
    log.apply()
    assert [row[:2] for row in log.rows()] == [(1, "c"), (2, None)]
    for lost in ("", "__HIVE_DEFAULT_PARTITION__"):
        log.insert(["3", lost, None])
        refused(log, "partition", "column p")
        log.delete("3")
        log.apply()
    new = WrittenLog(tmp_path / "new", id="int", p="text")
    new.insert(["1", ""])
    with pytest.raises(walrow.errors.ApplyError):
        new.apply(partition_by=["p"])
    assert not (tmp_path / "new" / "t").exists()


def test_tables_with_features(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", v="text")
    log.insert(["1", SECRET])
    log.apply()
    table_of(log).alter.add_constraint({"short": "id < 10"})
    log.insert(["11", SECRET])
    text = refused(log, "constraint", "short")
    assert re.search(r"\b11\b", text) is None
    log.delete("11")
    log.apply()
    table_of(log).alter.set_table_properties({"delta.appendOnly": "true"})
    log.insert(["2", "x"])
    refused(log, "engine", "appendOnly")
    table_of(log).alter.set_table_properties({"delta.appendOnly": "false"})
    feature = tmp_path / "t" / "_delta_log" / f"{versions(log) + 1:020}.json"
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    for name in ("typeWidening", "rowTracking", "clustering", "somethingNew"):
        known = [name] if name == "typeWidening" else []
        features = {"readerFeatures": known, "writerFeatures": [name]}
        feature.write_text(json.dumps({"protocol": protocol | features}) + "\n")
        refused(log, "engine", name, "--engine spark")


def test_errors_of_rows_have_no_values(tmp_path: Path) -> None:
    schema = pa.schema(
        [
            ("id", pa.int32()),
            pa.field("v", pa.string(), nullable=False),
            ("w", pa.string()),
        ]
    )
    deltalake.DeltaTable.create(tmp_path / "t", schema)
    log = WrittenLog(tmp_path, id="int", v="text", w="text")
    log.insert(["1", None, SECRET])
    with pytest.raises(walrow.errors.ApplyError) as caught:
        log.apply()
    assert caught.value.code == "constraint"
    assert "v NOT NULL" in str(caught.value)
    assert caught.value.__cause__ is None
    assert SECRET not in str(caught.value)


def test_types_must_be_equal(tmp_path: Path) -> None:
    """deltalake rounds in silence, and ignores columns that it does not know."""
    for number, kind in enumerate(
        (pa.float32(), pa.string(), pa.decimal128(10, 1), pa.int16())
    ):
        folder = tmp_path / str(number)
        deltalake.DeltaTable.create(
            folder / "t", pa.schema([("id", pa.int32()), ("n", kind)])
        )
        log = WrittenLog(folder, id="int", n="numeric(10,2)")
        log.insert(["1", "1.25"])
        refusals = (walrow.errors.SchemaError, walrow.errors.ApplyError)
        with pytest.raises(refusals, match="column n"):
            log.apply()
        assert versions(log) == 0
    # A type that fits is converted.
    folder = tmp_path / "wide"
    kinds = [("ID", pa.int64()), ("n", pa.decimal128(20, 4))]
    deltalake.DeltaTable.create(folder / "t", pa.schema(kinds))
    log = WrittenLog(folder, id="int", n="numeric(10,2)")
    log.insert(["1", "1.25"], ["2", None])
    log.apply()
    log.update(["1", UNSENT])
    log.move("1", ["3", UNSENT])
    log.apply()
    assert [str(row[1]) for row in log.rows()] == ["None", "1.2500"]


def test_a_path_that_means_another_directory(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int")
    log.insert(["1"])
    before = sorted(tmp_path.rglob("*"))
    # deltalake would use another directory, or not find its history.
    names = ["%2e%2e", "a%2Fb", "a#b", "a?b", "a\nb", "[x]", "a\\b", "x" * 256]
    urls = [*names, "trail ", "..", "."]
    for around, name in (
        *(("delta:", it) for it in names),
        *((it, name) for it in ("delta:file://", "delta:file:") for name in urls),
    ):
        with pytest.raises(walrow.errors.OptionError, match="choose a"):
            log.apply(target=f"{around}{tmp_path}/lake/{name}")
    assert sorted(tmp_path.rglob("*")) == before
    # Others are where they seem to be, and are found again with their record.
    for name in ("100%", "a+b c"):
        for around in ("delta:", "delta:file://"):
            lake = tmp_path / f"lake-{len(around)}"
            log.apply(target=f"{around}{lake}/{name}")
            log.apply(target=f"{around}{lake}/{name}")
            assert (lake / name / "_delta_log").is_dir()


def test_targets_that_only_spark_has(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int")
    log.insert(["1"])
    for target in ("iceberg:a.b", "delta:a.b.c", "delta:t", "x"):
        with pytest.raises(walrow.errors.OptionError, match="--engine spark"):
            log.apply(target=target)


def test_locks_in_dynamodb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = WrittenLog(tmp_path, id="int")
    log.insert(["1"])
    target = "delta:s3://bucket/t"
    for options in (
        {"AWS_S3_LOCKING_PROVIDER": "dynamodb"},
        {"aws_s3_locking_provider": "DynamoDB"},
        {"AWS_S3_ALLOW_UNSAFE_RENAME": "true"},
    ):
        with pytest.raises(walrow.errors.ApplyError) as caught:
            log.apply(target=target, storage_options=options)
        assert caught.value.code == "engine"
    monkeypatch.setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
    with pytest.raises(walrow.errors.ApplyError, match="DynamoDB"):
        log.apply(target=target)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int")
    log.insert(["1"])
    log.apply()
    reader, writer = multiprocessing.get_context("fork").Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=_forked, args=(log, writer)
    )
    process.start()
    assert "spawn" in reader.recv()
    process.join()


def _forked(log: WrittenLog, writer: Any) -> None:
    try:
        log.apply()
    except walrow.errors.OptionError as error:
        writer.send(str(error))


# ----------------------------------------------------------- parts, interruptions


def test_a_large_batch_is_divided_at_transactions(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", v="text")
    log.insert(["0", "x"])
    log.apply()
    for number in range(1, 7):
        big = [[str(number * 1000 + at), "y" * 10_000] for at in range(300)]
        log.append(*(streams.insert(row) for row in big))
    log.publish()
    before = versions(log)
    done = log.apply(memory="64MiB")
    assert done.committed
    assert done.net_rows == done.inserted == 1800
    assert versions(log) > before + 1
    assert len(log.rows("id")) == 1801
    assert not log.apply().committed
    # A transaction that cannot be divided.
    log.take(*(streams.insert([str(at), "z" * 10_000]) for at in range(50_000, 51_500)))
    refused(log, "too_large", "--engine spark", memory="64MiB")
    assert log.apply().inserted == 1500


def test_progress(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", v="text")
    said: list[int] = []
    log.insert(*([str(at), "x"] for at in range(50_000)))
    log.apply(progress=said.append)
    assert said == sorted(said)
    assert (len(said) > 1, said[-1]) == (True, 50_000)
    said.clear()
    # It replaces all rows, and is read as it is written.
    log.truncate()
    log.insert(*([str(at), "x"] for at in range(40_000)))
    log.apply(progress=said.append)
    assert (len(said) > 1, said[-1]) == (True, 40_000)


def test_an_interrupted_call_and_the_next_one(tmp_path: Path) -> None:
    """The MERGE that was left behind commits, and the next call waits for it."""
    log = WrittenLog(tmp_path, id="int", n="int")
    log.insert(["1", "1"])
    log.apply()
    log.insert(["2", "2"])
    code = (
        "import sys, time, deltalake.table, walrow.delta\n"
        "merge = deltalake.table.TableMerger.execute\n"
        "def slow(self):\n"
        "    print('merging', flush=True)\n"
        "    time.sleep(5)\n"
        "    return merge(self)\n"
        "deltalake.table.TableMerger.execute = slow\n"
        "given = {'table': 'public.t', 'target': sys.argv[2]}\n"
        "try:\n"
        "    walrow.delta.apply_changes(sys.argv[1], **given)\n"
        "except KeyboardInterrupt as error:\n"
        "    print('interrupted', *error.__notes__, flush=True)\n"
        "print(walrow.delta.apply_changes(sys.argv[1], **given).committed, flush=True)\n"
    )
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code, str(log.path), log.target],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "merging\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    said = process.stdout.readline()
    took = time.monotonic() - began
    out, _ = process.communicate(timeout=20)
    # A second, and more on a busy machine. The MERGE takes five.
    assert took < 3
    assert said.startswith("interrupted")
    assert "may yet have been made" in said
    assert (out, process.returncode) == ("False\n", 0)
    assert versions(log) == 2
    assert log.rows() == [(1, 1), (2, 2)]


def test_an_interrupted_load_is_not_written(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", v="text")
    log.insert(["0", "before"])
    log.apply()
    log.truncate()
    log.insert(*([str(at), "x" * 100] for at in range(60_000)))
    before = versions(log)
    began: list[float] = []

    def stop(_rows: int) -> None:
        if not began:
            began.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
            # Long enough for the signal to be seen.
            time.sleep(0.5)

    with pytest.raises(KeyboardInterrupt):
        log.apply(progress=stop)
    assert time.monotonic() - began[0] < 4
    # The next call waits until the load has ended.
    call(log.target, lambda _: None)
    assert versions(log) == before
    log.apply()
    assert len(log.rows("id")) == 60_000


def test_ctrl_c_comes_within_a_second() -> None:
    code = (
        "import threading, time, sys\n"
        "from walrow.delta.threads import call\n"
        "def slow(stopped):\n"
        "    time.sleep(3)\n"
        "    return 'first'\n"
        "began = time.monotonic()\n"
        "try:\n"
        "    print('ready', flush=True)\n"
        "    call('delta:/t', slow, commits=True)\n"
        "except KeyboardInterrupt as error:\n"
        "    print(time.monotonic() - began < 2, error.__notes__)\n"
        "print(call('delta:/t', lambda _: time.monotonic() - began > 2.9))\n"
    )
    process = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=20)
    first, second = out.splitlines()
    assert first.startswith("True")
    assert "may yet have been made" in first
    assert second == "True"


def test_an_interruption_before_the_call_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The thread may not have begun when the signal comes, and must not begin then."""
    begun: list[str] = []
    tasks: list[Callable[[], Any]] = []

    def interrupted(_name: str, task: Callable[[], Any]) -> Any:
        tasks.append(task)
        raise KeyboardInterrupt

    monkeypatch.setattr(threads, "in_background", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        call("delta:/t", lambda _: begun.append("x"), commits=True)
    assert "may yet have been made" in caught.value.__notes__[0]
    with pytest.raises(threads.Stopped):
        tasks[0]()
    assert begun == []
    monkeypatch.undo()
    assert call("delta:/t", lambda _: 7) == 7


def test_errors_of_a_call_are_its_own() -> None:
    def fails(_: Any) -> None:
        raise ValueError(SECRET)

    with pytest.raises(ValueError, match=SECRET):
        call("delta:/x", fails)


def test_an_object_store(s3: S3, tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, id="int", at="timestamptz")
    log.insert(["1", "9999-12-31 00:00:00+00"], ["2", None])
    code = (
        "import sys, walrow.delta\n"
        "log, target = sys.argv[1:]\n"
        "done = walrow.delta.apply_changes(log, table='public.t', target=target,\n"
        "    storage_options={'AWS_ALLOW_HTTP': 'true', 'AWS_REGION': 'us-east-1'})\n"
        "print(done.inserted, done.deleted)\n"
    )

    def apply() -> str:
        # The store is a thread here, and deltalake lets no other run while it reads a history.
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", code, str(log.path), f"delta:s3://{BUCKET}/t/t"],
            capture_output=True,
            check=False,
            env=os.environ | s3.environment,
            text=True,
            timeout=50,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert apply() == "2 0\n"
    log.delete("2")
    assert apply() == "0 1\n"
    commits = s3.files.ls(f"{BUCKET}/t/t/_delta_log")
    assert sum(it.endswith(".json") for it in commits) == 3


@pytest.mark.parametrize("mode", ["current", "history"])
def test_a_key_of_many_columns_keeps_large_values(tmp_path: Path, mode: str) -> None:
    """The numbers of distinct values, multiplied, would exceed every integer."""
    log = WrittenLog(tmp_path, **{f"k{at}": "int" for at in range(8)}, big="text")
    log.key_columns = 8
    keys = [[str(row + 1000 * at) for at in range(8)] for row in range(300)]
    log.insert(*([*key, key[0]] for key in keys))
    log.apply(mode=mode)
    moved = [[*key[:7], f"-{key[7]}"] for key in keys]
    rows = zip(keys, moved, strict=True)
    log.take(
        *(streams.update([*new, UNSENT], key=[*old, None]) for old, new in rows),
        streams.insert([*keys[1], "other"]),
    )
    log.apply(mode=mode)
    found = log.rows("k7", "big") if mode == "current" else current(log, "k7", "big")
    wanted = [(int(new[7]), new[0]) for new in moved] + [(int(keys[1][7]), "other")]
    assert sorted(found) == sorted(wanted)


def current(log: WrittenLog, *columns: str) -> list[tuple[Any, ...]]:
    """The open versions of a history."""
    found = log.rows(*columns, "_is_current")
    return [row[:-1] for row in found if row[-1]]


MODES = ("current", "history", "changes")


@pytest.mark.parametrize("loads", [False, True], ids=["changes", "load"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("constraint", ["v NOT NULL", "small (id < 2)"])
def test_constraints_are_named(
    tmp_path: Path,
    constraint: str,
    mode: str,
    loads: bool,  # noqa: FBT001 - a parameter
) -> None:
    log = WrittenLog(tmp_path, id="int", v="text", big="text")
    own = [("id", pa.int32(), True), ("v", pa.string(), constraint != "v NOT NULL")]
    schema = pa.schema([pa.field(*it) for it in (*own, ("big", pa.string(), True))])
    place = tmp_path / "t"
    table = deltalake.DeltaTable.create(place, schema)
    if constraint.startswith("small"):
        table.alter.add_constraint({"small": "id < 2"})
    if loads:
        log.load(["1", "a", SECRET], ["2", "\\N", SECRET])
    else:
        log.insert(["1", "a", SECRET], ["2", None, SECRET])
    with pytest.raises(walrow.errors.ApplyError) as caught:
        log.apply(mode=mode)
    error = caught.value
    assert error.code == "constraint"
    assert f"a constraint of the target, {constraint}: " in str(error)
    assert error.column in (None, "v")
    assert SECRET not in str(error)
    assert not pa.table(deltalake.DeltaTable(place).scan()).num_rows


@pytest.mark.parametrize("loads", [False, True], ids=["changes", "load"])
@pytest.mark.parametrize("mode", MODES)
def test_a_disk_without_room(
    tmp_path: Path,
    mode: str,
    loads: bool,  # noqa: FBT001 - a parameter
    capfd: pytest.CaptureFixture[str],
) -> None:
    log = WrittenLog(tmp_path, id="int", v="text")
    rows = [[str(row), str(row * 0x9E3779B97F4A7C15)] for row in range(20_000)]
    log.load(*rows) if loads else log.insert(*rows)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(walrow.Error, match="file would be larger"):
            log.apply(mode=mode)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    os.write(2, b"others still print\n")
    printed = capfd.readouterr().err
    assert printed == "others still print\n"
    assert log.apply(mode=mode).net_rows == 20_000 + (loads and mode == "changes")


@pytest.mark.parametrize("loads", [False, True], ids=["changes", "load"])
@pytest.mark.parametrize("mode", MODES)
def test_partitions_with_long_names(
    tmp_path: Path,
    mode: str,
    loads: bool,  # noqa: FBT001 - a parameter
) -> None:
    log = WrittenLog(tmp_path, id="int", v="text")
    take = log.load if loads else log.insert
    # In paths, `/` and bytes beyond ASCII become three bytes each.
    take(["1", "x" * 253], ["2", "/" * 84], ["3", "é" * 42])
    log.apply(mode=mode, partition_by=["v"])
    for number, long in enumerate(("x" * 254, "/" * 85, "€" * 29), start=4):
        before = versions(log)
        take([str(number), long])
        for target in (log.target, f"delta:{tmp_path}/new"):
            with pytest.raises(walrow.errors.ApplyError) as caught:
                log.apply(mode=mode, target=target, partition_by=["v"])
            error = caught.value
            assert (error.code, error.column) == ("partition", "v")
            assert long not in str(error)
        assert versions(log) == before
        # A history has a commit for each load, and takes the first one.
        assert not (tmp_path / "new").exists() or (mode == "history" and loads)
