"""What `import walrow` imports, and what it does not need."""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import walrow
from captures import capture
from walrow import _core
from walrow._log.sealing import SealOptions
from walrow._options import declared
from walrow._receive.options import ReceiveOptions
from walrow._results import Result

OPTIONAL = [
    "pyarrow",
    "pyspark",
    "deltalake",
    "psycopg",
    "polars",
    "duckdb",
    "fsspec",
    "click",
    "rich",
]


def run(code: str) -> str:
    """Runs code in a new interpreter and returns its output."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_import_needs_nothing_else() -> None:
    code = f"""
import sys, walrow
batches = list(walrow.read({str(capture("rows").path)!r}))
assert batches and [b.__arrow_c_array__() for b in batches]
assert list(walrow.frames({str(capture("rows").path)!r}))
print(*[name for name in {OPTIONAL} if name in sys.modules])
"""
    assert run(code) == ""


def test_importing_walrow_imports_no_driver() -> None:
    assert run("import sys, walrow; print('walrow.postgres' in sys.modules)") == "False"
    code = """
import sys, walrow.postgres
walrow.postgres.options()
print("psycopg" in sys.modules)
"""
    assert run(code) == "False"


@pytest.mark.parametrize("name", OPTIONAL)
def test_reading_needs_no_optional_library(name: str) -> None:
    code = f"""
import sys
sys.modules[{name!r}] = None
import walrow
print(sum(batch.num_rows for batch in walrow.read({str(capture("rows").path)!r})))
"""
    assert int(run(code)) > 0


@pytest.mark.parametrize(
    "name", ["postgres.preflight", "postgres.changes", "backup.base_backup"]
)
def test_connections_without_psycopg_say_what_to_install(name: str) -> None:
    code = f"""
import sys
sys.modules["psycopg"] = None
import walrow.postgres, walrow.backup
try:
    walrow.{name}
except ModuleNotFoundError as error:
    print(error, error.name)
"""
    text = "this needs psycopg: pip install 'walrow[postgres]' psycopg"
    assert run(code) == text


def test_url_without_fsspec_says_what_to_install() -> None:
    code = """
import sys
sys.modules["fsspec"] = None
import walrow
try:
    walrow.read("s3://bucket/key")
except walrow.errors.OptionError as error:
    print(error)
"""
    assert "pip install fsspec" in run(code)


@pytest.mark.parametrize("name", ["pyarrow", "pyspark"])
def test_spark_without_its_packages_says_what_to_install(name: str) -> None:
    code = f"""
import sys
sys.modules[{name!r}] = None
import walrow.spark
capture = {str(capture("rows").path)!r}
for call in (
    lambda: walrow.spark.schema(capture, "public.item"),
    lambda: walrow.spark.decode(table="public.item", schema=object()),
):
    try:
        call()
    except ModuleNotFoundError as error:
        print(error, error.name)
"""
    text = f"walrow.spark needs {name}: pip install 'walrow[spark]' {name}"
    assert run(code).splitlines() == [text, text]


@pytest.mark.parametrize("name", ["pyarrow", "deltalake"])
def test_delta_without_its_packages_says_what_to_install(name: str) -> None:
    code = f"""
import sys
sys.modules[{name!r}] = None
import walrow.delta
try:
    walrow.delta.apply_changes("log", table="t", target="delta:/t")
except ModuleNotFoundError as error:
    print(error, error.name)
"""
    assert run(code) == f"walrow.delta needs {name}: pip install 'walrow[delta]' {name}"


def test_public_names_are_there_and_documented() -> None:
    assert walrow.__version__.count(".") == 2
    for name in walrow.__all__:
        value = getattr(walrow, name)
        if name not in {"__version__", "UNCHANGED"}:
            assert value.__doc__, name


def test_the_face_is_small() -> None:
    code = "import walrow; print(*(it for it in dir(walrow) if it[:2] != '__'))"
    assert run(code).split() == [
        *("Batch", "Catalog", "Decoder", "Error", "Log", "Lsn", "Reader", "Schema"),
        *(
            "UNCHANGED",
            "backup",
            "delta",
            "errors",
            "frames",
            "load",
            "log",
            "messages",
            "postgres",
        ),
        *("read", "receive", "schema", "seal", "spark", "tables", "typing"),
    ]
    assert run("from walrow import *; print(read.__module__)") == "walrow._read.reading"


PUBLIC = ("backup", "delta", "errors", "log", "postgres", "spark", "typing")


@pytest.mark.parametrize("name", ["walrow", *(f"walrow.{it}" for it in PUBLIC)])
def test_a_public_module_lists_its_public_names_alone(name: str) -> None:
    module = importlib.import_module(name)
    assert dir(module) == sorted(module.__all__)
    for each in dir(module):
        getattr(module, each)


def test_these_are_the_public_modules() -> None:
    folder = Path(walrow.__file__).parent
    found = {it.stem for it in folder.iterdir() if it.suffix in ("", ".py")}
    private = {it for it in found if it.startswith((".", "_"))}
    assert found - private - {"cli"} == set(PUBLIC)


def test_logs_import_no_driver_and_no_receiver() -> None:
    code = """
