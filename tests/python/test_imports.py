"""What `import walrow` imports, and what it does not need."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import walrow
from captures import capture

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
