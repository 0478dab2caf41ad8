"""`walrow state`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import walrow

pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture
def log(tmp_path: Path, data: Path) -> Path:
    """A log of seven transactions."""
    walrow.seal(data / "rows.text.wire", log=tmp_path / "log", segment_size=1)
    return tmp_path / "log"


def test_json_lines_are_the_rows(log: Path, run: Callable[..., Any]) -> None:
    result = run("state", log, "--table", "item", text=True)
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"_table": "public.item", "id": 1, "label": "uno", "amount": "1.50"},
        {"_table": "public.item", "id": 20, "label": None, "amount": None},
    ]
    end = walrow.Log(log).end
    assert result.stderr == f"walrow: 2 rows as of {end}\n"
    assert run("state", log, "--table", "item", "--quiet", text=True).stderr == ""


def test_a_file_has_the_rows_as_of_a_point(
    log: Path, tmp_path: Path, invoke: Callable[..., str]
) -> None:
    with pytest.raises(walrow.errors.LogError) as raised:
        walrow.Log(log).state("item", as_of=0)
    first = raised.value.lsn
    out = tmp_path / "item.parquet"
    options = ("--as-of", str(first), "--column", "label", "--profile", "text")
    invoke("state", log, "--table", "public.item", *options, "--to", out)
    state = walrow.Log(log).state("item", as_of=first, columns=["label"])
    found = pq.read_table(out)
    assert found.column_names == ["label"]
    assert found.to_pylist() == state.to_pyarrow().to_pylist()
    item = next(it for it in walrow.Log(log).tables() if it.name == "public.item")
    invoke("state", log, "--table", str(item.oid), "--to", tmp_path / "all.arrow")
    assert (tmp_path / "all.arrow").exists()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--table", "none"), "the log does not have table none, only public.item"),
        (("--table", "item", "--as-of", "0/1"), "its rows are known from "),
        (
            ("--table", "item", "--as-of", "2001-01-01T00:00Z"),
            "its rows are known from ",
        ),
    ],
    ids=str,
)
def test_what_there_is_not_is_an_error(
    log: Path,
    tmp_path: Path,
    run: Callable[..., Any],
    options: tuple[str, ...],
    text: str,
) -> None:
    out = tmp_path / "none.parquet"
    result = run("state", log, *options, "--to", out, text=True)
    assert result.returncode == 1
    assert text in result.stderr
    assert not out.exists()
