"""Options that would make keys NULL or equal are refused before Spark writes anything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import walrow
from targets.written_log import WrittenLog

if TYPE_CHECKING:
    from pathlib import Path

    from spark.lakes import Lake

pytestmark = pytest.mark.timeout(400)

#: By title: the key's type, two keys, and options under which they would be one, or NULL.
CASES: dict[str, tuple[str, tuple[str, str], dict[str, Any]]] = {
    "equal": (
        "numeric",
        ("0.1", "0.10000000000000001"),
        {"types": {"public.t.id": "double"}},
    ),
    "null": (
        "timestamptz",
        ("infinity", "2024-01-01 00:00:00+00"),
        {"unrepresentable": "null"},
    ),
}


def is_there(lake: Lake) -> bool:
    """Whether the target exists with rows."""
    try:
        return bool(lake.rows())
    except Exception:
        return False


@pytest.mark.parametrize("mode", ["current", "history"])
@pytest.mark.parametrize("title", CASES)
def test_keys_stay_apart_in_spark(
    lake: Lake, tmp_path: Path, title: str, mode: str
) -> None:
    kind, keys, options = CASES[title]
    log = WrittenLog(tmp_path, id=kind, v="text")
    log.insert(*([key, "x"] for key in keys))
    with pytest.raises(Exception, match="id") as caught:
        lake.apply(log, mode=mode, **options)
    if title == "equal":
        assert not any(key in str(caught.value) for key in keys)
        assert isinstance(caught.value, walrow.errors.SchemaError)
    assert not is_there(lake)
    # An unfit value of a current table is found while its first rows are written: then a target without
    # rows is left. As texts, they are two keys, and other columns follow the policy.
    lake = type(lake)(lake.spark, lake.kind, tmp_path)
    others = {**options, "types": {"public.t.id": "string"}}
    assert lake.apply(log, mode=mode, **others).net_rows == 2
    assert len(lake.rows()) == 2
    # What is there is not changed by the refusal of the next changes.
    log.insert(["1" if title == "equal" else "2025-01-01 00:00:00+00", "y"])
    with pytest.raises(walrow.errors.Error):
        lake.apply(log, mode=mode, **options)
    assert len(lake.rows()) == 2
