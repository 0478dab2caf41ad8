"""`walrow inspect`."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow
from reference import counts, messages
from reference import reader as r

CAPTURES = sorted((Path(__file__).parent.parent / "data").glob("[0-9]*/*.wire"))


def identify(path: Path) -> str:
    return f"{path.parent.name}/{path.name.removesuffix('.wire')}"


@pytest.mark.parametrize("path", CAPTURES, ids=identify)
def test_counts_are_the_reference_readers(
    path: Path, invoke: Callable[..., str]
) -> None:
    found = json.loads(invoke("inspect", "--count", "--json", path))
    wanted = counts(path.read_bytes(), physical=".physical." in path.name)
    assert found == wanted
    assert list(found) == ["frames", "messages", "cells", "bytes"]
    assert list(found["cells"]) == ["n", "u", "t", "b"]


def test_captures_are_there() -> None:
    assert len(CAPTURES) > 200


@pytest.mark.parametrize(
    "path", [p for p in CAPTURES if ".physical." not in p.name], ids=identify
)
def test_json_lines_show_every_frame_and_message(
    path: Path, invoke: Callable[..., str]
) -> None:
    lines = [
        json.loads(line) for line in invoke("inspect", "--json", path).splitlines()
    ]
    wanted = list(messages(path.read_bytes()))
    assert len(lines) == len(wanted)
    for line, (frame, message) in zip(lines, wanted, strict=True):
        assert line["kind"] == frame.kind
        assert line["offset"] == frame.offset
        assert ("lsn" in line) == (frame.kind == "w")
        assert ("message" in line) == (message is not None)
        if message is None:
            continue
        assert line["message"]["kind"] == chr(frame.payload[0])
        fields = line["message"]["fields"]
        if isinstance(message, r.Insert):
            assert fields["relation"] == message.relation
            assert fields["new"] == [cell(c) for c in message.new]
        if isinstance(message, r.Relation):
            names = [column["name"] for column in fields["columns"]]
            assert names == [column.name for column in message.columns]
    assert sum(line["size"] for line in lines) == path.stat().st_size


def cell(found: r.Cell) -> Any:
    match found.kind:
        case "n":
            return None
        case "u":
            return {"unchanged": True}
        case "t":
            return found.data.decode()
        case _:
            return {"hex": found.data.hex()}


@pytest.mark.parametrize(
    "path", [p for p in CAPTURES if ".physical." not in p.name], ids=identify
)
def test_table_has_a_printable_line_for_every_frame(
    path: Path, invoke: Callable[..., str]
) -> None:
    text = invoke("inspect", path)
    lines = text.split("\n")
    assert len(lines) == len(list(messages(path.read_bytes()))) + 2
    assert all(line.isprintable() for line in lines)


def test_table_shows_relation_names_columns_and_values(
    data: Path, invoke: Callable[..., str]
) -> None:
    text = invoke("inspect", data / "rows.text.wire")
    assert "OFFSET" in text.splitlines()[0]
    assert "public.item" in text
    assert "label='uno'" in text
    assert "NULL" in text


def test_long_values_are_shortened_only_on_a_terminal(
    data: Path, invoke: Callable[..., str], on_terminal: Callable[..., str]
) -> None:
    path = data / "update-toast.text.wire"
    whole = invoke("inspect", path)
    assert "(unchanged)" in whole
    assert "…" not in whole
    values = [
        cell
        for _, message in messages(path.read_bytes())
        if isinstance(message, r.Insert)
        for cell in message.new
    ]
    longest = max((cell.data.decode() for cell in values), key=len)
    assert len(longest) > 1000
    assert longest in whole
    shown = on_terminal("inspect", path)
    assert "…" in shown
    assert longest[:1000] not in shown
    full = on_terminal("inspect", "--full", path)
    assert "…" not in full
    assert longest in full


def test_times_and_lsns_are_written_out(data: Path, invoke: Callable[..., str]) -> None:
    path = data / "rows.text.wire"
    _, _, keepalive, begin, *_ = invoke("inspect", path).splitlines()
    assert keepalive.split() == [
        "8",
        "0/886A9B0",
        "PrimaryKeepalive",
        "end=0/886A9B0",
        "clock=2026-11-21T04:46:44.521251Z",
        "reply_requested=False",
    ]
    assert begin.split()[3:] == [
        "final_lsn=0/886ABD0",
        "commit_time=2026-11-21T04:46:44.481340Z",
        "xid=1000",
    ]
    _, keepalive, begin, *_ = map(
        json.loads, invoke("inspect", "--json", path).splitlines()
    )
    assert keepalive["fields"] == {
        "end": "0/886A9B0",
        "clock": "2026-11-21T04:46:44.521251Z",
        "reply_requested": False,
    }
    assert begin["message"]["fields"] == {
        "final_lsn": "0/886ABD0",
        "commit_time": "2026-11-21T04:46:44.481340Z",
        "xid": 1000,
    }


def test_times_that_python_lacks_are_numbers(run: Any) -> None:
    stream = streams.SESSION + streams.keepalive(1 << 32, clock=2**62)
    found = run("inspect", "-", input=stream)
    assert f"end=1/0 clock={2**62} " in found.stdout.decode()
    found = run("inspect", "--json", "-", input=stream)
    assert json.loads(found.stdout.splitlines()[1])["fields"]["clock"] == 2**62


def shown(text: str) -> list[tuple[str, str]]:
    """The name of each frame, and the text after it."""
    return [
        (line[28:].split()[0], line[28:].partition(" ")[2].strip())
        for line in text.splitlines()[1:]
    ]


def test_a_table_is_shown_alone(data: Path, invoke: Callable[..., str]) -> None:
    path = data / "rows.text.wire"
    for name in ("stock", "public.stock"):
        found = shown(invoke("inspect", "--table", name, path))
        assert [frame for frame, _ in found] == (
            ["Relation"] + ["Insert"] * 3 + ["Update"] * 2 + ["Delete"]
        )
        assert all(text.startswith("public.stock") for _, text in found)
    truncates = shown(
        invoke("inspect", "--table", "other", data / "truncate.text.wire")
    )
    assert [frame for frame, _ in truncates].count("Truncate") == 2


def test_a_missing_table_is_an_error_with_a_suggestion(data: Path, run: Any) -> None:
    found = run("inspect", "--table", "stok", data / "rows.text.wire")
    assert found.returncode == 1
    assert found.stderr == (
        b"walrow: no table stok in the capture; did you mean stock?\n"
    )


def test_a_missing_transaction_is_an_error(data: Path, run: Any) -> None:
    path = data / "rows.text.wire"
    found = run("inspect", "--xid", 7, path)
    assert found.returncode == 1
    assert found.stderr == b"walrow: no transaction with XID 7 in the capture\n"
    # The transaction is there, and so is the table, but not in it.
    xids = [
        each.message.fields["xid"]
        for each in walrow.frames(path)
        if each.message is not None and each.message.kind == "B"
    ]
    for xid in xids:
        for table in ("item", "stock"):
            found = run("inspect", "--table", table, "--xid", xid, path)
            assert (found.returncode, found.stderr) == (0, b"")
    found = run("inspect", "--xid", "abc", path)
    assert found.returncode == 2
    assert b"abc is not a XID" in found.stderr


def test_a_transaction_is_shown_alone(data: Path, invoke: Callable[..., str]) -> None:
    path = data / "rows.text.wire"
    found = shown(invoke("inspect", "--xid", 1000, path))
    assert [frame for frame, _ in found] == (
        ["Begin", "Relation", "Insert", "Insert", "Insert", "Commit"]
    )
    # Chunks of two transactions alternate in this capture.
    path = data / "streaming-interleaved.text.wire"
    parsed = [message for _, message in messages(path.read_bytes()) if message]
    xids = {each.xid for each in parsed if isinstance(each, r.StreamCommit)}
    assert len(xids) > 1
    for xid in xids:
        found = shown(invoke("inspect", "--xid", xid, path))
        starts = [text for _, text in found if text.startswith("Start")]
        assert all(f"xid={xid} " in f"{text} " for text in starts)
        assert len(starts) == sum(
            isinstance(each, r.StreamStart) and each.xid == xid for each in parsed
        )


@pytest.mark.parametrize(
    "since", ["0/886B1E0", "2026-11-21T04:46:44.483Z", "2026-11-21 05:46:44.483+01:00"]
)
def test_transactions_since_a_commit_are_shown(
    since: str, data: Path, invoke: Callable[..., str]
) -> None:
    path = data / "rows.text.wire"
    lines = invoke("inspect", "--json", "--start", since, path).splitlines()
    found = [json.loads(line) for line in lines]
    begun = [
        frame["message"]["fields"]["final_lsn"]
        for frame in found
        if frame.get("message", {}).get("kind") == "B"
    ]
    wanted = [
        message.final_lsn
        for _, message in messages(path.read_bytes())
        if isinstance(message, r.Begin) and message.final_lsn >= 0x886B1E0
    ]
    assert begun == [str(walrow.Lsn(lsn)) for lsn in wanted]
    assert len(begun) == 2
    # Rows still have their names.
    text = invoke("inspect", "--start", since, "--table", "item", path)
    assert "public.item key(id='3', label=NULL" in text


def test_errors_of_the_server_are_shown_in_full(
    data: Path, invoke: Callable[..., str], run: Any
) -> None:
    text = invoke("inspect", "--table", "item", data / "error-terminated.text.wire")
    assert (
        "sqlstate='57P01' message='terminating connection due to administrator command'"
        in text
    )
    detail = b"d" * 500
    body = b"SERROR\0C42P01\0Mno table\0D" + detail + b"\0Hlook again\0\0"
    found = run("inspect", "-", input=streams.SESSION + streams.backend(b"E", body))
    assert f"detail='{detail.decode()}' hint='look again'" in found.stdout.decode()


def test_limit_ends_early(data: Path, invoke: Callable[..., str]) -> None:
    path = data / "rows.text.wire"
    assert len(invoke("inspect", "--limit", 3, path).splitlines()) == 4
    assert len(invoke("inspect", "--limit", 3, "--json", path).splitlines()) == 3
    assert invoke("inspect", "--limit", 0, "--json", path) == ""


def test_count_table_is_for_people(data: Path, invoke: Callable[..., str]) -> None:
    text = invoke("inspect", "--count", data / "rows.text.wire")
    assert "Insert" in text
    assert "1,852" in text


def test_stdin_is_read(data: Path, run: Any) -> None:
    path = data / "rows.text.wire"
    found = run("inspect", "--count", "--json", "-", input=path.read_bytes())
    assert json.loads(found.stdout) == counts(path.read_bytes())
    message = b"I\0\0\x40\0N\0\x01n"
    for chunk, fed in ((streams.data(message), 1), (message + b"\n", 1), (message, 0)):
        found = run("inspect", "--json", "-", input=chunk)
        assert (found.returncode, len(found.stdout.splitlines())) == (1 - fed, fed)
        if not fed:
            assert b"a single pgoutput message" in found.stderr
            continue
        assert json.loads(found.stdout)["message"]["name"] == "Insert"
        assert json.loads(
            run("inspect", "--count", "--json", "-", input=chunk).stdout
        ) == {
            "frames": {"w": 1},
            "messages": {"I": 1},
            "cells": {"n": 1, "u": 0, "t": 0, "b": 0},
            "bytes": len(chunk),
        }


def test_empty_file_has_nothing(tmp_path: Path, run: Any) -> None:
    path = tmp_path / "empty.wire"
    path.touch()
    found = run("inspect", path)
    assert (found.returncode, found.stderr) == (0, b"")
    found = run("inspect", "--count", "--json", path)
    assert json.loads(found.stdout) == {
        "frames": {},
        "messages": {},
        "cells": {"n": 0, "u": 0, "t": 0, "b": 0},
        "bytes": 0,
    }


@pytest.mark.parametrize("mode", [(), ("--json",), ("--count",)], ids=str)
def test_cut_file_shows_what_is_complete_and_ends_with_3(
    data: Path, tmp_path: Path, run: Any, mode: tuple[str, ...]
) -> None:
    path = tmp_path / "cut.wire"
    whole = (data / "rows.text.wire").read_bytes()
    frames = list(walrow.frames(whole))
    # Without its Commit, the last transaction is not complete.
    *_, inside = (
        frame.offset for frame in frames if frame.message and frame.message.kind == "C"
    )
    for size in (len(whole) - 3, inside):
        path.write_bytes(whole[:size])
        found = run("inspect", *mode, path)
        assert found.returncode == 3
        assert found.stdout
        text = b"walrow: the capture ends inside a frame or a transaction\n"
        assert found.stderr == text


@pytest.mark.parametrize("mode", [(), ("--json",), ("--count",)], ids=str)
def test_server_error_ends_with_4(data: Path, run: Any, mode: tuple[str, ...]) -> None:
    found = run("inspect", *mode, data / "error-terminated.text.wire")
    assert found.returncode == 4
    assert found.stdout
    [line] = found.stderr.decode().splitlines()
    assert line.endswith("the server ended the capture with an error, SQLSTATE 57P01")


@pytest.mark.parametrize("mode", [(), ("--json",), ("--count",)], ids=str)
def test_garbage_is_a_one_line_error(
    data: Path, tmp_path: Path, run: Any, mode: tuple[str, ...]
) -> None:
    path = tmp_path / "garbage.wire"
    whole = (data / "rows.text.wire").read_bytes()
    path.write_bytes(whole + b"\xff" * 100)
    found = run("inspect", *mode, path)
    assert found.returncode == 1
    [line] = found.stderr.decode().splitlines()
    assert line.startswith("walrow: ")
    assert str(len(whole)) in line
    if mode != ("--count",):
        frames = len(list(messages(whole)))
        assert len(found.stdout.splitlines()) == frames + (mode == ())


def test_closed_pipe_is_quiet(data: Path, tmp_path: Path, start: Any) -> None:
    path = tmp_path / "large.wire"
    path.write_bytes((data / "rows.text.wire").read_bytes() * 500)
    process = start("inspect", "--json", path)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(30) == 141
    process.stderr.close()
    process.stdin.close()


@pytest.mark.parametrize("mode", [(), ("--json",), ("--count",)], ids=str)
def test_full_disk_is_a_one_line_error(
    data: Path, run: Any, mode: tuple[str, ...]
) -> None:
    with Path("/dev/full").open("wb") as full:
        options = {"stdout": full, "stderr": -1, "capture_output": False}
        found = run("inspect", *mode, data / "rows.text.wire", **options)
    assert found.returncode == 1
    assert found.stderr == b"walrow: No space left on device\n"


def test_help_and_version(run: Any) -> None:
    for command in ((), ("inspect",), ("decode",)):
        found = run(*command, "--help")
        assert found.returncode == 0
        assert b"Usage: walrow" in found.stdout
    assert run("--version").stdout.startswith(b"walrow")


def test_several_compressed_and_recvlogical_files_are_read(
    data: Path, tmp_path: Path, run: Any
) -> None:
    whole = (data / "rows.text.wire").read_bytes()
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "1").write_bytes(gzip.compress(whole[:1000]))
    (tmp_path / "parts" / "2").write_bytes(whole[1000:])
    expected = run("inspect", "--json", data / "rows.text.wire").stdout
    names = [tmp_path / "parts" / "1", tmp_path / "parts" / "2"]
    for inputs in ([tmp_path / "parts"], names, [f"{tmp_path}/parts/?"]):
        assert run("inspect", "--json", *inputs).stdout == expected
        count = run("inspect", "--json", "--count", *inputs)
        assert json.loads(count.stdout) == counts(whole)
    mixed = run("inspect", "--json", names[0], "-", input=whole[1000:])
    assert mixed.stdout == expected
    bare = b"".join(
        frame.to_bytes()[30:] + b"\n" for frame in walrow.frames(whole) if frame.message
    )
    found = run("inspect", "--json", "--count", "-", input=gzip.compress(bare))
    assert json.loads(found.stdout)["messages"] == counts(whole)["messages"]
    assert json.loads(found.stdout)["bytes"] == len(bare)


def test_errors_name_the_file_of_several(data: Path, tmp_path: Path, run: Any) -> None:
    whole = data / "rows.text.wire"
    (tmp_path / "b").write_bytes(b"?" * 100)
    found = run("inspect", whole, tmp_path / "b", whole)
    assert found.returncode == 1
    assert f"in {tmp_path}/b" in found.stderr.decode()
    (tmp_path / "c").write_bytes(b'{"change": []}\n')
    found = run("inspect", "--count", tmp_path / "c")
    assert found.returncode == 1
    assert b"JSON, as wal2json" in found.stderr


def test_facts_of_a_log_are_in_words(
    tmp_path: Path, data: Path, invoke: Callable[..., str]
) -> None:
    walrow.seal(data / "rows.text.wire", log=tmp_path / "log")
    first = invoke("inspect", tmp_path / "log").splitlines()[1]
    assert "walrow's fact segment: a segment of the log begins (format=3 " in first
    record = json.loads(invoke("inspect", "--json", tmp_path / "log").splitlines()[0])
    assert record["fact"]["fact"] == "segment"


def test_a_message_of_a_user_is_no_fact(
    tmp_path: Path, invoke: Callable[..., str]
) -> None:
    capture = tmp_path / "user.wire"
    content = b'{"fact": "segment"}'
    capture.write_bytes(
        streams.data(streams.message("walrow", content, transactional=False))
    )
    assert "fact segment" not in invoke("inspect", capture)
    assert "fact" not in json.loads(invoke("inspect", "--json", capture))
