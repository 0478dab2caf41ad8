"""`walrow decode`."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import streams
import walrow
from reference import messages
from reference import reader as r
from walrow.cli import jsonlines
from walrow.cli.arguments import pairs

CAPTURES = sorted((Path(__file__).parent.parent / "data").glob("[0-9]*/*.wire"))


def identify(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.wire')}"


def readable(path: Path) -> bool:
    try:
        list(walrow.read(path, unrepresentable="null"))
    except walrow.Error:
        return False
    return True


READABLE = [path for path in CAPTURES if readable(path)]


def test_captures_are_there() -> None:
    assert len(READABLE) > 100


def table_of(path: Path, table: str, **options: Any) -> pa.Table:
    return pa.table(walrow.read(path, table=table, **options))


#: Python lacks these moments, or has other floats. test_jsonlines.py has them by hand.
BY_HAND = ("types-array.", "types-float.", "types-infinity.", "types-time.")


def python(column: pa.Array) -> Any:
    """A column's values in JSON, from pyarrow's Python values."""
    kind = column.type
    if pa.types.is_date32(kind):
        # Python's dates end at 9999.
        return column.cast(pa.string()).to_pylist()
    return [as_json(value) for value in column.to_pylist()]


def as_json(value: Any) -> Any:  # noqa: PLR0911
    match value:
        case float() if not math.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        case Decimal():
            return f"{value:f}"
        case bytes():
            return f"\\x{value.hex()}"
        case dt.datetime() | dt.time():
            # A fraction does not end with zeros.
            return re.sub(r"(\.\d*?)0+(?!\d)", r"\1", str(value).replace(" ", "T"))
        case UUID() | dt.date():
            return str(value)
        case pa.MonthDayNano():
            return {"months": value[0], "days": value[1], "nanoseconds": value[2]}
        case [(str(), _), *_]:
            return {key: as_json(each) for key, each in value}
        case list():
            return [as_json(each) for each in value]
        case dict():
            return {key: as_json(each) for key, each in value.items()}
    return value


def refuse(text: str) -> None:
    pytest.fail(f"{text} is not JSON")


# ------------------------------------------------------------------------- JSON lines


@pytest.mark.parametrize("path", READABLE, ids=identify)
@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
def test_every_row_is_a_line_of_valid_json(
    path: Path, profile: Any, invoke: Callable[..., str]
) -> None:
    options = ("--profile", profile, "--unrepresentable", "null")
    text = invoke("decode", *options, path)
    lines = [json.loads(line, parse_constant=refuse) for line in text.splitlines()]
    batches = list(walrow.read(path, profile=profile, unrepresentable="null"))
    if profile != "text" and path.name.startswith(BY_HAND):
        assert len(lines) == sum(batch.num_rows for batch in batches) > 0
        return
    wanted = [
        {"_table": batch.table} | dict(zip(batch.column_names, row, strict=True))
        for batch in batches
        for row in zip(*map(python, pa.record_batch(batch).columns), strict=True)
    ]
    assert repr(lines) == repr(wanted)


@pytest.mark.parametrize(
    "path",
    [p for p in READABLE if p.name.startswith("types-") and ".text." in p.name],
    ids=identify,
)
def test_text_profile_prints_what_the_server_sent(
    path: Path, invoke: Callable[..., str]
) -> None:
    wanted = [
        [None if cell.kind == "n" else cell.data.decode() for cell in message.new]
        for _, message in messages(path.read_bytes())
        if isinstance(message, r.Insert)
    ]
    lines = map(json.loads, invoke("decode", "--profile", "text", path).splitlines())
    found = [
        list(line.values())[1 : len(line) - 7]
        for line in lines
        if line["_change_type"] == "insert"
    ]
    assert sorted(found, key=repr) == sorted(wanted, key=repr)


def test_a_start_is_a_time_of_a_capture(
    data: Path, run: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    # The first transaction of the capture was committed then.
    start, path = "2026-11-21T04:46:44.481340Z", data / "rows.text.wire"
    done = run("decode", "--start", start, "--table", "item", path, text=True)
    assert done.returncode == 0, done.stderr
    place = walrow.Lsn(143043584)
    assert (
        done.stderr
        == f"walrow: --start is 2026-11-21T04:46:44.481Z, in the capture {place}\n"
    )
    found = [json.loads(line)["_commit_lsn"] for line in done.stdout.splitlines()]
    assert min(found) == 143044096


def test_json_lines_go_to_a_file_too(
    data: Path, tmp_path: Path, invoke: Callable[..., str]
) -> None:
    path, out = data / "rows.text.wire", tmp_path / "out.jsonl"
    assert invoke("decode", "--table", "item", "--to", out, path) == ""
    assert out.read_text() == invoke("decode", "--table", "item", path)
    invoke("decode", "--to", out, path)
    assert out.read_text() == invoke("decode", path)


# -------------------------------------------------------------------- Parquet and IPC


@pytest.mark.parametrize("profile", ["arrow", "spark", "text"])
def test_one_table_reads_back_from_parquet_and_ipc(
    data: Path, tmp_path: Path, profile: str, invoke: Callable[..., str]
) -> None:
    path = data / "rows.text.wire"
    wanted = table_of(path, "public.item", profile=profile)
    options = ("--table", "public.item", "--profile", profile)
    for name, read in (
        ("out.parquet", pq.read_table),
        ("out.arrow", lambda file: pa.ipc.open_file(file).read_all()),
    ):
        out = tmp_path / name
        invoke("decode", *options, "--to", out, path)
        found = read(out)
        assert found.equals(wanted)
        assert found.schema.metadata == wanted.schema.metadata
        assert out.stat().st_mode & 0o777 == 0o666 & ~umask()
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "out.arrow",
        "out.parquet",
    ]


def umask() -> int:
    old = os.umask(0)
    os.umask(old)
    return old


def test_only_table_needs_no_name_and_several_do(
    data: Path, tmp_path: Path, run: Any
) -> None:
    out = tmp_path / "out.parquet"
    single = data / "update-toast.text.wire"
    [table] = {batch.table for batch in walrow.read(single)}
    assert run("decode", "--to", out, single).returncode == 0
    assert pq.read_table(out).equals(table_of(single, table))
    before = out.read_bytes()
    found = run("decode", "--to", out, data / "rows.text.wire")
    assert found.returncode == 2
    assert b"--table" in found.stderr
    assert b"public.item" in found.stderr
    assert out.read_bytes() == before
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("path", READABLE, ids=identify)
def test_directory_takes_every_table_and_version(
    path: Path, tmp_path: Path, invoke: Callable[..., str]
) -> None:
    options = ("--unrepresentable", "null", "--format", "arrow")
    invoke("decode", *options, "--to", f"{tmp_path}/out/", path)
    files = sorted((tmp_path / "out").iterdir())
    found: list[Any] = []
    for file in files:
        assert file.suffix == ".arrow"
        table = pa.ipc.open_file(file).read_all()
        found.extend(map(repr, table.to_batches() and rows(table)))
    wanted: list[Any] = []
    for batch in walrow.read(path, unrepresentable="null"):
        wanted.extend(map(repr, rows(pa.table(pa.record_batch(batch)))))
    assert sorted(found) == sorted(wanted)


def rows(table: pa.Table) -> list[Any]:
    return [
        (*table.column_names, *row)
        for batch in table.to_batches()
        for row in zip(*map(jsonlines.values, batch.columns), strict=True)
    ]


def test_small_batches_become_large_row_groups(
    data: Path, tmp_path: Path, invoke: Callable[..., str]
) -> None:
    # Each session sends its relations again, so no batch has rows of two sessions.
    path = tmp_path / "sessions.wire"
    path.write_bytes((data / "rows.text.wire").read_bytes() * 50)
    invoke("decode", "--table", "item", "--to", tmp_path / "out.parquet", path)
    found = pq.ParquetFile(tmp_path / "out.parquet")
    assert found.num_row_groups == 1
    assert found.read().equals(table_of(path, "item").combine_chunks())


def test_directory_files_are_named_by_schema_table_and_version(
    data: Path, tmp_path: Path, invoke: Callable[..., str]
) -> None:
    invoke("decode", "--to", f"{tmp_path}/", data / "rows.text.wire")
    names = {"public.item.parquet", "public.stock.parquet"}
    assert {file.name for file in tmp_path.iterdir()} == names
    found = pq.read_table(tmp_path / "public.item.parquet")
    assert found.equals(table_of(data / "rows.text.wire", "public.item"))
    invoke("decode", "--to", f"{tmp_path}/v/", data / "alter-columns.text.wire")
    files = sorted(file.name for file in (tmp_path / "v").iterdir())
    assert len(files) > 1
    assert any(file.endswith(".2.parquet") for file in files)
    invoke("decode", "--to", f"{tmp_path}/i/", data / "identifiers.text.wire")
    assert all(file.name.count(".") == 2 for file in (tmp_path / "i").iterdir())


def test_changed_columns_do_not_fit_one_file(
    data: Path, tmp_path: Path, run: Any
) -> None:
    path = data / "alter-columns.text.wire"
    found = run("decode", "--to", tmp_path / "out.parquet", path)
    assert found.returncode == 1
    assert b"columns change" in found.stderr
    assert list(tmp_path.iterdir()) == []


def test_types_catalog_and_prefix_are_passed_on(
    data: Path, tmp_path: Path, invoke: Callable[..., str]
) -> None:
    catalog = tmp_path / "catalog.json"
    catalog.write_text(walrow.Catalog().to_json())
    lines = invoke(
        *("decode", "--table", "item", "--type", "amount=string"),
        *("--catalog", catalog, "--metadata-prefix", "pg_"),
        data / "rows.text.wire",
    ).splitlines()
    first = json.loads(lines[0])
    assert isinstance(first["amount"], str)
    assert first["pg_change_type"] == "insert"


@pytest.mark.parametrize(
    ("item", "column", "kind"),
    [
        ("ts=timestamp[us, tz=UTC]", "ts", "timestamp[us, tz=UTC]"),
        ("a=b=timestamp[us, tz=+01:00]", "a=b", "timestamp[us, tz=+01:00]"),
        ("a[b=c]=int64", "a[b=c]", "int64"),
        ("a]=list<item: timestamp[us, tz=UTC]>", "a]", None),
        ("a[=string", "a[", "string"),
        ("a==string", "a=", "string"),
    ],
)
def test_column_ends_where_its_type_begins(
    item: str, column: str, kind: str | None
) -> None:
    kind = kind or item.removeprefix(f"{column}=")
    assert pairs("--type", (item,)) == {column: kind}


def test_types_may_have_a_time_zone(data: Path, invoke: Callable[..., str]) -> None:
    path = data / "types-time.text.wire"
    [table] = {batch.table for batch in walrow.read(path, unrepresentable="null")}
    schema = walrow.read(path, table=table, unrepresentable="null").schema
    zoned = [field.name for field in pa.schema(schema) if "tz=UTC" in str(field.type)]
    assert zoned
    options = ("--unrepresentable", "null", "--table", table)
    wanted = invoke("decode", *options, path)
    types = [f"{name}=timestamp[us, tz=UTC]" for name in zoned if name[0] != "_"]
    assert types
    given = [word for each in types for word in ("--type", each)]
    assert invoke("decode", *options, *given, path) == wanted


# --------------------------------------------------------------------- what goes wrong


def test_empty_file_has_no_rows_and_makes_no_file(tmp_path: Path, run: Any) -> None:
    path = tmp_path / "empty.wire"
    path.touch()
    found = run("decode", path)
    assert (found.returncode, found.stdout, found.stderr) == (0, b"", b"")
    out = tmp_path / "out.jsonl"
    assert run("decode", "--to", out, path).returncode == 0
    assert out.read_bytes() == b""
    out.unlink()
    for table in ((), ("--table", "t")):
        found = run("decode", *table, "--to", tmp_path / "out.parquet", path)
        assert found.returncode == 1
        assert len(found.stderr.splitlines()) == 1
        assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("code", [3, 4])
def test_incomplete_capture_is_written_as_far_as_it_is_complete(
    data: Path, tmp_path: Path, run: Any, code: int
) -> None:
    if code == 3:
        path = tmp_path / "cut.wire"
        path.write_bytes((data / "rows.text.wire").read_bytes()[:-300])
        reason = "the stream ends inside a frame or transaction"
    else:
        path = data / "error-terminated.text.wire"
        reason = "the server ended the stream with an error, SQLSTATE 57P01"
    batches = list(walrow.read(path, unfinished="ignore"))
    rows = sum(batch.num_rows for batch in batches)
    assert rows > 0
    out = tmp_path / "out"
    for to in ("-", tmp_path / "out.jsonl", f"{out}/"):
        found = run("decode", "--to", to, path)
        assert found.returncode == code
        [line] = found.stderr.decode().splitlines()
        assert line.startswith(f"walrow: {reason}; take only the complete transactions")
        assert " with --unfinished ignore (byte" in line
        what = (
            "1 row of complete transactions was"
            if rows == 1
            else (f"{rows} rows of complete transactions were")
        )
        assert line.endswith(f" {what} written")
        if to == "-":
            assert len(found.stdout.splitlines()) == rows
    assert len((tmp_path / "out.jsonl").read_bytes().splitlines()) == rows
    tables = [pq.read_table(file) for file in out.iterdir()]
    assert sum(table.num_rows for table in tables) == rows
    found = run("decode", "--unfinished", "ignore", path)
    assert found.returncode == 0
    assert len(found.stdout.splitlines()) == rows
    assert b"warning: the " in found.stderr
    # For a missing table, nothing is written.
    gone = tmp_path / "gone.parquet"
    found = run("decode", "--table", "gone", "--to", gone, path)
    assert found.returncode == code
    assert not gone.exists()


def test_open_transactions_are_named(data: Path, tmp_path: Path, run: Any) -> None:
    whole = (data / "two-phase.text.wire").read_bytes()
    for frame in walrow.frames(whole):
        if frame.message is not None and frame.message.kind in "Kr":
            break
    path = tmp_path / "open.wire"
    path.write_bytes(whole[: frame.offset])
    decoder = walrow.Decoder()
    list(decoder.feed(path.read_bytes()))
    named = [f"{each['xid']} ({each['gid']})" for each in decoder.prepared]
    assert named
    found = run("decode", path)
    assert found.returncode == 0
    assert f"rolled back: {', '.join(named)}" in found.stderr.decode()
    assert f"warning: {len(named)} transaction" in found.stderr.decode()


def test_nulled_values_are_reported(data: Path, run: Any) -> None:
    path = data / "types-infinity.text.wire"
    found = run("decode", "--unrepresentable", "null", path)
    assert found.returncode == 0
    assert b"values became null" in found.stderr
    policies = ("null", "date=sentinel")
    words = [word for policy in policies for word in ("--unrepresentable", policy)]
    found = run("decode", *words, path)
    assert found.returncode == 0
    assert b'"infinity"' in found.stdout


def test_the_remedy_is_an_option_of_the_command(data: Path, run: Any) -> None:
    path = data / "types-infinity.text.wire"
    found = run("decode", path)
    assert found.returncode == 1
    words = shlex.split(found.stderr.decode().partition("through by ")[2])
    option, value, _, other, policy, *_ = words
    assert (option, other) == ("--type", "--unrepresentable")
    column = value.removesuffix("=string")
    assert (value, policy) == (f"{column}=string", f"{column}=null")
    for way_out in ((option, value), (other, policy)):
        again = run("decode", *way_out, path)
        assert column.encode() not in again.stderr.partition(b"through by")[2]


def test_changed_columns_name_what_the_command_has_in_place_of_a_schema(
    data: Path, tmp_path: Path, run: Any
) -> None:
    path = data / "alter-columns.text.wire"
    table = next(iter(walrow.read(path))).table
    found = run("decode", "--table", table, "--to", tmp_path / "one.parquet", path)
    assert found.returncode == 1
    advice = (
        b"columns changed; read all versions with --versions union or --to DIR/, without"
        b" --table ("
    )
    assert advice in found.stderr
    assert run("decode", "--to", f"{tmp_path}/", path).returncode == 0
    one = tmp_path / "union.parquet"
    words = ("--table", table, "--versions", "union", "--to", one, path)
    assert run("decode", *words).returncode == 0
    union = walrow.read(path, table=table, versions="union").to_pyarrow()
    assert pq.read_table(one).column_names == union.column_names
    assert pq.read_metadata(one).num_rows == union.num_rows
    refused = run("decode", "--table", table, "--versions", "union", "-")
    assert (refused.returncode, b"reads the capture twice" in refused.stderr) == (
        2,
        True,
    )


@pytest.mark.parametrize("record", ["text", "binary"])
def test_lost_subscripts_are_reported(data: Path, run: Any, record: str) -> None:
    path = data / f"types-array-shape.{record}.wire"
    found = run("decode", "--unrepresentable", "null", path)
    assert found.returncode == 0
    lines = found.stderr.decode().splitlines()
    warnings = [line for line in lines if "lost subscripts" in line]
    assert [line.split(": ")[2:] for line in warnings] == [
        [f"public.shapes.{column}", warnings[0].split(": ")[3]] for column in "ab"
    ]
    assert "1 array " in warnings[0]
    if record == "text":
        found = run("decode", "--profile", "text", path)
        assert (found.returncode, found.stderr) == (0, b"")


@pytest.mark.parametrize("form", ["parquet", "arrow", "jsonl"])
def test_garbage_keeps_the_existing_file(
    data: Path, tmp_path: Path, run: Any, form: str
) -> None:
    path, out = tmp_path / "garbage.wire", tmp_path / f"out.{form}"
    out.write_bytes(b"before")
    whole = (data / "rows.text.wire").read_bytes()
    path.write_bytes(whole + b"\xff" * 100)
    found = run("decode", "--table", "item", "--to", out, path)
    assert found.returncode == 1
    [line] = found.stderr.decode().splitlines()
    assert line.startswith("walrow: ")
    assert str(len(whole)) in line
    assert "rows decoded, nothing written" in line
    assert out.read_bytes() == b"before"
    assert set(tmp_path.iterdir()) == {path, out}
    found = run("decode", path)
    assert found.returncode == 1
    lines = len(found.stdout.splitlines())
    assert lines == sum(b.num_rows for b in walrow.read(whole)) > 0
    assert f"{lines} rows were written before the error" in found.stderr.decode()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize(
    "to",
    [
        "out.parquet",
        "out/",
        *(
            pytest.param(it, marks=pytest.mark.slow)
            for it in ("out.arrow", "out.jsonl")
        ),
    ],
)
def test_interrupt_leaves_no_file(
    data: Path, tmp_path: Path, start: Any, to: str, sent: int
) -> None:
    out = tmp_path / "there"
    out.mkdir()
    target = f"{out}/{to}"

    def heed() -> None:
        # nohup ignores SIGHUP, and a shell SIGINT in the background.
        signal.signal(sent, signal.SIG_DFL)

    command = ("decode", "--table", "item", "--to", target, "-")
    process = start(*command, preexec_fn=heed)
    # A large first block, so that rows are written, and then a wait for the next.
    process.stdin.write((data / "rows.text.wire").read_bytes() * 15000)
    process.stdin.flush()
    deadline = time.monotonic() + 30
    while not list(out.rglob("*.tmp")) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list(out.rglob("*.tmp"))
    process.send_signal(sent)
    with process:
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 128 + sent
    assert errors == b""
    assert [file for file in out.rglob("*") if file.is_file()] == []


def test_full_disk_is_one_line_and_leaves_no_file(
    data: Path, tmp_path: Path, run: Any
) -> None:
    path = data / "rows.text.wire"
    with Path("/dev/full").open("wb") as full:
        options = {"stdout": full, "stderr": -1, "capture_output": False}
        found = run("decode", path, **options)
    assert found.returncode == 1
    [line] = found.stderr.decode().splitlines()
    assert "No space left on device" in line

    def limit() -> None:
        # As a full disk does, but for one process: the write fails with EFBIG.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    large = path.read_bytes() * 100
    for form in ("parquet", "arrow", "jsonl"):
        out = tmp_path / f"out.{form}"
        to = ("decode", "--table", "item", "--to", out, "-")
        found = run(*to, input=large, preexec_fn=limit)
        assert found.returncode == 1, form
        [line] = found.stderr.decode().splitlines()
        assert "File too large" in line
        assert list(tmp_path.iterdir()) == []


def test_stdout_on_a_full_disk_says_what_it_holds(
    data: Path, tmp_path: Path, run: Any
) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    large = (data / "rows.text.wire").read_bytes() * 100
    for to in ("-", "/dev/stdout"):
        log = tmp_path / "log"
        with log.open("wb") as file:
            found = run(
                *("decode", "--format", "json", "--to", to, "-"),
                input=large,
                preexec_fn=limit,
                capture_output=False,
                stdout=file,
                stderr=subprocess.PIPE,
            )
        assert found.returncode == 1
        [line] = found.stderr.decode().splitlines()
        assert "File too large" in line
        lines = log.read_bytes().count(b"\n")
        assert lines > 100
        assert f"; {lines} rows were written before the error, and a part of" in line
    found = run("decode", "--format", "json", "--to", "/dev/full", "-", input=large)
    assert found.returncode == 1
    assert (
        b"No space left on device; 0 rows were written before the error" in found.stderr
    )


def test_a_type_that_parquet_lacks_names_column_and_option(
    tmp_path: Path, run: Any
) -> None:
    interval = [streams.Column("id", 23), streams.Column("wait", 1186)]
    stream = streams.wire(interval, [["1", "1 day"], ["2", "no interval"]])
    out = tmp_path / "out.parquet"
    for words in (("--table", "t"), ()):
        found = run("decode", *words, "--to", out, "-", input=stream)
        assert found.returncode == 1
        [line] = found.stderr.decode().splitlines()
        assert line.startswith(
            "walrow: public.t.wait: out.parquet cannot hold month_day"
        )
        assert "--type public.t.wait=string or --profile spark" in line
        if words:
            # This fails before rows are read: the second row is wrong.
            assert "0 rows decoded, nothing written" in line
        assert list(tmp_path.iterdir()) == []
    stream = streams.wire(interval, [["1", "1 day"]])
    for words in (("--type", "public.t.wait=string"), ("--profile", "spark")):
        assert run("decode", *words, "--to", out, "-", input=stream).returncode == 0


def test_only_the_wanted_columns_are_written(data: Path, run: Any) -> None:
    path = data / "rows.text.wire"
    found = run(
        "decode", "--table", "item", "--column", "id", "--column", "amount", path
    )
    assert found.returncode == 0
    for line in found.stdout.splitlines():
        own = {name for name in json.loads(line) if not name.startswith("_")}
        assert own == {"id", "amount"}
    found = run("decode", "--column", "amuont", path)
    assert found.returncode == 1
    assert (
        b"columns: no column amuont in the stream; did you mean amount?" in found.stderr
    )


def test_closed_pipe_is_quiet(data: Path, tmp_path: Path, start: Any) -> None:
    path = tmp_path / "large.wire"
    path.write_bytes((data / "rows.text.wire").read_bytes() * 3000)
    process = start("decode", path)
    process.stdin.close()
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(30) == 141
    process.stderr.close()


def without(missing: str, command: str, path: Path) -> tuple[int, str, str]:
    """Runs a command where a library is not installed: its exit code, and what it prints."""
    program = (
        f"import sys; sys.modules[{missing!r}] = None; "
        f"sys.argv = ['walrow', {command!r}, {str(path)!r}]; "
        "from walrow.cli import main; main()"
    )
    found = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program],
        capture_output=True,
        check=False,
        text=True,
        timeout=50,
    )
    return found.returncode, found.stdout, found.stderr


@pytest.mark.parametrize("missing", ["click", "rich", "pyarrow"])
def test_missing_extra_says_what_to_install(data: Path, missing: str) -> None:
    code, _, text = without(missing, "decode", data / "rows.text.wire")
    assert code == 2
    assert f"needs {missing}: pip install 'walrow[cli]'" in text
    assert len(text.splitlines()) == 1


def test_inspect_needs_no_pyarrow(data: Path) -> None:
    code, shown, _ = without("pyarrow", "inspect", data / "rows.text.wire")
    assert code == 0
    assert shown


def test_progress_is_shown_only_on_a_terminal(
    data: Path, tmp_path: Path, on_terminal: Callable[..., str]
) -> None:
    path = tmp_path / "large.wire"
    path.write_bytes((data / "rows.text.wire").read_bytes() * 2000)
    out = str(tmp_path / "out.parquet")
    command = ["decode", "--table", "item", "--to", out, str(path)]
    shown = on_terminal(*command, stdout=False)
    assert "large.wire" in shown


def test_several_tables_are_chosen_one_by_one(
    data: Path, tmp_path: Path, run: Any
) -> None:
    path = data / "rows.text.wire"
    both = ("decode", "--table", "public.item", "--table", "stock")
    assert run(*both, path).stdout == run("decode", path).stdout
    one = run("decode", "--table", "stock", path)
    lines = [json.loads(line) for line in one.stdout.splitlines()]
    assert {line["_table"] for line in lines} == {"public.stock"}
    out = tmp_path / "out"
    assert run(*both, "--to", f"{out}/", path).returncode == 0
    assert {each.name for each in out.iterdir()} == {
        "public.item.parquet",
        "public.stock.parquet",
    }
    whole = tmp_path / "envelope.parquet"
    found = run(*both, "--envelope", "--to", whole, path)
    assert found.returncode == 0
    assert pq.read_table(whole).num_rows == 17
    for more, code, text in (
        (("--to", tmp_path / "x.parquet"), 2, "one table, but --table chooses 2"),
        (("--table", "stock"), 2, "table stock is chosen twice"),
        (("--table", "itme"), 1, "no table itme in the stream; did you mean item?"),
        (("--table", "x", "--table", "y"), 1, "no tables x, y in the stream"),
    ):
        found = run(*both, *more, path)
        assert found.returncode == code
        assert text in found.stderr.decode()
        assert len(found.stderr.splitlines()) == 1
    assert not (tmp_path / "x.parquet").exists()
    more = ("--table", "gone", "--missing-table", "ignore")
    assert run(*both, *more, path).stdout == run("decode", path).stdout


def test_unknown_types_name_their_columns(data: Path, run: Any) -> None:
    path = data / "types-user.text.wire"
    reader = walrow.read(path)
    list(reader)
    [one, *others] = reader.unresolved_types
    found = run("decode", path)
    assert found.returncode == 0
    text = found.stderr.decode()
    assert f"read as text: {one.table}.{one.column} (type {one.type_oid}), " in text
    assert f", {len(others) - 4} more; use --catalog" in text
    for quiet in (("--profile", "text"), ("--quiet",)):
        assert run("decode", *quiet, path).stderr == b""
