"""`walrow log retain` and `forget`, and the readers in `walrow status`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import walrow
from logs import published, transactions


@pytest.fixture
def log(tmp_path: Path, data: Path) -> walrow.Log:
    """A log of seven transactions, in more segments."""
    walrow.seal(data / "rows.text.wire", log=tmp_path / "log", segment_size=1)
    return walrow.Log(tmp_path / "log")


def test_old_segments_are_removed(log: walrow.Log, invoke: Callable[..., str]) -> None:
    count = len(log.segments())
    total = sum(it.bytes for it in log.segments())
    assert invoke("log", "retain", "--retain", "900000w", log.path).startswith("0 ")
    assert invoke("log", "retain", "--retain", f"{total}B", log.path).startswith("0 ")
    shown = invoke("log", "retain", "--retain", "1.5d", "--retain", "0.5TB", log.path)
    kept = walrow.Log(log.path).segments()
    removed = total - sum(it.bytes for it in kept)
    assert shown == f"{count - len(kept)} segments, {removed:,} bytes removed\n"
    # The last transaction stays: it may have several segments.
    assert len({it.start for it in kept}) == 1


def test_readers_are_listed_and_hold_segments(
    log: walrow.Log, run: Callable[..., Any], invoke: Callable[..., str]
) -> None:
    middle = next(it for it in log.segments()[3:] if not it.continues).end
    log.register("job", start=middle)
    log.register("\u202e")
    lines = invoke("status", log.path).splitlines()
    head, line, escaped, held = lines[lines.index("") + 1 :]
    assert held.startswith("held back: the reader \\u202e is at 0/0, last used")
    assert head.split() == ["reader", "position", "last", "used", "bytes", "to", "read"]
    assert escaped.split()[0] == "\\u202e"
    assert line.split()[:2] == ["job", str(middle)]
    records = json.loads(invoke("status", "--json", log.path))["readers"]
    assert [it["name"] for it in records] == ["job", "\u202e"]
    assert list(records[0]) == ["name", "position", "used", "bytes"]
    assert records[0]["position"] == str(middle)
    assert records[1]["bytes"] == sum(it.bytes for it in log.segments())

    result = run("log", "retain", "--retain", "0s", log.path, text=True)
    assert result.stdout == "0 segments, 0 bytes removed\n"
    assert "held back: the reader \\u202e is at 0/0, last used" in result.stderr
    refused = run("log", "retain", "--end", middle, log.path, text=True)
    assert (refused.returncode, refused.stdout) == (1, "")
    assert walrow.Log(log.path).segments() == log.segments()
    assert refused.stderr.endswith(
        "; advance the reader \\u202e, forget it with walrow log forget LOG '\\u202e', "
        "or choose --force\n"
    )
    assert invoke("log", "forget", log.path, "\u202e") == ""
    assert run("log", "forget", log.path, "\u202e").returncode == 1
    assert not invoke("log", "retain", "--retain", "0s", log.path).startswith("0 ")
    assert walrow.Log(log.path).start == middle
    shown = invoke("log", "retain", "--retain", "0s", "--forget-after", "0s", log.path)
    assert shown.startswith("forgot the reader job\n")
    assert "removed" in invoke("log", "retain", "--force", "--end", log.end, log.path)


@pytest.mark.parametrize(
    "options",
    [
        ("--retain", "7"),
        ("--retain", "7x"),
        ("--retain", "-1d"),
        ("--retain", "1.5.5d"),
        ("--retain", "7d", "--retain", "8d"),
        ("--retain", "1GB", "--retain", "2GB"),
        ("--forget-after", "50GB"),
        ("--retain", "999999999w"),
        ("--retain", "7d", "--end", "0/1"),
        ("--forget-after", "7d", "--end", "0/1"),
    ],
    ids=" ".join,
)
def test_wrong_amounts_are_refused(
    log: walrow.Log, run: Callable[..., Any], options: tuple[str, ...]
) -> None:
    result = run("log", "retain", *options, log.path, text=True)
    assert result.returncode == 2
    assert "Traceback" not in result.stderr


def test_small_segments_are_merged(tmp_path: Path, invoke: Callable[..., str]) -> None:
    path = published(tmp_path / "log", transactions()).path
    read = ["decode", "--table", "t", "--to", "-"]
    before = invoke(*read, path)
    shown = invoke("log", "compact", path)
    merged, last = walrow.Log(path).segments()
    assert shown == f"5 segments merged into 1, {merged.bytes:,} bytes copied\n"
    assert (merged.path.name, last.part) == (f"{0:016X}-1000000.wire.zst", 0)
    assert invoke(*read, path) == before
    assert invoke("log", "compact", path).startswith("0 segments merged")
    assert "-1000000.wire.zst" in invoke("log", "list", path)


def test_rows_and_columns_are_erased(
    tmp_path: Path, run: Callable[..., Any], invoke: Callable[..., str]
) -> None:
    log = published(tmp_path / "log", transactions())
    path = log.path
    log.register("slow")
    rewrite = ["log", "rewrite", path, "--table", "public.t"]
    keys = ["--delete-key", '{"id": 301}', "--delete-key", '{"id": "1"}']
    refused = run(*rewrite, *keys, text=True)
    assert refused.returncode == 1
    assert "the reader slow is at 0/0" in refused.stderr
    shown = invoke(*rewrite, *keys, "--force")
    assert shown == "1 change erased, 1 segment of 1 rewritten\n"
    assert invoke(*rewrite, "--drop-column", "v") == "6 segments of 6 rewritten\n"
    lines = invoke("decode", "--table", "t", "--to", "-", path).splitlines()
    rows = [json.loads(line) for line in lines]
    assert len(rows) == 17
    assert "v" not in rows[0]
    for key in ("secret", "[5]", '"secret"', "{}", "[" * 100_000):
        result = run(*rewrite, "--delete-key", key, text=True)
        assert result.returncode == 2
        assert "secret" not in result.stderr
    result = run(*rewrite, "--drop-column", "id", text=True)
    assert result.returncode == 1
    assert "replica identity" in result.stderr
    assert run(*rewrite).returncode == 2