import sys, walrow.log
rooms = ["psycopg", "pyarrow", *(it for it in sys.modules if it.startswith("walrow._receive"))]
print(*(it for it in rooms if it in sys.modules))
assert walrow.log.Received.__doc__
print(*(it for it in ("psycopg", "pyarrow") if it in sys.modules))
"""
    assert run(code) == ""


def test_each_result_of_a_public_function_has_a_public_name() -> None:
    modules = [walrow, *(importlib.import_module(f"walrow.{it}") for it in PUBLIC)]
    public = {
        getattr(each, name)
        for each in modules
        for name in dir(each)
        if name != "UNCHANGED"
    }
    classes = {it for it in public if inspect.isclass(it)}
    functions = {it for it in public if inspect.isfunction(it)}
    found: dict[type, str] = {}
    for function in functions:
        found |= dict.fromkeys(results_of(function), function.__qualname__)
    for cls in classes:
        for member in vars(cls).values():
            function = getattr(member, "fget", member)
            if inspect.isfunction(function) and function.__name__[0] != "_":
                found |= dict.fromkeys(results_of(function), function.__qualname__)
        # The parts of a result are results, too.
        fields = inspect.get_annotations(cls) if issubclass(cls, Result) else {}
        for name in itertools.chain.from_iterable(map(names_in, fields.values())):
            found |= dict.fromkeys(meant(name, cls.__module__), cls.__qualname__)
    found |= compiled_results(public)
    # Functions of the caller get some, too.
    for options in (ReceiveOptions, SealOptions):
        for option in declared(options).values():
            for name in names_in(option.written):
                found |= dict.fromkeys(meant(name, options.__module__), option.name)
    missing = {
        it.__qualname__: by
        for it, by in found.items()
        if it not in public and it.__name__[0] != "_"
    }
    assert missing == {}
    # It finds something.
    assert {walrow.typing.BatchIterator, walrow.typing.Message} <= found.keys()
    assert {walrow.log.Received, walrow.log.Status, walrow.log.Mark} <= found.keys()
    assert {walrow.log.Sealed, walrow.typing.Tables, walrow.log.Hold} <= found.keys()


def compiled_results(public: set[object]) -> dict[type, str]:
    """The results of compiled classes, which have their annotations in the stub."""
    stub = ast.parse((Path(walrow.__file__).parent / "_core.pyi").read_text("utf-8"))
    return {
        cls: node.name
        for each in stub.body
        if isinstance(each, ast.ClassDef) and getattr(_core, each.name, None) in public
        for node in ast.walk(each)
        if isinstance(node, ast.FunctionDef) and node.name[0] != "_"
        for name in names_in(ast.unparse(node.returns or node.args))
        for cls in meant(name, "walrow._core")
    }


def results_of(function: Callable[..., Any]) -> set[type]:
    """The classes of walrow that a function returns, or hands to a function of its caller."""
    function = inspect.unwrap(function)
    given = function.__annotations__
    texts = [str(given.get("return"))]
    texts += [str(it) for it in given.values() if "Callable" in str(it)]
    names = itertools.chain.from_iterable(map(names_in, texts))
    return {it for name in names for it in meant(name, function.__module__)}


def names_in(annotation: object) -> list[str]:
    return re.findall(r"\w+", str(annotation))


def meant(name: str, module: str) -> set[type]:
    """The class of walrow that a name means in a module, also if it has it as a type only."""
    found = vars(importlib.import_module(module)).get(name)
    if found is None and (place := of_types(module).get(name)) is not None:
        found = getattr(importlib.import_module(place), name)
    if inspect.isclass(found) and found.__module__.startswith("walrow"):
        return {found}
    return set()


@functools.cache
def of_types(module: str) -> dict[str, str]:
    """The places of the names that a module imports from walrow."""
    source = importlib.import_module(module).__file__
    if source is None or not source.endswith(".py"):
        return {}
    return {
        each.asname or each.name: node.module or ""
        for node in ast.walk(ast.parse(Path(source).read_text("utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("walrow")
        for each in node.names
    }


def test_importing_walrow_imports_no_room() -> None:
    code = """
import sys, walrow
rooms = "_sources", "_read", "_log", "_receive", "_postgres", "_backup", "_apply", "delta", "spark", "cli"
print(*(it for it in sys.modules if it.startswith(tuple(f"walrow.{it}" for it in rooms))))
"""
    assert run(code) == ""


def test_a_name_that_is_missing_is_an_error() -> None:
    for module in (walrow, walrow.postgres):
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            module.nothing  # noqa: B018


def test_a_wheel_has_all_packages() -> None:
    root = Path(__file__).parents[2]
    settings = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))
    packages = {path.parent.name for path in (root / "python").glob("*/__init__.py")}
    assert set(settings["tool"]["maturin"]["python-packages"]) == packages
    assert "pyspark_walrow" in packages
