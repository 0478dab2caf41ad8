"""Results are frozen values with names, which show themselves as JSON. Lists of them are tables."""

from __future__ import annotations

import dataclasses
import json
import pickle
from pathlib import Path
from typing import Any

import pytest

import walrow
from captures import capture
from walrow import backup, delta, errors, log, postgres, spark
from walrow._results import Result, Results, as_json

FACES = (backup, delta, log, postgres, spark)


def public_results() -> list[type]:
    """The classes of the public modules that are values of a function."""
    names = ((module, name) for module in FACES for name in module.__all__)
    found = [getattr(module, name) for module, name in names]
    return [it for it in found if isinstance(it, type) and dataclasses.is_dataclass(it)]


def test_no_public_value_is_a_tuple() -> None:
    for module in FACES:
        for name in module.__all__:
            each = getattr(module, name)
            is_fields = isinstance(each, type) and hasattr(each, "_fields")
            assert not is_fields, name
    # An argument of errors.
    assert hasattr(errors.Remedy, "_fields")


@pytest.mark.parametrize("cls", public_results(), ids=lambda it: it.__name__)
def test_a_result_is_frozen(cls: Any) -> None:
    assert cls.__dataclass_params__.frozen
    if issubclass(cls, Result):
        assert "__dict__" not in dir(cls)


def sealed(folder: Path) -> walrow.log.Log:
    walrow.seal(capture("rows").path, log=folder)
    return walrow.Log(folder)


def test_what_a_log_has_is_json_and_tables(tmp_path: Path) -> None:
    opened = sealed(tmp_path)
    for results, what in ((opened.segments(), "segment"), (opened.tables(), "table")):
        assert isinstance(results, Results)
        assert results
        text = results._repr_html_()
        assert text.startswith(f"<table><caption>{len(results)} {what}")
        for each in results:
            assert pickle.loads(pickle.dumps(each)) == each
            found = each.to_dict()
            assert json.loads(json.dumps(found)) == found
            assert [*found] == [it.name for it in dataclasses.fields(each)]
            assert not hasattr(each, "_repr_html_")
        assert text.count("<tr>") == len(results) + 1
    first = opened.segments()[0].to_dict()
    assert first["end"] == str(opened.end)
    assert first["path"] == str(opened.segments()[0].path)
    assert first["commit_times"] == sorted(first["commit_times"])


def test_names_are_text_in_html() -> None:
    found = postgres.Finding("<b>", "note", "<script>alert(1)</script>")
    assert "<script>" not in postgres.Preflight([found])._repr_html_()


def test_values_of_json() -> None:
    given = {"a": (walrow.Lsn(16), Path("/x"), b"\xff", None, 1.5, True)}
    assert as_json(given) == {"a": ["0/10", "/x", "\\xff", None, 1.5, True]}
    # The text of an error that is not walrow's may have values of rows.
    failed = {("s", "t"): errors.ApplyError("other"), "u": ValueError("secret")}
    assert as_json(failed) == {"s.t": "other", "u": "ValueError"}
    assert Results([], "slot")._repr_html_().startswith("<table><caption>0 slots")
