"""An error of a wrong call names its parts, one call of each kind: see `probes`."""

from __future__ import annotations

import datetime as dt
import inspect
from pathlib import Path
from typing import Any

import pytest

import walrow
from probes import Call, faults_of
from probes.calls import CALLS

pytest.importorskip("pyarrow")
pytest.importorskip("psycopg")

CAPTURE = "tests/data/18/rows.text.wire"
MODULES = ("backup", "delta", "log", "postgres", "spark")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The variables of the calls."""
    folder: Path = tmp_path_factory.mktemp("probes")
    walrow.seal(CAPTURE, log=folder / "log")
    for module in MODULES:
        getattr(walrow, module)
    return {
        "walrow": walrow,
        "CAP": CAPTURE,
        "LOG": str(folder / "log"),
        "log": walrow.Log(folder / "log"),
        "NEW": str(folder / "new"),
        "TARGET": f"delta:{folder / 'target'}",
        "NAIVE": dt.datetime(2024, 1, 1),
    }


@pytest.mark.parametrize("probe", CALLS, ids=lambda probe: probe.call)
def test_an_error_names_its_parts(probe: Call, names: dict[str, Any]) -> None:
    for package in ("deltalake", "pyspark"):
        if f".{package.removeprefix('py').removesuffix('lake')}." in probe.call:
            pytest.importorskip(package)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - its class is compared
        eval(probe.call, dict(names))  # noqa: S307
    error = raised.value
    assert type(error).__name__ == probe.error
    # With its notes, as a traceback shows them.
    message = "; ".join([str(error), *getattr(error, "__notes__", ())])
    assert faults_of(message, probe.names) == [], message
    found = {name: getattr(error, name, None) for name in probe.attributes}
    if "remedy" in found:
        found["remedy"] = error.remedies[0].option  # type: ignore[attr-defined]
    assert found == probe.attributes


def functions() -> list[str]:
    """Every public function, and every method of a log."""
    places = {"walrow": walrow, "log": walrow.Log}
    places |= {f"walrow.{name}": getattr(walrow, name) for name in MODULES}
    return [
        f"{place}.{name}"
        for place, owner in places.items()
        for name in dir(owner)
        if callable(found := getattr(owner, name))
        and not name.startswith("_")
        and not isinstance(found, type)
    ]


@pytest.mark.parametrize("place", functions())
def test_an_unknown_option_is_refused_by_name(
    place: str, names: dict[str, Any]
) -> None:
    function = eval(place, dict(names))  # noqa: S307
    given = [
        {"public.item": "delta:/none"} if it.name == "targets" else None
        for it in inspect.signature(function).parameters.values()
        if it.kind in (it.POSITIONAL_ONLY, it.POSITIONAL_OR_KEYWORD)
        and it.default is it.empty
    ]
    with pytest.raises(TypeError, match="no_such_option"):
        function(*given, no_such_option=1)
