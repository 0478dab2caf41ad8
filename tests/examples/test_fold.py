"""Folds the golden captures as the examples do, and compares with the servers' tables."""

import json
import sys
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
            found.append(meta.with_name(meta.name.replace("meta.json", f"{plain}.wire")))
    return found


@pytest.mark.parametrize(
    "path", scenarios(), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_fold_gives_what_the_server_held(path: Path) -> None:
    tables = fold(walrow.read(path, profile="text"))
    held = json.loads(
        path.with_name(path.name.split(".")[0] + ".tables.json").read_text()
    )
    assert _sorted(tables) == {
        name: rows for name, rows in _held(held).items() if rows or name in tables
    }


def test_there_are_scenarios() -> None:
    assert len(scenarios()) > 20
