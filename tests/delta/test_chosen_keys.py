"""Keys that the user has chosen, and that identify no row: an error in every mode, and no commit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deltalake
import pytest

import walrow
import walrow.delta
from targets.written_log import WrittenLog
from walrow._apply import keys

SECRET = "4711 is a value"  # noqa: S105 - it must not be in errors
MODES = ("current", "history")
IDENTITIES = ("f", "n")
#: By the code of the error: the rows of a load.
BAD: dict[str, Sequence[Sequence[str]]] = {
    "duplicate_key": (["1", SECRET, "1"], ["2", "b", "2"], ["3", SECRET, "3"]),
    "null_key": (["1", "a", "1"], ["2", "\\N", "2"]),
}
GOOD = (["1", "a", "1"], ["2", "b", "2"], ["3", "c", "3"])


class Chosen(WrittenLog):
    """A table without a unique index, and a target that takes the column `v` for its key."""

    def __init__(self, folder: Path, identity: str, mode: str) -> None:
        super().__init__(folder, identity, id="int", v="text", n="int")
        self.mode = mode

    def apply(self, **options: Any) -> Any:
        return super().apply(**{"mode": self.mode, "keys": ["v"]} | options)

    def refused(self, code: str) -> None:
        """A refusal that commits nothing."""
        before = self.commits()
        with pytest.raises(walrow.errors.ApplyError) as caught:
            self.apply()
        error = caught.value
        assert (error.code, error.table) == (code, "public.t")
        assert error.remedies == (walrow.errors.Remedy("keys", code="[...]"),)
        assert SECRET not in str(error)
        assert self.commits() == before

    def commits(self) -> list[dict[str, Any]]:
        """The commits. A target may have been created, without rows and without a record."""
        place = self.target.partition(":")[2]
        if not deltalake.DeltaTable.is_deltatable(place):
            return []
        found = deltalake.DeltaTable(place).history()
        return [it for it in found if it["operation"] != "CREATE TABLE"]


@pytest.fixture(params=[8, 1 << 22], ids=["one part", "parts"], autouse=True)
def parts(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are compared in memory, and in files."""
    monkeypatch.setattr(keys, "_GROWTH", request.param)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("identity", IDENTITIES)
@pytest.mark.parametrize("code", BAD)
def test_loads(tmp_path: Path, code: str, identity: str, mode: str) -> None:
    first = Chosen(tmp_path / "first", identity, mode)
    first.load(*BAD[code])
    first.refused(code)
    # The same target takes another key.
    assert first.apply(keys=["id"]).net_rows == len(BAD[code])
    later = Chosen(tmp_path / "later", identity, mode)
    later.load(*GOOD)
    assert later.apply().net_rows == 3
    later.load(*BAD[code])
    later.refused(code)
    later.load(*GOOD)
    if mode == "current":
        assert later.apply().net_rows == 3
        assert [row[:3] for row in later.rows()] == [
            (int(a), b, int(c)) for a, b, c in GOOD
        ]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("code", BAD)
def test_loads_with_changes_after_them(tmp_path: Path, code: str, mode: str) -> None:
    log = Chosen(tmp_path, "f", mode)
    log.load(*BAD[code])
    log.insert(["9", "z", "9"])
    log.refused(code)


@pytest.mark.parametrize(
    ("identity", "mode"), [("f", "current"), ("f", "history"), ("n", "history")]
)
@pytest.mark.parametrize("value", [None, SECRET])
def test_changes(tmp_path: Path, value: str | None, identity: str, mode: str) -> None:
    log = Chosen(tmp_path, identity, mode)
    log.insert(["1", "a", "1"])
    log.apply()
    log.insert(["2", value, "2"], ["3", value, "3"])
    log.refused("null_key" if value is None else "duplicate_key")


def test_keys_of_several_columns_and_other_types(tmp_path: Path) -> None:
    kinds = {"f": "float", "t": "timestamptz", "n": "numeric(38,2)"}
    same = ["NaN", "9999-12-31 00:00:00+00", "-1.50"]
    for mode in MODES:
        log = WrittenLog(tmp_path / mode, "f", **kinds)
        given: dict[str, Any] = {"mode": mode, "keys": list(kinds)}
        log.load(same, ["NaN", "9999-12-31 00:00:00+00", "1.50"])
        assert log.apply(**given).net_rows == 2
        log.load(same, ["0", *same[1:]], ["-0", *same[1:]])
        with pytest.raises(walrow.errors.ApplyError) as caught:
            log.apply(**given)
        assert caught.value.code == "duplicate_key"
        log.load(same, same)
        with pytest.raises(walrow.errors.ApplyError) as caught:
            log.apply(**given)
        assert caught.value.code == "duplicate_key"


def test_the_servers_own_keys_are_not_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(keys, "key_values", never)
    for mode in MODES:
        log = WrittenLog(tmp_path / mode, id="int", v="text")
        log.load(["1", "a"], ["2", "a"])
        assert log.apply(mode=mode, keys=["id"]).net_rows == 2


def test_changes_have_no_key(tmp_path: Path) -> None:
    log = WrittenLog(tmp_path, "n", id="int", v="text")
    log.load(["1", "a"], ["1", "a"])
    assert log.apply(mode="changes").net_rows == 3
