"""Side tables, envelopes and `--start` on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import walrow
from streams import format_lsn

pa = pytest.importorskip("pyarrow")
import pyarrow.parquet as pq  # noqa: E402


@pytest.mark.parametrize("name", ["transactions", "messages", "relations", "truncates"])
def test_side_tables_are_lines_and_files(
    data: Path, tmp_path: Path, invoke: Any, name: str
) -> None:
    capture = data / ("messages" if name == "messages" else "truncate")
    capture = capture.with_suffix(".text.wire")
    table = f"walrow.{name}"
    wanted = pa.table(walrow.read(capture, table=table))
    assert wanted.num_rows
    lines = invoke("decode", capture, "--table", table).splitlines()
    assert [json.loads(line)["_table"] for line in lines] == [table] * wanted.num_rows
    path = tmp_path / "side.parquet"
    invoke("decode", capture, "--table", table, "--to", path)
    assert pq.read_table(path).to_pylist() == wanted.to_pylist()


def test_all_tables_go_to_one_file_as_envelopes(
    data: Path, tmp_path: Path, invoke: Any
) -> None:
    capture = data / "rows.text.wire"
    wanted = pa.table(walrow.read(capture, envelope=True)).to_pylist()
    path = tmp_path / "all.parquet"
    invoke("decode", capture, "--envelope", "--to", path)
    assert pq.read_table(path).to_pylist() == wanted
    first = json.loads(invoke("decode", capture, "--envelope").splitlines()[0])
    assert first["table_name"] == "item"
    assert first["key"] == {"id": "1"}
    assert first["data"]["label"] == "one"


def test_start_skips_delivered_transactions(data: Path, invoke: Any, run: Any) -> None:
    capture = data / "rows.text.wire"
    ends = pa.table(walrow.read(capture, table="walrow.transactions"))["end_lsn"]
    start = ends[len(ends) // 2].as_py()
    text = format_lsn(start)
    lines = invoke("decode", capture, "--start", text).splitlines()
    assert 0 < len(lines) < 17
    assert all(json.loads(line)["_commit_lsn"] >= start for line in lines)
    assert run("decode", capture, "--start", "nowhere").returncode == 2


def test_captures_that_start_late_say_so(data: Path, tmp_path: Path, run: Any) -> None:
    frames = list(walrow.frames(data / "two-phase.text.wire"))
    kinds = [frame.message.kind if frame.message else "" for frame in frames]
    late = tmp_path / "late.wire"
    # The session with its relation, but without its first prepared transaction.
    relation = frames[kinds.index("R")]
    after = [frames[0], relation, *frames[kinds.index("P") + 1 :]]
    late.write_bytes(b"".join(frame.to_bytes() for frame in after))
    taken = run("decode", late)
    assert taken.returncode == 0
    assert b"1 COMMIT PREPARED came without a prepared transaction" in taken.stderr
    # With `--start`, the stream begins later than its slot, so rows are missing.
    refused = run("decode", late, "--start", "0/1")
    assert refused.returncode == 1
    assert b"--late-start" in refused.stderr
    taken = run("decode", late, "--late-start", "--table", "walrow.transactions")
    assert taken.returncode == 0, taken.stderr
    # All transactions except the one that was prepared first.
    assert taken.stdout.count(b"walrow.transactions") == 4
