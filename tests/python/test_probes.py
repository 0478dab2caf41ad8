"""The message of each wrong call names the problem, the place and the remedy."""

from __future__ import annotations

import ast
import datetime as dt
from typing import TYPE_CHECKING, Any

import pytest

import walrow
from probes import Probe, faults_of
from probes.calls import CALLS

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("pyarrow")
pytest.importorskip("psycopg")

CAPTURE = "tests/data/18/rows.text.wire"


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The variables of the calls."""
    folder: Path = tmp_path_factory.mktemp("probes")
    walrow.seal(CAPTURE, log=folder / "log")
    for module in ("backup", "delta", "log", "postgres", "spark"):
        getattr(walrow, module)
    return {
        "walrow": walrow,
        "CAP": CAPTURE,
        "LOG": str(folder / "log"),
        "log": walrow.Log(folder / "log"),
        "FOLDER": str(folder),
        "NEW": str(folder / "new"),
        "TARGET": f"delta:{folder / 'target'}",
        "SCHEMA": walrow.schema(CAPTURE, "item"),
        "NAIVE": dt.datetime(2024, 1, 1),
    }


def message_of(error: BaseException) -> str:
    """The message with its notes, as a traceback shows them."""
    return "; ".join([str(error), *getattr(error, "__notes__", ())])


@pytest.mark.parametrize("probe", CALLS, ids=lambda probe: probe.call)
def test_a_message_has_all_parts(probe: Probe, names: dict[str, Any]) -> None:
    for package in ("deltalake", "pyspark"):
        if f".{package.removeprefix('py').removesuffix('lake')}." in probe.call:
            pytest.importorskip(package)
    kinds = (walrow.Error, TypeError, ValueError, OSError)
    with pytest.raises(kinds) as raised:
        eval(probe.call, dict(names))  # noqa: S307
    assert faults_of(message_of(raised.value), probe) == [], message_of(raised.value)


def test_every_public_function_is_probed() -> None:
    public = {
        f"{module.__name__}.{name}"
        for module in (
            walrow,
            walrow.backup,
            walrow.delta,
            walrow.log,
            walrow.postgres,
            walrow.spark,
        )
        for name in module.__all__
        if callable(function := getattr(module, name))
        and not isinstance(function, type)
    }
    probed = {
        ast.unparse(node.func)
        for probe in CALLS
        for node in ast.walk(ast.parse(probe.call))
        if isinstance(node, ast.Call)
    }
    # These check no value, or take any exception.
    assert public - probed == {
        "walrow.backup.receive_wal",
        "walrow.backup.verify_against",
        "walrow.backup.verify_manifest",
        "walrow.postgres.ddl_trigger",
        "walrow.postgres.deserves_reconnect",
        "walrow.postgres.options",
        "walrow.spark.apply_all",
    }


def test_every_method_of_a_log_with_arguments_is_probed() -> None:
    named = {probe.call.partition("log.")[2].partition("(")[0] for probe in CALLS}
    methods = {
        name
        for name, each in vars(walrow.Log).items()
        if callable(each) and not name.startswith("_")
    }
    no_arguments = {"readers", "resume", "segments", "tables"}
    assert methods - named == no_arguments | {"read_object", "verify"}
