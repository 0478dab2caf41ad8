"""Folds the golden captures as the examples do, and compares with the servers' tables."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import walrow
from fold import fold
from streams import Column, wire

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
def test_fold_gives_what_the_server_held(path: Path) -> None:
    tables = fold(walrow.read(path, profile="text"))
    file = path.with_name(path.name.split(".")[0] + ".tables.json")
    expected: dict[str, Any] = json.loads(file.read_text())
    assert expected
    for name, held in expected.items():
        if name not in tables:
            # The stream has no message about it, so it must be empty.
            assert held["rows"] == [], name
            continue
        columns = [column["name"] for column in held["columns"]]
        assert tables[name].columns == columns
        ours = [[row[column] for column in columns] for row in tables[name].rows()]
        assert Counter(map(tuple, ours)) == Counter(map(tuple, held["rows"])), name


def test_there_are_scenarios() -> None:
    assert len(scenarios()) > 20


class Part:
    """One row of a batch."""

    def __init__(self, batch: walrow.Batch, row: int) -> None:
        self.table, self.relation_oid = batch.table, batch.relation_oid
        self.key_columns = batch.key_columns
        self._records = pa.record_batch(batch).slice(row, 1)

    def __arrow_c_array__(self, requested_schema: Any = None) -> Any:
        return self._records.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize("name", ["rows", "identity-full", "update-toast-full"])
def test_images_of_an_update_may_be_in_different_batches(name: str) -> None:
    path = DATA / "18" / f"{name}.text.wire"
    whole = fold(walrow.read(path))
    batches = list(walrow.read(path))
    parts: list[Any] = [
        Part(batch, row) for batch in batches for row in range(len(batch))
    ]
    apart = fold(parts)
    assert apart.keys() == whole.keys()
    for table, expected in whole.items():
        assert list(apart[table].rows()) == list(expected.rows())


# ------------------------------------------------------------- columns that come and go

INT4 = 23


def versions(*tables: tuple[str, list[str | None]]) -> list[walrow.Batch]:
    """A table's versions: the columns, and the values of the inserted rows."""
    return [
        batch
        for columns, values in tables
        for batch in walrow.read(
            wire([Column(name, INT4) for name in columns.split()], [values])
        )
    ]


def test_renamed_column_is_not_guessed() -> None:
    batches = versions(("id v x", ["1", "7", "0"]), ("id w x", ["2", "8", "0"]))
    with pytest.raises(LookupError) as raised:
        fold(batches)
    assert str(raised.value).startswith(
        "public.t: columns v disappeared and w are new: renamed, or dropped and added? the "
        "stream does not show it; read the table again"
    )
    two = versions(("id v u", ["1", "7", "0"]), ("id w z", ["2", "8", "0"]))
    with pytest.raises(LookupError, match="columns v, u disappeared and w, z are new"):
        fold(two)


def test_renamed_column_keeps_its_values_and_an_added_one_has_none() -> None:
    batches = versions(
        ("id v", ["1", "7"]), ("id w", ["2", "8"]), ("id w x", ["3", "9", "0"])
    )
    found = fold(batches, {"public.t": {"v": "w"}})["public.t"]
    assert found.columns == ["id", "w", "x"]
    assert list(found.rows()) == [
        {"id": 1, "w": 7, "x": None},
        {"id": 2, "w": 8, "x": None},
        {"id": 3, "w": 9, "x": 0},
    ]
    found = fold(batches, {"public.t": {}})["public.t"]
    assert [row["w"] for row in found.rows()] == [None, 8, 9]


def test_added_or_dropped_columns_need_no_rename() -> None:
    batches = versions(
        ("id", ["1"]), ("id v", ["2", "7"]), ("v", ["8"]), ("v w", ["9", "0"])
    )
    assert list(fold(batches)["public.t"].rows()) == [
        {"v": None, "w": None},
        {"v": 7, "w": None},
        {"v": 8, "w": None},
        {"v": 9, "w": 0},
    ]


def test_renamed_column_of_a_server() -> None:
    path = DATA / "18" / "alter-names.text.wire"
    with pytest.raises(
        LookupError, match="thing: columns a disappeared and alpha are new"
    ):
        fold(walrow.read(path))
    tables = fold(walrow.read(path), {"early.thing": {"a": "alpha"}})
    assert list(tables["public.item"].rows()) == [{"id": 3, "alpha": "a", "b": None}]


def test_a_rename_loses_nothing_if_the_table_is_empty() -> None:
    first, second = versions(("id v", ["1", "7"]), ("id w", ["2", "8"]))
    no_row = len(first)
    batches: list[Any] = [Part(first, no_row), second]
    found = fold(batches)["public.t"]
    assert list(found.rows()) == [{"id": 2, "w": 8}]
