"""Options that would make keys NULL or equal, wherever rows are found by keys."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import walrow
from targets.written_log import WrittenLog


def _net(log: WrittenLog, **options: Any) -> int:
    return int(walrow.Log(log.path).net("public.t", **options).to_pyarrow().num_rows)


def _state(log: WrittenLog, **options: Any) -> int:
    return int(walrow.Log(log.path).state("public.t", **options).to_pyarrow().num_rows)


def _target(mode: str) -> Callable[..., Any]:
    def apply(log: WrittenLog, **options: Any) -> int:
        return int(log.apply(mode=mode, **options).net_rows)

    return apply


KEYED = {
    "current": _target("current"),
    "history": _target("history"),
    "net": _net,
    "state": _state,
}
CLOSE = ("0.1", "0.10000000000000001")
#: By title: the key's type, two keys, and options under which they would be one, or NULL.
EQUAL: dict[str, tuple[str, tuple[str, str], dict[str, Any]]] = {
    "by column": ("numeric", CLOSE, {"types": {"public.t.id": "double"}}),
    "by type": ("numeric", CLOSE, {"types": {"numeric": "double"}}),
    "bytes": ("int", ("1234", "825373492"), {"types": {"id": "binary"}}),
}
INFINITE = ("infinity", "2024-01-01 00:00:00+00")
NULL: dict[str, dict[str, Any]] = {
    "for all": {"unrepresentable": "null"},
    "by column": {"unrepresentable": {"public.t.id": "null"}},
    "by type": {"unrepresentable": {"timestamptz": "null"}},
}


@pytest.mark.parametrize("loads", [False, True], ids=["changes", "load"])
@pytest.mark.parametrize("title", EQUAL)
def test_types_that_make_keys_equal(
    tmp_path: Path,
    title: str,
    loads: bool,  # noqa: FBT001 - a parameter
) -> None:
    kind, keys, options = EQUAL[title]
    log = WrittenLog(tmp_path, id=kind, v="text")
    rows = [[key, "x"] for key in keys]
    log.load(*rows) if loads else log.insert(*rows)
    for read in KEYED.values():
        with pytest.raises(walrow.errors.SchemaError) as caught:
            read(log, **options)
        assert (caught.value.table, caught.value.column) == ("public.t", "id")
        assert not any(key in str(caught.value) for key in keys)
        assert not (tmp_path / "t").exists()
    # The text holds every key, and changes are not found by keys.
    assert _state(log, types={"id": "string"}) == 2
    assert log.apply(types={"id": "string"}).net_rows == 2
    changes = f"delta:{tmp_path}/changes"
    assert log.apply(mode="changes", target=changes, **options).net_rows == 2 + loads


@pytest.mark.parametrize("loads", [False, True], ids=["changes", "load"])
@pytest.mark.parametrize("title", NULL)
def test_a_key_never_becomes_null(
    tmp_path: Path,
    title: str,
    loads: bool,  # noqa: FBT001 - a parameter
) -> None:
    log = WrittenLog(tmp_path, id="timestamptz", at="timestamptz")
    rows = [[key, "infinity"] for key in INFINITE]
    log.load(*rows) if loads else log.insert(*rows)
    for read in KEYED.values():
        with pytest.raises(walrow.errors.UnrepresentableError) as caught:
            read(log, **NULL[title])
        remedy = walrow.errors.Remedy("types", "public.t.id", "string")
        assert caught.value.remedies == (remedy,)
    # Other columns become NULL.
    others = NULL["for all"] | {"types": {"id": "string"}}
    assert _state(log, **others) == 2
    log.target = f"delta:{tmp_path}/others"
    assert log.apply(**others).net_rows == 2
    assert log.rows("at") == [(None,), (None,)]
    changes = f"delta:{tmp_path}/changes"
    options = NULL["for all"]
    assert log.apply(mode="changes", target=changes, **options).net_rows == 2 + loads
