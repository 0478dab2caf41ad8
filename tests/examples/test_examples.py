"""Runs the examples as a reader does."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
# `make demo` runs the demo, which uses the modules. test_from_a_server.py runs follow.py.
NOT_SCRIPTS = {"demo.py", "capture.py", "fold.py", "follow.py", "server.py"}
SCRIPTS = [
    p for p in sorted((ROOT / "examples").glob("*.py")) if p.name not in NOT_SCRIPTS
]
SAID = {
    "python_read.py": ["public.item 10", "public.stock", "complete up to 0/"],
    "spark_map_in_arrow.py": ["insert", "update_postimage", "delete"],
}


def run(*command: str | Path) -> str:
    result = subprocess.run(  # noqa: S603
        [str(word) for word in command],
        capture_output=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "error::DeprecationWarning:__main__"},
        text=True,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.mark.timeout(240)
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_python_example_runs(script: Path) -> None:
    said = run(sys.executable, script)
    for text in SAID[script.name]:
        assert text in said


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
