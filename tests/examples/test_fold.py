"""Folds the golden captures as the example does, and compares with the servers' tables."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import walrow
from fold import fold
from streams import Column, begin, commit, insert, relation, wired

ROOT = Path(__file__).resolve().parent.parent.parent

DATA = ROOT / "tests" / "data"


def scenarios() -> list[Path]:
    """Captures in plain protocol 1 that contain everything that the tables need."""
    found = []
    for meta in sorted(DATA.glob("[0-9]*/*.meta.json")):
        described = json.loads(meta.read_text())
        plain = "v1" if "v1" in described["records"] else "text"
        options = described["records"].get(plain, {})
        if described["foldable"] and options.get("proto_version") == 1:
            found.append(
                meta.with_name(meta.name.replace("meta.json", f"{plain}.wire"))
            )
    return found


@pytest.mark.parametrize(
    "path", scenarios(), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_fold_gives_what_the_server_held(path: Path, tmp_path: Path) -> None:
    walrow.seal(path, log=tmp_path / "log")
    tables = fold(tmp_path / "log", profile="text")
    file = path.with_name(path.name.split(".")[0] + ".tables.json")
    expected: dict[str, Any] = json.loads(file.read_text())
    assert expected
    for name, held in expected.items():
        if name not in tables:
            # The stream has no message about it, so it must be empty.
            assert held["rows"] == [], name
            continue
        if path.name.startswith(("alter-columns", "alter-transaction")):
            with pytest.raises(
                walrow.errors.LogError, match="type of column b changed"
            ):
                list(tables[name])
            continue
        found = tables[name].to_pyarrow()
        assert found.column_names == [column["name"] for column in held["columns"]]
        ours = Counter(tuple(row.values()) for row in found.to_pylist())
        assert ours == Counter(map(tuple, held["rows"])), name


def test_there_are_scenarios() -> None:
    assert len(scenarios()) > 20


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
