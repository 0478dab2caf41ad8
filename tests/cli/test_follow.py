"""`walrow follow LOG`: one line a change, as a log grows."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import streams
import walrow


@pytest.fixture
def log(tmp_path: Path, data: Path) -> Path:
    walrow.seal(data / "rows.text.wire", log=tmp_path / "log")
    return tmp_path / "log"


@pytest.fixture
def follow(start: Callable[..., Any]) -> Callable[..., tuple[list[str], str, int]]:
    """Follows until so many lines came, then presses Ctrl-C."""

    def follow(log: Path, count: int, *more: str) -> tuple[list[str], str, int]:
        words = ["follow", log, "--start", "0/0", *more]
        with start(*words, text=True) as process:
            lines = [process.stdout.readline() for _ in range(count)]
            process.send_signal(signal.SIGINT)
            rest, errors = process.communicate(timeout=20)
        return [*lines, *rest.splitlines(keepends=True)], errors, process.returncode

    return follow


def test_each_change_is_one_line_in_the_order_of_commits(
    log: Path, follow: Callable[..., Any]
) -> None:
    lines, errors, code = follow(log, 15)
    words = [line.split(maxsplit=2)[2].strip() for line in lines]
    # tests/data/rows.sql, line by line: an update of a key has its old key.
    assert words == [
        "insert   public.item id=1 label=one amount=1.50",
        "insert   public.item id=2 label=NULL amount=NULL",
        'insert   public.item id=3 label="" amount=0.00',
        "insert   public.item id=4 label=four amount=-4.25",
        "update   public.item id=1 label=uno amount=1.50",
        "update   public.item id=2→20 label=NULL amount=NULL",
        'update   public.item id=3 label="" amount=0.00',
        "delete   public.item id=4",
        "insert   public.stock note=a site=1 shelf=x",
        "insert   public.stock note=NULL site=2 shelf=x",
        "insert   public.stock note=c site=1 shelf=y",
        "update   public.stock note=b site=2 shelf=x",
        "update   public.stock note=c site=1→9 shelf=y",
        "delete   public.stock site=1 shelf=x",
        "delete   public.item id=3",
    ]
    commits = [line.split()[1] for line in lines]
    assert commits == sorted(commits)
    assert lines[0].startswith("2026-11-21T04:46:44Z    0/886ABD0 insert ")
    # No traceback, and the exit code of a program that Ctrl-C ends.
    assert (code, errors) == (130, "walrow: changes after 0/0; Ctrl-C ends it\n")


def test_json_has_the_values_as_postgresql_writes_them(
    log: Path, follow: Callable[..., Any]
) -> None:
    lines, errors, _ = follow(log, 9, "--table", "item", "--json", "--quiet")
    assert errors == ""
    moved = json.loads(lines[5])
    assert moved == {
        "table": "public.item",
        "change": "update",
        "lsn": "0/886AE00",
        "time": "2026-11-21T04:46:44.482306+00:00",
        "xid": 1001,
        "seq": 2,
        "key": {"id": "20"},
        "old": {"id": "2"},
        "new": {"id": "20", "label": None, "amount": None},
        "unsent": [],
        "loaded": False,
    }
    kinds = [json.loads(line)["change"] for line in lines]
    assert kinds == ["insert"] * 4 + ["update"] * 3 + ["delete"] * 2


def test_where_finds_a_row_under_its_old_and_its_new_key(
    log: Path, follow: Callable[..., Any]
) -> None:
    for key, expected in ("2", ["insert", "update"]), ("20", ["update"]):
        more = ("--table", "item", "--where", f"id={key}", "--json")
        lines, _, _ = follow(log, len(expected), *more)
        assert [json.loads(line)["change"] for line in lines] == expected


def test_a_value_that_was_not_sent_is_no_null(
    tmp_path: Path, data: Path, follow: Callable[..., Any]
) -> None:
    walrow.seal(data / "update-toast.text.wire", log=tmp_path / "toast")
    lines, _, _ = follow(tmp_path / "toast", 4)
    assert lines[3].endswith(" public.paper id=2 extra=NULL n=1 body=(not sent)\n")


def test_a_known_old_value_is_shown(
    tmp_path: Path, data: Path, follow: Callable[..., Any]
) -> None:
    walrow.seal(data / "identity-full.text.wire", log=tmp_path / "full")
    lines, _, _ = follow(tmp_path / "full", 7)
    assert lines[4].endswith(" update   public.loose a=NULL b=NULL→y c=NULL\n")
    assert lines[6].endswith(' update   public.loose a=2 b="" c=NaN→1\n')


@pytest.mark.parametrize("more", [(), ("--json",)], ids=["lines", "json"])
def test_no_value_can_control_the_terminal(
    tmp_path: Path, follow: Callable[..., Any], more: tuple[str, ...]
) -> None:
    hostile = "\x1b]0;pwned\x07\n\x9b2J\u202e"
    column = streams.Column(hostile, 25, is_key=True)
    capture = tmp_path / "hostile.wire"
    capture.write_bytes(streams.wire([column], [[hostile]]))
    walrow.seal(capture, log=tmp_path / "hostile")
    lines, _, _ = follow(tmp_path / "hostile", 1, *more)
    (line,) = lines
    assert line.removesuffix("\n").isprintable()
    if more:
        assert json.loads(line)["new"] == {hostile: hostile}


def test_it_begins_at_the_end_and_shows_what_is_added(
    log: Path, start: Callable[..., Any]
) -> None:
    with start("follow", log, "--json", text=True) as process:
        # It says that it is there.
        assert process.stderr.readline().startswith("walrow: changes after 0/")
        more = streams.wired(
            streams.begin(1, 1 << 40),
            streams.relation([streams.Column("id", 23, is_key=True)]),
            streams.insert(["7"]),
            streams.commit(1 << 40, (1 << 40) + 8),
        )
        extra = log.parent / "more.wire"
        extra.write_bytes(more)
        walrow.seal(extra, log=log)
        found = json.loads(process.stdout.readline())
        assert found["new"] == {"id": "7"}
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 143
        assert process.stdout.read() == ""


def test_a_closed_pipe_ends_it_though_nothing_more_comes(
    log: Path, start: Callable[..., Any]
) -> None:
    with start("follow", log, "--start", "0/0", text=True) as process:
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 141
        assert process.stderr.read() == "walrow: changes after 0/0; Ctrl-C ends it\n"


def test_a_time_is_printed_with_what_it_means(
    log: Path, start: Callable[..., Any]
) -> None:
    words = ["follow", log, "--start", "2026-11-21T05:46:44+01:00", "--json"]
    with start(*words, text=True) as process:
        assert process.stderr.readline() == (
            "walrow: --start is 2026-11-21T04:46:44.000Z, in the log 0/0\n"
        )
        assert json.loads(process.stdout.readline())["lsn"] == "0/886ABD0"
        process.send_signal(signal.SIGINT)


def test_a_table_that_is_not_there_is_named_at_once(
    log: Path, start: Callable[..., Any]
) -> None:
    with start("follow", log, "--table", "itme", text=True) as process:
        assert process.stderr.readline() == (
            "walrow: waiting for the first change of itme; the log has public.item, "
            "public.stock\n"
        )
        process.send_signal(signal.SIGINT)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "give a LOG, or a server with --dsn"),
        (["LOG", "--dsn", "dbname=x"], "give a LOG, or a server with --dsn"),
        (["LOG", "--where", "id=1"], "choose it with --table"),
        (
            ["LOG", "--table", "item", "--where", "id"],
            "--where id: expected NAME=VALUE",
        ),
        (["LOG", "--publication", "p"], "--publication is for --dsn"),
        (["LOG", "--start", "-5x"], "-5x is not an LSN"),
        (["--dsn", "dbname=x", "--start", "-5m"], "--start needs a LOG"),
        (["--dsn", "dbname=x"], "choose tables with --table"),
    ],
    ids=lambda it: " ".join(it) if isinstance(it, list) else "",
)
def test_words_that_contradict_each_other(
    log: Path, run: Callable[..., Any], words: list[str], text: str
) -> None:
    given = [str(log) if word == "LOG" else word for word in words]
    result = run("follow", *given, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert text in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_where_needs_a_column_of_the_key(log: Path, run: Callable[..., Any]) -> None:
    words = ["--start", "0/0", "--table", "item", "--where", "label=one"]
    result = run("follow", log, *words, "--quiet", text=True)
    assert result.returncode == 2
    assert result.stderr == (
        "walrow: --where label: it is not in the key of public.item, which is id. Only a key "
        "is in all rows: name its columns\n"
    )


def test_lines_are_coloured_and_cut_on_a_terminal(tmp_path: Path, data: Path) -> None:
    walrow.seal(data / "update-toast.text.wire", log=tmp_path / "log")
    lines = [_on_terminal(tmp_path / "log", *more) for more in ((), ("--full",))]
    assert all("\x1b[32m2026" in line for line in lines)
    short, whole = lines
    assert "…" in short
    assert len(whole) > 1000 > len(short)
    assert "…" not in whole


def _on_terminal(log: Path, *more: str) -> str:
    import os
    import pty

    from cli.fork_server import COMMAND

    master, slave = pty.openpty()
    process = subprocess.Popen(  # noqa: S603
        [*COMMAND, "follow", str(log), "--start", "0/0", *more],
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        stdout=slave,
        stderr=subprocess.DEVNULL,
    )
    os.close(slave)
    shown = b""
    deadline = time.monotonic() + 20
    while b"\n" not in shown and time.monotonic() < deadline:
        shown += os.read(master, 65536)
    process.send_signal(signal.SIGINT)
    process.wait(20)
    os.close(master)
    return shown.partition(b"\n")[0].decode()
