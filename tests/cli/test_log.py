"""`walrow seal` and `walrow log`, and other commands with a log."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import walrow
from logs import Publisher, transaction, transactions
from walrow._log.marks import Mark, Why
from walrow._log.needs import write_published
from walrow._log.published import Published
from walrow._log.stopped import read_stopped, stop
from walrow._lsn import Lsn


@pytest.fixture
def log(tmp_path: Path, data: Path) -> Path:
    """A log of seven transactions, in more segments."""
    walrow.seal(data / "rows.text.wire", log=tmp_path / "log", segment_size=1)
    return tmp_path / "log"


def test_seal_reports_and_can_be_repeated(
    tmp_path: Path, data: Path, run: Callable[..., Any]
) -> None:
    command = ["seal", data / "rows.text.wire", "--log", tmp_path / "log"]
    result = run(*command, text=True)
    assert (result.returncode, result.stdout) == (0, "")
    end = walrow.Log(tmp_path / "log").end
    assert result.stderr == (
        f"walrow: 7 transactions, 15 rows in 1 segment; the log ends at {end}\n"
    )
    again = run(*command, text=True)
    assert again.stderr == (
        "walrow: 0 transactions, 0 rows in 0 segments, 7 transactions that it had already; "
        f"the log ends at {end}\n"
    )
    assert run(*command, "--quiet", text=True).stderr == ""


@pytest.mark.parametrize("option", [(), ("--group-access",)], ids=str)
def test_a_log_is_for_its_owner_unless_the_group_is_let_in(
    tmp_path: Path, data: Path, invoke: Callable[..., str], option: tuple[str, ...]
) -> None:
    path = tmp_path / "log"
    invoke("seal", *option, "--log", path, data / "rows.text.wire")
    folder, file = (0o750, 0o640) if option else (0o700, 0o600)
    assert stat.S_IMODE(path.stat().st_mode) == folder
    assert {stat.S_IMODE(each.stat().st_mode) for each in path.iterdir()} == {file}


def test_an_incomplete_capture_is_sealed_up_to_its_last_transaction(
    tmp_path: Path, data: Path, run: Callable[..., Any]
) -> None:
    capture = tmp_path / "cut.wire"
    capture.write_bytes((data / "rows.text.wire").read_bytes()[:-60])
    command = ["seal", "--log", tmp_path / "log", capture]
    assert run(*command).returncode == 3
    assert run(*command, "--unfinished", "ignore").returncode == 0
    assert sum(it.transactions for it in walrow.Log(tmp_path / "log").segments()) == 6


def test_segments_are_listed(log: Path, invoke: Callable[..., str]) -> None:
    segments = walrow.Log(log).segments()
    head, *lines = invoke("log", "list", log).splitlines()
    assert head.split() == [
        "segment", "end", "transactions", "rows", "bytes", "last", "commit",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines] == [it.path.name for it in segments]
    records = [
        json.loads(it) for it in invoke("log", "list", "--json", log).splitlines()
    ]
    assert [record["end"] for record in records] == [str(it.end) for it in segments]
    assert sum(record["rows"] for record in records) == 15
    assert records[0]["commit_times"][0].startswith("2026-11-21T04:46:44")


def test_segments_are_verified_and_removed(
    log: Path, run: Callable[..., Any], invoke: Callable[..., str]
) -> None:
    segments = walrow.Log(log).segments()
    count = len(segments)
    assert invoke("log", "verify", log) == f"{count} segments verified\n"
    middle = next(it for it in segments[3:] if not it.continues)
    removed = segments.index(middle) + 1
    shown = invoke("log", "retain", "--end", middle.end, log)
    assert shown == f"{removed} segments removed\n"
    assert invoke("log", "retain", "--end", middle.end, log) == "0 segments removed\n"
    data = bytearray(segments[-1].path.read_bytes())
    data[5] ^= 1
    segments[-1].path.write_bytes(data)
    result = run("log", "verify", log, text=True)
    assert result.returncode == 1
    assert segments[-1].path.name in result.stderr
    assert "damaged" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_log_is_read_like_its_capture(
    log: Path, data: Path, invoke: Callable[..., str]
) -> None:
    capture = data / "rows.text.wire"
    command = ["decode", "--table", "item", "--to", "-"]
    assert invoke(*command, log) == invoke(*command, capture)
    start = ["--start", walrow.Log(log).segments()[2].end]
    assert invoke(*command, *start, log) == invoke(*command, *start, capture)
    assert invoke("tables", log) == invoke("tables", capture)
    counts = json.loads(invoke("inspect", "--count", "--json", log))
    assert counts["messages"]["I"] == 7
    assert counts["messages"]["M"] >= len(walrow.Log(log).segments())


def test_marks_are_listed_and_accepted(log: Path, run: Callable[..., Any]) -> None:
    (table,) = (it for it in walrow.Log(log).tables() if it.name == "public.item")
    mark = Mark(Why.REWRITTEN, "it was rewritten", Lsn(8))
    write_published(log, Published({}, Lsn(8), None, {table.oid: [mark]}, {}, {}))
    expected = {
        "table": "public.item",
        "code": "rewritten",
        "since": "0/8",
        "until": None,
        "accepted": None,
        "reason": "it was rewritten",
    }
    assert marks_of(log, run) == [expected]
    lines = run("status", log, text=True).stdout.splitlines()
    at = lines.index("table        code       since  until  accepted  reason")
    assert lines[at + 1].split(maxsplit=3) == [
        *("public.item", "rewritten", "0/8", "it was rewritten")
    ]
    refused = run("log", "accept", log, "item", "--reason", "row_filter", text=True)
    assert refused.returncode == 1
    assert "open are: rewritten" in refused.stderr
    done = run("log", "accept", log, "item", "--reason", "rewritten", text=True)
    assert (done.returncode, done.stdout) == (
        0,
        "accepted: it was rewritten (since 0/8)\n",
    )
    (table,) = (it for it in walrow.Log(log).tables() if it.name == "public.item")
    assert table.needs_load is None
    (accepted,) = table.marks
    assert accepted.accepted is not None
    # It is still listed, with the time.
    assert marks_of(log, run) == [
        {**expected, "accepted": accepted.accepted.isoformat()}
    ]
    assert (
        f"  {accepted.accepted:%Y-%m-%dT%H:%M:%S}+00:00  "
        in run("status", log, text=True).stdout
    )
    assert (
        run("log", "accept", log, "item", "--reason", "rewritten", text=True).returncode
        == 1
    )


def marks_of(log: Path, run: Callable[..., Any]) -> Any:
    return json.loads(run("status", log, "--json", text=True).stdout)["marks"]


def test_verify_reports_what_a_receiver_will_repair(
    tmp_path: Path, invoke: Callable[..., str]
) -> None:
    with Publisher(tmp_path / "log") as publisher:
        publisher.publish(*transactions(2))
        publisher.writer.append(transaction(0x3000, ("1", "x")))
        publisher.writer.sync()
    before = {it.name: it.read_bytes() for it in (tmp_path / "log").iterdir()}
    assert invoke("log", "verify", tmp_path / "log").splitlines() == [
        "2 segments verified",
        "the next receiver will publish the transactions of the journal, up to 0/3000",
    ]
    after = {it.name: it.read_bytes() for it in (tmp_path / "log").iterdir()}
    assert after == before


def test_a_log_that_must_not_go_on_is_resumed(
    log: Path, run: Callable[..., Any]
) -> None:
    nothing = run("log", "resume", log, text=True)
    assert (nothing.returncode, nothing.stdout) == (0, "nothing had stopped the log\n")
    stop(log, "it was another server")
    refused = run(
        "receive", "--log", log, "--slot", "s", "--publication", "p", text=True
    )
    assert refused.returncode == 1
    assert f"walrow log resume {log}" in refused.stderr
    done = run("log", "resume", log, text=True)
    assert done.returncode == 0
    assert "had found: it was another server (at " in done.stdout
    assert read_stopped(log) is None
