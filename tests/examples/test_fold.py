"""Folds the golden captures as the examples do, and compares with the servers' tables."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import walrow

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from fold import fold  # noqa: E402

DATA = ROOT / "tests" / "data"


def scenarios() -> list[Path]:
    """Captures in plain protocol 1 whose streams alone give the tables."""
    found = []
    for meta in sorted(DATA.glob("[0-9]*/*.meta.json")):
        told = json.loads(meta.read_text())
        plain = "v1" if "v1" in told["records"] else "text"
        options = told["records"].get(plain, {})
        if told["foldable"] and options.get("proto_version") == 1:
            found.append(
                meta.with_name(meta.name.replace("meta.json", f"{plain}.wire"))
            )
    return found


@pytest.mark.parametrize(
    "path", scenarios(), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_fold_gives_what_the_server_held(path: Path) -> None:
    tables = fold(walrow.read(path, profile="text"))
    file = path.with_name(path.name.split(".")[0] + ".tables.json")
    expected: dict[str, Any] = json.loads(file.read_text())
    assert expected
    for name, held in expected.items():
        if name not in tables:
            # Nothing was ever sent of it, so it must be empty.
            assert held["rows"] == [], name
            continue
        columns = [column["name"] for column in held["columns"]]
        assert tables[name].columns == columns
        ours = [[row[column] for column in columns] for row in tables[name].rows()]
        assert Counter(map(tuple, ours)) == Counter(map(tuple, held["rows"])), name


def test_there_are_scenarios() -> None:
    assert len(scenarios()) > 20
