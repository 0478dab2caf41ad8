"""Folds a golden capture as the example does, and runs the code of docs/fold.md."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import walrow
from fold import fold
from streams import Column, begin, commit, insert, relation, wired

ROOT = Path(__file__).resolve().parent.parent.parent

DATA = ROOT / "tests" / "data" / "18"


def test_the_example_gives_what_the_server_held(tmp_path: Path) -> None:
    """`tests/log/test_state.py` compares all captures."""
    walrow.seal(DATA / "rows.text.wire", log=tmp_path / "log")
    tables = fold(tmp_path / "log", profile="text")
    expected: dict[str, Any] = json.loads((DATA / "rows.tables.json").read_text())
    assert tables.keys() == expected.keys()
    for name, held in expected.items():
        found = tables[name].to_pyarrow()
        assert found.column_names == [column["name"] for column in held["columns"]]
        ours = Counter(tuple(row.values()) for row in found.to_pylist())
        assert ours == Counter(map(tuple, held["rows"])), name


# --------------------------------------------------------------------- docs/fold.md

PAGE = (ROOT / "docs/fold.md").read_text()
BLOCKS = re.findall(r"^```(sh|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_every_block_of_the_page_runs(tmp_path: Path) -> None:
    columns = [Column("id", 23, is_key=True), Column("total", 1700)]
    orders = relation(columns, name="orders")
    rows = insert(["1", "2.50"]), insert(["2", None])
    walrow.seal(wired(begin(), orders, *rows, commit()), log=tmp_path / "log")
    programs = [str(Path(sys.executable).parent), os.environ["PATH"]]
    assert len(BLOCKS) == 3
    said = []
    for language, code in BLOCKS:
        words = [sys.executable, "-c"] if language == "python" else ["sh", "-eu", "-c"]
        result = subprocess.run(  # noqa: S603
            [*words, code],
            capture_output=True,
            check=False,
            cwd=tmp_path,
            env={**os.environ, "PATH": os.pathsep.join(programs)},
            text=True,
        )
        assert result.returncode == 0, result.stdout + result.stderr
        said.append(result.stdout + result.stderr)
    assert said == ["2 rows as of 0/1008\n", "walrow: 2 rows as of 0/1008\n", ""]
    assert (tmp_path / "orders.parquet").exists()


def test_the_page_has_every_gap() -> None:
    """Each error of a state's gap is on the page, in its words."""
    error = (ROOT / "crates/walrow-stream/src/net/error.rs").read_text()
    (kinds,) = re.findall(
        r"^pub enum Gap \{\n(.*?)^\}", error, re.MULTILINE | re.DOTALL
    )
    found = set(re.findall(r"^    ([A-Z]\w+)(?:,| \{)", kinds, re.MULTILINE))
    # The gaps of a target are in net.md.
    of_targets = set(re.findall(r"Self::(\w+)[^\n]* => \"\w+\"", error)) | {"Key"}
    assert of_targets < found
    count = len(found - of_targets)
    (table,) = re.findall(r"\| the error says .*?\n\n", PAGE, re.DOTALL)
    assert table.count("\n| ") == count
    for words in (
        "a changed row is not there",
        "it is not known which row was changed",
    ):
        assert words in table
        assert words in error
