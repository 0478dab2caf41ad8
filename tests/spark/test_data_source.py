"""The data source `walrow` as a batch."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession

import streams
import type_cases
import walrow
import walrow.spark
from logs import Publisher, published, sealed, transaction, transactions
from spark.sources import (
    batch_reader,
    expected,
    loaded,
    rows,
    source,
    taken,
)
from walrow.spark.data_source import WalrowDataSource
from walrow.spark.log_plan import LogPlan
from walrow.spark.source_options import SourceOptions

pytestmark = [pytest.mark.spark, pytest.mark.timeout(120)]


@pytest.mark.parametrize(
    ("name", "table"),
    [
        ("rows", "public.item"),
        ("alter-columns", "public.shape"),
        ("update-toast", "public.paper"),
        ("truncate", "walrow.truncates"),
        ("messages", "walrow.messages"),
        ("two-phase", "walrow.transactions"),
        ("alter-columns", "walrow.relations"),
        ("rows", None),
    ],
)
@pytest.mark.parametrize("segment_size", [1, 1 << 20])
def test_partitions_together_have_the_rows_of_read(
    data: Path, tmp_path: Path, name: str, table: str | None, segment_size: int
) -> None:
    log = sealed(
        tmp_path / "log", data / f"{name}.text.wire", segment_size=segment_size
    )
    envelope: dict[str, Any] = {} if table else {"envelope": True}
    reader = batch_reader(log, table, partitionBytes=1, **envelope)
    wanted = expected(log, table, **envelope)
    assert wanted
    assert taken(reader) == wanted
    if segment_size == 1 and table not in {"walrow.relations", "walrow.truncates"}:
        assert len(reader.partitions()) > 1


def test_spark_finds_the_source_and_reads_a_log(
    spark: SparkSession, data: Path, tmp_path: Path
) -> None:
    log = sealed(tmp_path / "log", data / "alter-columns.text.wire")
    frame = loaded(spark, log, "public.shape", partitionBytes=1)
    assert rows(frame) == expected(log, "public.shape")
    assert frame.schema == type(frame.schema)(
        [
            type(field)(field.name, field.dataType, field.nullable)
            for field in walrow.spark.schema(log, "public.shape").fields
        ]
    )
    # The first version lacks d, the last one a; and b became a text.
    first, *_, last = frame.orderBy("_commit_lsn", "_seq").collect()
    assert (first._unsent, first.b) == (["d"], "10")
    assert last._unsent == ["a"]


def test_side_tables_and_envelopes_reach_spark(
    spark: SparkSession, data: Path, tmp_path: Path
) -> None:
    log = sealed(tmp_path / "log", data / "origin-none.text.wire")
    frame = loaded(
        spark,
        log,
        '["walrow", "relations"]',
        "columns array<struct<name string, type_oid bigint, type_modifier int, type_name string, key boolean>>, table_name string",
    )
    wanted = expected(log, "walrow.relations")
    assert [row.asDict(recursive=True) for row in frame.collect()] == [
        {name: row[name] for name in ("columns", "table_name")} for row in wanted
    ]
    found = loaded(spark, log, envelope="TRUE", tables=log.tables()[0].name).toArrow()
    assert found.to_pylist() == expected(
        log, envelope=True, tables=[log.tables()[0].name]
    )


def dated(directory: Path, *values: str | None) -> walrow.Log:
    """A log with an integer and a date."""
    columns = [streams.Column("id", 23, is_key=True), streams.Column("day", 1082)]
    rows = [[str(number), value] for number, value in enumerate(values)]
    return sealed(directory, [streams.SESSION + streams.wire(columns, rows)])


def test_only_the_columns_of_the_schema_are_decoded(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = dated(tmp_path / "log", "2024-02-29", "infinity")
    # Nobody reads the value that no date holds.
    frame = loaded(spark, log, "public.t", "_seq bigint, ID int".replace("ID", "id"))
    assert [tuple(row) for row in frame.collect()] == [(0, 0), (1, 1)]
    found = rows(loaded(spark, log, "public.t", columns="id", metadata="seq"))
    assert found == [{"id": 0, "_seq": 0}, {"id": 1, "_seq": 1}]
    # As it is written below.
    hint = r"""\.option\("unrepresentable", '\{"public\.t\.day": "null"\}'\)"""
    with pytest.raises(PythonException, match=rf"public\.t\.day: .* {hint}") as raised:
        loaded(spark, log, "public.t").collect()
    assert "UnrepresentableError" in str(raised.value)
    frame = loaded(spark, log, "t", unrepresentable='{"day": "null"}')
    assert [row.day for row in frame.collect()] == [dt.date(2024, 2, 29), None]


def test_types_are_chosen_with_json(spark: SparkSession, tmp_path: Path) -> None:
    log = dated(tmp_path / "log", "infinity", None)
    frame = loaded(spark, log, "t", types='{"date": "string"}', metadata="[]")
    assert rows(frame) == [{"id": 0, "day": "infinity"}, {"id": 1, "day": None}]
    # The type of a column that is not read may be chosen, too.
    frame = loaded(spark, log, "t", "id int", types='{"day": "string"}')
    assert [row.id for row in frame.collect()] == [0, 1]


def test_remedies_are_options_of_the_query(tmp_path: Path) -> None:
    reader = batch_reader(dated(tmp_path / "dates", "infinity"), "t")
    with pytest.raises(walrow.errors.UnrepresentableError) as raised:
        taken(reader)
    advice = (
        """let it through by .option("unrepresentable", '{"public.t.day": "null"}')"""
    )
    assert advice in str(raised.value)
    columns = [streams.Column("id", 23, is_key=True), streams.Column("_seq", 23)]
    wire = streams.SESSION + streams.wire(columns, [["1", "2"]])
    log = sealed(tmp_path / "log", [wire])
    with pytest.raises(
        walrow.errors.SchemaError, match="another option metadata_prefix"
    ):
        source(log, "t").schema()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("id bigint", "column id is int in the log, but bigint in the schema"),
        (
            "id int not null",
            "column id may be null, but the schema declares it NOT NULL",
        ),
        ("nothing int", "has a column nothing, but the log only id, day, _change_type"),
        ("ID int", "has a column ID, but the log only id, day"),
        ("day timestamp", "option types, such as"),
        (
            "_commit_timestamp timestamp_ntz",
            "is timestamp in the log, but timestamp_ntz",
        ),
    ],
)
def test_a_schema_that_is_not_the_logs_is_refused_on_the_driver(
    spark: SparkSession, tmp_path: Path, schema: str, words: str
) -> None:
    log = dated(tmp_path / "log", "2024-02-29")
    with pytest.raises(AnalysisException) as raised:
        loaded(spark, log, "public.t", schema).collect()
    assert "SchemaError" in str(raised.value)
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"tabel": "t"},
            "tabel is not an option .* only batch_bytes, .*, table, tables",
        ),
        ({"start": "yesterday"}, "start must be an LSN, .* or a time"),
        ({"end": "2024-13-01T00:00:00"}, "end must be an LSN"),
        ({"types": '["a"]'}, "types must be a JSON object"),
        ({"types": '{"a": 1}'}, "types must be a JSON object whose values are texts"),
        ({"columns": '{"a": 1}'}, "there is no column|columns"),
        ({"envelope": "yes"}, "envelope must be true or false"),
        ({"partitionBytes": "-1"}, "partitionBytes must be a size"),
        ({"max_rows_per_trigger": "0"}, "maxRowsPerTrigger must be a positive number"),
        ({"batch_rows": "1", "batchRows": "2"}, "batch_rows is given twice"),
        ({"catalog": "/no/catalog"}, "catalog: the file cannot be read"),
        ({"paths": '["a", "b"]'}, "one log"),
        ({"path": "dbfs:/logs/shop"}, "dbfs:/, which only Spark knows"),
        ({"path": "x3://me:secret@bucket/log"}, "x3://bucket/log"),
        ({"storage_options": "{}"}, "storage_options are those of a URL"),
        ({"storage_options": "[]"}, "storage_options must be a JSON object"),
        (
            {"path": "dbname=shop host=db password=secret"},
            "path is a connection string",
        ),
        (
            {"envelope": "true", "tables": "t, walrow.messages"},
            "read a side table by itself",
        ),
        ({"unrepresentable": "ignore"}, "unrepresentable"),
        ({"table": '["a"]'}, "a pair"),
    ],
)
def test_options_are_refused_by_name(
    tmp_path: Path, options: dict[str, str], words: str
) -> None:
    log = dated(tmp_path / "log", "2024-02-29")
    with pytest.raises(
        (walrow.errors.OptionError, walrow.errors.SchemaError), match=words
    ) as raised:
        WalrowDataSource({"path": str(log.path), "table": "t", **options}).schema()
    assert "secret" not in str(raised.value)


def test_what_is_not_a_log_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(
            walrow.errors.LogError, match=r"there is no log|cannot be opened"
        ):
            source(path, "t").schema()
    log = dated(tmp_path / "log", "2024-02-29")
    with pytest.raises(walrow.errors.SchemaError, match="no table other") as raised:
        source(log, "other").schema()
    assert "missing_table" not in str(raised.value)


def test_tasks_may_have_another_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(tmp_path / "log", transactions(1))
    monkeypatch.chdir(tmp_path)
    reader = batch_reader("log", "t")
    monkeypatch.chdir("/")
    assert len(taken(reader)) == 3


def test_options_may_be_written_as_spark_does(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(3))
    uri = f"file:{log.path}"
    for options in ({"metadataPrefix": "pg_"}, {"metadata_prefix": "pg_"}):
        reader = source(uri, "t", METADATA="seq, xid", **options)
        assert reader.schema().names == ["id", "v", "pg_seq", "pg_xid"]
    assert source(uri, str(streams.TABLE)).schema().names[:2] == ["id", "v"]


def test_start_and_end_are_those_of_read(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(6))
    # In a segment, too.
    log.compact()
    for start, end in ((None, 0x3000), ("0/2000", None), ("0/1FFF", "0/4001")):
        found = {"start": start, "end": end}
        found = {name: value for name, value in found.items() if value is not None}
        wanted = expected(log, "t", **found)
        assert 0 < len(wanted) < 18
        assert taken(batch_reader(log, "t", **found)) == wanted
    assert taken(batch_reader(log, "t", start="0/6000")) == []
    assert taken(batch_reader(log, "t", end="0/FFF")) == []


def test_a_time_is_the_same_place_as_in_the_log(tmp_path: Path) -> None:
    begin = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    # Seconds, and the end of the transactions before the first later one.
    places = [
        *((-1, 0), (0, 0x1000), (5, 0x1000), (10, 0x2000), (19, 0x2000)),
        *((20, 0x2000), (30, 0x4000), (39, 0x4000), (40, 0x5000), (100, 0x5000)),
    ]
    log = published(
        tmp_path / "log",
        [
            transaction(0x1000 * number, (str(number), "x"), time=seconds)
            for number, seconds in enumerate([0, 10, 30, 20, 40], 1)
        ],
    )
    for change in (lambda: 0, lambda: log.prune(0x1000), log.compact):
        change()
        plan = LogPlan(SourceOptions.of({"path": str(log.path), "table": "t"}))
        for seconds, place in places:
            time = begin + dt.timedelta(seconds=seconds)
            # The beginning of a pruned log is as early as it gets.
            wanted = max(place, log.start)
            assert plan.resolve(time) == plan.resolve(time) == wanted
            assert walrow.Log(log.path)._log.lsn_of(time, "end") == wanted
            net = walrow.Log(log.path).net("t", start=log.start, end=time)
            assert net.end == wanted


def test_segments_are_packed_by_bytes(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(12))
    size = max(segment.stream_bytes for segment in log.segments())

    def ends(**options: Any) -> list[int]:
        reader = batch_reader(log, "t", **options)
        assert len(taken(reader)) == 36
        return [partition.value[1] >> 12 for partition in reader.partitions()]

    assert ends() == [12]
    assert ends(partitionBytes=1) == [*range(1, 13)]
    assert ends(partitionBytes=4 * size) == [4, 8, 12]
    # As near as can be.
    assert ends(partitionBytes=4 * size + size // 4) == [4, 8, 12]
    assert ends(partitionBytes=3 * size + size * 3 // 4) == [4, 8, 12]
    log.compact(segment_size=6 * size)
    assert ends(partitionBytes="1k") == [6, 11, 12]


def test_segments_without_the_table_fill_no_partition(tmp_path: Path) -> None:
    others = [
        transaction(0x1000 * n, ("1", "x"), oid=streams.TABLE + 1) for n in range(2, 9)
    ]
    log = published(
        tmp_path / "log",
        [transaction(0x1000, ("1", "x")), *others, transaction(0x9000, ("2", "x"))],
    )
    reader = batch_reader(log, "t", partitionBytes=1)
    assert [row["id"] for row in taken(reader)] == [1, 2]
    assert len(reader.partitions()) == 2
    # Spark's partitions for nothing.
    empty = batch_reader(log, "t", start="0/2000", end="0/8000")
    assert empty.partitions() == []
    assert list(empty.read(None)) == []


def test_the_parts_of_a_large_transaction_are_one_partition(tmp_path: Path) -> None:
    large = transaction(0x2000, *((str(n), "x" * 500) for n in range(2000)))
    around = [transaction(end, ("0", "x")) for end in (0x1000, 0x3000)]
    log = sealed(
        tmp_path / "log",
        [streams.SESSION, around[0], large, around[1]],
        segment_size=1 << 16,
    )
    assert sum(segment.continues for segment in log.segments()) > 5
    reader = batch_reader(log, "t", partitionBytes=1)
    assert [it.value[1] for it in reader.partitions()] == [0x1000, 0x2000, 0x3000]
    found = taken(reader)
    assert found == expected(log, "t")
    assert [row["_seq"] for row in found[1:-1]] == [*range(2000)]


def test_a_planned_read_survives_compaction(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(6))
    reader = batch_reader(log, "t", partitionBytes=1)
    wanted = expected(log, "t")
    assert log.compact().segments > 1
    assert taken(reader) == wanted


def test_a_segment_that_was_removed_after_planning_is_an_error(tmp_path: Path) -> None:
    log = published(tmp_path / "log", transactions(6))
    reader = batch_reader(log, "t", partitionBytes=1)
    log.prune("0/2000")
    first, _, third, *_ = reader.partitions()
    with pytest.raises(walrow.errors.LogError, match="removed") as raised:
        taken(reader, [first])
    assert raised.value.code == "pruned"
    assert len(taken(reader, [third])) == 3
    # What is there can be read.
    assert len(taken(batch_reader(log, "t"))) == 12
    with pytest.raises(walrow.errors.LogError, match="removed"):
        batch_reader(log, "t", start="0/1000")


def test_a_task_refuses_another_directory(tmp_path: Path) -> None:
    identity = {"system_identifier": "1", "database": "shop"}
    path = tmp_path / "log"
    published(path, transactions(3), slot="a", **identity)
    reader = batch_reader(path, "t")
    shutil.rmtree(path)
    published(path, transactions(2), slot="a", **identity)
    with pytest.raises(
        walrow.errors.LogError, match=r"ends at 0/2000 here, .* to 0/3000"
    ):
        taken(reader)
    shutil.rmtree(path)
    published(path, transactions(3), slot="b", **identity)
    with pytest.raises(
        walrow.errors.LogError, match=r"slot b of .* here, but of slot a of .* where"
    ):
        taken(reader)
    shutil.rmtree(path)
    with pytest.raises(
        walrow.errors.LogError, match="all executors must have its directory"
    ):
        taken(reader)


def test_what_comes_later_is_not_read(tmp_path: Path) -> None:
    with Publisher(tmp_path / "log") as publisher:
        publisher.publish(*transactions(2))
        reader = batch_reader(tmp_path / "log", "t")
        publisher.publish(*transactions(3)[2:])
    assert [row["_commit_lsn"] + 8 for row in taken(reader)] == [0x1000] * 3 + [
        0x2000
    ] * 3
    assert len(taken(batch_reader(tmp_path / "log", "t"))) == 9


def test_user_defined_types_come_from_the_log_or_a_catalog(tmp_path: Path) -> None:
    columns = [streams.Column("c", type_cases.UNKNOWN)]
    path = tmp_path / "log"
    log = sealed(path, [streams.SESSION + streams.wire(columns, [["7"]])])
    assert taken(batch_reader(log, "t", metadata="[]")) == [{"c": "7"}]
    json = (
        f'{{"types": [{{"oid": {type_cases.UNKNOWN}, "schema": "public", "name": "d", '
        '"kind": "domain", "base": 23}]}'
    )
    catalog = tmp_path / "catalog.json"
    catalog.write_text(json, "utf-8")
    walrow.Catalog.from_json(json)
    reader = batch_reader(log, "t", metadata="[]", catalog=catalog)
    # A task may not have the file.
    catalog.unlink()
    assert taken(reader) == [{"c": 7}]
