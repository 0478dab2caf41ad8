"""Runs the examples as a reader does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from small_spark import JAVA, SMALL

ROOT = Path(__file__).resolve().parent.parent.parent
# `make demo` runs the demo, which uses the modules. Other tests run follow.py and sqlite_target.py.
NOT_SCRIPTS = {
    *("demo.py", "screen.py", "server.py", "small_spark.py"),
    *("stream_to_delta.py", "workload.py"),
    *("airflow_dag.py", "capture.py", "fold.py", "follow.py", "sqlite_target.py"),
}
SCRIPTS = [
    p for p in sorted((ROOT / "examples").glob("*.py")) if p.name not in NOT_SCRIPTS
]
# `make demo` has a session with Delta, too.
SLOW = {"history.py"}
SPARK = {"history.py", "spark_map_in_arrow.py"}
SAID = {
    "history.py": [
        "|update_postimage|    3|",
        "|          delete|    2|",
        "up to 0/",
    ],
    "python_read.py": ["public.item 10", "public.stock", "complete up to 0/"],
    "spark_map_in_arrow.py": ["insert", "update_postimage", "delete"],
}


@pytest.fixture(autouse=True)
def small_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings for a small machine. Spark's files are not in the reader's home."""
    settings = {**SMALL, "spark.sql.warehouse.dir": tmp_path / "warehouse"}
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (tmp_path / "spark-defaults.conf").write_text(text)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))


def run(*command: str | Path, cwd: Path = ROOT) -> str:
    result = subprocess.run(  # noqa: S603
        [str(word) for word in command],
        capture_output=True,
        check=False,
        cwd=cwd,
        env={
            **os.environ,
            "PYTHONWARNINGS": "error::DeprecationWarning:__main__",
            # A session is too short for Java's second compiler.
            "JDK_JAVA_OPTIONS": JAVA,
        },
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "script",
    [
        pytest.param(
            path,
            marks=[
                *([pytest.mark.slow] if path.name in SLOW else []),
                *([pytest.mark.spark] if path.name in SPARK else []),
            ],
        )
        for path in SCRIPTS
    ],
    ids=lambda path: path.name,
)
def test_python_example_runs(script: Path) -> None:
    said = run(sys.executable, script)
    for text in SAID[script.name]:
        assert text in said


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(240)
def test_notebook_runs() -> None:
    notebook = json.loads((ROOT / "examples" / "follow.ipynb").read_text("utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in cells)
    code = "\n".join("".join(cell["source"]) for cell in cells)
    said = run(sys.executable, "-c", code, cwd=ROOT / "examples")
    assert "10 changes, 5 rows, up to 0/" in said


@pytest.mark.builds
@pytest.mark.timeout(600)
def test_rust_example_runs() -> None:
    # As test-rust has built it: `cargo run` would build all dependencies again, because it
    # has another profile and, with one package, other features.
    run(
        *("cargo", "build", "--quiet", "--locked", "--workspace"),
        *("--profile", "test", "--example", "read"),
    )
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    said = run(target / "debug" / "examples" / "read")
    assert "public.item: " in said
    assert "complete up to 0/" in said


def test_every_example_is_known() -> None:
    assert {path.name for path in SCRIPTS} == set(SAID)
